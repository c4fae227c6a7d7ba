/* resized_crop2d: out[y, x] = sum of wy(i) wx(j) source[i, j] over the box / sum of wy(i) wx(j), per sample and channel
 * paste2d:        out[y, x] = patch[y, x], or 0, inside of the box; x[y, x] outside
 *
 * A box is 4 floats per sample: top, left, height, width in pixels. Output element `at` of `length` that show [begin, begin +
 * extent) has its centre at begin + (at + 0.5) * extent / length; the weight of source element i falls linearly from 1 there
 * to 0 at the distance max(1, extent / length), and is 0 outside of the box.
 *
 * Specialised by   PATCH  0|1: patch is there, else 0 (default 0)
 * Launch           {pixels of out rounded up to 64, channels, samples}, work-groups of {64, 1, 1}.
 * Numerics         sums in the order of rows and columns; a box of the size of out gives exact copies.
 */
#define PATCH 0

/* The source elements behind an output element: [first, end), their centre, and 1 / reach. */
typedef struct {
    int first, end;
    float centre, inverse;
} taps;

static inline taps taps_of(int at, float begin, float extent, int length, int source)
{
    const float scale = extent / (float)length, reach = fmax(scale, 1.0f);
    const float centre = fma((float)at + 0.5f, scale, begin);
    const int low = (int)fmax(begin, centre - reach - 0.5f), high = (int)fmin(-floor(-begin - extent), centre + reach + 1.5f);
    const taps t = {max(low, 0), min(high, source), centre, 1.0f / reach};

    return t;
}

static inline float weight(taps t, int i)
{
    return fmax(0.0f, 1.0f - fabs((float)i + 0.5f - t.centre) * t.inverse);
}

kernel void charl_resized_crop2d(global const float *x, ulong x_at, global const float *box, ulong box_at, global float *out,
                                 ulong out_at, int source_h, int source_w, int h, int w)
{
    const int k = (int)get_global_id(0);
    const ulong c = get_global_id(1), channels = get_global_size(1), r = get_global_id(2), plane = r * channels + c;
    global const float *b = box + box_at + 4 * r;
    const taps ty = taps_of(k / w, b[0], b[2], h, source_h), tx = taps_of(k % w, b[1], b[3], w, source_w);
    float sum = 0.0f, all = 0.0f;

    if (k >= h * w) {
        return;
    }
    x += x_at + plane * (ulong)source_h * (ulong)source_w;
    for (int i = ty.first; i < ty.end; i++) {
        const float wy = weight(ty, i);
        global const float *row = x + (ulong)i * (ulong)source_w;

        for (int j = tx.first; j < tx.end; j++) {
            const float v = wy * weight(tx, j);

            sum = v > 0.0f ? fma(v, row[j], sum) : sum;
            all += v;
        }
    }
    out[out_at + plane * (ulong)h * (ulong)w + (ulong)k] = sum / all;
}

kernel void charl_paste2d(global const float *x, ulong x_at,
#if PATCH
                          global const float *patch, ulong patch_at,
#endif
                          global const float *box, ulong box_at, global float *out, ulong out_at, int h, int w)
{
    const int k = (int)get_global_id(0);
    const ulong r = get_global_id(2), plane = r * get_global_size(1) + get_global_id(1);
    const ulong i = plane * (ulong)h * (ulong)w + (ulong)k;
    global const float *b = box + box_at + 4 * r;
    const float row = (float)(k / w) - b[0], column = (float)(k % w) - b[1];
    const bool inside = row >= 0.0f && row < b[2] && column >= 0.0f && column < b[3];

    if (k >= h * w) {
        return;
    }
#if PATCH
    out[out_at + i] = inside ? patch[patch_at + i] : x[x_at + i];
#else
    out[out_at + i] = inside ? 0.0f : x[x_at + i];
#endif
}
