/* What a kernel is told of the chain that forms an operand. */
#include "autograd/fuse/prologue.h"

#include "base/text/text.h"

/* Where an input of the chain comes from, as a statement of its own. */
typedef struct sources {
    charl__text channels, fetch; /* once for some channels; for each of their elements */
    int n_fetched;
} sources;

static bool is_read(const charl__chain *c, int i)
{
    for (int k = 0; k < c->n_steps; k++) {
        for (int j = 0; j < c->step[k].n_in; j++) {
            if (c->step[k].in[j] == i) {
                return true;
            }
        }
    }
    return false;
}

static charl_status write_input(charl__chain_text *w, int i, sources *s)
{
    const charl_tensor *x = w->e->in[i];
    const char *type = charl__kernel_type(x->dtype);

    charl__launch_add(w->l, charl__in(x));
    CHARL_TRY(charl__text_printf(&w->operands, "global const %s *y%d, ulong y%d_at, ", type, i, i));
    if (w->c->count[i] == w->c->n) {
        CHARL_TRY(charl__text_printf(&s->fetch, "(GOT).f[%d] = get8(y%d + y%d_at + (AT)); ", s->n_fetched, i, i));
        CHARL_TRY(charl__text_printf(&w->body, "const charl_real v%d = (GOT).f[%d]; ", i, s->n_fetched));
        s->n_fetched++;
    } else if (w->c->count[i] > 1) {
        CHARL_TRY(charl__text_printf(&s->channels, "const charl_real v%d = vload8(0, y%d + y%d_at + (AT)); ", i, i, i));
    } else {
        CHARL_TRY(
            charl__text_printf(&s->channels, "const charl_real v%d = CHARL_SPLAT(charl_get(y%d + y%d_at)); ", i, i, i));
    }
    return CHARL_OK;
}

charl_status charl__prologue_write(const charl__enqueue *e, const char *const known[CHARL_OP_MAX_IN],
                                   charl__text *defines, charl__launch *l)
{
    charl_status st = CHARL_OK;
    const charl__prologue *p = e->prologue ? e->prologue->attr : NULL;
    charl__chain_text w = {.e = e->prologue, .c = p ? &p->chain : NULL, .l = l};
    sources s = {.n_fetched = 0};

    if (!p) {
        goto cleanup;
    }
    for (int i = 0; i < e->prologue->n_in; i++) {
        const char *name = i + 1 < p->n_in ? known[i + 1] : NULL;

        if (is_read(&p->chain, i) && name) {
            CHARL_TRY_CLEANUP(charl__text_printf(&w.body, "const charl_real v%d = %s; ", i, name));
        } else if (is_read(&p->chain, i)) {
            CHARL_TRY_CLEANUP(write_input(&w, i, &s));
        }
    }
    CHARL_TRY_CLEANUP(charl__chain_write_steps(&w));
    CHARL_TRY_CLEANUP(charl__text_printf(
        defines,
        "%s#define PROLOGUE %d\n#define PROLOGUE_ARGS %s\n#define PROLOGUE_CHANNELS(AT) %s\n"
        "#define PROLOGUE_FETCH(GOT, AT) %s\n"
        "#define PROLOGUE_OF(TO, GOT, X) charl_real TO; { %s TO = t%d; }\n",
        charl__text_string(&w.extra), s.n_fetched, charl__text_string(&w.operands), charl__text_string(&s.channels),
        charl__text_string(&s.fetch), charl__text_string(&w.body), p->chain.n_steps - 1));
cleanup:
    charl__chain_text_fini(&w);
    charl__text_fini(&s.channels);
    charl__text_fini(&s.fetch);
    return st;
}

static charl_status enqueue(const charl__enqueue *e)
{
    const charl__prologue *p = e->attr;
    charl_tensor *in[CHARL_OP_MAX_IN] = {NULL};
    charl__enqueue own = *e;

    for (int i = 1; i < p->n_in; i++) {
        in[i] = e->in[i - 1];
    }
    own.attr = p->attr;
    own.n_in = p->n_in;
    own.in = in;
    own.prologue = e;
    return charl__op_enqueue(p->op, &own);
}

const charl__op charl__op_prologue = {
    .name = "prologue",
    .formula = "elementwise operators and what reads their result",
    .n_in = -1,
    .attr_size = sizeof(charl__prologue),
    .in_place = true,
    .enqueue = enqueue,
};
