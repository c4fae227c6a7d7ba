/* top_k_correct: whether a row's class is among the largest of its n logits.
 *
 *   out[r] = 1 if at most k elements, the label's included, are not below x[label], else 0; 0 for a label outside 0 .. n - 1 or NaN there
 *
 * Specialised by   ACT  CHARL_VEC  CHARL_ROW_ITEMS  CHARL_ROW_ACCS  see rows.clh
 * Launch           src/autograd/launch/rows.c.
 * Numerics         counts, exact up to 2^24 elements.
 */
/* How many elements are not below x[label]: NaNs count. */
static inline float rank_row(global const ACT *x, int label, int n, int t, local charl_row_scratch *scratch)
{
    const float y = label >= 0 && label < n ? charl_get(x + label) : NAN;
    charl_real acc[CHARL_ROW_ACCS];
    float above;

    for (int k = 0; k < CHARL_ROW_ACCS; k++) {
        acc[k] = CHARL_SPLAT(0.0f);
    }
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

kernel void charl_top_k_correct(global const ACT *x, ulong x_at, global const int *label, ulong label_at, global float *out,
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
    local charl_row_scratch scratch;
    const ulong r = get_global_id(0) / CHARL_ROW_ITEMS;
    const int t = (int)get_local_id(0) % CHARL_ROW_ITEMS, count = r < rows ? (int)n : 0;
    const int cls = r < rows ? label[r] : -1;
    const float rank = rank_row(x + r * n, cls, count, t, &scratch);

    (void)per_item;
    if (t == 0 && r < rows) {
        out[r] = rank <= (float)k ? 1.0f : 0.0f;
    }
#endif
}
