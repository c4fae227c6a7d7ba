/* Packing on the host: see packed.h. */
#include "tensor/packed.h"

#include <math.h>
#include <string.h>

#include "base/parallel.h"

enum { TOP_INT8 = 127, TOP_NF4 = 15, TOP_FLOAT8 = 127, TOP_UFLOAT8 = 255, SHARE = 1024 * CHARL_PACK_BLOCK, GROUP = 64 };

/* Quantiles of the normal distribution: 8 positive and 7 negative ones, divided by the largest, and 0. tests/tensor/test_params.c derives
 * them. */
static const float nf4[TOP_NF4 + 1] = {
    -1.0F,         -0.69619292F, -0.525073051F, -0.394917488F, -0.284441352F, -0.18477343F, -0.0910499915F, 0.0F,
    0.0795803294F, 0.160930172F, 0.246112287F,  0.337915182F,  0.4407098F,    0.562616944F, 0.722956717F,   1.0F};

int64_t charl__packed_bytes(charl__format f, int64_t n)
{
    switch (f) {
    case CHARL__FORMAT_F32:
        return 4 * n;
    case CHARL__FORMAT_BF16:
    case CHARL__FORMAT_F16:
        return 2 * n;
    case CHARL__FORMAT_NF4:
        return (n + 1) / 2;
    default:
        return n;
    }
}

int64_t charl__packed_scales(charl__format f, int64_t n)
{
    return f >= CHARL__FORMAT_INT8 ? (n + CHARL_PACK_BLOCK - 1) / CHARL_PACK_BLOCK : 0;
}

/* The magnitude of a code of 3 bits of fraction, as a multiple of the smallest that is not 0: below 8 denormal. */
static float magnitude(unsigned code)
{
    return code < 8 ? (float)code : ldexpf((float)(8 + code % 8), (int)(code / 8) - 1);
}

static unsigned top_of(charl__format f)
{
    return f == CHARL__FORMAT_FLOAT8 ? TOP_FLOAT8 : TOP_UFLOAT8;
}

float charl__packed_value(charl__format f, unsigned code)
{
    const unsigned top = top_of(f);

    if (f == CHARL__FORMAT_INT8) {
        return (float)(int8_t)code * (1.0F / (float)TOP_INT8);
    }
    if (f == CHARL__FORMAT_NF4) {
        return nf4[code];
    }
    return magnitude(code & top) * (1.0F / magnitude(top)) * (code > top ? -1.0F : 1.0F);
}

/* The nearest magnitude to y >= 0. */
static unsigned nearest(float y, unsigned top)
{
    uint32_t bits;
    unsigned code;

    if (y < 8.0F) {
        return (unsigned)(y + 0.5F);
    }
    memcpy(&bits, &y, sizeof bits);
    code = (unsigned)((bits + (1U << 19) - (129U << 23)) >> 20);
    return code < top ? code : top;
}

static unsigned code_of(charl__format f, float x)
{
    const unsigned top = top_of(f);
    unsigned code = 0;

    switch (f) {
    case CHARL__FORMAT_INT8:
        return (unsigned)(int)rintf(x * (float)TOP_INT8) & 255U;
    case CHARL__FORMAT_NF4:
        while (code < TOP_NF4 && x > 0.5F * (nf4[code] + nf4[code + 1])) {
            code++;
        }
        return code;
    case CHARL__FORMAT_UFLOAT8:
        code = nearest(x * magnitude(top), top);
        return code == 0 && x > 0.0F ? 1 : code;
    default:
        code = nearest(fabsf(x) * magnitude(top), top);
        return code | (x < 0.0F && code > 0 ? top + 1 : 0);
    }
}

static float scale_of(const float *src, int64_t n)
{
    float most = 0.0F;

    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(src[i])) {
            return NAN;
        }
        most = fmaxf(most, fabsf(src[i]));
    }
    return most;
}

static void pack_block(charl__format f, const float *src, int64_t n, unsigned char *codes, float *scale)
{
    *scale = scale_of(src, n);
    memset(codes, 0, (size_t)charl__packed_bytes(f, n));
    for (int64_t i = 0; i < n; i++) {
        const unsigned code = code_of(f, *scale > 0.0F ? src[i] / *scale : 0.0F);

        if (f == CHARL__FORMAT_NF4) {
            codes[i / 2] = (unsigned char)(codes[i / 2] | code << 4 * (i % 2));
        } else {
            codes[i] = (unsigned char)code;
        }
    }
}

static void unpack_block(charl__format f, const unsigned char *codes, float scale, int64_t n, float *dst)
{
    for (int64_t i = 0; i < n; i++) {
        const unsigned code = f == CHARL__FORMAT_NF4 ? (unsigned)codes[i / 2] >> 4 * (i % 2) & 15U : codes[i];

        dst[i] = scale * charl__packed_value(f, code);
    }
}

typedef struct packing {
    charl__format f;
    int64_t n;
    const float *src;
    float *dst;
    unsigned char *codes;
    float *scales;
} packing;

/* Converts a half type in blocks. */
static void convert(const packing *p, int64_t at, int64_t n)
{
    const charl_dtype dtype = p->f == CHARL__FORMAT_BF16 ? CHARL_BF16 : CHARL_F16;
    double v[CHARL_PACK_BLOCK];

    if (p->src) {
        for (int64_t i = 0; i < n; i++) {
            v[i] = (double)p->src[at + i];
        }
        charl_dtype_encode(dtype, v, n, p->codes + 2 * at);
    } else {
        charl_dtype_decode(dtype, p->codes + 2 * at, n, v);
        for (int64_t i = 0; i < n; i++) {
            p->dst[at + i] = (float)v[i];
        }
    }
}

static void work(void *ctx, int64_t share)
{
    const packing *p = ctx;
    const int64_t end = (share + 1) * SHARE < p->n ? (share + 1) * SHARE : p->n;

    for (int64_t at = share * SHARE; at < end; at += CHARL_PACK_BLOCK) {
        const int64_t n = end - at < CHARL_PACK_BLOCK ? end - at : CHARL_PACK_BLOCK, block = at / CHARL_PACK_BLOCK;
        unsigned char *codes = p->codes + charl__packed_bytes(p->f, at);

        if (p->f < CHARL__FORMAT_INT8) {
            convert(p, at, n);
        } else if (p->src) {
            pack_block(p->f, p->src + at, n, codes, &p->scales[block]);
        } else {
            unpack_block(p->f, codes, p->scales[block], n, p->dst + at);
        }
    }
}

static void run(packing *p)
{
    charl__parallel((p->n + SHARE - 1) / SHARE, work, p);
}

charl_status charl__unpack_enqueue(charl_device *dev, charl__format f, charl_dtype dtype, const charl__arg packed[2],
                                   charl__arg out, int64_t n, const char *label)
{
    const int span = charl__device_facts_get(dev)->group <= 1 ? CHARL_PACK_BLOCK : 8;
    const size_t items = (size_t)((n + span - 1) / span);

    return charl__launch_enqueue(
        dev,
        &(charl__launch){.file = "tensor/unpack",
                         .entry = "charl_unpack",
                         .params = {{"FORMAT", (int)f}, {"SPAN", span}, {"ACT", .text = charl__kernel_type(dtype)}},
                         .global = {(items + GROUP - 1) / GROUP * GROUP},
                         .local = {GROUP},
                         .args = {packed[0], packed[1], out, charl__i64(n)},
                         .label = label});
}

void charl__pack(charl__format f, const float *src, int64_t n, void *codes, float *scales)
{
    run(&(packing){.f = f, .n = n, .src = src, .codes = codes, .scales = scales});
}

void charl__unpack(charl__format f, const void *codes, const float *scales, int64_t n, float *dst)
{
    run(&(packing){
        .f = f, .n = n, .dst = dst, .codes = (unsigned char *)(uintptr_t)codes, .scales = (float *)(uintptr_t)scales});
}
