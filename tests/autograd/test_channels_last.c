/* Operators that take images channels-last give what they give of row-major ones: the reference's
 * values, and the same bits where nothing is summed over pixels. */
#include "support/on_device.h"

#include <stdio.h>
#include <string.h>

#include "autograd/op_common/norm.h"
#include "autograd/check/opcheck.h"
#include "autograd/op_common/pool.h"
#include "base/alloc.h"

enum { SLICES = 4, ALIGNED = 0 };

static charl_device *dev;
static charl_slices whole;

static const charl_norm ten = {10, 1e-5F, true};
static const charl_pool window = {{{3, 2}, {2, 1}, {1, 1}, {1, 1}}, {7, 5}};
static const int channels = 1;

/* x [8, C, 7, 5]; C is 16 and, where lines of a group are left over, 24. */
#define X(c) CHARL_B(F32, 8, c, 7, 5)
#define PER(c) CHARL_R(F32, c, 1, 1)
#define BOUNDS .lo = -1, .hi = 1, .terms = 280

static const struct {
    const charl_op *op;
    charl_op_sample sample;
    bool sums;
} cases[] = {
    {&charl_op_sum_to, {.in = {X(24)}, .attr = &channels, BOUNDS}, true},
    {&charl_op_batch_norm_squares, {.in = {X(16), CHARL_R(F32, 16)}, BOUNDS}, true},
    {&charl_op_batch_norm_sums, {.in = {X(24), X(24), PER(24), PER(24)}, BOUNDS}, true},
    {&charl_op_batch_norm_grad,
     {.in = {X(16), X(16), PER(16), PER(16), CHARL_R(F32, 2, 16), PER(16)}, .attr = &ten, BOUNDS},
     false},
    {&charl_op_batch_norm_apply,
     {.in = {X(24), PER(24), PER(24), PER(24), PER(24)}, .attr = &ten, BOUNDS},
     false},
    {&charl_op_relu_grad, {.in = {X(16), X(16)}, BOUNDS}, false},
    {&charl_op_max_pool2d, {.in = {X(16)}, .attr = &window, BOUNDS}, false},
    {&charl_op_max_pool2d_grad,
     {.in = {CHARL_B(F32, 8, 16, 4, 6), CHARL_B(I32, 8, 16, 4, 6)},
      .attr = &window,
      .int_end = 35,
      BOUNDS},
     false},
};

static void check(int i, charl_dtype half)
{
    charl_op_case c;
    charl_op_error error;
    void *rows[CHARL_OP_MAX_OUT], *last[CHARL_OP_MAX_OUT];

    charl_assert_ok(charl__op_case_create(cases[i].op, &cases[i].sample, half, 5, &c));
    charl_assert_ok(charl__op_case_run(dev, &c, &whole, ALIGNED, rows));
    c.channels_last = true;
    charl_assert_ok(charl__op_case_run(dev, &c, &whole, ALIGNED, last));
    error = charl__op_case_compare(&c, last);
    if (!(error.allowed <= 1)) {
        fail_msg("%s in %s: output %d[%lld] is %.9g, not %.9g", cases[i].op->name,
                 charl_dtype_name(half), error.output, (long long)error.index, error.got,
                 error.want);
    }
    for (int k = 0; k < c.n_out; k++) {
        if (!cases[i].sums && memcmp(rows[k], last[k], charl__op_case_bytes(&c, &whole, k)) != 0) {
            fail_msg("%s in %s: other bits than row-major", cases[i].op->name,
                     charl_dtype_name(half));
        }
        charl_free(rows[k]);
        charl_free(last[k]);
    }
    charl__op_case_destroy(&c);
}

static void the_layout_changes_no_value(void **state)
{
    (void)state;
    charl_assert_ok(charl__slices_block(SLICES, 0, 1, &whole));
    for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); i++) {
        check(i, i % 2 ? CHARL_F16 : CHARL_BF16);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_layout_changes_no_value),
    };

    return charl_test_on_device(tests, &dev);
}
