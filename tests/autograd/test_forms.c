/* One result whatever the launch: every operator gives the same bits with work-groups, as on a GPU,
 * and without, as on a CPU.
 */
#include "support/on_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/check/opcheck.h"
#include "base/alloc.h"
#include "base/env.h"

static charl_device *dev;
static charl_slices whole;

static void compare_forms(const charl__op *op, int sample, charl_dtype precision, const charl_slices *slices)
{
    /* An NVIDIA compiler does not take what is written for CPUs (kernels/prelude/vectors.clh). */
    static const int groups[] = {1, 64, 256};
    const charl__device_facts facts = *charl__device_facts_get(dev);
    const size_t begin = facts.nvidia.ptx ? 1 : 0;
    const size_t n_groups = begin > 0 || charl__env_is_on(CHARL_ENV_TEST_LONG) ? 3 : 2;
    charl__op_case c;
    void *first[CHARL_OP_MAX_OUT] = {NULL};

    charl_assert_ok(charl__op_case_create(op, &op->samples[sample], precision, 1 + (uint64_t)sample, &c));
    for (size_t f = begin; f < n_groups; f++) {
        void *raw[CHARL_OP_MAX_OUT] = {NULL};
        charl__device_facts form = facts;

        form.group = groups[f];
        charl__device_set_facts(dev, form);
        charl_assert_ok(charl__op_case_run(dev, &c, slices, 1, raw));
        for (int k = 0; k < c.n_out; k++) {
            if (f > begin && memcmp(raw[k], first[k], charl__op_case_bytes(&c, slices, k)) != 0) {
                fail_msg("%s in %s, sample %d: output %d has other bits in groups of %d", op->name,
                         charl_dtype_name(precision), sample, k, groups[f]);
            }
            charl_free(f == begin ? NULL : raw[k]);
            first[k] = f == begin ? raw[k] : first[k];
        }
    }
    charl__device_set_facts(dev, facts);
    for (int k = 0; k < CHARL_OP_MAX_OUT; k++) {
        charl_free(first[k]);
    }
    charl__op_case_destroy(&c);
}

static bool has_slices(const charl__op_sample *s)
{
    bool any = false;

    for (int i = 0; i < CHARL_OP_MAX_IN; i++) {
        if (s->in[i].batch == CHARL_BATCHED) {
            any = s->in[i].shape.dim[0] % 8 == 0;
        }
    }
    return any;
}

/* Half types: promised with train.products = integer. The first sample in bf16; with CHARL_TEST_LONG all samples in both. */
static void test_forms(void **state)
{
    static const charl_dtype types[] = {CHARL_F32, CHARL_BF16, CHARL_F16};
    const charl__op *op = *state;
    const bool is_long = charl__env_is_on(CHARL_ENV_TEST_LONG);
    charl_slices part;

    charl_assert_ok(charl_slices_range(8, 1, 6, &part));
    for (int sample = 0; sample < op->n_samples; sample++) {
        const int n_types = !op->half ? 1 : is_long ? 3 : sample == 0 ? 2 : 1;

        for (int i = 0; i < n_types; i++) {
            compare_forms(op, sample, types[i], &whole);
            if (has_slices(&op->samples[sample])) {
                compare_forms(op, sample, types[i], &part);
            }
        }
    }
}

int main(void)
{
    struct CMUnitTest tests[256];
    size_t n = 0;

    if (charl_slices_block(1, 0, 1, &whole) != CHARL_OK) {
        return 1;
    }
    for (int i = 0; i < charl__op_count && n < 256; i++) {
        const charl__op *op = charl__op_table[i];

        tests[n++] =
            (struct CMUnitTest){.name = op->name, .test_func = test_forms, .initial_state = (void *)(uintptr_t)op};
    }
    return charl_test_run_on_device_of(
        &(charl_device_request){sizeof(charl_device_request), .local_size = 1, .exact_half = true}, "forms", tests, n,
        &dev);
}
