/* Operators that are composed of others, against their definitions in double: conv_transpose2d and
 * group_norm; and what they refuse. Their gradients are those of the operators within. */
#include "support/on_device.h"

#include <math.h>
#include <string.h>

#include "charl/graph.h"
#include "charl/ops.h"

enum { ROWS = 8, MAX_ELEMENTS = 8192 };

static charl_device *dev;

typedef struct operands {
    charl_graph *g;
    charl_var *x, *w, *bias;
} operands;

static void begin(operands *o, charl_shape x, charl_shape w, charl_shape bias)
{
    charl_assert_ok(charl_graph_create(dev, NULL, &o->g));
    o->x = charl_input(o->g, "x", CHARL_F32, x, CHARL_BATCHED);
    o->w = charl_input(o->g, "w", CHARL_F32, w, CHARL_REPLICATED);
    o->bias = charl_input(o->g, "bias", CHARL_F32, bias, CHARL_REPLICATED);
}

static void fill(charl_var *v, float *values, uint64_t seed)
{
    const charl_shape s = charl_var_get_type(v).shape;
    const int64_t n = charl_shape_count(&s);

    assert_true(n <= MAX_ELEMENTS);
    charl_test_fill(values, n, -1.0F, 1.0F, seed);
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(v), values, (size_t)n * sizeof(float)));
}

/* Run the graph on drawn operands; out gets the n elements of y. */
static void run(operands *o, charl_var *y, float *x, float *w, float *bias, float *out, int64_t n)
{
    charl_graph_keep(o->g, y);
    charl_assert_ok(charl_graph_compile(o->g));
    fill(o->x, x, 1);
    fill(o->w, w, 2);
    fill(o->bias, bias, 3);
    charl_assert_ok(charl_graph_run(o->g));
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(y), out, (size_t)n * sizeof *out));
}

static void assert_near(const float *got, const double *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (!(fabs((double)got[i] - want[i]) <= 1e-5 * (1 + fabs(want[i])))) {
            fail_msg("element %lld is %.9g, not %.9g", (long long)i, (double)got[i], want[i]);
        }
    }
}

/* Every input pixel adds its multiple of the kernel to the output. */
static void scatter(const charl_conv_transpose_args *a, const charl_shape *x, const charl_shape *y, const float *xv,
                    const float *wv, double *out)
{
    const charl_window *k = &a->win;
    const int64_t og = y->dim[1] / a->groups, cg = x->dim[1] / a->groups;
    const int64_t taps = (int64_t)k->kernel[0] * k->kernel[1], pixels = x->dim[2] * x->dim[3];

    for (int64_t i = 0; i < x->dim[0] * x->dim[1] * pixels; i++) {
        const int64_t c = i / pixels % x->dim[1], b = i / pixels / x->dim[1];

        for (int64_t e = 0; e < og * taps; e++) {
            const int64_t o = c / cg * og + e / taps, t = e % taps;
            const int64_t h = i % pixels / x->dim[3] * k->stride[0] - k->padding[0] + t / k->kernel[1] * k->dilation[0];
            const int64_t w = i % pixels % x->dim[3] * k->stride[1] - k->padding[1] + t % k->kernel[1] * k->dilation[1];

            if (h >= 0 && h < y->dim[2] && w >= 0 && w < y->dim[3]) {
                out[((b * y->dim[1] + o) * y->dim[2] + h) * y->dim[3] + w] +=
                    (double)xv[i] * (double)wv[c * og * taps + e];
            }
        }
    }
}

static void test_conv_transpose2d(void **state)
{
    static const struct {
        charl_conv_transpose_args args;
        charl_shape x, w, out;
    } cases[] = {
        {{{{3, 3}, {1, 1}, {1, 1}, {1, 1}}, {0, 0}, 1}, {4, {ROWS, 2, 5, 4}}, {4, {2, 3, 3, 3}}, {4, {ROWS, 3, 5, 4}}},
        {{{{4, 2}, {2, 3}, {1, 0}, {1, 1}}, {0, 2}, 1}, {4, {ROWS, 3, 3, 4}}, {4, {3, 2, 4, 2}}, {4, {ROWS, 2, 6, 13}}},
        {{{{3, 2}, {2, 2}, {2, 0}, {2, 3}}, {1, 0}, 2}, {4, {ROWS, 4, 4, 3}}, {4, {4, 3, 3, 2}}, {4, {ROWS, 6, 8, 8}}},
    };
    static float x[MAX_ELEMENTS], w[MAX_ELEMENTS], bias[16], out[MAX_ELEMENTS];
    static double want[MAX_ELEMENTS];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const charl_shape *s = &cases[i].out;
        const int64_t n = charl_shape_count(s), pixels = s->dim[2] * s->dim[3];
        operands o;
        charl_var *y;
        charl_shape have;

        begin(&o, cases[i].x, cases[i].w, (charl_shape){1, {s->dim[1]}});
        y = charl_conv_transpose2d(o.g, o.x, o.w, o.bias, &cases[i].args);
        charl_assert_ok(charl_graph_status(o.g));
        have = charl_var_get_type(y).shape;
        assert_true(charl_shape_equal(&have, s));
        run(&o, y, x, w, bias, out, n);
        for (int64_t k = 0; k < n; k++) {
            want[k] = (double)bias[k / pixels % s->dim[1]];
        }
        scatter(&cases[i].args, &cases[i].x, s, x, w, want);
        assert_near(out, want, n);
        charl_graph_destroy(o.g);
    }
}

static void test_group_norm(void **state)
{
    static const struct {
        charl_shape x;
        int groups;
    } cases[] = {{{4, {ROWS, 6, 3, 5}}, 3}, {{2, {ROWS, 8}}, 2}, {{3, {ROWS, 4, 33}}, 1}};
    static float x[MAX_ELEMENTS], w[16], bias[16], out[MAX_ELEMENTS];
    static double want[MAX_ELEMENTS];
    const double eps = 1e-3;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const charl_shape *s = &cases[i].x;
        const int64_t n = charl_shape_count(s), row = n / ROWS / cases[i].groups;
        const int64_t inner = n / ROWS / s->dim[1];
        operands o;

        begin(&o, *s, (charl_shape){1, {s->dim[1]}}, (charl_shape){1, {s->dim[1]}});
        run(&o, charl_group_norm(o.g, o.x, o.w, o.bias, cases[i].groups, (float)eps), x, w, bias, out, n);
        for (int64_t r = 0; r < n; r += row) {
            double mean = 0, var = 0;

            for (int64_t k = r; k < r + row; k++) {
                mean += (double)x[k] / (double)row;
            }
            for (int64_t k = r; k < r + row; k++) {
                var += ((double)x[k] - mean) * ((double)x[k] - mean) / (double)row;
            }
            for (int64_t k = r; k < r + row; k++) {
                const int64_t c = k / inner % s->dim[1];

                want[k] = ((double)x[k] - mean) / sqrt(var + eps) * (double)w[c] + (double)bias[c];
            }
        }
        assert_near(out, want, n);
        charl_graph_destroy(o.g);
    }
}

static void refused(charl_shape x, charl_shape w, const charl_conv_transpose_args *a, int groups, charl_status status,
                    const char *message)
{
    operands o;

    begin(&o, x, w, (charl_shape){1, {4}});
    assert_null(a ? charl_conv_transpose2d(o.g, o.x, o.w, NULL, a)
                  : charl_group_norm(o.g, o.x, NULL, NULL, groups, 1e-5F));
    charl_assert_status(charl_graph_status(o.g), status);
    charl_assert_message(message);
    assert_null(charl_group_norm(o.g, NULL, NULL, NULL, 1, 1e-5F));
    assert_null(charl_conv_transpose2d(o.g, NULL, NULL, NULL, a));
    charl_graph_destroy(o.g);
}

static void test_refused(void **state)
{
    static const charl_conv_transpose_args plain = {{{2, 2}, {2, 2}, {0, 0}, {1, 1}}, {0, 0}, 1},
                                           padded = {{{2, 2}, {2, 2}, {0, 0}, {1, 1}}, {0, 2}, 1},
                                           cut = {{{2, 2}, {2, 2}, {4, 0}, {1, 1}}, {0, 0}, 1};
    const charl_shape image = {4, {ROWS, 4, 3, 3}}, kernel = {4, {4, 2, 2, 2}};

    (void)state;
    refused((charl_shape){2, {ROWS, 4}}, kernel, &plain, 0, CHARL_ERR_SHAPE, "is not [B, C, H, W]");
    refused(image, kernel, &padded, 0, CHARL_ERR_INVALID, "output_padding 2 must be less than");
    refused(image, kernel, &cut, 0, CHARL_ERR_INVALID, "gives -2 outputs in H");
    refused(image, (charl_shape){4, {3, 2, 2, 2}}, &plain, 0, CHARL_ERR_SHAPE, "conv2d_dgrad");
    refused(image, kernel, NULL, 3, CHARL_ERR_SHAPE, "group_norm: 3 groups do not divide");
    refused((charl_shape){1, {ROWS}}, kernel, NULL, 1, CHARL_ERR_SHAPE, "group_norm: 1 groups");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv_transpose2d),
        cmocka_unit_test(test_group_norm),
        cmocka_unit_test(test_refused),
    };

    return charl_test_on_device(tests, &dev);
}
