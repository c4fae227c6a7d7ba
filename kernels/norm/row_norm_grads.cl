/* row_norm_grads: row_norm_grad.cl's gradient and the sums of row_norm_sums.cl's blocks in one pass over the rows, with their bits.
 *
 *   charl_gradients  out as there; sums[s][b][0][c] = sum over the rows of block b of slice s of g * h, for layer_norm sums[s][b][1][c] =
 *                    sum of g
 *
 * Specialised by   as row_norm_grad.cl, KEEP > 0. Rows are whole vectors, and all operands begin at multiples of 16 bytes.
 *                  BLOCK  rows that are added up at once: part of the result
 *                  FULL  2: a row has KEEP whole blocks; 1: all but the last are whole (default 0: not known). Then nothing is decided at them
 * Launch           src/autograd/op/norm/row_norm_grad.c: the four accumulators of a block are formed by as many teams of work-items, each of
 *                  which goes through its rows; where rows are short several blocks share a group.
 * Numerics         as those two.
 */
#if CHARL_VEC == 8
#include "norm/pack_half.clh"
#include "norm/row_norm.clh"
#include "norm/row_norm_grad.clh"

#define GROUP 128 /* work-items, which have as many sums of rows as row_norm_sums.cl has accumulators, or some blocks of them */
#define TEAMS 4   /* accumulators of a block: each has the CHARL_ROW_ITEMS work-items of a row */

/* The sums of a block as its teams have them, in float4 [team][blocks of a row][half][work-item]. */
#define PARTS        (KEEP * 2 * CHARL_ROW_ITEMS) /* of a team */
#define PART(i, odd) (((i) * 2 + (odd)) * CHARL_ROW_ITEMS)

/* The next row is read ahead where there are registers for it, else it is at least on its way to the cache. Sums that do not fit registers
 * stay in local memory. */
#define AHEAD          (KEEP <= 2 || CHARL_ROW_ITEMS == 16)
#define BIAS_IN_MEMORY (CENTRED && KEEP > 2)

/* Columns of a block that a work-item adds up: those of g * h, and for layer_norm of g. */
typedef struct {
    charl_real of_w[KEEP], of_b[BIAS_IN_MEMORY ? 1 : KEEP];
    local float4 *part;
} columns;

CHARL_INLINE void add_row(const row r, line *l, columns *c)
{
    const int n = r.n, t = r.t;
    const float4 s = means(true, r, l);

    if (!r.exists) {
        return;
    }
    EACH(i, j, k, n, t)
    {
        (void)k;
        const charl_real g = gradient_of(true, r, l, i, j), h = normal_of(true, r, l, i, j, s.xy);

        write_gradient(true, r, l, i, j, weighted(true, r, g, j), h, s);
        c->of_w[i] = charl_mad_for(g, h, c->of_w[i], sizeof(ACT));
#if BIAS_IN_MEMORY
        c->part[PART(i, 0)] += g.lo;
        c->part[PART(i, 1)] += g.hi;
#elif CENTRED
        c->of_b[i] = c->of_b[i] + g;
#endif
    }
}

static inline void put_part(const charl_real *sum, local float4 *part)
{
    for (int i = 0; i < KEEP; i++) {
        part[PART(i, 0)] = sum[i].lo;
        part[PART(i, 1)] = sum[i].hi;
    }
}

/* out[column] = what the teams of a block have, for all blocks of the group. Every work-item must come. */
static inline void add_teams(local const float4 part[static GROUP * 2 * KEEP], global float *out, ulong first, ulong blocks, ulong of_block, int n)
{
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int s = (int)get_local_id(0); s < GROUP / CHARL_ROW_ITEMS / TEAMS * PARTS; s += GROUP) {
        const ulong block = first + s / PARTS;
        local const float4 *p = part + s / PARTS * TEAMS * PARTS + s % PARTS;
        const int at = s % PARTS / CHARL_ROW_ITEMS, j = at / 2 * CHARL_ROW_WIDTH + s % CHARL_ROW_ITEMS * CHARL_VEC + at % 2 * 4;
        const float4 sum = (p[0] + p[2 * PARTS]) + (p[PARTS] + p[3 * PARTS]);
        const float v[4] = {sum.x, sum.y, sum.z, sum.w};

        for (int e = 0; e < 4 && block < blocks; e++) {
            if (j + e < n) {
                out[block * of_block + j + e] = v[e];
            }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

static inline void expect(const row r)
{
#ifdef CHARL_PTX
    for (int i = 0; i < KEEP; i++) {
        const int j = min(i * CHARL_ROW_WIDTH + r.t * CHARL_VEC, r.n - CHARL_VEC);

        charl_prefetch(r.x + j);
        charl_prefetch(r.g + j);
    }
#else
    (void)r;
#endif
}

/* Rows i, i + TEAMS, ... before `end`, in so many steps. */
CHARL_INLINE void add_rows(const row r, ulong i, ulong end, ulong rows, int steps, columns *c)
{
    line now, next;

    if (AHEAD) {
        fetch(true, row_at(r, i, end, rows), &next);
    }
    for (int step = 0; step < steps; step++, i += TEAMS) {
        if (!AHEAD) {
            fetch(true, row_at(r, i, end, rows), &now);
        } else {
            now = next;
        }
        fetch_extra(true, row_at(r, i, end, rows), &now);
        if (AHEAD && step + 1 < steps) {
            fetch(true, row_at(r, i + TEAMS, end, rows), &next);
        } else if (step + 1 < steps) {
            expect(row_at(r, i + TEAMS, end, rows));
        }
        add_row(row_at(r, i, end, rows), &now, c);
    }
}

/* slices of `height` rows */
kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void charl_gradients(
    global const ACT *g, ulong g_at, global const ACT *x, ulong x_at, global const float *w, ulong w_at,
    EXTRA_OPERAND(extra) global ACT *out, ulong out_at, global float *sums, ulong sums_at, ulong slices, ulong height,
    ulong size, float eps)
{
    local float4 part[GROUP * 2 * KEEP];
    local charl_row_scratch scratch;
    const int item = (int)get_local_id(0), t = item % CHARL_ROW_ITEMS, team = item / CHARL_ROW_ITEMS;
    const ulong of_slice = max((height + BLOCK - 1) / BLOCK, (ulong)1), blocks = slices * of_slice, rows = slices * height;
    const ulong first = get_group_id(0) * (GROUP / CHARL_ROW_ITEMS / TEAMS), block = min(first + team / TEAMS, blocks - 1);
    const ulong begin = block / of_slice * height + block % of_slice * BLOCK;
    const ulong end = min(begin + BLOCK, (block / of_slice + 1) * height);
    const int steps = (int)(min(height, (ulong)BLOCK) + TEAMS - 1) / TEAMS;
    const row r = {.x = x + x_at, .g = g + g_at, .w = AFFINE > 0 ? w + w_at : 0, .out = out + out_at, .extra = EXTRA_AT(extra, 0),
                   .n = (int)size, .t = t, .eps = eps, .scratch = &scratch};
    columns c;

    c.part = part + team * PARTS + t;
    for (int i = 0; i < KEEP; i++) {
        c.of_w[i] = CHARL_SPLAT(0.0f);
#if BIAS_IN_MEMORY
        c.part[PART(i, 0)] = c.part[PART(i, 1)] = (float4)(0.0f);
#elif CENTRED
        c.of_b[i] = CHARL_SPLAT(0.0f);
#endif
    }
    add_rows(r, begin + team % TEAMS, end, rows, steps, &c);
    sums += sums_at;
#if CENTRED
#if !BIAS_IN_MEMORY
    put_part(c.of_b, c.part);
#endif
    add_teams(part, sums + size, first, blocks, 2 * size, (int)size);
#endif
    put_part(c.of_w, c.part);
    add_teams(part, sums, first, blocks, (CENTRED ? 2 : 1) * size, (int)size);
}
#endif
