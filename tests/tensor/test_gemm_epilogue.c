/* Epilogues of matrix products: the bits of separate kernels, in every form, f32 and half types. */
#include "elementwise/map_args.h"
#include "tensor/gemm_problem.h"

typedef struct epilogue_case {
    charl_dtype in, product, with[2], out;
    const char *expr;
    int n_with;
} epilogue_case;

static const char gelu[] = "0.5f * a * (1.0f + charl_tanh(0.79788456f * fma(a * 0.044715f, a * a, a)))";
static const char slope[] = "b * charl_gelu_slope_half(a)";
static const char relu_slope[] = "select(a, CHARL_SPLAT(0.0f), b <= 0.0f)";
static const char chain[] = "CHARL_ROUND_AS(ushort, select(a, CHARL_SPLAT(0.0f), a <= 0.0f)) * c + b";

static const epilogue_case epilogues[] = {
    {CHARL_F32, CHARL_F32, {CHARL_F32, CHARL_F32}, CHARL_F32, gelu, 0},
    {CHARL_BF16, CHARL_BF16, {CHARL_BF16, CHARL_F32}, CHARL_BF16, chain, 2},
    {CHARL_BF16, CHARL_BF16, {CHARL_BF16, CHARL_F32}, CHARL_BF16, "charl_gelu_half(a)", 0},
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
    charl__map_args args = {.n = (uint64_t)n, .span = 4};
    char defines[512];
    int used = snprintf(defines, sizeof defines, "#define CHARL_VEC 4\n#define N_IN 3\n");

    for (int i = 0; i < 3; i++) {
        used += define_type(defines + used, sizeof defines - (size_t)used, (char)('A' + i), in[i]->dtype);
    }
    snprintf(defines + used, sizeof defines - (size_t)used,
             "#define OUT_T %s\n#define EXPR(a, b, c, d, e, f, p, q) (%s)\n", charl__kernel_type(out->dtype), e->expr);
    charl_assert_ok(charl__launch_enqueue(dev, &(charl__launch){.file = "elementwise/map",
                                                                .entry = "charl_map",
                                                                .defines = defines,
                                                                .global = {(size_t)(n + 3) / 4},
                                                                .args = {charl__placed(charl__in(in[0]), &args.at[0]),
                                                                         charl__placed(charl__in(in[1]), &args.at[1]),
                                                                         charl__placed(charl__in(in[2]), &args.at[2]),
                                                                         {CHARL_ARG_IN, true},
                                                                         {CHARL_ARG_IN, true},
                                                                         {CHARL_ARG_IN, true},
                                                                         charl__placed(charl__out(out), &args.out),
                                                                         charl__struct(&args, sizeof args)}}));
}

/* The product by itself, rounded; then the expression over it. */
static void unfused(const problem *p, const epilogue_case *e, float *const with[2], float *product, float *out)
{
    const int64_t n = out_size(p);
    problem alone = *p;
    charl_tensor *in[3], *o = place(NULL, n, e->out, 0);

    alone.out = e->product;
    run_form(&alone, e->in == CHARL_F32 ? CHARL_GEMM_AUTO : CHARL_GEMM_TENSOR_CORE, 0, product);
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

static void fused(problem p, const epilogue_case *e, float *const with[2], float *kept, float *out)
{
    const int64_t n = out_size(&p), shift = p.shift;
    charl_tensor *b = place(with[0], n, e->with[0], shift), *c = place(with[1], n, e->with[1], shift / 2),
                 *product = place(NULL, n, e->product, shift);
    const charl__gemm_epilogue epilogue = {
        .expr = e->expr, .type = e->product, .n_in = e->n_with, .in = {b, c}, .product = kept ? product : NULL};

    p.epilogue = &epilogue;
    run_form(&p, p.form, shift, out);
    if (kept) {
        fetch(product, n, shift, kept);
    }
    charl_tensor_release(b);
    charl_tensor_release(c);
    charl_tensor_release(product);
}

static void check_epilogue(problem p, const epilogue_case *e, bool keep)
{
    const int64_t n = out_size(&p);
    float *want[2], *got[2], *with[2];

    draw(&p, false);
    for (int i = 0; i < 2; i++) {
        charl_assert_ok(charl__alloc_array(n, sizeof *want[i], &want[i]));
        charl_assert_ok(charl__alloc_array(n, sizeof *got[i], &got[i]));
        charl_assert_ok(charl__alloc_array(n, sizeof *with[i], &with[i]));
        charl_test_fill(with[i], n, -2.0F, 2.0F, 30U + (uint64_t)i);
    }
    unfused(&p, e, with, want[1], want[0]);
    fused(p, e, with, keep ? got[1] : NULL, got[0]);
    expect_same(&p, got[0], want[0], "epilogue");
    if (keep) {
        expect_same(&p, got[1], want[1], "product before the epilogue");
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
    p.shift = 3;
    return p;
}

/* Everywhere a case of each kernel; on tensor cores all, for both tiles and several alignments. */
static void epilogues_are_separate_kernels(void **state)
{
    static const int64_t shape[][3] = {{45, 75, 33}, {130, 264, 72}, {200, 520, 200}}, flat[] = {24, 203, 96};
    const size_t all = sizeof epilogues / sizeof epilogues[0];
    problem p = with_epilogue(shape[0], &epilogues[0], 1);

    (void)state;
    /* whose blocks of a megabyte per work-item are more than a GPU has */
    if (charl_device_get_info(dev)->kind == CHARL_DEVICE_CPU) {
        p.form = CHARL_GEMM_VECTOR;
        check_epilogue(p, &epilogues[0], true);
    }
    p = with_epilogue(shape[0], &epilogues[1], 2);
    p.form = CHARL_GEMM_LOCAL;
    check_epilogue(p, &epilogues[1], true);
    for (size_t e = 1; has_tensor_cores() && e < all; e++) {
        for (size_t v = 1; v < sizeof variants / sizeof variants[0]; v++) {
            p = with_epilogue(shape[(v + e) % 3], &epilogues[e], (int)(e + v) % 4);
            p.form = variants[v].form;
            p.shift = variants[v].shift;
            check_epilogue(p, &epilogues[e], v % 2);
        }
        p = with_epilogue(flat, &epilogues[e], 2); /* AMX swaps the operands */
        check_epilogue(p, &epilogues[e], true);
    }
}

static void refuses_epilogues_of_integers(void **state)
{
    charl_tensor *x = place(NULL, 1, CHARL_F32, 0), *count = place(NULL, 1, CHARL_I32, 0);
    charl__gemm_epilogue e = {.expr = "a + b", .type = CHARL_F32, .n_in = 1, .in = {count}};
    const charl__gemm p = {.a = x, .b = x, .out = x, .m = 1, .n = 1, .k = 1, .epilogue = &e};

    (void)state;
    charl_assert_status(charl__gemm_enqueue(dev, &p), CHARL_ERR_DTYPE);
    charl_assert_message("not a float");
    e = (charl__gemm_epilogue){.expr = "a", .type = CHARL_BF16, .product = x};
    charl_assert_status(charl__gemm_enqueue(dev, &p), CHARL_ERR_DTYPE);
    charl_assert_message("in bf16 that is kept in f32");
    charl_tensor_release(x);
    charl_tensor_release(count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(epilogues_are_separate_kernels),
        cmocka_unit_test(refuses_epilogues_of_integers),
    };

    return charl_test_on_device(tests, &dev);
}
