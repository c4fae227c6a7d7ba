/* kernels/nvidia/recurrent on the host: two tiles of rows by two of units, neither whole, wait for one another after every step. The
 * bits are those of the operators, which run a launch for each step here; copies arrive at once and at the last moment. */
#include "support/on_device.h"

#include <stdlib.h>
#include <string.h>

#include "autograd/check/opcheck.h"
#include "base/alloc.h"
#include "emulation/lanes.h"
#include "recurrent/recurrent_args.h"

/* As CMakeLists.txt specialises the kernels. */
enum { B = 12, T = 4, H = 40, ROWS = 8, UNITS = 32, ITEMS = ROWS / 2 * UNITS, GROUPS = 4 };
enum { COUNTER_STRIDE = 32, WORDS = 2 * COUNTER_STRIDE, MOST_GATES = 4 };

#define AT(type, name) type *name, unsigned long name##_at
#define EXCHANGE float *state, unsigned *words, charl__recurrent_args args
#define EACH_GROUP(X, n)                                                                                               \
    X(n##_0);                                                                                                          \
    X(n##_1);                                                                                                          \
    X(n##_2);                                                                                                          \
    X(n##_3)
#define LSTM(n) void recurrent_##n(AT(const float, pre), AT(const float, w), AT(float, h), AT(float, saved), EXCHANGE)
#define GRU(n)                                                                                                         \
    void recurrent_##n(AT(const float, pre), AT(const float, w), AT(const float, bias), AT(float, h),                  \
                       AT(float, saved), EXCHANGE)
#define LSTM_GRADIENT(n)                                                                                               \
    void recurrent_gradient_##n(AT(const float, gh), AT(const float, saved), AT(const float, w), AT(float, out),       \
                                EXCHANGE)
#define GRU_GRADIENT(n)                                                                                                \
    void recurrent_gradient_##n(AT(const float, gh), AT(const float, h), AT(const float, saved), AT(const float, w),   \
                                AT(float, out), AT(float, out_inner), EXCHANGE)
EACH_GROUP(LSTM, 0);
EACH_GROUP(GRU, 1);
EACH_GROUP(LSTM_GRADIENT, 0);
EACH_GROUP(GRU_GRADIENT, 1);

static charl_device *dev;
static charl_slices whole;

typedef struct call {
    float *in[4], *out[2], *state;
    unsigned words[WORDS];
} call;

#define END                                                                                                            \
    c->state, c->words, (charl__recurrent_args)                                                                        \
    {                                                                                                                  \
        .batch = B, .steps = T                                                                                         \
    }
#define IN(i) c->in[i], 0
#define OUT(k) c->out[k], 0
#define OF_GROUP(name, ...)                                                                                            \
    switch (lanes_group()) {                                                                                           \
    case 0:                                                                                                            \
        name##_0(__VA_ARGS__);                                                                                         \
        break;                                                                                                         \
    case 1:                                                                                                            \
        name##_1(__VA_ARGS__);                                                                                         \
        break;                                                                                                         \
    case 2:                                                                                                            \
        name##_2(__VA_ARGS__);                                                                                         \
        break;                                                                                                         \
    default:                                                                                                           \
        name##_3(__VA_ARGS__);                                                                                         \
        break;                                                                                                         \
    }

static void work_lstm(void *ctx)
{
    call *c = ctx;

    OF_GROUP(recurrent_0, IN(0), IN(1), OUT(0), OUT(1), END)
}

static void work_gru(void *ctx)
{
    call *c = ctx;

    OF_GROUP(recurrent_1, IN(0), IN(1), IN(2), OUT(0), OUT(1), END)
}

static void work_lstm_grad(void *ctx)
{
    call *c = ctx;

    OF_GROUP(recurrent_gradient_0, IN(0), IN(1), IN(2), OUT(0), END)
}

static void work_gru_grad(void *ctx)
{
    call *c = ctx;

    OF_GROUP(recurrent_gradient_1, IN(0), IN(1), IN(2), IN(3), OUT(0), OUT(1), END)
}

typedef struct form {
    const charl__op *op;
    void (*work)(void *ctx);
    charl__op_sample sample;
} form;

static const form forms[] = {
    {&charl_op_lstm, work_lstm, {.in = {CHARL_B(F32, B, T, 4 * H), CHARL_R(F32, 4 * H, H)}, .lo = -1, .hi = 1}},
    {&charl_op_gru,
     work_gru,
     {.in = {CHARL_B(F32, B, T, 3 * H), CHARL_R(F32, 3 * H, H), CHARL_R(F32, 3 * H)}, .lo = -1, .hi = 1}},
    {&charl_op_lstm_grad,
     work_lstm_grad,
     {.in = {CHARL_B(F32, B, T, H), CHARL_B(F32, B, T, 5 * H), CHARL_R(F32, 4 * H, H)}, .n_in = 3, .lo = -1, .hi = 1}},
    {&charl_op_gru_grad,
     work_gru_grad,
     {.in = {CHARL_B(F32, B, T, H), CHARL_B(F32, B, T, H), CHARL_B(F32, B, T, 4 * H), CHARL_R(F32, 3 * H, H)},
      .n_in = 4,
      .lo = -1,
      .hi = 1}},
};

static float *place(int64_t n)
{
    float *p = NULL;

    assert_int_equal(charl__alloc_aligned(64, (size_t)n * sizeof *p, &p), CHARL_OK);
    memset(p, 0xFF, (size_t)n * sizeof *p); /* not numbers */
    return p;
}

static void check(const form *f, bool late)
{
    static const unsigned zeros[WORDS];
    call c = {.state = place((int64_t)2 * B * MOST_GATES * H)};
    void *want[CHARL_OP_MAX_OUT] = {NULL};
    charl__device_facts facts = *charl__device_facts_get(dev);
    const charl__device_facts as_is = facts;
    charl__op_case x;

    facts.nvidia.ptx = false;
    charl_assert_ok(charl__op_case_create(f->op, &f->sample, CHARL_F32, 3, &x));
    charl__device_set_facts(dev, facts);
    charl_assert_ok(charl__op_case_run(dev, &x, &whole, 0, want));
    charl__device_set_facts(dev, as_is);
    for (int i = 0; i < x.n_in; i++) {
        const int64_t n = charl_shape_count(&x.in_type[i].shape);

        c.in[i] = place(n);
        for (int64_t j = 0; j < n; j++) {
            c.in[i][j] = (float)x.in[i][j];
        }
    }
    for (int k = 0; k < x.n_out; k++) {
        c.out[k] = place(charl_shape_count(&x.out_type[k].shape));
    }
    assert_true(lanes_run_together(GROUPS, ITEMS, late, f->work, &c));
    assert_memory_equal(c.words, zeros, sizeof zeros);
    for (int k = 0; k < x.n_out; k++) {
        if (memcmp(c.out[k], want[k], charl__op_case_bytes(&x, &whole, k)) != 0) {
            fail_msg("%s, copies %s: output %d has other bits", f->op->name, late ? "late" : "at once", k);
        }
        charl_free(c.out[k]);
        charl_free(want[k]);
    }
    for (int i = 0; i < x.n_in; i++) {
        charl_free(c.in[i]);
    }
    charl_free(c.state);
    charl__op_case_destroy(&x);
}

static void test_bits(void **state)
{
    const form *f = *state;

    check(f, false);
    check(f, true);
}

int main(void)
{
    struct CMUnitTest tests[sizeof forms / sizeof *forms];

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        tests[i] = (struct CMUnitTest){
            .name = forms[i].op->name, .test_func = test_bits, .initial_state = (void *)(uintptr_t)&forms[i]};
    }
    if (charl_slices_block(1, 0, 1, &whole) != CHARL_OK) {
        return 1;
    }
    return charl_test_run_on_device("recurrent_emulated", tests, sizeof tests / sizeof *tests, &dev);
}
