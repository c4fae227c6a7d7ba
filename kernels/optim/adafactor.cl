/* adafactor: second moments of a matrix [rows, cols] kept as the means of its rows and columns,
 *            v = row * col / mean(row), u = g / max(sqrt(v), eps), p -= alpha / max(1, rms(u)) * u, alpha = max(1e-3, rms(p)) * min(lr, rho).
 *
 * Leading extents are a batch of matrices; a vector keeps v itself. charl_adafactor_{rows, columns, fold, mean} bring the factors
 * up to date, charl_adafactor_{matrix, vector} leave u in an arena of its own, charl_adafactor_apply moves p, given the sums of
 * squares of p and u per tensor.
 *
 * Scalar 0 of the update is t^-0.8, scalar 1 is rho = 1 / sqrt(t).
 * Launch           see each kernel; all but apply cover one parameter, whose blocks begin at the offsets given.
 * Numerics         fixed order: rows by 64 lanes and a tree, columns by stretches of 256 rows in ascending order.
 */
#include "optim/update_args.h"
#include "optim/optim.clh"
#define GROUP 64
#define STRETCH 256

/* a + (b - a) w */
static inline float lerp(float a, float b, float w)
{
    return a + (b - a) * w;
}

/* One work-group per row. */
static inline float row_sum(local float part[static GROUP], float acc)
{
    const int lane = (int)get_local_id(0);
    float sum;

    part[lane] = acc;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int width = GROUP / 2; width > 0; width /= 2) {
        if (lane < width) {
            part[lane] += part[lane + width];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    sum = part[0];
    return sum;
}

/* Launch: 64 work-items per row of the batch. */
kernel void charl_adafactor_rows(CHARL_UPDATE_PARAMS(arena), global float *row, ulong row_at)
{
    const long cols = arena_args.cols;
    const charl_updates all = CHARL_UPDATES(arena);
    const ulong r = get_group_id(0);
    const int lane = (int)get_local_id(0);
    local float part[GROUP];
    float acc = 0.0f;

    for (long c = lane; c < cols; c += GROUP) {
        const float g = all.grad[r * (ulong)cols + (ulong)c] * all.norm->factor;

        acc = fma(g, g, acc);
    }
    acc = row_sum(part, acc);
    if (lane == 0 && charl_update_is_due(all.step, all.norm)) {
        row[row_at + r] = lerp(row[row_at + r], acc / (float)cols, charl_update_scalar(all.norm, 0));
    }
}

/* Launch: columns rounded up to 64, stretches, batch. partial [batch, stretches, cols] */
kernel void charl_adafactor_columns(CHARL_UPDATE_PARAMS(arena), global float *partial, ulong partial_at)
{
    const long rows = arena_args.rows, cols = arena_args.cols;
    const charl_updates all = CHARL_UPDATES(arena);
    const long c = (long)get_global_id(0), s = (long)get_global_id(1), b = (long)get_global_id(2);
    const long end = min(rows, (s + 1) * STRETCH);
    float acc = 0.0f;

    if (c >= cols) {
        return;
    }
    for (long r = s * STRETCH; r < end; r++) {
        const float g = all.grad[(ulong)((b * rows + r) * cols + c)] * all.norm->factor;

        acc = fma(g, g, acc);
    }
    partial[partial_at + (ulong)((b * (long)get_global_size(1) + s) * cols + c)] = acc;
}

/* Launch: columns rounded up to 64, 1, batch. */
kernel void charl_adafactor_fold(CHARL_UPDATE_PARAMS(arena), global float *col, ulong col_at, global const float *partial,
                                 ulong partial_at)
{
    const long rows = arena_args.rows, cols = arena_args.cols;
    const charl_updates all = CHARL_UPDATES(arena);
    const long c = (long)get_global_id(0), b = (long)get_global_id(2), stretches = (rows + STRETCH - 1) / STRETCH;
    const ulong at = col_at + (ulong)(b * cols + c);
    float acc = 0.0f;

    if (c >= cols || !charl_update_is_due(all.step, all.norm)) {
        return;
    }
    for (long s = 0; s < stretches; s++) {
        acc += partial[partial_at + (ulong)((b * stretches + s) * cols + c)];
    }
    col[at] = lerp(col[at], acc / (float)rows, charl_update_scalar(all.norm, 0));
}

/* Launch: 64 work-items per matrix of the batch. */
kernel void charl_adafactor_mean(global const float *row, ulong row_at, global float *mean, ulong mean_at, long rows)
{
    const ulong b = get_group_id(0);
    const int lane = (int)get_local_id(0);
    local float part[GROUP];
    float acc = 0.0f;

    for (long r = lane; r < rows; r += GROUP) {
        acc += row[row_at + b * (ulong)rows + (ulong)r];
    }
    acc = row_sum(part, acc);
    if (lane == 0) {
        mean[mean_at + b] = acc / (float)rows;
    }
}

/* Launch: one work-item per element, work-group 64, as the next one. */
kernel void charl_adafactor_matrix(CHARL_UPDATE_PARAMS(arena), global float *direction, ulong direction_at, global const float *row,
                                   ulong row_at, global const float *col, ulong col_at, global const float *mean,
                                   ulong mean_at)
{
    const long rows = arena_args.rows, cols = arena_args.cols;
    const charl_updates all = CHARL_UPDATES(arena);
    const ulong i = get_global_id(0);
    float u = 0.0f;

    if (i < (ulong)arena_args.n) {
        const ulong r = i / (ulong)cols, b = r / (ulong)rows;
        const float v = row[row_at + r] * col[col_at + b * (ulong)cols + i % (ulong)cols] / fmax(mean[mean_at + b], arena_args.eps);

        u = all.grad[i] * all.norm->factor / fmax(sqrt(v), arena_args.eps);
    }
    direction[direction_at + i] = u;
}

kernel void charl_adafactor_vector(CHARL_UPDATE_PARAMS(arena), global float *direction, ulong direction_at, global float *variance,
                                   ulong variance_at, float eps)
{
    const charl_updates all = CHARL_UPDATES(arena);
    const size_t i = get_global_id(0);
    const float g = all.grad[i] * all.norm->factor;
    float v;

    if (!charl_update_is_due(all.step, all.norm)) {
        return;
    }
    v = lerp(variance[variance_at + i], g * g, charl_update_scalar(all.norm, 0));
    variance[variance_at + i] = v;
    direction[direction_at + i] = g / fmax(sqrt(v), eps);
}

/* square[t] and square[count + t] are the sums of p and u over tensor t = owner[i / 64] of size[t] elements. */
kernel void charl_adafactor_apply(CHARL_UPDATE_PARAMS(arena), global const float *direction, ulong direction_at,
                                  global const uint *owner, ulong owner_at, global const float *size, ulong size_at,
                                  global const float *square, ulong square_at, int count)
{
    const charl_updates all = CHARL_UPDATES(arena);
    const size_t i = get_global_id(0);
    const uint t = owner[owner_at + i / 64];
    const float n = size[size_at + t], rms_p = sqrt(square[square_at + t] / n),
                rms_u = sqrt(square[square_at + (ulong)count + t] / n);
    charl_update u;
    float alpha;

    if (!charl_update_is_due(all.step, all.norm)) {
        return;
    }
    u = charl_update_at(&all, i);
    alpha = fmax(1e-3f, rms_p) * fmin(u.lr, charl_update_scalar(all.norm, 1));
    all.param[i] = u.p * (1.0f - u.lr * u.decay) - alpha / fmax(1.0f, rms_u) * direction[direction_at + i];
}
