/* cross_entropy: loss of rows of n logits against a class each, its gradient, and whether the class is among the largest.
 *
 *   charl_loss      out[r] = w * (log(s) - (1 - smooth) * (charl_get(x + label) - m) - smooth / n * sum of (x - m))
 *   charl_gradient  out[r, c] = g * w * (exp(x[c] - m) / s - q[c]),  q[c] = (1 - smooth if c is the label) + smooth / n
 *   charl_correct   out[r] = 1 if at most k elements, the label's included, are not below x[label], else 0
 *
 * with m = max of the row, s = sum of exp(x - m), w = weight[r] or 1. A label outside 0 .. n - 1 gives NaN, or 0 for charl_correct;
 * so does a NaN logit.
 *
 * Specialised by   WEIGHT     1: there is a weight operand (default 0)
 *                  SMOOTHING  1: smooth is not 0 (default 0)
 *                  ACT        type of the logits and of their gradient; everything else is float
 *                  CHARL_VEC  CHARL_ROW_ITEMS  CHARL_ROW_ACCS  see rows.clh
 * Launch           src/autograd/rows.c. out is not an operand.
 * Numerics         fixed order (rows.clh).
 */
#ifndef WEIGHT
#define WEIGHT 0
#endif
#ifndef SMOOTHING
#define SMOOTHING 0
#endif

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

static inline float loss_row(global const ACT *x, int label, float smooth, int n, int t, local float *scratch)
{
    const float m = row_maximum(x, n, t, scratch);
    charl_real acc[CHARL_ROW_ACCS];
    float y;

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
    return label >= 0 && label < n ? y - (1.0f - smooth) * (charl_get(x + label) - m) : NAN;
}

/* Exponentials wait in out for their sum, where it holds them exactly. */
#define KEEPS (sizeof(ACT) == sizeof(float))

static inline void gradient_row(global const ACT *x, int label, float g, float smooth, global ACT *out, int n, int t,
                                local float *scratch)
{
    const float m = row_maximum(x, n, t, scratch);
    charl_real acc[CHARL_ROW_ACCS];
    const bool valid = label >= 0 && label < n;
    const bool mine = valid && label / CHARL_VEC % CHARL_ROW_ITEMS == t;
    const float q = smooth / (float)n;
    float inverse, at_label;

    clear(acc, 0.0f);
    for (int block = 0; block < n; block += CHARL_ROW_WIDTH) {
#pragma unroll
        for (int k = 0; k < CHARL_ROW_ACCS; k++) {
            const int j = charl_row_at(block, k, t);

            if (j < n) {
                const charl_real y = charl_exp(charl_load(x + j, n - j) - m);

                if (KEEPS) {
                    charl_store(y, out + j, n - j);
                }
                acc[k] = acc[k] + charl_keep(y, n - j, 0.0f);
            }
        }
    }
    inverse = 1.0f / charl_row_sum(acc, scratch);
    at_label = !mine ? 0.0f : KEEPS ? charl_get(out + label) : charl_lane0(charl_exp(CHARL_SPLAT(charl_get(x + label) - m)));
    g = valid ? g : NAN;
    for (int j = t * CHARL_VEC; j < n; j += CHARL_ROW_ITEMS * CHARL_VEC) {
        const charl_real y = KEEPS ? charl_load(out + j, n - j) : charl_exp(charl_load(x + j, n - j) - m);

        charl_store((y * inverse - q) * g, out + j, n - j);
    }
    if (mine) {
        charl_put((at_label * inverse - (q + (1.0f - smooth))) * g, out + label);
    }
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
                       WEIGHT_OPERAND global float *out, ulong out_at, ulong rows, ulong per_item, ulong n, float smooth)
{
    x += x_at;
    label += label_at;
    out += out_at;
#if CHARL_ROW_ITEMS == 1
    const ulong first = get_global_id(0) * per_item;

    for (ulong r = first; r < min(first + per_item, rows); r++) {
        out[r] = loss_row(x + r * n, label[r], smooth, (int)n, 0, 0) * WEIGHT_OF(r);
    }
#else
    GROUP_ROW();
    const float y = loss_row(x + r * n, cls, smooth, count, t, scratch);

    if (t == 0 && r < rows) {
        out[r] = y * WEIGHT_OF(r);
    }
#endif
}

kernel void charl_gradient(global const float *g, ulong g_at, global const ACT *x, ulong x_at, global const int *label,
                           ulong label_at, WEIGHT_OPERAND global ACT *out, ulong out_at, ulong rows, ulong per_item, ulong n,
                           float smooth)
{
    g += g_at;
    x += x_at;
    label += label_at;
    out += out_at;
#if CHARL_ROW_ITEMS == 1
    const ulong first = get_global_id(0) * per_item;

    for (ulong r = first; r < min(first + per_item, rows); r++) {
        gradient_row(x + r * n, label[r], g[r] * WEIGHT_OF(r), smooth, out + r * n, (int)n, 0, 0);
    }
#else
    GROUP_ROW();

    gradient_row(x + r * n, cls, r < rows ? g[r] * WEIGHT_OF(r) : 0.0f, smooth, out + r * n, count, t, scratch);
#endif
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
