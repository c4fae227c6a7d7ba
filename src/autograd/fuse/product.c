/* A product with an epilogue of one or two steps. */
#include "autograd/fuse/product.h"

#include <string.h>

#include "base/text/text.h"

/* The expression, with its operands and numbers renamed to the names in this epilogue. */
static charl_status write_step(const charl__product_step *s, charl__text *out)
{
    const double number[2] = {s->x.p, s->x.q};
    size_t length;

    CHARL_TRY(charl__text_append(out, "(", 1));
    for (const char *at = s->x.text; *at; at += length) {
        const size_t word = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_.0123456789");
        const bool is_letter = word == 1;

        length = word > 0 ? word : 1;
        if (is_letter && *at >= 'a' && *at < 'a' + s->n_operands) {
            CHARL_TRY(charl__text_append(out, &s->operand[*at - 'a'], 1));
        } else if (is_letter && *at >= 'p' && *at < 'p' + s->x.numbers) {
            CHARL_TRY(charl__text_printf(out, "(%af)", number[*at - 'p']));
        } else {
            CHARL_TRY(charl__text_append(out, at, length));
        }
    }
    return charl__text_append(out, ")", 1);
}

/* Set the random-number parameters of the epilogue, for the one step that draws. */
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
    charl__text expr[CHARL_PRODUCT_STEPS] = {{0}};

    for (int k = 0; k < p->n_steps; k++) {
        CHARL_TRY_CLEANUP(write_step(&p->step[k], &expr[k]));
        if (p->step[k].x.uses_rng) {
            use_draws(e, &p->step[k].x, &after);
        }
    }
    after.expr = charl__text_string(&expr[0]);
    after.then = p->n_steps > 1 ? charl__text_string(&expr[1]) : NULL;
    for (int i = 0; i < after.n_in; i++) {
        after.in[i] = e->in[p->n_in + i];
    }
    own.attr = p->attr;
    own.n_in = p->n_in;
    own.n_out = 1;
    own.epilogue = &after;
    CHARL_TRY_CLEANUP(charl__op_enqueue(p->op, &own));
cleanup:
    for (int k = 0; k < CHARL_PRODUCT_STEPS; k++) {
        charl__text_fini(&expr[k]);
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
