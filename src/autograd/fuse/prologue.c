/* Passes to a kernel the chain that computes an operand. */
#include "autograd/fuse/prologue.h"

#include "base/text/text.h"

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

/* The statement that loads an input of the chain. */
static charl_status write_input(charl__prologue_text *s, int i, int *n_fetched)
{
    charl__chain_text *w = &s->chain;
    const charl_tensor *x = w->e->in[i];
    const char *type = charl__kernel_type(x->dtype);

    charl__launch_add(w->l, charl__in(x));
    CHARL_TRY(charl__text_printf(&w->operands, "global const %s *y%d, ulong y%d_at, ", type, i, i));
    if (w->c->count[i] == w->c->n) {
        CHARL_TRY(charl__text_printf(&s->fetch, "(GOT).f[%d] = get8(y%d + y%d_at + (AT)); ", *n_fetched, i, i));
        CHARL_TRY(charl__text_printf(&w->body, "const charl_real v%d = (GOT).f[%d]; ", i, *n_fetched));
        ++*n_fetched;
    } else if (w->c->count[i] > 1) {
        CHARL_TRY(charl__text_printf(&s->channels, "const charl_real v%d = vload8(0, y%d + y%d_at + (AT)); ", i, i, i));
    } else {
        CHARL_TRY(
            charl__text_printf(&s->channels, "const charl_real v%d = CHARL_SPLAT(charl_get(y%d + y%d_at)); ", i, i, i));
    }
    return CHARL_OK;
}

charl_status charl__prologue_write(const charl__enqueue *e, const char *const known[CHARL_OP_MAX_IN],
                                   charl__prologue_text *text, charl__launch *l)
{
    const charl__prologue *p = e->prologue ? e->prologue->attr : NULL;
    charl__chain_text *w = &text->chain;
    int n_fetched = 0;

    if (!p) {
        return CHARL_OK;
    }
    *w = (charl__chain_text){.e = e->prologue, .c = &p->chain, .l = l};
    for (int i = 0; i < e->prologue->n_in; i++) {
        const char *name = i + 1 < p->n_in ? known[i + 1] : NULL;

        if (is_read(&p->chain, i) && name) {
            CHARL_TRY(charl__text_printf(&w->body, "const charl_real v%d = %s; ", i, name));
        } else if (is_read(&p->chain, i)) {
            CHARL_TRY(write_input(text, i, &n_fetched));
        }
    }
    CHARL_TRY(charl__chain_write_steps(w));
    CHARL_TRY(charl__text_printf(&text->result, "charl_real TO; { %s TO = t%d; }", charl__text_string(&w->body),
                                 p->chain.n_steps - 1));
    charl__launch_set(l, "PROLOGUE", n_fetched);
    charl__launch_set_text(l, "PROLOGUE_ARGS", charl__text_string(&w->operands));
    charl__launch_set_text(l, "PROLOGUE_CHANNELS(AT)", charl__text_string(&text->channels));
    charl__launch_set_text(l, "PROLOGUE_FETCH(GOT, G, AT)", charl__text_string(&text->fetch));
    charl__launch_set_text(l, "PROLOGUE_OF(TO, GOT, X)", charl__text_string(&text->result));
    return CHARL_OK;
}

void charl__prologue_text_fini(charl__prologue_text *text)
{
    charl__chain_text_fini(&text->chain);
    charl__text_fini(&text->channels);
    charl__text_fini(&text->fetch);
    charl__text_fini(&text->result);
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
