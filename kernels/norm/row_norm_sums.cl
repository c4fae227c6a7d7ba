/* row_norm_sums: the sums over rows that are the gradients of layer_norm's and rms_norm's weight and bias.
 *
 *   out[s][b][0][c] = sum over the rows of block b of slice s of g * h, and for layer_norm out[s][b][1][c] = sum of g,
 *   h = (x - mean) * invstd with (mean, invstd) = stat[row]; blocks of `height` rows, whose sums the host adds up with reduce.cl
 *
 * Specialised by   ACT        type of g and x; sums are float
 *                  CENTRED    1 layer_norm, 0 rms_norm (default 1)
 *                  CHARL_VEC  see math.clh
 * Launch           one work-item per block and CHARL_VEC columns.
 * Numerics         row r of a block goes to accumulator r mod 4, then (0 + 2) + (1 + 3).
 */
#define CENTRED 1

/* Columns of `count` rows from `row` on, in memory that has `end` elements from there. Lanes beyond a row hold the next one, and are not
 * written. whole: charl_read's, and count is a multiple of 4. */
static inline void sum_rows(bool whole, global const ACT *g, global const ACT *x, global const float *stat, ulong row, int count,
                            ulong size, ulong end, charl_real *a, charl_real *b)
{
#if CHARL_VEC == 8 /* on CPUs compilers say that they cannot */
#pragma unroll 2
#endif
    for (int r = 0; r < count; r += 4) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            if (whole || r + k < count) {
                const ulong i = row + (ulong)(r + k);
                const long left = (long)(end - i * size);
                const charl_real gi = charl_read(whole, g + i * size, left);
                const charl_real d = charl_read(whole, x + i * size, left) - stat[2 * i];

                a[k] = charl_mad_for(gi, d * stat[2 * i + 1], a[k], sizeof(ACT));
                b[k] = b[k] + gi;
            }
        }
    }
}

kernel void charl_sums(global const ACT *g, ulong g_at, global const ACT *x, ulong x_at, global const float *stat, ulong stat_at,
                       global float *out, ulong out_at, ulong slices, ulong rows, ulong height, ulong size)
{
    const ulong groups = (size + CHARL_VEC - 1) / CHARL_VEC, unit = get_global_id(0) / groups; /* (slice, block) */
    const ulong c = get_global_id(0) % groups * CHARL_VEC;
    const ulong blocks = max((rows + height - 1) / height, (ulong)1), first = unit % blocks * height;
    const ulong row = unit / blocks * rows + first;
    const int count = (int)min(rows - first, height);
    const ulong end = slices * rows * size - c;
    charl_real a[4], b[4];

    if (unit >= slices * blocks) {
        return;
    }
    for (int k = 0; k < 4; k++) {
        a[k] = b[k] = CHARL_SPLAT(0.0f);
    }
    g += g_at + c;
    x += x_at + c;
    stat += stat_at;
    if (CHARL_VEC == 8 && size % 8 == 0 && count % 4 == 0 && CHARL_IS_ALIGNED(g) && CHARL_IS_ALIGNED(x)) {
        sum_rows(true, g, x, stat, row, count, size, end, a, b);
    } else {
        sum_rows(false, g, x, stat, row, count, size, end, a, b);
    }
    out += out_at + unit * (CENTRED ? 2 : 1) * size + c;
    charl_store((a[0] + a[2]) + (a[1] + a[3]), out, (long)(size - c));
#if CENTRED
    charl_store((b[0] + b[2]) + (b[1] + b[3]), out + size, (long)(size - c));
#endif
}
