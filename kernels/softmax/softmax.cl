/* softmax: over rows of n elements, and its relatives.
 *
 *   charl_softmax   LOG 0: out = exp(x - m) / s   LOG 1: out = (x - m) - log(s)    m = max of the row, s = sum of exp(x - m)
 *   charl_gradient  y = the output, g = its gradient
 *                   LOG 0: out = y * (g - sum(y * g))   LOG 1: out = g - exp(y) * sum(g)
 *
 * Specialised by   LOG (default 0); ACT; CHARL_VEC, CHARL_ROW_ITEMS, CHARL_ROW_ACCS: see rows.clh
 * Launch           src/autograd/launch/rows.c. out is not an operand.
 * Numerics         fixed order (rows.clh); s >= 1. A NaN, or an infinite maximum, makes the row NaN.
 */
#define LOG 0

/* Exponentials wait in out for their sum, where it holds them exactly. */
#define KEEPS (!LOG && sizeof(ACT) == sizeof(float))

static inline void softmax_row(global const ACT *x, global ACT *out, int n, int t, local charl_row_scratch *scratch)
{
    charl_real acc[CHARL_ROW_ACCS];
    float m, s;

    for (int k = 0; k < CHARL_ROW_ACCS; k++) {
        acc[k] = CHARL_SPLAT(-INFINITY);
    }
    for (int block = 0; block < n; block += CHARL_ROW_WIDTH) {
#pragma unroll
        for (int k = 0; k < CHARL_ROW_ACCS; k++) {
            const int j = charl_row_at(block, k, t);

            if (j < n) {
                acc[k] = charl_maximum(acc[k], charl_keep(charl_load(x + j, n - j), n - j, -INFINITY));
            }
        }
    }
    m = charl_row_max(acc, scratch);
    for (int k = 0; k < CHARL_ROW_ACCS; k++) {
        acc[k] = CHARL_SPLAT(0.0f);
    }
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
    s = charl_row_sum(acc, scratch);
    s = LOG ? charl_lane0(charl_log(CHARL_SPLAT(s))) : 1.0f / s;
    for (int j = t * CHARL_VEC; j < n; j += CHARL_ROW_ITEMS * CHARL_VEC) {
#if LOG
        charl_store(charl_load(x + j, n - j) - m - s, out + j, n - j);
#else
        charl_store((KEEPS ? charl_load(out + j, n - j) : charl_exp(charl_load(x + j, n - j) - m)) * s, out + j, n - j);
#endif
    }
}

static inline void gradient_row(global const ACT *y, global const ACT *g, global ACT *out, int n, int t,
                                local charl_row_scratch *scratch)
{
    charl_real acc[CHARL_ROW_ACCS];
    float s;

    for (int k = 0; k < CHARL_ROW_ACCS; k++) {
        acc[k] = CHARL_SPLAT(0.0f);
    }
    for (int block = 0; block < n; block += CHARL_ROW_WIDTH) {
#pragma unroll
        for (int k = 0; k < CHARL_ROW_ACCS; k++) {
            const int j = charl_row_at(block, k, t);

            if (j < n) {
                const charl_real gj = charl_load(g + j, n - j);

                acc[k] = acc[k] + (LOG ? gj : gj * charl_load(y + j, n - j)); /* absent elements are 0 */
            }
        }
    }
    s = charl_row_sum(acc, scratch);
    for (int j = t * CHARL_VEC; j < n; j += CHARL_ROW_ITEMS * CHARL_VEC) {
        const charl_real gj = charl_load(g + j, n - j), yj = charl_load(y + j, n - j);

        charl_store(LOG ? gj - charl_exp(yj) * s : yj * (gj - s), out + j, n - j);
    }
}

kernel void charl_softmax(global const ACT *x, ulong x_at, global ACT *out, ulong out_at, ulong rows, ulong per_item, ulong n)
{
    x += x_at;
    out += out_at;
    const charl_share mine = charl_share_of(rows, per_item);
    CHARL_ROW_MEMORY(scratch);

    for (ulong i = 0; i < mine.count; i++) {
        const ulong r = mine.first + i;

        softmax_row(x + r * n, out + r * n, r < rows ? (int)n : 0, mine.t, scratch);
    }
}

kernel void charl_gradient(global const ACT *y, ulong y_at, global const ACT *g, ulong g_at, global ACT *out, ulong out_at,
                           ulong rows, ulong per_item, ulong n)
{
    y += y_at;
    g += g_at;
    out += out_at;
    const charl_share mine = charl_share_of(rows, per_item);
    CHARL_ROW_MEMORY(scratch);

    for (ulong i = 0; i < mine.count; i++) {
        const ulong r = mine.first + i;

        gradient_row(y + r * n, g + r * n, out + r * n, r < rows ? (int)n : 0, mine.t, scratch);
    }
}
