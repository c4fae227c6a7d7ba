/* kernels/nvidia/attention and recurrent on the host: what they do where no such device is at hand. */
#include "support/on_device.h"
#include "support/on_device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/check/opcheck.h"
#include "autograd/op/attention/attention.h"
#include "base/alloc.h"
#include "emulation/lanes.h"
#include "recurrent/recurrent_args.h"

/* kernels/nvidia/attention/attention_tensor_core*.cl on the host, against the operators' double references, with
 * copies that arrive at once and at the last moment: what they do where no such device is at hand.
 */

#define AT(type, name) type *name, unsigned long name##_at
enum { SEED = 11, GROUP = 128, MOST = 6 };

#define FORWARD(name)                                                                                                  \
    void name(const uint16_t *qkv, uint16_t *out, float *lse, const int32_t *mask, const uint32_t *record,             \
              charl__attention_args args)
#define GRADIENT(name)                                                                                                 \
    void name(const uint16_t *gout, const uint16_t *qkv, const uint16_t *out, const float *lse, const float *glse,     \
              float *deltas, uint16_t *dqkv, const int32_t *mask, const uint32_t *record, charl__attention_args args)

/* As CMakeLists.txt compiles them. */
#define SPECIALISED(cores, n)                                                                                          \
    FORWARD(cores##_forward_##n);                                                                                      \
    GRADIENT(cores##_queries_##n);                                                                                     \
    GRADIENT(cores##_keys_##n);
#define ALL_SPECIALISED(cores)                                                                                         \
    SPECIALISED(cores, 0)                                                                                              \
    SPECIALISED(cores, 1)                                                                                              \
    SPECIALISED(cores, 2)                                                                                              \
    SPECIALISED(cores, 3)                                                                                              \
    SPECIALISED(cores, 4)                                                                                              \
    SPECIALISED(cores, 5)
ALL_SPECIALISED(wgmma)
ALL_SPECIALISED(mma)

typedef struct specialised {
    FORWARD((*forward));
    GRADIENT((*queries));
    GRADIENT((*keys));
    charl_dtype type;
    int64_t d;
    bool causal, starts;
    int window;
    float p;
    int shift; /* elements before each operand of a half type */
} specialised;

#define FUNCTIONS(cores, n) .forward = cores##_forward_##n, .queries = cores##_queries_##n, .keys = cores##_keys_##n
/* clang-format off */
#define FORMS(cores)                                                                                                              \
    {                                                                                                                             \
        {FUNCTIONS(cores, 0), .type = CHARL_BF16, .d = 64, .causal = true, .p = 0.25F, .shift = 8},                               \
        {FUNCTIONS(cores, 1), .type = CHARL_F16, .d = 40, .p = 0.25F, .shift = 24},                                               \
        {FUNCTIONS(cores, 2), .type = CHARL_BF16, .d = 104, .causal = true, .p = 0.25F},                                          \
        {FUNCTIONS(cores, 3), .type = CHARL_BF16, .d = 128, .causal = true, .p = 0.25F, .shift = 8, .starts = true},              \
        {FUNCTIONS(cores, 4), .type = CHARL_F16, .d = 64, .causal = true, .p = 0.25F, .shift = 8, .window = 37},                  \
        {FUNCTIONS(cores, 5), .type = CHARL_BF16, .d = 128, .causal = true, .p = 0.25F, .shift = 8, .starts = true, .window = 37} \
    }
/* clang-format on */
static specialised forms[][6] = {FORMS(wgmma), FORMS(mma)};

static const struct {
    int64_t b, t;
    int heads, kv_heads;
    int form;
} problems[] = {{1, 66, 2, 1, 0},  {2, 1, 1, 1, 0},  {1, 129, 2, 2, 1}, {1, 65, 2, 1, 2},
                {1, 200, 2, 1, 3}, {2, 70, 1, 1, 3}, {1, 200, 2, 1, 4}, {2, 70, 1, 1, 5}};
enum { N_PROBLEMS = sizeof problems / sizeof problems[0] };

/* One launch. */
typedef struct call {
    const specialised *f;
    const charl__attention_attr *a;
    int t;
    void *x[MOST + 2]; /* operands in the kernel's order, but for start */
    const int32_t *start;
    enum { IS_FORWARD, IS_QUERIES, IS_KEYS } kind;
} call;

static const uint32_t record[CHARL_STEP_WORDS]; /* all 0, as the reference's seed and step */

static void work(void *ctx)
{
    const call *c = ctx;
    const charl__attention_attr *a = c->a;
    const uint64_t s = (uint64_t)c->f->shift;
    const charl__attention_args args = {.qkv = s,
                                        .out = s,
                                        .gout = s,
                                        .dqkv = s,
                                        .name_hash = a->key,
                                        .threshold = (uint32_t)(a->p * 16777216.0F),
                                        .keep_scale = 1.0F / (1.0F - a->p),
                                        .scale = a->scale,
                                        .t_all = c->t,
                                        .heads = a->heads,
                                        .kv_heads = a->kv_heads};

    if (c->kind == IS_FORWARD) {
        c->f->forward(c->x[0], c->x[1], c->x[2], c->start, record, args);
    } else {
        (c->kind == IS_QUERIES ? c->f->queries : c->f->keys)(c->x[0], c->x[1], c->x[2], c->x[3], c->x[4], c->x[5],
                                                             c->x[6], c->start, record, args);
    }
}

static void launch(call *c, int64_t b, int heads, bool late)
{
    const int tiles = (c->t + 63) / 64;

    assert_true(lanes_run((int)b * heads * tiles, GROUP, late, work, c));
}

/* Memory for n elements after `shift` others, all of them NaN. */
static void *poisoned(const charl_type *t, int shift)
{
    const size_t bytes = ((size_t)charl_shape_count(&t->shape) + (size_t)shift + 8) * charl_dtype_size(t->dtype);
    void *p = aligned_alloc(256, (bytes + 255) / 256 * 256);

    assert_non_null(p);
    memset(p, 0xFF, bytes);
    return p;
}

static void compare(const charl__op_case *c, int problem, bool late, void *const *out, int shift)
{
    void *raw[CHARL_OP_MAX_OUT] = {NULL};
    charl__op_error worst;

    for (int k = 0; k < c->n_out; k++) {
        const bool is_half = c->out_type[k].dtype != CHARL_F32;

        raw[k] = (char *)out[k] + (is_half ? 2 * shift : 0);
    }
    worst = charl__op_case_compare(c, raw);
    if (!(worst.allowed <= 1.0)) {
        fail_msg("%s, problem %d, copies %s: output %d[%lld] is %.9g, want %.9g: %.2f of what is "
                 "allowed",
                 c->op->name, problem, late ? "late" : "at once", worst.output, (long long)worst.index, worst.got,
                 worst.want, worst.allowed);
    }
}

static void run(const charl__op_case *oc, const charl__attention_attr *a, const specialised *f, int problem, bool late)
{
    const int64_t b = problems[problem].b;
    const int n_in = oc->n_in - a->starts;
    const bool gradient = n_in > 1;
    call c = {.f = f, .a = a, .t = (int)problems[problem].t};
    int n = 0;
    void *outputs, *start = NULL;

    if (a->starts) {
        start = poisoned(&oc->in_type[n_in], 0);
        charl_dtype_encode(CHARL_I32, oc->in[n_in], charl_shape_count(&oc->in_type[n_in].shape), start);
        c.start = start;
    }
    for (int i = 0; i < n_in; i++, n++) {
        const charl_type *t = &oc->in_type[i];
        const int shift = t->dtype == CHARL_F32 ? 0 : f->shift;

        c.x[n] = poisoned(t, shift);
        charl_dtype_encode(t->dtype, oc->in[i], charl_shape_count(&t->shape),
                           (char *)c.x[n] + (size_t)shift * charl_dtype_size(t->dtype));
    }
    if (gradient) {
        c.x[n++] = poisoned(&oc->in_type[3], 0); /* deltas */
    }
    outputs = &c.x[n];
    for (int k = 0; k < oc->n_out; k++, n++) {
        c.x[n] = poisoned(&oc->out_type[k], f->shift);
    }
    if (gradient) {
        c.kind = IS_QUERIES;
        launch(&c, b, a->heads, late);
        c.kind = IS_KEYS;
        launch(&c, b, a->kv_heads, late);
    } else {
        launch(&c, b, a->heads, late);
    }
    compare(oc, problem, late, outputs, f->shift);
    while (n > 0) {
        free(c.x[--n]);
    }
    free(start);
}

/* With a NaN in an element of an operand, which must go no further than the reference lets it go. */
static void spoil(charl__op_case *c, const charl__attention_attr *a, const specialised *f, int problem, int operand,
                  int64_t element)
{
    const double saved = c->in[operand][element];

    c->in[operand][element] = (double)NAN;
    charl__op_case_reference(c);
    run(c, a, f, problem, true);
    c->in[operand][element] = saved;
}

/* As it is drawn; with a NaN at the beginning of each operand; with one in a key and a value that not all queries see, but for
 * documents and windows, where the kernels pass over tiles that the reference multiplies by 0. */
static void check(charl__op_case *c, const charl__attention_attr *a, const specialised *f, int problem)
{
    const int n_in = c->n_in - a->starts, qkv = n_in > 1 ? 1 : 0;
    const int64_t key = (problems[problem].t / 2 * (a->heads + 2 * a->kv_heads) + a->heads) * f->d;

    run(c, a, f, problem, false);
    run(c, a, f, problem, true);
    for (int i = 0; i < n_in; i++) {
        spoil(c, a, f, problem, i, 0);
    }
    if (!a->starts && a->window == 0) {
        spoil(c, a, f, problem, qkv, key + 1);
        spoil(c, a, f, problem, qkv, key + a->kv_heads * f->d + 1);
    }
}

/* Documents of 70 positions, in place of what was drawn. */
static void set_documents(charl__op_case *c)
{
    const charl_type *type = &c->in_type[c->n_in - 1];

    for (int64_t i = 0; i < charl_shape_count(&type->shape); i++) {
        const int64_t q = i % type->shape.dim[1];

        c->in[c->n_in - 1][i] = (double)(q - q % 70);
    }
    charl__op_case_reference(c);
}

static charl_type type_of(int64_t i, int64_t j, int64_t k)
{
    return (charl_type){CHARL_F32, {3, {i, j, k}}, CHARL_REPLICATED};
}

static void against_the_reference(const char *name, const specialised *of_cores)
{
    for (int i = 0; i < N_PROBLEMS; i++) {
        const specialised *f = &of_cores[problems[i].form];
        const int heads = problems[i].heads, kv_heads = problems[i].kv_heads;
        const int64_t b = problems[i].b, t = problems[i].t;
        const charl__attention_attr a = {.heads = heads,
                                         .kv_heads = kv_heads,
                                         .scale = 0.25F,
                                         .p = f->p,
                                         .causal = f->causal,
                                         .starts = f->starts,
                                         .window = f->window,
                                         .key = 0x123456789abcdef0};
        const charl_type qkv = type_of(b, t, (heads + 2 * kv_heads) * f->d);
        const charl_type out = type_of(b, t, heads * f->d), lse = type_of(b, heads, t);
        charl__op_sample s = {.n_in = 1, .attr = &a, .lo = -1, .hi = 1, .int_end = t, .terms = heads * t + f->d};
        charl__op_case c;

        s.in[0] = qkv;
        if (strcmp(name, "attention_grad") == 0) {
            s.n_in = 5;
            memcpy(s.in, (charl_type[]){out, qkv, out, lse, lse}, 5 * sizeof out);
        }
        if (a.starts) {
            s.in[s.n_in++] = (charl_type){CHARL_I32, {2, {b, t}}, CHARL_REPLICATED};
        }
        charl_assert_ok(charl__op_case_create(charl__op_find(name), &s, f->type, SEED, &c));
        if (a.starts && b == 1) {
            set_documents(&c);
        }
        check(&c, &a, f, i);
        charl__op_case_destroy(&c);
    }
}

static void forward(void **state)
{
    against_the_reference("attention", *state);
}

static void gradient(void **state)
{
    against_the_reference("attention_grad", *state);
}

/* kernels/nvidia/attention/attention_token.cl: one part of the cache and three, the last of which some sequences have not reached. */
#define TOKEN(n)                                                                                                       \
    void token_attention_##n(AT(const uint16_t, qkv), AT(uint16_t, cache), AT(const int32_t, at), AT(uint16_t, out),   \
                             AT(float, part), int n_all, int heads, int kv_heads, float scale);                        \
    void token_merge_##n(AT(const float, part), AT(const int32_t, at), AT(uint16_t, out), int n_all, int heads)
TOKEN(0);
TOKEN(1);

typedef struct token_call {
    int form, heads, positions;
    uint16_t *qkv, *cache, *out;
    int32_t *at;
    float *part;
} token_call;

static void token_work(void *ctx)
{
    const token_call *c = ctx;

    (c->form ? token_attention_1 : token_attention_0)(c->qkv, 0, c->cache, 0, c->at, 0, c->out, 0, c->part, 0,
                                                      c->positions, c->heads, 1, 0.25F);
}

static void merge_work(void *ctx)
{
    const token_call *c = ctx;

    token_merge_1(c->part, 0, c->at, 0, c->out, 0, c->positions, c->heads);
}

static void token(void **state)
{
    static const struct {
        charl_dtype type;
        int64_t d, positions;
        int heads, parts, at[6];
    } form[] = {{CHARL_BF16, 64, 300, 1, 1, {0, 1, 255, 299, 300, 7}},
                {CHARL_F16, 24, 2100, 2, 3, {5, 1023, 1024, 2099, -1, 1030}}};
    enum { ROWS_OF_IT = 6, TOKEN_GROUP = 256 };

    (void)state;
    for (int i = 0; i < 2; i++) {
        const int heads = form[i].heads;
        const int64_t d = form[i].d, n = form[i].positions;
        const charl__attention_attr a = {.heads = heads, .kv_heads = 1, .scale = 0.25F, .causal = true};
        const charl__op_sample s = {.in = {type_of(ROWS_OF_IT, 1, (heads + 2) * d),
                                           type_of(ROWS_OF_IT, n, 2 * d),
                                           {CHARL_I32, {1, {ROWS_OF_IT}}, CHARL_REPLICATED}},
                                    .n_in = 3,
                                    .attr = &a,
                                    .lo = -1,
                                    .hi = 1,
                                    .int_end = n,
                                    .terms = 2 * n};
        token_call c = {.form = i, .heads = heads, .positions = (int)n};
        void **const in[] = {(void **)&c.qkv, (void **)&c.cache, (void **)&c.at};
        charl__op_case oc;

        charl_assert_ok(charl__op_case_create(charl__op_find("attention_cached"), &s, form[i].type, SEED, &oc));
        for (int r = 0; r < ROWS_OF_IT; r++) {
            oc.in[2][r] = form[i].at[r];
        }
        oc.in[1][(ROWS_OF_IT - 1) * n * 2 * d] = NAN; /* the first key of the last one */
        charl__op_case_reference(&oc);
        for (int k = 0; k < 3; k++) {
            *in[k] = poisoned(&oc.in_type[k], 0);
            charl_dtype_encode(oc.in_type[k].dtype, oc.in[k], charl_shape_count(&oc.in_type[k].shape), *in[k]);
        }
        c.out = poisoned(&oc.out_type[0], 0);
        c.part = aligned_alloc(256, 65536);
        memset(c.part, 0xFF, 65536);
        assert_true(lanes_run(ROWS_OF_IT * heads * form[i].parts, TOKEN_GROUP, false, token_work, &c));
        assert_true(form[i].parts == 1 || lanes_run(ROWS_OF_IT * heads, TOKEN_GROUP, false, merge_work, &c));
        compare(&oc, i, false, (void *[]){c.out}, 0);
        for (int r = 0; r < ROWS_OF_IT; r++) { /* the newest row is in the cache */
            const int at = form[i].at[r];

            if (at >= 0 && at < n) {
                assert_memory_equal(c.cache + (r * n + at) * 2 * d, c.qkv + (r * (heads + 2) + heads) * d,
                                    (size_t)(4 * d));
            }
        }
        for (int k = 0; k < 3; k++) {
            free(*in[k]);
        }
        free(c.out);
        free(c.part);
        charl__op_case_destroy(&oc);
    }
}

/* kernels/nvidia/recurrent on the host: two tiles of rows by two of units, neither whole, wait for one another after every step. The
 * bits are those of the operators, which run a launch for each step here; copies arrive at once and at the last moment. */

/* As CMakeLists.txt specialises the kernels. */
enum { B = 12, T = 4, H = 40, ROWS = 8, UNITS = 32, ITEMS = ROWS / 2 * UNITS, GROUPS = 4 };
enum { COUNTER_STRIDE = 32, WORDS = 2 * COUNTER_STRIDE, MOST_GATES = 4 };

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

typedef struct recurrent_call {
    float *in[4], *out[2], *state;
    unsigned words[WORDS];
} recurrent_call;

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
    recurrent_call *c = ctx;

    OF_GROUP(recurrent_0, IN(0), IN(1), OUT(0), OUT(1), END)
}

static void work_gru(void *ctx)
{
    recurrent_call *c = ctx;

    OF_GROUP(recurrent_1, IN(0), IN(1), IN(2), OUT(0), OUT(1), END)
}

static void work_lstm_grad(void *ctx)
{
    recurrent_call *c = ctx;

    OF_GROUP(recurrent_gradient_0, IN(0), IN(1), IN(2), OUT(0), END)
}

static void work_gru_grad(void *ctx)
{
    recurrent_call *c = ctx;

    OF_GROUP(recurrent_gradient_1, IN(0), IN(1), IN(2), IN(3), OUT(0), OUT(1), END)
}

typedef struct form {
    const charl__op *op;
    void (*work)(void *ctx);
    charl__op_sample sample;
} form;

static const form recurrent_forms[] = {
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

static void recurrent_check(const form *f, bool late)
{
    static const unsigned zeros[WORDS];
    recurrent_call c = {.state = place((int64_t)2 * B * MOST_GATES * H)};
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

    recurrent_check(f, false);
    recurrent_check(f, true);
}

int main(void)
{
    struct CMUnitTest tests[5 + sizeof recurrent_forms / sizeof *recurrent_forms] = {
        {"forward, wgmma", forward, NULL, NULL, forms[0]},
        {"forward, mma", forward, NULL, NULL, forms[1]},
        {"gradient, wgmma", gradient, NULL, NULL, forms[0]},
        {"gradient, mma", gradient, NULL, NULL, forms[1]},
        {"token", token, NULL, NULL, NULL},
    };

    for (size_t i = 0; i < sizeof recurrent_forms / sizeof *recurrent_forms; i++) {
        tests[5 + i] = (struct CMUnitTest){.name = recurrent_forms[i].op->name,
                                           .test_func = test_bits,
                                           .initial_state = (void *)(uintptr_t)&recurrent_forms[i]};
    }
    if (charl_slices_block(1, 0, 1, &whole) != CHARL_OK) {
        return 1;
    }
    return charl_test_run_on_device("emulated", tests, sizeof tests / sizeof *tests, &dev);
}
