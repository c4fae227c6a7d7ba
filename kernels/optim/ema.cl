/* ema: the moving average of the weights, e += (1 - decay)(p - e), after an update; and its exchange with the weights.
 *
 * Launch           one work-item per CHARL_VEC elements: see optim.clh.
 * Numerics         one rounding per operation; rest is 1 - decay, computed in double and rounded once.
 */
#include "optim/update_args.h"
#include "optim/optim.clh"

kernel void charl_ema(CHARL_UPDATE_PARAMS(arena), global float *ema, ulong ema_at, float rest)
{
    const charl_updates all = CHARL_UPDATES(arena);
    const size_t i = charl_update_first();
    charl_real e;

    if (i >= all.extent || !charl_update_is_due(all.step, all.norm)) {
        return;
    }
    e = charl_aligned(ema + ema_at + i);
    charl_put_aligned(e + (charl_aligned(all.param + i) - e) * rest, ema + ema_at + i);
}

kernel void charl_exchange(global float *a, ulong a_at, global float *b, ulong b_at)
{
    const size_t i = get_global_id(0);
    const float v = a[a_at + i];

    a[a_at + i] = b[b_at + i];
    b[b_at + i] = v;
}
