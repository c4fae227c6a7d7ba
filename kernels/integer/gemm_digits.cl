/* gemm_digits: matrix products from digits of 8 bits on any device; see digits.clh. out[z][i][j] as in gemm.clh, epilogue and bias too.
 *
 * Specialised by   BIAS, OUT_T, and EXPR: see gemm.clh; DIGITS 4 (default) or 2
 * Arguments        a, b: digits from x.a and x.b on, x.a_inner and x.b_inner bytes of scales before the digits; matrices a_outer and b_outer
 *                  bytes apart, 0: one for all products; rows a_pitch and b_pitch = a_pitch bytes.
 * Launch           1-D, at least one work-item per ROWS rows and ACROSS columns of out, of x.tiles products one after another.
 * Numerics         sums of integers, so that their order does not matter.
 */
#define BIAS 0
#define OUT_T float
#define DIGITS 4
#define ROWS 32
#include "shared/rng.clh"
#include "gemm/gemm_args.h"
#include "gemm/gemm_epilogue.clh"
#include "integer/digits.clh"
#include "integer/dot.clh"

#define DOWN   2 /* rows of A and columns of B whose sums are in registers */
#define ACROSS 4

/* The operand's row: its first digit, and bytes from a digit to the next. */
typedef struct {
    global const char *first;
    long step;
} digit_row;

/* Rows from `row` on, of which the last of `rows` is taken again where there is none. */
static inline digit_row digit_row_of(global const uchar *all, ulong at, long head, long outer, int product, int rows, int row, int pitch)
{
    const long matrix = outer == 0 ? 0 : product;
    const digit_row r = {(global const char *)(all + at + head + matrix * outer + (long)min(row, rows - 1) * pitch), (long)rows * pitch};

    return r;
}

static inline int scale_at(global const uchar *all, ulong at, long outer, int product, int rows, int row)
{
    return ((global const int *)(all + at))[(outer == 0 ? 0 : (long)product) * rows + row];
}

/* c[r][s] = group g of the products of rows p[r] and q[s]. */
static inline void add_group(const digit_row *p, const digit_row *q, int g, int pitch, int (*c)[ACROSS])
{
    sums acc[DOWN][ACROSS];

#pragma unroll
    for (int e = 0; e < DOWN * ACROSS; e++) {
        acc[e / ACROSS][e % ACROSS] = (sums)(0u);
    }
    for (int d = 0; d <= g; d++) {
        for (int l = 0; l < pitch; l += 16) {
            short16 a[DOWN];

#pragma unroll
            for (int r = 0; r < DOWN; r++) {
                a[r] = sixteen(p[r].first + d * p[r].step + l);
            }
#pragma unroll
            for (int s = 0; s < ACROSS; s++) {
                const short16 b = sixteen(q[s].first + (g - d) * q[s].step + l);

#pragma unroll
                for (int r = 0; r < DOWN; r++) {
                    acc[r][s] = add_products(acc[r][s], a[r], b);
                }
            }
        }
    }
#pragma unroll
    for (int e = 0; e < DOWN * ACROSS; e++) {
        c[e / ACROSS][e % ACROSS] = total_of(acc[e / ACROSS][e % ACROSS]);
    }
}

kernel void gemm_digits(global const uchar *a, global const uchar *b, global const float *bias, global OUT_T *out EPILOGUE_ARGS(with),
                        const charl__gemm_args x)
{
    const int down = (x.m + ROWS - 1) / ROWS, across = (x.n + ACROSS - 1) / ACROSS;
    const ulong item = get_global_id(0), each = (ulong)down * (ulong)across;
    const int product = (int)(item / each), i0 = (int)(item % each / (ulong)across) * ROWS, j0 = (int)(item % (ulong)across) * ACROSS;
    const long first = product * x.out_outer;
    const epilogue_operands beside = epilogue_at((epilogue_operands)EPILOGUE_OF(with, x), first);
    digit_row q[ACROSS];

    if (product >= x.tiles) {
        return;
    }
    for (int s = 0; s < ACROSS; s++) {
        q[s] = digit_row_of(b, x.b, x.b_inner, x.b_outer, product, x.n, j0 + s, x.b_pitch);
    }
    for (int i1 = i0; i1 < min(i0 + ROWS, x.m); i1 += DOWN) {
        int c[4][DOWN][ACROSS] = {{{0}}};
        digit_row p[DOWN];

        for (int r = 0; r < DOWN; r++) {
            p[r] = digit_row_of(a, x.a, x.a_inner, x.a_outer, product, x.m, i1 + r, x.a_pitch);
        }
        for (int g = 0; g < DIGITS; g++) {
            add_group(p, q, g, x.a_pitch, c[g]);
        }
        for (int e = 0; e < DOWN * ACROSS; e++) {
            const int r = e / ACROSS, s = e % ACROSS, i = i1 + r, j = j0 + s;
            const long at = (long)i * x.n + j;

            if (i >= x.m || j >= x.n) {
                continue;
            }
            float sum = sum_of_digits(c[0][r][s], c[1][r][s], c[2][r][s] + carry_of(c[3][r][s]), scale_at(a, x.a, x.a_outer, product, x.m, i),
                                      scale_at(b, x.b, x.b_outer, product, x.n, j));

            if (BIAS > 0) {
                sum += bias[x.bias + (ulong)j];
            }
            if (HAS_EPILOGUE) {
                sum = epilogue(sum, &beside, at, 1);
            }
            charl_put(sum, out + x.out + first + at);
        }
    }
}
