/* Images channels-last, and what forms an operand as it is read. */
#include "support/on_device.h"

#include <stdio.h>
#include <string.h>

#include "autograd/check/opcheck.h"
#include "autograd/fuse/prologue.h"
#include "autograd/op/conv/conv2d.h"
#include "autograd/op/norm/batch_norm_common.h"
#include "autograd/op/norm/channels.h"
#include "autograd/op/pool/pool.h"
#include "autograd/op/shape/slice.h"
#include "autograd/op/shape/transpose.h"
#include "base/alloc.h"

/* Operators that take images channels-last give what they give of row-major ones: the reference's
 * values, and the same bits where nothing is summed over pixels or grouped otherwise. */

enum { SLICES = 4, ALIGNED = 0, SEED = 5, GROUP = 64 };

static charl_device *dev;
static charl_slices whole;

static const charl__norm ten = {10, 1e-5F, true};
static const charl__pool window = {{{3, 2}, {2, 1}, {1, 1}, {1, 1}}, {7, 5}};
static const int channels = 1;
static const charl__slice_attr some_channels = {1, 8, 16, 0}, some_rows = {2, 1, 3, 0},
                               of_more_channels = {1, 8, 16, 32};
static const charl__transpose_attr to_last = {4, {0, 2, 3, 1}}, from_last = {4, {0, 3, 1, 2}};
static const charl__conv_attr depthwise = {{{3, 3}, {1, 1}, {1, 1}, {1, 1}}, 24, {7, 5}};
static const charl__conv_attr gaps = {{{2, 3}, {3, 2}, {3, 2}, {2, 2}}, 16, {7, 5}},
                              single = {{{1, 1}, {1, 1}, {0, 0}, {1, 1}}, 8, {7, 5}};
static const charl__conv_attr wide = {
    {{7, 5}, {1, 2}, {3, 1}, {1, 1}}, 40, {7, 5}}; /* blocks of four rows; two groups of channels */

/* x [8, C, 7, 5]; C is 16 and, where lines of a group are left over, 24. */
#define X(c) CHARL_B(F32, 8, c, 7, 5)
#define PER(c) CHARL_R(F32, c, 1, 1)
#define BOUNDS .lo = -1, .hi = 1, .terms = 280

static const struct {
    const charl__op *op;
    charl__op_sample sample;
    bool may_differ; /* in last bits */
} cases[] = {
    {&charl_op_sum_to, {.in = {X(24)}, .attr = &channels, BOUNDS}, true},
    {&charl_op_batch_norm_squares, {.in = {X(16), CHARL_R(F32, 16)}, BOUNDS}, true},
    {&charl_op_batch_norm_squares, /* a mean that is large against the deviation */
     {.in = {X(24), CHARL_R(F32, 24)}, .lo = 100, .hi = 101, .terms = 280},
     true},
    {&charl_op_batch_norm_sums, {.in = {X(24), X(24), PER(24), PER(24)}, BOUNDS}, true},
    {&charl_op_batch_norm_grad,
     {.in = {X(16), X(16), PER(16), PER(16), CHARL_R(F32, 2, 16), PER(16)}, .attr = &ten, BOUNDS},
     true}, /* grouped otherwise */
    {&charl_op_batch_norm_apply, {.in = {X(24), PER(24), PER(24), PER(24), PER(24)}, .attr = &ten, BOUNDS}, false},
    {&charl_op_relu_grad, {.in = {X(16), X(16)}, BOUNDS}, false},
    {&charl_op_max_pool2d, {.in = {X(16)}, .attr = &window, BOUNDS}, false},
    {&charl_op_max_pool2d_grad,
     {.in = {CHARL_B(F32, 8, 16, 4, 6), CHARL_B(I32, 8, 16, 4, 6)}, .attr = &window, .int_end = 35, BOUNDS},
     false},
    {&charl_op_conv2d, {.in = {X(24), CHARL_R(F32, 24, 1, 3, 3), CHARL_R(F32, 24)}, .attr = &depthwise, BOUNDS}, false},
    {&charl_op_conv2d, {.in = {X(40), CHARL_R(F32, 40, 1, 7, 5), CHARL_R(F32, 40)}, .attr = &wide, BOUNDS}, false},
    {&charl_op_conv2d, {.in = {X(16), CHARL_R(F32, 16, 1, 2, 3)}, .n_in = 2, .attr = &gaps, BOUNDS}, false},
    {&charl_op_conv2d, {.in = {X(8), CHARL_R(F32, 8, 1, 1, 1)}, .n_in = 2, .attr = &single, BOUNDS}, false},
    {&charl_op_conv2d_dgrad,
     {.in = {CHARL_B(F32, 8, 16, 4, 3), CHARL_R(F32, 16, 1, 2, 3)}, .attr = &gaps, BOUNDS},
     false},
    {&charl_op_conv2d_wgrad, {.in = {CHARL_B(F32, 8, 16, 4, 3), X(16)}, .attr = &gaps, BOUNDS}, false},
    {&charl_op_conv2d_dgrad, {.in = {X(24), CHARL_R(F32, 24, 1, 3, 3)}, .attr = &depthwise, BOUNDS}, false},
    {&charl_op_conv2d_dgrad,
     {.in = {CHARL_B(F32, 8, 40, 7, 2), CHARL_R(F32, 40, 1, 7, 5)}, .attr = &wide, BOUNDS},
     false},
    {&charl_op_concat, {.in = {X(16), X(24), X(8)}, .n_in = 3, .attr = &channels, BOUNDS}, false},
    {&charl_op_slice, {.in = {X(24)}, .attr = &some_channels, BOUNDS}, false},
    {&charl_op_slice, {.in = {X(16)}, .attr = &some_rows, BOUNDS}, false},
    {&charl_op_slice_grad, {.in = {X(16)}, .attr = &of_more_channels, BOUNDS}, false},
    {&charl_op_transpose, {.in = {X(24)}, .attr = &to_last, BOUNDS}, false},
    {&charl_op_transpose, {.in = {CHARL_B(F32, 8, 7, 5, 24)}, .attr = &from_last, BOUNDS}, false},
    {&charl_op_conv2d_wgrad, {.in = {X(24), X(24)}, .attr = &depthwise, BOUNDS}, false},
    {&charl_op_conv2d_wgrad, {.in = {CHARL_B(F32, 8, 40, 7, 2), X(40)}, .attr = &wide, BOUNDS}, false},
};

static void check(int i, charl_dtype half)
{
    charl__op_case c;
    charl__op_error error;
    void *rows[CHARL_OP_MAX_OUT], *last[CHARL_OP_MAX_OUT];

    charl_assert_ok(charl__op_case_create(cases[i].op, &cases[i].sample, half, 5, &c));
    charl_assert_ok(charl__op_case_run(dev, &c, &whole, ALIGNED, rows));
    c.channels_last = true;
    charl_assert_ok(charl__op_case_run(dev, &c, &whole, ALIGNED, last));
    error = charl__op_case_compare(&c, last);
    if (!(error.allowed <= 1)) {
        fail_msg("%s in %s: output %d[%lld] is %.9g, not %.9g", cases[i].op->name, charl_dtype_name(half), error.output,
                 (long long)error.index, error.got, error.want);
    }
    for (int k = 0; k < c.n_out; k++) {
        if (!cases[i].may_differ && memcmp(rows[k], last[k], charl__op_case_bytes(&c, &whole, k)) != 0) {
            fail_msg("%s in %s: other bits than row-major", cases[i].op->name, charl_dtype_name(half));
        }
        charl_free(rows[k]);
        charl_free(last[k]);
    }
    charl__op_case_destroy(&c);
}

static void the_layout_changes_no_value(void **state)
{
    charl__device_facts facts = *charl__device_facts_get(dev);
    const charl__device_facts own = facts;

    (void)state;
    if (!charl_test_has_barriers(dev)) {
        skip();
    }
    charl_assert_ok(charl_slices_block(SLICES, 0, 1, &whole));
    facts.group = GROUP; /* without groups convolutions are products, of images as rows */
    charl__device_set_facts(dev, facts);
    for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); i++) {
        check(i, CHARL_BF16);
        check(i, CHARL_F16);
    }
    charl__device_set_facts(dev, own);
}

/* sum_to that keeps the moments of blocks, and squares of those, as fusion runs them. */
static charl_status infer_moments(charl__infer *inf)
{
    const charl_shape x = inf->in[0].shape;
    charl_status st = charl_op_sum_to.infer(inf);

    inf->n_out = 2;
    inf->out[1] = (charl_type){CHARL_F32, {3, {charl__channels_blocks(&x, inf->n_slices), 2, x.dim[1]}}, CHARL_BATCHED};
    return st;
}

static charl_status enqueue_moments(const charl__enqueue *e)
{
    return charl__channels_sums(e, &(charl__channels){.x = e->in[0], .moments = e->out[1]});
}

static const charl_shape image = {4, {64, 24, 7, 5}}; /* of whose blocks a slice has several */

static charl_status infer_of_moments(charl__infer *inf)
{
    inf->out[0] = (charl_type){CHARL_F32, {1, {image.dim[1]}}, CHARL_PARTIAL};
    inf->workspace = charl__channels_workspace(&image, inf->n_slices, 1);
    return CHARL_OK;
}

static charl_status enqueue_of_moments(const charl__enqueue *e)
{
    return charl__channels_squares(e, &image, e->in[0], e->in[1]);
}

/* What is wanted are the bits of other operators. */
static void no_reference(const charl__reference *r)
{
    (void)r;
}

/* Outputs of op on these operands, drawn where they are NULL. */
static size_t run_on(const charl__op *op, const charl__op_sample *s, const double *const in[2], void **raw)
{
    charl__op_case c;
    size_t bytes;

    charl_assert_ok(charl__op_case_create(op, s, CHARL_BF16, SEED, &c));
    for (int i = 0; i < c.n_in; i++) {
        const size_t n = (size_t)charl_shape_count(&s->in[i].shape);

        memcpy(c.in[i], in[i] ? in[i] : c.in[i], n * sizeof *c.in[i]);
    }
    c.channels_last = true;
    charl_assert_ok(charl__op_case_run(dev, &c, &whole, ALIGNED, raw));
    bytes = charl__op_case_bytes(&c, &whole, 0);
    charl__op_case_destroy(&c);
    return bytes;
}

static void moments_of_blocks_replace_a_pass(void **state)
{
    const charl__op with_moments = {.name = "sum_to",
                                    .n_in = 1,
                                    .half = CHARL_HALF(0),
                                    .infer = infer_moments,
                                    .enqueue = enqueue_moments,
                                    .reference = no_reference};
    const charl__op of_moments = {.name = "batch_norm_squares",
                                  .n_in = 2,
                                  .infer = infer_of_moments,
                                  .enqueue = enqueue_of_moments,
                                  .reference = no_reference};
    const charl_type x = {CHARL_F32, image, CHARL_BATCHED}, mean = CHARL_R(F32, 24);
    const charl__op_sample sum = {.in = {x}, .attr = &channels, .lo = 2, .hi = 3};
    const charl__op_sample squares = {.in = {x, mean}, .lo = 2, .hi = 3};
    charl__op_sample moments = {.in = {mean, mean}, .lo = 2, .hi = 3};
    void *two[CHARL_OP_MAX_OUT], *one[CHARL_OP_MAX_OUT];
    double *value;
    charl__op_case drawn;
    size_t bytes;
    int64_t n;

    (void)state;
    if (!charl_test_has_barriers(dev)) {
        skip();
    }
    charl_assert_ok(charl_slices_block(SLICES, 0, 1, &whole));
    moments.in[0] =
        (charl_type){CHARL_F32, {3, {charl__channels_blocks(&image, SLICES), 2, image.dim[1]}}, CHARL_BATCHED};
    assert_true(moments.in[0].shape.dim[0] > SLICES);
    n = charl_shape_count(&moments.in[0].shape);
    charl_assert_ok(charl__alloc_array(n, sizeof *value, &value));
    charl_assert_ok(charl__op_case_create(&charl_op_batch_norm_squares, &squares, CHARL_BF16, SEED, &drawn));

    bytes = run_on(&charl_op_sum_to, &sum, (const double *[]){drawn.in[0], NULL}, two);
    run_on(&with_moments, &sum, (const double *[]){drawn.in[0], NULL}, one);
    assert_memory_equal(two[0], one[0], bytes);
    charl_dtype_decode(CHARL_F32, one[1], n, value);
    charl_free(two[0]);
    charl_free(one[0]);
    charl_free(one[1]);

    run_on(&charl_op_batch_norm_squares, &squares, (const double *[]){drawn.in[0], drawn.in[1]}, two);
    run_on(&of_moments, &moments, (const double *[]){value, drawn.in[1]}, one);
    assert_memory_equal(two[0], one[0], bytes);
    charl_free(two[0]);
    charl_free(one[0]);
    charl_free(value);
    charl__op_case_destroy(&drawn);
}

/* Operators that form operand 0 as they read it give the bits that they give of it in memory: the
 * gradient of relu behind a batch norm, of images that lie channels-last.
 */

/* Operands of the fused operator: the operator's from the second on, then what else forms the
 * first. Where weight, bias and the gradient of relu are. */
typedef struct prologue_case {
    const charl__op *op;
    const void *attr;
    charl__op_sample sample;
    int own, weight, bias, gout;
} prologue_case;

static const prologue_case prologues[] = {
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
static void prologue_no_reference(const charl__reference *r)
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
static void *prologue_run_on(const charl__op *op, const void *attr, const charl_type *type, double *const *value,
                             int n_in, charl_dtype half, size_t *bytes)
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
    void *raw = prologue_run_on(op, attr, type, value, n_in, half, &bytes);

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

static void prologue_check(const prologue_case *t, charl_dtype half)
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
    op.reference = prologue_no_reference;
    op.half = CHARL_HALF(0) | 1U << t->gout;
    s.attr = &p;
    charl_assert_ok(charl__op_case_create(&op, &s, half, SEED, &c));
    value[0] = operand(t, &c, half);
    for (int i = 1; i < t->own; i++) {
        type[i] = t->sample.in[i - 1];
        value[i] = c.in[i - 1];
    }
    want = prologue_run_on(t->op, t->attr, type, value, t->own, half, &bytes);
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
    for (int i = 0; i < (int)(sizeof prologues / sizeof prologues[0]); i++) {
        prologue_check(&prologues[i], CHARL_BF16);
        prologue_check(&prologues[i], CHARL_F16);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_layout_changes_no_value),
        cmocka_unit_test(moments_of_blocks_replace_a_pass),
        cmocka_unit_test(an_operand_is_formed_as_it_is_read),
    };

    return charl_test_on_device(tests, &dev);
}
