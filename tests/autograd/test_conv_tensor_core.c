/* Convolutions on tensor cores: exact in integers for every kind of window, ragged extent and tile,
 * and the same bits in every repetition. Where there are no tensor cores one case runs, on the
 * portable kernels.
 */
#include "support/on_device.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "autograd/op/conv/conv2d.h"
#include "autograd/check/opcheck.h"
#include "base/alloc.h"
#include "base/env.h"

enum { SLICES = 8 };

static charl_device *dev;
static charl_slices whole;

typedef struct geometry {
    int64_t batch, c, h, w, o;
    charl_window win;
} geometry;

static int64_t extent(const geometry *g, int d)
{
    const int64_t n = d == 0 ? g->h : g->w;

    return (n + 2 * g->win.padding[d] - g->win.dilation[d] * (g->win.kernel[d] - 1) - 1) / g->win.stride[d] + 1;
}

/* Operand types of conv2d (0), dgrad (1), wgrad (2). */
static charl__op_sample make(const geometry *g, int what, const charl__conv_attr *attr)
{
    const charl_type x = {CHARL_F32, {4, {g->batch, g->c, g->h, g->w}}, CHARL_BATCHED};
    const charl_type y = {CHARL_F32, {4, {g->batch, g->o, extent(g, 0), extent(g, 1)}}, CHARL_BATCHED};
    const charl_type w = {CHARL_F32, {4, {g->o, g->c, g->win.kernel[0], g->win.kernel[1]}}, CHARL_REPLICATED};
    const charl_type bias = {CHARL_F32, {1, {g->o}}, CHARL_REPLICATED};
    charl__op_sample s = {.n_in = what == 0 ? 3 : 2, .attr = attr, .lo = -2, .hi = 3, .terms = 1};

    s.in[0] = what == 0 ? x : y;
    s.in[1] = what == 2 ? x : w;
    s.in[2] = bias;
    return s;
}

static void draw_integers(charl__op_case *c)
{
    for (int i = 0; i < c->n_in; i++) {
        for (int64_t k = 0; k < charl_shape_count(&c->in_type[i].shape); k++) {
            c->in[i][k] = floor(c->in[i][k]);
        }
    }
    charl__op_case_reference(c);
}

/* Output 0 of a whole run, as the device wrote it, on tensors that begin at element `shift`. */
static void *run(const charl__op_case *c, int64_t shift)
{
    void *raw[CHARL_OP_MAX_OUT];

    charl_assert_ok(charl__op_case_run(dev, c, &whole, shift, raw));
    return raw[0];
}

static void check(const geometry *g, int what, charl_dtype half, int64_t shift)
{
    static const charl__op *const op[] = {&charl_op_conv2d, &charl_op_conv2d_dgrad, &charl_op_conv2d_wgrad};
    const charl__conv_attr attr = {.win = g->win, .groups = 1, .size = {g->h, g->w}};
    const charl__op_sample s = make(g, what, &attr);
    charl__op_case c;
    unsigned char *want;
    void *got;
    int64_t n;
    size_t size;

    charl_assert_ok(charl__op_case_create(op[what], &s, half, 3, &c));
    draw_integers(&c);
    n = charl_shape_count(&c.out_type[0].shape);
    size = charl_dtype_size(c.out_type[0].dtype);
    charl_assert_ok(charl__alloc_array(n, size, &want));
    charl_dtype_encode(c.out_type[0].dtype, c.want[0], n, want);
    got = run(&c, shift);
    for (int64_t i = 0; i < n; i++) {
        double value;

        charl_dtype_decode(c.out_type[0].dtype, (unsigned char *)got + (size_t)i * size, 1, &value);
        if (memcmp((unsigned char *)got + (size_t)i * size, want + (size_t)i * size, size) != 0 &&
            value + c.want[0][i] != 0) {
            fail_msg("%s in %s, %lld x %lld x %lld -> %lld, kernel %d, stride %d: element %lld is "
                     "%g, not %g",
                     op[what]->name, charl_dtype_name(half), (long long)g->c, (long long)g->h, (long long)g->w,
                     (long long)g->o, g->win.kernel[0], g->win.stride[0], (long long)i, value, c.want[0][i]);
        }
    }
    charl_free(got);
    charl_free(want);
    charl__op_case_destroy(&c);
}

enum { FORWARD = 1, INPUT = 2, WEIGHT = 4, ALL = 7 };

/* The last ones fill the wide tile; the host's reference takes its time. */
static const struct {
    geometry g;
    int what;
} cases[] = {
    {{8, 2, 5, 6, 3, {{3, 3}, {1, 1}, {1, 1}, {1, 1}}}, ALL}, /* also without tensor cores */
    {{8, 3, 15, 13, 64, {{7, 7}, {2, 2}, {3, 3}, {1, 1}}}, ALL},
    {{8, 64, 4, 5, 64, {{3, 3}, {1, 1}, {1, 1}, {1, 1}}}, ALL},
    {{16, 128, 7, 7, 256, {{1, 1}, {2, 2}, {0, 0}, {1, 1}}}, ALL},
    {{8, 72, 5, 7, 130, {{3, 3}, {2, 2}, {1, 1}, {1, 1}}}, ALL},
    {{16, 17, 13, 8, 65, {{3, 2}, {2, 3}, {1, 0}, {1, 2}}}, ALL},
    {{8, 40, 6, 7, 24, {{2, 3}, {4, 2}, {0, 2}, {2, 2}}}, ALL},
    {{8, 72, 3, 4, 136, {{3, 3}, {1, 1}, {2, 2}, {2, 2}}}, ALL},
    {{8, 1, 3, 3, 1, {{3, 3}, {1, 1}, {0, 0}, {1, 1}}}, ALL},
    {{8, 3, 66, 64, 5, {{3, 3}, {1, 1}, {1, 1}, {1, 1}}}, WEIGHT}, /* parts of 16.5 rows of a sample */
    {{8, 1, 48, 48, 256, {{3, 3}, {1, 1}, {1, 1}, {1, 1}}}, FORWARD},
    {{8, 256, 48, 48, 1, {{1, 1}, {1, 1}, {0, 0}, {1, 1}}}, INPUT},
    {{64, 256, 1, 1, 512, {{1, 1}, {1, 1}, {0, 0}, {1, 1}}}, WEIGHT},
    /* Patches, as many as an H200 has compute units: ragged; with a tile of the last 8 columns; with channels that are not there. */
    {{16, 64, 23, 22, 64, {{3, 3}, {1, 1}, {1, 1}, {1, 1}}}, FORWARD | INPUT},
    {{8, 128, 18, 6, 520, {{3, 3}, {1, 1}, {0, 2}, {1, 1}}}, FORWARD},
    {{8, 520, 16, 8, 126, {{3, 3}, {1, 1}, {1, 0}, {1, 1}}}, INPUT},
};

static void integers_are_exact(void **state)
{
    const bool cores = charl_device_has_tensor_cores(dev, CHARL_BF16);
    const int n = cores ? (int)(sizeof cases / sizeof cases[0]) : 1;

    (void)state;
    for (int i = 0; i < n; i++) {
        for (int what = 0; what < 3; what++) {
            if (cases[i].what >> what & 1) {
                check(&cases[i].g, what, i % 2 ? CHARL_F16 : CHARL_BF16, i); /* each case at another offset */
            }
        }
    }
}

/* Copies run ahead of the products that read them: a missing wait would show now and then. */
static void repeats_give_the_same_bits(void **state)
{
    static const geometry few = {8, 32, 8, 8, 64, {{3, 3}, {1, 1}, {1, 1}, {1, 1}}},
                          patches = {16, 64, 23, 22, 64, {{3, 3}, {1, 1}, {1, 1}, {1, 1}}};
    static const struct {
        const charl__op *op;
        const geometry *g;
        int what;
    } repeated[] = {{&charl_op_conv2d, &few, 0},
                    {&charl_op_conv2d_dgrad, &few, 1},
                    {&charl_op_conv2d_wgrad, &few, 2},
                    {&charl_op_conv2d, &patches, 0}};
    const int repeats = charl__env_is_on(CHARL_ENV_TEST_LONG) ? 333 : 33;

    (void)state;
    for (size_t i = 0; i < sizeof repeated / sizeof *repeated && charl_device_has_tensor_cores(dev, CHARL_BF16); i++) {
        const geometry *g = repeated[i].g;
        const charl__conv_attr attr = {g->win, 1, {g->h, g->w}};
        const charl__op_sample s = make(g, repeated[i].what, &attr);
        charl__op_case c;
        void *want;
        size_t bytes;

        charl_assert_ok(charl__op_case_create(repeated[i].op, &s, CHARL_BF16, 4, &c));
        bytes = charl__op_case_bytes(&c, &whole, 0);
        want = run(&c, 0);
        for (int r = 0; r < repeats; r++) {
            void *got = run(&c, 0);

            if (memcmp(got, want, bytes) != 0) {
                fail_msg("%s: other bits in repetition %d", repeated[i].op->name, r);
            }
            charl_free(got);
        }
        charl_free(want);
        charl__op_case_destroy(&c);
    }
}

static int set_up(void **state)
{
    (void)state;
    charl_assert_ok(charl_slices_block(SLICES, 0, 1, &whole));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(integers_are_exact, set_up),
        cmocka_unit_test_setup(repeats_give_the_same_bits, set_up),
    };

    return charl_test_on_device(tests, &dev);
}
