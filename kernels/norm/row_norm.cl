/* row_norm: rows of n elements, h = (x - mean) * invstd. layer_norm: with the row's mean, invstd = 1 / sqrt(variance + eps);
 * rms_norm: mean is 0 and invstd = 1 / sqrt(mean of x^2 + eps).
 *
 *   charl_normalize  out = h * w + b; with ADD, x being x + y, and sum = x + y
 *   charl_stats      out[r] = (mean, invstd)
 *
 * Specialised by   ACT      type of x, y, sum and out; w, b and all sums over rows are float
 *                  CENTRED  1 layer_norm, 0 rms_norm (default 1)
 *                  AFFINE   0 neither w nor b, 1 w, 2 both (default 0)
 *                  ADD      1: charl_normalize has y and sum (default 0)
 *                  KEEP     blocks of CHARL_ROW_WIDTH that cover a row, whose elements a work-item then reads once and keeps; 0: it
 *                           reads them each time (default 0)
 *                  FETCH_AHEAD 1: w and b are not in the cache; 2: and no launch writes them: they are fetched before earlier launches
 *                           have ended (default 0)
 *                  CHARL_VEC, CHARL_ROW_ITEMS, CHARL_ROW_ACCS: see rows.clh
 * Launch           src/autograd/launch/rows.c.
 * Numerics         fixed order (rows.clh), two passes for the variance. A sum x + y is normalised before it is rounded to ACT.
 */
#if KEEP > 0 && !ADD /* what is not added need not be kept as numbers */
#include "norm/pack_half.clh"
#endif
#include "norm/row_norm.clh"

#define FETCH_AHEAD 0
#define FETCH_LINE  32 /* floats of a line of the cache */

/* Mean and inverse standard deviation of a row; what is kept of it, where KEEP. */
CHARL_INLINE float2 read_row(bool whole, const row r, piece *kept)
{
#if KEEP
    const int n = r.n, t = r.t;

    ALL(i, j, whole, n, t)
    {
        const int at = place(whole, j, n);

#if ADD
        kept[i] = value(whole, r.x, r.y, at, n);
#else
        kept[i] = charl_pack(whole, r.x + at, n - at);
#endif
    }
#endif
    return stats(whole, kept, r);
}

/* What is read after the sums, before they are formed. */
CHARL_INLINE void fetch_ahead(const row r)
{
    if (FETCH_AHEAD > 1) {
        charl_begin_next();
    }
    for (int j = r.t * FETCH_LINE; FETCH_AHEAD && j < r.n; j += CHARL_ROW_ITEMS * FETCH_LINE) {
        if (AFFINE > 0) {
            charl_prefetch(r.w + j);
        }
        if (AFFINE > 1) {
            charl_prefetch(r.b + j);
        }
    }
    if (FETCH_AHEAD > 1) {
        charl_await_earlier();
    }
}

CHARL_INLINE void normalize(bool whole, const row r)
{
    const int n = r.n, t = r.t;
    piece kept[KEEP + 1];
    float2 s;

    fetch_ahead(r);
    s = read_row(whole, r, kept);

    if (!r.exists) {
        return;
    }
    EACH(i, j, k, n, t)
    {
        (void)k;
        const charl_real v = KEPT(kept, i, value(whole, r.x, r.y, j, n));
        charl_real h = (v - s.x) * s.y;

        if (AFFINE > 0) {
            h = h * charl_read(whole, r.w + j, n - j);
        }
        if (AFFINE > 1) {
            h = h + charl_read(whole, r.b + j, n - j);
        }
        charl_write(whole, h, r.out + j, n - j);
        if (ADD) {
            charl_write(whole, v, r.sum + j, n - j); /* last: sum may be an operand's memory */
        }
    }
}

kernel void charl_normalize(global const ACT *x, ulong x_at,
#if ADD
                            global const ACT *y, ulong y_at,
#endif
                            global const float *w, ulong w_at, global const float *b, ulong b_at,
#if ADD
                            global ACT *sum, ulong sum_at,
#endif
                            global ACT *out, ulong out_at, ulong rows, ulong per_item, ulong size, float eps)
{
    const charl_share mine = charl_share_of(rows, per_item);
    CHARL_ROW_MEMORY(scratch);

    for (ulong i = 0; i < mine.count; i++) {
        const ulong r = mine.first + i;
        const ulong at = begin_of(r, rows, size);
        const row one = {.x = x + x_at + at, .w = AFFINE > 0 ? w + w_at : 0, .b = AFFINE > 1 ? b + b_at : 0, .out = out + out_at + at,
#if ADD
                         .y = y + y_at + at, .sum = sum + sum_at + at,
#endif
                         .n = (int)size, .t = mine.t, .exists = r < rows, .eps = eps, .scratch = scratch};

        if (is_whole(one, size)) {
            normalize(true, one);
        } else {
            normalize(false, one);
        }
    }
}

kernel void charl_stats(global const ACT *x, ulong x_at, global float *out, ulong out_at, ulong rows, ulong per_item, ulong size,
                        float eps)
{
    const charl_share mine = charl_share_of(rows, per_item);
    CHARL_ROW_MEMORY(scratch);

    for (ulong i = 0; i < mine.count; i++) {
        const ulong r = mine.first + i;
        const row one = {.x = x + x_at + begin_of(r, rows, size), .n = (int)size, .t = mine.t, .exists = r < rows, .eps = eps, .scratch = scratch};
        piece kept[KEEP + 1];
        const float2 s = is_whole(one, size) ? read_row(true, one, kept) : read_row(false, one, kept);

        if (one.exists && mine.t == 0) {
            out[out_at + 2 * r] = s.x;
            out[out_at + 2 * r + 1] = s.y;
        }
    }
}
