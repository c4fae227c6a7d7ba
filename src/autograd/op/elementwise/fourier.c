/* fourier: numbers as sines and cosines of rising frequency, so that a linear layer can tell near ones apart (Mildenhall et al. 2020, "NeRF"). Not
 * differentiable.
 */
#include <math.h>

#include "autograd/launch/map.h"
#include "autograd/onnx/onnx.h"
#include "autograd/op.h"
#include "charl/ops.h"

enum { MOST_OCTAVES = 24 }; /* the bits of a float */

static charl_status infer(charl__infer *inf)
{
    const int32_t octaves = *(const int32_t *)inf->attr;
    charl_shape *s = &inf->out[0].shape;

    CHARL_TRY(charl__infer_floats(inf, 0, 1));
    CHARL_REQUIRE(inf->in[0].shape.ndim < CHARL_MAX_DIMS, CHARL_ERR_SHAPE, "there is no room for another extent");
    inf->out[0] = inf->in[0];
    s->dim[s->ndim++] = 2 * octaves;
    return CHARL_OK;
}

static charl_status enqueue(const charl__enqueue *e)
{
    const int64_t n = charl__tensor_count(e->out[0]), span = charl__span(e->dev, n, 1);
    charl__launch l = {.file = "elementwise/fourier",
                       .entry = "charl_fourier",
                       .params = {{"ACT", .text = charl__kernel_type(e->in[0]->dtype)}},
                       .args = {charl__in(e->in[0]), charl__out(e->out[0]), charl__i32(*(const int32_t *)e->attr),
                                charl__i64(n), charl__i64(span)},
                       .label = e->label};

    charl__span_launch(e->dev, n, span, &l);
    return n > 0 ? charl__launch_enqueue(e->dev, &l) : CHARL_OK;
}

static void reference(const charl__reference *r)
{
    const double half_pi = 1.57079632679489661923;
    const int octaves = *(const int32_t *)r->attr;

    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        const int k = (int)(i % (2 * octaves));
        const double quarters = fmod(ldexp(r->in[0][i / (2 * octaves)], k % octaves + 1), 4.0);
        const double whole = rint(quarters), angle = (quarters - whole) * half_pi;
        const double sine[] = {sin(angle), cos(angle), -sin(angle), -cos(angle)};

        r->out[0][i] = isfinite(whole) ? sine[((int)whole + (k >= octaves) + 4) % 4] : (double)NAN;
    }
}

/* With the fraction of a turn exact, as the kernel has it. */
static void onnx(const charl__onnx_node *n)
{
    const int octaves = *(const int32_t *)n->attr;
    float factor[MOST_OCTAVES];
    charl_type column = *n->in_type;
    const char *x, *turns;

    for (int k = 0; k < octaves; k++) {
        factor[k] = ldexpf(1.0F, k + 1);
    }
    column.shape.dim[column.shape.ndim++] = 1;
    x = charl__onnx_reshape(n, n->in[0], &column, NULL);
    x = charl__onnx_op(n, "Mul", x, charl__onnx_floats(n, &(charl_shape){1, {octaves}}, factor), NULL);
    turns = charl__onnx_op(n, "Floor", charl__onnx_op(n, "Mul", x, charl__onnx_float(n, 0.25), NULL), NULL, NULL);
    x = charl__onnx_op(n, "Sub", x, charl__onnx_op(n, "Mul", turns, charl__onnx_float(n, 4.0), NULL), NULL);
    x = charl__onnx_op(n, "Mul", x, charl__onnx_float(n, 1.57079632679489661923), NULL);
    charl__onnx_concat(n, charl__onnx_op(n, "Sin", x, NULL, NULL), charl__onnx_op(n, "Cos", x, NULL, NULL), n->out);
}

static const int32_t one = 1, three = 3, eleven = 11;
static const charl__op_sample samples[] = {
    {.in = {CHARL_B(F32, 16, 5)}, .attr = &three, .skip_gradient = true},
    {.in = {CHARL_B(F32, 8, 1)}, .attr = &eleven, .lo = 0, .hi = 1, .skip_gradient = true},
    {.in = {CHARL_R(F32, 7)}, .attr = &one, .lo = -100, .hi = 100, .skip_gradient = true},
    {.in = {CHARL_R(F32, 0, 2)}, .attr = &one, .skip_gradient = true},
};

const charl__op charl_op_fourier = {
    .name = "fourier",
    .formula = "out[.., k] = sin(2^k pi x), k < octaves; cos(2^(k - octaves) pi x) for as many more",
    .n_in = 1,
    .attr_size = sizeof(int32_t),
    .half = CHARL_HALF_ALL,
    .onnx = onnx,
    CHARL_RULES(),
};

charl_var *charl_fourier(charl_graph *g, charl_var *x, int octaves)
{
    const int32_t attr = (int32_t)octaves;

    return charl__graph_check_range(g, "fourier", "octaves", (double)octaves, "[1,24]")
               ? charl__apply1(g, &charl_op_fourier, &attr, x)
               : NULL;
}
