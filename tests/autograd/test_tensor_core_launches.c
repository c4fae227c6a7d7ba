/* Sets the facts of tensor cores on a device that has none, and checks that launches get as far as compiling inline PTX, which fails
 * there: the file, its parameters and their kinds have been looked up by then. Of an operator only the first launch is seen. Results are
 * tested in tests/emulation.
 */
#include "support/support.h"

#include <stdio.h>
#include <string.h>

#include "autograd/check/opcheck.h"
#include "base/alloc.h"
#include "device/device_private.h"

enum { SEED = 3, ENOUGH = 2 /* samples of an operator that go there: a build that fails takes its time */ };

static charl_device *dev;
static charl_slices whole;

static void free_all(void **raw)
{
    for (int k = 0; k < CHARL_OP_MAX_OUT; k++) {
        charl_free(raw[k]);
        raw[k] = NULL;
    }
}

/* How many samples of the operator, up to ENOUGH, went to tensor cores. */
static int launch_samples(const charl__op *op)
{
    void *raw[CHARL_OP_MAX_OUT] = {NULL};
    int refused = 0;

    for (int i = 0; i < op->n_samples && refused < ENOUGH; i++) {
        const charl_dtype type = i % 2 ? CHARL_F16 : CHARL_BF16;
        bool alone = false;
        charl__op_case c;

        charl_assert_ok(charl__op_case_create(op, &op->samples[i], type, SEED, &c));
        if (charl__op_check_takes(&c, type, &alone)) {
            const charl_status st = charl__op_case_run(dev, &c, &whole, 0, raw);

            if (st != CHARL_OK && !(st == CHARL_ERR_KERNEL && strstr(charl_error_message(), "nvidia/"))) {
                fail_msg("%s, sample %d: %s", op->name, i, charl_error_message());
            }
            refused += st == CHARL_ERR_KERNEL;
        }
        free_all(raw);
        charl__op_case_destroy(&c);
    }
    return refused;
}

static void launch_all(void)
{
    static const char *const names[] = {"matmul", "attention",    "attention_grad",
                                        "conv2d", "conv2d_dgrad", "conv2d_wgrad"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_true(launch_samples(charl__op_find(names[i])) > 0);
    }
}

static void by_mma(void **state)
{
    (void)state;
    dev->facts.nvidia = (charl__nvidia_facts){.mma = true};
    launch_all();
}

static void by_wgmma(void **state)
{
    (void)state;
    dev->facts.nvidia = (charl__nvidia_facts){.wgmma = true};
    launch_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_mma), cmocka_unit_test(by_wgmma)};
    int rc = 77;

    if (charl_slices_block(1, 0, 1, &whole) != CHARL_OK ||
        charl_device_open(&(charl_device_request){sizeof(charl_device_request), .local_size = 1}, &dev) != CHARL_OK) {
        fprintf(stderr, "skipped: %s\n", charl_error_message());
        return 77;
    }
    if (charl__device_facts_get(dev)->nvidia.ptx) {
        fprintf(stderr, "skipped: the device builds such kernels\n");
    } else {
        rc = cmocka_run_group_tests(tests, NULL, NULL);
    }
    charl_device_close(dev);
    return rc;
}
