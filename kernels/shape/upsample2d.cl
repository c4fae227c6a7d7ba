/* upsample2d: images [planes, h, w] -> [planes, FH h, FW w], and the gradient.
 *
 *   charl_upsample           nearest: out[y, x] = in[y / FH, x / FW]
 *                            bilinear: the four pixels around ((y + 1/2) / FH - 1/2, (x + 1/2) / FW - 1/2), weighted by how near
 *                            they are; the border continues outside
 *   charl_upsample_gradient  in[y, x] = sum over out of the weights that (y, x) has there
 *
 * Specialised by   ACT; FH FW: factors; BILINEAR: 0 or 1
 * Launch           1-D; each work-item computes `span` elements of the result. h, w: extents of the small image.
 * Numerics         bilinear: rows first, in f32. The gradient adds in row-major order of out; no atomics.
 */
#define FH       2
#define FW       2
#define BILINEAR 1

/* Where element `at` of the large image lies between elements first and second of the small one. */
typedef struct {
    int first, second;
    float share; /* of second */
} between;

static inline between between_of(int at, int factor, int extent)
{
    between b = {at / factor, at / factor, 0.0f};
#if BILINEAR
    const int halves = max(2 * at + 1 - factor, 0); /* (at + 1/2) / factor - 1/2 in units of 1 / (2 factor) */

    b.first = halves / (2 * factor);
    b.second = min(b.first + 1, extent - 1);
    b.share = (float)(halves % (2 * factor)) / (float)(2 * factor);
#endif
    return b;
}

static inline float weight_of(between b, int at)
{
    return (b.first == at ? 1.0f - b.share : 0.0f) + (b.second == at ? b.share : 0.0f);
}

kernel void charl_upsample(global const ACT *x, ulong x_at, global ACT *out, ulong out_at, ulong count, ulong span, int h, int w)
{
    const ulong size = (ulong)h * (ulong)w, large = size * FH * FW, first = get_global_id(0) * span;

    for (ulong i = first; i < min(first + span, count); i++) {
        const int p = (int)(i % large);
        const between y = between_of(p / (FW * w), FH, h), z = between_of(p % (FW * w), FW, w);
        global const ACT *in = x + x_at + i / large * size;
#if BILINEAR
        const float a = charl_get(in + y.first * w + z.first), b = charl_get(in + y.first * w + z.second);
        const float c = charl_get(in + y.second * w + z.first), d = charl_get(in + y.second * w + z.second);
        const float top = fma(z.share, b, (1.0f - z.share) * a), bottom = fma(z.share, d, (1.0f - z.share) * c);

        charl_put(fma(y.share, bottom, (1.0f - y.share) * top), out + out_at + i);
#else
        charl_put(charl_get(in + y.first * w + z.first), out + out_at + i);
#endif
    }
}

kernel void charl_upsample_gradient(global const ACT *g, ulong g_at, global ACT *out, ulong out_at, ulong count, ulong span, int h,
                                    int w)
{
    const ulong size = (ulong)h * (ulong)w, first = get_global_id(0) * span;

    for (ulong i = first; i < min(first + span, count); i++) {
        const int y = (int)(i % size) / w, x = (int)(i % size) % w;
        /* nothing further away has a weight here */
        const int top = max(FH * (y - BILINEAR), 0), bottom = min(FH * (y + 1 + BILINEAR), FH * h);
        const int left = max(FW * (x - BILINEAR), 0), right = min(FW * (x + 1 + BILINEAR), FW * w);
        global const ACT *from = g + g_at + i / size * size * FH * FW;
        float sum = 0.0f;

        for (int a = top; a < bottom; a++) {
            const float row = weight_of(between_of(a, FH, h), y);

            for (int b = left; b < right && row != 0.0f; b++) {
                const float weight = row * weight_of(between_of(b, FW, w), x);

                sum = weight != 0.0f ? fma(weight, charl_get(from + a * FW * w + b), sum) : sum;
            }
        }
        charl_put(sum, out + out_at + i);
    }
}
