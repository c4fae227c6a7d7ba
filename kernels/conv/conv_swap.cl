/* conv_swap: matrices of 16-bit elements transposed, with rows of other lengths: images between [c, pixels] and channels-last,
 * [pixels, padded c], and weights likewise.
 *
 *   out[b][j][i] = i < rows ? x[b][i][j] : 0    i < to_ld, j < cols; x [batch, rows, from_ld], out [batch, cols, to_ld]
 *
 *   charl_swap_padded  in groups of 256 work-items, one per tile of 64 x 64
 *   charl_swap_few     for rows <= to_ld = 8: one work-item per column, `count` in all
 *
 * Launch           1-D.
 * Numerics         exact.
 */
#define TILE 64
#define LANES 256
#define LINE (TILE + 2) /* 33 words: neighbours in a column lie in different banks */

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void charl_swap_padded(global const ushort *x, ulong x_at,
                                                                                 global ushort *out, ulong out_at, ulong rows,
                                                                                 ulong cols, ulong from_ld, ulong to_ld)
{
    local ushort tile[TILE * LINE];
    const ulong down = (to_ld + TILE - 1) / TILE, across = (cols + TILE - 1) / TILE, group = get_group_id(0);
    const ulong b = group / (down * across), i0 = group / across % down * TILE, j0 = group % across * TILE;
    const uint t = (uint)get_local_id(0) % TILE, first = (uint)get_local_id(0) / TILE;

    x += x_at + (b * rows + i0) * from_ld + j0;
    out += out_at + (b * cols + j0) * to_ld + i0;
#pragma unroll
    for (uint i = first; i < TILE; i += LANES / TILE) {
        tile[i * LINE + t] = i0 + i < rows && j0 + t < cols ? x[i * from_ld + t] : (ushort)0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (uint j = first; j < TILE; j += LANES / TILE) {
        if (j0 + j < cols && i0 + t < to_ld) {
            out[j * to_ld + t] = tile[t * LINE + j];
        }
    }
}

kernel void charl_swap_few(global const ushort *x, ulong x_at, global ushort *out, ulong out_at, ulong rows, ulong cols,
                           ulong from_ld, ulong count)
{
    const ulong i = get_global_id(0);
    ushort v[8] = {0, 0, 0, 0, 0, 0, 0, 0};

    if (i >= count) {
        return;
    }
    x += x_at + i / cols * rows * from_ld + i % cols;
#pragma unroll
    for (ulong k = 0; k < 8; k++) {
        v[k] = k < rows ? x[k * from_ld] : (ushort)0;
    }
    *(global uint4 *)(out + out_at + i * 8) = as_uint4(vload8(0, v)); /* channels-last images begin at multiples of 16 bytes */
}
