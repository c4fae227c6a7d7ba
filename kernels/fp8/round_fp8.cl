/* round_fp8: out = x rounded to fp8, with a power of two as the scale of each block of 128 x 128, as numbers of the type of x.
 *
 * Specialised by   GROUP           work-items of a block: 1 (default), or 256 with CHARL_VEC = 8
 *                  ACT, CHARL_VEC; FORMAT of fp8.clh
 * Launch           1-D, GROUP work-items for each block of x [matrices, rows, columns]. Blocks begin with a matrix; the last ones are smaller.
 * Numerics         src/autograd/op/linear/fp8.c. Exact, so that no bit depends on the order; with such scales the numbers are exact in bf16.
 */
#define GROUP 1
#define BLOCK 128
#define LANES (GROUP == 1 ? 1 : BLOCK / CHARL_VEC) /* of a row */
#include "fp8/fp8.clh"

static inline int largest_lane(charl_int bits)
{
    int v[CHARL_VEC], largest = 0;

    CHARL_VSTORE(bits, v);
    for (int j = 0; j < CHARL_VEC; j++) {
        largest = max(largest, v[j]);
    }
    return largest;
}

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void charl_round_fp8(CHARL_ARGS(const ACT, x), CHARL_ARGS(ACT, out), int rows,
                                                                               int columns)
{
    const int across = (columns + BLOCK - 1) / BLOCK, down = (rows + BLOCK - 1) / BLOCK, lane = (int)get_local_id(0);
    const ulong block = get_group_id(0), matrix = block / (ulong)(across * down);
    const int place = (int)(block - matrix * (ulong)(across * down));
    const int row = place / across * BLOCK, column = place % across * BLOCK;
    const int end = min(BLOCK, rows - row), width = min(BLOCK, columns - column);
    const ulong at = (matrix * (ulong)rows + (ulong)row) * (ulong)columns + (ulong)column;
    charl_int bits = (charl_int)(0);
    int s;

    x += x_at + at;
    out += out_at + at;
    for (int i = lane / LANES; i < end; i += GROUP / LANES) {
        for (int j = lane % LANES * CHARL_VEC; j < width; j += LANES * CHARL_VEC) {
            bits = max(bits, fp8_finite_bits(charl_load(x + (ulong)i * columns + j, width - j)));
        }
    }
    s = largest_lane(bits);
#if GROUP > 1
    local int largest[GROUP];

    largest[lane] = s;
    for (int half_of = GROUP / 2; half_of > 0; half_of /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < half_of) {
            largest[lane] = max(largest[lane], largest[lane + half_of]);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    s = largest[0];
#endif
    s = fp8_scale(s);
    for (int i = lane / LANES; i < end; i += GROUP / LANES) {
        for (int j = lane % LANES * CHARL_VEC; j < width; j += LANES * CHARL_VEC) {
            const ulong e = (ulong)i * columns + j;

            charl_store(fp8_round(charl_load(x + e, width - j), s) * fp8_power(-s), out + e, width - j);
        }
    }
}
