/* layer_norm, rms_norm and their variants with a residual, as ONNX. Opset 17 has the first by name.
 */
#include "autograd/onnx/onnx.h"
#include "autograd/op/norm/row_norm.h"

static void layer_norm(const charl__onnx_node *n, const char *x, const char *weight, const char *bias, const char *out)
{
    const charl_shape *s = &n->in_type[0].shape;

    weight = weight ? weight : charl__onnx_fill(n, 1.0F, s->dim[s->ndim - 1]);
    charl__onnx_write_call(
        n,
        &(charl__onnx_call){.type = "LayerNormalization",
                            .in = {x, weight, bias},
                            .out = out,
                            .attr = {{"axis", .i = -1}, {"epsilon", .is_float = true, .f = *(const float *)n->attr}}});
}

static void rms_norm(const charl__onnx_node *n, const char *x, const char *weight, const char *out)
{
    static const int64_t last = -1;
    const char *m =
        charl__onnx_write_call(n, &(charl__onnx_call){.type = "ReduceMean",
                                                      .in = {charl__onnx_op(n, "Mul", x, x, NULL)},
                                                      .attr = {{"axes", .n = 1, .ints = &last}, {"keepdims", .i = 1}}});

    m = charl__onnx_op(n, "Add", m, charl__onnx_float(n, (double)*(const float *)n->attr), NULL);
    m = charl__onnx_op(n, "Div", x, charl__onnx_op(n, "Sqrt", m, NULL, NULL), weight ? NULL : out);
    if (weight) {
        charl__onnx_op(n, "Mul", m, weight, out);
    }
}

/* x with weight and bias from operand `first` on. */
static void norm(const charl__onnx_node *n, const char *x, int first, const char *out)
{
    const char *weight = n->n_in > first ? n->in[first] : NULL;

    if (charl__row_norm_of(n->op)->centred) {
        layer_norm(n, x, weight, n->n_in > first + 1 ? n->in[first + 1] : NULL, out);
    } else {
        rms_norm(n, x, weight, out);
    }
}

void charl__row_norm_onnx(const charl__onnx_node *n)
{
    norm(n, n->in[0], 1, n->out);
}

void charl__row_norm_add_onnx(const charl__onnx_node *n)
{
    norm(n, charl__onnx_op(n, "Add", n->in[0], n->in[1], n->out), 2, n->outs[1]);
}
