/* unfold and fold: what a window of K taps sees along one extent, and the transpose of that.
 *
 *   charl_unfold  out[p, k, m, o, i] = x[p, m, o * S - PAD + k * D, i], 0 outside of the extent
 *   charl_fold    out[p, m, n, i] = sum over k, o with o * S - PAD + k * D = n of x[p, k, m, o, i]
 *
 * Specialised by   ACT; K S PAD D: taps, stride, padding and dilation of the window
 * Launch           1-D; each work-item computes `span` elements of the result. m: extent before the one with the window, n: that
 *                  extent, o: places of the window, inner: extent behind it.
 * Numerics         unfold is exact; fold adds in f32, k ascending.
 */
#define K   3
#define S   1
#define PAD 1
#define D   1

kernel void charl_unfold(global const ACT *x, ulong x_at, global ACT *out, ulong out_at, ulong count, ulong span, long m, long n,
                         long o, long inner)
{
    const long first = (long)(get_global_id(0) * span), end = (long)min((ulong)first + span, count);

    x += x_at;
    out += out_at;
    for (long i = first; i < end;) { /* row by row */
        const long row = i / inner, column = i - row * inner, run = min(inner - column, end - i);
        const long place = row % o, rest = row / o, plane = rest / m / K;
        const long at = place * S - PAD + rest / m % K * D;
        global const ACT *from = x + ((plane * m + rest % m) * n + at) * inner + column;

        if (at >= 0 && at < n) {
            for (long j = 0; j < run; j++) {
                charl_put(charl_get(from + j), out + i + j);
            }
        } else {
            for (long j = 0; j < run; j++) {
                charl_put(0.0f, out + i + j);
            }
        }
        i += run;
    }
}

kernel void charl_fold(global const ACT *x, ulong x_at, global ACT *out, ulong out_at, ulong count, ulong span, long m, long n,
                       long o, long inner)
{
    const long first = (long)(get_global_id(0) * span), end = (long)min((ulong)first + span, count);

    x += x_at;
    out += out_at;
    for (long i = first; i < end;) {
        const long row = i / inner, column = i - row * inner, run = min(inner - column, end - i);
        const long at = row % n, rest = row / n, plane = rest / m;
        long from[K]; /* element under tap k; -1: no place of the window has it there */

        for (int k = 0; k < K; k++) {
            const long t = at + PAD - k * D, place = t / S;

            from[k] = t >= 0 && t % S == 0 && place < o ? (((plane * K + k) * m + rest % m) * o + place) * inner + column : -1;
        }
        for (long j = 0; j < run; j++) {
            float sum = 0.0f;

            for (int k = 0; k < K; k++) {
                sum += from[k] >= 0 ? charl_get(x + from[k] + j) : 0.0f;
            }
            charl_put(sum, out + i + j);
        }
        i += run;
    }
}
