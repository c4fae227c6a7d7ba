/* rmsprop: v = beta2 v + (1 - beta2) g^2, u = g / (sqrt(v) + eps), with momentum b = momentum * b + u and u = b; p -= lr * u.
 *
 * Specialised by   MOMENTUM 0|1 (default 1)
 * Launch           one work-item per element, work-group 64: see optim.clh.
 * Numerics         as PyTorch's, one rounding per operation; rest2 is 1 - beta2, computed in double and rounded once. Weight
 *                  decay joins the gradient.
 */
#include "optim.clh"
#ifndef MOMENTUM
#define MOMENTUM 1
#endif

kernel void charl_rmsprop(CHARL_UPDATE_PARAMS, global float *square_avg, ulong square_avg_at, float beta2, float rest2,
                          float eps
#if MOMENTUM
                          , global float *buf, ulong buf_at, float momentum
#endif
)
{
    const size_t i = get_global_id(0);
    charl_update u;
    float v;

    if (!charl_update_is_due(norm, norm_at, record, record_at)) {
        return;
    }
    u = charl_update_at(i, CHARL_UPDATE_ARGS);
    u.g = u.g + u.decay * u.p;
    v = square_avg[square_avg_at + i] * beta2 + rest2 * u.g * u.g;
    square_avg[square_avg_at + i] = v;
    u.g = u.g / (sqrt(v) + eps);
#if MOMENTUM
    u.g = momentum * buf[buf_at + i] + u.g;
    buf[buf_at + i] = u.g;
#endif
    param[param_at + i] = u.p - u.lr * u.g;
}
