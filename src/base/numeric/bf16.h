#ifndef CHARL_BASE_NUMERIC_BF16_H
#define CHARL_BASE_NUMERIC_BF16_H
/** bfloat16 on the host, stored as uint16_t: the upper half of an f32. Same bits as
 *  kernels/prelude/common.clh. */
#include <stdint.h>
#include <string.h>

static inline float charl__bf16_load(uint16_t h)
{
    const uint32_t u = (uint32_t)h << 16;
    float x;

    memcpy(&x, &u, sizeof x);
    return x;
}

/** Rounds to nearest even; a NaN stays a (quiet) NaN. */
static inline uint16_t charl__bf16_round(float x)
{
    uint32_t u, number, nan;

    memcpy(&u, &x, sizeof u);
    number = (u + 0x7fffU + (u >> 16 & 1U)) >> 16;
    nan = u >> 16 | 0x40U;
    return (uint16_t)((u & 0x7fffffffU) > 0x7f800000U ? nan : number);
}

#endif
