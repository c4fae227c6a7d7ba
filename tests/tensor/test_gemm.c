/* Matrix products: exact in integers against a plain loop, and bit for bit the same in every form.
 *
 * Operands lie at odd offsets inside guarded memory, outputs and guards are poisoned. The rate that
 * is printed is for people.
 */
#include "tensor/gemm_problem.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/numeric/tree.h"
#include "tensor/gemm/gemm_private.h"

static problem plain(int64_t m, int64_t n, int64_t k)
{
    return (problem){.m = m, .n = n, .k = k, .segments = 1, .count = 1};
}

/* The definition, with one fma per step: the same bits as the kernels', not only the same number.
 */
static void reference(const problem *p, float *out)
{
    for (int64_t e = 0; e < p->count * p->m * p->n; e++) {
        const int64_t z = e / (p->m * p->n), i = e / p->n % p->m, j = e % p->n;
        float sum = 0.0F;

        for (int64_t s = 0; s < p->segments; s++) {
            const float *a = p->a + (z * p->segments + s) * p->m * p->k;
            const float *b = p->b + (z * p->segments + s) * p->k * p->n;

            for (int64_t k = 0; k < p->k; k++) {
                sum = fmaf(a[p->ta ? k * p->m + i : i * p->k + k], b[p->tb ? j * p->k + k : k * p->n + j], sum);
            }
        }
        out[e] = p->bias == CHARL_GEMM_BIAS_COLUMNS ? sum + p->c[j]
                 : p->bias == CHARL_GEMM_BIAS_ROWS  ? sum + p->c[i]
                                                    : sum;
    }
}

static const struct {
    charl__gemm_form form;
    const char *name;
} forms[] = {{CHARL_GEMM_VECTOR, "vector"},
             {CHARL_GEMM_VECTOR_SMALL, "vector, one micro-tile"},
             {CHARL_GEMM_VECTOR_NARROW, "vector, narrow"},
             {CHARL_GEMM_LOCAL, "local, 64"},
             {CHARL_GEMM_LOCAL_SMALL, "local, 32"},
             {CHARL_GEMM_LOCAL_LARGE, "local, 128"}};

/* Packed blocks in every work-item's private memory are more than a GPU has; tiles in local memory need barriers. */
static bool suits_device(charl__gemm_form form)
{
    return form == CHARL_GEMM_VECTOR || form == CHARL_GEMM_VECTOR_SMALL || form == CHARL_GEMM_VECTOR_NARROW
               ? charl_device_get_info(dev)->kind == CHARL_DEVICE_CPU
               : charl_test_has_barriers(dev);
}

/* Building the largest form takes a CPU seconds: only where there is time. One transpose of the
 * narrow form will do. */
static bool can_run(charl__gemm_form form, const problem *p)
{
    if (!suits_device(form)) {
        return false;
    }
    if (form == CHARL_GEMM_VECTOR_NARROW) {
        return !p->ta && p->tb;
    }
    if (form == CHARL_GEMM_LOCAL_LARGE && !charl__env_is_on(CHARL_ENV_TEST_LONG)) {
        return false;
    }
    return form == CHARL_GEMM_VECTOR || form == CHARL_GEMM_VECTOR_SMALL || charl_device_get_info(dev)->max_group >= 256;
}

/* Every form against fmaf in a plain loop: bit for bit. */
static void check(problem p)
{
    const int64_t n = p.count * p.m * p.n;
    float *want, *got;

    charl_assert_ok(charl__alloc_array(n, sizeof *want, &want));
    charl_assert_ok(charl__alloc_array(n, sizeof *got, &got));
    for (int integers = 0; integers < 2; integers++) {
        draw(&p, integers);
        reference(&p, want);
        for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
            if (!can_run(forms[f].form, &p)) {
                continue;
            }
            run_form(&p, forms[f].form, integers ? 5 : 0, got);
            if (memcmp(got, want, (size_t)n * sizeof *got) != 0) {
                print_error("%s, %lld x %lld x %lld, ta %d, tb %d\n", forms[f].name, (long long)p.m, (long long)p.n,
                            (long long)p.k, p.ta, p.tb);
                charl_assert_same_bits(got, want, n);
            }
        }
    }
    charl_free(want);
    charl_free(got);
    release(&p);
}

static void every_shape_and_transpose(void **state)
{
    static const int64_t
        shape[][3] =
            {
                {1, 1, 1},     {1, 1, 300},   {1, 77, 5},      {77, 1, 5},     {8, 32, 128},
                {9, 33, 129},  {64, 64, 16},  {65, 63, 17},    {129, 131, 15}, {3, 200, 31},
                {200, 3, 31},  {128, 256, 1}, {100, 130, 257}, {4, 16, 16},    {5, 48, 64},
                {97, 161, 40}, {13, 29, 0},   {41, 100, 601},  {96, 164, 72} /* rows of whole fours, in many tiles */};

    (void)state;
    for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++) {
        for (int t = 0; t < 4; t++) {
            problem p = plain(shape[i][0], shape[i][1], shape[i][2]);

            p.ta = t & 1;
            p.tb = t & 2;
            p.bias = (charl__gemm_bias)(t % 3);
            check(p);
        }
    }
}

static void many_products_and_segments(void **state)
{
    (void)state;
    for (int t = 0; t < 8; t++) {
        problem p = plain(19, 35, t < 4 ? 21 : 0);

        p.ta = t & 1;
        p.tb = t & 2;
        p.bias = (charl__gemm_bias)(t % 3);
        p.count = 5;
        p.segments = 3;
        check(p);
    }
}

/* Columns of one leaf of A [k][m], as kernels/reduce/reduce.cl adds them: four chains by row. */
static void column_sums(const float *a, int64_t k, int64_t m, float *out)
{
    for (int64_t i = 0; i < m; i++) {
        float acc[4] = {0.0F, 0.0F, 0.0F, 0.0F};

        for (int64_t r = 0; r < k; r++) {
            acc[r % 4] += a[r * m + i];
        }
        out[i] = (acc[0] + acc[2]) + (acc[1] + acc[3]);
    }
}

/* Sums over leaves inside the kernels are those of the tree over separate products; those of A too,
 * where a kernel makes them. */
static void folds_like_the_tree(void **state)
{
    enum { M = 70, N = 45, K = 19, LEAVES = 13 };
    static const charl__gemm_form folding[] = {CHARL_GEMM_VECTOR, CHARL_GEMM_LOCAL, CHARL_GEMM_LOCAL_SMALL};
    problem p = plain(M, N, K);
    float *part, *leaf[LEAVES], *got, sums[LEAVES][M];
    charl_tensor *a, *b, *o, *s;

    (void)state;
    p.count = LEAVES;
    p.ta = true;
    draw(&p, false);
    charl_assert_ok(charl__alloc_array(LEAVES * M * N, sizeof *part, &part));
    charl_assert_ok(charl__alloc_array(M * N, sizeof *got, &got));
    a = place(p.a, a_size(&p), CHARL_F32, 0);
    b = place(p.b, b_size(&p), CHARL_F32, 5);
    o = place(NULL, M * N, CHARL_F32, 1);
    s = place(NULL, M, CHARL_F32, 2);
    for (int leaves = 1; leaves <= LEAVES; leaves++) {
        reference(&p, part);
        for (int i = 0; i < LEAVES; i++) {
            leaf[i] = part + (size_t)i * M * N;
        }
        charl__tree_fold(leaf, leaves, M * N);
        for (int i = 0; i < LEAVES; i++) {
            column_sums(p.a + (size_t)i * M * K, K, M, sums[i]);
            leaf[i] = sums[i];
        }
        charl__tree_fold(leaf, leaves, M);
        for (size_t f = 0; f < sizeof folding / sizeof *folding; f++) {
            if (!suits_device(folding[f])) {
                continue;
            }
            charl_assert_ok(charl__gemm_enqueue(dev, &(charl__gemm){.a = {a, CHARL_GEMM_TRANSPOSED, .outer = M * K},
                                                                    .b = {b, .outer = K * N},
                                                                    .out = {o},
                                                                    .m = M,
                                                                    .n = N,
                                                                    .k = K,
                                                                    .fold.leaves = leaves,
                                                                    .a_sums = f == 2 ? s : NULL,
                                                                    .form = folding[f]}));
            fetch(o, M * N, 1, got);
            charl_assert_same_bits(got, part, M * N);
            if (f == 2) { /* only that kernel sums A */
                fetch(s, M, 2, got);
                charl_assert_same_bits(got, sums[0], M);
            }
        }
    }
    charl_tensor_release(a);
    charl_tensor_release(b);
    charl_tensor_release(o);
    charl_tensor_release(s);
    charl_free(part);
    charl_free(got);
    release(&p);
}

/* A product's bits are the same alone and as one of many, and as part of a larger matrix. */
static void position_does_not_matter(void **state)
{
    problem many = plain(40, 50, 60), one;
    float *all, *alone;

    (void)state;
    many.count = 4;
    draw(&many, false);
    charl_assert_ok(charl__alloc_array(4 * 40 * 50, sizeof *all, &all));
    charl_assert_ok(charl__alloc_array(40 * 50, sizeof *alone, &alone));
    run_form(&many, CHARL_GEMM_AUTO, 0, all);
    one = many;
    one.count = 1;
    one.a += 3 * 40 * 60;
    one.b += 3 * 50 * 60;
    run_form(&one, CHARL_GEMM_AUTO, 0, alone);
    charl_assert_same_bits(alone, all + 3 * 40 * 50, 40 * 50);
    one.m = 7; /* the first rows only */
    run_form(&one, CHARL_GEMM_AUTO, 2, alone);
    charl_assert_same_bits(alone, all + 3 * 40 * 50, 7 * 50);
    charl_free(all);
    charl_free(alone);
    release(&many);
}

/* What a CPU builds quickly enough, or anything where there is time. */
static bool is_tried(const charl__gemm_plan *plan, const problem *p)
{
    return plan->form != CHARL_GEMM_LOCAL || (p->ta == p->tb && plan->rows == 16 && plan->depth == 32) ||
           charl__env_is_on(CHARL_ENV_TEST_LONG);
}

/* What a tuner chooses from: bit for bit the same, where rows begin at whole vectors. */
static void every_plan(void **state)
{
    static const charl__gemm_form form[] = {CHARL_GEMM_VECTOR, CHARL_GEMM_LOCAL};
    charl__gemm_plan plans[CHARL__GEMM_PLANS];
    problem p = plain(276, 76, 44); /* 18 rows of the tile that is always tried: two bands */
    char text[CHARL__GEMM_TEXT];
    float *want, *got;

    (void)state;
    p.segments = 2;
    charl_assert_ok(charl__alloc_array(p.m * p.n, sizeof *want, &want));
    charl_assert_ok(charl__alloc_array(p.m * p.n, sizeof *got, &got));
    for (int t = suits_device(form[0]) ? 0 : 4; t < 8; t++) {
        const charl__gemm like = {.m = p.m, .n = p.n, .k = p.k, .segments = p.segments, .form = form[t / 4]};
        const int n = charl__gemm_plans(dev, &like, plans);

        p.ta = t & 1;
        p.tb = t & 2;
        p.bias = (charl__gemm_bias)(t % 4 % 3);
        draw(&p, false);
        reference(&p, want);
        for (int i = 0; i < n; i++) {
            if (!is_tried(&plans[i], &p)) {
                continue;
            }
            p.plan = &plans[i];
            run_form(&p, form[t / 4], 0, got);
            if (memcmp(got, want, (size_t)(p.m * p.n) * sizeof *got) != 0) {
                print_error("%s, ta %d, tb %d\n", charl__gemm_plan_text(&plans[i], text), p.ta, p.tb);
                charl_assert_same_bits(got, want, p.m * p.n);
            }
        }
    }
    charl_free(want);
    charl_free(got);
    release(&p);
}

/* Whatever a GPU says of its local memory. */
static void vectors_are_for_cpus(void **state)
{
    const charl_device_info *info = charl_device_get_info(dev);
    const charl_tensor f32 = {.dtype = CHARL_F32};
    const charl__gemm like = {.a = {&f32}, .b = {&f32}, .out = {&f32}, .m = 300, .n = 300, .k = 300};
    const charl__gemm_backend *b = charl__gemm_guess(dev, &like).backend;

    (void)state;
    assert_int_equal(b == &charl__gemm_vector, info->kind == CHARL_DEVICE_CPU || info->max_group < 256);
}

static void refuses_what_does_not_fit(void **state)
{
    (void)state;
    charl_assert_status(charl__gemm_enqueue(dev, &(charl__gemm){.m = INT64_C(1) << 31, .n = 1, .k = 1}),
                        CHARL_ERR_SHAPE);
    charl_assert_message("beyond 2^31");
}

static void rate(void **state)
{
    static const int64_t shape[][3] = {{512, 512, 512}, {64, 256, 784}, {64, 784, 256}};

    (void)state;
    for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++) {
        for (int t = 0; t < 4; t += 3) {
            const int64_t m = shape[i][0], n = shape[i][1], k = shape[i][2];
            charl_tensor *a = place(NULL, m * k, CHARL_F32, 0), *b = place(NULL, k * n, CHARL_F32, 0),
                         *o = place(NULL, m * n, CHARL_F32, 0);
            double best = 1e9;

            for (int r = 0; r < 4; r++) {
                const double start = charl__clock_s();

                charl_assert_ok(
                    charl__gemm_enqueue(dev, &(charl__gemm){.a = {a, t & 1 ? CHARL_GEMM_TRANSPOSED : CHARL_GEMM_PLAIN},
                                                            .b = {b, t & 2 ? CHARL_GEMM_TRANSPOSED : CHARL_GEMM_PLAIN},
                                                            .out = {o},
                                                            .m = m,
                                                            .n = n,
                                                            .k = k}));
                charl_assert_ok(charl_device_sync(dev));
                best = fmin(best, charl__clock_s() - start);
            }
            print_message("%lld x %lld x %lld, ta %d, tb %d: %.1f GFLOP/s\n", (long long)m, (long long)n, (long long)k,
                          t & 1, t >> 1, 2e-9 * (double)(m * n * k) / best);
            charl_tensor_release(a);
            charl_tensor_release(b);
            charl_tensor_release(o);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_and_transpose),
        cmocka_unit_test(many_products_and_segments),
        cmocka_unit_test(folds_like_the_tree),
        cmocka_unit_test(position_does_not_matter),
        cmocka_unit_test(every_plan),
        cmocka_unit_test(vectors_are_for_cpus),
        cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test(rate),
    };

    return charl_test_on_device(tests, &dev);
}
