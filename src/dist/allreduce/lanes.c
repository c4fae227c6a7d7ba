/* Which rank and node owns which lanes: gathered once, checked, and converted to schedules of additions. */
#include "dist/comm_private.h"

#include <string.h>

#include "base/alloc.h"

/* The slices of a rank, as sent to the others. */
typedef struct block {
    int total, first, count;
} block;

static charl_status check(const charl_comm *c, const block *all)
{
    int next = 0;

    for (int r = 0; r < c->size; r++) {
        const block *b = &all[r];

        CHARL_REQUIRE(b->total == all[0].total && b->first == next && b->count >= 0, CHARL_ERR_INVALID,
                      "rank %d has slices %d to %d of %d, but the next slice is %d of %d", r, b->first,
                      b->first + b->count, b->total, next, all[0].total);
        next += b->count;
    }
    CHARL_REQUIRE(next == all[0].total && next > 0, CHARL_ERR_INVALID, "the ranks own %d of %d slices", next,
                  all[0].total);
    return CHARL_OK;
}

/* Without arrays the lanes are only counted. */
static charl_status fill(const charl_comm *c, const block *all, charl__lane_map *map)
{
    map->n = 0;
    map->total = all[0].total;
    for (int r = 0; r < c->size; r++) {
        charl_slices s;

        CHARL_TRY(charl_slices_range(all[r].total, all[r].first, all[r].count, &s));
        map->first[r] = map->n;
        for (int j = 0; j < s.n_lanes && map->lo; j++) {
            map->lo[map->n + j] = s.lane_lo[j];
            map->rank[map->n + j] = r;
            map->index[map->n + j] = j;
        }
        map->n += s.n_lanes;
        map->max_of_rank = s.n_lanes > map->max_of_rank ? s.n_lanes : map->max_of_rank;
    }
    map->first[c->size] = map->n;
    return CHARL_OK;
}

static charl_status lanes_alloc(const charl_comm *c, const block *all, charl__lane_map *map)
{
    CHARL_TRY(charl__alloc_array(c->size + 1, sizeof *map->first, &map->first));
    CHARL_TRY(fill(c, all, map));
    CHARL_TRY(charl__alloc_array(map->n, sizeof *map->rank, &map->rank));
    CHARL_TRY(charl__alloc_array(map->n, sizeof *map->index, &map->index));
    CHARL_TRY(charl__alloc_array(map->n, sizeof *map->adds, &map->adds));
    CHARL_TRY(charl__alloc_array(map->n, sizeof *map->lo, &map->lo));
    return CHARL_OK;
}

charl_status charl__lane_map_init(charl_comm *c, const charl_slices *mine, charl__lane_map *map)
{
    const block own = {mine->total, mine->first, mine->count};
    CHARL_SCOPED_FREE block *all = NULL;

    memset(map, 0, sizeof *map);
    CHARL_TRY(charl_comm_agree(c, charl__alloc_array(c->size, sizeof *all, &all)));
    CHARL_TRY(charl_comm_allgather(c, &own, sizeof own, all));
    CHARL_TRY(check(c, all)); /* the same on all ranks */
    CHARL_TRY(charl_comm_agree(c, lanes_alloc(c, all, map)));
    CHARL_TRY(fill(c, all, map));
    CHARL_INVARIANT(charl__tree_combine(map->total, map->lo, map->n, map->adds) == map->n - 1);
    return CHARL_OK;
}

void charl__lane_map_fini(charl__lane_map *map)
{
    charl_free(map->rank);
    charl_free(map->index);
    charl_free(map->lo);
    charl_free(map->first);
    charl_free(map->adds);
    *map = (charl__lane_map){0};
}

/* Lane k of the map is a complete subtree, so the ranks' lanes in it are combined as if it began at
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

    *map = (charl__node_map){.n_nodes = c->n_nodes, .rank = c->node_first};
    CHARL_TRY(charl__alloc_array(c->n_nodes + 1, sizeof *map->first, &map->first));
    CHARL_TRY(charl__alloc_array(lanes->n, sizeof *map->adds, &map->adds));
    CHARL_TRY(charl__alloc_array(lanes->n + 1, sizeof *map->leaf, &map->leaf));
    CHARL_TRY(charl__alloc_array(lanes->n, sizeof *map->inner, &map->inner));
    for (int m = 0; m < map->n_nodes; m++) {
        const int begin = lanes->first[map->rank[m]], end = lanes->first[map->rank[m + 1]];
        const int first = begin < lanes->n ? lanes->lo[begin] : lanes->total;
        const int next = end < lanes->n ? lanes->lo[end] : lanes->total;
        charl_slices here;

        CHARL_TRY(charl_slices_range(lanes->total, first, next - first, &here));
        map->first[m] = map->n;
        for (int j = 0; j < here.n_lanes; j++) {
            node_lane_init(lanes, map->n, here.lane_lo[j], here.lane_hi[j], map);
            lo[map->n++] = here.lane_lo[j];
        }
    }
    map->first[map->n_nodes] = map->n;
    CHARL_INVARIANT(charl__tree_combine(lanes->total, lo, map->n, map->adds) == map->n - 1);
    return CHARL_OK;
}

void charl__node_map_fini(charl__node_map *map)
{
    charl_free(map->first);
    charl_free(map->adds);
    charl_free(map->leaf);
    charl_free(map->inner);
    *map = (charl__node_map){0};
}
