/* Generates the kernel of a chain from its operators' expressions. */
#include "autograd/fuse/chain.h"

#include "autograd/launch/map.h"

enum { NEIGHBOURS = 2, VECTORS = 4 }; /* a value of WHOLE; vectors of a work-item */

typedef charl__chain_text writer;

int charl__chain_args(const charl__chain *c, int n_in, int n_out)
{
    int args = n_in + n_out + 2;
    bool uses_rng = false;

    for (int i = 0; i < n_in; i++) {
        args += c->count[i] < c->n ? 2 : 0;
    }
    for (int k = 0; k < c->n_steps; k++) {
        args += c->step[k].x.numbers + (c->step[k].x.uses_rng ? 2 : 0);
        uses_rng = uses_rng || c->step[k].x.uses_rng;
    }
    return args + (uses_rng ? 1 : 0);
}

static charl_status write_input(writer *w, int i)
{
    charl_tensor *x = w->e->in[i];

    charl__launch_add(w->l, charl__in(x));
    CHARL_TRY(
        charl__text_printf(&w->operands, "global const %s *x%d, ulong x%d_at, ", charl__kernel_type(x->dtype), i, i));
    if (w->c->count[i] == w->c->n) {
        CHARL_TRY(charl__text_printf(&w->body, "const charl_real v%d = charl_read(WHOLE > 0, x%d + x%d_at + i, left); ",
                                     i, i, i));
        return CHARL_OK;
    }
    charl__launch_add(w->l, charl__i64(w->c->inner[i]));
    charl__launch_add(w->l, charl__i64(w->c->count[i]));
    CHARL_TRY(charl__text_printf(&w->operands, "ulong x%d_inner, ulong x%d_count, ", i, i));
    CHARL_TRY(charl__text_printf(w->period > 0 ? &w->before : &w->body,
                                 "const charl_real v%d = broadcast(x%d + x%d_at, %s, x%d_inner, x%d_count); ", i, i, i,
                                 w->period > 0 ? "first" : "i", i, i));
    return CHARL_OK;
}

static charl_status write_numbers(writer *w, const charl__expr *x)
{
    const float value[2] = {x->p, x->q};

    for (int j = 0; j < x->numbers; j++) {
        CHARL_TRY(charl__text_printf(&w->operands, "float n%d, ", w->n_numbers));
        CHARL_TRY(charl__text_printf(&w->body, "const float %c = n%d; ", 'p' + j, w->n_numbers));
        charl__launch_add(w->l, charl__f32(value[j]));
        w->n_numbers++;
    }
    return CHARL_OK;
}

static charl_status write_draw(writer *w, const charl__expr *x)
{
    const int k = w->n_draws++;

    if (k == 0) {
        CHARL_TRY(charl__text_printf(&w->operands, "global const uint *record, ulong record_at, "));
        charl__launch_add(w->l, charl__in(w->e->step));
    }
    CHARL_TRY(charl__text_printf(&w->operands, "ulong key%d, ulong base%d, ", k, k));
    CHARL_TRY(charl__text_printf(
        &w->body, "const charl_real draw = drawn_at(drawn[%d], done, seed ^ key%d, number, base%d + i); ", k, k, k));
    charl__launch_add(w->l, charl__i64((int64_t)x->key));
    charl__launch_add(w->l, charl__batch_position(w->e, x->batched, w->c->n));
    return CHARL_OK;
}

static charl_status write_step(writer *w, int k)
{
    const charl__chain_step *s = &w->c->step[k];

    CHARL_TRY(charl__text_printf(&w->body, "charl_real t%d; { ", k));
    for (int i = 0; i < s->n_in; i++) {
        CHARL_TRY(charl__text_printf(&w->body, "const charl_real %c = %c%d; ", 'a' + i, s->in[i] < 0 ? 't' : 'v',
                                     s->in[i] < 0 ? ~s->in[i] : s->in[i]));
    }
    CHARL_TRY(write_numbers(w, &s->x));
    if (s->x.uses_rng) {
        CHARL_TRY(write_draw(w, &s->x));
    }
    CHARL_TRY(charl__text_printf(&w->body, "t%d = CHARL_ROUND_AS(%s, CHARL_SPLAT(%s)); } ", k,
                                 charl__kernel_type(s->dtype), s->x.text));
    return CHARL_OK;
}

charl_status charl__chain_write_steps(charl__chain_text *w)
{
    for (int k = 0; k < w->c->n_steps; k++) {
        CHARL_TRY(write_step(w, k));
    }
    return CHARL_OK;
}

void charl__chain_text_fini(charl__chain_text *w)
{
    charl__text_fini(&w->operands);
    charl__text_fini(&w->before);
    charl__text_fini(&w->body);
}

static charl_status write_all(writer *w)
{
    for (int i = 0; i < w->e->n_in; i++) {
        CHARL_TRY(write_input(w, i));
    }
    CHARL_TRY(charl__chain_write_steps(w));
    for (int k = 0; k < w->c->n_steps; k++) {
        const int o = w->c->step[k].out;

        if (o >= 0) {
            CHARL_TRY(charl__text_printf(&w->operands, "global %s *y%d, ulong y%d_at, ",
                                         charl__kernel_type(w->e->out[o]->dtype), o, o));
            CHARL_TRY(charl__text_printf(&w->body, "charl_write(WHOLE > 0, t%d, y%d + y%d_at + i, left); ", k, o, o));
            charl__launch_add(w->l, charl__out(w->e->out[o]));
        }
    }
    return CHARL_OK;
}

static charl__whole how_whole(const charl__enqueue *e, const charl__chain *c, int vec)
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

/* The period of the operands that broadcast, such as the number of channels of an image; 0 if there is none
 * or a step draws random numbers. On GPUs a work-item with one vector spends most of its time on such
 * operands, so one with several vectors, multiples of the period apart, loads them once. */
static int64_t period_of(const charl__enqueue *e, const charl__chain *c, int whole)
{
    int64_t period = 0;

    for (int k = 0; k < c->n_steps; k++) {
        if (c->step[k].x.uses_rng) {
            return 0;
        }
    }
    for (int i = 0; i < e->n_in && whole == NEIGHBOURS; i++) {
        if (c->count[i] < c->n && (period == 0 || period == c->count[i])) {
            period = c->count[i];
        } else if (c->count[i] < c->n) {
            return 0;
        }
    }
    return period;
}

static int64_t gcd(int64_t a, int64_t b)
{
    return b == 0 ? a : gcd(b, a % b);
}

/* Give each work-item vectors that are a multiple of the period apart; returns the distance. */
static int64_t launch_strided(const charl__enqueue *e, int64_t n, int64_t period, int vec, charl__launch *l)
{
    const int64_t each = period / vec;
    int64_t unit;

    charl__span_launch(e->dev, n, (int64_t)VECTORS * vec, l);
    unit = (int64_t)l->local[0] / gcd((int64_t)l->local[0], each) * each;
    l->global[0] = (size_t)(((int64_t)l->global[0] + unit - 1) / unit * unit);
    return (int64_t)l->global[0] * vec;
}

static charl_status launch(const charl__enqueue *e, const charl__chain *c)
{
    const int vec = charl__is_ungrouped(e->dev) ? 16 : CHARL_GPU_VEC;
    const charl__whole kinds = how_whole(e, c, vec);
    const int whole = charl__whole_kind(&kinds);
    charl__launch l = {
        .file = "elementwise/chain",
        .entry = "charl_chain",
        .params = {{"CHARL_VEC", vec}, {"INDEX", .text = c->n < INT32_MAX ? "uint" : "ulong"}, {"WHOLE", whole}},
        .label = e->label};
    CHARL_SCOPED(charl__chain_text_fini) writer w = {.e = e, .c = c, .l = &l, .period = period_of(e, c, whole)};
    int64_t span = charl__span(e->dev, c->n, vec);

    CHARL_TRY(write_all(&w));
    charl__launch_set(&l, "USES_RNG", w.n_draws);
    charl__launch_set(&l, "STRIDED", w.period > 0);
    charl__launch_set_text(&l, "OPERANDS(record)", charl__text_string(&w.operands));
    charl__launch_set_text(&l, "BEFORE(first)", charl__text_string(&w.before));
    charl__launch_set_text(&l, "BODY(first, i, left, drawn, done, seed, number)", charl__text_string(&w.body));
    if (w.period > 0) {
        span = launch_strided(e, c->n, w.period, vec, &l);
    } else {
        charl__span_launch(e->dev, c->n, span, &l);
    }
    charl__launch_add(&l, charl__i64(c->n));
    charl__launch_add(&l, charl__i64(span));
    CHARL_TRY(charl__launch_enqueue(e->dev, &l));
    return CHARL_OK;
}

static charl_status enqueue(const charl__enqueue *e)
{
    return launch(e, e->attr);
}

charl_status charl__chain_run(const charl__enqueue *e, const charl__expr *x)
{
    charl__chain c = {.n = charl__tensor_count(e->out[0]),
                      .n_steps = 1,
                      .step = {{.x = *x, .dtype = e->out[0]->dtype, .n_in = e->n_in}}};

    for (int i = 0; i < e->n_in; i++) {
        CHARL_INVARIANT(charl__broadcast_in(e->out[0]->channels_last, &e->out[0]->shape, &e->in[i]->shape, &c.inner[i],
                                            &c.count[i]));
        c.step[0].in[i] = i;
    }
    CHARL_TRY(c.n > 0 ? launch(e, &c) : CHARL_OK);
    return CHARL_OK;
}

const charl__op charl__op_chain = {
    .name = "chain",
    .formula = "several elementwise operators",
    .n_in = -1,
    .attr_size = sizeof(charl__chain),
    .in_place = CHARL_OP_MAX_OUT,
    .enqueue = enqueue,
};
