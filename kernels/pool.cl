/* pool: maximum and mean over windows of planes [h, w] -> [oh, ow], and their gradients.
 *
 *   charl_max            out = the largest element, arg = its index in the plane, the first of equals; NaN is larger than all; a
 *                        window that lies outside altogether gives -infinity and -1
 *   charl_max_gradient   out[p] = sum of g over the windows that cover p and whose arg is p
 *   charl_mean           out = sum over the window / (KH * KW); outside counts as 0
 *   charl_mean_gradient  out[p] = sum of g over the windows that cover p / (KH * KW)
 *
 * Specialised by   ACT; KH KW SH SW PH PW DH DW: kernel, stride, padding, dilation (defaults 2 2 2 2 0 0 1 1)
 * Launch           1-D; each work-item computes `span` elements of out.
 * Numerics         a mean adds row by row; a gradient adds windows in ascending order. No atomics: every element of a gradient looks for
 *                  the windows that cover it.
 */
#ifndef KH
#define KH 2
#define KW 2
#define SH 2
#define SW 2
#define PH 0
#define PW 0
#define DH 1
#define DW 1
#endif

#define EACH(i) for (ulong i = get_global_id(0) * span, end = min(i + span, count); i < end; i++)

kernel void charl_max(global const ACT *x, ulong x_at, global ACT *out, ulong out_at, global int *arg, ulong arg_at,
                      ulong count, ulong span, int h, int w, int oh, int ow)
{
    EACH(i)
    {
        const ulong plane = i / (ulong)(oh * ow);
        const int p = (int)(i % (ulong)(oh * ow)), y = p / ow * SH - PH, z = p % ow * SW - PW;
        global const ACT *in = x + x_at + plane * (ulong)h * (ulong)w;
        float best = -INFINITY;
        int at = -1;

#pragma unroll
        for (int r = 0; r < KH; r++) {
#pragma unroll
            for (int s = 0; s < KW; s++) {
                const int a = y + r * DH, b = z + s * DW;

                if (a >= 0 && a < h && b >= 0 && b < w) {
                    const float v = charl_get(in + a * w + b);

                    if (v > best || v != v || at < 0) {
                        best = v;
                        at = a * w + b;
                    }
                }
            }
        }
        charl_put(best, out + out_at + i);
        arg[arg_at + i] = at;
    }
}

kernel void charl_mean(global const ACT *x, ulong x_at, global ACT *out, ulong out_at, ulong count, ulong span, int h, int w,
                       int oh, int ow)
{
    EACH(i)
    {
        const ulong plane = i / (ulong)(oh * ow);
        const int p = (int)(i % (ulong)(oh * ow)), y = p / ow * SH - PH, z = p % ow * SW - PW;
        global const ACT *in = x + x_at + plane * (ulong)h * (ulong)w;
        float sum = 0.0f;

#pragma unroll
        for (int r = 0; r < KH; r++) {
#pragma unroll
            for (int s = 0; s < KW; s++) {
                const int a = y + r * DH, b = z + s * DW;

                if (a >= 0 && a < h && b >= 0 && b < w) {
                    sum += charl_get(in + a * w + b);
                }
            }
        }
        charl_put(sum / (float)(KH * KW), out + out_at + i);
    }
}

/* The window that has the coordinate `at` under its tap, or -1. */
static inline int window_of(int at, int tap, int stride, int windows)
{
    const int start = at - tap;

    return start >= 0 && start % stride == 0 && start / stride < windows ? start / stride : -1;
}

kernel void charl_max_gradient(global const ACT *g, ulong g_at, global const int *arg, ulong arg_at, global ACT *out,
                               ulong out_at, ulong count, ulong span, int h, int w, int oh, int ow)
{
    EACH(i)
    {
        const ulong plane = i / (ulong)(h * w), from = plane * (ulong)oh * (ulong)ow;
        const int p = (int)(i % (ulong)(h * w)), y = p / w + PH, z = p % w + PW;
        float sum = 0.0f;

#pragma unroll
        for (int r = KH - 1; r >= 0; r--) { /* the last tap belongs to the first window */
            const int a = window_of(y, r * DH, SH, oh);

#pragma unroll
            for (int s = KW - 1; s >= 0; s--) {
                const int b = window_of(z, s * DW, SW, ow);

                if (a >= 0 && b >= 0 && arg[arg_at + from + (ulong)(a * ow + b)] == p) {
                    sum += charl_get(g + g_at + from + (ulong)(a * ow + b));
                }
            }
        }
        charl_put(sum, out + out_at + i);
    }
}

kernel void charl_mean_gradient(global const ACT *g, ulong g_at, global ACT *out, ulong out_at, ulong count, ulong span,
                                int h, int w, int oh, int ow)
{
    EACH(i)
    {
        const ulong plane = i / (ulong)(h * w), from = plane * (ulong)oh * (ulong)ow;
        const int p = (int)(i % (ulong)(h * w)), y = p / w + PH, z = p % w + PW;
        float sum = 0.0f;

#pragma unroll
        for (int r = KH - 1; r >= 0; r--) {
            const int a = window_of(y, r * DH, SH, oh);

#pragma unroll
            for (int s = KW - 1; s >= 0; s--) {
                const int b = window_of(z, s * DW, SW, ow);

                if (a >= 0 && b >= 0) {
                    sum += charl_get(g + g_at + from + (ulong)(a * ow + b));
                }
            }
        }
        charl_put(sum / (float)(KH * KW), out + out_at + i);
    }
}
