/* lion: p -= lr * (sign(beta1 m + (1 - beta1) g) + weight_decay * p), then m = beta2 m + (1 - beta2) g.
 *
 * Launch           one work-item per CHARL_VEC elements: see optim.clh.
 * Numerics         one rounding per operation; rest_k is 1 - beta_k, computed in double and rounded once. sign(0) is 0.
 */
#include "optim/update_args.h"
#include "optim/optim.clh"

kernel void charl_lion(CHARL_UPDATE_PARAMS(arena), global float *exp_avg, ulong exp_avg_at, float rest1, float rest2)
{
    const charl_updates all = CHARL_UPDATES(arena);
    const size_t i = charl_update_first();
    charl_update u;
    charl_real m, c;

    if (i >= all.extent || !charl_update_is_due(all.step, all.norm)) {
        return;
    }
    u = charl_update_at(&all, i);
    m = charl_aligned(exp_avg + exp_avg_at + i);
    c = m + (u.g - m) * rest1;
    charl_put_aligned(m + (u.g - m) * rest2, exp_avg + exp_avg_at + i);
    charl_update_put(&all, u.p * (1.0f - u.lr * u.decay) - u.lr * select(select(CHARL_SPLAT(0.0f), CHARL_SPLAT(-1.0f), c < 0.0f), CHARL_SPLAT(1.0f), c > 0.0f), i);
}
