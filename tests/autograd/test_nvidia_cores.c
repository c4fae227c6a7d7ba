/* Kernels for NVIDIA's cores beside portable ones. Attention of half types at the extents where tensor cores have edges: against the double
 * reference in poisoned memory, at several places, with the same bits each time and beside other
 * rows.
 *
 * Where there are no tensor cores the portable kernels take these operands, and test_ops has shown
 * what they do: skipped.
 */
#include "support/on_device.h"

#include <stdio.h>
#include <string.h>

#include "autograd/op/attention/attention.h"
#include "autograd/check/opcheck.h"
#include "base/alloc.h"
#include "base/env.h"

enum { SEED = 5 };

static charl_device *dev;
static charl_slices whole;

typedef struct problem {
    int64_t b, t, d;
    int heads, kv_heads;
    bool causal;
    float p;
    bool no_glse, starts;
} problem;

static const problem problems[] = {
    {2, 1, 64, 2, 2, true, 0.0F, false},         {2, 63, 64, 3, 3, true, 0.0F, false},
    {1, 64, 64, 2, 1, true, 0.0F, true},         {2, 65, 64, 2, 2, true, 0.2F, false},
    {1, 127, 64, 4, 2, true, 0.0F, false},       {1, 128, 64, 2, 2, false, 0.0F, true},
    {1, 129, 64, 2, 2, false, 0.5F, false},      {1, 1000, 64, 2, 1, true, 0.0F, false},
    {1, 515, 64, 2, 2, true, 0.1F, true},        {1, 300, 128, 2, 2, true, 0.0F, false},
    {2, 130, 128, 4, 2, false, 0.3F, false},     {1, 200, 32, 3, 3, true, 0.0F, false},
    {1, 190, 96, 2, 2, true, 0.25F, false},      {1, 77, 40, 2, 1, true, 0.0F, false},
    {1, 140, 80, 2, 2, false, 0.0F, false},      {1, 300, 64, 2, 1, true, 0.1F, false, true},
    {2, 200, 128, 4, 2, true, 0.0F, true, true},
};
enum { N_PROBLEMS = sizeof problems / sizeof problems[0] };

static charl_type type_of(charl_shape shape)
{
    return (charl_type){CHARL_F32, shape, CHARL_REPLICATED};
}

/* The operator, or its gradient, at p. */
static void create(const problem *p, bool gradient, charl_dtype half, charl__attention_attr *a, charl__op_sample *s,
                   charl__op_case *c)
{
    const charl_shape qkv = {3, {p->b, p->t, (p->heads + 2 * p->kv_heads) * p->d}};
    const charl_type out = type_of((charl_shape){3, {p->b, p->t, p->heads * p->d}});
    const charl_type lse = type_of((charl_shape){3, {p->b, p->heads, p->t}});
    const charl_type start = {CHARL_I32, {2, {p->b, p->t}}, CHARL_REPLICATED};

    *a = (charl__attention_attr){.heads = p->heads,
                                 .kv_heads = p->kv_heads,
                                 .scale = 0.2F,
                                 .p = p->p,
                                 .causal = p->causal,
                                 .starts = p->starts,
                                 .key = 0x123456789abcdef0};
    *s = (charl__op_sample){.n_in = 1, .in = {type_of(qkv)}, .attr = a, .lo = -1, .hi = 1, .terms = p->t + p->d};
    if (gradient) {
        *s = (charl__op_sample){.in = {out, type_of(qkv), out, lse, lse},
                                .n_in = p->no_glse ? 4 : 5,
                                .attr = a,
                                .lo = -1,
                                .hi = 1,
                                .terms = p->t * p->heads + p->d};
    }
    if (p->starts) {
        s->in[s->n_in++] = start;
        s->int_end = p->t;
    }
    charl_assert_ok(charl__op_case_create(charl__op_find(gradient ? "attention_grad" : "attention"), s, half, SEED, c));
}

static void free_all(void **raw)
{
    for (int k = 0; k < CHARL_OP_MAX_OUT; k++) {
        charl_free(raw[k]);
        raw[k] = NULL;
    }
}

static void compare(const problem *p, const charl__op_case *c, void *const *raw)
{
    const charl__op_error worst = charl__op_case_compare(c, raw);

    if (!(worst.allowed <= 1.0)) {
        fail_msg("%s [%lld, %lld, (%d + 2 * %d) * %lld] causal %d dropout %g: output %d[%lld] is "
                 "%.9g, want %.9g: %.2f of what is allowed",
                 c->op->name, (long long)p->b, (long long)p->t, p->heads, p->kv_heads, (long long)p->d, p->causal,
                 (double)p->p, worst.output, (long long)worst.index, worst.got, worst.want, worst.allowed);
    }
}

/* Every shift of the operands gives the bits of the first. */
static void check(const problem *p, bool gradient, charl_dtype half)
{
    static const int64_t shift[] = {0, 8, 24};
    void *first[CHARL_OP_MAX_OUT], *raw[CHARL_OP_MAX_OUT];
    charl__attention_attr a;
    charl__op_sample s;
    charl__op_case c;

    create(p, gradient, half, &a, &s, &c);
    charl_assert_ok(charl__op_case_run(dev, &c, &whole, 0, first));
    compare(p, &c, first);
    for (size_t i = 1; i < sizeof shift / sizeof shift[0]; i++) {
        charl_assert_ok(charl__op_case_run(dev, &c, &whole, shift[i], raw));
        for (int k = 0; k < c.n_out; k++) {
            assert_memory_equal(raw[k], first[k], charl__op_case_bytes(&c, &whole, k));
        }
        free_all(raw);
    }
    free_all(first);
    charl__op_case_destroy(&c);
}

static void forward(void **state)
{
    (void)state;
    for (int i = 0; i < N_PROBLEMS; i++) {
        check(&problems[i], false, i % 3 == 2 ? CHARL_F16 : CHARL_BF16);
    }
}

static void gradient(void **state)
{
    (void)state;
    for (int i = 0; i < N_PROBLEMS; i++) {
        check(&problems[i], true, i % 3 == 1 ? CHARL_F16 : CHARL_BF16);
    }
}

/* Copies are of 16 bytes: what begins elsewhere is refused, not computed otherwise. */
static void places_are_refused(void **state)
{
    (void)state;
    for (int g = 0; g < 2; g++) {
        void *raw[CHARL_OP_MAX_OUT];
        charl__attention_attr a;
        charl__op_sample s;
        charl__op_case c;

        create(&problems[0], g, CHARL_BF16, &a, &s, &c);
        charl_assert_status(charl__op_case_run(dev, &c, &whole, 4, raw), CHARL_ERR_INVALID);
        charl_assert_message("not at a multiple of 8");
        charl__op_case_destroy(&c);
    }
}

/* A race shows as other bits, sooner or later. */
static void repeats(void **state)
{
    const int n = charl__env_is_on(CHARL_ENV_TEST_LONG) ? 1000 : 100;
    const problem p = {2, 300, 64, 4, 2, true, 0.2F, false};

    (void)state;
    for (int g = 0; g < 2; g++) {
        void *first[CHARL_OP_MAX_OUT], *raw[CHARL_OP_MAX_OUT];
        charl__attention_attr a;
        charl__op_sample s;
        charl__op_case c;

        create(&p, g, CHARL_BF16, &a, &s, &c);
        charl_assert_ok(charl__op_case_run(dev, &c, &whole, 0, first));
        compare(&p, &c, first);
        for (int i = 0; i < n; i++) {
            charl_assert_ok(charl__op_case_run(dev, &c, &whole, 0, raw));
            for (int k = 0; k < c.n_out; k++) {
                assert_memory_equal(raw[k], first[k], charl__op_case_bytes(&c, &whole, k));
            }
            free_all(raw);
        }
        free_all(first);
        charl__op_case_destroy(&c);
    }
}

/* Recurrent networks in one launch for all steps (src/autograd/op/recurrent/nvidia/persistent.c): the bits of a launch for each step, at
 * sizes that are whole tiles and not; the same ones every time. CHARL_TEST_LONG=1: of the last size a thousand times. */
enum { SAMPLES = 4, OFTEN = 3, VERY_OFTEN = 1000 };

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

static void recurrent_check(const row *r, int sample, charl_dtype dtype, int times)
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

    if (!charl__workspace_split_k(dev)) {
        skip();
    }
    for (int i = 0; i < SAMPLES; i++) {
        const bool often = i + 1 == SAMPLES && charl__env_is_on(CHARL_ENV_TEST_LONG);

        recurrent_check(r, i, CHARL_F32, often ? VERY_OFTEN : OFTEN);
        recurrent_check(r, i, CHARL_BF16, OFTEN);
        recurrent_check(r, i, CHARL_F16, OFTEN);
    }
}

static int skip_without_tensor_cores(void)
{
    bool has = false;

    if (charl_device_open(&(charl_device_request){sizeof(charl_device_request), .local_size = 1}, &dev) == CHARL_OK) {
        has = charl__device_has_nvidia_cores(dev, CHARL_BF16);
        charl_device_close(dev);
        dev = NULL;
    }
    if (!has) {
        fprintf(stderr, "skipped: no tensor cores\n");
    }
    return !has;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward),
        cmocka_unit_test(gradient),
        cmocka_unit_test(places_are_refused),
        cmocka_unit_test(repeats),
        {.name = "lstm", .test_func = test_bits, .initial_state = (void *)(uintptr_t)&lstm},
        {.name = "lstm_grad", .test_func = test_bits, .initial_state = (void *)(uintptr_t)&lstm_grad},
        {.name = "gru", .test_func = test_bits, .initial_state = (void *)(uintptr_t)&gru},
        {.name = "gru_grad", .test_func = test_bits, .initial_state = (void *)(uintptr_t)&gru_grad},
    };

    if (skip_without_tensor_cores()) {
        return 77;
    }
    charl_assert_ok(charl_slices_block(1, 0, 1, &whole));
    return charl_test_on_device(tests, &dev);
}
