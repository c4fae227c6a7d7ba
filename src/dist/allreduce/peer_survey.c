/* Can the devices of all ranks map each other's memory? Asked before an algorithm is chosen. */
#include "dist/allreduce/peer.h"

#include <stdio.h>
#include <string.h>

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

void charl__peer_compare(const charl__peer_fact *f, int n, charl__peer_survey *out)
{
    for (int r = 0; r < n && !out->why[0]; r++) {
        if (f[r].why[0]) {
            snprintf(out->why, sizeof out->why, "rank %d: %s", r, f[r].why);
        } else if (f[r].kind != f[0].kind) {
            snprintf(out->why, sizeof out->why, "ranks 0 and %d have devices of different kinds", r);
        }
        for (int q = 0; q < r && f[r].kind == CHARL_SHARED_CUDA && !out->why[0]; q++) {
            if (strcmp(f[q].pci, f[r].pci) == 0) {
                snprintf(out->why, sizeof out->why, "ranks %d and %d share one GPU", q, r);
            }
        }
    }
    out->is_preferred = f[0].kind == CHARL_SHARED_CUDA || charl__fault("peer.prefer");
}

/* Each rank asks its own driver; the first that has something to say is quoted. */
static charl_status reach(charl_comm *c, charl_device *dev, charl__peer_fact *all, charl__peer_survey *out)
{
    charl__peer_fact mine = all[c->rank];

    for (int r = 0; r < c->size && !mine.why[0]; r++) {
        const char *why = charl__export_unreachable(dev, all[r].pci);

        snprintf(mine.why, sizeof mine.why, "%s", why ? why : "");
    }
    CHARL_TRY(charl_comm_allgather(c, &mine, sizeof mine, all));
    charl__peer_compare(all, c->size, out);
    return CHARL_OK;
}

charl_status charl__peer_ask(charl_comm *c, charl_device *dev, charl__peer_survey *out)
{
    charl__peer_fact mine, all[CHARL__MAX_PEERS];

    *out = (charl__peer_survey){.is_usable = false};
    if (c->size == 1 || c->is_team || c->n_nodes > 1 || c->size > CHARL__MAX_PEERS) {
        snprintf(out->why, sizeof out->why, "%s",
                 c->size == 1     ? "there is one rank"
                 : c->is_team     ? "the ranks are simulated"
                 : c->n_nodes > 1 ? "the ranks are on several nodes"
                                  : "there are more than 8 ranks");
        return CHARL_OK;
    }
    fact_fill(dev, &mine);
    CHARL_TRY(charl_comm_allgather(c, &mine, sizeof mine, all));
    charl__peer_compare(all, c->size, out);
    if (!out->why[0]) {
        CHARL_TRY(reach(c, dev, all, out));
    }
    out->is_usable = !out->why[0];
    return CHARL_OK;
}
