/* Who owns which lanes, ranks and nodes: gathered once, checked, and turned into schedules of adds.
 */
#include "dist/comm_private.h"

#include <string.h>

#include "base/alloc.h"

static charl_status fill(const charl_comm *c, const charl_slices *all, charl__lane_map *map)
{
    int next = 0;

    for (int r = 0; r < c->size; r++) {
        const charl_slices *s = &all[r];

        CHARL_REQUIRE(s->total == all[0].total && s->first == next && s->count >= 0 && s->n_lanes <= CHARL_MAX_LANES,
                      CHARL_ERR_INVALID, "rank %d brings slices %d to %d of %d where slice %d of %d comes next", r,
                      s->first, s->first + s->count, s->total, next, all[0].total);
        map->first[r] = map->n;
        for (int j = 0; j < s->n_lanes; j++) {
            map->lo[map->n] = s->lane_lo[j];
            map->rank[map->n] = r;
            map->index[map->n++] = j;
        }
        next += s->count;
        map->max_of_rank = s->n_lanes > map->max_of_rank ? s->n_lanes : map->max_of_rank;
    }
    map->first[c->size] = map->n;
    CHARL_REQUIRE(next == all[0].total && map->n > 0, CHARL_ERR_INVALID, "the ranks own %d of %d slices", next,
                  all[0].total);
    map->total = next;
    CHARL_INVARIANT(charl__tree_combine(next, map->lo, map->n, map->adds) == map->n - 1);
    return CHARL_OK;
}

charl_status charl__lane_map_init(charl_comm *c, const charl_slices *mine, charl__lane_map *map)
{
    charl_status st = CHARL_OK;
    charl_slices *all = NULL;

    memset(map, 0, sizeof *map);
    CHARL_TRY_CLEANUP(charl_comm_agree(c, charl__alloc_array(c->size, sizeof *all, &all)));
    CHARL_TRY_CLEANUP(charl_comm_allgather(c, mine, sizeof *mine, all));
    CHARL_TRY_CLEANUP(fill(c, all, map)); /* the same on all ranks */
cleanup:
    charl_free(all);
    return st;
}

/* Lane k of the map: a complete subtree, so the ranks' lanes in it are combined as if it began at
 * slice 0. */
static void node_lane_init(const charl__lane_map *lanes, int k, int lo, int hi, charl__node_map *map)
{
    int from[CHARL_MAX_SLICES], n = 0;
    const int leaf = map->leaf[k];

    while (leaf + n < lanes->n && lanes->lo[leaf + n] < hi) {
        from[n] = lanes->lo[leaf + n] - lo;
        n++;
    }
    CHARL_INVARIANT(n > 0 && lanes->lo[leaf] == lo);
    CHARL_INVARIANT(charl__tree_combine(hi - lo, from, n, map->inner + leaf) == n - 1);
    map->leaf[k + 1] = leaf + n;
}

charl_status charl__node_map_init(const charl_comm *c, const charl__lane_map *lanes, charl__node_map *map)
{
    int lo[CHARL_MAX_SLICES];

    memset(map, 0, sizeof *map);
    for (int r = 0; r < c->size; r++) {
        map->rank[c->peer[r].node + 1] = r + 1;
    }
    map->n_nodes = c->n_nodes;
    for (int m = 0; m < map->n_nodes; m++) {
        const int begin = lanes->first[map->rank[m]], end = lanes->first[map->rank[m + 1]];
        const int first = begin < lanes->n ? lanes->lo[begin] : lanes->total;
        const int next = end < lanes->n ? lanes->lo[end] : lanes->total;
        charl_slices block;

        CHARL_TRY(charl_slices_range(lanes->total, first, next - first, &block));
        map->first[m] = map->n;
        for (int j = 0; j < block.n_lanes; j++) {
            node_lane_init(lanes, map->n, block.lane_lo[j], block.lane_hi[j], map);
            lo[map->n++] = block.lane_lo[j];
        }
    }
    map->first[map->n_nodes] = map->n;
    CHARL_INVARIANT(charl__tree_combine(lanes->total, lo, map->n, map->adds) == map->n - 1);
    return CHARL_OK;
}
