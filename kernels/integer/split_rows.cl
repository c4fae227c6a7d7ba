/* split_rows: the digits of matrices whose rows are contiguous along k: see digits.clh.
 *
 * Specialised by   GROUP           work-items of a row: 1 (default), or a power of two
 *                  ACT             type of the elements (default float)
 *                  DIGITS          4 (default) or 2
 *                  CHARL_VEC 4
 * Launch           1-D, GROUP work-items for each row of each matrix.
 */
#define GROUP 1
#define ACT float
#define DIGITS 4
#include "integer/digits_args.h"
#include "integer/digits.clh"

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void charl_split_rows(global const ACT *x, global uchar *to, const charl__digits_args n)
{
    const int row = (int)(get_group_id(0) % (ulong)n.rows), matrix = (int)(get_group_id(0) / (ulong)n.rows), lane = (int)get_local_id(0);
    global uint *words = (global uint *)(to + n.to + n.head) + ((long)matrix * DIGITS * n.rows + row) * (n.pitch / 4);
    bool whole;
    int largest = 0, scale;

    x += n.x + matrix * n.outer + (long)row * n.k;
    whole = n.k % 4 == 0 && CHARL_IS_ALIGNED(x);
    for (int j = 4 * lane; j < n.k; j += 4 * GROUP) {
        float v[4];

        CHARL_VSTORE(charl_read(whole, x + j, n.k - j), v);
        for (int e = 0; e < 4; e++) {
            largest = max(largest, as_int(fabs(v[e])));
        }
    }
#if GROUP > 1
    local int all[GROUP];

    all[lane] = largest;
    for (int part = GROUP / 2; part > 0; part /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < part) {
            all[lane] = max(all[lane], all[lane + part]);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    largest = all[0];
#endif
    scale = scale_of(largest);
    if (lane == 0) {
        ((global int *)(to + n.to))[(long)matrix * n.rows + row] = scale;
    }
    for (int j = 4 * lane; j < n.pitch; j += 4 * GROUP) {
        float v[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        uint digits[4], word[4];

        if (j < n.k) {
            CHARL_VSTORE(charl_read(whole, x + j, n.k - j), v);
        }
        for (int e = 0; e < 4; e++) {
            digits[e] = digits_of(v[e], scale);
        }
        words_of_four(digits, word);
        for (int d = 0; d < DIGITS; d++) {
            words[(long)d * n.rows * (n.pitch / 4) + j / 4] = word[DIGITS - 1 - d];
        }
    }
}
