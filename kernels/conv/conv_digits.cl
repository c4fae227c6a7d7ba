/* conv_digits: convolutions from digits of 8 bits on any device: see conv_split.cl for the digits of a and b, integer/digits.clh for the sum.
 *
 *   GRAD 0   forward, and the gradient of the image: out[z][i][p] = bias[i] + sum over taps (r, s) and k of a[i][r, s][k] * b[z][p at r, s][k]
 *            a: a weight of m rows; b: n images of image_h x image_w pixels with k bytes each; p: pixels (y, x) of the grid. At (r, s) pixel (y, x) reads
 *            (y + shift_h + r * step_h, x + shift_w + s * step_w): 0 outside the image.
 *   GRAD 1   the gradient of the weight: out[z][i][r, s][j] = sum over k of a[i][z][k] * b[j][z][k at r, s]
 *            a, b: images by pixels, of m and n channels. Leaf z is one of `parts` parts of a slice, k bytes of its rows of pixels. At (r, s) k reads
 *            k + (shift_h + r * step_h) * row_bytes + (shift_w + s * step_w) * pixel_bytes.
 *
 * Specialised by   GRAD
 *                  BIAS   1: there is a bias, with GRAD 0
 * Launch           1-D, at least one work-item per element of out
 * Numerics         sums of integers, so that their order does not matter.
 */
#define GRAD 0
#define BIAS 0
#define DIGITS 4
#include "conv/conv_digits_args.h"
#include "integer/digits.clh"

#define STRETCH 64 /* of k, whose digits stay in registers or the nearest cache */

static inline int products_of(global const char *a, global const char *b, int k)
{
    int sum = 0;

    for (int l = 0; l < k; l++) {
        sum += (int)a[l] * (int)b[l];
    }
    return sum;
}

/* Adds the products of k elements to the four groups. */
static inline void add_products(global const char *a, global const char *b, const charl__conv_digits_args *t, int k, int *c)
{
    for (int l = 0; l < k; l += STRETCH) {
        for (int d = 0; d < DIGITS; d++) {
            for (int e = 0; d + e < DIGITS; e++) {
                c[d + e] += products_of(a + d * t->a_digit + l, b + e * t->b_digit + l, min(STRETCH, k - l));
            }
        }
    }
}

static inline int scale_at(global const uchar *of, ulong at, long i)
{
    return ((global const int *)(of + at))[i];
}

kernel void conv_digits(global const uchar *a, global const uchar *b, global const float *bias, global float *out, const charl__conv_digits_args t)
{
    const ulong item = get_global_id(0);
    const int taps = t.taps_h * t.taps_w, last = GRAD ? t.n : t.grid_h * t.grid_w, of_row = GRAD ? taps * t.n : last;
    const int z = (int)(item / ((ulong)t.m * (ulong)of_row)), i = (int)(item / (ulong)of_row % (ulong)t.m);
    const int tap = (int)(item % (ulong)of_row) / last, j = (int)(item % (ulong)of_row) % last; /* tap of the result, and its channel or pixel */
    global const char *p = (global const char *)(a + t.a + t.a_head), *q = (global const char *)(b + t.b + t.b_head);
    int c[4] = {0, 0, 0, 0};
    float sum;

    if (z >= (GRAD ? t.leaves : t.n)) {
        return;
    }
#if GRAD
    const int slice = z / t.parts, slices = t.leaves / t.parts;
    const long first = (long)slice * t.slice_bytes + (long)(z % t.parts) * t.k, pitch = (long)slices * t.slice_bytes;
    const long further = (long)(t.shift_h + tap / t.taps_w * t.step_h) * t.row_bytes + (long)(t.shift_w + tap % t.taps_w * t.step_w) * t.pixel_bytes;
    const long lo = max(-further - first, 0L), hi = min(pitch - first - further, (long)t.k);

    add_products(p + i * pitch + first + lo, q + j * pitch + first + further + lo, &t, (int)(hi - lo), c);
    sum = sum_of_digits(c[0], c[1], c[2] + carry_of(c[3]), scale_at(a, t.a, (long)slice * t.m + i), scale_at(b, t.b, (long)slice * t.n + j));
    (void)bias;
#else
    for (int l = 0; l < taps; l++) {
        const int y = j / t.grid_w + t.shift_h + l / t.taps_w * t.step_h, x = j % t.grid_w + t.shift_w + l % t.taps_w * t.step_w;

        if (y >= 0 && y < t.image_h && x >= 0 && x < t.image_w) {
            add_products(p + ((long)i * taps + l) * t.k, q + (((long)z * t.image_h + y) * t.image_w + x) * t.k, &t, t.k, c);
        }
    }
    sum = sum_of_digits(c[0], c[1], c[2] + carry_of(c[3]), scale_at(a, t.a, i), scale_at(b, t.b, z));
    if (BIAS) {
        sum += (bias + t.bias)[i];
    }
    (void)tap;
#endif
    (out + t.out)[item] = sum;
}
