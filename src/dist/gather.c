/* An all-gather in flight. */
#include "dist/gather.h"

#include "base/alloc.h"
#include "dist/comm_private.h"

struct charl__gather {
    charl_comm *c;       /* borrowed */
    charl__group *group; /* the ranks of c */
    charl__request request;
    bool in_flight;
};

charl_status charl__gather_create(charl_comm *c, charl__gather **out)
{
    charl_status st = CHARL_OK;
    charl__gather *g = NULL;

    *out = NULL;
    st = charl__alloc(sizeof *g, &g);
    CHARL_TRY_CLEANUP(charl_comm_agree(c, st));
    g->c = c;
    st = c->world->transport->split(c, c->world, 0, c->rank, &g->group);
    CHARL_TRY_CLEANUP(charl_comm_agree(c, st));
    *out = g;
    g = NULL;
cleanup:
    charl__gather_destroy(g);
    return st;
}

charl_status charl__gather_begin(charl__gather *g, void *all, const int *count, const int *place)
{
    CHARL_INVARIANT(!g->in_flight);
    CHARL_TRY(charl__comm_check(g->c));
    charl__comm_enter(g->c);
    CHARL_TRY(g->group->transport->allgather(g->group, &(charl__parts){all, 2, count, place}, &g->request));
    g->in_flight = true;
    return CHARL_OK;
}

charl_status charl__gather_wait(charl__gather *g)
{
    if (g->in_flight) {
        CHARL_TRY(charl__comm_finish(g->c, g->group, &g->request, "gathering of parameters"));
        g->in_flight = false;
    }
    return CHARL_OK;
}

bool charl__gather_destroy(charl__gather *g)
{
    const bool in_flight = g && g->in_flight;

    if (in_flight) {
        return true; /* MPI, or the other threads, may still use the request */
    }
    if (g) {
        charl__group_destroy(g->group, g->c->is_broken);
        charl_free(g);
    }
    return false;
}
