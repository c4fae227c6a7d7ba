/* Convolutions with more taps than a thread has stack for, if a kernel kept something of each: 9025. (The operators' samples have small
 * windows.) */
#include "support/on_device.h"

#include "autograd/op/conv/conv2d.h"
#include "autograd/check/opcheck.h"
#include "base/alloc.h"

static charl_device *dev;

#define IMAGE CHARL_R(F32, 1, 1, 95, 98)
#define WEIGHT CHARL_R(F32, 3, 1, 95, 95)
#define RESULT CHARL_R(F32, 1, 3, 3, 4)
#define DRAWN(n) .attr = &window, .lo = -1, .hi = 1, .terms = (n)

static const charl__conv_attr window = {
    .win = {.kernel = {95, 95}, .stride = {1, 1}, .padding = {1, 0}, .dilation = {1, 1}},
    .groups = 1,
    .size = {95, 98}};

static void values_are_right(void **state)
{
    static const struct {
        const charl__op *op;
        charl__op_sample sample;
    } cases[] = {
        {&charl_op_conv2d, {.in = {IMAGE, WEIGHT}, .n_in = 2, DRAWN(9025)}},
        {&charl_op_conv2d_dgrad, {.in = {RESULT, WEIGHT}, DRAWN(36)}},
        {&charl_op_conv2d_wgrad, {.in = {RESULT, IMAGE}, DRAWN(12)}},
    };
    charl_slices whole;

    (void)state;
    charl_assert_ok(charl_slices_block(1, 0, 1, &whole));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        charl__op_case c;
        charl__op_error error;
        void *raw[CHARL_OP_MAX_OUT];

        charl_assert_ok(charl__op_case_create(cases[i].op, &cases[i].sample, CHARL_F32, 5, &c));
        charl_assert_ok(charl__op_case_run(dev, &c, &whole, 0, raw));
        error = charl__op_case_compare(&c, raw);
        if (!(error.allowed <= 1)) {
            fail_msg("%s: element %lld is %.9g, not %.9g", cases[i].op->name, (long long)error.index, error.got,
                     error.want);
        }
        charl_free(raw[0]);
        charl__op_case_destroy(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_are_right)};

    return charl_test_on_device(tests, &dev);
}
