/* A product with an epilogue. */
#include "autograd/product.h"

#include "base/text.h"

/* The expression as a macro of its own operands and numbers, called with what they are here. */
static charl_status write_epilogue(const charl_product *p, charl__text *macro, charl__text *call)
{
    charl_status st = CHARL_OK;
    const float number[2] = {p->x.p, p->x.q};

    CHARL_TRY(charl__text_printf(macro, "%s#define AFTER(", p->x.extra ? p->x.extra : ""));
    CHARL_TRY(charl__text_printf(call, "AFTER("));
    for (int i = 0; i < p->n_operands; i++) {
        CHARL_TRY(charl__text_printf(macro, "%s%c", i ? ", " : "", 'a' + i));
        CHARL_TRY(charl__text_printf(call, "%s%c", i ? ", " : "", p->operand[i]));
    }
    for (int j = 0; j < p->x.numbers; j++) {
        CHARL_TRY(charl__text_printf(macro, ", %c", 'p' + j));
        CHARL_TRY(charl__text_printf(call, ", %af", (double)number[j]));
    }
    CHARL_TRY(charl__text_printf(macro, ") (%s)\n", p->x.text));
    CHARL_TRY(charl__text_printf(call, ")"));
cleanup:
    return st;
}

static charl_status enqueue(const charl_enqueue *e)
{
    charl_status st = CHARL_OK;
    const charl_product *p = e->attr;
    charl_gemm_epilogue after = {.type = p->type.dtype,
                                 .n_in = e->n_in - p->n_in,
                                 .product = e->n_out > 1 ? e->out[1] : NULL};
    charl_enqueue own = *e;
    charl__text macro = {0}, call = {0};

    CHARL_TRY(write_epilogue(p, &macro, &call));
    after.extra = charl__text_string(&macro);
    after.expr = charl__text_string(&call);
    for (int i = 0; i < after.n_in; i++) {
        after.in[i] = e->in[p->n_in + i];
    }
    own.attr = p->attr;
    own.n_in = p->n_in;
    own.n_out = 1;
    own.epilogue = &after;
    CHARL_TRY(p->op->enqueue(&own));
cleanup:
    charl__text_fini(&macro);
    charl__text_fini(&call);
    return st;
}

static double flop(const charl_infer *inf)
{
    const charl_product *p = inf->attr;
    charl_infer own = *inf;

    own.attr = p->attr;
    own.n_in = p->n_in;
    own.n_out = 1;
    own.out[0] = p->type;
    return p->op->flop ? p->op->flop(&own) : 0;
}

const charl_op charl__op_product = {
    .name = "product",
    .formula = "a product and an elementwise operator",
    .n_in = -1,
    .attr_size = sizeof(charl_product),
    .enqueue = enqueue,
    .flop = flop,
};
