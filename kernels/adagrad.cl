/* adagrad: s += g^2, p -= lr * g / (sqrt(s) + eps).
 *
 * Launch           one work-item per element, work-group 64: see optim.clh.
 * Numerics         as PyTorch's, one rounding per operation. Weight decay joins the gradient.
 */
#include "optim.clh"

kernel void charl_adagrad(CHARL_UPDATE_PARAMS, global float *sum, ulong sum_at, float eps)
{
    const size_t i = get_global_id(0);
    charl_update u;
    float s;

    if (!charl_update_is_due(norm, norm_at, record, record_at)) {
        return;
    }
    u = charl_update_at(i, CHARL_UPDATE_ARGS);
    u.g = u.g + u.decay * u.p;
    s = sum[sum_at + i] + u.g * u.g;
    sum[sum_at + i] = s;
    param[param_at + i] = u.p - u.lr * (u.g / (sqrt(s) + eps));
}
