/* conv_depthwise: convolution of each channel by a window of its own, and its two gradients.
 *
 *   charl_depthwise         out[n,c,y,x] = bias[c] + sum over i, j of x[n,c, y SH - PH + i DH, x SW - PW + j DW] w[c,i,j]
 *                           with GRADIENT, of the image: out[n,c,y,x] = sum of g[n,c,a,b] w[c,i,j] over the i, j with a SH = y + PH - i DH and
 *                           b SW = x + PW - j DW; then (h, w) is the extent of g
 *   charl_depthwise_weight  out[leaf,c,i,j] = sum over the samples n of the leaf and y, x of g[n,c,y,x] x[n,c, y SH - PH + i DH, ...]
 *
 * Specialised by   KH KW SH SW PH PW DH DW  kernel, stride, padding, dilation
 *                  LAST      1: images are channels-last; channels are a multiple of 4
 *                  GRADIENT  1: see above
 *                  TY, TX    rows and columns of a work-item's block of out, with GRADIENT multiples of the stride; of charl_depthwise_weight
 *                            TX columns of g are read at a time
 *                  V         with LAST, channels of a work-item: 2 or 4
 *                  LANES_X, LANES_Y  of a group: work-items with other channels; with LAST, blocks
 *                  ACT       element type of images and weight
 * Launch           1-D. charl_depthwise: `blocks` blocks of TY x TX of one channel, one to a work-item; with LAST a group has LANES_X * V channels
 *                  of LANES_Y blocks, and groups of the same blocks follow one another.
 *                  charl_depthwise_weight: a work-item has a row of taps of one channel, with LAST of V; a group of LANES_X * KH has all rows of
 *                  its channels, and groups of the same leaf follow one another.
 * Numerics         that of gemm.clh, whose products compute other convolutions: every element is one chain of fma from +0, in ascending i, j
 *                  or n, y, x, in which pixels outside count as 0; then the bias is added. Taps that fall between pixels of g, with a stride, are left out.
 */
#define KH 3
#define KW 3
#define SH 1
#define SW 1
#define PH 1
#define PW 1
#define DH 1
#define DW 1
#define LAST 0
#define GRADIENT 0
#define TY 2
#define TX 4
#define V 2
#define LANES_X 8
#define LANES_Y 16
#include "shared/small_vectors.clh"

#define FLOOR_DIV(a, b) ((a) >= 0 ? (a) / (b) : -((-(a) + (b) - 1) / (b)))

/* A block reads EXTENT rows of the image from row FIRST on, and so many columns. Counted from there, row READ is the one that tap i multiplies for
 * result `at` of the block, if it READS one. k, s, p, d: kernel, stride, padding, dilation. */
#if GRADIENT
#define LOWEST(k, s, p, d)       FLOOR_DIV((p) - ((k) - 1) * (d), s)
#define EXTENT(t, k, s, p, d)    (FLOOR_DIV((t) - 1 + (p), s) - LOWEST(k, s, p, d) + 1)
#define FIRST(at, k, s, p, d)    ((at) / (s) + LOWEST(k, s, p, d))
#define READS(at, i, s, p, d)    (((at) + (p) - (i) * (d)) % (s) == 0)
#define READ(at, i, k, s, p, d)  (((at) + (p) - (i) * (d)) / (s) - LOWEST(k, s, p, d))
#define UNDER(at, r, k, s, p, d) ((at) + (p) - ((r) + LOWEST(k, s, p, d)) * (s)) /* d times the tap that reads r */
#else
#define EXTENT(t, k, s, p, d)    (((t) - 1) * (s) + ((k) - 1) * (d) + 1)
#define FIRST(at, k, s, p, d)    ((at) * (s) - (p))
#define READS(at, i, s, p, d)    true
#define READ(at, i, k, s, p, d)  ((at) * (s) + (i) * (d))
#define UNDER(at, r, k, s, p, d) ((r) - (at) * (s))
#endif
#define ROWS    EXTENT(TY, KH, SH, PH, DH)
#define COLUMNS EXTENT(TX, KW, SW, PW, DW)

#define CHANNELS (LANES_X * V) /* of a group */
#if LAST
#define KERNEL kernel __attribute__((reqd_work_group_size(LANES_X * LANES_Y, 1, 1)))
#else
#define KERNEL kernel
#endif
#if LAST && V == 4
typedef float4 numbers;
#define GET(p)    take4(p)
#define PUT(x, p) put4(x, p)
#define BIASES(p) vload4(0, p)
#elif LAST && V == 2
typedef float2 numbers;
#define GET(p)    take2(p)
#define PUT(x, p) put2(x, p)
#define BIASES(p) vload2(0, p)
#else
typedef float numbers;
#define GET(p)    charl_get(p)
#define PUT(x, p) charl_put(x, p)
#define BIASES(p) *(p)
#endif

/* Each channel of a vector goes to its own window. */
CHARL_OVERLOAD void put_apart(float x, global float *out)
{
    *out = x;
}

CHARL_OVERLOAD void put_apart(float2 x, global float *out)
{
    out[0] = x.x;
    out[KH * KW] = x.y;
}

CHARL_OVERLOAD void put_apart(float4 x, global float *out)
{
    put_apart(x.lo, out);
    put_apart(x.hi, out + 2 * KH * KW);
}

/* Pixel `at` of a row, `apart` elements from one to the next, and what of it counts: 0 outside. Every pixel is read from somewhere in the row, so that no
 * read is behind a branch; those of a block are all read before one is used. */
static inline numbers pixel_at(global const ACT *row, int at, int width, int apart)
{
    return GET(row + (long)clamp(at, 0, width - 1) * apart);
}

static inline numbers counted(numbers pixel, bool is_inside, int at, int width)
{
    return is_inside && at >= 0 && at < width ? pixel : (numbers)0.0f;
}

KERNEL void charl_depthwise(global const ACT *x, ulong x_at, global const ACT *w, ulong w_at, global const float *bias, ulong bias_at,
                            global ACT *out, ulong out_at, ulong blocks, int channels, int h, int width, int oh, int ow)
{
    const int down = (oh + TY - 1) / TY, across = (ow + TX - 1) / TX;
#if LAST
    const int lane = (int)get_local_id(0), groups = (channels + CHANNELS - 1) / CHANNELS; /* of the same blocks */
    const ulong block = get_group_id(0) / (ulong)groups * LANES_Y + (ulong)(lane / LANES_X);
#else
    const ulong block = get_global_id(0);
#endif
    const ulong plane = block / (ulong)(down * across); /* with LAST, the sample */
    const int y0 = (int)(block / (ulong)across % (ulong)down) * TY, x0 = (int)(block % (ulong)across) * TX;
    const int top = FIRST(y0, KH, SH, PH, DH), left = FIRST(x0, KW, SW, PW, DW);
    numbers sum[TY][TX];

#if LAST
    local numbers weights[KH * KW * LANES_X];
    const int first = (int)(get_group_id(0) % (ulong)groups) * CHANNELS, c = first + lane % LANES_X * V, apart = channels;

    for (int i = lane; i < KH * KW * CHANNELS; i += LANES_X * LANES_Y) {
        const int of = i / (KH * KW), tap = i % (KH * KW);

        ((local float *)weights)[tap * CHANNELS + of] = first + of < channels ? charl_get(w + w_at + (long)first * (KH * KW) + i) : 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (c >= channels || block >= blocks) {
        return;
    }
    x += x_at + plane * (ulong)h * (ulong)width * (ulong)channels + (ulong)c;
    out += out_at + plane * (ulong)oh * (ulong)ow * (ulong)channels + (ulong)c;
#else
    const int c = (int)(plane % (ulong)channels), apart = 1;

    if (block >= blocks) {
        return;
    }
    x += x_at + plane * (ulong)h * (ulong)width;
    out += out_at + plane * (ulong)oh * (ulong)ow;
    w += w_at + (long)c * (KH * KW);
#endif

#pragma unroll
    for (int ty = 0; ty < TY; ty++) {
#pragma unroll
        for (int tx = 0; tx < TX; tx++) {
            sum[ty][tx] = 0.0f;
        }
    }
#pragma nounroll
    for (int n = 0; n < ROWS; n++) {
        const int r = GRADIENT ? ROWS - 1 - n : n; /* taps of a result in ascending order */
        numbers v[COLUMNS];

#pragma unroll
        for (int t = 0; t < COLUMNS; t++) {
            v[t] = pixel_at(x + (long)clamp(top + r, 0, h - 1) * width * apart, left + t, width, apart);
        }
#pragma unroll
        for (int t = 0; t < COLUMNS; t++) {
            v[t] = counted(v[t], top + r >= 0 && top + r < h, left + t, width);
        }
#pragma unroll
        for (int ty = 0; ty < TY; ty++) {
            const int under = UNDER(ty, r, KH, SH, PH, DH), i = under / DH;

            if (under < 0 || under % DH != 0 || i >= KH) {
                continue;
            }
#pragma unroll
            for (int j = 0; j < KW; j++) {
#if LAST
                const numbers weight = weights[(i * KW + j) * LANES_X + lane % LANES_X];
#else
                const float weight = charl_get(w + i * KW + j);
#endif

#pragma unroll
                for (int tx = 0; tx < TX; tx++) {
                    if (READS(tx, j, SW, PW, DW)) {
                        sum[ty][tx] = fma(v[READ(tx, j, KW, SW, PW, DW)], weight, sum[ty][tx]);
                    }
                }
            }
        }
    }
#pragma unroll
    for (int ty = 0; ty < TY; ty++) {
#pragma unroll
        for (int tx = 0; tx < TX; tx++) {
            if (y0 + ty < oh && x0 + tx < ow) {
                numbers result = sum[ty][tx];

                if (bias) {
                    result += BIASES(bias + bias_at + c);
                }
                PUT(result, out + ((long)(y0 + ty) * ow + x0 + tx) * apart);
            }
        }
    }
}

#define SPREAD ((TX - 1) * SW + (KW - 1) * DW + 1) /* columns of the image under TX of g */

/* A column of g times the pixels under it. */
static inline void add_column(numbers *sum, numbers a, const numbers *b)
{
#pragma unroll
    for (int k = 0; k < KW; k++) {
        sum[k] = fma(a, b[k * DW], sum[k]);
    }
}

kernel void charl_depthwise_weight(global const ACT *g, ulong g_at, global const ACT *x, ulong x_at, global float *out, ulong out_at,
                                   int samples, int channels, int h, int width, int oh, int ow)
{
    const int of_group = LANES_X * (LAST ? V : 1), groups = (channels + of_group - 1) / of_group, lane = (int)get_local_id(0);
    const int c = (int)(get_group_id(0) % (ulong)groups) * of_group + lane % LANES_X * (LAST ? V : 1), i = lane / LANES_X;
    const ulong leaf = get_group_id(0) / (ulong)groups;
    const int apart = LAST ? channels : 1;
    numbers sum[KW];

    if (c >= channels) {
        return;
    }
#pragma unroll
    for (int t = 0; t < KW; t++) {
        sum[t] = 0.0f;
    }
    for (int n = 0; n < samples; n++) {
        const ulong sample = leaf * (ulong)samples + (ulong)n;
        const ulong plane = LAST ? sample : sample * (ulong)channels + (ulong)c;
        global const ACT *of_g = g + g_at + plane * (ulong)oh * (ulong)ow * (ulong)apart + (LAST ? (ulong)c : 0);
        global const ACT *of_x = x + x_at + plane * (ulong)h * (ulong)width * (ulong)apart + (LAST ? (ulong)c : 0);

        for (int y = 0; y < oh; y++) {
            const int row = y * SH - PH + i * DH;

            for (int x0 = 0; x0 < ow; x0 += TX) {
                const int left = x0 * SW - PW;
                numbers a[TX], b[SPREAD];

#pragma unroll
                for (int t = 0; t < TX; t++) {
                    a[t] = pixel_at(of_g + (long)y * ow * apart, x0 + t, ow, apart);
                }
#pragma unroll
                for (int t = 0; t < TX; t++) {
                    a[t] = counted(a[t], true, x0 + t, ow);
                }
#pragma unroll
                for (int t = 0; t < SPREAD; t++) {
                    b[t] = pixel_at(of_x + (long)clamp(row, 0, h - 1) * width * apart, left + t, width, apart);
                }
#pragma unroll
                for (int t = 0; t < SPREAD; t++) {
                    b[t] = counted(b[t], row >= 0 && row < h, left + t, width);
                }
                if (x0 + TX <= ow) {
#pragma unroll
                    for (int t = 0; t < TX; t++) {
                        add_column(sum, a[t], b + t * SW);
                    }
                } else {
#pragma unroll
                    for (int t = 0; t < TX; t++) {
                        if (x0 + t < ow) {
                            add_column(sum, a[t], b + t * SW);
                        }
                    }
                }
            }
        }
    }
    out += out_at + (leaf * (ulong)channels + (ulong)c) * (KH * KW) + (ulong)(i * KW);
#pragma unroll
    for (int k = 0; k < KW; k++) {
        put_apart(sum[k], out + k);
    }
}
