/* pool_rows: maximum over windows of planes [h, w] -> [oh, ow] on CPUs, 16 windows of a row at a time.
 *
 *   charl_max_rows            out and arg as of charl_max in pool.cl
 *   charl_max_rows_gradient   out as of charl_max_gradient there, where windows KH x 2 tile the image: stride KH, 2, no padding
 *
 * Specialised by   ACT; KH KW SH SW PH PW DH DW: kernel, stride, padding, dilation (defaults 2 2 2 2 0 0 1 1); CHARL_VEC is 16
 * Launch           1-D; each work-item computes `span` of the `count` rows of out.
 * Numerics         exact.
 */
#define KH 2
#define KW 2
#define SH 2
#define SW 2
#define PH 0
#define PW 0
#define DH 1
#define DW 1
#if CHARL_VEC == 16 /* without a definition it is 1, and there is nothing in vectors to do */

/* 16 elements, SW apart, of which the first lies at `from` of `size`; what is beyond either end is not read. */
static inline charl_real taken(global const ACT *x, long from, long size)
{
    float v[16];

    if (from >= 0 && from + 16 * SW <= size) {
#if SW == 1
        return charl_whole(x + from);
#elif SW == 2
        return (charl_real)(charl_whole(x + from).even, charl_whole(x + from + 16).even);
#endif
    }
    for (int l = 0; l < 16; l++) {
        const long at = from + l * SW;

        v[l] = at >= 0 && at < size ? charl_get(x + at) : 0.0f;
    }
    return CHARL_VLOAD(v);
}

/* A row is vectors of 16 windows. Those beyond its end are written too where they belong to this work-item, which comes to them later. */
kernel void charl_max_rows(global const ACT *x, ulong x_at, global ACT *out, ulong out_at, global int *arg, ulong arg_at,
                           ulong count, ulong span, int h, int w, int oh, int ow)
{
    const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const ulong first = get_global_id(0) * span, last = min(first + span, count);
    const long size = (long)(count / (ulong)oh) * h * w;

    for (ulong row = first; row < last; row++) {
        const long plane = (long)(row / (ulong)oh) * h * w;
        const int y = (int)(row % (ulong)oh) * SH - PH;

        for (int z = 0; z < ow; z += 16) {
            const long left = (long)((last - row) * (ulong)ow) - z, i = (long)row * ow + z;
            charl_real best = CHARL_SPLAT(-INFINITY);
            int16 at = -1;

            for (int r = 0; r < KH; r++) {
                for (int s = 0; s < KW && y + r * DH >= 0 && y + r * DH < h; s++) {
                    const int b = z * SW - PW + s * DW, a = (y + r * DH) * w;
                    const int16 column = b + lane * SW;
                    const charl_real v = taken(x + x_at, plane + a + b, size);
                    const int16 larger = ((v > best) | (v != v) | (at < 0)) & (column >= 0) & (column < w);

                    best = select(best, v, larger);
                    at = select(at, a + column, larger);
                }
            }
            charl_store(best, out + out_at + i, left);
            if (left >= 16) {
                charl_store16(at, arg + arg_at + i);
                continue;
            }
            int places[16];

            charl_store16(at, places);
            for (int l = 0; l < left; l++) {
                arg[arg_at + i + l] = places[l];
            }
        }
    }
}

/* The 16 numbers from p on, of which `left` exist. */
static inline int16 numbers(global const int *p, long left)
{
    int v[16];

    if (left >= 16) {
        return charl_load16(p);
    }
    for (int l = 0; l < 16; l++) {
        v[l] = l < left ? p[l] : -1;
    }
    return charl_load16(v);
}

/* Elements beyond the end of a row as above. */
kernel void charl_max_rows_gradient(global const ACT *g, ulong g_at, global const int *arg, ulong arg_at, global ACT *out,
                                    ulong out_at, ulong count, ulong span, int h, int w, int oh, int ow)
{
    const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const ulong first = get_global_id(0) * span, last = min(first + span, count);
    const long windows = (long)(count / (ulong)h) * oh * ow;

    for (ulong row = first; row < last; row++) {
        const int y = (int)(row % (ulong)h);

        for (int z = 0; 2 * z < w; z += 16) {
            const long left = (long)((last - row) * (ulong)w) - 2 * z, i = (long)row * w + 2 * z;
            const long from = ((long)(row / (ulong)h) * oh + min(y / KH, oh - 1)) * ow + min(z, ow - 1);
            const int16 at = numbers(arg + arg_at + from, windows - from), p = y * w + 2 * (z + lane);
            const int16 covered = (z + lane < ow) & (int16)(y / KH < oh ? -1 : 0);
            const charl_real zero = CHARL_SPLAT(0.0f), v = zero + charl_load(g + g_at + from, windows - from);
            const charl_real a = select(zero, v, (at == p) & covered), b = select(zero, v, (at == p + 1) & covered);

            charl_store((charl_real)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3, a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7),
                        out + out_at + i, left);
            charl_store((charl_real)(a.s8, b.s8, a.s9, b.s9, a.sa, b.sa, a.sb, b.sb, a.sc, b.sc, a.sd, b.sd, a.se, b.se, a.sf, b.sf),
                        out + out_at + i + 16, left - 16);
        }
    }
}
#endif
