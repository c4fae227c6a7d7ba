/* Numbers to and from element types. */
#include <math.h>

#include "base/numeric/bf16.h"
#include "charl/shape.h"

/* Adding and subtracting a power of two rounds the mantissa to the 11 bits (fewer below 2^-14) of a
 * half. */
static uint16_t to_f16(double x)
{
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    double a = fabs(x), step;
    int exponent;

    if (isnan(x)) {
        return 0x7e00;
    }
    if (a >= 65520.0) {
        return sign | 0x7c00;
    }
    frexp(a, &exponent);
    step = ldexp(1.0, exponent - 11 < -24 ? -24 : exponent - 11);
    a = nearbyint(a / step) * step;
    if (a < ldexp(1.0, -14)) {
        return (uint16_t)(sign | (uint16_t)(a * ldexp(1.0, 24)));
    }
    frexp(a, &exponent);
    return (uint16_t)(sign | (uint16_t)((exponent + 14) << 10) | (uint16_t)(ldexp(a, 11 - exponent) - 1024.0));
}

static double from_f16(uint16_t h)
{
    const int exponent = h >> 10 & 31, mantissa = h & 1023;
    double a;

    if (exponent == 31) {
        a = mantissa ? (double)NAN : (double)INFINITY;
    } else {
        a = exponent ? ldexp(1024.0 + mantissa, exponent - 25) : ldexp(mantissa, -24);
    }
    return h & 0x8000 ? -a : a;
}

void charl_dtype_encode(charl_dtype dtype, const double *src, int64_t n, void *dst)
{
    if (!src || !dst) {
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        switch (dtype) {
        case CHARL_F32:
            ((float *)dst)[i] = (float)src[i];
            break;
        case CHARL_F16:
            ((uint16_t *)dst)[i] = to_f16(src[i]);
            break;
        case CHARL_BF16:
            ((uint16_t *)dst)[i] = charl__bf16_round((float)src[i]);
            break;
        case CHARL_U8:
            ((uint8_t *)dst)[i] = (uint8_t)src[i];
            break;
        case CHARL_U16:
            ((uint16_t *)dst)[i] = (uint16_t)src[i];
            break;
        case CHARL_U32:
            ((uint32_t *)dst)[i] = (uint32_t)src[i];
            break;
        case CHARL_I32:
            ((int32_t *)dst)[i] = (int32_t)src[i];
            break;
        case CHARL_I64:
            ((int64_t *)dst)[i] = (int64_t)src[i];
            break;
        case CHARL_DTYPE_COUNT:
            break;
        }
    }
}

void charl_dtype_decode(charl_dtype dtype, const void *src, int64_t n, double *dst)
{
    if (!src || !dst) {
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        switch (dtype) {
        case CHARL_F32:
            dst[i] = (double)((const float *)src)[i];
            break;
        case CHARL_F16:
            dst[i] = from_f16(((const uint16_t *)src)[i]);
            break;
        case CHARL_BF16:
            dst[i] = (double)charl__bf16_load(((const uint16_t *)src)[i]);
            break;
        case CHARL_U8:
            dst[i] = ((const uint8_t *)src)[i];
            break;
        case CHARL_U16:
            dst[i] = ((const uint16_t *)src)[i];
            break;
        case CHARL_U32:
            dst[i] = ((const uint32_t *)src)[i];
            break;
        case CHARL_I32:
            dst[i] = ((const int32_t *)src)[i];
            break;
        case CHARL_I64:
            dst[i] = (double)((const int64_t *)src)[i];
            break;
        case CHARL_DTYPE_COUNT:
            break;
        }
    }
}
