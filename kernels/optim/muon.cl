/* muon: m += (1 - momentum)(g - m), u = g + momentum (m - g), x = u / |u|, five times x = a x + (b A + c A^2) x with A = x x^T,
 *       p -= lr * scale * x, with decoupled weight decay.
 *
 * The products are those of gemm; here is what lies between them. Tall matrices use A = x^T x and x (...) instead: the same
 * iteration on the transpose.
 *
 * Launch           one work-item per element, work-group 64: see optim.clh; charl_muon_polynomial: size^2 rounded up to 64.
 * Numerics         f32, one rounding per operation; rest is 1 - momentum, computed in double and rounded once.
 */
#include "optim/update_args.h"
#include "optim/optim.clh"

kernel void charl_muon_momentum(CHARL_UPDATE_PARAMS(arena), global float *buf, ulong buf_at, global float *direction, ulong direction_at,
                                float momentum, float rest)
{
    const charl_updates all = CHARL_UPDATES(arena);
    const size_t i = get_global_id(0);
    const float g = all.grad[i] * all.norm->factor;
    float m;

    if (!charl_update_is_due(all.step, all.norm)) {
        return;
    }
    m = buf[buf_at + i];
    m = m + (g - m) * rest;
    buf[buf_at + i] = m;
    direction[direction_at + i] = g + (m - g) * momentum;
}

/* square[square_at] is the sum of squares of the whole matrix. */
kernel void charl_muon_normalize(global float *direction, ulong direction_at, global const float *square, ulong square_at)
{
    const size_t i = get_global_id(0);

    direction[direction_at + i] = direction[direction_at + i] / (sqrt(square[square_at]) + 1e-7f);
}

/* out = a I + b A + c A2 over [size, size]: (a I + b A + c A^2) x = a x + (b A + c A^2) x. */
kernel void charl_muon_polynomial(global const float *first, ulong first_at, global float *second, ulong second_at, long size)
{
    const ulong i = get_global_id(0);
    float v;

    if (i >= (ulong)(size * size)) {
        return;
    }
    v = -4.7750f * first[first_at + i] + 2.0315f * second[second_at + i];
    second[second_at + i] = i / (ulong)size == i % (ulong)size ? v + 3.4445f : v;
}

kernel void charl_muon_apply(CHARL_UPDATE_PARAMS(arena), global const float *x, ulong x_at, long n, float scale)
{
    const charl_updates all = CHARL_UPDATES(arena);
    const size_t i = get_global_id(0);
    charl_update u;

    if (i >= (size_t)n || !charl_update_is_due(all.step, all.norm)) {
        return;
    }
    u = charl_update_at(&all, i);
    all.param[i] = u.p * (1.0f - u.lr * u.decay) - u.lr * scale * x[x_at + i];
}
