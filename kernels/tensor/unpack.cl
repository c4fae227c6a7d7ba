/* unpack: out[i] = number i of a packed tensor.
 *
 * Specialised by   FORMAT  of the numbers: see packed.clh
 *                  ACT     type of the output: float (default), ushort for bf16, half
 *                  SPAN    numbers of a work-item, a power of two up to 64
 * Launch           1-D, one work-item per SPAN numbers.
 * Numerics         one rounding to f32, one to the type of the output.
 */
#define FORMAT 3
#define SPAN 8
#include "tensor/packed.clh"

kernel void charl_unpack(global const charl_code *codes, ulong codes_at, global const float *scales, ulong scales_at,
                         global ACT *out, ulong out_at, ulong n)
{
    const ulong first = get_global_id(0) * SPAN, end = min(first + SPAN, n);

    codes += codes_at;
    scales += scales_at;
    out += out_at;
    for (ulong i = first; i < end; i++) {
        charl_put(charl_packed_get(codes, scales, i), out + i);
    }
}
