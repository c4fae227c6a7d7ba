/* gemm_digits: matrix products from digits of 8 bits on any device; see digits.clh. out[z][i][j] as in gemm.clh, epilogue and bias too.
 *
 * Specialised by   BIAS, OUT_T, and EXPR: see gemm.clh; DIGITS 4 (default) or 2
 * Arguments        a, b: digits from x.a and x.b on, x.a_inner and x.b_inner bytes of scales before the digits; matrices a_outer and b_outer
 *                  bytes apart, 0: one for all products; rows a_pitch and b_pitch = a_pitch bytes.
 * Launch           1-D, at least one work-item per element of out, of x.tiles products one after another.
 * Numerics         sums of integers, so that their order does not matter.
 */
#define BIAS 0
#define OUT_T float
#define DIGITS 4
#include "shared/rng.clh"
#include "gemm/gemm_args.h"
#include "gemm/gemm_epilogue.clh"
#include "integer/digits.clh"

#define STRETCH 64 /* of k, whose digits stay in registers or the nearest cache */

/* The operand's row: its first digit, bytes from a digit to the next, and its scale. */
typedef struct {
    global const char *first;
    long step;
    int scale;
} digit_row;

static inline digit_row digit_row_of(global const uchar *all, ulong at, long head, long outer, int product, int rows, int row, int pitch)
{
    const long matrix = outer == 0 ? 0 : product;
    const digit_row r = {(global const char *)(all + at + head + matrix * outer + (long)row * pitch), (long)rows * pitch,
                         ((global const int *)(all + at))[matrix * rows + row]};

    return r;
}

static inline int products_of(global const char *a, global const char *b, int k)
{
    int sum = 0;

    for (int l = 0; l < k; l++) {
        sum += (int)a[l] * (int)b[l];
    }
    return sum;
}

kernel void gemm_digits(global const uchar *a, global const uchar *b, global const float *bias, global OUT_T *out EPILOGUE_ARGS(with),
                        const charl__gemm_args x)
{
    const ulong item = get_global_id(0), each = (ulong)x.m * (ulong)x.n;
    const int product = (int)(item / each), i = (int)(item % each / (ulong)x.n), j = (int)(item % (ulong)x.n);
    const long first = product * x.out_outer, at = (long)i * x.n + j;
    epilogue_operands beside = EPILOGUE_OF(with, x);
    int c[4] = {0, 0, 0, 0};
    float sum;

    if (product >= x.tiles) {
        return;
    }

    const digit_row p = digit_row_of(a, x.a, x.a_inner, x.a_outer, product, x.m, i, x.a_pitch);
    const digit_row q = digit_row_of(b, x.b, x.b_inner, x.b_outer, product, x.n, j, x.b_pitch);

    for (int l = 0; l < x.a_pitch; l += STRETCH) {
        for (int d = 0; d < DIGITS; d++) {
            for (int e = 0; d + e < DIGITS; e++) {
                c[d + e] += products_of(p.first + d * p.step + l, q.first + e * q.step + l, min(STRETCH, x.a_pitch - l));
            }
        }
    }
    sum = sum_of_digits(c[0], c[1], c[2] + carry_of(c[3]), p.scale, q.scale);
    if (BIAS > 0) {
        sum += bias[x.bias + (ulong)j];
    }
    beside = epilogue_at(beside, first);
    if (HAS_EPILOGUE) {
        sum = epilogue(sum, &beside, at, 1);
    }
    charl_put(sum, out + x.out + first + at);
}
