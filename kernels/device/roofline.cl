/* roofline: peak rates of a device, measured by kernels that do nothing else.
 *
 * roofline_copy   dst[i] = src[i], i < all of n vectors
 * roofline_fma    CHAINS independent chains x = x * factor + 1 of `rounds` links in each lane of each work-item, which writes their
 *                sum: 2 * CHAINS * (lanes of V) * rounds flop per work-item
 *
 * Specialised by   V       vector type of both, as wide as the device's registers (float16)
 *                  EACH    vectors that a work-item copies
 *                  CHAINS  enough to hide how long an fma takes, few enough to stay in registers
 * Launch           groups of any size; for the copy of n = groups * size * EACH vectors, neighbours taking neighbouring vectors.
 */
#define V float16
#define EACH 256
#define CHAINS 12

kernel void roofline_copy(global const V *src, ulong src_at, global V *dst, ulong dst_at)
{
    const size_t lanes = get_local_size(0), first = get_group_id(0) * lanes * EACH + get_local_id(0);

    src += src_at;
    dst += dst_at;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        dst[first + (size_t)i * lanes] = src[first + (size_t)i * lanes];
    }
}

kernel void roofline_fma(global V *out, ulong out_at, float factor, int rounds)
{
    V x[CHAINS], sum = (V)(0.0f);

#pragma unroll
    for (int c = 0; c < CHAINS; c++) {
        x[c] = (V)((float)c);
    }
    for (int r = 0; r < rounds; r++) {
#pragma unroll
        for (int c = 0; c < CHAINS; c++) {
            x[c] = fma(x[c], (V)(factor), (V)(1.0f));
        }
    }
#pragma unroll
    for (int c = 0; c < CHAINS; c++) {
        sum += x[c];
    }
    out[out_at + get_global_id(0)] = sum;
}
