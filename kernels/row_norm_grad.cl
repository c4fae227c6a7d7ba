/* row_norm_grad: the gradient of row_norm.cl's h with respect to x, or of the sum that x is.
 *
 *   charl_gradient  out = invstd * (u - mean(u) - h * mean(u * h)), u = g * w, without mean(u) for rms_norm; with EXTRA, plus extra
 *
 * Specialised by   as row_norm.cl; AFFINE 0: u = g
 *                  EXTRA  1: there is extra (default 0)
 * Launch           src/autograd/rows.c. Mean and deviation are computed again.
 * Numerics         fixed order (rows.clh), two passes for the variance.
 */
#ifndef EXTRA
#define EXTRA 0
#endif
#include "row_norm.clh"

/* u */
static inline charl_real slope_of(bool whole, const row r, int j)
{
    charl_real u = charl_read(whole, r.g + j, r.n - j); /* absent elements are 0 */

#if AFFINE > 0
    u = u * charl_read(whole, r.w + j, r.n - j);
#endif
    return u;
}

static inline __attribute__((always_inline)) void differentiate(bool whole, const row r)
{
    const int n = r.n, t = r.t;
    charl_real a[CHARL_ROW_ACCS], b[CHARL_ROW_ACCS], kept[KEEP + 1], slope[KEEP + 1];
    float s0 = 0.0f, s1;
    float2 s;

#define U(i, j) KEPT(slope, i, slope_of(whole, r, j))
#define H(i, j) ((KEPT(kept, i, charl_read(whole, r.x + (j), n - (j))) - s.x) * s.y)
#if KEEP
    ALL(i, j)
    {
        kept[i] = charl_read(whole, r.x + PLACE(j), n - j);
        slope[i] = slope_of(whole, r, PLACE(j));
    }
#endif
    s = stats(whole, kept, r);
    clear(a);
    clear(b);
    EACH(i, j, k)
    {
#if CENTRED
        a[k] = a[k] + U(i, j);
#endif
        b[k] = b[k] + (whole ? U(i, j) * H(i, j) : charl_keep(U(i, j) * H(i, j), n - j, 0.0f));
    }
#if CENTRED
    s0 = charl_row_sum(a, r.scratch) / (float)n;
#endif
    s1 = charl_row_sum(b, r.scratch) / (float)n;
    (void)kept, (void)slope;
    if (!r.exists) {
        return;
    }
    EACH(i, j, k)
    {
        charl_real v = s.y * (U(i, j) - s0 - H(i, j) * s1);

#if EXTRA
        v = v + charl_read(whole, r.extra + j, n - j);
#endif
        charl_write(whole, v, r.out + j, n - j);
    }
}

#if EXTRA
#define AND_EXTRA   global const ACT *extra, ulong extra_at,
#define EXTRA_OF(r) extra + extra_at + AT_ROW(r)
#else
#define AND_EXTRA
#define EXTRA_OF(r) 0
#endif

kernel void charl_gradient(global const ACT *g, ulong g_at, global const ACT *x, ulong x_at, global const float *w, ulong w_at,
                           AND_EXTRA global ACT *out, ulong out_at, ulong rows, ulong per_item, ulong size, float eps)
{
    ROWS(r)
    {
        const row one = {.x = x + x_at + AT_ROW(r), .g = g + g_at + AT_ROW(r), .extra = EXTRA_OF(r), .w = AFFINE > 0 ? w + w_at : 0,
                         .out = out + out_at + AT_ROW(r), .n = (int)size, .t = t, .exists = r < rows, .eps = eps, .scratch = scratch};

        if (is_whole(one, size)) {
            differentiate(true, one);
        } else {
            differentiate(false, one);
        }
    }
}
