/* peer: all-reduce of the lanes of all ranks of a node. Only their devices take part, through memory that they map into each other.
 *
 * Rank r reduces part r of every range: it receives that part of all lanes and sends the sum to all ranks. Work-group g of a rank
 * processes tiles 0, 1, ... of its share together with the work-groups g of the other ranks:
 *
 *     lanes_send(i)   stores its lanes of tile i of each part in the staging buffers ("boxes") of the ranks that reduce them
 *     lanes_add(i)    adds the lanes of its own tile i, from its box, and stores the sum in the boxes of the others
 *     sums_keep(i)    copies the sums of the others' tiles i from its box to the arena
 *
 * A flag of epoch + i says that its rank has sent all tiles up to i + 1 and added all before i. Tiles are sent two ahead and sums are
 * copied one late, so a work-group keeps storing while flags are on their way, and waits only for ranks that are a whole tile behind.
 *
 * Why a slot can be    Lanes and sums have SETS sets of slots each. A work-group that adds tile i and sends tile i + 2 has seen flags of
 * overwritten          epoch + i - 1, from ranks that have added tile i - 2 and copied tile i - 4, which used the same slots. A launch ends
 *                      with flags that say that every tile has been added. It stores sums only after flags of its own epochs, which are
 *                      raised by ranks whose previous launch has ended, since a device runs its launches one after another. Every
 *                      work-group of a launch uses the same number of epochs; unused ones are skipped.
 */
#ifndef RANKS
#define RANKS 2 /* 2 to 8 */
#define EACH_RANK(X) X(0) X(1)
#define LANES 2
#define ADDS(X, v, k) X(v, k, 0, 1) /* X(v, k, dst, src)...: lane dst += lane src; the sum is lane 0 */
#define LOCAL 64
#define PACKS 4 /* float4s in flight per work-item and lane */
#define GROUPS 2 /* most work-groups, by the size of a box */
#endif
#include "peer/peer_access.clh"
#include "peer/peer_tiles.clh"
#include "peer/peer_box.clh"

/* What the work-items of a group share. */
typedef struct {
    peers p;
    local int *is_lost;
    int size;
} group;

static inline global float4 *slot_of(const group *g, int rank, int slot)
{
    const ulong at = (ulong)get_group_id(0) * SLOTS + slot;

    return (global float4 *)(g->p.box[rank] + GROUPS * FLAGS * sizeof(ulong)) + at * TILE;
}

static inline int lanes_slot(int i)
{
    return i % SETS * LANES;
}

static inline int sums_slot(int i)
{
    return SETS * LANES + i % SETS * RANKS;
}

static inline global ulong *flag_of(const peers *p, int owner, int from)
{
    return (global ulong *)p->box[owner] + get_group_id(0) * FLAGS + from;
}

/* The r-th of the other ranks. Ranks and work-groups start with different ones, so that no link carries everything at once. */
static inline int partner(const peers *p, int r)
{
    return (p->rank + 1 + ((int)get_group_id(0) + r - 1) % (RANKS - 1)) % RANKS;
}

static inline tile tile_at(const group *g, int rank, int i)
{
    return part_of(g->p.offset, g->p.count, rank, (ulong)i * get_num_groups(0) + get_group_id(0), g->size);
}

/* Raise the flag `raised`, then wait for the flags `awaited` of the others; 0: none. Others that see the flag see all that this work-group
 * has stored before, and after the wait this work-group sees all that they had stored before they raised theirs. Work-item t serves rank
 * t. On a CPU work-items run one after another, each raising its flag before it waits. That cannot deadlock: let L be the lowest rank in a
 * circle of waiting ranks. The rank that L waits for is itself waiting for L or a higher rank, so it has raised its flag for L. */
static inline void meet(const group *g, ulong raised, ulong awaited)
{
    const int t = (int)get_local_id(0);
    const bool is_other = t < RANKS && t != g->p.rank;

    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (is_other && raised > 0) {
        flag_raise(flag_of(&g->p, t, g->p.rank), raised);
    }
    if (is_other && awaited > 0) {
        const ulong begin = moment(0);
        ulong polls = 0;

        while (flag_read(flag_of(&g->p, g->p.rank, t)) < awaited) {
            if (++polls % POLLS != 0) {
                continue;
            }
            if (moment(polls) - begin > g->p.patience) {
                atomic_or(g->p.state, 1u << t);
                *g->is_lost = 1;
                break;
            }
            if (word_read(g->p.state + 1) != 0) {
                *g->is_lost = 1;
                break;
            }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
}

static inline void packs_write(global float4 *to, const float4 *v, int n)
{
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        const int at = k * LOCAL + (int)get_local_id(0);

        if (at < n) {
            pack_write(to + at, v[k]);
        }
    }
}

static inline void sums_write(const group *g, const tile *t, const float4 *v)
{
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        const int at = k * LOCAL + (int)get_local_id(0);

        if (at < t->n) {
            sum_write(&g->p, t, at, v[k]);
        }
    }
}

/* All parts at once: the loads of all are in flight before the first store. Loads past the end repeat the last pack, which avoids a
 * branch. */
static inline void lanes_send(const group *g, int i)
{
    const int id = (int)get_local_id(0);

    for (int j = 0; j < g->p.mine; j++) {
        float4 v[RANKS][PACKS];

#pragma unroll
        for (int r = 1; r < RANKS; r++) {
            const tile t = tile_at(g, partner(&g->p, r), i);

#pragma unroll
            for (int k = 0; k < PACKS && t.n > 0; k++) {
                v[r][k] = lane_of(&g->p, &t, j)[min(k * LOCAL + id, t.n - 1)];
            }
        }
#pragma unroll
        for (int r = 1; r < RANKS; r++) {
            const int to = partner(&g->p, r);

            packs_write(slot_of(g, to, lanes_slot(i) + g->p.first + j), v[r], tile_at(g, to, i).n);
        }
    }
}

#define ADD(v, k, dst, src) v[dst][k] += v[src][k];

/* Reads this rank's lanes from its arena and those of the others from its box. */
static inline void lanes_add(const group *g, int i)
{
    const tile t = tile_at(g, g->p.rank, i);
    const int id = (int)get_local_id(0);
    float4 v[LANES][PACKS];

    if (t.n <= 0) {
        return;
    }
#pragma unroll
    for (int l = 0; l < LANES; l++) {
        const bool is_mine = l >= g->p.first && l < g->p.first + g->p.mine;
        global const float4 *from =
            is_mine ? lane_of(&g->p, &t, l - g->p.first) : slot_of(g, g->p.rank, lanes_slot(i) + l);

#pragma unroll
        for (int k = 0; k < PACKS; k++) {
            v[l][k] = pack_read(from + min(k * LOCAL + id, t.n - 1));
        }
    }
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        ADDS(ADD, v, k)
    }
#pragma unroll
    for (int r = 1; r < RANKS; r++) {
        packs_write(slot_of(g, partner(&g->p, r), sums_slot(i) + g->p.rank), v[0], t.n);
    }
    sums_write(g, &t, v[0]);
}

static inline void sums_keep(const group *g, int i)
{
    float4 v[RANKS][PACKS];

#pragma unroll
    for (int r = 1; r < RANKS; r++) {
        const int from = partner(&g->p, r), n = tile_at(g, from, i).n;

#pragma unroll
        for (int k = 0; k < PACKS && n > 0; k++) {
            v[r][k] = pack_read(slot_of(g, g->p.rank, sums_slot(i) + from) + min(k * LOCAL + (int)get_local_id(0), n - 1));
        }
    }
#pragma unroll
    for (int r = 1; r < RANKS; r++) {
        const tile t = tile_at(g, partner(&g->p, r), i);

        sums_write(g, &t, v[r]);
    }
}

__attribute__((reqd_work_group_size(LOCAL, 1, 1))) kernel void charl_peer_sum(
    global const ulong *block, ulong block_at, ulong patience, ulong offset, ulong count, ulong epoch, int size, int rounds)
{
    local int is_lost;
    global uchar *box[RANKS];
    const group g = {peers_of(block + block_at, box, offset, count, patience), &is_lost, size};

    if (get_local_id(0) == 0) {
        is_lost = is_over(&g.p);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = -2; i <= rounds && !is_lost; i++) { /* tiles from `rounds` on are empty */
        if (i >= 0) {
            lanes_add(&g, i);
        }
        lanes_send(&g, i + 2);
        meet(&g, i == -2 || i == rounds ? 0 : epoch + i + 1, i == -2 ? 0 : epoch + (i < 0 ? 0 : i));
        if (i > 0 && !is_lost) {
            sums_keep(&g, i - 1);
        }
    }
}
