/* cross_entropy_local: cross_entropy_with_grad.cl's with rows of a half type in local memory, on NVIDIA devices of compute capability 9.0.
 *
 *   charl_both  as there, to the bit
 *
 * Specialised by   ROW_CHUNKS  chunks of a row
 *                  others as there; CHUNKS 1, and ACT a half type
 * Launch           a work-group of CHARL_ROW_GROUP for per_item rows in turn. out may be x, and begins like x within 16 bytes.
 * Algorithm        a row is copied as it lies in memory, chunk by chunk; what works on it reads it there twice. While the gradient is
 *                  written the copies of the next row take the place of what has been read. A work-item reads nothing but what it has
 *                  copied itself, so a chunk has room of its own for the vector in which it and the next one meet. What is copied
 *                  beside the row belongs to others and is not used.
 * Building         with charl__launch.sm90a.shared_bytes for ROW_CHUNKS * STRIDE vectors and ROW_CHUNKS parts; at least LOCAL_DECLARED.
 * Numerics         cross_entropy_with_grad.cl's
 */
#define ROW_CHUNKS 24
#include "nvidia/ptx/warp.clh"
#include "nvidia/ptx/copy.clh"
#include "nvidia/ptx/local.clh"

/* Until of a work-item's groups of copies all but `left` are there. */
static inline void await_copies(int left)
{
    if (left >= 3) {
        ASM volatile("cp.async.wait_group 3;" ::: "memory");
    } else if (left == 2) {
        ASM volatile("cp.async.wait_group 2;" ::: "memory");
    } else if (left == 1) {
        ASM volatile("cp.async.wait_group 1;" ::: "memory");
    } else {
        ASM volatile("cp.async.wait_group 0;" ::: "memory");
    }
}

#define PLACE       local
#define STRIDE      (CHUNK / CHARL_VEC + 1)
#define AWAIT(left) await_copies(left)
#include "loss/cross_entropy_args.h"
#include "loss/cross_entropy_part.clh"
#include "loss/unaligned_rows.clh"
#include "loss/cross_entropy_shared.clh"
#include "loss/cross_entropy.clh"
#include "loss/cross_entropy_grad.clh"
#include "loss/row_weight.clh"

#define LOCAL_DECLARED 49152

/* What is known of a row beside its logits. */
typedef struct {
    float weight, scale, logit; /* scale: of the gradient; logit: the label's */
    int label;
} facts;

/* Chunk c of the row at x, of which every work-item of a team copies what `take` lets it have. */
static inline void copy_of_chunk(local uint4 *quads, global const ACT *x, int n, int c, int t)
{
    const int left = (misalignment_of(x) + n - 1) / CHARL_VEC + 1 - c * (CHUNK / CHARL_VEC);
    global const uint4 *from = words_at(x) + c * (CHUNK / CHARL_VEC);
    local uint4 *to = quads + c * STRIDE;

    _Pragma("unroll") for (int i = t; i < CHUNK / CHARL_VEC; i += CHARL_ROW_ITEMS)
    {
        if (i < left) {
            copy_chunk(LOCAL_ADDRESS(to + i), (ulong)(from + i), 1);
        }
    }
    if (t == 0 && left > CHUNK / CHARL_VEC) {
        copy_chunk(LOCAL_ADDRESS(to + CHUNK / CHARL_VEC), (ulong)(from + CHUNK / CHARL_VEC), 1);
    }
    COMMIT_COPIES;
}

/* The gradient of chunk c: of a row that ends in it also the vector that it shares with no other. */
static inline void put_chunk(local const uint4 *quads, global ACT *to, int skew, int c, int t, const target q)
{
    const int first = c * CHUNK - skew, mine = first + t * CHARL_VEC;
    uint4 v[KEEP];

    _Pragma("unroll") for (int i = 0; i < KEEP; i++)
    {
        v[i] = quads[c * STRIDE + i * CHARL_ROW_ITEMS + t];
    }
    if (first >= 0 && first + CHUNK <= q.size) {
        _Pragma("unroll") for (int i = 0; i < KEEP; i++)
        {
            charl_put_aligned(slope_of(VALUES(v[i]), q), to + mine + i * CHARL_ROW_WIDTH);
        }
        if (has_label(q, first, CHUNK) && (q.label - first) / CHARL_VEC % CHARL_ROW_ITEMS == t) {
            put_label(to, q);
        }
    } else {
        _Pragma("unroll") for (int i = 0; i < KEEP; i++)
        {
            if (mine + i * CHARL_ROW_WIDTH < q.size) {
                put_gradient(true, VALUES(v[i]), to, mine + i * CHARL_ROW_WIDTH, q);
            }
        }
    }
    if (t == 0 && c == ROW_CHUNKS - 1 && first + CHUNK < q.size) {
        put_gradient(true, VALUES(quads[c * STRIDE + CHUNK / CHARL_VEC]), to, first + CHUNK, q);
    }
}

kernel __attribute__((reqd_work_group_size(CHARL_ROW_GROUP, 1, 1))) void charl_both(
    global const float *g, ulong g_at, global const ACT *x, ulong x_at, global const int *label, ulong label_at,
    WEIGHT_OPERAND(weight) global ACT *out, ulong out_at, global float *loss, ulong loss_at, global float *lse, ulong lse_at, const charl__cross_entropy_numbers p)
{
    const ulong rows = p.rows, per_item = p.per_item, n = p.n;
    const float smooth = p.smooth, z = p.z;
    local uint4 quads[LOCAL_DECLARED / 16] __attribute__((aligned(128)));
    local part *of = (local part *)(quads + ROW_CHUNKS * STRIDE);
    const ulong first = get_group_id(0) * per_item, stop = min(first + per_item, rows);
    const int t = (int)get_local_id(0) % CHARL_ROW_ITEMS, team = (int)get_local_id(0) / CHARL_ROW_ITEMS, size = (int)n;
    facts next;

    for (int c = team; c < ROW_CHUNKS; c += TEAMS) {
        copy_of_chunk(quads, x + x_at + first * n, size, c, t);
    }
    next = (facts){.weight = WEIGHT_OF(weight, first), .scale = g[g_at + first], .label = label[label_at + first]};
    next.logit = logit_of(x + x_at + first * n, next.label, size);
    for (ulong r = first; r < stop; r++) {
        const ulong after = min(r + 1, stop - 1);
        global const ACT *xr = x + x_at + r * n;
        const facts at = next;
        const float2 y = loss_of(at.logit, sums_of(place_of(quads, xr, size, t), of, 0), at.label, smooth, z, size);
        const target q = target_of(y.y, at.scale * at.weight, smooth, z, at.logit, at.label, size);

        next = (facts){.weight = WEIGHT_OF(weight, after), .scale = g[g_at + after], .label = label[label_at + after]};
        barrier(CLK_GLOBAL_MEM_FENCE); /* all have read the logit of the label, of which out takes the place */
        if (get_local_id(0) == 0) {
            loss[loss_at + r] = y.x * at.weight;
            lse[lse_at + r] = y.y;
        }
        for (int c = team; c < ROW_CHUNKS; c += TEAMS) {
            put_chunk(quads, out + out_at + r * n, misalignment_of(xr), c, t, q);
            if (r + 1 < stop) {
                copy_of_chunk(quads, xr + n, size, c, t);
            }
        }
        next.logit = logit_of(x + x_at + after * n, next.label, size);
    }
}
