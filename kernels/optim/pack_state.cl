/* pack_state: packs n numbers of a state that an update has left in f32.
 *
 * Rounding is stochastic: up or down at random, with the value as its mean. Rounded to the nearest, a mean that moves by a thousandth in a
 * step (beta2 = 0.999) would never move, as neighbouring codes are further apart. The random bits are a hash of the number and the step, so
 * they depend neither on where the number lies nor on how ranks divide the state.
 *
 * Specialised by   FORMAT  1 bf16, 5 float8, 6 ufloat8: see tensor/packed.clh
 * Launch           1-D, one work-item per block of 64 numbers; n is a multiple of 64.
 * Numerics         the largest magnitude of a block is exact.
 */
#define FORMAT 5
#define CHARL_VEC 1
#include "optim/update_args.h"
#include "optim/optim.clh"
#include "tensor/packed.clh"

static inline uint random_bits(float x, uint step)
{
    uint h = as_uint(x) * 0x9e3779b1u ^ step * 0x85ebca77u;

    h = (h ^ h >> 16) * 0x7feb352du;
    h = (h ^ h >> 15) * 0x846ca68bu;
    return h ^ h >> 16;
}

/* The magnitude of a code near y in [0, MOST]. */
static inline uint round_magnitude(float y, uint random)
{
    const uint code = y < 8.0f ? (uint)(y + (float)(random >> 8) * 0x1p-24f)
                               : (as_uint(y) + (random & 0xfffffu) - (129u << 23)) >> 20;

    return min(code, TOP);
}

static inline charl_code round_code(float v, float scale, uint random)
{
#if FORMAT == BF16
    (void)scale;
    return (charl_code)((as_uint(v) + (random & 0xffffu)) >> 16);
#else
    const float y = scale > 0.0f ? fabs(v) / scale * MOST : 0.0f;
    const uint code = round_magnitude(y, random);

    if (FORMAT == UFLOAT8) {
        return (charl_code)(y > 0.0f ? max(code, 1u) : code);
    }
    return (charl_code)(v < 0.0f && code > 0 ? code | 128u : code);
#endif
}

kernel void charl_pack_state(global const float *src, ulong src_at, global charl_code *codes, ulong codes_at,
                             global float *scales, ulong scales_at, global const float *norm, ulong norm_at,
                             global const uint *record, ulong record_at, ulong n)
{
    const ulong block = get_global_id(0), first = block * BLOCK;
    const uint step = charl_step_at(record, record_at)->step_lo;
    float scale = 0.0f;

    if (first >= n || !charl_update_is_due(charl_step_at(record, record_at), (global const charl__norm_record *)(norm + norm_at))) {
        return;
    }
    src += src_at + first;
    codes += codes_at + first;
#if FORMAT != BF16
    for (int i = 0; i < BLOCK; i++) {
        scale = fmax(scale, fabs(src[i]));
    }
    scales[scales_at + block] = scale;
#endif
    for (int i = 0; i < BLOCK; i++) {
        codes[i] = round_code(src[i], scale, random_bits(src[i], step));
    }
}
