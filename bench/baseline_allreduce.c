/* The table of baselines, and MPI_Allreduce. */
#include "bench/baseline_private.h"

#include <mpi.h>

#include <stdlib.h>
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"

typedef struct mpi_state {
    MPI_Comm comm; /* has the same rank numbers as charl */
    float *values;
} mpi_state;

static bool mpi_load(charl__baseline *r, char *why)
{
    snprintf(why, CHARL__BASELINE_WHY, "the ranks are threads of one process");
    return !charl_comm_is_team(r->c);
}

static charl_status check_mpi(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "unknown";
    int length = 0;

    if (code == MPI_SUCCESS) {
        return CHARL_OK;
    }
    MPI_Error_string(code, text, &length);
    CHARL_FAIL(CHARL_ERR_COMM, "%s: %s", what, text);
}

static charl_status mpi_create(charl__baseline *r)
{
    mpi_state *s = NULL;

    CHARL_TRY(charl_comm_agree(r->c, charl__cli_alloc(1, sizeof *s, &s)));
    s->comm = MPI_COMM_NULL;
    r->own = s;
    CHARL_TRY(charl_comm_agree(r->c, charl__bench_aligned(4096, (size_t)(r->n + 1) * sizeof(float), &s->values)));
    memset(s->values, 0, (size_t)(r->n + 1) * sizeof(float));
    CHARL_TRY(check_mpi(MPI_Comm_split(MPI_COMM_WORLD, 0, charl_comm_rank(r->c), &s->comm), "MPI_Comm_split"));
    MPI_Comm_set_errhandler(s->comm, MPI_ERRORS_RETURN);
    return CHARL_OK;
}

static void mpi_destroy(charl__baseline *r)
{
    mpi_state *s = r->own;

    if (s) {
        if (s->comm != MPI_COMM_NULL && !charl_comm_is_broken(r->c)) {
            MPI_Comm_free(&s->comm);
        }
        free(s->values);
        free(s);
    }
}

static charl_status mpi_write(charl__baseline *r, const float *v, int64_t count)
{
    const mpi_state *s = r->own;

    memcpy(s->values, v, (size_t)count * sizeof *v);
    return CHARL_OK;
}

static charl_status mpi_read(charl__baseline *r, float *v, int64_t count)
{
    const mpi_state *s = r->own;

    memcpy(v, s->values, (size_t)count * sizeof *v);
    return CHARL_OK;
}

/* The blocking call, as programs use it. */
static charl_status mpi_sum(charl__baseline *r, int64_t count)
{
    const mpi_state *s = r->own;

    CHARL_REQUIRE(count <= INT32_MAX, CHARL_ERR_INVALID, "MPI_Allreduce of %lld values", (long long)count);
    return check_mpi(MPI_Allreduce(MPI_IN_PLACE, s->values, (int)count, MPI_FLOAT, MPI_SUM, s->comm), "MPI_Allreduce");
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
    assert(i >= 0 && i < KINDS && n >= 0);
    CHARL_TRY_CLEANUP(charl_comm_agree(c, charl__cli_alloc(1, sizeof *r, &r)));
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
        free(r);
    }
}

charl_status charl__baseline_write(charl__baseline *r, const float *v, int64_t count)
{
    assert(count <= r->n);
    return r->kind->write(r, v, count);
}

charl_status charl__baseline_read(charl__baseline *r, float *v, int64_t count)
{
    assert(count <= r->n);
    return r->kind->read(r, v, count);
}

/* A rank that fails alone, among calls that the others wait in, cannot be agreed with any more. */
charl_status charl__baseline_sum(charl__baseline *r, int64_t count)
{
    charl_status st;

    assert(count <= r->n);
    st = r->kind->sum(r, count);
    if (st == CHARL_ERR_COMM) {
        charl_comm_break(r->c);
    }
    return st;
}

charl_status charl__baseline_wait(charl__baseline *r)
{
    return r->kind->wait ? r->kind->wait(r) : CHARL_OK;
}
