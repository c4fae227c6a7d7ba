/* Matrix products of bf16 and f16, on tensor cores where the device has them: exact in integers,
 * and the same bits in every form, for every alignment and for any number of rows. Epilogues, of
 * f32 too: the bits of separate kernels.
 *
 * Where there are no tensor cores every form is the portable kernel, whose sums test_gemm checks:
 * two layouts do.
 */
#include "support/on_device.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/env.h"
#include "tensor/gemm.h"

enum { GUARD = 40, POISON = 0xFF }; /* elements: rows stay at multiples of 16 bytes; NaN */

static charl_device *dev;

typedef struct problem {
    int64_t m, n, k, count;
    bool ta, tb;
    charl_gemm_bias bias;
    charl_dtype type, out;
    float *a, *b, *c; /* c: bias */
    const charl_gemm_epilogue *epilogue;
} problem;

static bool has_tensor_cores(void)
{
    return charl__device_facts(dev)->wgmma;
}

/* n elements at element GUARD + shift of a poisoned buffer of their own; values of `src` in `type`,
 * rounded, or poison. */
static charl_tensor *place(const float *src, int64_t n, charl_dtype type, int64_t shift)
{
    const size_t bytes = (size_t)(n + 2 * GUARD + shift) * charl_dtype_size(type);
    unsigned char *image;
    charl_buffer *b;
    charl_tensor *t;

    charl_assert_ok(charl_alloc(bytes, &image));
    memset(image, POISON, bytes);
    charl_assert_ok(charl__buffer_create(dev, bytes, "test", &b));
    charl_assert_ok(charl__buffer_write(CHARL_QUEUE_COMPUTE, b, 0, image, bytes, true));
    charl_assert_ok(charl__tensor_view(b, type, &(charl_shape){1, {n}}, GUARD + shift, &t));
    charl__buffer_release(b);
    charl_free(image);
    if (src && n > 0) {
        charl_tensor *values;

        charl_assert_ok(charl__buffer_create(dev, (size_t)n * sizeof *src, "test", &b));
        charl_assert_ok(
            charl__buffer_write(CHARL_QUEUE_COMPUTE, b, 0, src, (size_t)n * sizeof *src, true));
        charl_assert_ok(charl__tensor_view(b, CHARL_F32, &(charl_shape){1, {n}}, 0, &values));
        charl_assert_ok(charl__tensor_convert(values, t));
        charl_tensor_release(values);
        charl__buffer_release(b);
    }
    return t;
}

/* The tensor as f32; nothing around it may have changed. */
static void fetch(charl_tensor *t, int64_t n, int64_t shift, float *out)
{
    const size_t size = charl_dtype_size(t->dtype), first = (size_t)(GUARD + shift) * size;
    const size_t bytes = first + (size_t)(n + GUARD) * size;
    unsigned char *image;
    charl_tensor *values;
    charl_buffer *b;

    charl_assert_ok(charl_alloc(bytes, &image));
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, t->buffer, 0, image, bytes, true));
    for (size_t i = 0; i < bytes; i++) {
        if ((i < first || i >= first + (size_t)n * size) && image[i] != POISON) {
            fail_msg("byte %lld beside the output was written", (long long)i - (long long)first);
        }
    }
    charl_assert_ok(charl__buffer_create(dev, (size_t)n * sizeof *out, "test", &b));
    charl_assert_ok(charl__tensor_view(b, CHARL_F32, &(charl_shape){1, {n}}, 0, &values));
    charl_assert_ok(charl__tensor_convert(t, values));
    charl_assert_ok(
        charl__buffer_read(CHARL_QUEUE_COMPUTE, b, 0, out, (size_t)n * sizeof *out, true));
    charl_tensor_release(values);
    charl__buffer_release(b);
    charl_free(image);
}

static int64_t a_size(const problem *p)
{
    return p->m * p->k * p->count;
}

static int64_t b_size(const problem *p)
{
    return p->n * p->k * p->count;
}

static int64_t out_size(const problem *p)
{
    return p->m * p->n * p->count;
}

static int64_t bias_size(const problem *p)
{
    return p->m > p->n ? p->m : p->n;
}

static void draw(problem *p, bool integers)
{
    float **const to[] = {&p->a, &p->b, &p->c};
    const int64_t n[] = {a_size(p), b_size(p), bias_size(p)};

    for (int i = 0; i < 3; i++) {
        charl_assert_ok(charl_alloc_array(n[i], sizeof(float), to[i]));
        charl_test_fill(*to[i], n[i], integers ? -4.0F : -1.0F, integers ? 5.0F : 1.0F,
                        20U + (uint64_t)i);
        for (int64_t e = 0; integers && e < n[i]; e++) {
            (*to[i])[e] = floorf((*to[i])[e]);
        }
    }
}

static void release(problem *p)
{
    charl_free(p->a);
    charl_free(p->b);
    charl_free(p->c);
}

static void run_form(const problem *p, charl_gemm_form form, int64_t shift, float *out)
{
    charl_tensor *a = place(p->a, a_size(p), p->type, shift);
    charl_tensor *b = place(p->b, b_size(p), p->type, shift / 2);
    charl_tensor *c = place(p->c, bias_size(p), CHARL_F32, shift);
    charl_tensor *o = place(NULL, out_size(p), p->out, shift);

    charl_assert_ok(
        charl__gemm(dev, &(charl_gemm){.a = a,
                                       .b = b,
                                       .bias = p->bias ? c : NULL,
                                       .out = o,
                                       .m = p->m,
                                       .n = p->n,
                                       .k = p->k,
                                       .a_kind = p->ta ? CHARL_GEMM_TRANSPOSED : CHARL_GEMM_PLAIN,
                                       .b_kind = p->tb ? CHARL_GEMM_TRANSPOSED : CHARL_GEMM_PLAIN,
                                       .bias_kind = p->bias,
                                       .count = p->count,
                                       .a_outer = p->m * p->k,
                                       .b_outer = p->k * p->n,
                                       .out_outer = p->m * p->n,
                                       .epilogue = p->epilogue,
                                       .form = form,
                                       .label = "test"}));
    fetch(o, out_size(p), shift, out);
    charl_tensor_release(a);
    charl_tensor_release(b);
    charl_tensor_release(c);
    charl_tensor_release(o);
}

static void expect_same(const problem *p, const float *got, const float *want, const char *what)
{
    for (int64_t e = 0; e < out_size(p); e++) {
        if (memcmp(&got[e], &want[e], sizeof *got) != 0) {
            fail_msg("%lld x %lld x %lld, ta %d, tb %d, %s: product %lld [%lld][%lld] is %.9g, not "
                     "%.9g",
                     (long long)p->m, (long long)p->n, (long long)p->k, p->ta, p->tb, what,
                     (long long)(e / (p->m * p->n)), (long long)(e / p->n % p->m),
                     (long long)(e % p->n), (double)got[e], (double)want[e]);
        }
    }
}

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

static const struct {
    charl_gemm_form form;
    int64_t shift;
    const char *what;
} variants[] = {{CHARL_GEMM_AUTO, 0, "as chosen"},
                {CHARL_GEMM_WGMMA, 0, "narrow tile"},
                {CHARL_GEMM_WGMMA_WIDE, 0, "wide tile"},
                {CHARL_GEMM_WGMMA, 1, "narrow tile, odd offsets"},
                {CHARL_GEMM_WGMMA_WIDE, 6, "wide tile, offsets 6 and 3"}};

static void check(problem p, bool integers)
{
    float *want, *got;

    draw(&p, integers);
    charl_assert_ok(charl_alloc_array(out_size(&p), sizeof *want, &want));
    charl_assert_ok(charl_alloc_array(out_size(&p), sizeof *got, &got));
    if (integers) {
        reference(&p, want);
    } else {
        run_form(&p, CHARL_GEMM_WGMMA, 0, want);
    }
    for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++) {
        run_form(&p, variants[v].form, variants[v].shift, got);
        expect_same(&p, got, want, variants[v].what);
    }
    charl_free(want);
    charl_free(got);
    release(&p);
}

/* Layout t of four, in bf16 and f16 by turns; sums are small enough to be exact in any output. */
static problem make(const int64_t shape[3], int t, int64_t count)
{
    return (problem){.m = shape[0],
                     .n = shape[1],
                     .k = shape[2],
                     .count = count,
                     .ta = t & 1,
                     .tb = t & 2,
                     .bias = (charl_gemm_bias)(t % 3),
                     .type = (shape[0] + t) % 2 ? CHARL_F16 : CHARL_BF16,
                     .out = CHARL_F32};
}

static void every_layout_and_edge(void **state)
{
    static const int64_t shape[][3] = {
        {1, 1, 1},       {1, 77, 5},     {77, 1, 5},       {64, 64, 16},     {65, 63, 17},
        {128, 128, 64},  {128, 256, 64}, {129, 257, 65},   {130, 264, 72},   {200, 520, 200},
        {256, 256, 520}, {97, 161, 40},  {13, 29, 0},      {2200, 40, 24},   {40, 2200, 24},
        {120, 248, 192}, {8, 8, 1024},   {128, 1024, 128}, {2176, 520, 128}, {1000, 1000, 88}};

    (void)state;
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

/* A result in a half type is the f32 one rounded. */
static void half_results_are_rounded_once(void **state)
{
    static const int64_t shape[] = {150, 266, 300}, odd[] = {70, 131, 300};

    (void)state;
    for (int t = 0; t < (has_tensor_cores() ? 8 : 1); t++) {
        problem p = make(t & 4 ? odd : shape, t & 3, 1);
        float *want, *got;

        draw(&p, false);
        charl_assert_ok(charl_alloc_array(out_size(&p), sizeof *want, &want));
        charl_assert_ok(charl_alloc_array(out_size(&p), sizeof *got, &got));
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
    charl_assert_ok(charl_alloc_array(out_size(&p), sizeof *all, &all));
    charl_assert_ok(charl_alloc_array(out_size(&p), sizeof *some, &some));
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
    static const charl_gemm_form form[] = {CHARL_GEMM_WGMMA, CHARL_GEMM_WGMMA_WIDE};
    const int repeats = charl__env_is_on(CHARL_ENV_TEST_LONG) ? 1000 : 100;

    (void)state;
    for (int t = 0; has_tensor_cores() && t < 4; t++) {
        problem p = make(shape, t, 2);
        float *want, *got;

        draw(&p, false);
        charl_assert_ok(charl_alloc_array(out_size(&p), sizeof *want, &want));
        charl_assert_ok(charl_alloc_array(out_size(&p), sizeof *got, &got));
        run_form(&p, CHARL_GEMM_AUTO, 0, want);
        for (int r = 0; r < repeats / 4; r++) {
            run_form(&p, form[r % 2], 0, got);
            if (memcmp(got, want, (size_t)out_size(&p) * sizeof *got) != 0) {
                expect_same(&p, got, want, "a repetition");
            }
        }
        charl_free(want);
        charl_free(got);
        release(&p);
    }
}

typedef struct epilogue_case {
    charl_dtype in, product, with[2], out;
    const char *expr;
    int n_with;
} epilogue_case;

static const char gelu[] =
    "0.5f * a * (1.0f + charl_tanh(0.79788456f * fma(a * 0.044715f, a * a, a)))";
static const char slope[] = "b * (charl_sigmoid(a) * (1.0f + a * (1.0f - charl_sigmoid(a))))";
static const char relu_slope[] = "select(a, CHARL_SPLAT(0.0f), b <= 0.0f)";
static const char chain[] = "CHARL_KEPT(ushort, select(a, CHARL_SPLAT(0.0f), a <= 0.0f)) * c + b";

static const epilogue_case epilogues[] = {
    {CHARL_F32, CHARL_F32, {CHARL_F32, CHARL_F32}, CHARL_F32, gelu, 0},
    {CHARL_BF16, CHARL_BF16, {CHARL_BF16, CHARL_F32}, CHARL_BF16, chain, 2},
    {CHARL_BF16, CHARL_BF16, {CHARL_BF16, CHARL_F32}, CHARL_BF16, gelu, 0},
    {CHARL_F16, CHARL_F16, {CHARL_F16, CHARL_F32}, CHARL_F16, slope, 1},
    {CHARL_F16, CHARL_F16, {CHARL_F32, CHARL_F16}, CHARL_F32, chain, 2},
    {CHARL_BF16, CHARL_F32, {CHARL_BF16, CHARL_F32}, CHARL_BF16, relu_slope, 1},
};

static int define_type(char *text, size_t bytes, char name, charl_dtype type)
{
    return snprintf(text, bytes, "#define %c_T %s\n", name, charl__kernel_type(type));
}

/* out[] = expr of a, b, c, as the elementwise operators compute it. */
static void elementwise(const epilogue_case *e, charl_tensor *const in[3], charl_tensor *out)
{
    const int64_t n = charl__tensor_count(out);
    char defines[512];
    int used = snprintf(defines, sizeof defines, "#define CHARL_VEC 4\n#define N_IN 3\n");

    for (int i = 0; i < 3; i++) {
        used += define_type(defines + used, sizeof defines - (size_t)used, (char)('A' + i),
                            in[i]->dtype);
    }
    snprintf(defines + used, sizeof defines - (size_t)used, "#define OUT_T %s\n#define EXPR (%s)\n",
             charl__kernel_type(out->dtype), e->expr);
    charl_assert_ok(charl__launch(
        dev,
        &(charl_launch){.file = "map",
                        .entry = "charl_map",
                        .defines = defines,
                        .global = {(size_t)(n + 3) / 4},
                        .args = {charl__in(in[0]), charl__i64(1), charl__i64(n), charl__in(in[1]),
                                 charl__i64(1), charl__i64(n), charl__in(in[2]), charl__i64(1),
                                 charl__i64(n), charl__out(out), charl__i64(n), charl__i64(4),
                                 charl__f32(0.0F), charl__f32(0.0F)}}));
}

/* The product by itself, rounded; then the expression over it. */
static void unfused(const problem *p, const epilogue_case *e, float *const with[2], float *product,
                    float *out)
{
    const int64_t n = out_size(p);
    problem alone = *p;
    charl_tensor *in[3], *o = place(NULL, n, e->out, 0);

    alone.out = e->product;
    run_form(&alone, e->in == CHARL_F32 ? CHARL_GEMM_AUTO : CHARL_GEMM_WGMMA, 0, product);
    in[0] = place(product, n, e->product, 0);
    in[1] = place(with[0], n, e->with[0], 0);
    in[2] = place(with[1], n, e->with[1], 0);
    elementwise(e, in, o);
    fetch(o, n, 0, out);
    for (int i = 0; i < 3; i++) {
        charl_tensor_release(in[i]);
    }
    charl_tensor_release(o);
}

static void check_epilogue(problem p, const epilogue_case *e, charl_gemm_form form, int64_t shift)
{
    const int64_t n = out_size(&p);
    float *want[2], *got[2], *with[2];

    draw(&p, false);
    for (int i = 0; i < 2; i++) {
        charl_assert_ok(charl_alloc_array(n, sizeof *want[i], &want[i]));
        charl_assert_ok(charl_alloc_array(n, sizeof *got[i], &got[i]));
        charl_assert_ok(charl_alloc_array(n, sizeof *with[i], &with[i]));
        charl_test_fill(with[i], n, -2.0F, 2.0F, 30U + (uint64_t)i);
    }
    unfused(&p, e, with, want[1], want[0]);
    for (int keep = has_tensor_cores() ? 0 : 1; keep < 2; keep++) {
        charl_gemm_epilogue epilogue = {.expr = e->expr, .type = e->product, .n_in = e->n_with};
        charl_tensor *b = place(with[0], n, e->with[0], shift),
                     *c = place(with[1], n, e->with[1], shift / 2),
                     *product = place(NULL, n, e->product, shift);

        epilogue.in[0] = b;
        epilogue.in[1] = c;
        epilogue.product = keep ? product : NULL;
        p.epilogue = &epilogue;
        run_form(&p, form, shift, got[0]);
        expect_same(&p, got[0], want[0], "epilogue");
        if (keep) {
            fetch(product, n, shift, got[1]);
            expect_same(&p, got[1], want[1], "product before the epilogue");
        }
        charl_tensor_release(b);
        charl_tensor_release(c);
        charl_tensor_release(product);
        p.epilogue = NULL;
    }
    for (int i = 0; i < 2; i++) {
        charl_free(want[i]);
        charl_free(got[i]);
        charl_free(with[i]);
    }
    release(&p);
}

static problem with_epilogue(const int64_t shape[3], const epilogue_case *e, int t)
{
    problem p = make(shape, t, 2);

    p.type = e->in;
    p.out = e->out;
    return p;
}

/* Everywhere a case of each kernel; on tensor cores all, for both tiles and several alignments.
 */
static void epilogues_are_separate_kernels(void **state)
{
    static const int64_t shape[][3] = {{45, 75, 33}, {130, 264, 72}, {200, 520, 200}};
    const size_t all = sizeof epilogues / sizeof epilogues[0];

    (void)state;
    check_epilogue(with_epilogue(shape[0], &epilogues[0], 1), &epilogues[0], CHARL_GEMM_VECTOR, 3);
    check_epilogue(with_epilogue(shape[0], &epilogues[1], 2), &epilogues[1], CHARL_GEMM_LOCAL, 3);
    for (size_t e = 1; has_tensor_cores() && e < all; e++) {
        for (size_t v = 1; v < sizeof variants / sizeof variants[0]; v++) {
            check_epilogue(with_epilogue(shape[(v + e) % 3], &epilogues[e], (int)(e + v) % 4),
                           &epilogues[e], variants[v].form, variants[v].shift);
        }
    }
}

static void refuses_epilogues_of_integers(void **state)
{
    charl_tensor *x = place(NULL, 1, CHARL_F32, 0), *count = place(NULL, 1, CHARL_I32, 0);
    charl_gemm_epilogue e = {.expr = "a + b", .type = CHARL_F32, .n_in = 1, .in = {count}};
    const charl_gemm p = {.a = x, .b = x, .out = x, .m = 1, .n = 1, .k = 1, .epilogue = &e};

    (void)state;
    charl_assert_status(charl__gemm(dev, &p), CHARL_ERR_DTYPE);
    charl_assert_message("not a float");
    e = (charl_gemm_epilogue){.expr = "a", .type = CHARL_BF16, .product = x};
    charl_assert_status(charl__gemm(dev, &p), CHARL_ERR_DTYPE);
    charl_assert_message("in bf16 that is kept in f32");
    charl_tensor_release(x);
    charl_tensor_release(count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_and_edge),
        cmocka_unit_test(many_products),
        cmocka_unit_test(same_bits_in_every_form),
        cmocka_unit_test(half_results_are_rounded_once),
        cmocka_unit_test(rows_do_not_matter),
        cmocka_unit_test(repeats_give_the_same_bits),
        cmocka_unit_test(epilogues_are_separate_kernels),
        cmocka_unit_test(refuses_epilogues_of_integers),
    };

    return charl_test_on_device(tests, &dev);
}
