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
#define BF16 0
#define RANKS 2 /* 2 to 8 */
#define EACH_RANK(X) X(0) X(1)
#define LANES 2
#define ADDS(X, v, k) X(v, k, 0, 1) /* X(v, k, dst, src)...: lane dst += lane src; the sum is lane 0 */
#define LOCAL 64
#define PACKS 4 /* in flight per work-item and lane */
#define GROUPS 2 /* most work-groups, by the size of a box */
#define SCATTERS 0 /* 1: sums are stored in the arena of the rank that adds them only */
#include "peer/peer_access.clh"
#include "peer/peer_tiles.clh"
#include "peer/peer_box.clh"
#include "peer/peer_group.clh"

/* The slot of the sum of tile i of rank r's part. */
static inline global float4 *sum_slot(const group *g, int rank, int i, int r)
{
    return slot_of(g, rank, SLOTS, SETS * LANES + i % SETS * RANKS + r);
}

#define ADD(v, k, dst, src) v[dst][k] = pack_add(v[dst][k], v[src][k]);

static inline void lanes_add(const group *g, int i)
{
    const tile t = tile_at(g, g->p.rank, i);
    float4 v[LANES][PACKS];

    if (t.n <= 0) {
        return;
    }
    lanes_read(g, &t, i, v);
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        ADDS(ADD, v, k)
    }
#pragma unroll
    for (int r = 1; r < (SCATTERS ? 0 : RANKS); r++) {
        packs_write(sum_slot(g, partner(&g->p, r), i, g->p.rank), v[0], t.n);
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
            v[r][k] = pack_read(sum_slot(g, g->p.rank, i, from) + min(k * LOCAL + (int)get_local_id(0), n - 1));
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
        if (i > (SCATTERS ? rounds : 0) && !is_lost) {
            sums_keep(&g, i - 1);
        }
    }
}
