/* Matrix products of bf16 on the matrix unit of x86: when it is used, and its bits, for every layout, plan, stretch of k and tree over
 * leaves. What test_gemm_half checks of tensor cores it checks of this unit, too. */
#include "tensor/gemm_problem.h"

#include "base/env.h"
#include "base/fault.h"

enum { STEPS = 32 };

static const charl_device_request on_cpu = {.select = "cpu", .local_size = 1};

/* Numbers that bf16 holds. */
static void draw_bf16(problem *p)
{
    float *const x[] = {p->a, p->b};
    const int64_t n[] = {a_size(p), b_size(p)};

    for (int i = 0; i < 2; i++) {
        for (int64_t e = 0; e < n[i]; e++) {
            uint32_t bits;

            memcpy(&bits, &x[i][e], sizeof bits);
            bits &= 0xFFFF0000U;
            memcpy(&x[i][e], &bits, sizeof bits);
        }
    }
}

/* acc + a chain over the even ones of up to 32 steps, and one over the odd ones: what an instruction adds. */
static float add_block(float acc, const float *a, int64_t a_step, const float *b, int64_t b_step, int64_t steps)
{
    float sum[2] = {0.0F, 0.0F};

    for (int64_t k = 0; k < steps; k++) {
        sum[k % 2] = fmaf(a[k * a_step], b[k * b_step], sum[k % 2]);
    }
    return acc + (sum[0] + sum[1]);
}

static float element_of(const problem *p, int64_t z, int64_t i, int64_t j)
{
    const int64_t a_step = p->ta ? p->m : 1, b_step = p->tb ? 1 : p->n, segments = p->segments ? p->segments : 1;
    float acc = 0.0F;

    for (int64_t s = 0; s < segments; s++) {
        const float *a = p->a + (z * segments + s) * p->m * p->k + (p->ta ? i : i * p->k);
        const float *b = p->b + (z * segments + s) * p->k * p->n + (p->tb ? j * p->k : j);

        for (int64_t k = 0; k < p->k; k += STEPS) {
            const int64_t left = p->k - k < STEPS ? p->k - k : STEPS;

            acc = add_block(acc, a + k * a_step, a_step, b + k * b_step, b_step, left);
        }
    }
    return p->bias == CHARL_GEMM_BIAS_COLUMNS ? acc + p->c[j] : p->bias == CHARL_GEMM_BIAS_ROWS ? acc + p->c[i] : acc;
}

static void reference(const problem *p, float *out)
{
    for (int64_t e = 0; e < p->m * p->n * p->count; e++) {
        out[e] = element_of(p, e / (p->m * p->n), e / p->n % p->m, e % p->n);
    }
}

static problem make_bf16(const int64_t shape[3], int t, int64_t count)
{
    problem p = make(shape, t, count);

    p.type = CHARL_BF16;
    return p;
}

static bool has_amx(void)
{
    return charl__device_facts_get(dev)->x86.amx;
}

static void sums_are_chains_of_blocks(void **state)
{
    static const int64_t shape[][3] = {{1, 1, 1},     {5, 3, 0},     {3, 40, 31},  {16, 16, 32},
                                       {17, 33, 64},  {40, 5, 95},   {70, 45, 33}, {31, 130, 7},
                                       {33, 47, 600}, {600, 20, 66}, {48, 31, 512}};
    float *want, *got;

    (void)state;
    if (!has_amx()) {
        skip();
    }
    for (size_t s = 0; s < sizeof shape / sizeof *shape; s++) {
        for (int t = 0; t < 8; t++) {
            problem p = make_bf16(shape[s], t % 4, 3);

            p.segments = t / 4 * 2;
            draw(&p, false);
            draw_bf16(&p);
            charl_assert_ok(charl__alloc_array(out_size(&p), sizeof *want, &want));
            charl_assert_ok(charl__alloc_array(out_size(&p), sizeof *got, &got));
            reference(&p, want);
            run_form(&p, CHARL_GEMM_AUTO, t % 3, got);
            expect_same(&p, got, want, "chains of blocks");
            charl_free(want);
            charl_free(got);
            release(&p);
        }
    }
}

static void every_plan_gives_the_same_bits(void **state)
{
    static const int64_t shape[] = {700, 800, 100}; /* rows and columns of two work-items whichever it is */
    const charl_tensor bf16 = {.dtype = CHARL_BF16};
    charl__gemm_plan plans[CHARL__GEMM_PLANS];
    float *want, *got;

    (void)state;
    if (!has_amx()) {
        skip();
    }
    for (int t = 0; t < 4; t++) {
        problem p = make_bf16(shape, t, 1);
        const charl__gemm like = {.a = &bf16, .b = &bf16, .out = &bf16, .m = p.m, .n = p.n, .k = p.k, .segments = 2};
        const int n = charl__gemm_plans(dev, &like, plans);

        p.segments = 2;
        draw(&p, false);
        draw_bf16(&p);
        charl_assert_ok(charl__alloc_array(out_size(&p), sizeof *want, &want));
        charl_assert_ok(charl__alloc_array(out_size(&p), sizeof *got, &got));
        reference(&p, want);
        assert_true(n > 10);
        for (int i = 0; i < n; i++) {
            char text[CHARL__GEMM_TEXT];

            assert_ptr_equal(plans[i].backend, &charl__gemm_amx);
            p.plan = &plans[i];
            run_form(&p, CHARL_GEMM_AUTO, 0, got);
            expect_same(&p, got, want, charl__gemm_plan_text(&plans[i], text));
        }
        charl_free(want);
        charl_free(got);
        release(&p);
    }
}

/* Sums over leaves inside the kernel, also with nodes that are rounded. */
static void folds_like_the_tree(void **state)
{
    enum { M = 70, N = 45, K = 37, LEAVES = 13 };
    problem p = make_bf16((const int64_t[]){M, N, K}, 1, LEAVES);
    float *part, *leaf[LEAVES], *got;
    charl_tensor *a, *b, *o;

    (void)state;
    if (!has_amx()) {
        skip();
    }
    p.bias = CHARL_GEMM_NO_BIAS;
    draw(&p, false);
    draw_bf16(&p);
    charl_assert_ok(charl__alloc_array(LEAVES * M * N, sizeof *part, &part));
    charl_assert_ok(charl__alloc_array(M * N, sizeof *got, &got));
    a = place(p.a, a_size(&p), p.type, 0);
    b = place(p.b, b_size(&p), p.type, 5);
    o = place(NULL, M * N, CHARL_F32, 1);
    for (int leaves = 2; leaves <= LEAVES; leaves++) {
        reference(&p, part);
        for (int i = 0; i < LEAVES; i++) {
            leaf[i] = part + (size_t)i * M * N;
        }
        charl__tree_fold(leaf, leaves, M * N);
        charl_assert_ok(charl__gemm_enqueue(dev, &(charl__gemm){.a = a,
                                                                .b = b,
                                                                .out = o,
                                                                .m = M,
                                                                .n = N,
                                                                .k = K,
                                                                .a_kind = CHARL_GEMM_TRANSPOSED,
                                                                .a_outer = M * K,
                                                                .b_outer = K * N,
                                                                .leaves = leaves}));
        fetch(o, M * N, 1, got);
        charl_assert_same_bits(got, part, M * N);
    }
    charl_tensor_release(a);
    charl_tensor_release(b);
    charl_tensor_release(o);
    charl_free(part);
    charl_free(got);
    release(&p);
}

/* f32 and f16 have no use for it, and forms of a test are what they say. */
static void other_products_are_as_ever(void **state)
{
    static const charl_dtype types[] = {CHARL_F32, CHARL_F16, CHARL_BF16};

    (void)state;
    for (int i = 0; i < 3; i++) {
        const charl_tensor x = {.dtype = types[i]};
        charl__gemm like = {.a = &x, .b = &x, .out = &x, .m = 300, .n = 300, .k = 300};

        assert_true((charl__gemm_guess(dev, &like).backend == &charl__gemm_amx) ==
                    (has_amx() && types[i] == CHARL_BF16));
        like.form = CHARL_GEMM_VECTOR;
        assert_ptr_not_equal(charl__gemm_guess(dev, &like).backend, &charl__gemm_amx);
    }
    assert_true(!has_amx() || !charl_device_has_tensor_cores(dev, CHARL_F32));
}

static bool device_opens_with_amx(void)
{
    charl_device *other;
    bool has;

    charl_assert_ok(charl_device_open(&on_cpu, &other));
    has = charl__device_facts_get(other)->x86.amx;
    assert_int_equal(charl_device_has_tensor_cores(other, CHARL_BF16), has);
    charl_device_close(other);
    return has;
}

/* Not where it is forbidden, and not where the processor has none. */
static void can_be_left_alone(void **state)
{
    const char *before = charl__env(CHARL_ENV_NO_TENSOR_CORES);

    (void)state;
    charl__env_set(CHARL_ENV_NO_TENSOR_CORES, "1");
    assert_false(device_opens_with_amx());
    charl__env_set(CHARL_ENV_NO_TENSOR_CORES, before);
    charl_assert_ok(charl__fault_set("device.amx:1"));
    assert_false(device_opens_with_amx());
    charl_assert_ok(charl__fault_set(NULL));
    assert_int_equal(device_opens_with_amx(), has_amx());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_chains_of_blocks), cmocka_unit_test(every_plan_gives_the_same_bits),
        cmocka_unit_test(folds_like_the_tree),       cmocka_unit_test(other_products_are_as_ever),
        cmocka_unit_test(can_be_left_alone),
    };

    return charl_test_run_on_device_of(&on_cpu, "tests", tests, sizeof tests / sizeof *tests, &dev);
}
