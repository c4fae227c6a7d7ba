/* Sums of values in bf16 against a tree whose every node is rounded. */
#include <stdlib.h>

#include "base/numeric/bf16.h"
#include "base/numeric/tree.h"
#include "dist/allreduce/allreduce_device.h"
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

void check_bf16(charl_comm *c, const char *name, charl_device *dev, void (*prepare)(charl_allreduce *), int total,
                int64_t n)
{
    charl_allreduce *ar = NULL;
    charl_slices mine;
    float **leaf = leaves_alloc(total, n);
    uint16_t *want = malloc((size_t)(n + 1) * sizeof *want), *got = malloc((size_t)(n + 1) * sizeof *got);

    assert_non_null(want);
    assert_non_null(got);
    charl_assert_ok(charl_slices_block(total, charl_comm_rank(c), charl_comm_size(c), &mine));
    charl_assert_ok(
        charl_allreduce_create(c, n, &mine,
                               &(charl_allreduce_options){sizeof(charl_allreduce_options), .algorithm = name,
                                                          .reduce_dtype = CHARL_BF16, .device = dev},
                               &ar));
    if (prepare) {
        prepare(ar);
    }
    assert_true(charl__allreduce_is_invariant(ar));
    for (int64_t round = 0; round < 2; round++) {
        for (int j = 0; j < mine.n_lanes; j++) {
            const int m = mine.lane_hi[j] - mine.lane_lo[j];

            for (int s = 0; s < m; s++) {
                leaf_fill(leaf[s], round, mine.lane_lo[j] + s, n);
            }
            fold_rounded(leaf, m, n);
            to_bf16(leaf[0], n, got);
            charl_assert_ok(charl_allreduce_write_lane(ar, j, 0, n, got));
        }
        step(ar, round, n);
        for (int s = 0; s < total; s++) {
            leaf_fill(leaf[s], round, s, n);
        }
        fold_rounded(leaf, total, n);
        to_bf16(leaf[0], n, want);
        charl_assert_ok(charl_allreduce_read_sum(ar, 0, n, got));
        assert_memory_equal(got, want, (size_t)n * sizeof *want);
    }
    charl_allreduce_destroy(ar);
    free(got);
    free(want);
    leaves_free(leaf, total);
}
