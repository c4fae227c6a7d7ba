/* Matrix products of bf16 on the matrix unit of x86: when it is used, and its bits, for every layout, image, plan and tree over leaves. What
 * test_gemm_half and conv_tensor_core check of tensor cores they check of this unit, too.
 */
#include "device/suite.h"
#include "tensor/gemm_problem.h"

#include <sys/stat.h>

#include "base/env.h"
#include "base/fault.h"
#include "tensor/conv/conv.h"

enum { STEPS = 32, MOST_LEAVES = 13, ALL_PLANS = true };

static const charl_device_request on_cpu = {sizeof on_cpu, .select = "cpu", .local_size = 1};

static bool has_amx(void)
{
    return charl__device_facts_get(dev)->x86.amx;
}

static float truncated(float x, uint32_t added)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    bits = (bits + added) & 0xFFFF0000U;
    memcpy(&x, &bits, sizeof bits);
    return x;
}

/* To nearest even. */
static float rounded_to_bf16(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return truncated(x, 0x7FFFU + (bits >> 16 & 1U));
}

/* Fractions that bf16 holds. */
static float *make_numbers(int64_t n, uint64_t seed)
{
    float *x;

    charl_assert_ok(charl__alloc_array(n, sizeof *x, &x));
    charl_test_fill(x, n, -1.0F, 1.0F, seed);
    for (int64_t e = 0; e < n; e++) {
        x[e] = truncated(x[e], 0);
    }
    return x;
}

static int64_t taps_of(const charl__gemm *p)
{
    return (int64_t)p->window.taps[0] * p->window.taps[1];
}

static float a_of(const charl__gemm *p, const float *a, int64_t i, int64_t k)
{
    const int64_t taps = taps_of(p);

    return p->a.kind == CHARL_GEMM_PLAIN        ? a[i * p->k + k]
           : p->a.kind == CHARL_GEMM_TRANSPOSED ? a[k * p->m + i]
                                                : a[(k / taps * p->m + i) * taps + k % taps];
}

static float pixel_of(const charl__gemm *p, const float *image, int64_t channel, int64_t pixel, int64_t tap)
{
    const charl__gemm_window *w = &p->window;
    const int64_t at[] = {pixel / w->row, pixel % w->row}, of[] = {tap / w->taps[1], tap % w->taps[1]};
    int64_t x[2];

    for (int d = 0; d < 2; d++) {
        x[d] = at[d] * w->step[d] + w->shift[d] + of[d] * w->tap_step[d];
        if (x[d] < 0 || x[d] % w->divide[d] != 0 || x[d] / w->divide[d] >= w->image[d]) {
            return 0.0F;
        }
        x[d] /= w->divide[d];
    }
    return image[(channel * w->image[0] + x[0]) * w->image[1] + x[1]];
}

static float b_of(const charl__gemm *p, const float *b, int64_t k, int64_t j)
{
    const int64_t taps = taps_of(p);

    return p->b.kind == CHARL_GEMM_PLAIN        ? b[k * p->n + j]
           : p->b.kind == CHARL_GEMM_TRANSPOSED ? b[j * p->k + k]
           : p->b.kind == CHARL_GEMM_WINDOW     ? pixel_of(p, b, k / taps, j, k % taps)
                                                : pixel_of(p, b, j / taps, k, j % taps);
}

/* A chain of instructions, each of which adds a chain over the even ones of 32 steps and one over the odd ones. */
static float element_of(const charl__gemm *p, const float *a, const float *b, int64_t i, int64_t j)
{
    float acc = 0.0F;

    for (int64_t s = 0; s < charl__at_least_one(p->segments); s++) {
        for (int64_t first = 0; first < p->k; first += STEPS) {
            float sum[2] = {0.0F, 0.0F};

            for (int64_t k = first; k < p->k && k < first + STEPS; k++) {
                sum[k % 2] = fmaf(a_of(p, a + s * p->a.segment, i, k), b_of(p, b + s * p->b.segment, k, j), sum[k % 2]);
            }
            acc += sum[0] + sum[1];
        }
    }
    return acc;
}

/* The tree over `leaves` sums, nodes of `rounded` and more leaves in bf16; 0: none. */
static float fold(float *leaf, int leaves, int rounded)
{
    for (int i = 0; i < leaves && rounded == 1; i++) {
        leaf[i] = rounded_to_bf16(leaf[i]);
    }
    for (int step = 1; step < leaves; step *= 2) {
        for (int i = 0; i + step < leaves; i += 2 * step) {
            leaf[i] += leaf[i + step];
            leaf[i] = rounded > 0 && 2 * step >= rounded ? rounded_to_bf16(leaf[i]) : leaf[i];
        }
    }
    return leaf[0];
}

/* Result [i][j] of product z of p; of a sum over leaves, of inner product z. */
static float result_of(const charl__gemm *p, const float *a, const float *b, const float *bias, int64_t z, int64_t i,
                       int64_t j)
{
    const int64_t inners = charl__at_least_one(p->inner), outer = p->fold.leaves > 1 ? 0 : z / inners,
                  inner = z % inners;
    const float *from_a = a + outer * p->a.outer + inner * p->a.inner,
                *from_b = b + outer * p->b.outer + inner * p->b.inner;
    float leaf[MOST_LEAVES];

    for (int l = 0; l < p->fold.leaves || l < 1; l++) {
        leaf[l] = element_of(p, from_a + l * p->a.outer, from_b + l * p->b.outer, i, j);
    }
    return fold(leaf, p->fold.leaves, p->fold.rounded) + (p->bias_kind == CHARL_GEMM_BIAS_ROWS ? bias[inner * p->m + i]
                                                          : p->bias_kind == CHARL_GEMM_BIAS_COLUMNS ? bias[j]
                                                                                                    : 0.0F);
}

/* Bit for bit, in poisoned memory, as chosen or by all plans. a, b, out: elements of the operands. */
static void check(charl__gemm p, int64_t a, int64_t b, int64_t out, bool all_plans)
{
    static int count;
    const int64_t biases = charl__at_least_one(p.inner) * p.m + p.n, shift = ++count % 5;
    float *from_a = make_numbers(a, 10), *from_b = make_numbers(b, 11), *bias = make_numbers(biases, 12), *want, *got;
    charl_tensor *ta = place(from_a, a, CHARL_BF16, shift), *tb = place(from_b, b, CHARL_BF16, shift / 2),
                 *tbias = place(bias, biases, CHARL_F32, 0), *to = place(NULL, out, CHARL_F32, shift);
    charl__gemm_plan plans[CHARL__GEMM_PLANS];
    char text[CHARL__GEMM_TEXT];
    int n;

    p.a.tensor = ta;
    p.b.tensor = tb;
    p.out.tensor = to;
    p.bias = p.bias_kind != CHARL_GEMM_NO_BIAS ? tbias : NULL;
    charl_assert_ok(charl__alloc_array(out, sizeof *want, &want));
    charl_assert_ok(charl__alloc_array(out, sizeof *got, &got));
    for (int64_t e = 0; e < charl__at_least_one(p.count) * p.m * p.n; e++) {
        const int64_t z = e / (p.m * p.n), inners = charl__at_least_one(p.inner), i = e / p.n % p.m, j = e % p.n;

        want[z / inners * p.out.outer + z % inners * p.out.inner + i * p.n + j] =
            result_of(&p, from_a, from_b, bias, z, i, j);
    }
    n = charl__gemm_plans(dev, &p, plans);
    for (int i = 0; i < (all_plans ? n : 1); i++) {
        assert_ptr_equal(plans[i].backend, &charl__gemm_amx);
        charl_assert_ok(charl__gemm_launch(dev, &p, &plans[i]));
        fetch(to, out, shift, got);
        for (int64_t e = 0; e < out; e++) {
            if (memcmp(&got[e], &want[e], sizeof *got) != 0) {
                fail_msg("%lld x %lld x %lld, kinds %d and %d, %s: element %lld is %.9g, not %.9g", (long long)p.m,
                         (long long)p.n, (long long)p.k, (int)p.a.kind, (int)p.b.kind,
                         charl__gemm_plan_text(&plans[i], text), (long long)e, (double)got[e], (double)want[e]);
            }
        }
    }
    charl_tensor_release(ta);
    charl_tensor_release(tb);
    charl_tensor_release(tbias);
    charl_tensor_release(to);
    charl_free(from_a);
    charl_free(from_b);
    charl_free(bias);
    charl_free(want);
    charl_free(got);
}

static charl__gemm matrices(const int64_t shape[3], int layout)
{
    charl__gemm p = {.m = shape[0], .n = shape[1], .k = shape[2]};

    p.a.kind = layout & 1 ? CHARL_GEMM_TRANSPOSED : CHARL_GEMM_PLAIN;
    p.b.kind = layout & 2 ? CHARL_GEMM_TRANSPOSED : CHARL_GEMM_PLAIN;
    p.a.outer = p.m * p.k;
    p.b.outer = p.n * p.k;
    p.out.outer = p.m * p.n;
    return p;
}

/* Rows in place and packed, fewer than a tile has and more, operands that change places, steps of one packed block and of several. */
static void matrices_of_every_layout(void **state)
{
    static const int64_t shape[][3] = {{1, 1, 1},     {5, 3, 0},    {3, 40, 31},  {16, 16, 544},  {17, 40, 64},
                                       {31, 33, 32},  {45, 16, 96}, {5, 50, 512}, {70, 45, 1100}, {33, 17, 1056},
                                       {64, 33, 513}, {1, 70, 64},  {18, 45, 64}, {20, 640, 544}};

    (void)state;
    if (!has_amx()) {
        skip();
    }
    for (size_t s = 0; s < sizeof shape / sizeof *shape; s++) {
        for (int t = 0; t < 4; t++) {
            charl__gemm p = matrices(shape[s], t);
            const int64_t a = p.a.outer, b = p.b.outer;

            for (int bias = 0; bias < (s % 7 == 4 ? 3 : 1); bias++) { /* a kernel compiles for a second */
                p.bias_kind = (charl__gemm_bias)bias;
                check(p, a, b, p.out.outer, ALL_PLANS);
            }
            p.bias_kind = CHARL_GEMM_NO_BIAS;
            p.count = 3;
            check(p, 3 * a, 3 * b, 3 * p.out.outer, !ALL_PLANS);
            p.segments = 2;
            p.count = 1;
            p.a.segment = a;
            p.b.segment = b;
            check(p, 2 * a, 2 * b, p.out.outer, !ALL_PLANS);
        }
    }
}

/* Rows and columns of two work-items, whichever plan it is. */
static void blocks_of_every_plan(void **state)
{
    static const int64_t shape[] = {700, 800, 40}, flat[] = {300, 800, 64};

    (void)state;
    if (!has_amx()) {
        skip();
    }
    for (int t = 0; t < 4; t++) {
        charl__gemm p = matrices(t == 2 ? flat : shape, t);

        check(p, p.a.outer, p.b.outer, p.out.outer, ALL_PLANS);
    }
}

static void sums_over_leaves_are_those_of_the_tree(void **state)
{
    static const int64_t shape[][3] = {{70, 45, 37}, {33, 17, 544}, {20, 66, 64}};

    (void)state;
    if (!has_amx()) {
        skip();
    }
    for (int leaves = 2; leaves <= MOST_LEAVES; leaves++) {
        for (int t = 0; t < 4; t++) {
            charl__gemm p = matrices(shape[(leaves + t) % 3], t);

            p.fold.leaves = leaves;
            p.fold.rounded = leaves % 4 == 0 ? 0 : 1 << (leaves + t) % 3;
            check(p, leaves * p.a.outer, leaves * p.b.outer, p.out.outer, leaves == 5);
        }
    }
}

/* Windows of all kinds: over many channels or pixels, with more taps than are kept, steps, holes, groups, tiny images. */
static void convolutions(void **state)
{
    static const charl__conv of[] = {
        {4, 4, 11, 13, 18, 0, 0, 2, {3, 2}, {2, 3}, {1, 0}, {1, 2}},
        {2, 70, 6, 5, 40, 0, 0, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
        {2, 3, 20, 19, 33, 0, 0, 1, {9, 9}, {1, 1}, {4, 4}, {1, 1}},
        {2, 6, 8, 40, 6, 0, 0, 6, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
        {2, 2, 25, 24, 20, 0, 0, 1, {2, 5}, {1, 1}, {1, 2}, {1, 1}},
        {4, 1, 2, 3, 1, 0, 0, 1, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    };

    (void)state;
    if (!has_amx()) {
        skip();
    }
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        charl__conv c = of[i];
        charl__gemm sums;
        int64_t x, w, y;

        c.oh = charl__conv_extent(&c, 0, c.h);
        c.ow = charl__conv_extent(&c, 1, c.w);
        x = c.batch * c.c * c.h * c.w;
        w = c.o * (c.c / c.groups) * c.kernel[0] * c.kernel[1];
        y = c.batch * c.o * c.oh * c.ow;
        check(charl__conv_forward(&c, true), w, x, y, i == 1);
        check(charl__conv_input_gradient(&c), w, y, x, i == 1);
        check(charl__conv_weight_gradient(&c, c.batch / 2), y, x, w * (c.batch / 2), i == 4);
        sums = charl__conv_weight_gradient(&c, c.batch);
        sums.fold.leaves = (int)c.batch;
        sums.count = charl__at_least_one(sums.inner);
        sums.fold.rounded = (int)i % 3;
        check(sums, y, x, w, i == 1);
    }
}

/* As operands, in between and as results. */
static void small_numbers_are_zero(void **state)
{
    static const float a[] = {0x1p-130F, 0x1p-100F, -0x1p-126F, 0x1.8p-126F}, b[] = {0x1p100F, 0x1p-30F, 1.0F, 1.0F};
    float got;

    (void)state;
    if (!has_amx()) {
        skip();
    }
    for (int at = 0; at < 3; at++) {
        const int64_t k = at == 2 ? 2 : 1; /* the last is the sum of two chains */
        charl_tensor *ta = place(a + at, k, CHARL_BF16, 0), *tb = place(b + at, k, CHARL_BF16, 0),
                     *to = place(NULL, 1, CHARL_F32, 0);
        charl__gemm p = {.a = {ta}, .b = {tb}, .out = {to}, .m = 1, .n = 1, .k = k};

        charl_assert_ok(charl__gemm_enqueue(dev, &p));
        fetch(to, 1, 0, &got);
        assert_true(got == 0.0F);
        p.form = CHARL_GEMM_VECTOR;
        charl_assert_ok(charl__gemm_enqueue(dev, &p));
        fetch(to, 1, 0, &got);
        assert_true(got != 0.0F);
        charl_tensor_release(ta);
        charl_tensor_release(tb);
        charl_tensor_release(to);
    }
}

/* f32 and f16 have no use for it, and forms of a test are what they say. */
static void other_products_are_as_ever(void **state)
{
    static const charl_dtype types[] = {CHARL_F32, CHARL_F16, CHARL_BF16};

    (void)state;
    for (int i = 0; i < 3; i++) {
        const charl_tensor x = {.dtype = types[i]};
        charl__gemm like = {.a = {&x}, .b = {&x}, .out = {&x}, .m = 300, .n = 300, .k = 300};

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

/* A kernel that is wrong, and one that does not build. */
static void is_not_used_where_it_is_wrong(void **state)
{
    static const char *const tiles[] = {"static inline void begin_tiles(int rows)\n{\n    (void)rows;\n}\n"
                                        "static inline void end_tiles(void)\n{\n}\n"
                                        "#define TILE_ZERO(t)\n#define TILE_LOAD(t, p, pitch)\n"
                                        "#define TILE_STORE(t, p, pitch) (p)[0] = (float)(pitch)\n"
                                        "#define TILE_PRODUCT(sum, a, b)\n",
                                        "#error no tiles\n"};

    (void)state;
    if (!has_amx()) {
        skip();
    }
    for (int i = 0; i < 2; i++) {
        char *dir = charl_test_tempdir();

        assert_int_equal(mkdir(charl_test_path(dir, "x86"), 0777), 0);
        assert_int_equal(mkdir(charl_test_path(dir, "x86/amx"), 0777), 0);
        charl_test_link_kernels(dir, "", "x86", "x86");
        charl_test_link_kernels(dir, "x86/", "amx", "amx");
        charl_test_write_text(charl_test_path(dir, "x86/amx/tiles.clh"), tiles[i]);
        charl__env_set(CHARL_ENV_KERNEL_DIR, dir);
        assert_false(device_opens_with_amx());
        charl__env_set(CHARL_ENV_KERNEL_DIR, NULL);
        charl_test_tempdir_remove(dir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_of_every_layout),
        cmocka_unit_test(blocks_of_every_plan),
        cmocka_unit_test(sums_over_leaves_are_those_of_the_tree),
        cmocka_unit_test(convolutions),
        cmocka_unit_test(small_numbers_are_zero),
        cmocka_unit_test(other_products_are_as_ever),
        cmocka_unit_test(can_be_left_alone),
        cmocka_unit_test(is_not_used_where_it_is_wrong),
    };

    return charl_test_run_on_device_of(&on_cpu, "tests", tests, sizeof tests / sizeof *tests, &dev);
}
