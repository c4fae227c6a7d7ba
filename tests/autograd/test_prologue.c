/* Operators that form operand 0 as they read it give the bits that they give of it in memory: the
 * gradient of relu behind a batch norm, of images that lie channels-last.
 */
#include "support/on_device.h"

#include <string.h>

#include "autograd/check/opcheck.h"
#include "autograd/fuse/prologue.h"
#include "autograd/op/norm/batch_norm_common.h"
#include "base/alloc.h"

enum { SLICES = 4, SEED = 7 };

static charl_device *dev;
static charl_slices whole;

static const charl__norm ten = {10, 1e-5F, true};

#define X(c) CHARL_B(F32, 8, c, 7, 5)
#define PER(c) CHARL_R(F32, c, 1, 1)

/* Operands of the fused operator: the operator's from the second on, then what else forms the
 * first. Where weight, bias and the gradient of relu are. */
typedef struct prologue_case {
    const charl__op *op;
    const void *attr;
    charl__op_sample sample;
    int own, weight, bias, gout;
} prologue_case;

static const prologue_case cases[] = {
    {&charl_op_batch_norm_sums,
     NULL,
     {.in = {X(24), PER(24), PER(24), PER(24), PER(24), X(24)}, .n_in = 6, .lo = -1, .hi = 1},
     4,
     3,
     4,
     5},
    {&charl_op_batch_norm_grad,
     &ten,
     {.in = {X(16), PER(16), PER(16), CHARL_R(F32, 2, 16), PER(16), PER(16), X(16)}, .n_in = 7, .lo = -1, .hi = 1},
     6,
     4,
     5,
     6},
};

static charl_status infer_with_prologue(charl__infer *inf)
{
    const charl__prologue *p = inf->attr;
    charl_type in[CHARL_OP_MAX_IN] = {inf->in[0]};

    memcpy(in + 1, inf->in, (size_t)(p->n_in - 1) * sizeof in[0]);
    inf->attr = p->attr;
    inf->n_in = p->n_in;
    inf->in = in;
    return p->op->infer(inf);
}

/* What is wanted is what the operators give one by one. */
static void no_reference(const charl__reference *r)
{
    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        r->out[0][i] = 0;
    }
}

static void add_step(charl__chain *c, const charl__op *op, const void *attr, charl_dtype half, const int *in, int n_in)
{
    charl__chain_step *s = &c->step[c->n_steps++];

    assert_true(charl__op_express(op, attr, n_in, half, &s->x));
    s->dtype = half;
    s->n_in = n_in;
    s->out = -1;
    memcpy(s->in, in, (size_t)n_in * sizeof *in);
}

static charl__prologue describe(const prologue_case *t, charl_dtype half)
{
    charl__prologue p = {.op = t->op, .attr = t->attr, .n_in = t->own};

    p.chain.n = charl_shape_count(&t->sample.in[0].shape);
    for (int i = 0; i < t->sample.n_in; i++) {
        p.chain.inner[i] = 1;
        p.chain.count[i] = charl_shape_count(&t->sample.in[i].shape);
    }
    add_step(&p.chain, &charl_op_batch_norm_apply, &ten, half, (const int[]){0, 1, 2, t->weight, t->bias}, 5);
    add_step(&p.chain, &charl_op_relu, NULL, half, (const int[]){~0}, 1);
    add_step(&p.chain, &charl_op_relu_grad, NULL, half, (const int[]){~1, t->gout}, 2);
    return p;
}

/* Output 0 of op on these operands, which the device holds in their types. */
static void *run_on(const charl__op *op, const void *attr, const charl_type *type, double *const *value, int n_in,
                    charl_dtype half, size_t *bytes)
{
    charl__op_sample s = {.n_in = n_in, .attr = attr, .lo = -1, .hi = 1};
    void *raw[CHARL_OP_MAX_OUT];
    charl__op_case c;

    memcpy(s.in, type, (size_t)n_in * sizeof *type);
    charl_assert_ok(charl__op_case_create(op, &s, half, SEED, &c));
    for (int i = 0; i < n_in; i++) {
        memcpy(c.in[i], value[i], (size_t)charl_shape_count(&type[i].shape) * sizeof *value[i]);
    }
    c.channels_last = true;
    charl_assert_ok(charl__op_case_run(dev, &c, &whole, 0, raw));
    *bytes = charl__op_case_bytes(&c, &whole, 0);
    charl__op_case_destroy(&c);
    return raw[0];
}

/* The same, as numbers. */
static double *values_of(const charl__op *op, const void *attr, const charl_type *type, double *const *value, int n_in,
                         charl_dtype half)
{
    const int64_t n = charl_shape_count(&type[0].shape);
    double *out;
    size_t bytes;
    void *raw = run_on(op, attr, type, value, n_in, half, &bytes);

    charl_assert_ok(charl__alloc_array(n, sizeof *out, &out));
    charl_dtype_decode(half, raw, n, out);
    charl_free(raw);
    return out;
}

/* Operand 0 in memory: relu_grad(relu(batch_norm_apply(x, ...)), gout). */
static double *operand(const prologue_case *t, const charl__op_case *c, charl_dtype half)
{
    const charl_type x = t->sample.in[0], per = t->sample.in[1];
    const charl_type apply[] = {x, per, per, per, per}, two[] = {x, x};
    double *const of_apply[] = {c->in[0], c->in[1], c->in[2], c->in[t->weight], c->in[t->bias]};
    double *y = values_of(&charl_op_batch_norm_apply, &ten, apply, of_apply, 5, half);
    double *z = values_of(&charl_op_relu, NULL, two, &y, 1, half);
    double *const of_grad[] = {z, c->in[t->gout]};
    double *g = values_of(&charl_op_relu_grad, NULL, two, of_grad, 2, half);

    charl_free(y);
    charl_free(z);
    return g;
}

static void check(const prologue_case *t, charl_dtype half)
{
    const charl__prologue p = describe(t, half);
    charl__op op = charl__op_prologue;
    charl__op_sample s = t->sample;
    charl_type type[CHARL_OP_MAX_IN] = {t->sample.in[0]};
    double *value[CHARL_OP_MAX_IN];
    void *got[CHARL_OP_MAX_OUT], *want;
    charl__op_case c;
    size_t bytes;

    op.infer = infer_with_prologue;
    op.reference = no_reference;
    op.half = CHARL_HALF(0) | 1U << t->gout;
    s.attr = &p;
    charl_assert_ok(charl__op_case_create(&op, &s, half, SEED, &c));
    value[0] = operand(t, &c, half);
    for (int i = 1; i < t->own; i++) {
        type[i] = t->sample.in[i - 1];
        value[i] = c.in[i - 1];
    }
    want = run_on(t->op, t->attr, type, value, t->own, half, &bytes);
    c.channels_last = true;
    charl_assert_ok(charl__op_case_run(dev, &c, &whole, 0, got));
    assert_int_equal(charl__op_case_bytes(&c, &whole, 0), bytes);
    assert_memory_equal(got[0], want, bytes);
    charl_free(value[0]);
    charl_free(want);
    charl_free(got[0]);
    charl__op_case_destroy(&c);
}

static void an_operand_is_formed_as_it_is_read(void **state)
{
    (void)state;
    charl_assert_ok(charl_slices_block(SLICES, 0, 1, &whole));
    for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); i++) {
        check(&cases[i], CHARL_BF16);
        check(&cases[i], CHARL_F16);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operand_is_formed_as_it_is_read),
    };

    return charl_test_on_device(tests, &dev);
}
