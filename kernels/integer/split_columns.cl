/* split_columns: the digits of matrices [k, rows], whose rows are not contiguous along k, in the order of digits.clh. Two kernels: the first
 * finds the largest magnitude of each row in each chunk of k, the second transposes.
 *
 * Specialised by   GROUP   work-items of a group: 1 (default), or a power of two from 64 to 256
 *                  ACT     type of the elements (default float)
 *                  DIGITS  4 (default) or 2
 *                  CHARL_VEC 4
 * Launch           column_largest: a group for 32 rows of a chunk; split_columns: one for 64 rows and 64 of k. Both go by rows, then chunks or k,
 *                  then matrices.
 * Memory           largest[matrix][chunk][row], bits of magnitudes.
 */
#define GROUP 1
#define ACT float
#define DIGITS 4
#include "integer/digits_args.h"
#include "integer/digits.clh"

#define NARROW 32
#define ROWS (GROUP == 1 ? NARROW : 1) /* of a work-item, in charl_column_largest, */
#define STEPS (GROUP == 1 ? 1 : GROUP / NARROW) /* and work-items that share a row */
#define TILE 64

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void charl_column_largest(global const ACT *x, global int *largest, const charl__digits_args n)
{
    local int all[GROUP];
    const int across = (n.rows + NARROW - 1) / NARROW, group = (int)get_group_id(0), lane = (int)get_local_id(0);
    const int row = group % across * NARROW + lane % NARROW, chunk = group / across % n.chunks, matrix = group / across / n.chunks;
    const int end = min(n.k, (chunk + 1) * n.chunk);
    int most[ROWS] = {0};

    x += n.x + matrix * n.outer;
#pragma unroll 4
    for (int l = chunk * n.chunk + lane / NARROW; l < end; l += STEPS) {
        for (int r = 0; r < ROWS; r++) {
            if (row + r < n.rows) {
                most[r] = max(most[r], as_int(fabs(charl_get(x + (long)l * n.rows + row + r))));
            }
        }
    }
    all[lane] = most[0];
    for (int part = GROUP / 2; part >= NARROW; part /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < part) {
            all[lane] = max(all[lane], all[lane + part]);
        }
    }
    most[0] = all[lane];
    if (lane < NARROW) {
        for (int r = 0; r < ROWS && row + r < n.rows; r++) {
            (largest + n.largest)[((long)matrix * n.chunks + chunk) * n.rows + row + r] = most[r];
        }
    }
}

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void charl_split_columns(global const ACT *x, global uchar *to, global const int *largest,
                                                                                   const charl__digits_args n)
{
    local uint tile[TILE][TILE + 1];
    local int scales[TILE];
    const int across = (n.rows + TILE - 1) / TILE, down = (n.pitch + TILE - 1) / TILE, group = (int)get_group_id(0), lane = (int)get_local_id(0);
    const int row0 = group % across * TILE, k0 = group / across % down * TILE, matrix = group / across / down;

    x += n.x + matrix * n.outer;
    for (int r = lane; r < TILE && row0 + r < n.rows; r += GROUP) {
        int most = 0;

        for (int c = 0; c < n.chunks; c++) {
            most = max(most, (largest + n.largest)[((long)matrix * n.chunks + c) * n.rows + row0 + r]);
        }
        scales[r] = scale_of(most);
        if (k0 == 0) {
            ((global int *)(to + n.to))[(long)matrix * n.rows + row0 + r] = scales[r];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    const bool whole = n.rows % 4 == 0 && CHARL_IS_ALIGNED(x);

#pragma unroll 4
    for (int u = lane; u < TILE * TILE / 4; u += GROUP) {
        const int i = u / (TILE / 4), across4 = u % (TILE / 4) * 4; /* of the tile: a place of k, and four rows */
        const int row = row0 + across4, l = k0 + i;
        float v[4] = {0.0f, 0.0f, 0.0f, 0.0f};

        if (row < n.rows && l < n.k) {
            CHARL_VSTORE(charl_read(whole, x + (long)l * n.rows + row, n.rows - row), v);
        }
#pragma unroll
        for (int e = 0; e < 4; e++) {
            tile[across4 + e][i] = row + e < n.rows ? digits_of(v[e], scales[across4 + e]) : 0;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    for (int u = lane; u < TILE * 4; u += GROUP) {
        const int mine = u / 4, first = u % 4 * 16; /* a row of the tile, and 16 of k */
        uint word[4][4];

        if (row0 + mine >= n.rows || k0 + first >= n.pitch) {
            continue;
        }
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const uint four[4] = {tile[mine][first + 4 * e], tile[mine][first + 4 * e + 1], tile[mine][first + 4 * e + 2],
                                  tile[mine][first + 4 * e + 3]};

            words_of_four(four, word[e]);
        }
#pragma unroll
        for (int d = 0; d < DIGITS; d++) {
            const int w = DIGITS - 1 - d;

            *(global uint4 *)(to + n.to + n.head + (((long)matrix * DIGITS + d) * n.rows + row0 + mine) * n.pitch + k0 + first) =
                (uint4)(word[0][w], word[1][w], word[2][w], word[3][w]);
        }
    }
}
