/* roofline_amx: what the matrix unit of x86 can do in bf16, operands in tiles and nothing to load. The yardstick of benchmarks.
 *
 * Launch           groups of 1: a work-item makes 4 products of 16 x 16 by 32 `rounds` times, so 2 * 4 * 16 * 16 * 32 * rounds flop. Operands
 *                  are random in [-1, 1). Each work-item writes one of its results.
 */
#include "x86/amx/tiles.clh"

#define WORDS 256 /* of a tile */

kernel void roofline_amx(global float *out, ulong out_at, int rounds)
{
    uint operands[4 * WORDS];
    float sums[WORDS];

    for (uint i = 0; i < 4 * WORDS; i += 4) {
        uint w[4] = {i, (uint)get_global_id(0), 0, 0};

        charl_philox(w, 1, 2);
        for (int e = 0; e < 4; e++) {
            const uint2 x = as_uint2((float2)((float)(int)w[e], (float)(int)(w[e] << 16)) * 0x1p-31f);

            operands[i + e] = (x.x & 0xffff0000u) | x.y >> 16;
        }
    }
    begin_tiles(32);
    TILE_LOAD(4, operands, 64);
    TILE_LOAD(5, operands + WORDS, 64);
    TILE_LOAD(6, operands + 2 * WORDS, 64);
    TILE_LOAD(7, operands + 3 * WORDS, 64);
    for (int r = 0; r < rounds; r++) {
        TILE_PRODUCT(0, 4, 6);
        TILE_PRODUCT(1, 4, 7);
        TILE_PRODUCT(2, 5, 6);
        TILE_PRODUCT(3, 5, 7);
    }
    TILE_STORE(0, sums, 64);
    end_tiles();
    out[out_at + get_global_id(0)] = sums[0];
}
