/* scale: factor * x + offset, in one rounding. d/dx = factor. */
#include "autograd/launch/map.h"
#include "autograd/onnx/onnx.h"
#include "charl/ops.h"

typedef struct scale_attr {
    float factor, offset;
} scale_attr;

static void express(const void *attr, int n_in, charl_expr *x)
{
    const scale_attr *s = attr;

    (void)n_in;
    *x =
        (charl_expr){.text = s->offset == 0.0F ? "a * p" : "fma(a, CHARL_SPLAT(p), CHARL_SPLAT(q))",
                     .numbers = s->offset == 0.0F ? 1 : 2,
                     .p = s->factor,
                     .q = s->offset};
}

static void backward(const charl_backward *b)
{
    const scale_attr *s = b->attr;

    b->gin[0] = charl_scale(b->g, b->gout[0], s->factor, 0.0F);
}

static void reference(const charl_reference *r)
{
    const scale_attr *s = r->attr;

    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        r->out[0][i] = (double)s->factor * r->in[0][i] + (double)s->offset;
    }
}

static const scale_attr affine = {-1.7F, 0.3F}, linear = {0.1F, 0.0F};
static const charl_op_sample samples[] = {
    CHARL_MAP_SAMPLES1(.lo = -3, .hi = 3, .attr = &affine),
    CHARL_MAP_SAMPLES1(.lo = -3, .hi = 3, .attr = &linear),
};

static void onnx(const charl_onnx_node *n)
{
    const scale_attr *s = n->attr;
    const char *product =
        charl__onnx_op(n, "Mul", n->in[0], charl__onnx_float(n, (double)s->factor), NULL);

    charl__onnx_op(n, "Add", product, charl__onnx_float(n, (double)s->offset), n->out);
}

const charl_op charl_op_scale = {
    .name = "scale",
    .formula = "out = factor * x + offset",
    .n_in = 1,
    .attr_size = sizeof(scale_attr),
    .in_place = true,
    .half = CHARL_HALF_ALL,
    .infer = charl__infer_same,
    .express = express,
    .backward = backward,
    .reference = reference,
    .onnx = onnx,
    CHARL_SAMPLES(samples),
};

charl_var *charl_scale(charl_graph *g, charl_var *x, float factor, float offset)
{
    return charl__apply1(g, &charl_op_scale, &(scale_attr){factor, offset}, x);
}
