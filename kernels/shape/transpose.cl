/* transpose: out = x with its extents in another order.
 *
 *   charl_swap     x [outer, rows, cols] -> out [outer, cols, rows], in tiles of 16 x 16, one to a work-item
 *   charl_swap_local  the same in tiles of 32 x 32 through local memory, one to a group of 256
 *   charl_permute  any order of up to 6 extents: see permute_args.h
 *
 * Specialised by   T  element type, of the right size (default uint)
 * Launch           swap: 1-D, one work-item or group per tile. permute: 1-D, one work-item per `span` elements of out.
 * Numerics         exact.
 */
#include "shape/permute_args.h"

#define T uint
#define TILE  16
#define LTILE 32

kernel void charl_swap(global const T *x, ulong x_at, global T *out, ulong out_at, ulong outer, ulong rows, ulong cols)
{
    const ulong tiles_r = (rows + TILE - 1) / TILE, tiles_c = (cols + TILE - 1) / TILE, u = get_global_id(0);
    const ulong o = u / (tiles_r * tiles_c), r0 = u / tiles_c % tiles_r * TILE, c0 = u % tiles_c * TILE;
    const int height = (int)min(rows - r0, (ulong)TILE), width = (int)min(cols - c0, (ulong)TILE);
    T tile[TILE * TILE];

    if (o >= outer) {
        return;
    }
    x += x_at + o * rows * cols + r0 * cols + c0;
    out += out_at + o * rows * cols + c0 * rows + r0;
    if (height == TILE && width == TILE) { /* every line of memory is touched once */
        for (int r = 0; r < TILE; r++) {
            CHARL_GLUE(vstore, TILE)(CHARL_GLUE(vload, TILE)(0, x + (ulong)r * cols), r, tile);
        }
        for (int c = 0; c < TILE; c++) {
            T column[TILE];

            for (int r = 0; r < TILE; r++) {
                column[r] = tile[r * TILE + c];
            }
            CHARL_GLUE(vstore, TILE)(CHARL_GLUE(vload, TILE)(0, column), 0, out + (ulong)c * rows);
        }
        return;
    }
    for (int c = 0; c < width; c++) {
        for (int r = 0; r < height; r++) {
            out[(ulong)c * rows + (ulong)r] = x[(ulong)r * cols + (ulong)c];
        }
    }
}

kernel void charl_swap_local(global const T *x, ulong x_at, global T *out, ulong out_at, ulong rows, ulong cols)
{
    local T tile[LTILE * (LTILE + 1)]; /* one more column, so that a column's elements lie in different banks */
    const ulong tiles_r = (rows + LTILE - 1) / LTILE, tiles_c = (cols + LTILE - 1) / LTILE, u = get_group_id(0);
    const ulong o = u / (tiles_r * tiles_c), r0 = u / tiles_c % tiles_r * LTILE, c0 = u % tiles_c * LTILE;
    const int i = (int)get_local_id(0) % LTILE, first = (int)get_local_id(0) / LTILE;

    x += x_at + o * rows * cols;
    out += out_at + o * rows * cols;
    for (int r = first; r < LTILE; r += 256 / LTILE) {
        if (r0 + (ulong)r < rows && c0 + (ulong)i < cols) {
            tile[r * (LTILE + 1) + i] = x[(r0 + (ulong)r) * cols + c0 + (ulong)i];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int c = first; c < LTILE; c += 256 / LTILE) {
        if (c0 + (ulong)c < cols && r0 + (ulong)i < rows) {
            out[(c0 + (ulong)c) * rows + r0 + (ulong)i] = tile[i * (LTILE + 1) + c];
        }
    }
}

kernel void charl_permute(global const T *x, ulong x_at, global T *out, ulong out_at, const charl__permute_args p)
{
    const ulong first = get_global_id(0) * p.span, end = min(first + p.span, p.n);

    for (ulong i = first; i < end;) { /* a run of the last extent at a time */
        ulong u = i / p.extent[5], j = i - u * p.extent[5], from = 0;
        const ulong run = min(p.extent[5] - j, end - i);

#pragma unroll
        for (int d = 4; d > 0; d--) {
            from += u % p.extent[d] * p.step[d];
            u /= p.extent[d];
        }
        from += u * p.step[0];
        for (ulong k = 0; k < run; k++) {
            out[out_at + i + k] = x[x_at + from + (j + k) * p.step[5]];
        }
        i += run;
    }
}
