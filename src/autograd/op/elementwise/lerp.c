/* lerp: (1 - w) * a + w * b with broadcasting: a at w = 0 and b at w = 1, exactly. The gradients
 * are gout (1 - w), gout w and gout (b - a), summed over what broadcasting repeated. */
#include "autograd/launch/map.h"
#include "charl/ops.h"

static void backward(const charl_backward *b)
{
    charl_var *const factor[3] = {b->needed[0] ? charl_scale(b->g, b->in[2], -1.0F, 1.0F) : NULL,
                                  b->in[2],
                                  b->needed[2] ? charl_sub(b->g, b->in[1], b->in[0]) : NULL};

    for (int i = 0; i < 3; i++) {
        const charl_type t = charl_var_get_type(b->in[i]);

        if (b->needed[i]) {
            b->gin[i] = charl__sum_like(b->g, charl_mul(b->g, b->gout[0], factor[i]), &t);
        }
    }
}

static void reference(const charl_reference *r)
{
    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        const double w = r->in[2][charl__reference_index(r, 2, i)];

        r->out[0][i] = (1.0 - w) * r->in[0][charl__reference_index(r, 0, i)] +
                       w * r->in[1][charl__reference_index(r, 1, i)];
    }
}

static const charl_op_sample samples[] = {
    {.in = {CHARL_R(F32, 3, 5), CHARL_R(F32, 3, 5), CHARL_R(F32, 3, 5)},
     .lo = -2,
     .hi = 2,
     .terms = 2},
    {.in = {CHARL_R(F32, 1), CHARL_R(F32, 1), CHARL_R(F32, 1)}, .lo = -2, .hi = 2, .terms = 2},
    {.in = {CHARL_R(F32, 0, 4), CHARL_R(F32, 0, 4), CHARL_R(F32, 0, 4)}, .lo = -2, .hi = 2},
    {.in = {CHARL_R(F32, 7, 613), CHARL_R(F32, 7, 613), CHARL_SCALAR(F32)},
     .lo = -2,
     .hi = 2,
     .terms = 4291},
    {.in = {CHARL_R(F32, 2, 3, 7), CHARL_R(F32, 3, 7), CHARL_R(F32, 3, 1)},
     .lo = -2,
     .hi = 2,
     .terms = 14},
    {.in = {CHARL_B(F32, 16, 3, 5, 5), CHARL_B(F32, 16, 3, 5, 5), CHARL_B(F32, 16, 1, 1, 1)},
     .lo = -2,
     .hi = 2,
     .terms = 75},
    {.in = {CHARL_B(F32, 8), CHARL_B(F32, 8), CHARL_B(F32, 8)}, .lo = 0, .hi = 1, .terms = 2},
};

const charl_op charl_op_lerp = {
    .name = "lerp",
    .formula = "out = (1 - w) * a + w * b",
    .n_in = 3,
    .in_place = true,
    .infer = charl__infer_broadcast,
    .expr = "fma(c, b, (1.0f - c) * a)",
    .backward = backward,
    .reference = reference,
    CHARL_SAMPLES(samples),
};

charl_var *charl_lerp(charl_graph *g, charl_var *a, charl_var *b, charl_var *w)
{
    charl_var *out[CHARL_OP_MAX_OUT];

    charl__apply(g, &charl_op_lerp, NULL, (charl_var *[]){a, b, w}, 3, out);
    return out[0];
}
