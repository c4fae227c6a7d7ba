/* peer_scatter: the first half of an all-reduce over several nodes. Rank r of a node receives part r of the lanes of its node and adds them, as far
 * as the tree over all slices lets it: the result is the node's lanes, which then travel between nodes (peer_gather.cl is the last step).
 *
 * Tiles and flags are those of peer.cl, without sums: lanes_send(i + 2) stores tiles ahead, node_lanes_add(i) adds a tile that has arrived.
 *
 * Result       node lane j of part r, at sum + j * stride: lane 0 where the sum will be, the others after it.
 * Launch       as in peer_box.clh. A slot is overwritten under the conditions of peer.cl.
 */
#define BF16 0
#define RANKS 2 /* of the node, 2 to 8 */
#define EACH_RANK(X) X(0) X(1)
#define LANES 2 /* of the node's ranks */
#define ADDS(X, v, k) X(v, k, 0, 1)          /* X(v, k, dst, src)...: lane dst += lane src, so far as the node has both */
#define RESULTS(X, g, t, v) X(g, t, v, 0, 0) /* X(g, t, v, j, l)...: node lane j is lane l then */
#define LOCAL 64
#define PACKS 4
#define GROUPS 2
#include "peer/peer_access.clh"
#include "peer/peer_tiles.clh"
#include "peer/peer_box.clh"
#include "peer/peer_group.clh"

static inline void node_lane_write(const group *g, const tile *t, int j, const float4 *v)
{
    group to = *g;

    to.p.sum += j * g->p.stride;
    sums_write(&to, t, v);
}

#define ADD(v, k, dst, src)   v[dst][k] = pack_add(v[dst][k], v[src][k]);
#define RESULT(g, t, v, j, l) node_lane_write(g, &t, j, v[l]);

static inline void node_lanes_add(const group *g, int i)
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
    RESULTS(RESULT, g, t, v)
}

__attribute__((reqd_work_group_size(LOCAL, 1, 1))) kernel void charl_peer_scatter(
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
            node_lanes_add(&g, i);
        }
        lanes_send(&g, i + 2);
        meet(&g, i == -2 || i == rounds ? 0 : epoch + i + 1, i == -2 ? 0 : epoch + (i < 0 ? 0 : i));
    }
}
