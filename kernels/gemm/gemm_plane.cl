/* gemm_plane: a convolution with one channel in and one out per product, on CPUs: depthwise convolution and the gradient of its image. A
 * product is too small for gemm_vector, which packs its operands.
 *
 * Specialised by   A_KIND 0 or 2, B_KIND 2, BIAS and the window: see gemm.clh; m is 1 and k is TAPS; float; DIV_H = DIV_W = 1
 *                  LINE  floats that hold a row of the image with zeros around it
 * Launch           one work-item per product, groups of 1. It lays the rows of the image under an output row out between zeros, so that
 *                  a tap is a vector at an offset.
 * Numerics         see gemm.clh: what is outside is multiplied as 0.
 */
#include "gemm/gemm_args.h"
#include "gemm/gemm_epilogue.clh"
#include "gemm/gemm.clh"
#include "prelude/vectors.clh"

#define LINE 64
#define KH (TAPS / KW)
#define LAST_TAP ((KW - 1) * TAP_W)
#define LOWEST (SHIFT_W + (LAST_TAP < 0 ? LAST_TAP : 0))
#define MARGIN (LOWEST < 0 ? -LOWEST : 0) /* zeros in front of a row */

/* 16 values, STEP_W apart. */
static inline float16 pixels16(const float *p)
{
#if STEP_W == 1
    return charl_load16(p);
#elif STEP_W == 2
    return (float16)(charl_load16(p).even, charl_load16(p + 16).even);
#else
    float v[16];

    for (int l = 0; l < 16; l++) {
        v[l] = p[l * STEP_W];
    }
    return charl_load16(v);
#endif
}

/* Row h of the image after MARGIN zeros; a row outside is all zeros. */
static inline void lay_out(float *line, global const float *image, int h, int ih, int iw)
{
    const bool inside = h >= 0 && h < ih;
    global const float *row = image + (long)(inside ? h : 0) * iw;
    int i = 0;

    for (; inside && i + 16 <= iw; i += 16) {
        charl_store16(charl_load16(row + i), line + MARGIN + i);
    }
    for (; i < iw; i++) {
        line[MARGIN + i] = inside ? row[i] : 0.0f;
    }
}

kernel void gemm_plane(global const ACT *a, global const ACT *b, global const float *bias, global OUT_T *out EPILOGUE_ARGS(with), const charl__gemm_args p)
{
    float line[KH * LINE], acc[LINE];
    const long z = (long)get_global_id(0), zo = z / p.inner, zi = z % p.inner;
    const int pw = p.pw;

    a += p.a + zo * p.a_outer + zi * p.a_inner;
    b += p.b + zo * p.b_outer + zi * p.b_inner;
    out += p.out + zo * p.out_outer + zi * p.out_inner;
    for (int i = 0; i < KH * LINE; i++) {
        line[i] = 0.0f;
    }
    for (int y = 0; y < p.n / pw; y++) {
        for (int r = 0; r < KH; r++) {
            lay_out(line + r * LINE, b, y * STEP_H + SHIFT_H + r * TAP_H, p.ih, p.iw);
        }
        for (int x = 0; x < pw; x += 16) {
            float16 sum = (float16)(0.0f);

            for (int r = 0; r < KH; r++) {
                for (int s = 0; s < KW; s++) {
                    sum = fma((float16)(a[r * KW + s]), pixels16(line + r * LINE + MARGIN + SHIFT_W + s * TAP_W + x * STEP_W), sum);
                }
            }
            if (BIAS == 2) {
                sum += (float16)(bias[p.bias + zi]);
            }
            charl_store16(sum, acc + x);
        }
        for (int x = 0; x < pw; x++) {
            out[(long)y * pw + x] = acc[x];
        }
    }
}
