/* Memory that the ranks of a node share: an MPI-3 window that the first of them allocates.
 *
 * Open MPI backs it with a file in /dev/shm, whose pages are taken when they are first touched: too
 * small a /dev/shm would be a bus error in the middle of a step. So the space is checked first,
 * agreed on, and touched at once. */
#include "dist/comm_private.h"

#include <string.h>
#include <sys/statvfs.h>

#include "base/alloc.h"
#include "base/fault.h"

enum { PAGE = 4096 };

static charl_status space_check(size_t bytes, const char *what)
{
    charl_status st = CHARL_OK;
    struct statvfs vfs;
    int64_t pretended = 0;
    uint64_t available;

    if (statvfs("/dev/shm", &vfs) != 0) {
        return CHARL_OK; /* then MPI takes another directory */
    }
    available = (uint64_t)vfs.f_bavail * (uint64_t)vfs.f_frsize;
    if (charl__fault_arg("comm.shm", &pretended)) {
        available = (uint64_t)pretended;
    }
    CHARL_REQUIRE(available >= bytes, CHARL_ERR_NOMEM,
                  "%s needs %.1f MB of /dev/shm, which has %.1f MB free: enlarge it (docker run "
                  "--shm-size=..., or "
                  "mount -o remount,size=... /dev/shm) or set dist.allreduce = tree",
                  what, (double)bytes / 1e6, (double)available / 1e6);
cleanup:
    return st;
}

/* Before the status page exists only MPI itself can carry the agreement. */
static charl_status node_agree(charl_comm *c, charl_status mine)
{
    charl_status st = CHARL_OK;
    int worst = (int)mine;

    if (c->me) {
        return charl_comm_agree(c, mine);
    }
    CHARL_MPI(MPI_Allreduce(MPI_IN_PLACE, &worst, 1, MPI_INT, MPI_MAX, c->world));
    if (mine == CHARL_OK && worst != CHARL_OK) {
        CHARL_FAIL((charl_status)worst, "another rank cannot share memory with this one");
    }
    st = mine;
cleanup:
    return st;
}

static charl_status window_open(charl_comm *c, size_t bytes, charl__window *w)
{
    charl_status st = CHARL_OK;
    void *base = NULL;
    MPI_Aint size = 0;
    int unit = 1;
    uintptr_t skip;

    if (MPI_Win_allocate_shared(c->local_rank == 0 ? (MPI_Aint)(bytes + PAGE) : 0, 1, MPI_INFO_NULL,
                                c->node, &base, &w->win) != MPI_SUCCESS) {
        charl__drop();
        CHARL_FAIL(CHARL_ERR_NOMEM, "MPI cannot allocate a shared window of %zu bytes", bytes);
    }
    w->is_open = true;
    CHARL_MPI(MPI_Win_lock_all(MPI_MODE_NOCHECK, w->win));
    CHARL_MPI(MPI_Win_shared_query(w->win, 0, &size, &unit, &base));
    skip = (PAGE - (uintptr_t)base % PAGE) % PAGE; /* equal on all ranks: mappings begin at pages */
    w->base = (unsigned char *)base + skip;
cleanup:
    return st;
}

/* Agree twice on every rank, also where a node has one rank: nodes may differ in size. */
charl_status charl__window_create(charl_comm *c, size_t bytes, const char *what, charl__window *w)
{
    charl_status st = CHARL_OK;
    const bool is_shared = c->local_size > 1;
    const size_t total = charl__round_up(bytes, PAGE);
    const size_t part = charl__round_up(total / (size_t)c->local_size, PAGE);
    bool held = false; /* the window is counted, but not open */
    const size_t from = part * (size_t)c->local_rank < total ? part * (size_t)c->local_rank : total;

    memset(w, 0, sizeof *w);
    if (is_shared && c->local_rank == 0) {
        st = space_check(total + PAGE, what);
    }
    if (is_shared && st == CHARL_OK) {
        st = charl__acquire("MPI window"); /* before the others wait in MPI */
        held = st == CHARL_OK;
    }
    CHARL_TRY(node_agree(c, st));
    if (is_shared) {
        held = false;
        st = window_open(c, total, w);
    } else {
        st = charl_alloc_aligned(PAGE, total, &w->owned);
        w->base = w->owned;
    }
    CHARL_TRY(node_agree(c, st));
    if (is_shared) {
        /* Each rank touches a part first, so the pages are spread over the memories of the node. */
        memset(w->base + from, 0, part < total - from ? part : total - from);
        CHARL_MPI(MPI_Barrier(c->node));
    }
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
    if (w->is_open) {
        if (!c->is_broken) {
            MPI_Win_unlock_all(w->win);
            MPI_Win_free(&w->win);
        }
        charl__drop();
    }
    charl_free(w->owned);
    memset(w, 0, sizeof *w);
}
