/* grad_norm: the sum of squares of the arena in a fixed order, then norm, clip factor and finiteness.
 *
 * A range of RANGE elements is summed in 16 lanes (lane l takes l, l + 16, ...), the lanes are added as a binary tree; ranges are
 * summed by the same kernel again, until one is left.
 *
 * Specialised by   SQUARE 0|1 (default 1): square the elements first
 * Launch           charl_range_sum: 16 work-items per range, work-group 64. charl_norm: one work-item.
 * Numerics         fma per square; the order depends on the number of elements only.
 */
#ifndef SQUARE
#define SQUARE 1
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

/* out = {norm, factor to clip to max_norm (1: none), 1 if this step may change parameters else 0, 1 if any step so far was not
 * finite}: the last is sticky, so that steps already enqueued behind a bad one do nothing. */
kernel void charl_norm(global const float *sum, ulong sum_at, global float *out, ulong out_at,
                       global const uint *record, ulong record_at, float max_norm)
{
    const float norm = sqrt(sum[sum_at]);
    const float factor = max_norm / (norm + 1e-6f);
    const float bad = out[out_at + 3] != 0.0f || (charl_step_at(record, record_at)->commit != 0 && !isfinite(norm)) ? 1.0f : 0.0f;

    out[out_at] = norm;
    out[out_at + 1] = max_norm > 0.0f && factor < 1.0f ? factor : 1.0f;
    out[out_at + 2] = 1.0f - bad;
    out[out_at + 3] = bad;
}
