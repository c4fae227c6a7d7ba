/* adam: m += (1 - beta1)(g - m), v = beta2 v + (1 - beta2) g^2,
 *       p -= lr / bias1 * m / (sqrt(v) / sqrt(bias2) + eps), bias_k = 1 - beta_k^t: scalar k - 1 of the update.
 *
 * Specialised by   DECOUPLED 0|1 (default 0): weight decay shrinks p by lr * weight_decay (AdamW) instead of joining g
 * Launch           one work-item per CHARL_VEC elements: see optim.clh.
 * Numerics         as PyTorch's, one rounding per operation; rest_k is 1 - beta_k, computed in double and rounded once
 *                  (1 - 0.999f is off by 5e-5).
 */
#include "optim/update_args.h"
#include "optim/optim.clh"
#define DECOUPLED 0

kernel void charl_adam(CHARL_UPDATE_PARAMS(arena), global float *exp_avg, ulong exp_avg_at, global float *exp_avg_sq,
                       ulong exp_avg_sq_at, float rest1, float beta2, float rest2, float eps)
{
    const charl_updates all = CHARL_UPDATES(arena);
    const size_t i = charl_update_first();
    charl_update u;
    charl_real m, v;

    if (i >= all.extent || !charl_update_is_due(all.step, all.norm)) {
        return;
    }
    u = charl_update_at(&all, i);
    if (DECOUPLED) {
        u.p = u.p * (1.0f - u.lr * u.decay);
    } else {
        u.g = u.g + u.decay * u.p;
    }
    m = charl_aligned(exp_avg + exp_avg_at + i);
    v = charl_aligned(exp_avg_sq + exp_avg_sq_at + i);
    m = m + (u.g - m) * rest1;
    v = v * beta2 + rest2 * u.g * u.g;
    charl_put_aligned(m, exp_avg + exp_avg_at + i);
    charl_put_aligned(v, exp_avg_sq + exp_avg_sq_at + i);
    charl_update_put(&all, u.p - u.lr / charl_update_scalar(all.norm, 0) *
                                     (m / (sqrt(v) / sqrt(charl_update_scalar(all.norm, 1)) + eps)), i);
}
