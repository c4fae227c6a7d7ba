/* peer_words: all-reduce of a few values over the lanes of all ranks of a node, without flags and barriers.
 *
 * As in peer.cl, rank r receives part r of all lanes, adds it and sends the sum to all. Words of eight bytes cross the link: a quarter of a pack
 * and the mark of this launch, in one store. A word that has the mark has its quarter, so no rank waits for stores to arrive, raises a flag and
 * reads again. Sending twice the bytes takes less time than that. Work-item i communicates with the work-items i of the other ranks.
 *
 * Why a word is whole    It is stored and loaded as one 64-bit scalar, relaxed, at system scope. Such an access is single-copy atomic in
 *                        the memory models of PTX and C; a vector is several scalars in any order. No order between words is needed.
 *                        (128-bit vectors are not atomic; 128-bit scalars are, since PTX 8.3.)
 * Why it can be          A launch uses a word once, in the set that the parity of its mark selects. Marks of consecutive launches differ
 * overwritten            by one. Before a rank stores with mark m - 2, its launch m - 1 has ended, in which it received the sum of some
 *                        part. By then every rank that has lanes has stored with mark m - 1, so it has ended launch m, in which it read
 *                        all that it was sent. Therefore every rank must have lanes, and sums are sent to all. Marks are never reused; 0 means none.
 * Launch                 size is LOCAL: a work-item has one pack of every part. Otherwise as in peer_box.clh.
 */
#define BF16 0
#define RANKS 2 /* 2 to 8 */
#define EACH_RANK(X) X(0) X(1)
#define LANES 2
#define ADDS(X, v, k) X(v, k, 0, 1) /* X(v, k, dst, src)...: lane dst += lane src; the sum is lane 0 */
#define OWNERS 0, 1, 0, 1           /* the rank of every lane, then every rank */
#define LOCAL 64
#define PACKS 4
#define GROUPS 2 /* that a box has room for */
#include "peer/peer_access.clh"
#include "peer/peer_tiles.clh"
#include "peer/peer_box.clh"

constant uchar owner_of[LANES + RANKS] = {OWNERS};

/* The two halves of this work-item's pack are LOCAL apart, so that neighbours store contiguously. */
static inline global ulong2 *words_of(const peers *p, int rank, uint mark, int slot)
{
    const ulong at = (get_group_id(0) * 2 + mark % 2) * (LANES + RANKS) + slot;

    return (global ulong2 *)(p->box[rank] + WORDS_AT) + at * 2 * LOCAL + get_local_id(0);
}

static inline ulong word_of(float v, uint mark)
{
    return as_uint(v) | (ulong)mark << 32;
}

static inline void pack_send(const peers *p, int to, uint mark, int slot, float4 v)
{
    global ulong2 *at = words_of(p, to, mark, slot);

    words_write(at, (ulong2)(word_of(v.x, mark), word_of(v.y, mark)));
    words_write(at + LOCAL, (ulong2)(word_of(v.z, mark), word_of(v.w, mark)));
}

/* Whether all four words have arrived; only then is *v valid. */
static inline bool pack_come(const peers *p, uint mark, int slot, float4 *v)
{
    global const ulong2 *at = words_of(p, p->rank, mark, slot);
    const ulong2 a = words_read(at), b = words_read(at + LOCAL);
    const uint4 marks = (uint4)((uint)(a.x >> 32), (uint)(a.y >> 32), (uint)(b.x >> 32), (uint)(b.y >> 32)) ^ mark;

    *v = (float4)(as_float((uint)a.x), as_float((uint)a.y), as_float((uint)b.x), as_float((uint)b.y));
    return (marks.x | marks.y | marks.z | marks.w) == 0;
}

/* Load the packs of `n` slots and wait for those that have a bit in `wanted` (all beyond 31 share bit 31). False if they did not arrive.
 * All are loaded before the first is checked. On a CPU work-items wait one after another, for what others send before they wait. */
static inline bool packs_wait(const peers *p, uint mark, int slot, const int n, uint wanted, float4 *v)
{
    ulong begin = 0, polls = 0;
    int missing;

    do {
        missing = -1;
#pragma unroll
        for (int k = 0; k < n; k++) {
            if (!pack_come(p, mark, slot + k, &v[k]) & wanted >> min(k, 31) & 1) {
                missing = k;
            }
        }
        if (missing >= 0 && ++polls % POLLS == 0) {
            const ulong now = moment(polls);

            begin = begin == 0 ? now : begin;
            if (now - begin > p->patience) {
                atomic_or(p->state, 1u << owner_of[slot + missing]);
            }
            if (is_over(p)) {
                return false;
            }
        }
    } while (missing >= 0);
    return true;
}

#define ADD(v, k, dst, src) v[dst] = pack_add(v[dst], v[src]); /* of the one pack there is */

/* The sum of this work-item's pack, once all its lanes have arrived. */
static inline bool lanes_add(const peers *p, uint mark, float4 *sum)
{
    float4 v[LANES];

    if (!packs_wait(p, mark, 0, LANES, ~0u, v)) {
        return false;
    }
    ADDS(ADD, v, 0)
    *sum = v[0];
    return true;
}

static inline void lanes_send(const peers *p, uint mark, int to, int size)
{
    const tile t = part_of(p->offset, p->count, to, RANKS, get_group_id(0), size);
    const int i = (int)get_local_id(0);

    for (int j = 0; j < p->mine && i < t.n; j++) {
        pack_send(p, to, mark, p->first + j, lane_of(p, &t, j)[i]);
    }
}

/* The sum of part r is sent into slot LANES + r. */
static inline bool own_part(const peers *p, uint mark, int size)
{
    const tile t = part_of(p->offset, p->count, p->rank, RANKS, get_group_id(0), size);
    const int i = (int)get_local_id(0);
    float4 v;

    if (i >= t.n) {
        return true;
    }
    if (!lanes_add(p, mark, &v)) {
        return false;
    }
    for (int r = 1; r < RANKS; r++) {
        pack_send(p, (p->rank + r) % RANKS, mark, LANES + p->rank, v);
    }
    sum_write(p, &t, i, v);
    return true;
}

static inline void other_parts(const peers *p, uint mark, int size)
{
    const int i = (int)get_local_id(0);
    tile t[RANKS];
    float4 v[RANKS];
    uint wanted = 0;

#pragma unroll
    for (int r = 0; r < RANKS; r++) {
        t[r] = part_of(p->offset, p->count, r, RANKS, get_group_id(0), size);
        wanted |= (uint)(i < t[r].n && r != p->rank) << r;
    }
    if (packs_wait(p, mark, LANES, RANKS, wanted, v)) {
#pragma unroll
        for (int r = 0; r < RANKS; r++) {
            if (wanted >> r & 1) {
                sum_write(p, &t[r], i, v[r]);
            }
        }
    }
}

__attribute__((reqd_work_group_size(LOCAL, 1, 1))) kernel void charl_peer_words(
    global const ulong *block, ulong block_at, ulong patience, ulong offset, ulong count, ulong epoch, int size)
{
    global uchar *box[RANKS];
    const peers p = peers_of(block + block_at, box, offset, count, patience);
    const uint mark = (uint)epoch;
    bool is_lost = is_over(&p);

    for (int r = 1; r <= RANKS && !is_lost; r++) {
        lanes_send(&p, mark, (p.rank + r) % RANKS, size);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    is_lost = is_lost || !own_part(&p, mark, size);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (!is_lost) {
        other_parts(&p, mark, size);
    }
}
