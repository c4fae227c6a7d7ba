/* row_norm_sums: the sums over rows that are the gradients of layer_norm's and rms_norm's weight and bias.
 *
 *   out[s][b][0][c] = sum over the rows of block b of slice s of g * h, and for layer_norm out[s][b][1][c] = sum of g,
 *   h = (x - mean) * invstd with (mean, invstd) = stat[row]; blocks of 64 rows, whose sums the host adds up with reduce.cl
 *
 * Specialised by   ACT        type of g and x; sums are float
 *                  CENTRED    1 layer_norm, 0 rms_norm (default 1)
 *                  CHARL_VEC  see math.clh
 * Launch           one work-item per block and CHARL_VEC columns.
 * Numerics         row r of a block goes to accumulator r mod 4, then (0 + 2) + (1 + 3).
 */
#ifndef CENTRED
#define CENTRED 1
#endif
#define BLOCK 64 /* rows that are added up at once: part of the result */

kernel void charl_sums(global const ACT *g, ulong g_at, global const ACT *x, ulong x_at, global const float *stat, ulong stat_at,
                       global float *out, ulong out_at, ulong slices, ulong rows, ulong size)
{
    const ulong groups = (size + CHARL_VEC - 1) / CHARL_VEC, unit = get_global_id(0) / groups; /* (slice, block) */
    const ulong c = get_global_id(0) % groups * CHARL_VEC, end = slices * rows * size;
    const ulong blocks = max((rows + BLOCK - 1) / BLOCK, (ulong)1), first = unit % blocks * BLOCK;
    const int count = (int)min(rows - first, (ulong)BLOCK);
    const long left = (long)(size - c);
    charl_real a[4], b[4];

    if (unit >= slices * blocks) {
        return;
    }
    for (int k = 0; k < 4; k++) {
        a[k] = b[k] = CHARL_SPLAT(0.0f);
    }
    for (int r = 0; r < count; r += 4) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            if (r + k < count) { /* lanes beyond the row hold the next one, and are not written */
                const ulong row = unit / blocks * rows + first + (ulong)(r + k), i = row * size + c;
                const charl_real gi = charl_load(g + g_at + i, (long)(end - i));
                const charl_real d = charl_load(x + x_at + i, (long)(end - i)) - stat[stat_at + 2 * row];

                a[k] = a[k] + gi * (d * stat[stat_at + 2 * row + 1]);
                b[k] = b[k] + gi;
            }
        }
    }
    out += out_at + unit * (CENTRED ? 2 : 1) * size + c;
    charl_store((a[0] + a[2]) + (a[1] + a[3]), out, left);
#if CENTRED
    charl_store((b[0] + b[2]) + (b[1] + b[3]), out + size, left);
#endif
}
