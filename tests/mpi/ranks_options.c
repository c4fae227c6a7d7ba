/* All-reduces with options: lanes in bf16, gathering. */
#include <stdlib.h>
#include <string.h>

#include "base/numeric/bf16.h"
#include "base/numeric/tree.h"
#include "mpi/ranks.h"
#include "support/support.h"

/* Rounded to bf16 and back: what a node of a tree in bf16 holds. */
static void round_values(float *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        v[i] = charl__bf16_load(charl__bf16_round(v[i]));
    }
}

/* charl__tree_fold with every node rounded. */
static void fold_rounded(float **leaf, int m, int64_t n)
{
    for (int s = 0; s < m; s++) {
        round_values(leaf[s], n);
    }
    for (int step = 1; step < m; step *= 2) {
        for (int s = 0; s + step < m; s += 2 * step) {
            charl__tree_fold((float *[]){leaf[s], leaf[s + step]}, 2, n);
            round_values(leaf[s], n);
        }
    }
}

static void to_bf16(const float *from, int64_t n, uint16_t *to)
{
    for (int64_t i = 0; i < n; i++) {
        to[i] = charl__bf16_round(from[i]);
    }
}

static void check_bf16(charl_comm *c, const char *name, int total, int64_t n)
{
    charl_allreduce *ar = NULL;
    charl_slices mine;
    float **leaf = leaves_alloc(total, n);
    uint16_t *want = malloc((size_t)(n + 1) * sizeof *want);

    assert_non_null(want);
    charl_assert_ok(charl_slices_block(total, charl_comm_rank(c), charl_comm_size(c), &mine));
    charl_assert_ok(charl_allreduce_create(
        c, n, &mine, &(charl_allreduce_options){.algorithm = name, .reduce_dtype = CHARL_BF16}, &ar));
    assert_true(charl_allreduce_is_invariant(ar));
    for (int64_t round = 0; round < 2; round++) {
        uint16_t *lanes = charl_allreduce_lanes(ar);

        for (int j = 0; j < mine.n_lanes; j++) {
            const int m = mine.lane_hi[j] - mine.lane_lo[j];

            for (int s = 0; s < m; s++) {
                leaf_fill(leaf[s], round, mine.lane_lo[j] + s, n);
            }
            fold_rounded(leaf, m, n);
            to_bf16(leaf[0], n, lanes + j * charl_allreduce_stride(ar));
        }
        step(ar, round, n);
        for (int s = 0; s < total; s++) {
            leaf_fill(leaf[s], round, s, n);
        }
        fold_rounded(leaf, total, n);
        to_bf16(leaf[0], n, want);
        assert_memory_equal(charl_allreduce_sum(ar), want, (size_t)n * sizeof *want);
    }
    charl_allreduce_destroy(ar);
    free(want);
    leaves_free(leaf, total);
}

/* Ranks write their parts, sums in between say that all have read them. */
static void check_gather(charl_comm *c, const char *name, int64_t n)
{
    const int64_t cut[] = {0, n / 3, n};
    charl_allreduce *ar = NULL;
    charl_slices mine;
    int64_t ticket[2], from, to;

    charl_assert_ok(charl_slices_block(8, charl_comm_rank(c), charl_comm_size(c), &mine));
    charl_assert_ok(
        charl_allreduce_create(c, n, &mine, &(charl_allreduce_options){.algorithm = name, .gathers = true}, &ar));
    assert_int_equal((uintptr_t)charl_allreduce_gathered(ar) % 4096, 0);
    for (int64_t round = 0; round < 3; round++) {
        float *v = charl_allreduce_gathered(ar);

        step(ar, round, n);
        for (int b = 0; b < 2; b++) {
            charl_allreduce_part(ar, cut[b + 1] - cut[b], charl_comm_rank(c), &from, &to);
            for (int64_t i = cut[b] + from; i < cut[b] + to; i++) {
                v[i] = value(round, 1, i);
            }
            pause_randomly(round);
            charl_assert_ok(charl_allreduce_gather(ar, cut[b], cut[b + 1] - cut[b], &ticket[b]));
        }
        charl_assert_ok(charl_allreduce_wait(ar, ticket[1]));
        for (int64_t i = 0; i < n; i++) {
            const float want = value(round, 1, i);

            assert_memory_equal(&v[i], &want, sizeof want);
        }
    }
    charl_allreduce_destroy(ar);
}

void test_sums_in_bf16(void **state)
{
    charl_allreduce *ar = NULL;
    charl_slices mine;

    (void)state;
    check_bf16(comm, "auto", 11, 17);
    check_bf16(comm, "shm", 8, 5000);
    check_bf16(comm, "p2p", 64, 5000);
    check_bf16(comm, "auto", 8, 0);
    check_bf16(nodes, "auto", 11, 5000);
    check_bf16(nodes, "p2p", 11, 5000);
    check_bf16(uneven, "auto", 64, 5000);
    charl_assert_ok(charl_slices_block(8, charl_comm_rank(comm), charl_comm_size(comm), &mine));
    charl_assert_status(
        charl_allreduce_create(comm, 4, &mine,
                               &(charl_allreduce_options){.algorithm = "mpi", .reduce_dtype = CHARL_BF16}, &ar),
        CHARL_ERR_CONFIG);
    charl_assert_message("dist.reduce_dtype");
}

void test_gathering(void **state)
{
    const char *names[] = {"auto", "shm", "hierarchical", "p2p", "mpi"};
    charl_allreduce *ar = NULL;
    charl_slices mine;
    int64_t ticket = 0;

    (void)state;
    for (size_t a = 0; a < sizeof names / sizeof *names; a++) {
        if (is_available(names[a])) {
            check_gather(comm, names[a], 1);
            check_gather(comm, names[a], 70000);
        }
    }
    check_gather(nodes, "auto", 5000);
    check_gather(nodes, "p2p", 5000);
    check_gather(uneven, "auto", 70000);
    charl_assert_ok(charl_slices_block(8, charl_comm_rank(comm), charl_comm_size(comm), &mine));
    charl_assert_ok(charl_allreduce_create(comm, 4, &mine, NULL, &ar));
    assert_null(charl_allreduce_gathered(ar));
    charl_assert_status(charl_allreduce_gather(ar, 0, 4, &ticket), CHARL_ERR_INVALID);
    charl_allreduce_destroy(ar);
}
