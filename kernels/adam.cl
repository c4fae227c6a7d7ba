/* adam: m += (1 - beta1)(g - m), v = beta2 v + (1 - beta2) g^2,
 *       p -= lr / bias1 * m / (sqrt(v) / sqrt(bias2) + eps), bias_k = 1 - beta_k^t from the step record.
 *
 * Specialised by   DECOUPLED 0|1 (default 0): weight decay shrinks p by lr * weight_decay (AdamW) instead of joining g
 * Launch           one work-item per element of the arena, which is a multiple of the work-group (64).
 * Numerics         as PyTorch's, one rounding per operation; rest_k is 1 - beta_k, computed in double and rounded once
 *                  (1 - 0.999f is off by 5e-5). Leaves everything as it is when the step record's commit is 0
 *                  or the norm record {norm, clip factor, finite} says that a gradient is not finite. decay[i / 64] is 1
 *                  where weight decay applies: no two parameters share a block of 64.
 */
#ifndef DECOUPLED
#define DECOUPLED 0
#endif

kernel void charl_adam(global float *param, ulong param_at, global const float *grad, ulong grad_at, global float *exp_avg,
                       ulong exp_avg_at, global float *exp_avg_sq, ulong exp_avg_sq_at, global const float *decay,
                       ulong decay_at, global const float *norm, ulong norm_at, global const uint *record,
                       ulong record_at, float weight_decay, float rest1, float beta2, float rest2,
                       float eps)
{
    const size_t i = get_global_id(0);
    global const charl_step *step = charl_step_at(record, record_at);
    const float wd = weight_decay * decay[decay_at + i / 64];
    const float lr = step->lr;
    float p, g, m, v;

    if (step->commit == 0 || norm[norm_at + 2] == 0.0f) {
        return;
    }
    p = param[param_at + i];
    g = grad[grad_at + i] * norm[norm_at + 1];
    if (DECOUPLED) {
        p = p * (1.0f - lr * wd);
    } else {
        g = g + wd * p;
    }
    m = exp_avg[exp_avg_at + i];
    v = exp_avg_sq[exp_avg_sq_at + i];
    m = m + (g - m) * rest1;
    v = v * beta2 + rest2 * g * g;
    exp_avg[exp_avg_at + i] = m;
    exp_avg_sq[exp_avg_sq_at + i] = v;
    param[param_at + i] = p - lr / step->bias1 * (m / (sqrt(v) / sqrt(step->bias2) + eps));
}
