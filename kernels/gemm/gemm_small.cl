/* gemm_small: matrix products too small to fill a device with the tiles of gemm_local; see gemm.clh.
 *
 * Specialised by   A_KIND, B_KIND 0 or 1, and BIAS: see gemm.clh
 *                  TILE    16 or 32 rows and columns of a work-group (default 32)
 *                  PART    2 or 4 of them a work-item's: it has PART x PART outputs (default 2)
 *                  A_BY_4, B_BY_4  1: the operand, and what it consists of, begins at multiples of 4 elements, and its rows are multiples of 4
 *                  FLAT    1: stretches of k, with FOLD leaves, lie in both operands as one long one would (default 0)
 *                  FOLD    1: product z is the sum of `leaves` products, at most M, in the fixed tree; operands of a leaf lie x_outer
 *                          apart; ROUND as in tree.clh
 *                  A_SUMS  1, with FOLD: the sums of A over k go to a_sums [m], per leaf as charl_fold_columns of reduce_slices.cl adds a column of
 *                          up to 256 rows, over the leaves in the tree
 *                  PAIR    1: gemm_small_pair, another product in the same launch, without epilogue, specialised by the same names with _2,
 *                          of which TILE, PART and FLAT are the same;
 *                          the first `groups` work-groups are those of the product without FOLD that the other names describe
 * Launch           groups of (TILE / PART)^2 work-items, one per tile; tiles go by column, row, product. Such products wait for memory, so
 *                  tiles are deep, and the next ones are read while one is multiplied. Both tiles are in local memory, twice, with k running
 *                  fastest; a work-item's outputs are TILE / PART apart, and it reads four k at a time.
 * Numerics         see gemm.clh; with FOLD the tree of src/base/numeric/tree.h over the leaves.
 */
#define TILE 32
#define PART 2
#define A_BY_4 0
#define B_BY_4 0
#define FLAT 0
#define FOLD 0
#define A_SUMS 0
#define PAIR 0
#include "shared/rng.clh"
#include "gemm/gemm_args.h"
#include "gemm/gemm_epilogue.clh"
#include "gemm/gemm.clh"
#include "shared/small_vectors.clh"
#include "shared/tree.clh"
#include "gemm/gemm_small_tiles.clh"

/* What is constant in a launch, for each of its products. */
typedef struct {
    bool a_transposed, b_transposed, a_by_4, b_by_4, flat, folds, sums_a, ends; /* ends: with the epilogue, if there is one */
    int bias;
} form;

/* The operands and numbers of a product. */
typedef struct {
    global const ACT *a, *b;
    global const float *bias;
    global OUT_T *out;
    global float *a_sums;
    int m, n, k, segments, inner, leaves;
    long a_segment, b_segment, a_outer, a_inner, b_outer, b_inner, out_outer, out_inner;
} product;

CHARL_INLINE product product_of(global const ACT *a, global const ACT *b, global const float *bias, global OUT_T *out, global float *a_sums, const charl__gemm_args p)
{
    const product x = {a + p.a, b + p.b, bias + p.bias, out + p.out, a_sums + p.a_sums, p.m, p.n, p.k, p.segments, p.inner, p.leaves, p.a_segment,
                       p.b_segment, p.a_outer, p.a_inner, p.b_outer, p.b_inner, p.out_outer, p.out_inner};

    return x;
}

/* What a work-item adds up: its outputs and, with sums of A, a row of A; where the product folds, those of a leaf, whose nodes wait in levels. */
typedef struct {
    float out[OUTPUTS], level[OUTPUTS][CHARL_TREE_LEVELS];
    float column[4], column_level[CHARL_TREE_LEVELS]; /* of A: see add_column */
    int leaf, left;                                   /* the leaf being added up, and the steps that it lacks */
} sums;

CHARL_INLINE void begin_sums(sums *x, int k)
{
#pragma unroll
    for (int r = 0; r < OUTPUTS; r++) {
        x->out[r] = 0.0f;
    }
    x->column[0] = x->column[1] = x->column[2] = x->column[3] = 0.0f;
    x->leaf = 0;
    x->left = k;
}

/* Adds the products of a tile of `steps` steps, as they lie from this work-item's row and column on. */
CHARL_INLINE void add_tile(sums *x, int steps, local const float *a, local const float *b)
{
    if (steps == BK) {
#pragma unroll 8 /* of more, reading the instructions takes longer than it saves */
        for (int k = 0; k < BK; k += 4) {
            add_four(k, a, b, x->out);
        }
    } else {
        add(0, steps, a, b, x->out);
    }
}

/* The leaf is complete: to the tree with it. */
CHARL_INLINE void end_leaf(sums *x, int k)
{
    charl_tree_add_each(x->level[0], x->leaf, x->out, OUTPUTS);
#pragma unroll
    for (int r = 0; r < OUTPUTS; r++) {
        x->out[r] = 0.0f;
    }
    charl_tree_add(x->column_level, x->leaf, (x->column[0] + x->column[2]) + (x->column[1] + x->column[3]));
    x->column[0] = x->column[1] = x->column[2] = x->column[3] = 0.0f;
    x->leaf++;
    x->left = k;
}

/* The same as add_tile for a product that folds: a tile may have the end of a leaf, whole ones, and the beginning of another. row: of A in the tile,
 * that this work-item adds up; or NULL. */
CHARL_INLINE void add_leaves(sums *x, int leaf_steps, int steps, local const float *a, local const float *b, local const float *row)
{
    for (int k = 0; k < steps;) {
        const int end = min(steps, k + x->left);

        if (row) {
            add_column(row, k, end, leaf_steps - x->left, x->column);
        }
        add(k, end, a, b, x->out);
        x->left -= end - k;
        k = end;
        if (x->left == 0) {
            end_leaf(x, leaf_steps);
        }
    }
}

/* Stores the output at (i, j), if there is one: with its bias, and through the epilogue. */
CHARL_INLINE void store(const form f, const product *p, float sum, int i, int j, long first, int zi, const epilogue_operands *with)
{
    const long at = (long)i * p->n + j;

    if (i >= p->m || j >= p->n) {
        return;
    }
    if (f.bias > 0) {
        sum += p->bias[f.bias == 1 ? j : zi * p->m + i];
    }
    if (HAS_EPILOGUE && f.ends) {
        sum = epilogue(sum, with, at, p->n - j);
    }
    charl_put(sum, p->out + first + at);
}

/* Both operands' tiles, one pair read and one written at a time: read as vectors. */
typedef struct {
    float a[2][TILE * PITCH], b[2][TILE * PITCH];
} __attribute__((aligned(16))) tiles;

/* Tile `group` of p. Turn t puts tile t into local memory, reads tile t + AHEAD into registers, and multiplies tile t. */
CHARL_INLINE void multiply(const form f, const product p, int group, local tiles *tile, epilogue_operands with)
{
    const int lane = (int)get_local_id(0), tx = lane % APART, ty = lane / APART;
    const int cols = (p.n + TILE - 1) / TILE, rows = (p.m + TILE - 1) / TILE;
    const int j0 = group % cols * TILE, i0 = group / cols % rows * TILE;
    const int z = group / cols / rows, zo = p.inner > 1 ? z / p.inner : z, zi = z - zo * p.inner;
    const int depth = p.k * (f.folds ? p.leaves : p.segments);
    const operand a =
        operand_of(p.a + zo * p.a_outer + zi * p.a_inner, i0, p.m, depth, p.k, f.folds ? p.a_outer : p.a_segment, f.a_transposed, f.flat, f.a_by_4);
    const operand b =
        operand_of(p.b + zo * p.b_outer + zi * p.b_inner, j0, p.n, depth, p.k, f.folds ? p.b_outer : p.b_segment, !f.b_transposed, f.flat, f.b_by_4);
    const long first = zo * p.out_outer + zi * p.out_inner;
    const bool adds = f.sums_a && j0 == 0 && lane < TILE; /* a row of A */
    float va[AHEAD][LOADS], vb[AHEAD][LOADS];
    sums x;

    begin_sums(&x, p.k);
    with = epilogue_at(with, first);
#pragma unroll
    for (int s = 0; s < AHEAD; s++) {
        bring(a, lane, s * BK, va[s]);
        bring(b, lane, s * BK, vb[s]);
    }
    for (int t0 = 0; t0 * BK < depth; t0 += AHEAD) {
#pragma unroll
        for (int s = 0; s < AHEAD; s++) {
            const int k0 = (t0 + s) * BK, steps = min(depth - k0, BK), at = AHEAD == 1 ? t0 & 1 : s;
            local float *const as = tile->a[at], *const bs = tile->b[at];

            if (s > 0 && k0 >= depth) {
                break;
            }
            put(a, lane, va[s], as);
            put(b, lane, vb[s], bs);
            barrier(CLK_LOCAL_MEM_FENCE);
            if (k0 + AHEAD * BK < depth) {
                bring(a, lane, k0 + AHEAD * BK, va[s]);
                bring(b, lane, k0 + AHEAD * BK, vb[s]);
            }
            if (f.folds) {
                add_leaves(&x, p.k, steps, as + ty * PITCH, bs + tx * PITCH, adds ? as + lane * PITCH : 0);
            } else {
                add_tile(&x, steps, as + ty * PITCH, bs + tx * PITCH);
            }
        }
    }
    if (adds && i0 + lane < p.m) {
        p.a_sums[i0 + lane] = charl_tree_sum_of(x.column_level, p.leaves);
    }
#pragma unroll
    for (int r = 0; r < OUTPUTS; r++) {
        store(f, &p, f.folds ? charl_tree_sum_of(x.level[r], p.leaves) : x.out[r], i0 + ty + r / PART * APART, j0 + tx + r % PART * APART, first, zi,
              &with);
    }
}

#if A_SUMS || A_SUMS_2
#define A_SUMS_ARG(a_sums) , global float *a_sums
#define A_SUMS_OF(a_sums)  a_sums
#else
#define A_SUMS_ARG(a_sums)
#define A_SUMS_OF(a_sums) 0
#endif
#define GROUP_SIZE __attribute__((reqd_work_group_size(LANES, 1, 1)))

#if !PAIR
kernel GROUP_SIZE void gemm_small(global const ACT *a, global const ACT *b, global const float *bias, global OUT_T *out EPILOGUE_ARGS(with),
                                  const charl__gemm_args p A_SUMS_ARG(a_sums))
{
    local tiles tile;
    const form f = {A_KIND == 1, B_KIND == 1, A_BY_4, B_BY_4, FLAT, FOLD, A_SUMS, true, BIAS};

    multiply(f, product_of(a, b, bias, out, A_SUMS_OF(a_sums), p), (int)get_group_id(0), &tile, EPILOGUE_OF(with, p));
}
#else
kernel GROUP_SIZE void gemm_small_pair(global const ACT *a, global const ACT *b, global const float *bias, global OUT_T *out EPILOGUE_ARGS(with),
                                       const charl__gemm_args p, global const ACT *a_2, global const ACT *b_2, global const float *bias_2,
                                       global OUT_T *out_2, const charl__gemm_args p_2 A_SUMS_ARG(a_sums_2), int groups)
{
    local tiles tile;
    const form f = {A_KIND == 1, B_KIND == 1, A_BY_4, B_BY_4, FLAT, false, false, true, BIAS};
    const form f_2 = {A_KIND_2 == 1, B_KIND_2 == 1, A_BY_4_2, B_BY_4_2, FLAT, FOLD_2, A_SUMS_2, false, BIAS_2};
    const product x = product_of(a, b, bias, out, 0, p), x_2 = product_of(a_2, b_2, bias_2, out_2, A_SUMS_OF(a_sums_2), p_2);
    const int group = (int)get_group_id(0);

#ifdef CHARL_PTX
    if (group < groups) {
        multiply(f, x, group, &tile, EPILOGUE_OF(with, p));
    } else {
        multiply(f_2, x_2, group - groups, &tile, EPILOGUE_OF(with, p));
    }
#else
    /* One call: where both sides of a branch have barriers, not every compiler does the right thing. */
    multiply(group < groups ? f : f_2, group < groups ? x : x_2, group < groups ? group : group - groups, &tile, EPILOGUE_OF(with, p));
#endif
}
#endif
