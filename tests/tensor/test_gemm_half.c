/* Matrix products of bf16 and f16, on tensor cores where the device has them, and of f32 as tf32:
 * exact in integers, and the same bits in every form, for every alignment and for any number of
 * rows.
 *
 * Where there are no tensor cores every form is the portable kernel, whose sums test_gemm checks:
 * two layouts do.
 */
#include "tensor/gemm_problem.h"

#include "base/env.h"
#include "tensor/gemm/gemm_private.h"

/* Sums of integers are exact in f32, in whatever order they are taken. */
static void reference(const problem *p, float *out)
{
    for (int64_t e = 0; e < out_size(p); e++) {
        const int64_t z = e / (p->m * p->n), i = e / p->n % p->m, j = e % p->n;
        const float *a = p->a + z * p->m * p->k + (p->ta ? i : i * p->k);
        const float *b = p->b + z * p->k * p->n + (p->tb ? j * p->k : j);
        const int64_t a_step = p->ta ? p->m : 1, b_step = p->tb ? 1 : p->n;
        float sum = 0.0F;

        for (int64_t k = 0; k < p->k; k++) {
            sum += a[k * a_step] * b[k * b_step];
        }
        out[e] = p->bias == CHARL_GEMM_BIAS_COLUMNS ? sum + p->c[j]
                 : p->bias == CHARL_GEMM_BIAS_ROWS  ? sum + p->c[i]
                                                    : sum;
    }
}

static void check(problem p, bool integers)
{
    float *want, *got;

    draw(&p, integers);
    charl_assert_ok(charl__alloc_array(out_size(&p), sizeof *want, &want));
    charl_assert_ok(charl__alloc_array(out_size(&p), sizeof *got, &got));
    if (integers) {
        reference(&p, want);
    } else {
        run_form(&p, CHARL_GEMM_TENSOR_CORE, 0, want);
    }
    for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++) {
        run_form(&p, variants[v].form, variants[v].shift, got);
        expect_same(&p, got, want, variants[v].what);
    }
    charl_free(want);
    charl_free(got);
    release(&p);
}

static void every_layout_and_edge(void **state)
{
    static const int64_t shape[][3] = {{1, 1, 1},      {1, 77, 5},       {77, 1, 5},       {64, 64, 16},
                                       {65, 63, 17},   {128, 128, 64},   {128, 256, 64},   {129, 257, 65},
                                       {130, 264, 72}, {200, 520, 200},  {256, 256, 520},  {97, 161, 40},
                                       {13, 29, 0},    {2200, 40, 24},   {40, 2200, 24},   {120, 248, 192},
                                       {8, 8, 1024},   {128, 1024, 128}, {2176, 520, 128}, {1000, 1000, 88}};

    (void)state;
    if (is_tf32 && !has_tensor_cores()) {
        return;
    }
    if (!has_tensor_cores()) {
        check(make(shape[4], 1, 1), true);
        check(make(shape[11], 2, 1), true);
        return;
    }
    for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++) {
        for (int t = 0; t < 4; t++) {
            check(make(shape[i], t, 1), true);
        }
    }
}

static void many_products(void **state)
{
    static const int64_t shape[][3] = {{72, 136, 80}, {19, 35, 21}, {300, 264, 136}};

    (void)state;
    for (size_t i = 0; has_tensor_cores() && i < sizeof shape / sizeof shape[0]; i++) {
        for (int t = 0; t < 4; t++) {
            check(make(shape[i], t, 5), true);
        }
    }
}

/* Fractions, which round at every step: no variant changes a bit. */
static void same_bits_in_every_form(void **state)
{
    static const int64_t shape[][3] = {{200, 520, 700}, {129, 257, 65}, {384, 384, 1000}};

    (void)state;
    for (size_t i = 0; has_tensor_cores() && i < sizeof shape / sizeof shape[0]; i++) {
        for (int t = 0; t < 4; t++) {
            check(make(shape[i], t, 2), false);
        }
    }
}

/* Products of few rows have a kernel of their own (gemm_few_rows.cl), with the bits of the others. */
static void few_rows_have_the_bits_of_many(void **state)
{
    static const int64_t shape[][3] = {{1, 1600, 1600}, {3, 50, 8},     {8, 77, 72},     {9, 264, 504},  {17, 100, 64},
                                       {33, 300, 768},  {64, 40, 1024}, {64, 9000, 328}, {5, 20000, 264}};

    (void)state;
    for (size_t i = 0; has_tensor_cores() && i < sizeof shape / sizeof shape[0]; i++) {
        check(make(shape[i], 2, 1), false);
    }
}

/* A result in a half type is the f32 one rounded. */
static void half_results_are_rounded_once(void **state)
{
    static const int64_t shape[] = {150, 266, 300}, odd[] = {70, 131, 300};

    (void)state;
    for (int t = 0; t < (has_tensor_cores() ? 8 : 1); t++) {
        problem p = make(t & 4 ? odd : shape, t & 3, 1);
        float *want, *got;

        draw(&p, false);
        charl_assert_ok(charl__alloc_array(out_size(&p), sizeof *want, &want));
        charl_assert_ok(charl__alloc_array(out_size(&p), sizeof *got, &got));
        run_form(&p, CHARL_GEMM_AUTO, 0, got);
        p.out = p.type;
        {
            charl_tensor *rounded = place(got, out_size(&p), p.out, 0);

            fetch(rounded, out_size(&p), 0, want);
            charl_tensor_release(rounded);
        }
        for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++) {
            run_form(&p, variants[v].form, variants[v].shift, got);
            expect_same(&p, got, want, variants[v].what);
        }
        charl_free(want);
        charl_free(got);
        release(&p);
    }
}

/* Products of text that is generated (gemm_token.cl) are exact in integers, and the bits of a row do not depend on the others. */
static void products_of_tokens(void **state)
{
    static const int64_t shape[][3] = {{70, 1600, 1600}, {16, 50, 8}, {33, 9000, 328}, {9, 77, 6400}};

    (void)state;
    for (size_t i = 0; has_tensor_cores() && i < sizeof shape / sizeof shape[0]; i++) {
        problem p = make(shape[i], 2, 1);
        float *want, *got;

        p.generates = true;
        p.bias = CHARL_GEMM_BIAS_COLUMNS;
        draw(&p, true);
        charl_assert_ok(charl__alloc_array(out_size(&p), sizeof *want, &want));
        charl_assert_ok(charl__alloc_array(out_size(&p), sizeof *got, &got));
        reference(&p, want);
        run_form(&p, CHARL_GEMM_AUTO, 0, got);
        expect_same(&p, got, want, "of tokens");
        draw(&p, false);
        run_form(&p, CHARL_GEMM_AUTO, 0, want);
        p.a += (p.m - 1) * p.k;
        memmove(want, want + (p.m - 1) * p.n, (size_t)p.n * sizeof *want);
        p.m = 1;
        run_form(&p, CHARL_GEMM_AUTO, 0, got);
        expect_same(&p, got, want, "one of the tokens");
        p.a -= (shape[i][0] - 1) * p.k;
        charl_free(want);
        charl_free(got);
        release(&p);
    }
}

/* A row's bits do not depend on how many rows there are beside it: ranks split the batch. */
static void rows_do_not_matter(void **state)
{
    static const int64_t shape[] = {3000, 264, 500};
    problem p = make(shape, 2, 1);
    float *all, *some;

    (void)state;
    if (!has_tensor_cores()) {
        return;
    }
    p.bias = CHARL_GEMM_BIAS_COLUMNS;
    draw(&p, false);
    charl_assert_ok(charl__alloc_array(out_size(&p), sizeof *all, &all));
    charl_assert_ok(charl__alloc_array(out_size(&p), sizeof *some, &some));
    run_form(&p, CHARL_GEMM_AUTO, 0, all);
    for (int64_t rows = 1; rows < 1000; rows += 333) {
        problem q = p;

        q.m = rows;
        q.a += 777 * p.k;
        run_form(&q, CHARL_GEMM_AUTO, 0, some);
        expect_same(&q, some, all + 777 * p.n, "a part of the rows");
    }
    charl_free(all);
    charl_free(some);
    release(&p);
}

/* Copies run ahead of the products that read them: a missing wait would show now and then. */
static void repeats_give_the_same_bits(void **state)
{
    static const int64_t shape[] = {1500, 1160, 328};
    static const charl__gemm_form form[] = {CHARL_GEMM_TENSOR_CORE, CHARL_GEMM_TENSOR_CORE_WIDE,
                                            CHARL_GEMM_TENSOR_CORE_SPLIT};
    const int repeats = charl__env_is_on(CHARL_ENV_TEST_LONG) ? 1000 : 100;

    (void)state;
    for (int t = 0; has_tensor_cores() && t < 4; t++) {
        problem p = make(shape, t, 2);
        float *want, *got;

        draw(&p, false);
        charl_assert_ok(charl__alloc_array(out_size(&p), sizeof *want, &want));
        charl_assert_ok(charl__alloc_array(out_size(&p), sizeof *got, &got));
        run_form(&p, CHARL_GEMM_AUTO, 0, want);
        for (int r = 0; r < repeats / 4; r++) {
            run_form(&p, form[r % 3], 0, got);
            if (memcmp(got, want, (size_t)out_size(&p) * sizeof *got) != 0) {
                expect_same(&p, got, want, "a repetition");
            }
        }
        charl_free(want);
        charl_free(got);
        release(&p);
    }
}

static void expect_sums_of_a(const problem *p)
{
    for (int64_t e = 0; e < p->m * p->count; e++) {
        const float *a = p->a + e / p->m * p->m * p->k + e % p->m;
        float sum = 0.0F;

        for (int64_t k = 0; k < p->k; k++) {
            sum += a[k * p->m];
        }
        if (p->a_sums[e] != sum) {
            fail_msg("%lld x %lld x %lld: sum %lld is %.9g, not %.9g", (long long)p->m, (long long)p->n,
                     (long long)p->k, (long long)e, (double)p->a_sums[e], (double)sum);
        }
    }
}

/* Sums of A beside the product: exact in integers, and the product as it is without them. */
static void sums_of_a_change_nothing(void **state)
{
    static const int64_t shape[][3] = {{129, 520, 65}, {200, 264, 520}, {300, 40, 136}};

    (void)state;
    if (!charl__device_has_nvidia_cores(dev, is_tf32 ? CHARL_F32 : CHARL_BF16)) {
        return;
    }
    for (int t = 0; t < 6; t++) {
        problem p = make(shape[t / 2], 1 + t % 2 * 2, 3); /* A transposed */
        float *want, *got, *sums;

        draw(&p, true);
        charl_assert_ok(charl__alloc_array(out_size(&p), sizeof *want, &want));
        charl_assert_ok(charl__alloc_array(out_size(&p), sizeof *got, &got));
        charl_assert_ok(charl__alloc_array(p.m * p.count, sizeof *sums, &sums));
        reference(&p, want);
        p.a_sums = sums;
        for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++) {
            run_form(&p, variants[v].form, variants[v].shift, got);
            expect_same(&p, got, want, variants[v].what);
            expect_sums_of_a(&p);
        }
        charl_free(want);
        charl_free(got);
        charl_free(sums);
        release(&p);
    }
}

/* Sums over products where these are computed: also of copied operands, and with sums of A. */
static void sums_of_leaves_are_those_of_the_tree(void **state)
{
    static const int64_t shape[][3] = {{300, 520, 200}, {129, 257, 65}, {1100, 1296, 72}};
    static const charl__gemm_form form[] = {CHARL_GEMM_AUTO, CHARL_GEMM_TENSOR_CORE_PADDED};

    (void)state;
    if (!charl__device_facts_get(dev)->nvidia.wgmma) {
        skip();
    }
    for (int t = 0; t < 12; t++) {
        check_levels(make(shape[t / 4], t % 4, 8), form, 2);
    }
}

/* Anywhere: the copies that tensor cores read, and the memory for them, which grows and stays. */
static void rows_are_copied_to_whole_chunks(void **state)
{
    enum { ROWS = 5, LENGTH = 11, PITCH = 16, PRODUCTS = 3 };
    const problem p = make((const int64_t[]){ROWS, LENGTH, 8}, 0, PRODUCTS);
    float values[PRODUCTS * ROWS * LENGTH];
    uint16_t given[PRODUCTS * ROWS * LENGTH], copy[PRODUCTS * ROWS * PITCH];
    charl_tensor *x;
    charl__buffer *small, *large;
    const charl__gemm g = {.m = ROWS, .n = LENGTH, .k = 8, .count = PRODUCTS, .form = CHARL_GEMM_TENSOR_CORE_PADDED};
    charl__matrix a, b = {.rows = 8, .length = 16, .pitch = 16, .outer = 8 * 16};

    (void)state;
    charl_test_fill(values, PRODUCTS * ROWS * LENGTH, -1.0F, 1.0F, 5U);
    x = place(values, PRODUCTS * ROWS * LENGTH, p.type, 3);
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, x->buffer, (size_t)x->offset * sizeof *given, given,
                                       sizeof given, true));
    a = (charl__matrix){.first = charl__in(x), .rows = ROWS, .length = LENGTH, .pitch = LENGTH, .outer = ROWS * LENGTH};
    charl_assert_ok(charl__gemm_pad(dev, &g, &a, &b));
    assert_true(charl__matrix_is_aligned(&a, 8));
    assert_int_equal(a.pitch, PITCH);
    assert_int_equal(a.outer, ROWS * PITCH);
    assert_null(b.first.buffer); /* was in order */
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, a.first.buffer, (size_t)a.first.v.offset * sizeof *copy,
                                       copy, sizeof copy, true));
    for (int i = 0; i < PRODUCTS * ROWS * PITCH; i++) {
        assert_int_equal(copy[i], i % PITCH < LENGTH ? given[i / PITCH * LENGTH + i % PITCH] : 0);
    }
    charl_assert_ok(charl__workspace_copies(dev, 1, &small));
    assert_ptr_equal(small, a.first.buffer);
    charl_assert_ok(charl__workspace_copies(dev, 100000, &large));
    charl_assert_ok(charl__workspace_copies(dev, 1, &small));
    assert_ptr_equal(small, large);
    charl_assert_status(charl__workspace_copies(dev, SIZE_MAX / 4, &large), CHARL_ERR_NOMEM);
    charl_tensor_release(x);
}

/* What tf32 rounds away: the product is that of what is left. */
static void elements_are_rounded_to_tf32(void **state)
{
    float x[] = {1.0F, 0x1.ffdp+0F, 0x1.002p+0F, 0x1.001p-3F}, y[] = {1.0F, 1.0F, -1.0F, 2.0F}, got;
    const problem p = {.m = 1, .n = 1, .k = 4, .count = 1, .a = x, .b = y, .c = y};

    (void)state;
    run_form(&p, CHARL_GEMM_AUTO, 0, &got);
    if (has_tensor_cores()) { /* 11 bits each, halves away from zero */
        assert_true(got == 1.0F + 0x1.ffcp+0F - 0x1.004p+0F + 0x1p-2F);
    } else {
        assert_true(got == 1.0F + 0x1.ffdp+0F - 0x1.002p+0F + 0x1.001p-2F);
    }
}

static charl_device *f32_device;

static int open_tf32(void **state)
{
    const charl_device_request request = {sizeof request, .local_size = 1, .allow_tf32 = true};

    (void)state;
    f32_device = dev;
    is_tf32 = true;
    charl_assert_ok(charl_device_open(&request, &dev));
    return 0;
}

static int close_tf32(void **state)
{
    (void)state;
    charl_device_close(dev);
    dev = f32_device;
    is_tf32 = false;
    return 0;
}

#define AS_TF32(test)                                                                                                  \
    {                                                                                                                  \
        "tf32_" #test, test, open_tf32, close_tf32, NULL                                                               \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_and_edge),
        cmocka_unit_test(many_products),
        cmocka_unit_test(same_bits_in_every_form),
        cmocka_unit_test(few_rows_have_the_bits_of_many),
        cmocka_unit_test(products_of_tokens),
        cmocka_unit_test(half_results_are_rounded_once),
        cmocka_unit_test(rows_do_not_matter),
        cmocka_unit_test(repeats_give_the_same_bits),
        cmocka_unit_test(sums_of_a_change_nothing),
        cmocka_unit_test(sums_of_leaves_are_those_of_the_tree),
        cmocka_unit_test(rows_are_copied_to_whole_chunks),
        AS_TF32(every_layout_and_edge),
        AS_TF32(many_products),
        AS_TF32(same_bits_in_every_form),
        AS_TF32(rows_do_not_matter),
        AS_TF32(repeats_give_the_same_bits),
        AS_TF32(elements_are_rounded_to_tf32),
    };

    return charl_test_on_device(tests, &dev);
}
