/* fourier: numbers as sines and cosines of rising frequency; see src/autograd/op/elementwise/fourier.c.
 *
 *   out[.., i, k] = sin(2^k pi x[.., i]) for k < octaves, cos(2^(k - octaves) pi x[.., i]) for the others
 *
 * Specialised by   ACT  type of x and out
 * Launch           span elements for each work-item.
 * Numerics         the fraction of a turn is exact; then 2 ulp.
 */
kernel void charl_fourier(global const ACT *x, ulong x_at, global ACT *out, ulong out_at, int octaves, ulong n,
                          ulong span)
{
    const ulong begin = get_global_id(0) * span, end = min(begin + span, n);

    for (ulong i = begin; i < end; i++) {
        const int k = (int)(i % (ulong)(2 * octaves));
        const int octave = k < octaves ? k : k - octaves;
        float quarters = charl_get(x + x_at + i / (ulong)(2 * octaves)) * as_float((uint)(octave + 128) << 23), whole;
        float sine, cosine;

        quarters -= 4.0f * floor(0.25f * quarters);
        whole = charl_rint(quarters);
        charl_sincos((quarters - whole) * 0x1.921fb6p+0f, (int)whole, &sine, &cosine);
        charl_put(k < octaves ? sine : cosine, out + out_at + i);
    }
}
