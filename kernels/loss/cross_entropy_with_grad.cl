/* cross_entropy_with_grad: what cross_entropy.cl and cross_entropy_grad.cl give, while a row is in a cache.
 *
 *   charl_both  loss, lse: charl_loss's.  out: charl_gradient's, given that lse
 *
 * Specialised by   see cross_entropy.clh, cross_entropy_grad.clh and row_weight.clh
 * Launch           as cross_entropy.cl. out may be x.
 * Numerics         those of the two, to the bit
 */
#include "loss/cross_entropy_args.h"
#include "loss/cross_entropy_part.clh"
#include "loss/unaligned_rows.clh"
#include "loss/cross_entropy_shared.clh"
#include "loss/cross_entropy.clh"
#include "loss/cross_entropy_grad.clh"
#include "loss/row_weight.clh"

kernel void charl_both(global const float *g, ulong g_at, global const ACT *x, ulong x_at, global const int *label, ulong label_at,
    WEIGHT_OPERAND(weight) global ACT *out, ulong out_at, global float *loss, ulong loss_at, global float *lse, ulong lse_at, const charl__cross_entropy_numbers p)
{
    const ulong rows = p.rows, per_item = p.per_item, n = p.n;
    const float smooth = p.smooth, z = p.z;
    SHARED part of[CHUNKS ? PARTS : 1];
    const int size = (int)n;
#if CHARL_ROW_ITEMS == 1
    const ulong first = get_global_id(0) * per_item;

    for (ulong r = first; r < min(first + per_item, rows); r++) {
        global const ACT *xr = x + x_at + r * n;
        const int cls = label[label_at + r];
        const float w = WEIGHT_OF(weight, r), logit = logit_of(xr, cls, size);
        const float2 y = loss_of(logit, sums_of((row_place){xr, size, 0}, of, 0), cls, smooth, z, size);
        const target q = target_of(y.y, g[g_at + r] * w, smooth, z, logit, cls, size);

        loss[loss_at + r] = y.x * w;
        lse[lse_at + r] = y.y;
        for (int c = 0; c < size; c += CHARL_VEC) {
            put_gradient(false, charl_load(xr + c, size - c), out + out_at + r * n, c, q);
        }
    }
#else
    local charl_row_scratch scratch;
    const ulong place = CHUNKS ? get_group_id(0) : get_global_id(0) / CHARL_ROW_ITEMS, r = min(place, rows - 1);
    const int t = (int)get_local_id(0) % CHARL_ROW_ITEMS;
    const int item = CHUNKS ? (int)get_local_id(0) : t, step = (CHUNKS ? CHARL_ROW_GROUP : CHARL_ROW_ITEMS) * CHARL_VEC;
    global const ACT *xr = x + x_at + r * n; /* all of a group come: some once more for the last row */
    global ACT *to = out + out_at + r * n;
    const int cls = label[label_at + r];
    const float w = WEIGHT_OF(weight, r), scale = g[g_at + r] * w, logit = logit_of(xr, cls, size);
    const float2 y = loss_of(logit, sums_of(place_of(words_at(xr), xr, size, t), of, &scratch), cls, smooth, z, size);
    const target q = target_of(y.y, scale, smooth, z, logit, cls, size);

    (void)per_item;
    barrier(CLK_GLOBAL_MEM_FENCE); /* all have read what out takes the place of */
    if (place >= rows) {
        return;
    }
    if (item == 0) {
        loss[loss_at + r] = y.x * w;
        lse[lse_at + r] = y.y;
    }
    for (int c = item * CHARL_VEC; c < size + CHARL_VEC; c += VECTORS * step) {
        if (misalignment_of(xr) == misalignment_of(to)) {
            differentiate(true, xr, to, c, step, q);
        } else {
            differentiate(false, xr, to, c, step, q);
        }
    }
#endif
}
