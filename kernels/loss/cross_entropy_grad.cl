/* cross_entropy_grad: gradient of cross_entropy.cl's loss.
 *
 *   out[r, c] = g * w * ((1 + 2 z lse[r]) exp(x[c] - lse[r]) - q[c]),  w = weight[r] or 1,
 *                                                           q[c] = (1 - smooth if c is the label) + smooth / n
 *
 * A label outside 0 .. n - 1 gives NaN; so does a NaN logit.
 *
 * Specialised by   see cross_entropy_grad.clh and row_weight.clh; CHARL_ROW_ITEMS: see rows.clh
 * Launch           src/autograd/launch/rows.c; where work-items share rows, a work-group for each of `stretches` equal parts of a row, whose
 *                  work-items take vectors in turn. out may be x.
 * Numerics         each element by itself; exp: charl_exp_less.
 */
#include "loss/cross_entropy_args.h"
#include "loss/cross_entropy_part.clh"
#include "loss/unaligned_rows.clh"
#include "loss/cross_entropy_grad.clh"
#include "loss/row_weight.clh"

kernel void charl_gradient(global const float *g, ulong g_at, global const ACT *x, ulong x_at, global const int *label,
                           ulong label_at, global const float *lse, ulong lse_at, WEIGHT_OPERAND(weight) global ACT *out, ulong out_at,
                           const charl__cross_entropy_numbers p)
{
    const ulong rows = p.rows, per_item = p.per_item, stretches = p.stretches, size = p.n;

#if CHARL_ROW_ITEMS == 1
    const ulong begin = get_global_id(0) * per_item, end = min(begin + per_item, rows);
#else
    const ulong begin = get_group_id(0) / stretches, end = begin + 1;
    const int step = CHARL_ROW_GROUP * CHARL_VEC;
    const int first = (int)(get_group_id(0) % stretches) * VECTORS * step + (int)get_local_id(0) * CHARL_VEC;
#endif

    for (ulong i = begin; i < end; i++) {
        global const ACT *xi = x + x_at + i * size;
        global ACT *to = out + out_at + i * size;
        const int cls = label[label_at + i];
        const float logit = logit_of(xi, cls, (int)size); /* only one that has not been overwritten is used */
        const target r = target_of(lse[lse_at + i], g[g_at + i] * WEIGHT_OF(weight, i), p.smooth, p.z, logit, cls, (int)size);

#if CHARL_ROW_ITEMS == 1
        for (int c = 0; c < r.size; c += CHARL_VEC) {
            put_gradient(false, charl_load(xi + c, r.size - c), to, c, r);
        }
#else
        if (misalignment_of(xi) == misalignment_of(to)) {
            differentiate(true, xi, to, first, step, r);
        } else {
            differentiate(false, xi, to, first, step, r);
        }
#endif
    }
    (void)per_item, (void)stretches, (void)rows;
}
