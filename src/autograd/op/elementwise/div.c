/* div: a / b with broadcasting. d/da = 1 / b, d/db = -out / b, summed over what broadcasting
 * repeated. */
#include "autograd/launch/map.h"
#include "charl/ops.h"

static void backward(const charl_backward *b)
{
    const charl_type x = charl_var_get_type(b->in[0]), y = charl_var_get_type(b->in[1]);
    charl_var *ga = charl_div(b->g, b->gout[0], b->in[1]);

    if (b->needed[0]) {
        b->gin[0] = charl__sum_like(b->g, ga, &x);
    }
    if (b->needed[1]) {
        b->gin[1] = charl_scale(b->g, charl__sum_like(b->g, charl_mul(b->g, ga, b->out[0]), &y),
                                -1.0F, 0.0F);
    }
}

static void reference(const charl_reference *r)
{
    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        r->out[0][i] =
            r->in[0][charl__reference_index(r, 0, i)] / r->in[1][charl__reference_index(r, 1, i)];
    }
}

static const charl_op_sample samples[] = {
    CHARL_MAP_SAMPLES2(.lo = -3, .hi = 3, .away = 0.3),
    CHARL_MAP_SAMPLES_BROADCAST(.lo = -3, .hi = 3, .away = 0.3),
    {.in = {CHARL_R(F32, 5), CHARL_R(F32, 4, 5)}, .terms = 4, .lo = 0.5, .hi = 3},
};

const charl_op charl_op_div = {
    .name = "div",
    .formula = "out = a / b",
    .n_in = 2,
    .in_place = true,
    .half = CHARL_HALF_ALL,
    .mixed = true,
    .infer = charl__infer_broadcast,
    .expr = "a / b",
    .backward = backward,
    .reference = reference,
    .onnx_type = "Div",
    CHARL_SAMPLES(samples),
};

charl_var *charl_div(charl_graph *g, charl_var *a, charl_var *b)
{
    return charl__apply2(g, &charl_op_div, NULL, a, b);
}
