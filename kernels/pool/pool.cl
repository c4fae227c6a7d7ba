/* pool: maximum and mean over windows of planes [h, w] -> [oh, ow], and their gradients.
 *
 *   charl_max            out = the largest element, arg = its index in the plane, the first of equals; NaN is larger than all, and
 *                        of several the last counts; a window that lies outside altogether gives -infinity and -1
 *   charl_max_gradient   out[p] = sum of g over the windows that cover p and whose arg is p
 *   charl_max_scatter    the same, for CPUs
 *   charl_mean           out = sum over the window / (KH * KW); outside counts as 0
 *   charl_mean_gradient  out[p] = sum of g over the windows that cover p / (KH * KW)
 *
 * Specialised by   ACT; the window: see pool_window.clh
 * Launch           1-D; each work-item computes `span` elements of out, of charl_max_scatter `span` planes.
 * Numerics         a mean adds row by row; a gradient adds windows in ascending order. No atomics: every element of a gradient looks for
 *                  the windows that cover it, and charl_max_scatter walks through the windows of a plane, which has half types only
 *                  where no windows overlap: a sum is rounded once.
 */
#include "pool/pool_window.clh"

/* Whether (a, b) is in an image of h * w: without padding all windows are. */
#if PH == 0 && PW == 0
#define INSIDE(a, b, h, w) true
#else
#define INSIDE(a, b, h, w) ((a) >= 0 & (a) < (h) & (b) >= 0 & (b) < (w))
#endif

/* An element of planes of some height and width; counted on, because dividing for every element costs more than a window. */
typedef struct {
    ulong plane;
    int y, x;
} place;

static inline place place_of(ulong i, int height, int width)
{
    const int p = (int)(i % (ulong)(height * width));
    const place at = {i / (ulong)(height * width), p / width, p % width};

    return at;
}

static inline void advance(place *at, int height, int width)
{
    if (++at->x == width) {
        at->x = 0;
        if (++at->y == height) {
            at->y = 0;
            at->plane++;
        }
    }
}

kernel void charl_max(global const ACT *x, ulong x_at, global ACT *out, ulong out_at, global int *arg, ulong arg_at,
                      ulong count, ulong span, int h, int w, int oh, int ow)
{
    const ulong first = get_global_id(0) * span, end = min(first + span, count);
    place to = place_of(first, oh, ow);

    for (ulong i = first; i < end; i++, advance(&to, oh, ow)) {
        const int y = to.y * SH - PH, z = to.x * SW - PW;
        global const ACT *in = x + x_at + to.plane * (ulong)h * (ulong)w;
        float best = -INFINITY;
        int at = (PH | PW) == 0 ? y * w + z : -1;

        UNROLL_TAPS
        for (int r = 0; r < KH; r++) {
            UNROLL_TAPS
            for (int s = 0; s < KW; s++) {
                const int a = y + r * DH, b = z + s * DW;

                if (INSIDE(a, b, h, w)) {
                    const float v = charl_get(in + a * w + b);

                    const bool larger = (v > best) | (v != v) | (at < 0); /* no branch: it would be a guess */

                    best = larger ? v : best;
                    at = larger ? a * w + b : at;
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
    const ulong first = get_global_id(0) * span, end = min(first + span, count);
    place to = place_of(first, oh, ow);

    for (ulong i = first; i < end; i++, advance(&to, oh, ow)) {
        const int y = to.y * SH - PH, z = to.x * SW - PW;
        global const ACT *in = x + x_at + to.plane * (ulong)h * (ulong)w;
        float sum = 0.0f;

        UNROLL_TAPS
        for (int r = 0; r < KH; r++) {
            UNROLL_TAPS
            for (int s = 0; s < KW; s++) {
                const int a = y + r * DH, b = z + s * DW;

                if (INSIDE(a, b, h, w)) {
                    sum += charl_get(in + a * w + b);
                }
            }
        }
        charl_put(sum / (float)(KH * KW), out + out_at + i);
    }
}

kernel void charl_max_gradient(global const ACT *g, ulong g_at, global const int *arg, ulong arg_at, global ACT *out,
                               ulong out_at, ulong count, ulong span, int h, int w, int oh, int ow)
{
    const ulong first = get_global_id(0) * span, end = min(first + span, count);
    place to = place_of(first, h, w);

    for (ulong i = first; i < end; i++, advance(&to, h, w)) {
        const ulong from = to.plane * (ulong)oh * (ulong)ow;
        const int p = to.y * w + to.x, y = to.y + PH, z = to.x + PW;
        float sum = 0.0f;

        UNROLL_TAPS
        for (int r = KH - 1; r >= 0; r--) { /* the last tap belongs to the first window */
            const int a = window_of(y, r * DH, SH, oh);

            UNROLL_TAPS
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

/* Whether the window at (y, z) covers element p. */
static inline bool covers(int y, int z, int p, int h, int w)
{
    bool any = false;

    (void)h; /* padding decides */
    UNROLL_TAPS
    for (int r = 0; r < KH; r++) {
        UNROLL_TAPS
        for (int s = 0; s < KW; s++) {
            const int a = y + r * DH, b = z + s * DW;

            any |= INSIDE(a, b, h, w) & (a * w + b == p);
        }
    }
    return any;
}

kernel void charl_max_scatter(global const ACT *g, ulong g_at, global const int *arg, ulong arg_at, global ACT *out,
                              ulong out_at, ulong count, ulong span, int h, int w, int oh, int ow)
{
    const ulong size = (ulong)h * (ulong)w, windows = (ulong)oh * (ulong)ow, first = get_global_id(0) * span;

    for (ulong plane = first; plane < min(first + span, count); plane++) {
        global ACT *to = out + out_at + plane * size;
        ulong i = plane * windows;

        for (ulong k = 0; k < size; k++) {
            charl_put(0.0f, to + k);
        }
        for (int y = 0; y < oh; y++) {
            for (int z = 0; z < ow; z++, i++) {
                const int p = arg[arg_at + i];

                if (covers(y * SH - PH, z * SW - PW, p, h, w)) {
                    charl_put(charl_get(to + p) + charl_get(g + g_at + i), to + p);
                }
            }
        }
    }
}

kernel void charl_mean_gradient(global const ACT *g, ulong g_at, global ACT *out, ulong out_at, ulong count, ulong span,
                                int h, int w, int oh, int ow)
{
    const ulong first = get_global_id(0) * span, end = min(first + span, count);
    place to = place_of(first, h, w);

    for (ulong i = first; i < end; i++, advance(&to, h, w)) {
        const ulong from = to.plane * (ulong)oh * (ulong)ow;
        const int y = to.y + PH, z = to.x + PW;
        float sum = 0.0f;

        UNROLL_TAPS
        for (int r = KH - 1; r >= 0; r--) {
            const int a = window_of(y, r * DH, SH, oh);

            UNROLL_TAPS
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
