/* upsample2d: images enlarged by integer factors, and its gradient, which is its transpose.
 *
 *      nearest    a pixel becomes a block of equal pixels
 *      bilinear   pixels are at the centres of their squares; values between them are interpolated, and the border extends outside.
 *                 This is PyTorch's align_corners = False
 */
#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "autograd/launch/map.h"
#include "autograd/onnx/onnx.h"
#include "charl/ops.h"

typedef charl_upsample_args args;

/* The operator, or its gradient. */
typedef struct direction {
    bool back;
    const char *entry;
    const charl__op *other;
} direction;

static const direction *direction_of(const charl__op *op)
{
    return op->row;
}

/* The gradient's operand is the large image. */
static charl_status infer(charl__infer *inf)
{
    const args *a = inf->attr;
    const charl_shape *x = &inf->in[0].shape;
    charl_shape *out = &inf->out[0].shape;
    char text[CHARL_SHAPE_TEXT];

    CHARL_TRY(charl__infer_floats(inf, 0, 1));
    CHARL_REQUIRE(x->ndim == 4, CHARL_ERR_SHAPE, "x %s is not [B, C, H, W]", charl_shape_format(x, text));
    inf->out[0] = inf->in[0];
    for (int d = 0; d < 2; d++) {
        const int by = a->factor[d];

        CHARL_REQUIRE(by >= 1 && by <= 1024, CHARL_ERR_INVALID, "factor %d in %s; it must lie in [1, 1024]", by,
                      d == 0 ? "H" : "W");
        CHARL_REQUIRE(!direction_of(inf->op)->back || x->dim[2 + d] % by == 0, CHARL_ERR_SHAPE,
                      "%s is not a multiple of the factor %d", charl_shape_format(x, text), by);
        out->dim[2 + d] = direction_of(inf->op)->back ? x->dim[2 + d] / by : x->dim[2 + d] * by;
    }
    CHARL_REQUIRE(out->dim[2] < INT_MAX / 4 && out->dim[3] < INT_MAX / 4 && out->dim[2] * out->dim[3] <= INT_MAX,
                  CHARL_ERR_SHAPE, "the image would be %s", charl_shape_format(out, text));
    return charl__infer_rows(inf);
}

static charl_status enqueue(const charl__enqueue *e)
{
    const args *a = e->attr;
    const direction *t = direction_of(e->op);
    const charl_shape *small = t->back ? &e->out[0]->shape : &e->in[0]->shape;
    const int64_t total = charl__tensor_count(e->out[0]), span = charl__span(e->dev, total, 1);
    charl__launch l = {.file = "shape/upsample2d",
                       .entry = t->entry,
                       .params = {{"FH", a->factor[0]},
                                  {"FW", a->factor[1]},
                                  {"BILINEAR", a->linear},
                                  {"ACT", .text = charl__kernel_type(e->out[0]->dtype)}},
                       .label = e->label};

    l.args[0] = charl__in(e->in[0]);
    l.args[1] = charl__out(e->out[0]);
    l.args[2] = charl__i64(total);
    l.args[3] = charl__i64(span);
    l.args[4] = charl__i32((int32_t)small->dim[2]);
    l.args[5] = charl__i32((int32_t)small->dim[3]);
    charl__span_launch(e->dev, total, span, &l);
    return total > 0 ? charl__launch_enqueue(e->dev, &l) : CHARL_OK;
}

static void backward(const charl__backward *b)
{
    b->gin[0] = charl__apply1(b->g, direction_of(b->op)->other, b->attr, b->gout[0]);
}

/* to[a] += weight * from[b] for all pairs of a pixel of the small image and one of the large image. */
static void reference(const charl__reference *r)
{
    const args *a = r->attr;
    const bool back = direction_of(r->op)->back;
    const charl_shape *small = back ? &r->out_type[0].shape : &r->in_type[0].shape;
    const int64_t h = small->dim[2], w = small->dim[3], H = h * a->factor[0], W = w * a->factor[1];

    charl__reference_clear(r, 0);
    for (int64_t i = 0; i < small->dim[0] * small->dim[1] * H * W; i++) {
        const int64_t plane = i / (H * W), at[2] = {i / W % H, i % W}, extent[2] = {h, w};
        double share[2];
        int64_t near[2][2];

        for (int d = 0; d < 2; d++) {
            double place = ((double)at[d] + 0.5) / a->factor[d] - 0.5;

            place = a->linear ? fmax(place, 0.0) : floor((double)at[d] / a->factor[d]);
            near[d][0] = (int64_t)floor(place);
            near[d][1] = near[d][0] + 1 < extent[d] ? near[d][0] + 1 : extent[d] - 1;
            share[d] = place - floor(place);
        }
        for (int k = 0; k < 4; k++) {
            const double weight = (k / 2 ? share[0] : 1 - share[0]) * (k % 2 ? share[1] : 1 - share[1]);
            const int64_t s = plane * h * w + near[0][k / 2] * w + near[1][k % 2];

            if (weight != 0.0) {
                r->out[0][back ? s : i] += weight * r->in[0][back ? i : s];
            }
        }
    }
}

static void onnx(const charl__onnx_node *n)
{
    const args *a = n->attr;
    const charl_shape four = {1, {4}};
    const float scales[4] = {1.0F, 1.0F, (float)a->factor[0], (float)a->factor[1]};

    charl__onnx_write_call(n, &(charl__onnx_call){.type = "Resize",
                                                  .in = {n->in[0], "", charl__onnx_floats(n, &four, scales)},
                                                  .out = n->out,
                                                  .attr = {{"mode", .text = a->linear ? "linear" : "nearest"},
                                                           {"coordinate_transformation_mode",
                                                            .text = a->linear ? "half_pixel" : "asymmetric"},
                                                           {"nearest_mode", .text = "floor"}}});
}

static const args twice = {{2, 2}, false}, uneven = {{3, 1}, false}, smooth = {{2, 2}, true}, odd = {{3, 5}, true},
                  same = {{1, 1}, true};
/* clang-format off */
static const charl__op_sample samples[] = {
    {.in = {CHARL_B(F32, 8, 3, 5, 4)}, .attr = &twice},
    {.in = {CHARL_R(F32, 2, 3, 4, 7)}, .attr = &uneven},
    {.in = {CHARL_B(F32, 8, 3, 5, 4)}, .attr = &smooth, .terms = 4},
    {.in = {CHARL_R(F32, 2, 30, 9, 8)}, .attr = &odd, .terms = 4},
    {.in = {CHARL_R(F32, 2, 1, 1, 1)}, .attr = &odd, .terms = 4},
    {.in = {CHARL_R(F32, 1, 2, 1, 6)}, .attr = &same, .terms = 4},
};
static const charl__op_sample samples_grad[] = {
    {.in = {CHARL_B(F32, 8, 3, 10, 8)}, .attr = &twice, .terms = 4},
    {.in = {CHARL_R(F32, 2, 3, 12, 7)}, .attr = &uneven, .terms = 3},
    {.in = {CHARL_B(F32, 8, 3, 10, 8)}, .attr = &smooth, .terms = 16},
    {.in = {CHARL_R(F32, 2, 30, 9, 10)}, .attr = &odd, .terms = 60},
    {.in = {CHARL_R(F32, 2, 1, 3, 5)}, .attr = &odd, .terms = 15},
};
/* clang-format on */

#define UPSAMPLE(word, back, entry, other)                                                                             \
    .name = #word, .n_in = 1, .attr_size = sizeof(args), .half = CHARL_HALF(0), .infer = infer, .enqueue = enqueue,    \
    .backward = backward, .reference = reference, .row = &(const direction)                                            \
    {                                                                                                                  \
        back, entry, &charl_op_##other                                                                                 \
    }

const charl__op charl_op_upsample2d = {
    UPSAMPLE(upsample2d, false, "charl_upsample", upsample2d_grad),
    .formula = "out = x enlarged by whole factors, nearest or bilinear",
    .onnx = onnx,
    CHARL_SAMPLES(samples),
};

const charl__op charl_op_upsample2d_grad = {
    UPSAMPLE(upsample2d_grad, true, "charl_upsample_gradient", upsample2d),
    .formula = "out[p] = sum of g over the enlarged image, with the weights that p has there",
    CHARL_SAMPLES(samples_grad),
};

charl_var *charl_upsample2d(charl_graph *g, charl_var *x, const charl_upsample_args *a)
{
    if (!a) {
        return charl__graph_fail(g, CHARL_ERR_INVALID, "upsample2d: args is NULL");
    }
    return charl__apply1(g, &charl_op_upsample2d, a, x);
}
