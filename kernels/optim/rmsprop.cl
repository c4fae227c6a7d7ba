/* rmsprop: v = beta2 v + (1 - beta2) g^2, u = g / (sqrt(v) + eps), with momentum b = momentum * b + u and u = b; p -= lr * u.
 *
 * Specialised by   STATES 1|2 (default 2; 1: momentum is 0)
 * Launch           one work-item per CHARL_VEC elements: see optim.clh.
 * Numerics         as PyTorch's, one rounding per operation; rest2 is 1 - beta2, computed in double and rounded once. Weight
 *                  decay joins the gradient.
 */
#include "optim/update_args.h"
#include "optim/optim.clh"
#define STATES 2

kernel void charl_rmsprop(CHARL_UPDATE_PARAMS(arena), global float *square_avg, ulong square_avg_at,
#if STATES > 1
                          global float *buf, ulong buf_at,
#endif
                          float beta2, float rest2, float momentum, float eps)
{
    const charl_updates all = CHARL_UPDATES(arena);
    const size_t i = charl_update_first();
    charl_update u;
    charl_real v;

    if (i >= all.extent || !charl_update_is_due(all.step, all.norm)) {
        return;
    }
    u = charl_update_at(&all, i);
    u.g = u.g + u.decay * u.p;
    v = charl_aligned(square_avg + square_avg_at + i) * beta2 + rest2 * u.g * u.g;
    charl_put_aligned(v, square_avg + square_avg_at + i);
    u.g = u.g / (sqrt(v) + eps);
#if STATES > 1
    u.g = momentum * charl_aligned(buf + buf_at + i) + u.g;
    charl_put_aligned(u.g, buf + buf_at + i);
#endif
    charl_update_put(&all, u.p - u.lr * u.g, i);
}
