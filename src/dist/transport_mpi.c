/* Ranks that are processes: MPI's nonblocking collectives and its shared windows. */
#include "dist/transport.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "dist/comm_private.h"

typedef struct mpi_group {
    charl__group base;
    MPI_Comm comm;
} mpi_group;

static const charl__transport mpi;

static mpi_group *own(charl__group *g)
{
    return (mpi_group *)(void *)g;
}

/* What comes first: the rest of a new group may fail on every rank only. */
static charl_status group_alloc(mpi_group **out)
{
    CHARL_TRY(charl__alloc(sizeof **out, out));
    (*out)->base.transport = &mpi;
    (*out)->comm = MPI_COMM_NULL;
    return CHARL_OK;
}

static charl_status group_fill(mpi_group *g)
{
    CHARL_MPI(charl__mpi.Comm_set_errhandler(g->comm, MPI_ERRORS_RETURN));
    CHARL_MPI(charl__mpi.Comm_rank(g->comm, &g->base.rank));
    CHARL_MPI(charl__mpi.Comm_size(g->comm, &g->base.size));
    return CHARL_OK;
}

charl_status charl__mpi_world(charl__group **out)
{
    CHARL_SCOPED_FREE mpi_group *g = NULL;
    int is_started = 0, is_ended = 0;

    CHARL_MPI(charl__mpi.Initialized(&is_started));
    CHARL_MPI(charl__mpi.Finalized(&is_ended));
    /* Otherwise MPI ends the process. */
    CHARL_REQUIRE(is_started, CHARL_ERR_INVALID, "MPI is not started; HINT call charl_comm_init first");
    CHARL_REQUIRE(!is_ended, CHARL_ERR_INVALID, "MPI has ended; HINT call charl_comm_fini last");
    CHARL_TRY(group_alloc(&g));
    g->comm = MPI_COMM_WORLD;
    CHARL_TRY(group_fill(g));
    *out = &g->base;
    g = NULL;
    return CHARL_OK;
}

MPI_Comm charl__mpi_comm(const charl__group *g)
{
    return g->transport == &mpi ? ((const mpi_group *)(const void *)g)->comm : MPI_COMM_NULL;
}

static void mpi_destroy(charl__group *g, bool is_broken)
{
    if (own(g)->comm != MPI_COMM_WORLD && own(g)->comm != MPI_COMM_NULL && !is_broken) {
        charl__mpi.Comm_free(&own(g)->comm);
    }
    charl_free(g);
}

static charl_status mpi_near(charl_comm *c, charl__group *from, charl__group **out)
{
    charl_status st = CHARL_OK;
    mpi_group *g = NULL;

    (void)c;
    CHARL_TRY_CLEANUP(group_alloc(&g));
    CHARL_MPI(charl__mpi.Comm_split_type(own(from)->comm, MPI_COMM_TYPE_SHARED, from->rank, MPI_INFO_NULL, &g->comm));
    CHARL_TRY_CLEANUP(group_fill(g));
    *out = &g->base;
    g = NULL;
cleanup:
    charl__group_destroy(g ? &g->base : NULL, false);
    return st;
}

static charl_status mpi_split(charl_comm *c, charl__group *from, int color, int key, charl__group **out)
{
    charl_status st = CHARL_OK;
    mpi_group *g = NULL;

    (void)c;
    CHARL_TRY_CLEANUP(group_alloc(&g));
    CHARL_MPI(charl__mpi.Comm_split(own(from)->comm, color, key, &g->comm));
    CHARL_TRY_CLEANUP(group_fill(g));
    *out = &g->base;
    g = NULL;
cleanup:
    charl__group_destroy(g ? &g->base : NULL, false);
    return st;
}

static charl_status mpi_broadcast(charl__group *g, void *data, size_t bytes, int root, charl__request *r)
{
    CHARL_INVARIANT(bytes <= INT_MAX);
    *r = (charl__request){.operation = CHARL__BROADCAST};
    CHARL_MPI(charl__mpi.Ibcast(data, (int)bytes, MPI_BYTE, root, own(g)->comm, &r->mpi));
    return CHARL_OK;
}

/* Values are copied without interpretation: only their size matters. */
static MPI_Datatype type_of(size_t unit)
{
    return unit == 1 ? MPI_BYTE : unit == 2 ? MPI_UINT16_T : MPI_UINT32_T;
}

static charl_status mpi_allgather(charl__group *g, const charl__parts *all, charl__request *r)
{
    *r = (charl__request){.operation = CHARL__ALLGATHER};
    CHARL_MPI(charl__mpi.Iallgatherv(MPI_IN_PLACE, 0, type_of(all->unit), all->data, all->count, all->at,
                                     type_of(all->unit), own(g)->comm, &r->mpi));
    return CHARL_OK;
}

static charl_status mpi_alltoall(charl__group *g, const charl__parts *send, const charl__parts *receive,
                                 charl__request *r)
{
    *r = (charl__request){.operation = CHARL__ALLTOALL};
    CHARL_MPI(charl__mpi.Ialltoallv(send->data, send->count, send->at, type_of(send->unit), receive->data,
                                    receive->count, receive->at, type_of(receive->unit), own(g)->comm, &r->mpi));
    return CHARL_OK;
}

static charl_status mpi_reduce(charl__group *g, charl_comm_op op, const int64_t *mine, int64_t *out, int count,
                               charl__request *r)
{
    const MPI_Op of = op == CHARL_COMM_SUM ? MPI_SUM : op == CHARL_COMM_MIN ? MPI_MIN : MPI_MAX;

    *r = (charl__request){.operation = CHARL__REDUCE};
    CHARL_MPI(charl__mpi.Iallreduce(mine, out, count, MPI_INT64_T, of, own(g)->comm, &r->mpi));
    return CHARL_OK;
}

static charl_status mpi_send(charl__group *g, const charl__message *m, charl__request *r)
{
    *r = (charl__request){.operation = CHARL__SEND, .message = *m};
    CHARL_MPI(charl__mpi.Isend(m->data, m->count, type_of(m->unit), m->rank, m->tag, own(g)->comm, &r->mpi));
    return CHARL_OK;
}

static charl_status mpi_receive(charl__group *g, const charl__message *m, charl__request *r)
{
    *r = (charl__request){.operation = CHARL__RECEIVE, .message = *m};
    CHARL_MPI(charl__mpi.Irecv(m->data, m->count, type_of(m->unit), m->rank, m->tag, own(g)->comm, &r->mpi));
    return CHARL_OK;
}

static bool is_message(const charl__request *r)
{
    return r->operation == CHARL__SEND || r->operation == CHARL__RECEIVE;
}

static charl_status mpi_test(charl__group *g, charl__request *r, bool *is_complete)
{
    const charl__message *m = &r->message;
    MPI_Status status;
    int flag = 0, count = m->count, err;

    *is_complete = r->is_over;
    if (r->is_over) {
        return CHARL_OK;
    }
    err = charl__mpi.Test(&r->mpi, &flag, &status);
    CHARL_REQUIRE(err == MPI_SUCCESS || !is_message(r), CHARL_ERR_COMM,
                  "a message between rank %d and rank %d failed (MPI error %d): their ranges "
                  "differ, or the connection broke",
                  g->rank, m->rank, err);
    CHARL_MPI(err);
    if (flag && r->operation == CHARL__RECEIVE) {
        CHARL_MPI(charl__mpi.Get_count(&status, type_of(m->unit), &count));
    }
    CHARL_TRY(charl__message_check(g, m, count));
    *is_complete = r->is_over = flag != 0;
    return CHARL_OK;
}

/* Open MPI backs a window with a file in /dev/shm and returns bases that are not aligned. */
static charl_status mpi_share(charl_comm *c, charl__group *g, size_t bytes, charl__window *w)
{
    const uintptr_t page = CHARL__PAGE;
    void *base = NULL;
    MPI_Aint size = 0;
    int unit = 1;

    (void)c;
    if (charl__mpi.Win_allocate_shared(g->rank == 0 ? (MPI_Aint)(bytes + page) : 0, 1, MPI_INFO_NULL, own(g)->comm,
                                       &base, &w->mpi) != MPI_SUCCESS) {
        CHARL_FAIL(CHARL_ERR_NOMEM, "MPI cannot allocate a shared window of %zu bytes", bytes);
    }
    w->is_shared = true;
    CHARL_MPI(charl__mpi.Win_lock_all(MPI_MODE_NOCHECK, w->mpi));
    CHARL_MPI(charl__mpi.Win_shared_query(w->mpi, 0, &size, &unit, &base));
    /* The same distance on all ranks: mappings begin at pages. */
    w->base = (unsigned char *)base + (page - (uintptr_t)base % page) % page;
    return CHARL_OK;
}

static void mpi_unshare(charl__window *w, bool is_broken)
{
    if (!is_broken) {
        charl__mpi.Win_unlock_all(w->mpi);
        charl__mpi.Win_free(&w->mpi);
    }
}

static const charl__transport mpi = {
    .takes_dev_shm = true,
    .near = mpi_near,
    .split = mpi_split,
    .destroy = mpi_destroy,
    .broadcast = mpi_broadcast,
    .allgather = mpi_allgather,
    .alltoall = mpi_alltoall,
    .reduce = mpi_reduce,
    .send = mpi_send,
    .receive = mpi_receive,
    .test = mpi_test,
    .share = mpi_share,
    .unshare = mpi_unshare,
};

const char *charl_comm_mpi_version(void)
{
    static _Thread_local char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;

    if (charl__mpi_load()) {
        return "no MPI library (" CHARL_MPI_SONAME ")";
    }
    if (charl__mpi.Get_library_version(text, &length) != MPI_SUCCESS) {
        snprintf(text, sizeof text, "unknown");
    }
    text[strcspn(text, ",\n")] = '\0';
    return text;
}
