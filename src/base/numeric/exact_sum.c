/* Exact sums: Kulisch's accumulator with delayed carries. */
#include "base/numeric/exact_sum.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { LIMBS = CHARL__EXACT_LIMBS - 1, LOWEST = -1074 };

void charl__exact_add(int64_t sum[CHARL__EXACT_LIMBS], double v)
{
    const int64_t sign = v < 0 ? -1 : 1;
    int exponent;
    uint64_t mantissa, low, high;

    if (!isfinite(v)) {
        sum[LIMBS]++;
        return;
    }
    mantissa = (uint64_t)ldexp(frexp(fabs(v), &exponent), 53); /* |v| = mantissa * 2^(exponent - 53) */
    exponent -= 53 + LOWEST;
    if (exponent < 0) { /* subnormal: its lowest bits are 0 */
        mantissa >>= -exponent;
        exponent = 0;
    }
    /* 53 bits, shifted by up to 31, span three limbs. */
    low = (mantissa & UINT32_MAX) << exponent % 32;
    high = ((mantissa >> 32) << exponent % 32) + (low >> 32);
    sum[exponent / 32] += sign * (int64_t)(low & UINT32_MAX);
    sum[exponent / 32 + 1] += sign * (int64_t)(high & UINT32_MAX);
    sum[exponent / 32 + 2] += sign * (int64_t)(high >> 32);
}

/* Carry: every limb but the highest becomes 0 .. 2^32 - 1. Returns the highest, which has the sign. */
static int64_t normalize(int64_t limb[LIMBS])
{
    for (int i = 0; i + 1 < LIMBS; i++) {
        const int64_t digit = (int64_t)((uint64_t)limb[i] & UINT32_MAX);

        limb[i + 1] += (limb[i] - digit) / (INT64_C(1) << 32);
        limb[i] = digit;
    }
    return limb[LIMBS - 1];
}

double charl__exact_value(const int64_t sum[CHARL__EXACT_LIMBS])
{
    int64_t limb[LIMBS];
    double v = 0.0;
    bool negative;

    if (sum[LIMBS] != 0) {
        return (double)NAN;
    }
    memcpy(limb, sum, sizeof limb);
    negative = normalize(limb) < 0;
    for (int i = 0; negative && i < LIMBS; i++) {
        limb[i] = -limb[i];
    }
    normalize(limb);
    for (int i = 0; i < LIMBS; i++) { /* from small to large: the rounding error is below the last place */
        v += ldexp((double)limb[i], 32 * i + LOWEST);
    }
    return negative ? -v : v;
}
