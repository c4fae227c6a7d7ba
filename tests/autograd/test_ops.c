/* Every operator at every sample: device against double reference, NaN, memory guards, bits,
 * gradient.
 *
 * The table is the list of tests, so an operator without samples fails, and a new one is tested by
 * being there. Run one with `test_ops tanh`. With bf16 or f16 those that take such operands
 * run with them, at their BATCHED samples and the first of the others: each needs programs of its
 * own. With even or odd every other one runs, so that two processes share the work. With --bits the
 * program only prints a hash of all outputs of each operator: test_op_bits runs it with different
 * numbers of compute units and compares. With CHARL_TEST_SHORT gradients are compared with finite
 * differences at fewer places; most of the time goes there.
 */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "charl/device.h"
#include "charl/operator.h"

static charl_device *dev;
static charl_dtype half; /* of the operands that may be half-size: f32, bf16 or f16 */

static void test_op(void **state)
{
    /* What depends on the shape bf16 has shown. */
    const charl_operator_check_options options = {sizeof options, .precision = half, .seed = charl_test_seed(),
                                                  .brief =
                                                      half == CHARL_F16 && !charl_test_env_is_on("CHARL_TEST_LONG")};

    charl_assert_ok(charl_operator_check(dev, *state, &options, NULL));
}

static int print_bits(void)
{
    const charl_operator_check_options options = {sizeof options, .precision = half, .seed = 1, .outputs_only = true};
    charl_operator_report report;
    const char *name;

    for (int i = 0; (name = charl_operator_name(i)) != NULL; i++) {
        if (half != CHARL_F32 && !charl_operator_takes(name, half)) {
            continue;
        }
        if (charl_operator_check(dev, name, &options, &report) != CHARL_OK) {
            fprintf(stderr, "%s\n", charl_error_message());
            return 1;
        }
        printf("%s %s\n", name, report.hash);
    }
    return 0;
}

/* Every `stride`-th operator from `first` on. */
static int run_table(int first, int stride)
{
    struct CMUnitTest tests[256];
    const char *name;
    size_t n = 0;

    for (int i = 0; (name = charl_operator_name(i)) != NULL && n < 256; i++) {
        if (i >= first && (i - first) % stride == 0 && (half == CHARL_F32 || charl_operator_takes(name, half))) {
            tests[n++] =
                (struct CMUnitTest){.name = name, .test_func = test_op, .initial_state = (void *)(uintptr_t)name};
        }
    }
    return charl_test_run_group("operators", tests, n, NULL, NULL);
}

int main(int argc, char **argv)
{
    const charl_device_request request = {sizeof request, .local_size = 1};
    int rc, first = 0, stride = 1;
    bool bits = false;
    char **arg = argv + (argc > 0);

    for (; *arg; arg++) {
        const bool odd = strcmp(*arg, "odd") == 0;

        if (odd || strcmp(*arg, "even") == 0) {
            first = odd;
            stride = 2;
        } else if (strcmp(*arg, "bf16") == 0) {
            half = CHARL_BF16;
        } else if (strcmp(*arg, "f16") == 0) {
            half = CHARL_F16;
        } else if (strcmp(*arg, "--bits") == 0) {
            bits = true;
        } else {
            break;
        }
    }
    charl_test_select(arg);
    if (charl_device_open(&request, &dev) != CHARL_OK) {
        fprintf(stderr, "skipped: %s\n", charl_error_message());
        return 77;
    }
    rc = bits ? print_bits() : run_table(first, stride);
    charl_device_close(dev);
    if (rc == 0 && charl_test_live() != 0) {
        fprintf(stderr, "%ld objects are still alive\n", charl_test_live());
        rc = 1;
    }
    return rc;
}
