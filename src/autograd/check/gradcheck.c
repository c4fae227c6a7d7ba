/* Gradients of a whole model against central differences of its loss.
 *
 * Every run uses the same step record with commit = 0, so dropout draws the same numbers and running
 * statistics do not change. The loss is f32: with a step h the difference quotient is off by
 * about 1e-7 |loss| / h from rounding and h^2 from truncation, so h = 1e-2 max(1, |x|) balances the
 * two, and differences are compared with the size of the whole gradient.
 */
#include <math.h>

#include "autograd/graph_private.h"
#include "base/alloc.h"

static charl_status loss_of(charl_graph *g, charl_var *loss, double *out)
{
    const charl__step_params record = {.loss_seed = 1.0F, .bias1 = 1.0F, .bias2 = 1.0F, .commit = 0};
    float value;

    CHARL_TRY(charl__steps_push(g->steps, &record));
    CHARL_TRY(charl__graph_run_actions(g));
    CHARL_TRY(charl_tensor_read(loss->tensor, &value, sizeof value));
    *out = (double)value;
    return CHARL_OK;
}

/* d loss / d value[i], by moving that one element. */
static charl_status difference(charl_graph *g, charl_var *loss, charl_param *p, float *value, int64_t i, double *out)
{
    charl_status st = CHARL_OK;
    const float x = value[i], h = 1e-2F * fmaxf(1.0F, fabsf(x));
    const float up = x + h, down = x - h;
    double above, below;

    value[i] = up;
    CHARL_TRY_CLEANUP(charl_param_write(p, value));
    CHARL_TRY_CLEANUP(loss_of(g, loss, &above));
    value[i] = down;
    CHARL_TRY_CLEANUP(charl_param_write(p, value));
    CHARL_TRY_CLEANUP(loss_of(g, loss, &below));
    *out = (above - below) / ((double)up - (double)down);
cleanup:
    value[i] = x;
    return st;
}

typedef struct probe {
    charl_param *param;
    int64_t n;
    float *value, *grad;
} probe;

/* Compare `samples` elements spread over the parameter. */
static charl_status compare(charl_graph *g, charl_var *loss, const probe *p, int samples, double *worst)
{
    const int64_t stride = p->n > samples ? (p->n + samples - 1) / samples : 1;
    double scale = 0.0;

    for (int64_t i = 0; i < p->n; i++) {
        scale = fmax(scale, fabs((double)p->grad[i]));
    }
    for (int64_t i = 0; i < p->n; i += stride) {
        double want = 0.0, error;

        CHARL_TRY(difference(g, loss, p->param, p->value, i, &want));
        error = fabs((double)p->grad[i] - want) / (fabs(want) + scale + 1e-6);
        *worst = error > *worst || isnan(error) ? error : *worst;
    }
    return CHARL_OK;
}

static charl_status check_param(charl_graph *g, charl_var *loss, charl_var *v, int samples, double *worst)
{
    charl_status st = CHARL_OK, compared;
    probe p = {.param = v->param, .n = charl_shape_count(&v->type.shape)};

    CHARL_TRY_CLEANUP(charl__alloc_array(p.n, sizeof *p.value, &p.value));
    CHARL_TRY_CLEANUP(charl__alloc_array(p.n, sizeof *p.grad, &p.grad));
    CHARL_TRY_CLEANUP(charl_param_read(v->param, p.value));
    CHARL_TRY_CLEANUP(charl_tensor_read(v->grad->tensor, p.grad, (size_t)p.n * sizeof *p.grad));
    compared = compare(g, loss, &p, samples, worst);
    CHARL_TRY_CLEANUP(charl_param_write(v->param, p.value)); /* even if the comparison failed */
    CHARL_TRY_CLEANUP(compared);
cleanup:
    charl_free(p.value);
    charl_free(p.grad);
    return st;
}

charl_status charl_gradcheck(charl_graph *g, charl_var *loss, int samples, double *worst)
{
    CHARL_GIVEN(g, loss, worst);
    double ignored;

    *worst = 0.0;
    CHARL_REQUIRE(g->compiled && g->has_gradients && loss && loss->tensor && samples > 0, CHARL_ERR_INVALID,
                  "gradcheck needs a compiled graph with gradients, whose loss is kept");
    CHARL_REQUIRE(charl__graph_is_whole(g), CHARL_ERR_INVALID, "gradcheck runs on one rank");
    CHARL_REQUIRE(!charl__steps_scale(g->steps), CHARL_ERR_INVALID,
                  "gradcheck needs the gradients of the loss itself, without a loss scale");
    CHARL_TRY(loss_of(g, loss, &ignored)); /* computes the gradients to check */
    for (int i = 0; i < g->vars.count; i++) {
        charl_var *v = charl__var(g, i);

        if (charl__var_is_trained(v) && v->grad) {
            CHARL_TRY(loss_of(g, loss, &ignored));
            CHARL_TRY(check_param(g, loss, v, samples, worst));
        }
    }
    CHARL_TRY(loss_of(g, loss, &ignored));
    return CHARL_OK;
}
