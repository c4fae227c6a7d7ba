/* transform2d: one colour or geometric transform per sample of images in 256 levels, by torchvision's definitions for bytes
 * (kernels/data/transform2d.cl has the formulas). Not differentiable: data have no gradient. */
#include <math.h>

#include "autograd/op.h"
#include "charl/ops.h"

enum { GROUP = 64, LEVELS = 256, AMOUNTS = CHARL_TRANSFORM_AMOUNTS };

typedef struct transform_attr {
    int index;
    float white;
} transform_attr;

/* Transforms per sample that the operands describe. */
static int64_t changes_of(const charl_shape *kind)
{
    return kind->ndim == 2 ? kind->dim[1] : 1;
}

static charl_status infer(charl__infer *inf)
{
    const transform_attr *attr = inf->attr;
    const charl_shape *x = &inf->in[0].shape, *kind = &inf->in[1].shape, *amount = &inf->in[2].shape;
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT], c[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(x->ndim == 4 && (x->dim[1] == 1 || x->dim[1] == 3) && inf->in[0].dtype == CHARL_F32 &&
                      x->dim[2] * x->dim[3] <= INT32_MAX - GROUP,
                  CHARL_ERR_SHAPE, "images are f32 [rows, 1 or 3, height, width], not %s %s",
                  charl_dtype_name(inf->in[0].dtype), charl_shape_format(x, a));
    CHARL_REQUIRE(inf->in[1].dtype == CHARL_I32 && inf->in[2].dtype == CHARL_F32 &&
                      (kind->ndim == 1 || kind->ndim == 2) && amount->ndim == 2 && kind->dim[0] == x->dim[0] &&
                      amount->dim[0] == x->dim[0] && amount->dim[1] == AMOUNTS * changes_of(kind) &&
                      attr->index < changes_of(kind),
                  CHARL_ERR_SHAPE, "change %d of kinds %s with amounts %s does not fit images %s", attr->index,
                  charl_shape_format(kind, b), charl_shape_format(amount, c), charl_shape_format(x, a));
    CHARL_TRY(charl__infer_same_rows(inf, 0, 1));
    CHARL_TRY(charl__infer_same_rows(inf, 0, 2));
    inf->out[0] = inf->in[0];
    inf->workspace = x->dim[0] * x->dim[1] * LEVELS * (int64_t)sizeof(float);
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

static charl_status enqueue(const charl__enqueue *e)
{
    const transform_attr *attr = e->attr;
    const charl_shape *s = &e->in[0]->shape;
    const int32_t h = (int32_t)s->dim[2], w = (int32_t)s->dim[3], of = (int32_t)changes_of(&e->in[1]->shape);
    const charl__launch curve = {.file = "data/transform2d",
                                 .entry = "charl_transform2d_curve",
                                 .global = {(size_t)(GROUP * s->dim[1]), (size_t)s->dim[0]},
                                 .local = {GROUP, 1},
                                 .label = e->label,
                                 .args = {charl__in(e->in[0]), charl__in(e->in[1]), charl__in(e->in[2]),
                                          charl__out(e->workspace), charl__i32(h * w), charl__i32(attr->index),
                                          charl__i32(of), charl__f32(255.0F / attr->white)}};
    const charl__launch change = {.file = "data/transform2d",
                                  .entry = "charl_transform2d",
                                  .global = {((size_t)h * (size_t)w + GROUP - 1) / GROUP * GROUP, (size_t)s->dim[0]},
                                  .local = {GROUP, 1},
                                  .label = e->label,
                                  .args = {charl__in(e->in[0]), charl__in(e->in[1]), charl__in(e->in[2]),
                                           charl__in(e->workspace), charl__out(e->out[0]),
                                           charl__i32((int32_t)s->dim[1]), charl__i32(h), charl__i32(w),
                                           charl__i32(attr->index), charl__i32(of), charl__f32(attr->white)}};

    if (charl__tensor_count(e->in[0]) == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__launch_enqueue(e->dev, &curve));
    CHARL_TRY(charl__launch_enqueue(e->dev, &change));
    return CHARL_OK;
}

/* An image of the reference: its levels are those of x. */
typedef struct picture {
    const double *x;
    int64_t channels, h, w;
    double white;
} picture;

static int cut(double v)
{
    return (int)fmin(fmax(v, 0.0), 255.0);
}

/* a v + (1 - a) other; v itself where the two are equal. */
static int blend(double a, int v, double other)
{
    return cut(other + a * (v - other));
}

static int level_at(const picture *p, int64_t c, int64_t i)
{
    return cut(rint(p->x[c * p->h * p->w + i] * 255.0 / p->white));
}

static int gray_at(const picture *p, int64_t i)
{
    return p->channels == 1 ? level_at(p, 0, i)
                            : (2989 * level_at(p, 0, i) + 5870 * level_at(p, 1, i) + 1140 * level_at(p, 2, i)) / 10000;
}

/* Levels of the image or of one channel: number, below v, count of the highest; mean and extremes. */
typedef struct levels {
    int64_t all, below, highest;
    double mean;
    int low, high;
} levels;

static levels levels_of(const picture *p, int64_t c, bool gray, int v)
{
    levels l = {.low = LEVELS, .high = -1};

    l.all = p->h * p->w;
    for (int64_t i = 0; i < l.all; i++) {
        const int k = gray ? gray_at(p, i) : level_at(p, c, i);

        l.mean += (double)k / (double)l.all;
        l.below += k < v;
        l.highest = k > l.high ? 1 : l.highest + (k == l.high);
        l.high = k > l.high ? k : l.high;
        l.low = k < l.low ? k : l.low;
    }
    return l;
}

static int equalized(const levels *l, int v)
{
    const int64_t step = (l->all - l->highest) / 255;

    return step > 0 ? cut((double)((l->below + step / 2) / step)) : v;
}

static int turned(const picture *p, int64_t c, int64_t i, double a)
{
    const double rgb[3] = {level_at(p, 0, i) / 255.0, level_at(p, 1, i) / 255.0, level_at(p, 2, i) / 255.0};
    const double most = fmax(rgb[0], fmax(rgb[1], rgb[2])), range = most - fmin(rgb[0], fmin(rgb[1], rgb[2]));
    const int top = rgb[0] >= most ? 0 : rgb[1] >= most ? 1 : 2;
    double h = 2.0 * top, far;

    h += range > 0.0 ? (rgb[(top + 1) % 3] - rgb[(top + 2) % 3]) / range : 0.0;
    far = h + 6.0 * a - 2.0 * (double)c + 3.0;
    far = fabs(far - 6.0 * floor(far / 6.0) - 3.0);
    return cut((most - range * fmin(fmax(far - 1.0, 0.0), 1.0)) * 255.999);
}

static int sharpened(const picture *p, int64_t c, int64_t i, double a)
{
    const int64_t y = i / p->w, x = i % p->w;
    double sum = 4.0 * level_at(p, c, i);

    if (y == 0 || x == 0 || y == p->h - 1 || x == p->w - 1) {
        return level_at(p, c, i);
    }
    for (int k = 0; k < 9; k++) {
        sum += level_at(p, c, (y + k / 3 - 1) * p->w + x + k % 3 - 1);
    }
    return blend(a, level_at(p, c, i), rint(sum / 13.0));
}

static int moved(const picture *p, int64_t c, int64_t i, const double *a)
{
    const double centre_x = 0.5 * (double)(p->w - 1), centre_y = 0.5 * (double)(p->h - 1);
    const double dx = (double)(i % p->w) - centre_x, dy = (double)(i / p->w) - centre_y;
    const double x = a[0] * dx + a[1] * dy + a[2] + centre_x, y = a[3] * dx + a[4] * dy + a[5] + centre_y;
    double v = 0.0;

    for (int k = 0; k < 4; k++) {
        const double row = floor(y) + (double)(k / 2), column = floor(x) + (double)(k % 2);
        const bool inside = row >= 0 && row < (double)p->h && column >= 0 && column < (double)p->w;

        v += (1.0 - fabs(y - row)) * (1.0 - fabs(x - column)) *
             (inside ? level_at(p, c, (int64_t)row * p->w + (int64_t)column) : 0.0);
    }
    return cut(rint(v));
}

static int changed(const picture *p, int64_t c, int64_t i, int kind, const double *a)
{
    const int v = level_at(p, c, i);
    levels l;

    switch (kind) {
    case CHARL_TRANSFORM_BRIGHTNESS:
        return cut(a[0] * v);
    case CHARL_TRANSFORM_CONTRAST:
        l = levels_of(p, c, true, v);
        return blend(a[0], v, l.mean);
    case CHARL_TRANSFORM_POSTERIZE:
        return v & (255 << (8 - (int)fmin(fmax(a[0], 0.0), 8.0)));
    case CHARL_TRANSFORM_SOLARIZE:
        return v < 255.0 * a[0] ? v : 255 - v;
    case CHARL_TRANSFORM_AUTOCONTRAST:
        l = levels_of(p, c, false, v);
        return l.high > l.low ? (v - l.low) * 255 / (l.high - l.low) : v;
    case CHARL_TRANSFORM_EQUALIZE:
        l = levels_of(p, c, false, v);
        return equalized(&l, v);
    case CHARL_TRANSFORM_SATURATION:
        return blend(a[0], v, gray_at(p, i));
    case CHARL_TRANSFORM_HUE:
        return p->channels == 3 ? turned(p, c, i, a[0]) : v;
    case CHARL_TRANSFORM_SHARPNESS:
        return sharpened(p, c, i, a[0]);
    case CHARL_TRANSFORM_AFFINE:
        return moved(p, c, i, a);
    default:
        return v;
    }
}

static void reference(const charl__reference *r)
{
    const transform_attr *attr = r->attr;
    const charl_shape *s = &r->in_type[0].shape;
    const int64_t of = changes_of(&r->in_type[1].shape), pixels = s->dim[2] * s->dim[3], n = charl_shape_count(s);

    for (int64_t k = 0; k < n; k++) {
        const int64_t row = k / pixels / s->dim[1];
        const picture p = {r->in[0] + row * s->dim[1] * pixels, s->dim[1], s->dim[2], s->dim[3], (double)attr->white};

        r->out[0][k] = (double)attr->white / 255.0 *
                       changed(&p, k / pixels % s->dim[1], k % pixels, (int)r->in[1][row * of + attr->index],
                               r->in[2] + (row * of + attr->index) * AMOUNTS);
    }
}

static const transform_attr unit = {0, 1.0F}, second = {1, 1.0F}, bytes = {0, 255.0F};
static const charl__op_sample samples[] = {
    {.in = {CHARL_B(F32, 16, 3, 18, 17), CHARL_B(I32, 16), CHARL_B(F32, 16, 6)},
     .attr = &unit,
     .lo = -0.1,
     .hi = 1.2,
     .int_end = CHARL_TRANSFORM_COUNT},
    {.in = {CHARL_B(F32, 32, 1, 5, 9), CHARL_B(I32, 32, 2), CHARL_B(F32, 32, 12)},
     .attr = &second,
     .lo = 0,
     .hi = 1.5,
     .int_end = CHARL_TRANSFORM_COUNT + 1},
    {.in = {CHARL_R(F32, 24, 3, 2, 3), CHARL_R(I32, 24, 2), CHARL_R(F32, 24, 12)},
     .attr = &second,
     .lo = 0,
     .hi = 0.6,
     .int_end = CHARL_TRANSFORM_COUNT},
    {.in = {CHARL_R(F32, 11, 1, 20, 20), CHARL_R(I32, 11, 1), CHARL_R(F32, 11, 6)},
     .attr = &bytes,
     .lo = 0,
     .hi = 9,
     .int_end = CHARL_TRANSFORM_COUNT},
    {.in = {CHARL_R(F32, 0, 3, 4, 4), CHARL_R(I32, 0), CHARL_R(F32, 0, 6)}, .attr = &unit, .lo = 0, .hi = 1},
};

const charl__op charl_op_transform2d = {
    .name = "transform2d",
    .formula = "out = x with other colours or moved, as kind says per sample",
    .n_in = 3,
    .attr_size = sizeof(transform_attr),
    CHARL_RULES(),
};

charl_var *charl_transform2d(charl_graph *g, charl_var *x, charl_var *kind, charl_var *amount, int index, float white)
{
    const transform_attr attr = {index, white};
    if (!charl__graph_check_range(g, "transform2d", "index", index, "[0,inf)") ||
        !charl__graph_check_range(g, "transform2d", "white", (double)white, "(0,inf)")) {
        return NULL;
    }
    return charl__apply_n(g, &charl_op_transform2d, &attr, (charl_var *[]){x, kind, amount}, 3);
}
