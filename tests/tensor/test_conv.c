/* Convolution and its gradients against plain loops, bit for bit, in every form of the engine.
 *
 * The loops take the products in the promised order, one fma each, so equality of bits shows order
 * and operands at once; integers show that the two gradients are the transposes of the forward
 * pass.
 */
#include "support/on_device.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "tensor/conv/conv.h"
#include "tensor/gemm/gemm_private.h"

static charl_device *dev;

static const charl__gemm_form forms[] = {CHARL_GEMM_AUTO, CHARL_GEMM_VECTOR, CHARL_GEMM_VECTOR_SMALL, CHARL_GEMM_LOCAL,
                                         CHARL_GEMM_LOCAL_LARGE};
enum { FORMS = sizeof forms / sizeof forms[0] };

/* Few different windows, since each is a program of its own. */
static const charl__conv geometry[] = {
    {.batch = 2,
     .c = 3,
     .h = 9,
     .w = 20,
     .o = 3,
     .groups = 3,
     .kernel = {3, 2},
     .stride = {2, 1},
     .padding = {1, 2},
     .dilation = {1, 2}},
    {.batch = 2,
     .c = 3,
     .h = 7,
     .w = 6,
     .o = 5,
     .groups = 1,
     .kernel = {3, 3},
     .stride = {1, 1},
     .padding = {1, 1},
     .dilation = {1, 1}},
    {.batch = 4,
     .c = 1,
     .h = 28,
     .w = 28,
     .o = 9,
     .groups = 1,
     .kernel = {5, 5},
     .stride = {1, 1},
     .padding = {0, 0},
     .dilation = {1, 1}},
    {.batch = 2,
     .c = 33,
     .h = 9,
     .w = 20,
     .o = 17,
     .groups = 1,
     .kernel = {1, 1},
     .stride = {1, 1},
     .padding = {0, 0},
     .dilation = {1, 1}},
    {.batch = 2,
     .c = 4,
     .h = 11,
     .w = 13,
     .o = 6,
     .groups = 2,
     .kernel = {3, 2},
     .stride = {2, 3},
     .padding = {1, 0},
     .dilation = {1, 2}},
    {.batch = 2,
     .c = 6,
     .h = 8,
     .w = 8,
     .o = 12,
     .groups = 6,
     .kernel = {3, 2},
     .stride = {2, 3},
     .padding = {1, 0},
     .dilation = {1, 2}},
    {.batch = 1,
     .c = 2,
     .h = 12,
     .w = 40,
     .o = 70,
     .groups = 1,
     .kernel = {3, 5},
     .stride = {1, 1},
     .padding = {4, 4},
     .dilation = {2, 2}},
    {.batch = 4,
     .c = 1,
     .h = 1,
     .w = 1,
     .o = 1,
     .groups = 1,
     .kernel = {1, 1},
     .stride = {1, 1},
     .padding = {0, 0},
     .dilation = {1, 1}},
    /* images so small that a tile has columns of several samples, and sums of several tiles, of which the last is cut off */
    {.batch = 5,
     .c = 5,
     .h = 6,
     .w = 6,
     .o = 9,
     .groups = 1,
     .kernel = {3, 3},
     .stride = {1, 1},
     .padding = {1, 1},
     .dilation = {1, 1}},
};
enum { GEOMETRIES = sizeof geometry / sizeof geometry[0], SMALL_IMAGES = GEOMETRIES - 1 };

typedef struct operands {
    charl__conv c;
    int64_t n_x, n_w, n_out;
    float *x, *w, *bias, *gout;
} operands;

static void set_up(operands *v, const charl__conv *g, bool integers)
{
    float **const to[] = {&v->x, &v->w, &v->bias, &v->gout};
    int64_t n[4];

    v->c = *g;
    v->c.oh = charl__conv_extent(g, 0, g->h);
    v->c.ow = charl__conv_extent(g, 1, g->w);
    v->n_x = n[0] = g->batch * g->c * g->h * g->w;
    v->n_w = n[1] = g->o * (g->c / g->groups) * g->kernel[0] * g->kernel[1];
    n[2] = g->o;
    v->n_out = n[3] = g->batch * g->o * v->c.oh * v->c.ow;
    for (int i = 0; i < 4; i++) {
        charl_assert_ok(charl__alloc_array(n[i], sizeof(float), to[i]));
        charl_test_fill(*to[i], n[i], integers ? -3.0F : -1.0F, integers ? 4.0F : 1.0F, (uint64_t)i);
        for (int64_t e = 0; integers && e < n[i]; e++) {
            (*to[i])[e] = floorf((*to[i])[e]);
        }
    }
}

static void tear_down(operands *v)
{
    charl_free(v->x);
    charl_free(v->w);
    charl_free(v->bias);
    charl_free(v->gout);
}

static charl_tensor *upload(const float *src, int64_t n)
{
    charl_tensor *t;

    charl_assert_ok(charl_tensor_create(dev, CHARL_F32, &(charl_shape){1, {n}}, &t));
    if (src) {
        charl_assert_ok(charl_tensor_write(t, src, (size_t)n * sizeof *src));
    } else {
        charl_assert_ok(charl_tensor_fill(t, -777.0));
    }
    return t;
}

/* Run p on copies of the operands; n elements of output into `out`. */
static void run(charl__gemm p, const float *a, int64_t n_a, const float *b, int64_t n_b, const operands *v, float *out,
                int64_t n)
{
    charl_tensor *ta = upload(a, n_a), *tb = upload(b, n_b), *bias = upload(v->bias, v->c.o), *o = upload(NULL, n);

    p.a.tensor = ta;
    p.b.tensor = tb;
    p.bias = p.bias_kind ? bias : NULL;
    p.out.tensor = o;
    charl_assert_ok(charl__gemm_enqueue(dev, &p));
    charl_assert_ok(charl_tensor_read(o, out, (size_t)n * sizeof *out));
    charl_tensor_release(ta);
    charl_tensor_release(tb);
    charl_tensor_release(bias);
    charl_tensor_release(o);
}

/* x at input row h, column w of a channel, 0 outside */
static float pixel(const charl__conv *c, const float *plane, int64_t h, int64_t w)
{
    return h >= 0 && h < c->h && w >= 0 && w < c->w ? plane[h * c->w + w] : 0.0F;
}

static float forward_at(const operands *v, int64_t b, int64_t o, int64_t y, int64_t z)
{
    const charl__conv *c = &v->c;
    const int64_t cg = c->c / c->groups, group = o / (c->o / c->groups);
    const float *w = v->w + o * cg * c->kernel[0] * c->kernel[1];
    float sum = 0.0F;

    for (int64_t ch = 0; ch < cg; ch++) {
        const float *plane = v->x + (b * c->c + group * cg + ch) * c->h * c->w;

        for (int r = 0; r < c->kernel[0]; r++) {
            for (int s = 0; s < c->kernel[1]; s++) {
                sum = fmaf(*w++,
                           pixel(c, plane, y * c->stride[0] - c->padding[0] + r * c->dilation[0],
                                 z * c->stride[1] - c->padding[1] + s * c->dilation[1]),
                           sum);
            }
        }
    }
    return sum + v->bias[o];
}

/* The output row or column that reads coordinate `at` through tap `tap`, or -1. */
static int64_t source(const charl__conv *c, int d, int64_t at, int tap, int64_t extent)
{
    const int64_t start = at + c->padding[d] - (int64_t)tap * c->dilation[d];

    return start >= 0 && start % c->stride[d] == 0 && start / c->stride[d] < extent ? start / c->stride[d] : -1;
}

static float input_gradient_at(const operands *v, int64_t b, int64_t ch, int64_t h, int64_t w)
{
    const charl__conv *c = &v->c;
    const int64_t cg = c->c / c->groups, og = c->o / c->groups, group = ch / cg,
                  taps = (int64_t)c->kernel[0] * c->kernel[1];
    float sum = 0.0F;

    for (int64_t o = group * og; o < (group + 1) * og; o++) {
        for (int64_t t = 0; t < taps; t++) {
            const int64_t y = source(c, 0, h, (int)t / c->kernel[1], c->oh);
            const int64_t z = source(c, 1, w, (int)t % c->kernel[1], c->ow);
            const float g = y < 0 || z < 0 ? 0.0F : v->gout[((b * c->o + o) * c->oh + y) * c->ow + z];

            sum = fmaf(v->w[(o * cg + ch % cg) * taps + t], g, sum);
        }
    }
    return sum;
}

/* Samples [b0, b0 + rows). */
static float weight_gradient_at(const operands *v, int64_t b0, int64_t rows, int64_t e)
{
    const charl__conv *c = &v->c;
    const int64_t cg = c->c / c->groups, taps = (int64_t)c->kernel[0] * c->kernel[1];
    const int64_t o = e / (cg * taps), ch = o / (c->o / c->groups) * cg + e / taps % cg, t = e % taps;
    float sum = 0.0F;

    for (int64_t b = b0; b < b0 + rows; b++) {
        const float *plane = v->x + (b * c->c + ch) * c->h * c->w, *g = v->gout + (b * c->o + o) * c->oh * c->ow;

        for (int64_t p = 0; p < c->oh * c->ow; p++) {
            sum = fmaf(g[p],
                       pixel(c, plane, p / c->ow * c->stride[0] - c->padding[0] + t / c->kernel[1] * c->dilation[0],
                             p % c->ow * c->stride[1] - c->padding[1] + t % c->kernel[1] * c->dilation[1]),
                       sum);
        }
    }
    return sum;
}

/* Building the forms for local memory takes a CPU seconds each: not all geometries need them. A
 * GPU's work-items have no room for the blocks of VECTOR. */
static bool can_run(charl__gemm_form form, int i)
{
    const charl_device_info *info = charl_device_get_info(dev);

    if (form == CHARL_GEMM_VECTOR || form == CHARL_GEMM_VECTOR_SMALL) {
        return info->kind == CHARL_DEVICE_CPU;
    }
    if (form != CHARL_GEMM_AUTO && !charl_test_has_barriers(dev)) {
        return false;
    }
    return info->max_group >= 256 && (form != CHARL_GEMM_LOCAL || i == 0 || i == 3 || i == SMALL_IMAGES) &&
           (form != CHARL_GEMM_LOCAL_LARGE || i == 3);
}

static float *array(int64_t n)
{
    float *p;

    charl_assert_ok(charl__alloc_array(n, sizeof *p, &p));
    return p;
}

static void forward(void **state)
{
    (void)state;
    for (int i = 0; i < GEOMETRIES; i++) {
        operands v;
        float *want, *got;

        set_up(&v, &geometry[i], false);
        want = array(v.n_out);
        got = array(v.n_out);
        for (int64_t e = 0; e < v.n_out; e++) {
            const int64_t z = e % v.c.ow, y = e / v.c.ow % v.c.oh, bo = e / (v.c.oh * v.c.ow);

            want[e] = forward_at(&v, bo / v.c.o, bo % v.c.o, y, z);
        }
        for (int f = 0; f < FORMS; f++) {
            charl__gemm p = charl__conv_forward(&v.c, true);

            p.form = forms[f];
            if (can_run(forms[f], i)) {
                run(p, v.w, v.n_w, v.x, v.n_x, &v, got, v.n_out);
                charl_assert_same_bits(got, want, v.n_out);
            }
        }
        charl_free(want);
        charl_free(got);
        tear_down(&v);
    }
}

static void input_gradient(void **state)
{
    (void)state;
    for (int i = 0; i < GEOMETRIES; i++) {
        operands v;
        float *want, *got;

        set_up(&v, &geometry[i], false);
        want = array(v.n_x);
        got = array(v.n_x);
        for (int64_t e = 0; e < v.n_x; e++) {
            const int64_t w = e % v.c.w, h = e / v.c.w % v.c.h, bc = e / (v.c.h * v.c.w);

            want[e] = input_gradient_at(&v, bc / v.c.c, bc % v.c.c, h, w);
        }
        for (int f = 0; f < FORMS; f++) {
            charl__gemm p = charl__conv_input_gradient(&v.c);

            p.form = forms[f];
            if (can_run(forms[f], i)) {
                run(p, v.w, v.n_w, v.gout, v.n_out, &v, got, v.n_x);
                charl_assert_same_bits(got, want, v.n_x);
            }
        }
        charl_free(want);
        charl_free(got);
        tear_down(&v);
    }
}

/* One product per slice; a slice is all samples, or one. */
static void weight_gradient(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * GEOMETRIES; i++) {
        operands v;
        float *want, *got;
        int64_t rows, slices;

        set_up(&v, &geometry[i / 2], false);
        rows = i % 2 ? 1 : v.c.batch;
        slices = v.c.batch / rows;
        want = array(slices * v.n_w);
        got = array(slices * v.n_w);
        for (int64_t e = 0; e < slices * v.n_w; e++) {
            want[e] = weight_gradient_at(&v, e / v.n_w * rows, rows, e % v.n_w);
        }
        for (int f = 0; f < FORMS; f++) {
            charl__gemm p = charl__conv_weight_gradient(&v.c, slices);

            p.form = forms[f];
            if (can_run(forms[f], i / 2)) {
                run(p, v.gout, v.n_out, v.x, v.n_x, &v, got, slices * v.n_w);
                charl_assert_same_bits(got, want, slices * v.n_w);
            }
        }
        charl_free(want);
        charl_free(got);
        tear_down(&v);
    }
}

static double dot(const float *a, const float *b, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++) {
        sum += (double)a[i] * (double)b[i];
    }
    return sum;
}

/* <conv(x, w), g> = <x, d x> = <w, d w>, exactly in integers. */
static void gradients_are_transposes(void **state)
{
    (void)state;
    for (int i = 0; i < GEOMETRIES; i++) {
        operands v;
        float *out, *gx, *gw;

        set_up(&v, &geometry[i], true);
        out = array(v.n_out);
        gx = array(v.n_x);
        gw = array(v.n_w);
        memset(v.bias, 0, (size_t)v.c.o * sizeof *v.bias);
        run(charl__conv_forward(&v.c, true), v.w, v.n_w, v.x, v.n_x, &v, out, v.n_out);
        run(charl__conv_input_gradient(&v.c), v.w, v.n_w, v.gout, v.n_out, &v, gx, v.n_x);
        run(charl__conv_weight_gradient(&v.c, 1), v.gout, v.n_out, v.x, v.n_x, &v, gw, v.n_w);
        assert_true(dot(out, v.gout, v.n_out) == dot(gx, v.x, v.n_x));
        assert_true(dot(out, v.gout, v.n_out) == dot(gw, v.w, v.n_w));
        charl_free(out);
        charl_free(gx);
        charl_free(gw);
        tear_down(&v);
    }
}

/* Columns of all samples share tiles where those of one would leave the last tile partly empty. */
static void small_images_share_tiles(void **state)
{
    charl__conv c = geometry[SMALL_IMAGES];
    charl__gemm p;

    (void)state;
    c.oh = c.h;
    c.ow = c.w;
    p = charl__conv_forward(&c, true);
    assert_int_equal(charl__gemm_joined(&p, 64), c.batch);
    assert_int_equal(charl__gemm_joined(&p, 36), 1); /* tiles are full */
    p = charl__conv_input_gradient(&c);
    assert_int_equal(charl__gemm_joined(&p, 64), c.batch);
    p = charl__conv_weight_gradient(&c, c.batch);
    assert_int_equal(charl__gemm_joined(&p, 64), 1); /* samples are not columns */
    p = charl__conv_forward(&geometry[1], true);
    p.n = 42; /* vectors of four columns would be of two samples */
    assert_int_equal(charl__gemm_joined(&p, 64), 1);
}

static void extents(void **state)
{
    const charl__conv c = {.kernel = {3, 2}, .stride = {2, 1}, .padding = {0, 1}, .dilation = {2, 1}};

    (void)state;
    assert_int_equal(charl__conv_extent(&c, 0, 5), 1);
    assert_int_equal(charl__conv_extent(&c, 0, 4), 0);
    assert_int_equal(charl__conv_extent(&c, 0, 8), 2);
    assert_int_equal(charl__conv_extent(&c, 1, 4), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward),
        cmocka_unit_test(input_gradient),
        cmocka_unit_test(weight_gradient),
        cmocka_unit_test(gradients_are_transposes),
        cmocka_unit_test(small_images_share_tiles),
        cmocka_unit_test(extents),
    };

    return charl_test_on_device(tests, &dev);
}
