/* resized_crop2d, paste2d: boxes of images, one per sample [top, left, height, width]. Not differentiable: data have no
 * gradient. */
#include <math.h>

#include "autograd/op.h"
#include "autograd/ops_data.h"
#include "charl/ops.h"

enum { GROUP = 64 };

typedef struct crop_attr {
    int64_t h, w;
} crop_attr;

/* x is the first operand, boxes the last. */
static charl_status check(const charl__infer *inf)
{
    const charl_type *x = &inf->in[0], *box = &inf->in[inf->n_in - 1];
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    CHARL_TRY(charl__infer_images(inf));
    CHARL_REQUIRE(box->dtype == CHARL_F32 && box->shape.ndim == 2 && box->shape.dim[0] == x->shape.dim[0] &&
                      box->shape.dim[1] == 4,
                  CHARL_ERR_SHAPE, "boxes %s do not fit images %s", charl_shape_format(&box->shape, b),
                  charl_shape_format(&x->shape, a));
    CHARL_TRY(charl__infer_same_rows(inf, 0, inf->n_in - 1));
    return CHARL_OK;
}

/* One work-item per pixel, channel and sample of the output. */
static charl_status launch(const charl__enqueue *e, charl__launch *l)
{
    const charl_shape *s = &e->out[0]->shape;
    const size_t pixels = (size_t)(s->dim[2] * s->dim[3]);

    l->file = "data/boxes2d";
    l->global[0] = (pixels + GROUP - 1) / GROUP * GROUP;
    l->global[1] = (size_t)s->dim[1];
    l->global[2] = (size_t)s->dim[0];
    l->local[0] = GROUP;
    l->local[1] = l->local[2] = 1;
    l->label = e->label;
    return charl__tensor_count(e->out[0]) == 0 ? CHARL_OK : charl__launch_enqueue(e->dev, l);
}

static charl_status crop_infer(charl__infer *inf)
{
    const crop_attr *attr = inf->attr;

    CHARL_TRY(check(inf));
    inf->out[0] = inf->in[0];
    inf->out[0].shape.dim[2] = attr->h;
    inf->out[0].shape.dim[3] = attr->w;
    CHARL_REQUIRE(inf->in[0].shape.dim[2] > 0 && inf->in[0].shape.dim[3] > 0, CHARL_ERR_SHAPE, "images have no pixels");
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

static charl_status crop_enqueue(const charl__enqueue *e)
{
    const crop_attr *attr = e->attr;
    const charl_shape *s = &e->in[0]->shape;
    charl__launch l = {.entry = "charl_resized_crop2d",
                       .args = {charl__in(e->in[0]), charl__in(e->in[1]), charl__out(e->out[0]),
                                charl__i32((int32_t)s->dim[2]), charl__i32((int32_t)s->dim[3]),
                                charl__i32((int32_t)attr->h), charl__i32((int32_t)attr->w)}};

    return launch(e, &l);
}

/* Output element `at` of `length`, which show [begin, begin + extent) of `source`: the weight of source element i. */
static double weight(double begin, double extent, int64_t length, int64_t at, int64_t i)
{
    const double scale = extent / (double)length, reach = scale > 1.0 ? scale : 1.0;
    const double far = fabs((double)i + 0.5 - (begin + ((double)at + 0.5) * scale)) / reach;

    return (double)i + 1.0 > begin && (double)i < begin + extent && far < 1.0 ? 1.0 - far : 0.0;
}

static void crop_reference(const charl__reference *r)
{
    const crop_attr *attr = r->attr;
    const charl_shape *s = &r->in_type[0].shape;
    const int64_t n = charl_shape_count(&r->out_type[0].shape);

    for (int64_t k = 0; k < n; k++) {
        const int64_t x = k % attr->w, y = k / attr->w % attr->h, plane = k / (attr->w * attr->h);
        const double *box = r->in[1] + 4 * (plane / s->dim[1]), *p = r->in[0] + plane * s->dim[2] * s->dim[3];
        double sum = 0.0, all = 0.0;

        for (int64_t i = 0; i < s->dim[2] * s->dim[3]; i++) {
            const double v =
                weight(box[0], box[2], attr->h, y, i / s->dim[3]) * weight(box[1], box[3], attr->w, x, i % s->dim[3]);

            sum += v > 0.0 ? v * p[i] : 0.0;
            all += v;
        }
        r->out[0][k] = sum / all;
    }
}

static const crop_attr small = {2, 3}, same = {9, 7}, large = {20, 33}, one = {1, 1};
/* terms: a weighted mean changes by the slope times the error of the centre. Boxes are in [0.5, 3] + [0.5, 3]. */
static const charl__op_sample crop_samples[] = {
    {.in = {CHARL_B(F32, 16, 3, 9, 7), CHARL_B(F32, 16, 4)}, .attr = &small, .lo = 0.5, .hi = 3, .terms = 100},
    {.in = {CHARL_B(F32, 8, 1, 9, 7), CHARL_B(F32, 8, 4)}, .attr = &same, .lo = 0.5, .hi = 3, .terms = 100},
    {.in = {CHARL_R(F32, 3, 2, 6, 11), CHARL_R(F32, 3, 4)}, .attr = &large, .lo = 0.5, .hi = 3, .terms = 100},
    {.in = {CHARL_R(F32, 5, 1, 6, 6), CHARL_R(F32, 5, 4)}, .attr = &one, .lo = 0.5, .hi = 3, .terms = 100},
    {.in = {CHARL_R(F32, 0, 3, 6, 6), CHARL_R(F32, 0, 4)}, .attr = &small, .lo = 0.5, .hi = 3},
};

const charl__op charl_op_resized_crop2d = {
    .name = "resized_crop2d",
    .formula = "out = a box of x, resized",
    .n_in = 2,
    .attr_size = sizeof(crop_attr),
    .infer = crop_infer,
    .enqueue = crop_enqueue,
    .reference = crop_reference,
    CHARL_SAMPLES(crop_samples),
};

charl_var *charl_resized_crop2d(charl_graph *g, charl_var *x, charl_var *box, int64_t h, int64_t w)
{
    const crop_attr attr = {h, w};

    if (h < 1 || w < 1 || h > INT32_MAX / w - GROUP) {
        return charl__graph_fail(g, CHARL_ERR_INVALID, "resized_crop2d: the output size %lld x %lld is out of range",
                                 (long long)h, (long long)w);
    }
    return charl__apply2(g, &charl_op_resized_crop2d, &attr, x, box);
}

static charl_status paste_infer(charl__infer *inf)
{
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    CHARL_TRY(check(inf));
    CHARL_REQUIRE(inf->n_in == 2 ||
                      (inf->in[1].dtype == CHARL_F32 && charl_shape_equal(&inf->in[0].shape, &inf->in[1].shape)),
                  CHARL_ERR_SHAPE, "patches %s do not fit images %s", charl_shape_format(&inf->in[1].shape, b),
                  charl_shape_format(&inf->in[0].shape, a));
    CHARL_TRY(charl__infer_same_rows(inf, 0, 1)); /* the patch, or the boxes again */
    inf->out[0] = inf->in[0];
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

static charl_status paste_enqueue(const charl__enqueue *e)
{
    const charl_shape *s = &e->in[0]->shape;
    charl__launch l = {.entry = "charl_paste2d", .params = {{"PATCH", e->n_in == 3}}};
    int a = 0;

    for (int i = 0; i < e->n_in; i++) {
        l.args[a++] = charl__in(e->in[i]);
    }
    l.args[a++] = charl__out(e->out[0]);
    l.args[a++] = charl__i32((int32_t)s->dim[2]);
    l.args[a++] = charl__i32((int32_t)s->dim[3]);
    return launch(e, &l);
}

static void paste_reference(const charl__reference *r)
{
    const charl_shape *s = &r->in_type[0].shape;
    const int64_t n = charl_shape_count(s), per_row = s->dim[0] > 0 ? n / s->dim[0] : 0;

    for (int64_t i = 0; i < n; i++) {
        const double *box = r->in[r->n_in - 1] + 4 * (i / per_row);
        const double y = (double)(i / s->dim[3] % s->dim[2]) - box[0], x = (double)(i % s->dim[3]) - box[1];
        const bool inside = y >= 0.0 && y < box[2] && x >= 0.0 && x < box[3];

        r->out[0][i] = !inside ? r->in[0][i] : r->n_in == 3 ? r->in[1][i] : 0.0;
    }
}

static const charl__op_sample paste_samples[] = {
    {.in = {CHARL_B(F32, 16, 3, 7, 5), CHARL_B(F32, 16, 3, 7, 5), CHARL_B(F32, 16, 4)}, .n_in = 3, .lo = 0.5, .hi = 4},
    {.in = {CHARL_B(F32, 8, 1, 6, 6), CHARL_B(F32, 8, 4)}, .n_in = 2, .lo = 0.5, .hi = 4},
    {.in = {CHARL_R(F32, 3, 2, 9, 17), CHARL_R(F32, 3, 4)}, .n_in = 2, .lo = -2, .hi = 8},
    {.in = {CHARL_R(F32, 1, 1, 1, 1), CHARL_R(F32, 1, 1, 1, 1), CHARL_R(F32, 1, 4)}, .n_in = 3, .lo = -2, .hi = 2},
    {.in = {CHARL_R(F32, 0, 1, 4, 4), CHARL_R(F32, 0, 4)}, .n_in = 2, .lo = 0, .hi = 2},
};

const charl__op charl_op_paste2d = {
    .name = "paste2d",
    .formula = "out = patch, or 0, in a box of x",
    .n_in = -2,
    .in_place = true,
    .infer = paste_infer,
    .enqueue = paste_enqueue,
    .reference = paste_reference,
    CHARL_SAMPLES(paste_samples),
};

charl_var *charl__paste2d(charl_graph *g, charl_var *x, charl_var *patch, charl_var *box)
{
    charl_var *in[3] = {x, patch, box};

    if (!patch) {
        in[1] = box;
    }
    return charl__apply_n(g, &charl_op_paste2d, NULL, in, patch ? 3 : 2);
}
