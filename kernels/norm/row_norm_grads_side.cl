/* row_norm_grads_side: what row_norm_grads.cl computes, where blocks of rows are fewer than compute units and rows short; with its bits.
 *
 * Specialised by   as row_norm_grads.cl, with KEEP 1 and CHARL_ROW_GROUP GROUP
 * Launch           a work-group per block: it has GROUP / CHARL_ROW_ITEMS rows side by side, whose g and h it keeps in local memory; then each
 *                  work-item adds those of a column to one of its four accumulators.
 * Numerics         as row_norm_grads.cl.
 */
#if CHARL_VEC == 8
#include "norm/pack_half.clh"
#include "norm/row_norm.clh"
#include "norm/row_norm_grad.clh"

#define GROUP 512
#define TEAMS 4 /* accumulators of a column */
#define ROWS  (GROUP / CHARL_ROW_ITEMS)
#define SPAN  (GROUP / TEAMS) /* columns that are added up at once */
#define SPANS ((CHARL_ROW_WIDTH + SPAN - 1) / SPAN)

/* Of the rows that a group has at a time; in the end its accumulators of g and of g * h. */
typedef struct {
    float g[ROWS][CHARL_ROW_WIDTH], h[ROWS][CHARL_ROW_WIDTH];
} rows_kept;

/* Writes the gradient of r, and keeps its g and h as row `at`. Every work-item must come. */
CHARL_INLINE void keep_row(const row r, int at, local rows_kept *to)
{
    const int n = r.n, t = r.t;
    line l;
    float4 s;

    fetch(true, r, &l);
    fetch_extra(true, r, &l);
    s = means(true, r, &l);
    EACH(i, j, k, n, t)
    {
        (void)k;
        const charl_real g = gradient_of(true, r, &l, i, j), h = normal_of(true, r, &l, i, j, s.xy);

        if (r.exists) {
            write_gradient(true, r, &l, i, j, weighted(true, r, g, j), h, s);
        }
        vstore8(g, 0, &to->g[at][j]);
        vstore8(h, 0, &to->h[at][j]);
    }
}

static inline float add_teams(local const float part[static TEAMS][CHARL_ROW_WIDTH], int c)
{
    return (part[0][c] + part[2][c]) + (part[1][c] + part[3][c]);
}

/* slices of `height` rows */
kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void charl_gradients(
    global const ACT *g, ulong g_at, global const ACT *x, ulong x_at, global const float *w, ulong w_at,
    EXTRA_OPERAND(extra) global ACT *out, ulong out_at, global float *sums, ulong sums_at, ulong slices, ulong height,
    ulong size, float eps)
{
    local rows_kept kept;
    local charl_row_scratch scratch;
    const int item = (int)get_local_id(0), n = (int)size, team = item / SPAN, first_column = item % SPAN;
    const ulong of_slice = max((height + BLOCK - 1) / BLOCK, (ulong)1), block = get_group_id(0);
    const ulong begin = block / of_slice * height + block % of_slice * BLOCK;
    const ulong end = min(begin + BLOCK, (block / of_slice + 1) * height);
    const row r = {.x = x + x_at, .g = g + g_at, .w = AFFINE > 0 ? w + w_at : 0, .out = out + out_at, .extra = EXTRA_AT(extra, 0),
                   .n = n, .t = item % CHARL_ROW_ITEMS, .eps = eps, .scratch = &scratch};
    float of_w[SPANS], of_b[SPANS];

#pragma unroll
    for (int i = 0; i < SPANS; i++) {
        of_w[i] = of_b[i] = 0.0f;
    }
    for (ulong first = begin; first < end; first += ROWS) {
        const int count = (int)min(end - first, (ulong)ROWS);

        keep_row(row_at(r, first + item / CHARL_ROW_ITEMS, end, slices * height), item / CHARL_ROW_ITEMS, &kept);
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int i = 0; i < SPANS; i++) {
            const int c = first_column + i * SPAN;

            for (int k = team; k < count && c < n; k += TEAMS) {
                of_w[i] = charl_mad_for(kept.g[k][c], kept.h[k][c], of_w[i], sizeof(ACT));
                of_b[i] = of_b[i] + kept.g[k][c];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#pragma unroll
    for (int i = 0; i < SPANS; i++) {
        const int c = first_column + i * SPAN;

        if (c < n) {
            kept.h[team][c] = of_w[i];
            kept.g[team][c] = of_b[i];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    sums += sums_at + block * (CENTRED ? 2 : 1) * size;
    for (int c = item; c < n; c += GROUP) {
        sums[c] = add_teams(kept.h, c);
        if (CENTRED) {
            sums[n + c] = add_teams(kept.g, c);
        }
    }
}
#endif
