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

#include "autograd/check/opcheck.h"
#include "base/alloc.h"
#include "base/env.h"
#include "base/numeric/hash.h"

static charl_device *dev;
static charl_dtype half; /* of the operands that may be half-size: f32, bf16 or f16 */
static charl_slices whole;

static void free_all(void **raw)
{
    for (int k = 0; k < CHARL_OP_MAX_OUT; k++) {
        charl_free(raw[k]);
        raw[k] = NULL;
    }
}

static void test_op(void **state)
{
    const charl__op *op = *state;
    /* What depends on the shape bf16 has shown. */
    const charl_operator_check_options options = {sizeof options, .precision = half, .seed = charl_test_seed(),
                                                  .brief = half == CHARL_F16 && !charl__env_is_on(CHARL_ENV_TEST_LONG)};

    charl_assert_ok(charl_operator_check(dev, op->name, &options, NULL));
}

static int print_bits(void)
{

    for (int o = 0; o < charl__op_count; o++) {
        const charl__op *op = charl__op_table[o];
        uint64_t hash = 0;
        bool alone = false;

        if (half != CHARL_F32 && !op->half) {
            continue;
        }
        for (int i = 0; i < op->n_samples; i++) {
            charl__op_case c;
            void *raw[CHARL_OP_MAX_OUT] = {NULL};
            charl_status st = charl__op_case_create(op, &op->samples[i], half, 1, &c);
            const bool chosen = st == CHARL_OK && charl__op_check_takes(&c, half, &alone);

            if (chosen) {
                st = charl__op_case_run(dev, &c, &whole, 0, raw);
            }
            if (st != CHARL_OK) {
                fprintf(stderr, "%s\n", charl_error_message());
                return 1;
            }
            for (int k = 0; chosen && k < c.n_out; k++) {
                hash = hash * 1099511628211U ^ charl__fnv1a64(raw[k], charl__op_case_bytes(&c, &whole, k));
            }
            free_all(raw);
            charl__op_case_destroy(&c);
        }
        printf("%s %016llx\n", op->name, (unsigned long long)hash);
    }
    return 0;
}

/* Every `stride`-th operator from `first` on. */
static int run_table(int first, int stride)
{
    struct CMUnitTest tests[256];
    size_t n = 0;

    for (int i = first; i < charl__op_count && n < 256; i += stride) {
        const charl__op *op = charl__op_table[i];

        if (half == CHARL_F32 || op->half) {
            tests[n++] =
                (struct CMUnitTest){.name = op->name, .test_func = test_op, .initial_state = (void *)(uintptr_t)op};
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
    if (charl_slices_block(1, 0, 1, &whole) != CHARL_OK || charl_device_open(&request, &dev) != CHARL_OK) {
        fprintf(stderr, "skipped: %s\n", charl_error_message());
        return 77;
    }
    rc = bits ? print_bits() : run_table(first, stride);
    charl_device_close(dev);
    if (rc == 0 && charl__live() != 0) {
        fprintf(stderr, "%ld objects are still alive\n", charl__live());
        rc = 1;
    }
    return rc;
}
