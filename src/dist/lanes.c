/* Who owns which lanes: gathered once, checked, and turned into the schedule of adds. */
#include "dist/comm_private.h"

#include <string.h>

#include "base/alloc.h"

static charl_status fill(const charl_comm *c, const charl_slices *all, charl__lane_map *map)
{
    charl_status st = CHARL_OK;
    int lo[CHARL_MAX_SLICES], next = 0;

    for (int r = 0; r < c->size; r++) {
        const charl_slices *s = &all[r];

        CHARL_REQUIRE(s->total == all[0].total && s->first == next && s->count >= 0 &&
                          s->n_lanes <= CHARL_MAX_LANES,
                      CHARL_ERR_INVALID,
                      "rank %d brings slices %d to %d of %d where slice %d of %d comes next", r,
                      s->first, s->first + s->count, s->total, next, all[0].total);
        map->first[r] = map->n;
        for (int j = 0; j < s->n_lanes; j++) {
            lo[map->n] = s->lane_lo[j];
            map->rank[map->n] = r;
            map->index[map->n++] = j;
        }
        next += s->count;
        map->max_of_rank = s->n_lanes > map->max_of_rank ? s->n_lanes : map->max_of_rank;
    }
    map->first[c->size] = map->n;
    CHARL_REQUIRE(next == all[0].total && map->n > 0, CHARL_ERR_INVALID,
                  "the ranks own %d of %d slices", next, all[0].total);
    CHARL_INVARIANT(charl__tree_combine(next, lo, map->n, map->adds) == map->n - 1);
cleanup:
    return st;
}

charl_status charl__lane_map_init(charl_comm *c, const charl_slices *mine, charl__lane_map *map)
{
    charl_status st = CHARL_OK;
    charl_slices *all = NULL;

    memset(map, 0, sizeof *map);
    CHARL_TRY(charl_comm_agree(c, charl_alloc_array(c->size, sizeof *all, &all)));
    CHARL_TRY(charl_comm_allgather(c, mine, sizeof *mine, all));
    CHARL_TRY(fill(c, all, map)); /* the same on all ranks */
cleanup:
    charl_free(all);
    return st;
}
