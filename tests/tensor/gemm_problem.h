#ifndef CHARL_TESTS_GEMM_PROBLEM_H
#define CHARL_TESTS_GEMM_PROBLEM_H
/** Matrix products in guarded, poisoned memory. */
#include "support/on_device.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/numeric/tree.h"
#include "tensor/gemm/gemm_private.h"

enum { GUARD = 40, POISON = 0xFF }; /* elements: rows stay at multiples of 16 bytes; NaN */

static charl_device *dev;
static bool is_tf32; /* f32 is multiplied as tf32, where dev can */

typedef struct problem {
    int64_t m, n, k, count;
    int levels;       /* > 0: results are sums over 2^levels products, in the tree, by tensor cores */
    int64_t segments; /* stretches of k elements that a product is summed over; 0: one */
    bool ta, tb;
    charl__gemm_bias bias;
    charl_dtype type, out;
    float *a, *b, *c; /* c: bias */
    const charl__gemm_epilogue *epilogue;
    float *a_sums;                /* NULL, or [count, m]: to be computed as well */
    const charl__gemm_plan *plan; /* NULL: the form's own */
    charl__gemm_form form;
    bool generates;
    int64_t shift; /* of tensors in memory, elements */
} problem;

static inline bool has_tensor_cores(void)
{
    return charl_device_has_tensor_cores(dev, is_tf32 ? CHARL_F32 : CHARL_BF16);
}

/* n elements at element GUARD + shift of a poisoned buffer of their own; values of `src` in `type`,
 * rounded, or poison. */
static charl_tensor *place(const float *src, int64_t n, charl_dtype type, int64_t shift)
{
    const size_t bytes = (size_t)(n + 2 * GUARD + shift) * charl_dtype_size(type);
    unsigned char *image;
    charl__buffer *b;
    charl_tensor *t;

    charl_assert_ok(charl__alloc(bytes, &image));
    memset(image, POISON, bytes);
    charl_assert_ok(charl__buffer_create(dev, bytes, "test", &b));
    charl_assert_ok(charl__buffer_write(CHARL_QUEUE_COMPUTE, b, 0, image, bytes, true));
    charl_assert_ok(charl__tensor_view(b, type, &(charl_shape){1, {n}}, GUARD + shift, &t));
    charl__buffer_release(b);
    charl_free(image);
    if (src && n > 0) {
        charl_tensor *values;

        charl_assert_ok(charl__buffer_create(dev, (size_t)n * sizeof *src, "test", &b));
        charl_assert_ok(charl__buffer_write(CHARL_QUEUE_COMPUTE, b, 0, src, (size_t)n * sizeof *src, true));
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
    charl__buffer *b;

    charl_assert_ok(charl__alloc(bytes, &image));
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, t->buffer, 0, image, bytes, true));
    for (size_t i = 0; i < bytes; i++) {
        if ((i < first || i >= first + (size_t)n * size) && image[i] != POISON) {
            fail_msg("byte %lld beside the output was written", (long long)i - (long long)first);
        }
    }
    charl_assert_ok(charl__buffer_create(dev, (size_t)n * sizeof *out, "test", &b));
    charl_assert_ok(charl__tensor_view(b, CHARL_F32, &(charl_shape){1, {n}}, 0, &values));
    charl_assert_ok(charl__tensor_convert(t, values));
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, b, 0, out, (size_t)n * sizeof *out, true));
    charl_tensor_release(values);
    charl__buffer_release(b);
    charl_free(image);
}

static int64_t depth_of(const problem *p)
{
    return p->k * (p->segments ? p->segments : 1);
}

static int64_t a_size(const problem *p)
{
    return p->m * depth_of(p) * p->count;
}

static int64_t b_size(const problem *p)
{
    return p->n * depth_of(p) * p->count;
}

static int64_t out_size(const problem *p)
{
    return p->m * p->n * (p->count >> p->levels);
}

static int64_t bias_size(const problem *p)
{
    return p->m > p->n ? p->m : p->n;
}

/* integers in [-4, 4], or fractions that round at every step; may be called again */
static void draw(problem *p, bool integers)
{
    float **const to[] = {&p->a, &p->b, &p->c};
    const int64_t n[] = {a_size(p), b_size(p), bias_size(p)};

    for (int i = 0; i < 3; i++) {
        if (!*to[i]) {
            charl_assert_ok(charl__alloc_array(n[i], sizeof(float), to[i]));
        }
        charl_test_fill(*to[i], n[i], integers ? -4.0F : -1.0F, integers ? 5.0F : 1.0F, 20U + (uint64_t)i);
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

static void run_form(const problem *p, charl__gemm_form form, int64_t shift, float *out)
{
    charl_tensor *a = place(p->a, a_size(p), p->type, shift);
    charl_tensor *b = place(p->b, b_size(p), p->type, shift / 2);
    charl_tensor *c = place(p->c, bias_size(p), CHARL_F32, shift);
    charl_tensor *o = place(NULL, out_size(p), p->out, shift);
    charl_tensor *levels = NULL;
    charl_tensor *sums = p->a_sums ? place(NULL, p->m * p->count, CHARL_F32, 0) : NULL;
    charl__gemm g = {
        .a = {a, p->ta ? CHARL_GEMM_TRANSPOSED : CHARL_GEMM_PLAIN, .segment = p->m * p->k, .outer = p->m * depth_of(p)},
        .b = {b, p->tb ? CHARL_GEMM_TRANSPOSED : CHARL_GEMM_PLAIN, .segment = p->k * p->n, .outer = depth_of(p) * p->n},
        .bias = p->bias ? c : NULL,
        .out = {o, .outer = p->m * p->n},
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .bias_kind = p->bias,
        .segments = p->segments,
        .count = p->count >> p->levels,
        .a_sums = sums,
        .epilogue = p->epilogue,
        .form = form,
        .generates = p->generates,
        .label = "test"};

    if (p->levels > 0) {
        charl_assert_ok(
            charl_tensor_create(dev, CHARL_F32, &(charl_shape){1, {charl__gemm_levels(dev, p->levels)}}, &levels));
        charl_assert_ok(charl_tensor_fill(levels, (double)NAN));
        g.fold.levels = levels;
        g.fold.leaves = 1 << p->levels;
    }
    charl_assert_ok(p->plan ? charl__gemm_launch(dev, &g, p->plan) : charl__gemm_enqueue(dev, &g));
    fetch(o, out_size(p), shift, out);
    if (sums) {
        fetch(sums, p->m * p->count, 0, p->a_sums);
    }
    charl_tensor_release(sums);
    charl_tensor_release(levels);
    charl_tensor_release(a);
    charl_tensor_release(b);
    charl_tensor_release(c);
    charl_tensor_release(o);
}

static inline void expect_same(const problem *p, const float *got, const float *want, const char *what)
{
    for (int64_t e = 0; e < out_size(p); e++) {
        if (memcmp(&got[e], &want[e], sizeof *got) != 0) {
            fail_msg("%lld x %lld x %lld, ta %d, tb %d, %s: product %lld [%lld][%lld] is %.9g, not "
                     "%.9g",
                     (long long)p->m, (long long)p->n, (long long)p->k, p->ta, p->tb, what,
                     (long long)(e / (p->m * p->n)), (long long)(e / p->n % p->m), (long long)(e % p->n),
                     (double)got[e], (double)want[e]);
        }
    }
}

/* Sums over 2, 4, ... of p's products on tensor cores have the bits of adding up their results in the tree. Sums of A as well. */
static inline void check_levels(problem p, const charl__gemm_form *form, int forms)
{
    const int64_t one = p.m * p.n, row = p.ta ? p.m * p.count : 0;
    float *want, *got, *sums;

    p.bias = CHARL_GEMM_NO_BIAS;
    draw(&p, false);
    charl_assert_ok(charl__alloc_array(p.count * one, sizeof *want, &want));
    charl_assert_ok(charl__alloc_array(p.count * one, sizeof *got, &got));
    charl_assert_ok(charl__alloc_array(2 * row, sizeof *sums, &sums));
    p.a_sums = row > 0 ? sums : NULL;
    run_form(&p, form[0], 0, want);
    p.a_sums = row > 0 ? sums + row : NULL;
    for (p.levels = 1; p.count >> p.levels > 0; p.levels++) {
        for (int64_t z = 0; z < p.count >> p.levels; z++) {
            float *const part[] = {want + 2 * z * one, want + (2 * z + 1) * one};

            charl__tree_fold(part, 2, one);
            memmove(want + z * one, part[0], (size_t)one * sizeof *want);
        }
        for (int v = 0; v < forms; v++) {
            run_form(&p, form[v], 0, got);
            expect_same(&p, got, want, "sums in the tree");
            assert_true(row == 0 || memcmp(sums + row, sums, (size_t)row * sizeof *sums) == 0);
        }
    }
    charl_free(want);
    charl_free(got);
    charl_free(sums);
    release(&p);
}

static const struct {
    charl__gemm_form form;
    int64_t shift;
    const char *what;
} variants[] = {{CHARL_GEMM_AUTO, 0, "as chosen"},
                {CHARL_GEMM_TENSOR_CORE, 0, "narrow tile"},
                {CHARL_GEMM_TENSOR_CORE_WIDE, 0, "wide tile"},
                {CHARL_GEMM_TENSOR_CORE_SPLIT, 0, "tiles shared out"},
                {CHARL_GEMM_TENSOR_CORE_PADDED, 1, "copied to whole chunks, odd offsets"},
                {CHARL_GEMM_TENSOR_CORE, 1, "narrow tile, odd offsets"},
                {CHARL_GEMM_TENSOR_CORE_WIDE, 6, "wide tile, offsets 6 and 3"}};

/* Layout t of four, in bf16 and f16 by turns, or in f32; sums are small enough to be exact in any
 * output. */
static inline problem make(const int64_t shape[3], int t, int64_t count)
{
    return (problem){.m = shape[0],
                     .n = shape[1],
                     .k = shape[2],
                     .count = count,
                     .ta = t & 1,
                     .tb = t & 2,
                     .bias = (charl__gemm_bias)(t % 3),
                     .type = is_tf32              ? CHARL_F32
                             : (shape[0] + t) % 2 ? CHARL_F16
                                                  : CHARL_BF16,
                     .out = CHARL_F32};
}

#endif
