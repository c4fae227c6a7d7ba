/* pool_last: the maximum over windows of images that lie channels-last, [n, h, w, 8 * groups] -> [n, oh, ow, 8 * groups], and its gradient.
 *
 *   charl_max_last           as charl_max of pool.cl
 *   charl_max_gradient_last  as charl_max_gradient
 *
 * Specialised by   ACT; the window: see pool_window.clh
 * Launch           1-D; one work-item per pixel of out and eight channels, `count` in all; a pixel has `eights` of them.
 * Numerics         those of pool.cl.
 */
#include "pool/pool_window.clh"
#define LANES 8

#include "shared/vec8.clh"

/* Eight channels of a pixel. */
typedef struct {
    ulong sample;
    int y, x, group;
} place;

static inline place place_of(ulong i, int height, int width, int groups)
{
    const ulong pixel = i / (ulong)groups, row = pixel / (ulong)width;
    const place at = {row / (ulong)height, (int)(row % (ulong)height), (int)(pixel % (ulong)width),
                      (int)(i % (ulong)groups)};

    return at;
}

static inline ulong element(const place *at, int y, int x, int height, int width, int groups)
{
    return (((at->sample * (ulong)height + (ulong)y) * (ulong)width + (ulong)x) * (ulong)groups + (ulong)at->group) * LANES;
}

kernel void charl_max_last(global const ACT *x, ulong x_at, global ACT *out, ulong out_at, global int *arg, ulong arg_at,
                           ulong count, ulong eights, int h, int w, int oh, int ow)
{
    const ulong i = get_global_id(0);
    const int groups = (int)eights;
    const place to = place_of(i, oh, ow, groups);
    float8 best = -INFINITY;
    int8 at = -1;

    if (i >= count) {
        return;
    }
    UNROLL_TAPS
    for (int r = 0; r < KH; r++) {
        UNROLL_TAPS
        for (int s = 0; s < KW; s++) {
            const int a = to.y * SH - PH + r * DH, b = to.x * SW - PW + s * DW;

            if (a >= 0 && a < h && b >= 0 && b < w) {
                const float8 v = get8(x + x_at + element(&to, a, b, h, w, groups));
                const int8 larger = (v > best) | (v != v) | (at < 0);

                best = select(best, v, larger);
                at = select(at, (int8)(a * w + b), larger);
            }
        }
    }
    put8(best, out + out_at + i * LANES);
    vstore8(at, 0, arg + arg_at + i * LANES);
}

kernel void charl_max_gradient_last(global const ACT *g, ulong g_at, global const int *arg, ulong arg_at, global ACT *out,
                                    ulong out_at, ulong count, ulong eights, int h, int w, int oh, int ow)
{
    const ulong i = get_global_id(0);
    const int groups = (int)eights;
    const place to = place_of(i, h, w, groups);
    float8 sum = 0.0f;

    if (i >= count) {
        return;
    }
    UNROLL_TAPS
    for (int r = KH - 1; r >= 0; r--) { /* the last tap belongs to the first window */
        const int a = window_of(to.y + PH, r * DH, SH, oh);

        UNROLL_TAPS
        for (int s = KW - 1; s >= 0; s--) {
            const int b = window_of(to.x + PW, s * DW, SW, ow);

            if (a >= 0 && b >= 0) {
                const ulong from = element(&to, a, b, oh, ow, groups);

                sum = select(sum, sum + get8(g + g_at + from), vload8(0, arg + arg_at + from) == to.y * w + to.x);
            }
        }
    }
    put8(sum, out + out_at + i * LANES);
}
