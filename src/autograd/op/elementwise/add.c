/* add: a + b with broadcasting. The gradient of an operand is gout, summed over what broadcasting
 * repeated. */
#include "autograd/launch/map.h"
#include "charl/ops.h"

static void backward(const charl_backward *b)
{
    for (int i = 0; i < 2; i++) {
        const charl_type t = charl_var_get_type(b->in[i]);

        b->gin[i] = b->needed[i] ? charl__sum_like(b->g, b->gout[0], &t) : NULL;
    }
}

static void reference(const charl_reference *r)
{
    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        r->out[0][i] =
            r->in[0][charl__reference_index(r, 0, i)] + r->in[1][charl__reference_index(r, 1, i)];
    }
}

static const charl_op_sample samples[] = {
    CHARL_MAP_SAMPLES2(.lo = -3, .hi = 3),
    CHARL_MAP_SAMPLES_BROADCAST(.lo = -3, .hi = 3),
    {.in = {CHARL_R(F32, 5), CHARL_R(F32, 4, 5)},
     .terms = 4,
     .lo = -3e37,
     .hi = 3e37,
     .skip_gradient = true},
};

const charl_op charl_op_add = {
    .name = "add",
    .formula = "out = a + b",
    .n_in = 2,
    .in_place = true,
    .half = CHARL_HALF_ALL,
    .mixed = true,
    .layout = CHARL_LAYOUT_ALIKE,
    .infer = charl__infer_broadcast,
    .expr = "a + b",
    .backward = backward,
    .reference = reference,
    .onnx_type = "Add",
    CHARL_SAMPLES(samples),
};

charl_var *charl_add(charl_graph *g, charl_var *a, charl_var *b)
{
    return charl__apply2(g, &charl_op_add, NULL, a, b);
}
