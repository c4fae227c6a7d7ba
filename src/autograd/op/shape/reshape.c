/* reshape: the same elements with another shape. No launch: the output is the operand's memory. */
#include "autograd/onnx/onnx.h"
#include "autograd/op.h"
#include "charl/ops.h"

static charl_status infer(charl__infer *inf)
{
    const charl_type *x = &inf->in[0];
    const int64_t n = charl_shape_count(&x->shape);
    charl_shape s = *(const charl_shape *)inf->attr;
    int64_t known = 1;
    int open = -1;
    char from[CHARL_SHAPE_TEXT], to[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(s.ndim >= 0 && s.ndim <= CHARL_MAX_DIMS, CHARL_ERR_SHAPE, "%d extents are too many", s.ndim);
    charl_shape_format(&x->shape, from);
    charl_shape_format(&s, to);
    for (int i = 0; i < s.ndim; i++) {
        CHARL_REQUIRE(s.dim[i] >= 0 || (s.dim[i] == -1 && open < 0), CHARL_ERR_SHAPE, "%s is not a shape", to);
        open = s.dim[i] == -1 ? i : open;
        known *= s.dim[i] == -1 ? 1 : s.dim[i];
    }
    if (open >= 0) {
        CHARL_REQUIRE(known > 0 && n % known == 0, CHARL_ERR_SHAPE, "%s does not reshape to %s", from, to);
        s.dim[open] = n / known;
    }
    CHARL_REQUIRE(charl_shape_count(&s) == n, CHARL_ERR_SHAPE, "%s does not reshape to %s", from, to);
    CHARL_REQUIRE(x->batch != CHARL_BATCHED || (s.ndim > 0 && s.dim[0] == x->shape.dim[0]), CHARL_ERR_SHAPE,
                  "%s to %s would move the batch extent", from, to);
    inf->out[0] = *x;
    inf->out[0].shape = s;
    return CHARL_OK;
}

static void backward(const charl__backward *b)
{
    b->gin[0] = charl_reshape(b->g, b->gout[0], charl_var_get_type(b->in[0]).shape);
}

static void reference(const charl__reference *r)
{
    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        r->out[0][i] = r->in[0][i];
    }
}

static const charl_shape flat = {1, {-1}}, scalar = {0, {0}}, six = {6, {1, 3, 1, -1, 1, 1}}, pairs = {3, {-1, 2, 3}};
static const charl__op_sample samples[] = {
    {.in = {CHARL_R(F32, 3, 5)}, .attr = &flat},
    {.in = {CHARL_R(F32, 1, 1)}, .attr = &scalar},
    {.in = {CHARL_SCALAR(F32)}, .attr = &flat},
    {.in = {CHARL_R(F32, 3, 5)}, .attr = &six},
    {.in = {CHARL_R(I32, 0, 4)}, .attr = &flat, .int_end = 100},
    {.in = {CHARL_B(F32, 16, 6)}, .attr = &pairs},
};

static void onnx(const charl__onnx_node *n)
{
    charl__onnx_reshape(n, n->in[0], n->out_type, n->out);
}

const charl__op charl_op_reshape = {
    .name = "reshape",
    .formula = "out = x under another shape",
    .n_in = 1,
    .attr_size = sizeof(charl_shape),
    .moves = true,
    .view = true,
    .half = CHARL_HALF_ALL,
    .infer = infer,
    .backward = backward,
    .reference = reference,
    .onnx = onnx,
    CHARL_SAMPLES(samples),
};

charl_var *charl_reshape(charl_graph *g, charl_var *x, charl_shape shape)
{
    return charl__apply1(g, &charl_op_reshape, &shape, x);
}

charl_var *charl_flatten(charl_graph *g, charl_var *x)
{
    charl_shape s = {2, {0, 1}};

    if (x) {
        const charl_shape full = charl_var_get_type(x).shape;

        if (full.ndim < 1) {
            return charl__graph_fail(g, CHARL_ERR_SHAPE, "flatten: a scalar has no batch extent");
        }
        s.dim[0] = full.dim[0];
        for (int i = 1; i < full.ndim; i++) {
            s.dim[1] *= full.dim[i];
        }
    }
    return charl_reshape(g, x, s);
}
