/* mul: a * b with broadcasting. d/da = b, d/db = a, summed over what broadcasting repeated. */
#include "autograd/launch/map.h"
#include "charl/ops.h"

static void backward(const charl_backward *b)
{
    for (int i = 0; i < 2; i++) {
        const charl_type t = charl_var_get_type(b->in[i]);

        if (b->needed[i]) {
            b->gin[i] = charl__sum_like(b->g, charl_mul(b->g, b->gout[0], b->in[1 - i]), &t);
        }
    }
}

static void reference(const charl_reference *r)
{
    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        r->out[0][i] =
            r->in[0][charl__reference_index(r, 0, i)] * r->in[1][charl__reference_index(r, 1, i)];
    }
}

static const charl_op_sample samples[] = {
    CHARL_MAP_SAMPLES2(.lo = -3, .hi = 3),
    CHARL_MAP_SAMPLES_BROADCAST(.lo = -3, .hi = 3),
    {.in = {CHARL_R(F32, 5), CHARL_R(F32, 4, 5)}, .terms = 4, .lo = -3, .hi = 3},
};

const charl_op charl_op_mul = {
    .name = "mul",
    .formula = "out = a * b",
    .n_in = 2,
    .in_place = true,
    .half = CHARL_HALF_ALL,
    .mixed = true,
    .infer = charl__infer_broadcast,
    .expr = "a * b",
    .backward = backward,
    .reference = reference,
    .onnx_type = "Mul",
    CHARL_SAMPLES(samples),
};

charl_var *charl_mul(charl_graph *g, charl_var *a, charl_var *b)
{
    return charl__apply2(g, &charl_op_mul, NULL, a, b);
}
