/* batch_norm: sums per channel, and the gradient, over x [rows, channels, n].
 *
 *   charl_sums      out[s][q][c] = sum over the rows of slice s and over n, with d = x - mean[c], of
 *                       WHAT 0: q = 0: d * d
 *                       WHAT 1: q = 0: g          q = 1: g * (d * invstd[c])
 *   charl_gradient  out = (w * invstd) * ((g - sums[0][c] * scale) - (d * invstd) * (sums[1][c] * scale))
 *
 * Specialised by   ACT, of x, g and the gradient (all else is float); WHAT (default 0); WEIGHT: there is w, else it is 1 (default 0)
 *                  COLUMNS  1: n is 1, vectors run along the channels; 0: along n (default 0)
 *                  CHARL_VEC, CHARL_ROW_ITEMS, CHARL_ROW_ACCS: see rows.clh
 * Launch           a unit is (slice, channel) for sums and (row, channel) for the gradient, laid out by src/autograd/launch/rows.c with rows of n. With
 *                  COLUMNS: one work-item per CHARL_VEC channels of a slice or row.
 * Numerics         the order of a sum depends on n and the rows of a slice only: the accumulators of rows.clh go on through all rows;
 *                  with COLUMNS, row r goes to accumulator r mod 4, then (0 + 2) + (1 + 3).
 */
#include "norm/norm_args.h"

#define WHAT 0
#define WEIGHT 0
#define COLUMNS 0

static inline charl_real gradient(charl_real g, charl_real d, charl_real w, charl_real invstd, charl_real s0, charl_real s1)
{
    return w * invstd * (g - s0 - d * invstd * s1);
}

#if COLUMNS

kernel void charl_sums(global const ACT *x, ulong x_at, global const ACT *g, ulong g_at, global const float *mean,
                       ulong mean_at, global const float *invstd, ulong invstd_at, global float *out, ulong out_at, ulong slices,
                       ulong rows, ulong channels, ulong n, ulong per_item)
{
    const ulong groups = (channels + CHARL_VEC - 1) / CHARL_VEC, s = get_global_id(0) / groups;
    const ulong c = get_global_id(0) % groups * CHARL_VEC, end = slices * rows * channels;
    const long left = (long)(channels - c);
    charl_real a[4], b[4];

    (void)n, (void)per_item, (void)g, (void)g_at, (void)invstd, (void)invstd_at; /* WHAT decides */
    if (s >= slices) {
        return;
    }
    const charl_real m = charl_load(mean + mean_at + c, left);
#if WHAT
    const charl_real v = charl_load(invstd + invstd_at + c, left);
#endif
    for (int k = 0; k < 4; k++) {
        a[k] = b[k] = CHARL_SPLAT(0.0f);
    }
    for (ulong r = 0; r < rows; r += 4) {
#pragma unroll
        for (ulong k = 0; k < 4; k++) {
            if (r + k < rows) { /* lanes beyond the channels hold other rows, and are not written */
                const ulong i = (s * rows + r + k) * channels + c;
                const charl_real d = charl_load(x + x_at + i, (long)(end - i)) - m;

#if WHAT
                const charl_real gi = charl_load(g + g_at + i, (long)(end - i));

                a[k] = a[k] + gi;
                b[k] = b[k] + gi * (d * v);
#else
                a[k] = a[k] + d * d;
#endif
            }
        }
    }
    charl_store((a[0] + a[2]) + (a[1] + a[3]), out + out_at + s * (WHAT + 1) * channels + c, left);
    if (WHAT) {
        charl_store((b[0] + b[2]) + (b[1] + b[3]), out + out_at + (s * 2 + 1) * channels + c, left);
    }
}

kernel void charl_gradient(global const ACT *x, ulong x_at, global const ACT *g, ulong g_at, global const float *mean,
                           ulong mean_at, global const float *invstd, ulong invstd_at, global const float *w, ulong w_at,
                           global const float *sums, ulong sums_at, global ACT *out, ulong out_at, const charl__norm_args p)
{
    const ulong rows = p.rows, channels = p.channels, n = p.n, per_item = p.per_item;
    const float scale = p.scale;
    const ulong groups = (channels + CHARL_VEC - 1) / CHARL_VEC, r = get_global_id(0) / groups;
    const ulong c = get_global_id(0) % groups * CHARL_VEC, i = r * channels + c;
    const long left = (long)(channels - c);

    (void)n, (void)per_item, (void)w, (void)w_at; /* WEIGHT decides */
    if (r >= rows) {
        return;
    }
#if WEIGHT
    const charl_real wc = charl_load(w + w_at + c, left);
#else
    const charl_real wc = CHARL_SPLAT(1.0f);
#endif
    charl_store(gradient(charl_load(g + g_at + i, left), charl_load(x + x_at + i, left) - charl_load(mean + mean_at + c, left), wc,
                         charl_load(invstd + invstd_at + c, left), charl_load(sums + sums_at + c, left) * scale,
                         charl_load(sums + sums_at + channels + c, left) * scale),
                out + out_at + i, left);
}

#else

#define AT_ONCE (CHARL_ROW_ITEMS > 1 ? 8 : 1) /* blocks that are read before the first is added */

/* The sums of one channel over `rows` rows, `step` elements apart; with 0 rows it only takes part in the barriers. */
static inline void sum_unit(global const ACT *x, global const ACT *g, float mean, float invstd, ulong rows, ulong step, int n,
                            int t, local charl_row_scratch *scratch, float *sum)
{
    charl_real a[CHARL_ROW_ACCS], b[CHARL_ROW_ACCS];
    int block = 0;

    (void)g, (void)invstd;
    for (int k = 0; k < CHARL_ROW_ACCS; k++) {
        a[k] = b[k] = CHARL_SPLAT(0.0f);
    }
    for (ulong r = 0; r < rows;) {
        charl_real xs[AT_ONCE][CHARL_ROW_ACCS], gs[AT_ONCE][CHARL_ROW_ACCS];
        int left[AT_ONCE][CHARL_ROW_ACCS];

#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
#pragma unroll
            for (int k = 0; k < CHARL_ROW_ACCS; k++) {
                const int j = charl_row_at(block, k, t);

                left[i][k] = r < rows ? n - j : 0;
                if (left[i][k] > 0) {
                    xs[i][k] = charl_load(x + r * step + j, left[i][k]);
                    gs[i][k] = WHAT ? charl_load(g + r * step + j, left[i][k]) : xs[i][k]; /* absent elements are 0 */
                }
            }
            block = block + CHARL_ROW_WIDTH < n ? block + CHARL_ROW_WIDTH : 0;
            r += block == 0;
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
#pragma unroll
            for (int k = 0; k < CHARL_ROW_ACCS; k++) {
                if (left[i][k] > 0) {
                    const charl_real d = xs[i][k] - mean;

                    a[k] = a[k] + (WHAT ? gs[i][k] : charl_keep(d * d, left[i][k], 0.0f));
                    if (WHAT) {
                        b[k] = b[k] + charl_keep(gs[i][k] * (d * invstd), left[i][k], 0.0f);
                    }
                }
            }
        }
    }
    sum[0] = charl_row_sum(a, scratch);
#if WHAT
    sum[1] = charl_row_sum(b, scratch);
#endif
}

kernel void charl_sums(global const ACT *x, ulong x_at, global const ACT *g, ulong g_at, global const float *mean,
                       ulong mean_at, global const float *invstd, ulong invstd_at, global float *out, ulong out_at, ulong slices,
                       ulong rows, ulong channels, ulong n, ulong per_item)
{
    (void)invstd, (void)invstd_at;
    const charl_share mine = charl_share_of(slices * channels, per_item);
    CHARL_ROW_MEMORY(scratch);

    for (ulong i = 0; i < mine.count; i++) {
        const ulong u = mine.first + i;
        const bool exists = u < slices * channels;
        const ulong s = exists ? u / channels : 0, c = exists ? u % channels : 0;
        const ulong at = (s * rows * channels + c) * n;
#if WHAT
        const float v = invstd[invstd_at + c];
#else
        const float v = 1.0f;
#endif
        float sum[2];

        sum_unit(x + x_at + at, g + g_at + at, mean[mean_at + c], v, exists ? rows : 0, channels * n, (int)n, mine.t, scratch, sum);
        if (exists && mine.t == 0) {
            out[out_at + s * (WHAT + 1) * channels + c] = sum[0];
#if WHAT
            out[out_at + (s * 2 + 1) * channels + c] = sum[1];
#endif
        }
    }
}

kernel void charl_gradient(global const ACT *x, ulong x_at, global const ACT *g, ulong g_at, global const float *mean,
                           ulong mean_at, global const float *invstd, ulong invstd_at, global const float *w, ulong w_at,
                           global const float *sums, ulong sums_at, global ACT *out, ulong out_at, const charl__norm_args p)
{
    const ulong rows = p.rows, channels = p.channels, n = p.n, per_item = p.per_item;
    const float scale = p.scale;
    (void)w, (void)w_at;
    const charl_share mine = charl_share_of(rows * channels, per_item);
    CHARL_ROW_MEMORY(scratch);

    for (ulong i = 0; i < mine.count; i++) {
        const ulong u = mine.first + i;
        const ulong c = u % channels, at = u * n;

        (void)scratch;
        if (u >= rows * channels) {
            continue;
        }
#if WEIGHT
        const float wc = w[w_at + c];
#else
        const float wc = 1.0f;
#endif
        const charl_real m = CHARL_SPLAT(mean[mean_at + c]), v = CHARL_SPLAT(invstd[invstd_at + c]);
        const charl_real s0 = CHARL_SPLAT(sums[sums_at + c] * scale), s1 = CHARL_SPLAT(sums[sums_at + channels + c] * scale);

        for (ulong j = (ulong)mine.t * CHARL_VEC; j < n; j += CHARL_ROW_ITEMS * CHARL_VEC) {
            const long left = (long)(n - j);

            charl_store(gradient(charl_load(g + g_at + at + j, left), charl_load(x + x_at + at + j, left) - m, CHARL_SPLAT(wc), v,
                                 s0, s1),
                        out + out_at + at + j, left);
        }
    }
}
#endif

/* The running statistics, once per step: r = (1 - momentum) r + momentum * statistic; the variance is unbiased. Written back where the
 * step commits; out gets what they are afterwards. One work-item per element. */
kernel void charl_update(global float *mean, ulong mean_at, global float *var, ulong var_at, global const float *now,
                         ulong now_at, global const float *squares, ulong squares_at, global float *out_mean, ulong out_mean_at,
                         global float *out_var, ulong out_var_at, global const uint *record, ulong record_at, const charl__norm_args p)
{
    const ulong i = get_global_id(0);

    if (i >= p.n) {
        return;
    }
    float m = mean[mean_at + i], v = var[var_at + i];

    if (charl_step_at(record, record_at)->commit != 0) {
        m = (1.0f - p.momentum) * m + p.momentum * now[now_at + i];
        v = (1.0f - p.momentum) * v + p.momentum * (squares[squares_at + i] * p.scale);
        mean[mean_at + i] = m;
        var[var_at + i] = v;
    }
    out_mean[out_mean_at + i] = m;
    out_var[out_var_at + i] = v;
}
