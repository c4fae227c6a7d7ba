/* custom: an optimizer that a program has registered. Its update is text, put where CHARL_UPDATE stands.
 *
 * Specialised by   CHARL_STATES 0..3; CHARL_SETTINGS, declarations of the settings; CHARL_UPDATE, statements that change p, s0, s1, s2
 * Launch           one work-item per CHARL_VEC elements: see optim.clh.
 */
#include "optim/update_args.h"
#include "optim/optim.clh"
#define CHARL_STATES 0
#define CHARL_SETTINGS
#define CHARL_UPDATE(p, g, lr, weight_decay, scalar0, scalar1, s0, s1, s2) p -= lr * g;

kernel void charl_custom(CHARL_UPDATE_PARAMS(arena)
#if CHARL_STATES > 0
                         , global float *state0, ulong state0_at
#endif
#if CHARL_STATES > 1
                         , global float *state1, ulong state1_at
#endif
#if CHARL_STATES > 2
                         , global float *state2, ulong state2_at
#endif
)
{
    const charl_updates all = CHARL_UPDATES(arena);
    const size_t at = charl_update_first();

    if (at >= all.extent || !charl_update_is_due(all.step, all.norm)) {
        return;
    }
    {
        const charl_update u = charl_update_at(&all, at);
        const charl_real g = u.g;
        const float lr = u.lr, weight_decay = u.decay;
        const float scalar0 = charl_update_scalar(all.norm, 0), scalar1 = charl_update_scalar(all.norm, 1);
        charl_real p = u.p;
#if CHARL_STATES > 0
        charl_real s0 = charl_aligned(state0 + state0_at + at);
#endif
#if CHARL_STATES > 1
        charl_real s1 = charl_aligned(state1 + state1_at + at);
#endif
#if CHARL_STATES > 2
        charl_real s2 = charl_aligned(state2 + state2_at + at);
#endif
        CHARL_SETTINGS
        (void)g, (void)lr, (void)weight_decay, (void)scalar0, (void)scalar1;
        { CHARL_UPDATE(p, g, lr, weight_decay, scalar0, scalar1, s0, s1, s2) }
#if CHARL_STATES > 0
        charl_put_aligned(s0, state0 + state0_at + at);
#endif
#if CHARL_STATES > 1
        charl_put_aligned(s1, state1 + state1_at + at);
#endif
#if CHARL_STATES > 2
        charl_put_aligned(s2, state2 + state2_at + at);
#endif
        charl_update_put(&all, p, at);
    }
}
