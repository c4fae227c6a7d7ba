/* Recurrent networks in one launch for all steps (src/autograd/op/recurrent/nvidia/persistent.c): the bits of a launch for each step, at
 * sizes that are whole tiles and not; the same ones every time. CHARL_TEST_LONG=1: of the last size a thousand times. */
#include "support/on_device.h"

#include <string.h>

#include "autograd/check/opcheck.h"
#include "base/alloc.h"
#include "base/env.h"

enum { SAMPLES = 4, OFTEN = 3, VERY_OFTEN = 1000 };

static charl_device *dev;
static charl_slices whole;
static bool skipped;

#define LSTM(B, T, H)                                                                                                  \
    {                                                                                                                  \
        .in = {CHARL_B(F32, B, T, 4 * (H)), CHARL_R(F32, 4 * (H), H)}, .lo = -0.2, .hi = 0.2                           \
    }
#define LSTM_GRAD(B, T, H)                                                                                             \
    {                                                                                                                  \
        .in = {CHARL_B(F32, B, T, H), CHARL_B(F32, B, T, 5 * (H)), CHARL_R(F32, 4 * (H), H)}, .n_in = 3, .lo = -0.2,   \
        .hi = 0.2                                                                                                      \
    }
#define GRU(B, T, H)                                                                                                   \
    {                                                                                                                  \
        .in = {CHARL_B(F32, B, T, 3 * (H)), CHARL_R(F32, 3 * (H), H), CHARL_R(F32, 3 * (H))}, .lo = -0.2, .hi = 0.2    \
    }
#define GRU_GRAD(B, T, H)                                                                                              \
    {                                                                                                                  \
        .in = {CHARL_B(F32, B, T, H), CHARL_B(F32, B, T, H), CHARL_B(F32, B, T, 4 * (H)), CHARL_R(F32, 3 * (H), H)},   \
        .n_in = 4, .lo = -0.2, .hi = 0.2                                                                               \
    }
#define SIZES(OP) OP(1, 2, 4), OP(19, 5, 36), OP(64, 3, 512), OP(35, 20, 100)

typedef struct row {
    const charl__op *op;
    charl__op_sample sample[SAMPLES];
} row;

static const row lstm = {&charl_op_lstm, {SIZES(LSTM)}}, lstm_grad = {&charl_op_lstm_grad, {SIZES(LSTM_GRAD)}},
                 gru = {&charl_op_gru, {SIZES(GRU)}}, gru_grad = {&charl_op_gru_grad, {SIZES(GRU_GRAD)}};

/* As the device runs it; or with a launch for each step. */
static void run(const charl__op_case *c, bool by_steps, void **raw, int64_t *launches)
{
    const charl__device_facts facts = *charl__device_facts_get(dev);
    const int64_t before = charl__device_counters_get(dev).launches;
    charl__device_facts form = facts;

    form.nvidia.ptx = facts.nvidia.ptx && !by_steps;
    charl__device_set_facts(dev, form);
    charl_assert_ok(charl__op_case_run(dev, c, &whole, 0, raw));
    charl__device_set_facts(dev, facts);
    *launches = charl__device_counters_get(dev).launches - before;
}

static void check(const row *r, int sample, charl_dtype dtype, int times)
{
    const charl__op *op = r->op;
    const int64_t steps = r->sample[sample].in[0].shape.dim[1];
    void *want[CHARL_OP_MAX_OUT] = {NULL};
    int64_t launches;
    charl__op_case c;

    charl_assert_ok(charl__op_case_create(op, &r->sample[sample], dtype, 7, &c));
    run(&c, true, want, &launches);
    assert_true(launches >= 2 * steps - 1);
    for (int i = 0; i < times; i++) {
        void *raw[CHARL_OP_MAX_OUT] = {NULL};

        run(&c, false, raw, &launches);
        assert_int_equal(launches, 1);
        for (int k = 0; k < c.n_out; k++) {
            if (memcmp(raw[k], want[k], charl__op_case_bytes(&c, &whole, k)) != 0) {
                fail_msg("%s, sample %d, %s: output %d of run %d has other bits", op->name, sample,
                         charl_dtype_name(dtype), k, i);
            }
            charl_free(raw[k]);
        }
    }
    for (int k = 0; k < CHARL_OP_MAX_OUT; k++) {
        charl_free(want[k]);
    }
    charl__op_case_destroy(&c);
}

static void test_bits(void **state)
{
    const row *r = *state;

    if (!charl__device_facts_get(dev)->nvidia.ptx || !charl__workspace_split_k(dev)) {
        skipped = true;
        skip(); /* tests/emulation runs the kernels */
    }
    for (int i = 0; i < SAMPLES; i++) {
        const bool often = i + 1 == SAMPLES && charl__env_is_on(CHARL_ENV_TEST_LONG);

        check(r, i, CHARL_F32, often ? VERY_OFTEN : OFTEN);
        check(r, i, CHARL_BF16, OFTEN);
        check(r, i, CHARL_F16, OFTEN);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "lstm", .test_func = test_bits, .initial_state = (void *)(uintptr_t)&lstm},
        {.name = "lstm_grad", .test_func = test_bits, .initial_state = (void *)(uintptr_t)&lstm_grad},
        {.name = "gru", .test_func = test_bits, .initial_state = (void *)(uintptr_t)&gru},
        {.name = "gru_grad", .test_func = test_bits, .initial_state = (void *)(uintptr_t)&gru_grad},
    };
    int failed;

    if (charl_slices_block(1, 0, 1, &whole) != CHARL_OK) {
        return 1;
    }
    failed = charl_test_on_device(tests, &dev);
    return failed == 0 && skipped ? 77 : failed;
}
