/* gemm_plane: a convolution with one channel in and one out per product, on CPUs: depthwise convolution and the gradient of its image. A
 * product is too small for gemm_vector, which packs its operands.
 *
 * Specialised by   A_KIND 0 or 2, B_KIND 2, BIAS and the window: see gemm.clh; m is 1 and k is TAPS; float; DIV_H = DIV_W = 1
 *                  LINE  floats that hold a row of the image with zeros around it
 * Launch           one work-item per product, groups of 1. It lays the rows of the image under an output row out between zeros, so that
 *                  a tap is a vector at an offset.
 * Numerics         see gemm.clh: what is outside is multiplied as 0.
 */
#include "gemm/gemm_epilogue.clh"
#include "gemm/gemm.clh"
#include "prelude/vectors.clh"

#ifndef LINE
#define LINE 64
#endif
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

kernel void gemm_plane(global const ACT *a, ulong a_at, global const ACT *b, ulong b_at, global const float *bias,
                       ulong bias_at, global OUT_T *out, ulong out_at, int m, int n, int k_all, int segments,
                       long a_segment, long b_segment, int inner, long a_outer, long a_inner, long b_outer, long b_inner,
                       long out_outer, long out_inner, int leaves, int ih, int iw, int pw, int mi,
                       int nj EPILOGUE_ARGS(with, record, draw))
{
    float line[KH * LINE], acc[LINE];
    const long z = (long)get_global_id(0), zo = z / inner, zi = z % inner;
    float add = 0.0f;

    (void)bias, (void)bias_at, (void)m, (void)k_all, (void)segments, (void)a_segment, (void)b_segment, (void)leaves, (void)mi, (void)nj;
    a += a_at + zo * a_outer + zi * a_inner;
    b += b_at + zo * b_outer + zi * b_inner;
    out += out_at + zo * out_outer + zi * out_inner;
#if BIAS == 2
    add = bias[bias_at + zi];
#endif
    for (int i = 0; i < KH * LINE; i++) {
        line[i] = 0.0f;
    }
    for (int y = 0; y < n / pw; y++) {
        for (int r = 0; r < KH; r++) {
            lay_out(line + r * LINE, b, y * STEP_H + SHIFT_H + r * TAP_H, ih, iw);
        }
        for (int x = 0; x < pw; x += 16) {
            float16 sum = (float16)(0.0f);

            for (int r = 0; r < KH; r++) {
                for (int s = 0; s < KW; s++) {
                    sum = fma((float16)(a[r * KW + s]), pixels16(line + r * LINE + MARGIN + SHIFT_W + s * TAP_W + x * STEP_W), sum);
                }
            }
#if BIAS == 2
            sum += (float16)(add);
#endif
            charl_store16(sum, acc + x);
        }
        for (int x = 0; x < pw; x++) {
            out[(long)y * pw + x] = acc[x];
        }
    }
    (void)add;
}
