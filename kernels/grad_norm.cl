/* grad_norm: the sum of squares of the arena in a fixed order, then norm, clip factor and finiteness.
 *
 * A range of RANGE elements is summed in 16 lanes (lane l takes l, l + 16, ...), the lanes are added as a binary tree; ranges are
 * summed by the same kernel again, until one is left.
 *
 * Specialised by   SQUARE 0|1 (default 1): square the elements first
 *                  SCALED 0|1 (default 0): there is a loss scale
 * Launch           charl_range_sum: 16 work-items per range, work-group 64. charl_norm: one work-item.
 * Numerics         fma per square; the order depends on the number of elements only.
 */
#ifndef SQUARE
#define SQUARE 1
#endif
#ifndef SCALED
#define SCALED 0
#endif
#define RANGE 1024
#define LANES 16

kernel void charl_range_sum(global const float *x, ulong x_at, global float *out, ulong out_at, long n)
{
    const ulong range = get_global_id(0) / LANES;
    const int item = (int)get_local_id(0), lane = item % LANES;
    local float part[64];
    float acc = 0.0f;

    for (int k = 0; k < RANGE / LANES; k++) {
        const ulong i = range * RANGE + (ulong)(k * LANES + lane);
        const float v = i < (ulong)n ? x[x_at + i] : 0.0f;

        acc = SQUARE ? fma(v, v, acc) : acc + v;
    }
    part[item] = acc;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int width = LANES / 2; width > 0; width /= 2) {
        if (lane < width) {
            part[item] += part[item + width];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (lane == 0 && range * RANGE < (ulong)n) {
        out[out_at + range] = part[item];
    }
}

#if SCALED
#define SCALE_OPERAND global float *scale, ulong scale_at, uint interval,
#else
#define SCALE_OPERAND
#endif

/* out = {norm, factor to clip to max_norm and to divide the scale out (1: none), 1 if this step may change parameters else 0, 1 if
 * any step so far was not finite}: the last is sticky, so that steps already enqueued behind a bad one do nothing.
 *
 * SCALED: gradients are times *scale, a power of two. Where there is an interval it is halved, down to 2, when a gradient is not
 * finite, which then only skips the step, and doubled, up to 2^24, at steps that are a multiple of the interval. */
kernel void charl_norm(global const float *sum, ulong sum_at, global float *out, ulong out_at,
                       global const uint *record, ulong record_at, SCALE_OPERAND float max_norm)
{
    global const charl_step *step = charl_step_at(record, record_at);
    const bool commits = step->commit != 0;
#if SCALED
    const float s = scale[scale_at], norm = sqrt(sum[sum_at]) / s;
    const bool skips = interval != 0 && s > 2.0f;
#else
    const float s = 1.0f, norm = sqrt(sum[sum_at]);
    const bool skips = false;
#endif
    const bool bad = commits && !isfinite(norm);
    const float factor = max_norm / (norm + 1e-6f);
    const float stop = out[out_at + 3] != 0.0f || (bad && !skips) ? 1.0f : 0.0f;

#if SCALED
    if (interval != 0 && commits) {
        const ulong number = ((ulong)step->step_hi << 32 | step->step_lo) + 1;

        scale[scale_at] = bad ? max(s * 0.5f, 2.0f) : number % interval == 0 ? min(s * 2.0f, 0x1p24f) : s;
    }
#endif
    out[out_at] = norm;
    out[out_at + 1] = (max_norm > 0.0f && factor < 1.0f ? factor : 1.0f) / s;
    out[out_at + 2] = bad || stop != 0.0f ? 0.0f : 1.0f;
    out[out_at + 3] = stop;
}
