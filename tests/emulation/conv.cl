/* conv_mma.cl for a caller in C: compilers do not agree on how vectors are passed once registers are used up. */
#include "nvidia/conv/conv_mma.cl"

/* pairs: image, taps, grid, step, shift, tap, w_step, out_extent, out_step, out_place. */
void ENTRY(global const ACT *a, ulong a_at, global const ACT *b, ulong b_at, global const float *bias, ulong bias_at,
           global OUT_T *out, ulong out_at, int m, int n, int k, int tiles, int chunks, int ld, int w_first,
           const int2 *pairs)
{
    conv_mma(a, a_at, b, b_at, bias, bias_at, out, out_at, m, n, k, tiles, chunks, ld, pairs[0], pairs[1], pairs[2],
             pairs[3], pairs[4], pairs[5], w_first, pairs[6], pairs[7], pairs[8], pairs[9]);
}
