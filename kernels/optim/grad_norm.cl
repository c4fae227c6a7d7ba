/* grad_norm: sums the squares of the arena in a fixed order, then computes norm and clip factor and checks that they are finite.
 *
 * A range of RANGE elements is summed in 16 lanes (lane l takes l, l + 16, ...), which are then added in a binary tree. The same
 * kernel sums the sums of ranges, until one range is left, which charl_norm sums.
 *
 * Specialised by   SQUARE 0|1 (default 1): square the elements first
 *                  SCALED 0|1 (default 0): there is a loss scale
 *                  SKIP 0|1 (default 0): skip a bad step; otherwise no step after it counts
 *                  LOSS 0|1 (default 0): also check this rank's part of the loss
 *                  FOUND 0|1 (default 0): `grad` is one ulong, the position of the first element that is not finite
 *                  WINDOW (default 1024): updates whose scalars are remembered
 *                  SPIKE 0|1|2|3 (default 0): 1 records a norm that is a spike, 2 also skips its step, 3 also skips all steps after it
 *                  CHARL_VEC 16: a work-item of charl_range_sum has all lanes of a range, for CPUs
 * Launch           charl_range_sum: 16 work-items per range, work-group 64, or one. charl_norm: one work-group of 16. charl_restore: one per element.
 * Numerics         fma per square; the order depends on the number of elements only.
 */
#include "optim/grad_norm_args.h"
#include "optim/update_args.h"

#define SQUARE 1
#define SCALED 0
#define SKIP 0
#define LOSS 0
#define SPIKE 0
#define FOUND 0
#define WINDOW 1024
#define RANGE 1024
#define LANES 16
#define GROUP 64

/* The sum of a range of x, returned to the first of its lanes; every work-item of a group must call it. */
static inline float sum_range(global const float *x, ulong range, ulong n, bool square, local float part[static LANES])
{
    const int item = (int)get_local_id(0), lane = item % LANES;
    float acc = 0.0f;

#pragma unroll 32
    for (int k = 0; k < RANGE / LANES; k++) { /* as many are read at once */
        const ulong i = range * RANGE + (ulong)(k * LANES + lane);
        const float v = i < n ? x[i] : 0.0f;

        acc = square ? fma(v, v, acc) : acc + v;
    }
    part[item] = acc;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int width = LANES / 2; width > 0; width /= 2) {
        if (lane < width) {
            part[item] += part[item + width];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return part[item];
}

#if CHARL_VEC == LANES
kernel void charl_range_sum(global const float *x, ulong x_at, global float *out, ulong out_at, long n)
{
    const ulong range = get_global_id(0);
    charl_real acc = CHARL_SPLAT(0.0f);

    x += x_at;
    for (int k = 0; k < RANGE; k += LANES) {
        const ulong i = range * RANGE + (ulong)k;
        const charl_real v = charl_load(x + min(i, (ulong)n), n - (long)i);

        acc = SQUARE ? fma(v, v, acc) : acc + v;
    }
    out[out_at + range] = charl_row_sum(&acc, 0);
}
#else
kernel void charl_range_sum(global const float *x, ulong x_at, global float *out, ulong out_at, long n)
{
    const ulong range = get_global_id(0) / LANES;
    local float part[GROUP];
    const float sum = sum_range(x + x_at, range, (ulong)n, SQUARE, part);

    if (get_local_id(0) % LANES == 0 && range * RANGE < (ulong)n) {
        out[out_at + range] = sum;
    }
}
#endif

/* Position of the first element that is not finite; ~0: there is none, the squares overflow. */
static ulong first_bad(global const float *range, global const float *grad, ulong n)
{
    for (ulong r = 0; r * RANGE < n; r++) {
        for (ulong i = r * RANGE; !isfinite(range[r]) && i < min((r + 1) * RANGE, n); i++) {
            if (!isfinite(grad[i])) {
                return i;
            }
        }
    }
    return ~0UL;
}

/* The norm above which one is a spike: mean + threshold * standard deviation of the last ones, x[0 .. window - 1]; infinity while there are
 * fewer. x[window] is where the next one goes, in the place of the oldest; negative: of none. */
static inline float limit_of(global const float *x, uint window, float threshold)
{
    float sum = 0.0f, squares = 0.0f, mean;

    for (uint i = 0; i < window; i++) {
        sum += x[i];
    }
    mean = sum / (float)window;
    for (uint i = 0; i < window; i++) {
        squares = fma(x[i] - mean, x[i] - mean, squares);
    }
    return x[(uint)x[window]] >= 0.0f && squares > 0.0f ? mean + threshold * sqrt(squares / (float)window) : INFINITY;
}

/* Whether training has ended before this step, which then counts for nothing. */
static inline bool is_over(global const charl__norm_record *r)
{
    return ((SKIP ? 0 : r->bad_steps) | (SPIKE == 3 ? as_uint(r->spike) : 0)) != 0;
}

/* 64 bits in two words: those of the steps before move up, bit 0 is this step's. */
static inline void push_bit(global uint *mask, bool bit)
{
    mask[1] = mask[1] << 1 | mask[0] >> 31;
    mask[0] = mask[0] << 1 | (uint)bit;
}

/* Writes the norm record.
 *
 * scalars [WINDOW, 2]: those of the last updates that the host has counted, at their number modulo WINDOW. A step that is skipped is
 * no update, which the host learns later: until then it counts too far, by less than WINDOW, and the scalars of the update that this
 * step makes are those that came with an earlier step.
 *
 * range: sums of the ranges of grad.
 *
 * last: n_last sums of ranges, which add up to the sum of all squares.
 *
 * SCALED: gradients are times *scale, a power of two. Where there is an interval it is halved, down to 2, when a gradient is not
 * finite, which then only skips the step and is not counted, and doubled, up to 2^24, at updates that are a multiple of the interval. */
kernel void charl_norm(global const float *last, global const float *range, global const float *grad, global charl__norm_record *out,
                       global const uint *record,
                       global float *scalars, global float *scale, global const float *loss, global float *norms,
                       const charl__grad_norm_args args)
{
    local float part[LANES];
    const float sum = sum_range(last + args.last, 0, (ulong)args.n_last, false, part);

    if (get_local_id(0) != 0) { /* of what is read below, the first writes some */
        return;
    }
    global const charl_step_params *step = charl_step_at(record, args.record);
    const bool commits = step->commit != 0;
    const float s = SCALED ? scale[args.scale] : 1.0f, norm = SCALED ? sqrt(sum) / s : sqrt(sum);
    const bool forgiven = s > 2.0f && args.interval != 0;
    const float factor = args.max_norm / (norm + 1e-6f);
    const bool bad = commits && !isfinite(norm), over = is_over(out), counts = !(forgiven || over);
    const uint update = step->update - (out->skipped - step->skipped);
    global float *counted = scalars + 2 * (step->update % WINDOW), *mine = scalars + 2 * (update % WINDOW);
    bool bad_loss = false, spike = false, leaves = bad || over;

    if (bad && !over && (out->left_out[0] & 1) == 0) {
        const ulong at = FOUND ? *(global const ulong *)grad : first_bad(range, grad, (ulong)args.n);

        out->step_lo = step->step_lo;
        out->step_hi = step->step_hi;
        out->element_lo = (uint)at;
        out->element_hi = (uint)(at >> 32);
    }
    if (bad && counts) {
        out->bad_steps += 1;
    }
    for (uint i = 0; LOSS && i < args.n_loss; i++) {
        bad_loss = bad_loss || !isfinite(loss[args.loss + i]);
    }
    if (SPIKE && commits && !bad && !over) {
        global float *x = norms;
        const uint at = (uint)x[args.window];
        const float limit = limit_of(x, args.window, args.threshold);

        spike = norm > limit;
        leaves = SPIKE > 1 ? spike : false;
        if (spike) {
            out->spike = norm;
            out->limit = limit;
        }
        x[at] = spike ? limit : norm;
        x[args.window] = at + 1 < args.window ? (float)(at + 1) : 0.0f;
    }
    if (commits) {
        push_bit(out->left_out, bad || over);
        push_bit(out->overflowed, bad && !over && forgiven);
        push_bit(out->bad_loss, bad_loss);
        push_bit(out->spiked, spike);
    }
    if (SCALED && args.interval != 0 && commits) {
        scale[args.scale] = bad ? max(s * 0.5f, 2.0f) : update % args.interval == 0 ? min(s * 2.0f, 0x1p24f) : s;
    }
    out->norm = norm;
    out->factor = (args.max_norm > 0.0f && factor < 1.0f ? factor : 1.0f) / s;
    out->may_change = leaves ? 0.0f : 1.0f;
    if (commits) {
        counted[0] = step->bias1;
        counted[1] = step->bias2;
        out->skipped += leaves ? 1 : 0;
    }
    out->bias1 = mine[0];
    out->bias2 = mine[1];
}

/* Running statistics as they were before a step that is left out. */
kernel void charl_restore(global float *buffers, ulong buffers_at, global const float *before, ulong before_at,
                          global const float *norm, ulong norm_at)
{
    const size_t i = get_global_id(0);

    if (((global const charl__norm_record *)(norm + norm_at))->may_change == 0.0f) {
        buffers[buffers_at + i] = before[before_at + i];
    }
}
