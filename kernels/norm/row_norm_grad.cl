/* row_norm_grad: the gradient of row_norm.cl's h with respect to x, or of the sum that x is; row_norm_grad.clh has the formula.
 *
 * Specialised by   as row_norm.cl; AFFINE 0: u = g
 *                  EXTRA  1: there is extra (default 0)
 * Launch           src/autograd/launch/rows.c. Mean and deviation are computed again.
 * Numerics         fixed order (rows.clh), two passes for the variance; half types: charl_mad_for, and `total` of row_norm.clh.
 */
#if KEEP
#include "norm/pack_half.clh"
#endif
#include "norm/row_norm.clh"
#include "norm/row_norm_grad.clh"

CHARL_INLINE void differentiate(bool whole, const row r)
{
    const int n = r.n, t = r.t;
    line one, *l = &one;
    float4 s;

    fetch(whole, r, l);
    fetch_extra(whole, r, l);
    s = means(whole, r, l);
    if (!r.exists) {
        return;
    }
    EACH(i, j, k, n, t)
    {
        const charl_real u = weighted(whole, r, gradient_of(whole, r, l, i, j), j);

        (void)k;
        write_gradient(whole, r, l, i, j, u, normal_of(whole, r, l, i, j, s.xy), s);
    }
}

kernel void charl_gradient(global const ACT *g, ulong g_at, global const ACT *x, ulong x_at, global const float *w,
                           ulong w_at, EXTRA_OPERAND(extra) global ACT *out, ulong out_at, ulong rows, ulong per_item,
                           ulong size, float eps)
{
    const charl_share mine = charl_share_of(rows, per_item);
    CHARL_ROW_MEMORY(scratch);

    for (ulong i = 0; i < mine.count; i++) {
        const ulong r = mine.first + i;
        const ulong at = begin_of(r, rows, size);
        const row one = {.x = x + x_at + at, .g = g + g_at + at, .w = AFFINE > 0 ? w + w_at : 0, .out = out + out_at + at,
                         .extra = EXTRA_AT(extra, at), .n = (int)size, .t = mine.t, .exists = r < rows, .eps = eps, .scratch = scratch};

        if (is_whole(one, size)) {
            differentiate(true, one);
        } else {
            differentiate(false, one);
        }
    }
}
