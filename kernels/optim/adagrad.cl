/* adagrad: s += g^2, p -= lr * g / (sqrt(s) + eps).
 *
 * Launch           one work-item per CHARL_VEC elements: see optim.clh.
 * Numerics         as PyTorch's, one rounding per operation. Weight decay joins the gradient.
 */
#include "optim/update_args.h"
#include "optim/optim.clh"

kernel void charl_adagrad(CHARL_UPDATE_PARAMS(arena), global float *sum, ulong sum_at, float eps)
{
    const charl_updates all = CHARL_UPDATES(arena);
    const size_t i = charl_update_first();
    charl_update u;
    charl_real s;

    if (i >= all.extent || !charl_update_is_due(all.step, all.norm)) {
        return;
    }
    u = charl_update_at(&all, i);
    u.g = u.g + u.decay * u.p;
    s = charl_aligned(sum + sum_at + i) + u.g * u.g;
    charl_put_aligned(s, sum + sum_at + i);
    charl_update_put(&all, u.p - u.lr * (u.g / (sqrt(s) + eps)), i);
}
