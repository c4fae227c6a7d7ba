/* sgd: p -= lr * u, u = g + weight_decay * p, with momentum m = momentum * m + u and u = m (or u + momentum * m, nesterov).
 *
 * Specialised by   MOMENTUM 0|1 (default 1), NESTEROV 0|1 (default 0)
 * Launch           one work-item per element of the arena, which is a multiple of the work-group (64).
 * Numerics         as PyTorch's, one rounding per operation. Leaves everything as it is when the step record's commit is 0
 *                  or the norm record {norm, clip factor, finite} says that a gradient is not finite. decay[i / 64] is 1
 *                  where weight decay applies: no two parameters share a block of 64.
 */
#ifndef MOMENTUM
#define MOMENTUM 1
#endif
#ifndef NESTEROV
#define NESTEROV 0
#endif

kernel void charl_sgd(global float *param, ulong param_at, global const float *grad, ulong grad_at,
#if MOMENTUM
                      global float *buf, ulong buf_at,
#endif
                      global const float *decay, ulong decay_at, global const float *norm, ulong norm_at,
                      global const uint *record, ulong record_at, float weight_decay, float momentum)
{
    const size_t i = get_global_id(0);
    global const charl_step *step = charl_step_at(record, record_at);
    float p, u;

    if (step->commit == 0 || norm[norm_at + 2] == 0.0f) {
        return;
    }
    p = param[param_at + i];
    u = grad[grad_at + i] * norm[norm_at + 1];
    u = u + weight_decay * decay[decay_at + i / 64] * p;
#if MOMENTUM
    {
        const float m = momentum * buf[buf_at + i] + u;

        buf[buf_at + i] = m;
        u = NESTEROV ? u + momentum * m : m;
    }
#else
    (void)momentum;
#endif
    param[param_at + i] = p - step->lr * u;
}
