/* peer_gather: every rank of a node sends its part of an array to the others.
 *
 *     sums, several nodes    the array is divided into one part per rank of the node                            first 0, parts RANKS
 *     gathered parameters    into one part per rank of the job; those of the ranks of one node are sent       first ... of `parts`
 *
 * Work-group g of a rank stores tile i of its part in the boxes of the others, and copies their tiles from its own box to the array one
 * tile later. It has its own flags and slots, after those of peer.cl and peer_scatter.cl, so it can run concurrently with them.
 *
 * Why a slot can be    Before the first tile, all ranks meet: each has ended its previous launch, in which it copied all tiles that it was
 * overwritten          sent. Tile i goes to the slot of tile i - SETS. A rank that sends it has seen flags that the others raised after they had
 *                      copied that one.
 * Launch               as in peer_box.clh, with epochs of its own: rounds + 1 for each launch.
 */
#define BF16 0
#define RANKS 2 /* of the node, 2 to 8 */
#define EACH_RANK(X) X(0) X(1)
#define LANES 2 /* of the node's ranks: where the slots lie */
#define LOCAL 64
#define PACKS 4
#define GROUPS 2
#include "peer/peer_access.clh"
#include "peer/peer_tiles.clh"
#include "peer/peer_box.clh"
#include "peer/peer_group.clh"

/* What is divided: part `first` + r is that of rank r. */
typedef struct {
    int first, parts;
} division;

static inline tile tile_of_part(const group *g, division d, int r, int i)
{
    return part_of(g->p.offset, g->p.count, d.first + r, d.parts, (ulong)i * get_num_groups(0) + get_group_id(0), g->size);
}

/* The slot of tile i of rank r. */
static inline global float4 *part_slot(const group *g, int rank, int i, int r)
{
    return slot_of(g, rank, SETS * RANKS, i % SETS * RANKS + r);
}

static inline void part_send(const group *g, division d, int i)
{
    const tile t = tile_of_part(g, d, g->p.rank, i);
    float4 v[PACKS];

    if (t.n <= 0) {
        return;
    }
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        v[k] = ((global const float4 *)g->p.sum + t.first)[min(k * LOCAL + (int)get_local_id(0), t.n - 1)];
    }
#pragma unroll
    for (int r = 1; r < RANKS; r++) {
        packs_write(part_slot(g, partner(&g->p, r), i, g->p.rank), v, t.n);
    }
}

static inline void parts_keep(const group *g, division d, int i)
{
    float4 v[RANKS][PACKS];

#pragma unroll
    for (int r = 1; r < RANKS; r++) {
        const int from = partner(&g->p, r), n = tile_of_part(g, d, from, i).n;

#pragma unroll
        for (int k = 0; k < PACKS && n > 0; k++) {
            v[r][k] = pack_read(part_slot(g, g->p.rank, i, from) + min(k * LOCAL + (int)get_local_id(0), n - 1));
        }
    }
#pragma unroll
    for (int r = 1; r < RANKS; r++) {
        const tile t = tile_of_part(g, d, partner(&g->p, r), i);

        sums_write(g, &t, v[r]);
    }
}

__attribute__((reqd_work_group_size(LOCAL, 1, 1))) kernel void charl_peer_gather(
    global const ulong *block, ulong block_at, ulong patience, ulong offset, ulong count, ulong epoch, int size, int rounds,
    int first, int parts)
{
    local int is_lost;
    global uchar *box[RANKS];
    const group g = {peers_of(block + block_at, box, offset, count, patience), &is_lost, size};
    const division d = {first, parts};

    for (int r = 0; r < RANKS; r++) {
        box[r] += GATHER_AT;
    }
    if (get_local_id(0) == 0) {
        is_lost = is_over(&g.p);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (!is_lost) {
        meet(&g, epoch, epoch);
    }
    for (int i = 0; i <= rounds && !is_lost; i++) { /* tile `rounds` is empty */
        part_send(&g, d, i);
        meet(&g, i == rounds ? 0 : epoch + i + 1, epoch + i);
        if (i > 0 && !is_lost) {
            parts_keep(&g, d, i - 1);
        }
    }
}
