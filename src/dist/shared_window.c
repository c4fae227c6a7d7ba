/* Memory shared by the ranks of a node, from their transport.
 *
 * Open MPI backs it with a file in /dev/shm, whose pages are allocated when they are first touched: if
 * /dev/shm is too small, that is a bus error in the middle of a step. So the space is checked first,
 * agreed on, and touched at once. */
#include "dist/comm_private.h"

#include <string.h>
#include <sys/statvfs.h>

#include "base/alloc.h"
#include "base/fault.h"

int64_t charl_comm_shared_available(void)
{
    struct statvfs vfs;
    int64_t pretended = 0;

    if (statvfs("/dev/shm", &vfs) != 0) {
        return INT64_MAX; /* then MPI takes another directory */
    }
    return charl__fault_arg("comm.shm", &pretended) ? pretended
                                                    : (int64_t)((uint64_t)vfs.f_bavail * (uint64_t)vfs.f_frsize);
}

static charl_status space_check(size_t bytes, const char *what)
{
    const int64_t available = charl_comm_shared_available();

    CHARL_REQUIRE(available >= (int64_t)bytes, CHARL_ERR_NOMEM,
                  "%s needs %.1f MB of /dev/shm, which has %.1f MB free; HINT enlarge it (docker run --shm-size=..., "
                  "or mount -o remount,size=... /dev/shm), or choose the all-reduce p2p",
                  what, (double)bytes / 1e6, (double)available / 1e6);
    return CHARL_OK;
}

/* Agree twice on every rank, even if a node has one rank: nodes may differ in size. */
charl_status charl__window_create(charl_comm *c, size_t bytes, const char *what, charl__window *w)
{
    charl_status st = CHARL_OK;
    const charl__transport *t = c->node->transport;
    const bool shares = c->local_size > 1;
    const size_t total = charl__round_up(bytes, CHARL__PAGE);
    const size_t part = charl__round_up(total / (size_t)c->local_size, CHARL__PAGE);
    const size_t from = part * (size_t)c->local_rank < total ? part * (size_t)c->local_rank : total;
    bool held = false; /* the window is counted, but not shared yet */

    memset(w, 0, sizeof *w);
    if (shares && c->local_rank == 0 && t->takes_dev_shm) {
        st = space_check(total + CHARL__PAGE, what);
    }
    if (shares && st == CHARL_OK) {
        st = charl__acquire("shared window"); /* before the others wait for this rank */
        held = st == CHARL_OK;
    }
    CHARL_TRY_CLEANUP(charl_comm_agree(c, st));
    if (shares) {
        st = t->share(c, c->node, total, w);
        held = !w->is_shared;
    } else {
        st = charl__alloc_aligned(CHARL__PAGE, total, &w->owned);
        w->base = w->owned;
    }
    CHARL_TRY_CLEANUP(charl_comm_agree(c, st));
    if (shares) {
        /* Each rank touches a part first, so that the pages are spread over the memory domains of the node. */
        memset(w->base + from, 0, part < total - from ? part : total - from);
    }
    CHARL_TRY_CLEANUP(charl_comm_barrier(c));
cleanup:
    if (st != CHARL_OK) {
        charl__window_destroy(c, w);
    }
    if (held) {
        charl__drop();
    }
    return st;
}

void charl__window_destroy(const charl_comm *c, charl__window *w)
{
    if (w->is_shared) {
        c->node->transport->unshare(w, c->is_broken);
        charl__drop();
    }
    charl_free(w->owned);
    memset(w, 0, sizeof *w);
}
