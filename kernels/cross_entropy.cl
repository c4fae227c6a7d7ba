/* cross_entropy: loss of rows of n logits against a class each, its gradient, and whether the class is among the largest.
 *
 *   charl_loss      out[r] = w * (log(s) - (1 - smooth) * (x[label] - m) - smooth / n * sum of (x - m)),  lse[r] = m + log(s)
 *   charl_gradient  out[r, c] = g * w * (exp(x[c] - lse[r]) - q[c]),  q[c] = (1 - smooth if c is the label) + smooth / n
 *   charl_correct   out[r] = 1 if at most k elements, the label's included, are not below x[label], else 0
 *
 * with m = max of the row, s = sum of exp(x - m), w = weight[r] or 1. A label outside 0 .. n - 1 gives NaN, or 0 for charl_correct;
 * so does a NaN logit.
 *
 * Specialised by   WEIGHT     1: there is a weight operand (default 0)
 *                  SMOOTHING  1: smooth is not 0 (default 0)
 *                  ACT        type of the logits and of their gradient; everything else is float
 *                  CHARL_VEC  CHARL_ROW_ITEMS  CHARL_ROW_ACCS  see rows.clh
 * Launch           src/autograd/rows.c; charl_gradient, which handles each element by itself, pieces.clh.
 * Numerics         fixed order (rows.clh).
 */
#ifndef WEIGHT
#define WEIGHT 0
#endif
#ifndef SMOOTHING
#define SMOOTHING 0
#endif

#include "pieces.clh"

static inline void clear(charl_real *acc, float value)
{
    for (int k = 0; k < CHARL_ROW_ACCS; k++) {
        acc[k] = CHARL_SPLAT(value);
    }
}

static inline float row_maximum(global const ACT *x, int n, int t, local float *scratch)
{
    charl_real acc[CHARL_ROW_ACCS];

    clear(acc, -INFINITY);
    for (int block = 0; block < n; block += CHARL_ROW_WIDTH) {
#pragma unroll
        for (int k = 0; k < CHARL_ROW_ACCS; k++) {
            const int j = charl_row_at(block, k, t);

            if (j < n) {
                acc[k] = charl_maximum(acc[k], charl_keep(charl_load(x + j, n - j), n - j, -INFINITY));
            }
        }
    }
    return charl_row_max(acc, scratch);
}

/* (loss, lse) */
static inline float2 loss_row(global const ACT *x, int label, float smooth, int n, int t, local float *scratch)
{
    const float m = row_maximum(x, n, t, scratch);
    charl_real acc[CHARL_ROW_ACCS];
    float y, lse;

    clear(acc, 0.0f);
    for (int block = 0; block < n; block += CHARL_ROW_WIDTH) {
#pragma unroll
        for (int k = 0; k < CHARL_ROW_ACCS; k++) {
            const int j = charl_row_at(block, k, t);

            if (j < n) {
                acc[k] = acc[k] + charl_keep(charl_exp(charl_load(x + j, n - j) - m), n - j, 0.0f);
            }
        }
    }
    y = charl_lane0(charl_log(CHARL_SPLAT(charl_row_sum(acc, scratch))));
    lse = m + y;
#if SMOOTHING
    clear(acc, 0.0f);
    for (int block = 0; block < n; block += CHARL_ROW_WIDTH) {
#pragma unroll
        for (int k = 0; k < CHARL_ROW_ACCS; k++) {
            const int j = charl_row_at(block, k, t);

            if (j < n) {
                acc[k] = acc[k] + charl_keep(charl_load(x + j, n - j) - m, n - j, 0.0f);
            }
        }
    }
    y = y - smooth / (float)n * charl_row_sum(acc, scratch);
#endif
    y = label >= 0 && label < n ? y - (1.0f - smooth) * (charl_get(x + label) - m) : NAN;
    return (float2)(y, lse);
}

/* How many elements are not below x[label]: NaNs count. */
static inline float rank_row(global const ACT *x, int label, int n, int t, local float *scratch)
{
    const float y = label >= 0 && label < n ? charl_get(x + label) : NAN;
    charl_real acc[CHARL_ROW_ACCS];
    float above;

    clear(acc, 0.0f);
    for (int block = 0; block < n; block += CHARL_ROW_WIDTH) {
#pragma unroll
        for (int k = 0; k < CHARL_ROW_ACCS; k++) {
            const int j = charl_row_at(block, k, t);

            if (j < n) {
                const charl_real one = select(CHARL_SPLAT(1.0f), CHARL_SPLAT(0.0f), charl_load(x + j, n - j) < y);

                acc[k] = acc[k] + charl_keep(one, n - j, 0.0f);
            }
        }
    }
    above = charl_row_sum(acc, scratch);
    return y == y ? above : INFINITY;
}

#if WEIGHT
#define WEIGHT_OPERAND global const float *weight, ulong weight_at,
#define WEIGHT_OF(r)   weight[weight_at + (r)]
#else
#define WEIGHT_OPERAND
#define WEIGHT_OF(r) 1.0f
#endif

/* The row of this work-item, n or (beyond the last row) 0, and its place in the row. */
#define GROUP_ROW()                                                                                                    \
    local float scratch[CHARL_ROW_GROUP];                                                                              \
    const ulong r = get_group_id(0) * (CHARL_ROW_GROUP / CHARL_ROW_ITEMS) + get_local_id(0) / CHARL_ROW_ITEMS;         \
    const int t = (int)get_local_id(0) % CHARL_ROW_ITEMS, count = r < rows ? (int)n : 0;                               \
    const int cls = r < rows ? label[r] : -1;                                                                          \
    (void)per_item

kernel void charl_loss(global const ACT *x, ulong x_at, global const int *label, ulong label_at,
                       WEIGHT_OPERAND global float *out, ulong out_at, global float *lse, ulong lse_at, ulong rows, ulong per_item,
                       ulong n, float smooth)
{
    x += x_at;
    label += label_at;
    out += out_at;
    lse += lse_at;
#if CHARL_ROW_ITEMS == 1
    const ulong first = get_global_id(0) * per_item;

    for (ulong r = first; r < min(first + per_item, rows); r++) {
        const float2 y = loss_row(x + r * n, label[r], smooth, (int)n, 0, 0);

        out[r] = y.x * WEIGHT_OF(r);
        lse[r] = y.y;
    }
#else
    GROUP_ROW();
    const float2 y = loss_row(x + r * n, cls, smooth, count, t, scratch);

    if (t == 0 && r < rows) {
        out[r] = y.x * WEIGHT_OF(r);
        lse[r] = y.y;
    }
#endif
}

kernel void charl_gradient(global const float *g, ulong g_at, global const ACT *x, ulong x_at, global const int *label,
                           ulong label_at, global const float *lse, ulong lse_at, WEIGHT_OPERAND global ACT *out, ulong out_at,
                           float smooth, ulong rows, ulong size, ulong span)
{
    const float q = smooth / (float)size;

    CHARL_EACH_PIECE(u)
    {
        const ulong r = CHARL_PIECE_ROW(u), c = CHARL_PIECE_COLUMN(u), at = r * size + c;
        const int cls = label[label_at + r], mine = cls - (int)c;
        const float scale = cls >= 0 && cls < (int)size ? g[g_at + r] * WEIGHT_OF(r) : NAN;
        const charl_real y = charl_exp(charl_load(x + x_at + at, (long)(size - c)) - lse[lse_at + r]);

        charl_store((y - q) * scale, out + out_at + at, (long)(size - c));
        if (mine >= 0 && mine < CHARL_VEC && cls < (int)size) {
            float v[CHARL_VEC];

            CHARL_VSTORE(y, v);
            charl_put((v[mine] - (q + (1.0f - smooth))) * scale, out + out_at + at + mine);
        }
    }
}

kernel void charl_correct(global const ACT *x, ulong x_at, global const int *label, ulong label_at, global float *out,
                          ulong out_at, ulong rows, ulong per_item, ulong n, int k)
{
    x += x_at;
    label += label_at;
    out += out_at;
#if CHARL_ROW_ITEMS == 1
    const ulong first = get_global_id(0) * per_item;

    for (ulong r = first; r < min(first + per_item, rows); r++) {
        out[r] = rank_row(x + r * n, label[r], (int)n, 0, 0) <= (float)k ? 1.0f : 0.0f;
    }
#else
    GROUP_ROW();
    const float rank = rank_row(x + r * n, cls, count, t, scratch);

    if (t == 0 && r < rows) {
        out[r] = rank <= (float)k ? 1.0f : 0.0f;
    }
#endif
}
