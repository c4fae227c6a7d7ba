/* bench_allreduce [FLOATS]: charl's all-reduce and small sum against MPI_Allreduce, best of many,
 * on this machine. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/tree.h"
#include "charl/comm.h"

enum { ROUNDS = 400 };

typedef struct bench {
    charl_comm *comm;
    charl_allreduce *ar;
    charl_reducer *sums;
    float *rival;
    int64_t n;
} bench;

static charl_status run_charl(bench *b)
{
    charl_status st = CHARL_OK;
    int64_t ticket = 0;

    CHARL_TRY(charl_allreduce_begin(b->ar, 0, b->n, &ticket));
    CHARL_TRY(charl_allreduce_wait(b->ar, ticket));
cleanup:
    return st;
}

static charl_status run_rival(bench *b)
{
    MPI_Allreduce(MPI_IN_PLACE, b->rival, (int)b->n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return CHARL_OK;
}

static charl_status run_small(bench *b)
{
    float lanes[4 * CHARL_MAX_LANES] = {0};

    return charl_reducer_sum(b->sums, lanes, 4, lanes);
}

static charl_status run_small_rival(bench *b)
{
    float v[4] = {0};

    (void)b;
    MPI_Allreduce(MPI_IN_PLACE, v, 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return CHARL_OK;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Seconds of one call, `repeat` averaged: of the slowest rank. */
static charl_status sample(bench *b, charl_status (*run)(bench *), int repeat, double *out)
{
    charl_status st = CHARL_OK;
    double t;

    CHARL_TRY(charl_comm_barrier(b->comm));
    t = charl__clock_s();
    for (int k = 0; k < repeat; k++) {
        CHARL_TRY(run(b));
    }
    *out = (charl__clock_s() - t) / repeat;
    CHARL_TRY(charl_comm_reduce_f64(b->comm, CHARL_COMM_MAX, out, 1));
cleanup:
    return st;
}

static charl_status compare(bench *b, const char *what, int repeat, charl_status (*ours)(bench *),
                            charl_status (*rival)(bench *))
{
    charl_status st = CHARL_OK;
    double t[2][ROUNDS];

    for (int i = -10; i < ROUNDS; i++) { /* the first ten only touch the memory */
        const int at = i < 0 ? 0 : i;

        CHARL_TRY(sample(b, ours, repeat, &t[0][at]));
        CHARL_TRY(sample(b, rival, repeat, &t[1][at]));
    }
    for (int k = 0; k < 2; k++) {
        qsort(t[k], ROUNDS, sizeof **t, by_value);
    }
    if (charl_comm_rank(b->comm) == 0) {
        printf("%d ranks, %s [us: best, quarter, median]: charl %.1f %.1f %.1f, MPI_Allreduce %.1f "
               "%.1f %.1f, "
               "ratio of the best %.2f\n",
               charl_comm_size(b->comm), what, t[0][0] * 1e6, t[0][ROUNDS / 4] * 1e6,
               t[0][ROUNDS / 2] * 1e6, t[1][0] * 1e6, t[1][ROUNDS / 4] * 1e6,
               t[1][ROUNDS / 2] * 1e6, t[1][0] / t[0][0]);
    }
cleanup:
    return st;
}

/* Small whole numbers: their sum is exact in any order. */
static charl_status sums_check(bench *b, const charl_slices *mine)
{
    charl_status st = CHARL_OK;
    float *lanes = charl_allreduce_lanes(b->ar);
    const float *sum = charl_allreduce_sum(b->ar);
    const int size = charl_comm_size(b->comm), rank = charl_comm_rank(b->comm);
    int64_t n_lanes = mine->n_lanes;

    CHARL_TRY(charl_comm_reduce_i64(b->comm, CHARL_COMM_SUM, &n_lanes, 1));
    for (int64_t i = 0; i < b->n; i++) {
        for (int j = 0; j < mine->n_lanes; j++) {
            lanes[j * charl_allreduce_stride(b->ar) + i] = (float)(i % 1000 + 1);
        }
        b->rival[i] = (float)(i % 1000 + rank);
    }
    CHARL_TRY(run_charl(b));
    CHARL_TRY(run_rival(b));
    for (int64_t i = 0; i < b->n; i++) {
        const int64_t ours = (int64_t)sum[i], theirs = (int64_t)b->rival[i];

        CHARL_REQUIRE(ours == n_lanes * (i % 1000 + 1) &&
                          theirs == size * (i % 1000) + size * (size - 1) / 2,
                      CHARL_ERR_COMM, "element %lld: wrong sum", (long long)i);
        b->rival[i] = 0; /* it is summed in place, again and again */
    }
cleanup:
    return st;
}

static charl_status bench_run(bench *b)
{
    charl_status st = CHARL_OK;
    charl_slices mine;
    char what[64];

    CHARL_TRY(charl_comm_create(NULL, &b->comm));
    CHARL_TRY(charl__slices_block(8, charl_comm_rank(b->comm), charl_comm_size(b->comm), &mine));
    CHARL_TRY(charl_allreduce_create(b->comm, b->n, &mine, NULL, &b->ar));
    CHARL_TRY(charl_reducer_create(b->comm, &mine, &b->sums));
    snprintf(what, sizeof what, "%s, %lld floats", charl_allreduce_name(b->ar), (long long)b->n);
    CHARL_TRY(sums_check(b, &mine));
    CHARL_TRY(compare(b, what, 1, run_charl, run_rival));
    CHARL_TRY(compare(b, "small sum, 4 floats", 20, run_small, run_small_rival));
cleanup:
    charl_reducer_destroy(b->sums);
    charl_allreduce_destroy(b->ar);
    charl_comm_destroy(b->comm);
    return st;
}

int main(int argc, char **argv)
{
    bench b = {.n = 1 << 20};
    charl_status st;

    if (charl_comm_init(&argc, &argv) != CHARL_OK) {
        return 1;
    }
    b.n = argc > 1 ? strtoll(argv[1], NULL, 10) : b.n;
    b.rival = calloc((size_t)b.n + 1, sizeof *b.rival);
    st = b.rival ? bench_run(&b) : CHARL_ERR_NOMEM;
    if (st != CHARL_OK) {
        fprintf(stderr, "%s\n", charl_error_message());
    }
    free(b.rival);
    charl_comm_fini();
    return st != CHARL_OK;
}
