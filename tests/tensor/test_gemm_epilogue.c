/* What a product does at its end, and two products in a launch: the bits of separate kernels. */
#include "support/on_device.h"

#include <math.h>

#include "base/alloc.h"
#include "base/numeric/rng.h"
#include "base/numeric/tree.h"
#include "elementwise/map_args.h"
#include "tensor/gemm/gemm.h"
#include "tensor/gemm_problem.h"
#include "tensor/step_params.h"

/* Epilogues of matrix products: the bits of separate kernels, in every form, f32 and half types. */

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
    static const int64_t shape[][3] = {{45, 75, 33}, {130, 264, 72}, {200, 520, 200}}, flat[] = {24, 203, 96},
                         few[] = {13, 204, 96};
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
        p = with_epilogue(few, &epilogues[e], 2); /* gemm_few_rows */
        p.count = 1;
        p.shift = 0;
        check_epilogue(p, &epilogues[e], e % 2);
    }
}

static void refuses_epilogues_of_integers(void **state)
{
    charl_tensor *x = place(NULL, 1, CHARL_F32, 0), *count = place(NULL, 1, CHARL_I32, 0);
    charl__gemm_epilogue e = {.expr = "a + b", .type = CHARL_F32, .n_in = 1, .in = {count}};
    const charl__gemm p = {.a = {x}, .b = {x}, .out = {x}, .m = 1, .n = 1, .k = 1, .epilogue = &e};

    (void)state;
    charl_assert_status(charl__gemm_enqueue(dev, &p), CHARL_ERR_DTYPE);
    charl_assert_message("not a float");
    e = (charl__gemm_epilogue){.expr = "a", .type = CHARL_BF16, .product = x};
    charl_assert_status(charl__gemm_enqueue(dev, &p), CHARL_ERR_DTYPE);
    charl_assert_message("in bf16 that is kept in f32");
    charl_tensor_release(x);
    charl_tensor_release(count);
}

/* Two small products in one recorded launch, one with all that an epilogue can be: the bits are
 * those that the definitions give. */

enum { ROWS = 40, OUT = 37, IN = 70, LEAVES = 5, ALL = 20000 };
enum { SEED = 11, STEP = 12, KEY = 13, FIRST = 14 }; /* of what is drawn */

static charl_device *dev;

/* The gradients of a linear layer behind relu and dropout, in one buffer. */
typedef struct layer {
    charl__buffer *buffer;
    int64_t used;
    charl__buffer *record;
    charl_tensor *g, *w, *y, *x, *gx, *gw, *gb, *kept, *step;
    charl__gemm_epilogue epilogue;
    charl__gemm input, weight;
} layer;

static charl_tensor *take(layer *l, int64_t rows, int64_t columns)
{
    charl_tensor *t;

    charl_assert_ok(charl__tensor_view(l->buffer, CHARL_F32, &(charl_shape){2, {rows, columns}}, l->used, &t));
    l->used += rows * columns + 3;
    return t;
}

static void open_layer(layer *l)
{
    const charl__step_params step = {.seed_lo = SEED, .step_lo = STEP};
    float *values;

    *l = (layer){0};
    charl_assert_ok(charl__alloc_array(ALL, sizeof *values, &values));
    charl_test_fill(values, ALL, -1.0F, 1.0F, 3);
    charl_assert_ok(charl__buffer_create(dev, ALL * sizeof *values, "test", &l->buffer));
    charl_assert_ok(charl__buffer_write(CHARL_QUEUE_COMPUTE, l->buffer, 0, values, ALL * sizeof *values, true));
    charl_free(values);
    l->g = take(l, ROWS, OUT);
    l->w = take(l, OUT, IN);
    l->y = take(l, ROWS, IN);
    l->x = take(l, ROWS, IN);
    l->gx = take(l, ROWS, IN);
    l->gw = take(l, OUT, IN);
    l->gb = take(l, 1, OUT);
    l->kept = take(l, ROWS, IN);
    assert_true(l->used <= ALL);
    charl_assert_ok(charl__buffer_create(dev, sizeof step, "test", &l->record));
    charl_assert_ok(charl__buffer_write(CHARL_QUEUE_COMPUTE, l->record, 0, &step, sizeof step, true));
    charl_assert_ok(charl__tensor_view(l->record, CHARL_U32, &(charl_shape){1, {CHARL_STEP_WORDS}}, 0, &l->step));
    l->epilogue = (charl__gemm_epilogue){.expr = "select(CHARL_SPLAT(0.0f), a * 1.25f, draw >= 5000000.0f)",
                                         .then = "select(CHARL_SPLAT(0.0f), a, b > 0.0f)",
                                         .type = CHARL_F32,
                                         .n_in = 1,
                                         .in = {l->y},
                                         .product = l->kept,
                                         .keeps_first = true,
                                         .record = l->step,
                                         .key = KEY,
                                         .draw_at = charl__i64(FIRST)};
    l->input = (charl__gemm){.a = {l->g},
                             .b = {l->w},
                             .out = {l->gx},
                             .m = ROWS,
                             .n = IN,
                             .k = OUT,
                             .epilogue = &l->epilogue,
                             .form = CHARL_GEMM_LOCAL_SMALL,
                             .label = "input"};
    l->weight = (charl__gemm){.a = {l->g, CHARL_GEMM_TRANSPOSED, .outer = ROWS / LEAVES * OUT},
                              .b = {l->x, .outer = ROWS / LEAVES * IN},
                              .out = {l->gw},
                              .m = OUT,
                              .n = IN,
                              .k = ROWS / LEAVES,
                              .fold.leaves = LEAVES,
                              .a_sums = l->gb,
                              .form = CHARL_GEMM_LOCAL_SMALL,
                              .label = "weight"};
}

static void close_layer(layer *l)
{
    charl_tensor *const all[] = {l->g, l->w, l->y, l->x, l->gx, l->gw, l->gb, l->kept, l->step};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        charl_tensor_release(all[i]);
    }
    charl__buffer_release(l->buffer);
    charl__buffer_release(l->record);
}

static void read_layer(const layer *l, float *got)
{
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, l->buffer, 0, got, ALL * sizeof *got, true));
}

/* The product, dropout, the gradient of relu. */
static void compute_input(const layer *l, float *values)
{
    const charl__rng rng = charl__rng_key(SEED, STEP, KEY);
    const float *g = values + l->g->offset, *w = values + l->w->offset, *y = values + l->y->offset;

    for (int64_t i = 0; i < ROWS * IN; i++) {
        const bool drawn = charl__rng_u32(&rng, (uint64_t)(FIRST + i)) >> 8 >= 5000000;
        float sum = 0, kept;

        for (int64_t k = 0; k < OUT; k++) {
            sum = fmaf(g[i / IN * OUT + k], w[k * IN + i % IN], sum);
        }
        kept = drawn ? sum * 1.25F : 0.0F;
        values[l->kept->offset + i] = kept;
        values[l->gx->offset + i] = y[i] > 0.0F ? kept : 0.0F;
    }
}

/* Column j of the weight's gradient for row i; j = IN: of the bias, in four accumulators per leaf.
 * The leaves meet in the tree. */
static float compute_weight(const layer *l, const float *values, int64_t i, int64_t j)
{
    const float *g = values + l->g->offset, *x = values + l->x->offset;
    float leaf[LEAVES], *part[LEAVES];

    for (int s = 0; s < LEAVES; s++) {
        const int64_t first = s * (ROWS / LEAVES);
        float sum = 0, acc[4] = {0};

        for (int64_t r = 0; r < ROWS / LEAVES; r++) {
            const float v = g[(first + r) * OUT + i];

            sum = fmaf(v, j < IN ? x[(first + r) * IN + j] : 0.0F, sum);
            acc[r % 4] += v;
        }
        leaf[s] = j < IN ? sum : (acc[0] + acc[2]) + (acc[1] + acc[3]);
        part[s] = &leaf[s];
    }
    charl__tree_fold(part, LEAVES, 1);
    return leaf[0];
}

static void compute(const layer *l, float *values)
{
    compute_input(l, values);
    for (int64_t i = 0; i < OUT; i++) {
        for (int64_t j = 0; j < IN; j++) {
            values[l->gw->offset + i * IN + j] = compute_weight(l, values, i, j);
        }
        values[l->gb->offset + i] = compute_weight(l, values, i, IN);
    }
}

static void a_pair_has_the_bits_of_two(void **state)
{
    static float want[ALL], got[ALL];
    charl__recording *r;
    layer l;

    (void)state;
    open_layer(&l);
    read_layer(&l, want);
    compute(&l, want);
    charl_assert_ok(charl__record_begin(dev, &r));
    charl_assert_ok(charl__gemm_enqueue(dev, &l.input));
    charl_assert_ok(charl__gemm_enqueue(dev, &l.weight));
    charl_assert_ok(charl__record_end(dev, CHARL_OK));
    assert_int_equal(charl__recording_count(r), 1);
    charl_assert_ok(charl__recording_replay(r, 0, 1));
    read_layer(&l, got);
    charl__recording_destroy(r);
    close_layer(&l);
    charl_assert_same_bits(got, want, ALL);
}

/* A small product before one that a device with few compute units computes in other tiles, for which work-groups have as many work-items: one launch
 * of both would leave most of the second out. */
static void products_in_unlike_tiles_are_right(void **state)
{
    enum { SMALL = 48, WIDE = 200, DEPTH = 8 };
    static const int64_t n[] = {SMALL, WIDE};
    static float x[WIDE * DEPTH], want[WIDE * WIDE], got[WIDE * WIDE];
    charl_tensor *in[2], *out[2];
    charl__recording *r;

    (void)state;
    charl_test_fill(x, WIDE * DEPTH, -1.0F, 1.0F, 4);
    for (int i = 0; i < 2; i++) {
        in[i] = place(x, n[i] * DEPTH, CHARL_F32, 0);
        out[i] = place(NULL, n[i] * n[i], CHARL_F32, 0);
    }
    charl_assert_ok(charl__record_begin(dev, &r));
    for (int i = 0; i < 2; i++) {
        charl_assert_ok(charl__gemm_enqueue(dev, &(charl__gemm){.a = {in[i]},
                                                                .b = {in[i], CHARL_GEMM_TRANSPOSED},
                                                                .out = {out[i]},
                                                                .m = n[i],
                                                                .n = n[i],
                                                                .k = DEPTH,
                                                                .form = CHARL_GEMM_LOCAL_SMALL}));
    }
    charl_assert_ok(charl__record_end(dev, CHARL_OK));
    charl_assert_ok(charl__recording_replay(r, 0, charl__recording_count(r)));
    for (int i = 0; i < 2; i++) {
        for (int64_t e = 0; e < n[i] * n[i]; e++) {
            want[e] = 0.0F;
            for (int k = 0; k < DEPTH; k++) {
                want[e] = fmaf(x[e / n[i] * DEPTH + k], x[e % n[i] * DEPTH + k], want[e]);
            }
        }
        fetch(out[i], n[i] * n[i], 0, got);
        charl_assert_same_bits(got, want, n[i] * n[i]);
        charl_tensor_release(in[i]);
        charl_tensor_release(out[i]);
    }
    charl__recording_destroy(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(epilogues_are_separate_kernels),
        cmocka_unit_test(refuses_epilogues_of_integers),
        cmocka_unit_test(a_pair_has_the_bits_of_two),
        cmocka_unit_test(products_in_unlike_tiles_are_right),
    };

    return charl_test_on_device(tests, &dev);
}
