/* The table of baselines, and MPI_Allreduce. */
#include "bench/baseline_private.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

static bool mpi_load(charl__baseline *r, char *why)
{
    snprintf(why, CHARL__BASELINE_WHY, "the ranks are threads of one process");
    return charl__mpi_comm(r->c->world) != MPI_COMM_NULL;
}

static charl_status mpi_create(charl__baseline *r)
{
    return charl_comm_agree(r->c, charl_alloc_aligned(4096, (size_t)(r->n + 1) * sizeof(float), &r->own));
}

static void mpi_destroy(charl__baseline *r)
{
    charl_free(r->own);
}

static charl_status mpi_write(charl__baseline *r, const float *v, int64_t count)
{
    memcpy(r->own, v, (size_t)count * sizeof *v);
    return CHARL_OK;
}

static charl_status mpi_read(charl__baseline *r, float *v, int64_t count)
{
    memcpy(v, r->own, (size_t)count * sizeof *v);
    return CHARL_OK;
}

/* The blocking call, as programs use it. */
static charl_status mpi_sum(charl__baseline *r, int64_t count)
{
    CHARL_REQUIRE(count <= INT32_MAX, CHARL_ERR_INVALID, "MPI_Allreduce of %lld values", (long long)count);
    CHARL_MPI(MPI_Allreduce(MPI_IN_PLACE, r->own, (int)count, MPI_FLOAT, MPI_SUM, charl__mpi_comm(r->c->world)));
    return CHARL_OK;
}

static const charl__baseline_kind mpi = {
    .name = "MPI_Allreduce",
    .load = mpi_load,
    .create = mpi_create,
    .destroy = mpi_destroy,
    .write = mpi_write,
    .read = mpi_read,
    .sum = mpi_sum,
};

static const charl__baseline_kind *const kinds[] = {&mpi, &charl__baseline_nccl};

enum { KINDS = sizeof kinds / sizeof kinds[0] };

const char *charl__baseline_name(int i)
{
    return i >= 0 && i < KINDS ? kinds[i]->name : NULL;
}

/* Whether every rank has it; else the reason of the lowest rank that has not. */
static charl_status load_everywhere(charl__baseline *r, bool *loaded, char *why)
{
    int64_t lacking;

    memset(why, 0, CHARL__BASELINE_WHY);
    lacking = r->kind->load(r, why) ? INT64_MAX : charl_comm_rank(r->c);
    CHARL_TRY(charl_comm_reduce_i64(r->c, CHARL_COMM_MIN, &lacking, 1));
    *loaded = lacking == INT64_MAX;
    if (!*loaded) {
        CHARL_TRY(charl_comm_broadcast(r->c, why, CHARL__BASELINE_WHY, (int)lacking));
    }
    return CHARL_OK;
}

charl_status charl__baseline_create(charl_comm *c, int i, int64_t n, charl__baseline **out, char *why)
{
    charl_status st = CHARL_OK;
    charl__baseline *r = NULL;
    bool loaded = false;

    *out = NULL;
    CHARL_INVARIANT(i >= 0 && i < KINDS && n >= 0);
    CHARL_TRY_CLEANUP(charl_comm_agree(c, charl_alloc(sizeof *r, &r)));
    r->kind = kinds[i];
    r->c = c;
    r->n = n;
    CHARL_TRY_CLEANUP(load_everywhere(r, &loaded, why));
    if (loaded) {
        CHARL_TRY_CLEANUP(r->kind->create(r));
        *out = r;
        r = NULL;
    }
cleanup:
    charl__baseline_destroy(r);
    return st;
}

void charl__baseline_destroy(charl__baseline *r)
{
    if (r) {
        r->kind->destroy(r);
        charl_free(r);
    }
}

charl_status charl__baseline_write(charl__baseline *r, const float *v, int64_t count)
{
    CHARL_INVARIANT(count <= r->n);
    return r->kind->write(r, v, count);
}

charl_status charl__baseline_read(charl__baseline *r, float *v, int64_t count)
{
    CHARL_INVARIANT(count <= r->n);
    return r->kind->read(r, v, count);
}

charl_status charl__baseline_sum(charl__baseline *r, int64_t count)
{
    charl_status st = CHARL_OK;

    CHARL_INVARIANT(count <= r->n);
    CHARL_TRY_CLEANUP(charl__comm_check(r->c));
    CHARL_TRY_CLEANUP(r->kind->sum(r, count));
cleanup:
    r->c->is_broken = r->c->is_broken || st == CHARL_ERR_COMM;
    return st;
}

charl_status charl__baseline_wait(charl__baseline *r)
{
    return r->kind->wait ? r->kind->wait(r) : CHARL_OK;
}
