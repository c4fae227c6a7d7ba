/* sgd: p -= lr * u, u = g + weight_decay * p, with momentum m = momentum * m + u and u = m (or u + momentum * m, nesterov).
 *
 * Specialised by   STATES 0|1 (default 1; 0: momentum is 0), NESTEROV 0|1 (default 0)
 * Launch           one work-item per CHARL_VEC elements: see optim.clh.
 * Numerics         as PyTorch's, one rounding per operation.
 */
#include "optim/update_args.h"
#include "optim/optim.clh"
#define STATES 1
#define NESTEROV 0

kernel void charl_sgd(CHARL_UPDATE_PARAMS(arena),
#if STATES
                      global float *buf, ulong buf_at,
#endif
                      float momentum)
{
    const charl_updates all = CHARL_UPDATES(arena);
    const size_t i = charl_update_first();
    charl_update u;

    if (i >= all.extent || !charl_update_is_due(all.step, all.norm)) {
        return;
    }
    u = charl_update_at(&all, i);
    u.g = u.g + u.decay * u.p;
#if STATES
    {
        const charl_real m = momentum * charl_aligned(buf + buf_at + i) + u.g;

        charl_put_aligned(m, buf + buf_at + i);
        u.g = NESTEROV ? u.g + momentum * m : m;
    }
#endif
    charl_update_put(&all, u.p - u.lr * u.g, i);
}
