/* A product with an epilogue of one step or two. */
#include "autograd/fuse/product.h"

#include "base/text/text.h"

/* The expression as a macro of its own operands and numbers, called with what they are here. */
static charl_status write_step(const charl__product_step *s, const char *name, charl__text *macro, charl__text *call)
{
    const float number[2] = {s->x.p, s->x.q};

    CHARL_TRY(charl__text_printf(macro, "%s#define %s(", s->x.extra ? s->x.extra : "", name));
    CHARL_TRY(charl__text_printf(call, "%s(", name));
    for (int i = 0; i < s->n_operands; i++) {
        CHARL_TRY(charl__text_printf(macro, "%s%c", i ? ", " : "", 'a' + i));
        CHARL_TRY(charl__text_printf(call, "%s%c", i ? ", " : "", s->operand[i]));
    }
    for (int j = 0; j < s->x.numbers; j++) {
        CHARL_TRY(charl__text_printf(macro, ", %c", 'p' + j));
        CHARL_TRY(charl__text_printf(call, ", %af", (double)number[j]));
    }
    CHARL_TRY(charl__text_printf(macro, ") (%s)\n", s->x.text));
    CHARL_TRY(charl__text_printf(call, ")"));
    return CHARL_OK;
}

/* What the one step that draws is to know. */
static void use_draws(const charl__enqueue *e, const charl__expr *x, charl__gemm_epilogue *after)
{
    after->record = e->step;
    after->key = x->key;
    after->draw_at = charl__batch_position(e, x->batched, charl__tensor_count(e->out[0]));
}

static charl_status enqueue(const charl__enqueue *e)
{
    charl_status st = CHARL_OK;
    const charl__product *p = e->attr;
    charl__gemm_epilogue after = {.type = p->type.dtype,
                                  .n_in = e->n_in - p->n_in,
                                  .product = e->n_out > 1 ? e->out[1] : NULL,
                                  .keeps_first = p->saved == 1};
    charl__enqueue own = *e;
    charl__text macro = {0}, call[CHARL_PRODUCT_STEPS] = {{0}};

    for (int k = 0; k < p->n_steps; k++) {
        CHARL_TRY_CLEANUP(write_step(&p->step[k], k ? "AFTERWARDS" : "AFTER", &macro, &call[k]));
        if (p->step[k].x.uses_rng) {
            use_draws(e, &p->step[k].x, &after);
        }
    }
    after.extra = charl__text_string(&macro);
    after.expr = charl__text_string(&call[0]);
    after.then = p->n_steps > 1 ? charl__text_string(&call[1]) : NULL;
    for (int i = 0; i < after.n_in; i++) {
        after.in[i] = e->in[p->n_in + i];
    }
    own.attr = p->attr;
    own.n_in = p->n_in;
    own.n_out = 1;
    own.epilogue = &after;
    CHARL_TRY_CLEANUP(charl__op_enqueue(p->op, &own));
cleanup:
    charl__text_fini(&macro);
    for (int k = 0; k < CHARL_PRODUCT_STEPS; k++) {
        charl__text_fini(&call[k]);
    }
    return st;
}

static double flop(const charl__infer *inf)
{
    const charl__product *p = inf->attr;
    charl__infer own = *inf;

    own.op = p->op;
    own.attr = p->attr;
    own.n_in = p->n_in;
    own.n_out = 1;
    own.out[0] = p->type;
    return p->op->flop ? p->op->flop(&own) : 0;
}

const charl__op charl__op_product = {
    .name = "product",
    .formula = "a product and the elementwise operators that follow it",
    .n_in = -1,
    .attr_size = sizeof(charl__product),
    .enqueue = enqueue,
    .flop = flop,
};
