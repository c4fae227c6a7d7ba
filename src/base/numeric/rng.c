/* Philox4x32-10: ten rounds of two 32x32->64 multiplications, with a key incremented by Weyl constants. */
#include "base/numeric/rng.h"

#include <math.h>

#include "charl/slices.h"

static const uint32_t mul_0 = 0xD2511F53u, mul_1 = 0xCD9E8D57u;
static const uint32_t weyl_0 = 0x9E3779B9u, weyl_1 = 0xBB67AE85u;

void charl__philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];

    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)mul_0 * c0;
        const uint64_t p1 = (uint64_t)mul_1 * c2;

        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += weyl_0;
        k1 += weyl_1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

charl__rng charl__rng_key(uint64_t seed, uint64_t step, uint64_t name_hash)
{
    const uint64_t key = seed ^ name_hash;

    return (charl__rng){
        .key = {(uint32_t)key, (uint32_t)(key >> 32)},
        .step = {(uint32_t)step, (uint32_t)(step >> 32)},
    };
}

void charl__rng_u32x4(const charl__rng *r, uint64_t position, uint32_t out[4])
{
    const uint32_t counter[4] = {(uint32_t)position, (uint32_t)(position >> 32), r->step[0], r->step[1]};

    charl__philox(counter, r->key, out);
}

uint32_t charl__rng_u32(const charl__rng *r, uint64_t i)
{
    uint32_t block[4];

    charl__rng_u32x4(r, i >> 2, block);
    return block[i & 3];
}

float charl__rng_uniform(const charl__rng *r, uint64_t i)
{
    return (float)(charl__rng_u32(r, i) >> 8) * 0x1p-24f;
}

/* 53 bits of two words, in [0, 1). */
static double unit_double(uint32_t lo, uint32_t hi)
{
    return (double)((((uint64_t)hi << 32) | lo) >> 11) * 0x1p-53;
}

double charl__rng_normal(const charl__rng *r, uint64_t position)
{
    const double two_pi = 6.283185307179586476925;
    uint32_t b[4];

    charl__rng_u32x4(r, position, b);
    /* 1 - u is in (0, 1]: its logarithm is finite. */
    return sqrt(-2 * log(1 - unit_double(b[0], b[1]))) * cos(two_pi * unit_double(b[2], b[3]));
}

void charl_random(uint64_t seed, int64_t step, int64_t row, float *out, int64_t n)
{
    /* seed ^ row alone would repeat the numbers of other seeds */
    const charl__rng r = charl__rng_key(seed, (uint64_t)step, (uint64_t)row * 0x9e3779b97f4a7c15U);

    for (int64_t i = 0; out && i < n; i++) {
        out[i] = charl__rng_uniform(&r, (uint64_t)i);
    }
}
