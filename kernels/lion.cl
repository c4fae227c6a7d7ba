/* lion: p -= lr * (sign(beta1 m + (1 - beta1) g) + weight_decay * p), then m = beta2 m + (1 - beta2) g.
 *
 * Launch           one work-item per element, work-group 64: see optim.clh.
 * Numerics         one rounding per operation; rest_k is 1 - beta_k, computed in double and rounded once. sign(0) is 0.
 */
#include "optim.clh"

kernel void charl_lion(CHARL_UPDATE_PARAMS, global float *exp_avg, ulong exp_avg_at, float rest1, float rest2)
{
    const size_t i = get_global_id(0);
    charl_update u;
    float m, c;

    if (!charl_update_is_due(norm, norm_at, record, record_at)) {
        return;
    }
    u = charl_update_at(i, CHARL_UPDATE_ARGS);
    m = exp_avg[exp_avg_at + i];
    c = m + (u.g - m) * rest1;
    exp_avg[exp_avg_at + i] = m + (u.g - m) * rest2;
    param[param_at + i] = u.p * (1.0f - u.lr * u.decay) - u.lr * (c > 0.0f ? 1.0f : c < 0.0f ? -1.0f : 0.0f);
}
