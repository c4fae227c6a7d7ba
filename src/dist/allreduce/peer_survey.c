/* Whether the devices of all ranks can map each other's memory; determined before an algorithm is chosen. */
#include "dist/allreduce/peer.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"

static void fact_fill(charl_device *dev, charl__peer_fact *f)
{
    const char *why = "no device was given";

    memset(f, 0, sizeof *f);
    if (dev) {
        f->kind = (int)charl__export_kind(dev, &why);
        snprintf(f->pci, sizeof f->pci, "%s", charl_device_get_info(dev)->pci);
    }
    snprintf(f->why, sizeof f->why, "%s", why ? why : "");
}

void charl__peer_compare(const charl__peer_fact *f, int first, int n, charl__peer_survey *out)
{
    for (int r = 0; r < n && !out->why[0]; r++) {
        if (f[r].why[0]) {
            snprintf(out->why, sizeof out->why, "rank %d: %s", first + r, f[r].why);
        } else if (f[r].kind != f[0].kind) {
            snprintf(out->why, sizeof out->why, "ranks %d and %d have devices of different kinds", first, first + r);
        }
        for (int q = 0; q < r && f[r].kind == CHARL_SHARED_CUDA && !out->why[0]; q++) {
            if (strcmp(f[q].pci, f[r].pci) == 0) {
                snprintf(out->why, sizeof out->why, "ranks %d and %d share one GPU", first + q, first + r);
            }
        }
    }
    out->is_preferred = f[0].kind == CHARL_SHARED_CUDA || charl__fault("peer.prefer");
}

/* The result from the facts of all ranks, for the ranks of each node. */
static void compare_nodes(const charl_comm *c, const charl__peer_fact *all, charl__peer_survey *out)
{
    for (int m = 0; m < c->n_nodes && !out->why[0]; m++) {
        const int first = c->node_first[m];

        charl__peer_compare(all + first, first, c->node_first[m + 1] - first, out);
    }
}

/* Each rank asks its own driver; the first one with an objection is quoted. */
static charl_status reach(charl_comm *c, charl_device *dev, charl__peer_fact *all, charl__peer_survey *out)
{
    const int first = c->node_first[charl__comm_node(c)];
    charl__peer_fact mine = all[c->rank];

    for (int r = first; r < first + c->local_size && !mine.why[0]; r++) {
        const char *why = charl__export_unreachable(dev, all[r].pci);

        snprintf(mine.why, sizeof mine.why, "%s", why ? why : "");
    }
    CHARL_TRY(charl_comm_allgather(c, &mine, sizeof mine, all));
    compare_nodes(c, all, out);
    return CHARL_OK;
}

/* Conditions that do not depend on devices; the same on all ranks. */
static const char *unfit(const charl_comm *c)
{
    if (c->size == 1) {
        return "there is one rank";
    }
    if (c->is_team) {
        return "the ranks are simulated";
    }
    for (int m = 0; m < c->n_nodes; m++) {
        const int size = c->node_first[m + 1] - c->node_first[m];

        if (size != c->node_first[1]) {
            return "the nodes have different numbers of ranks";
        }
        if (size > CHARL__MAX_PEERS) {
            return "there are more than 8 ranks on a node";
        }
    }
    return c->node_first[1] == 1 ? "each node has one rank" : NULL;
}

charl_status charl__peer_ask(charl_comm *c, charl_device *dev, charl__peer_survey *out)
{
    charl__peer_fact mine;
    CHARL_SCOPED_FREE charl__peer_fact *all = NULL;
    const char *why = unfit(c);

    *out = (charl__peer_survey){.is_usable = false};
    if (why) {
        snprintf(out->why, sizeof out->why, "%s", why);
        return CHARL_OK;
    }
    fact_fill(dev, &mine);
    CHARL_TRY(charl_comm_agree(c, charl__alloc_array(c->size, sizeof *all, &all)));
    CHARL_TRY(charl_comm_allgather(c, &mine, sizeof mine, all));
    compare_nodes(c, all, out);
    if (!out->why[0]) {
        CHARL_TRY(reach(c, dev, all, out));
    }
    out->is_usable = !out->why[0];
    return CHARL_OK;
}
