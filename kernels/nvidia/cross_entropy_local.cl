/* cross_entropy_local: cross_entropy_with_grad.cl's with rows of a half type in local memory, on NVIDIA devices of compute capability 9.0.
 *
 *   charl_both  as there, to the bit
 *
 * Specialised by   QUADS  16 bytes each that a row takes at most, wherever it begins
 *                  others as there; CHUNKS 1, and ACT a half type
 * Launch           a work-group of CHARL_ROW_GROUP for each row. out may be x.
 * Algorithm        a row is copied as it lies in memory, all at once; what works on it reads it there twice, while another group's row is
 *                  on its way. What is copied beside the row belongs to others and is not used.
 * Building         with local_bytes for QUADS + 1 quads, as a vector is read with the next one, and PARTS parts; at least LOCAL_DECLARED.
 * Numerics         cross_entropy_with_grad.cl's
 */
#ifndef QUADS
#define QUADS 3008
#endif
#include "nvidia/warp.clh"
#include "nvidia/copy.clh"
#include "nvidia/local.clh"

/* Until of a work-item's groups of copies all but `left` are there, for all of its warp. */
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
    ASM volatile("bar.warp.sync -1;" ::: "memory");
}

/* Vector j / 8 of the n elements at x, which begin within a quad; whole: at one. */
static inline uint4 words_at(bool whole, local const ushort *x, int j)
{
    const uint bytes = (uint)(ulong)x & 15;
    local const uint4 *q = (local const uint4 *)((local const uchar *)x - bytes) + j / 8;

    return whole ? q[0] : charl_shift16(q[0], q[1], bytes);
}

#define PLACE                 local
#define PIECE(whole, x, j, n) words_at(whole, (local const ushort *)(x), j)
#define WORDS                 uint4
#define VALUES(kept)          charl_of_words(kept, (global const ACT *)0)
#define AWAIT(left)           await_copies(left)
#define TEAMS_PART            1
#include "cross_entropy.clh"
#include "cross_entropy_grad.clh"
#include "row_weight.clh"

#define LOCAL_DECLARED 49152

/* Each team copies the chunks that it adds up, a group of copies for each: those of a row of `count` quads, and of chunk c the quad after its
 * own, in which its last elements may be. */
static inline void copy_row(local uint4 *quads, global const uint4 *from, int count)
{
    const int t = (int)get_local_id(0) % CHARL_ROW_ITEMS, team = (int)get_local_id(0) / CHARL_ROW_ITEMS;

    for (int c = team; (c - team) * (CHUNK / 8) < count; c += TEAMS) {
        for (int i = c * (CHUNK / 8) + t; i < min((c + 1) * (CHUNK / 8) + 1, count); i += CHARL_ROW_ITEMS) {
            copy_chunk(LOCAL_ADDRESS(quads + i), (ulong)(from + i), 1);
        }
        COMMIT_COPIES;
    }
}

kernel __attribute__((reqd_work_group_size(CHARL_ROW_GROUP, 1, 1))) void charl_both(
    global const float *g, ulong g_at, global const ACT *x, ulong x_at, global const int *label, ulong label_at,
    WEIGHT_OPERAND global ACT *out, ulong out_at, global float *loss, ulong loss_at, global float *lse, ulong lse_at, ulong rows,
    ulong per_item, ulong n, float smooth)
{
    local uint4 quads[LOCAL_DECLARED / 16] __attribute__((aligned(128)));
    local part *of = (local part *)(quads + QUADS + 1);
    const ulong r = get_group_id(0);
    const int t = (int)get_local_id(0), size = (int)n;
    global const ACT *xr = x + x_at + r * n;
    global ACT *to = out + out_at + r * n;
    const int skew = skew_of(xr), count = (skew + size - 1) / CHARL_VEC + 1;
    local const ACT *here = (local const ACT *)quads + skew;
    const int cls = label[label_at + r];
    const float w = WEIGHT_OF(r), scale = g[g_at + r] * w, logit = logit_of(xr, cls, size);
    float2 y;
    target q;

    copy_row(quads, charl_quads(xr), count);
    y = loss_of(logit, shared_row_of(here, size, of, t % CHARL_ROW_ITEMS, 0), cls, smooth, size);
    q = target_of(y.y, scale, smooth, cls, size);
    barrier(CLK_GLOBAL_MEM_FENCE); /* all have read what out takes the place of */
    if (t == 0) {
        loss[loss_at + r] = y.x * w;
        lse[lse_at + r] = y.y;
    }
    if (skew_of(to) == skew) {
        for (int i = t; i < count; i += CHARL_ROW_GROUP) {
            put_gradient(true, VALUES(quads[i]), to, i * CHARL_VEC - skew, q);
        }
    } else {
        for (int c = t * CHARL_VEC; c < size; c += CHARL_ROW_GROUP * CHARL_VEC) {
            put_gradient(false, VALUES(words_at(false, (local const ushort *)here, c)), to, c, q);
        }
    }
    (void)per_item, (void)rows;
}
