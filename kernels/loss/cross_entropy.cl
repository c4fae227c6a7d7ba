/* cross_entropy: loss of rows of n logits against a class each.
 *
 *   charl_loss  out[r] = w * (log(s) - (1 - smooth) * (x[label] - m) - smooth / n * sum of (x - m) + z * lse[r]^2)
 *              lse[r] = m + log(s)
 *
 * with m = max of the row, s = sum of exp(x - m), w = weight[r] or 1. A label outside 0 .. n - 1 gives NaN; so does a NaN logit.
 *
 * Specialised by   see cross_entropy.clh and row_weight.clh
 * Launch           src/autograd/launch/rows.c; with CHUNKS and several work-items to a row, a work-group for each row.
 * Numerics         cross_entropy.clh's
 */
#include "loss/cross_entropy_part.clh"
#include "loss/unaligned_rows.clh"
#include "loss/cross_entropy_shared.clh"
#include "loss/cross_entropy.clh"
#include "loss/row_weight.clh"

kernel void charl_loss(global const ACT *x, ulong x_at, global const int *label, ulong label_at,
                       WEIGHT_OPERAND(weight) global float *out, ulong out_at, global float *lse, ulong lse_at, ulong rows, ulong per_item,
                       ulong n, float smooth, float z)
{
    SHARED part of[CHUNKS ? PARTS : 1];
#if CHARL_ROW_ITEMS == 1
    const ulong first = get_global_id(0) * per_item;

    for (ulong r = first; r < min(first + per_item, rows); r++) {
        global const ACT *xr = x + x_at + r * n;
        const int cls = label[label_at + r];
        const float2 y = loss_of(logit_of(xr, cls, (int)n), sums_of((row_place){xr, (int)n, 0}, of, 0), cls, smooth, z, (int)n);

        out[out_at + r] = y.x * WEIGHT_OF(weight, r);
        lse[lse_at + r] = y.y;
    }
#else
    local charl_row_scratch scratch;
    const ulong place = CHUNKS ? get_group_id(0) : get_global_id(0) / CHARL_ROW_ITEMS, r = min(place, rows - 1);
    const int t = (int)get_local_id(0) % CHARL_ROW_ITEMS;
    global const ACT *xr = x + x_at + r * n; /* all of a group come: some once more for the last row */
    const int cls = label[label_at + r];
    const float logit = logit_of(xr, cls, (int)n);
    const part row = sums_of(place_of(words_at(xr), xr, (int)n, t), of, &scratch);

    (void)per_item;
    if (place < rows && (CHUNKS ? (int)get_local_id(0) : t) == 0) {
        const float2 y = loss_of(logit, row, cls, smooth, z, (int)n);

        out[out_at + r] = y.x * WEIGHT_OF(weight, r);
        lse[lse_at + r] = y.y;
    }
#endif
}
