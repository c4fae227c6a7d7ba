/* Values and steps for the tests that run on several ranks. */
#include "mpi/ranks.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "dist/allreduce/parts.h"
#include "support/support.h"

float value(int64_t round, int slice, int64_t i)
{
    const uint32_t h = (uint32_t)(round * 40503 + slice * 7919 + i * 104729 + 12345) * 2654435761u;

    return ((float)(h >> 8) / 16777216.0f - 0.5f) * (float)(1u << (h & 15u));
}

void leaf_fill(float *leaf, int64_t round, int slice, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        leaf[i] = value(round, slice, i);
    }
}

float **leaves_alloc(int m, int64_t n)
{
    float **leaf = calloc((size_t)m, sizeof *leaf);

    assert_non_null(leaf);
    for (int s = 0; s < m; s++) {
        leaf[s] = malloc((size_t)(n + 1) * sizeof **leaf);
        assert_non_null(leaf[s]);
    }
    return leaf;
}

void leaves_free(float **leaf, int m)
{
    for (int s = 0; s < m; s++) {
        free(leaf[s]);
    }
    free(leaf);
}

void pause_randomly(int64_t round)
{
    const uint32_t h = (uint32_t)(round * 31 + charl_comm_rank(comm) * 17 + 5) * 2654435761u;

    if ((h >> 28) == 0) {
        charl__sleep_s((double)(h & 1023u) * 1e-6);
    }
}

void step(charl_allreduce *ar, int64_t round, int64_t n)
{
    const int64_t cut[] = {0, n / 7, n / 7, n / 2, n};
    int64_t ticket[4], completed = 0;

    for (int b = 0; b < 4; b++) {
        pause_randomly(round + b);
        charl_assert_ok(charl_allreduce_begin(ar, cut[b], cut[b + 1] - cut[b], &ticket[b]));
        charl_assert_ok(charl__allreduce_progress(ar, &completed));
        assert_true(completed <= ticket[b] + 1);
    }
    for (int b = 0; b < 4; b++) {
        charl_assert_ok(charl_allreduce_wait(ar, ticket[b]));
    }
    charl_assert_ok(charl__allreduce_progress(ar, &completed));
    assert_int_equal(completed, ticket[3] + 1);
}

void skip_test(void)
{
    if (!charl_comm_is_team(comm)) {
        skip();
    }
}

bool is_available(const char *algorithm)
{
    return !(charl_comm_size(comm) > 1 && strcmp(algorithm, "local") == 0) &&
           !(charl_comm_is_team(comm) && strcmp(algorithm, "mpi") == 0);
}
