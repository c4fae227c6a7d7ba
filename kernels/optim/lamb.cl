/* lamb: m and v as adam, u = (m / bias1) / (sqrt(v / bias2) + eps) + weight_decay * p; then p -= lr * |p| / |u| * u.
 *
 * charl_lamb_direction leaves u in an arena of its own; with the sums of squares of p and u per tensor charl_lamb_apply moves p.
 * The ratio is 1 for vectors and where a norm is zero.
 *
 * Launch           one work-item per element, work-group 64: see optim.clh.
 * Numerics         one rounding per operation; rest_k is 1 - beta_k, computed in double and rounded once.
 */
#include "optim/update_args.h"
#include "optim/optim.clh"

kernel void charl_lamb_direction(CHARL_UPDATE_PARAMS(arena), global float *exp_avg, ulong exp_avg_at, global float *exp_avg_sq,
                                 ulong exp_avg_sq_at, global float *direction, ulong direction_at, float rest1, float beta2,
                                 float rest2)
{
    const charl_updates all = CHARL_UPDATES(arena);
    const size_t i = get_global_id(0);
    charl_update u;
    float m, v;

    if (!charl_update_is_due(all.step, all.norm)) {
        return;
    }
    u = charl_update_at(&all, i);
    m = exp_avg[exp_avg_at + i];
    v = exp_avg_sq[exp_avg_sq_at + i];
    m = m + (u.g - m) * rest1;
    v = v * beta2 + rest2 * u.g * u.g;
    exp_avg[exp_avg_at + i] = m;
    exp_avg_sq[exp_avg_sq_at + i] = v;
    direction[direction_at + i] =
        m / charl_update_scalar(all.norm, 0) / (sqrt(v / charl_update_scalar(all.norm, 1)) + arena_args.eps) + u.decay * u.p;
}

/* square[t] and square[count + t] are the sums of p and u; owner[i / 64] is the tensor t, matrix[t] whether the ratio applies. */
kernel void charl_lamb_apply(CHARL_UPDATE_PARAMS(arena), global const float *direction, ulong direction_at, global const uint *owner,
                             ulong owner_at, global const uint *matrix, ulong matrix_at, global const float *square,
                             ulong square_at, int count)
{
    const charl_updates all = CHARL_UPDATES(arena);
    const size_t i = get_global_id(0);
    const uint t = owner[owner_at + i / 64];
    const float pp = square[square_at + t], uu = square[square_at + (ulong)count + t];
    charl_update u;
    float ratio = 1.0f;

    if (!charl_update_is_due(all.step, all.norm)) {
        return;
    }
    u = charl_update_at(&all, i);
    if (matrix[matrix_at + t] != 0 && pp > 0.0f && uu > 0.0f) {
        ratio = sqrt(pp) / sqrt(uu);
    }
    all.param[i] = u.p - u.lr * ratio * direction[direction_at + i];
}
