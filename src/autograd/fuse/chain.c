/* The kernel of a chain, written from its operators' expressions. */
#include "autograd/fuse/chain.h"

#include "autograd/op_common/map.h"
#include "base/text.h"

/* One launch being put together. */
typedef struct writer {
    const charl_enqueue *e;
    const charl_chain *c;
    charl__text operands, body, extra;
    charl_launch l;
    int n_args, n_numbers, n_draws;
} writer;

int charl__chain_args(const charl_chain *c, int n_in, int n_out)
{
    int args = n_in + n_out + 2;
    bool draws = false;

    for (int i = 0; i < n_in; i++) {
        args += c->count[i] < c->n ? 2 : 0;
    }
    for (int k = 0; k < c->n_steps; k++) {
        args += c->step[k].x.numbers + (c->step[k].x.draws ? 2 : 0);
        draws = draws || c->step[k].x.draws;
    }
    return args + (draws ? 1 : 0);
}

static charl_status write_input(writer *w, int i)
{
    charl_status st = CHARL_OK;
    charl_tensor *x = w->e->in[i];

    w->l.args[w->n_args++] = charl__in(x);
    CHARL_TRY(charl__text_printf(&w->operands, "global const %s *x%d, ulong x%d_at, ",
                                 charl__kernel_type(x->dtype), i, i));
    if (w->c->count[i] == w->c->n) {
        CHARL_TRY(charl__text_printf(
            &w->body, "const charl_real v%d = charl_read(WHOLE > 0, x%d + x%d_at + i, left); ", i,
            i, i));
        goto cleanup;
    }
    w->l.args[w->n_args++] = charl__i64(w->c->inner[i]);
    w->l.args[w->n_args++] = charl__i64(w->c->count[i]);
    CHARL_TRY(charl__text_printf(&w->operands, "ulong x%d_inner, ulong x%d_count, ", i, i));
    CHARL_TRY(charl__text_printf(
        &w->body, "const charl_real v%d = broadcast(x%d + x%d_at, i, x%d_inner, x%d_count); ", i, i,
        i, i, i));
cleanup:
    return st;
}

static charl_status write_numbers(writer *w, const charl_expr *x)
{
    charl_status st = CHARL_OK;
    const float value[2] = {x->p, x->q};

    for (int j = 0; j < x->numbers; j++) {
        CHARL_TRY(charl__text_printf(&w->operands, "float n%d, ", w->n_numbers));
        CHARL_TRY(charl__text_printf(&w->body, "const float %c = n%d; ", 'p' + j, w->n_numbers));
        w->l.args[w->n_args++] = charl__f32(value[j]);
        w->n_numbers++;
    }
cleanup:
    return st;
}

static charl_status write_draw(writer *w, const charl_expr *x)
{
    charl_status st = CHARL_OK;
    const charl_slices *s = w->e->slices;
    const int k = w->n_draws++;

    if (k == 0) {
        CHARL_TRY(charl__text_printf(&w->operands, "global const uint *record, ulong record_at, "));
        w->l.args[w->n_args++] = charl__in(w->e->step);
    }
    CHARL_TRY(charl__text_printf(&w->operands, "ulong key%d, ulong base%d, ", k, k));
    CHARL_TRY(charl__text_printf(&w->body, "DRAW(%d, key%d, base%d); ", k, k, k));
    w->l.args[w->n_args++] = charl__i64((int64_t)x->key);
    w->l.args[w->n_args++] = charl__i64(x->batched ? w->c->n / s->count * s->first : 0);
cleanup:
    return st;
}

static charl_status write_step(writer *w, int k)
{
    charl_status st = CHARL_OK;
    const charl_chain_step *s = &w->c->step[k];

    if (s->x.extra) {
        CHARL_TRY(charl__text_printf(&w->extra, "%s", s->x.extra));
    }
    CHARL_TRY(charl__text_printf(&w->body, "charl_real t%d; { ", k));
    for (int i = 0; i < s->n_in; i++) {
        CHARL_TRY(charl__text_printf(&w->body, "const charl_real %c = %c%d; ", 'a' + i,
                                     s->in[i] < 0 ? 't' : 'v',
                                     s->in[i] < 0 ? ~s->in[i] : s->in[i]));
    }
    CHARL_TRY(write_numbers(w, &s->x));
    if (s->x.draws) {
        CHARL_TRY(write_draw(w, &s->x));
    }
    CHARL_TRY(charl__text_printf(&w->body, "t%d = CHARL_KEPT(%s, CHARL_SPLAT(%s)); } ", k,
                                 charl__kernel_type(s->dtype), s->x.text));
cleanup:
    return st;
}

static charl_status write_all(writer *w)
{
    charl_status st = CHARL_OK;

    for (int i = 0; i < w->e->n_in; i++) {
        CHARL_TRY(write_input(w, i));
    }
    for (int k = 0; k < w->c->n_steps; k++) {
        CHARL_TRY(write_step(w, k));
    }
    for (int k = 0; k < w->c->n_steps; k++) {
        const int o = w->c->step[k].out;

        if (o >= 0) {
            CHARL_TRY(charl__text_printf(&w->operands, "global %s *y%d, ulong y%d_at, ",
                                         charl__kernel_type(w->e->out[o]->dtype), o, o));
            CHARL_TRY(charl__text_printf(
                &w->body, "charl_write(WHOLE > 0, t%d, y%d + y%d_at + i, left); ", k, o, o));
            w->l.args[w->n_args++] = charl__out(w->e->out[o]);
        }
    }
cleanup:
    return st;
}

static charl__whole how_whole(const charl_enqueue *e, const charl_chain *c, int vec)
{
    charl__whole w = charl__whole_begin(e->dev, c->n, vec);

    for (int i = 0; i < e->n_in; i++) {
        charl__whole_add(&w, e->in[i], c->inner[i], c->count[i]);
    }
    for (int k = 0; k < e->n_out; k++) {
        charl__whole_add(&w, e->out[k], 1, c->n);
    }
    return w;
}

static charl_status launch(const charl_enqueue *e, const charl_chain *c)
{
    charl_status st = CHARL_OK;
    const int vec = charl__is_ungrouped(e->dev) ? 16 : CHARL_GPU_VEC;
    writer w = {.e = e, .c = c, .l = {.file = "chain", .entry = "charl_chain", .label = e->label}};
    const int64_t span = charl__span(e->dev, c->n, vec);
    const charl__whole whole = how_whole(e, c, vec);
    charl__text defines = {0};

    CHARL_TRY(write_all(&w));
    CHARL_TRY(charl__text_printf(
        &defines, "%s#define CHARL_VEC %d\n#define INDEX %s\n#define DRAWS %d\n#define WHOLE %d\n",
        charl__text_string(&w.extra), vec, c->n < INT32_MAX ? "uint" : "ulong", w.n_draws,
        charl__whole_define(&whole)));
    CHARL_TRY(charl__text_printf(&defines, "#define OPERANDS %s\n#define BODY %s\n",
                                 charl__text_string(&w.operands), charl__text_string(&w.body)));
    w.l.defines = charl__text_string(&defines);
    w.l.args[w.n_args++] = charl__i64(c->n);
    w.l.args[w.n_args++] = charl__i64(span);
    charl__span_launch(e->dev, c->n, span, &w.l);
    CHARL_TRY(charl__launch(e->dev, &w.l));
cleanup:
    charl__text_fini(&defines);
    charl__text_fini(&w.operands);
    charl__text_fini(&w.body);
    charl__text_fini(&w.extra);
    return st;
}

static charl_status enqueue(const charl_enqueue *e)
{
    return launch(e, e->attr);
}

charl_status charl__chain_run(const charl_enqueue *e, const charl_expr *x)
{
    charl_status st = CHARL_OK;
    charl_chain c = {.n = charl__tensor_count(e->out[0]),
                     .n_steps = 1,
                     .step = {{.x = *x, .dtype = e->out[0]->dtype, .n_in = e->n_in}}};

    for (int i = 0; i < e->n_in; i++) {
        CHARL_INVARIANT(charl__broadcast_in(e->out[0]->channels_last, &e->out[0]->shape,
                                            &e->in[i]->shape, &c.inner[i], &c.count[i]));
        c.step[0].in[i] = i;
    }
    CHARL_TRY(c.n > 0 ? launch(e, &c) : CHARL_OK);
cleanup:
    return st;
}

const charl_op charl__op_chain = {
    .name = "chain",
    .formula = "several elementwise operators",
    .n_in = -1,
    .attr_size = sizeof(charl_chain),
    .in_place = CHARL_OP_MAX_OUT,
    .enqueue = enqueue,
};
