/* conv_phase: the gradient of a convolution's image where the stride is not 1. Pixels whose coordinates are equal modulo the stride form a
 * phase, and each phase is a product with a part of the taps (src/autograd/op/conv/conv_phase.c). These kernels select the taps of a phase and
 * interleave the phases.
 *
 *   charl_pick   out[m][i][j] = w[m][first_h + i * step_h][first_w + j * step_w], i < count_h, j < count_w
 *   charl_merge  out[plane][y][x] = phase (y mod SH, x mod SW) at [plane][y / SH][x / SW], 0 where that phase has no taps
 *
 * Specialised by   T: of charl_pick, an unsigned type as large as an element; ACT: of charl_merge's out
 *                  KH KW SH SW PH PW DH DW: kernel, stride, padding, dilation (defaults 3 3 2 2 1 1 1 1)
 * Launch           1-D; each work-item computes `span` elements of charl_pick; of charl_merge `chunk` elements, a multiple of SW, of each of
 *                  `span` rows, and neighbours are `across` work-items along a row.
 * Numerics         exact, but for the rounding to ACT.
 */
#define T uint
#define KH 3
#define KW 3
#define SH 2
#define SW 2
#define PH 1
#define PW 1
#define DH 1
#define DW 1

kernel void charl_pick(global const T *w, ulong w_at, global T *out, ulong out_at, ulong count, ulong span, int first_h,
                       int first_w, int step_h, int step_w, int count_h, int count_w)
{
    const ulong first = get_global_id(0) * span;

    for (ulong i = first; i < min(first + span, count); i++) {
        const ulong m = i / (ulong)(count_h * count_w);
        const int t = (int)(i % (ulong)(count_h * count_w));

        out[out_at + i] = w[w_at + m * (KH * KW) + (ulong)((first_h + t / count_w * step_h) * KW + first_w + t % count_w * step_w)];
    }
}

/* Whether a tap of this axis brings an output pixel to the coordinate. */
static inline bool has_tap(int at, int kernel_size, int dilation, int stride)
{
    for (int r = 0; r < kernel_size; r++) {
        if ((at - r * dilation) % stride == 0) {
            return true;
        }
    }
    return false;
}

kernel void charl_merge(global const float *phases, ulong phases_at, global ACT *out, ulong out_at, ulong planes, ulong span,
                        int across, int chunk, int h, int w)
{
    const int hp = (h + SH - 1) / SH, wp = (w + SW - 1) / SW, nw = min(SW, w);
    const ulong item = get_global_id(0), first = item / (ulong)across * span;
    const int begin = (int)(item % (ulong)across) * chunk, end = min(begin + chunk, w);

    for (ulong row = first; row < min(first + span, planes * (ulong)h); row++) {
        const ulong plane = row / (ulong)h;
        const int y = (int)(row % (ulong)h);
        const bool any = has_tap(y + PH, KH, DH, SH);

        for (int b = 0; b < nw; b++) {
            const ulong phase = (ulong)(y % SH * nw + b) * planes + plane;
            global const float *from = phases + phases_at + (phase * (ulong)hp + (ulong)(y / SH)) * (ulong)wp;
            global ACT *to = out + out_at + row * (ulong)w;

            if (any && has_tap(b + PW, KW, DW, SW)) {
                for (int x = begin + b; x < end; x += SW) {
                    charl_put(from[x / SW], to + x);
                }
            } else {
                for (int x = begin + b; x < end; x += SW) {
                    charl_put(0.0f, to + x);
                }
            }
        }
    }
}
