/* src/parallel: slices by speed, the order of accumulation, and chunks of gradients. */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "base/numeric/rng.h"
#include "base/numeric/tree.h"
#include "parallel/grad_accum.h"
#include "parallel/apportion.h"
#include "parallel/grad_reducer_private.h"

/* Divisions of slices: against every division there is, and those that people expect. */

enum { RANKS = 4 };

/* The shortest time of any division of `left` slices over ranks r and up, each at least `least`. */
static double best(int left, int least, int r, int size, const double *cost)
{
    double shortest = 1e30;

    if (r == size - 1) {
        return left * cost[r];
    }
    for (int n = least; n <= left - least * (size - 1 - r); n++) {
        const double rest = best(left - n, least, r + 1, size, cost);
        const double time = n * cost[r] > rest ? n * cost[r] : rest;

        shortest = time < shortest ? time : shortest;
    }
    return shortest;
}

static void nearly_the_best(void **state)
{
    const charl__rng rng = charl__rng_key(charl_test_seed(), 0, 0);
    uint64_t drawn = 0;

    (void)state;
    for (int i = 0; i < 600; i++) {
        const int size = 1 + i % RANKS, least = 1 + i / RANKS % 2;
        const int total = least * size + i % 21;
        double cost[RANKS], time;
        int count[RANKS], sum = 0;

        for (int r = 0; r < size; r++) {
            cost[r] = 0.1 + 4.0 * (double)charl__rng_uniform(&rng, drawn++);
        }
        charl__apportion(total, least, total, size, cost, count);
        for (int r = 0; r < size; r++) {
            assert_true(count[r] >= least);
            sum += count[r];
        }
        assert_int_equal(sum, total);
        time = best(total, least, 0, size, cost);
        assert_true(charl__apportion_time(size, cost, count) <= 1.05 * time * (1 + 1e-12));
    }
}

static void as_expected(void **state)
{
    static const struct {
        int total, least, most, size;
        double cost[RANKS];
        int count[RANKS];
    } cases[] = {
        {8, 1, 8, 1, {2}, {8}},
        {8, 1, 8, 2, {1, 1}, {4, 4}},
        {8, 1, 8, 2, {1, 3}, {6, 2}},
        {64, 1, 64, 2, {1, 2}, {44, 20}}, /* 43 and 21 have three lanes more */
        {64, 1, 64, 2, {1, 3}, {48, 16}}, /* a border at a quarter */
        {64, 1, 64, 4, {1, 1, 1, 1}, {16, 16, 16, 16}},
        {64, 1, 64, 2, {1, 1e6}, {63, 1}}, /* everyone has one */
        {64, 4, 64, 2, {1, 1e6}, {60, 4}}, /* or as many as there are passes */
        {3, 1, 3, 3, {1, 50, 1}, {1, 1, 1}},
        {7, 1, 7, 2, {1, 1}, {4, 3}}, /* equals: the first */
        {24, 1, 24, 3, {1, 1, 2}, {10, 10, 4}},
        {128, 1, 64, 2, {1, 9}, {64, 64}}, /* nobody has more than fit into a pass */
        {96, 1, 64, 2, {1, 9}, {64, 32}},
        {97, 1, 64, 3, {1, 2, 1e6}, {64, 32, 1}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int count[RANKS];

        charl__apportion(cases[i].total, cases[i].least, cases[i].most, cases[i].size, cases[i].cost, count);
        for (int r = 0; r < cases[i].size; r++) {
            if (count[r] != cases[i].count[r]) {
                fail_msg("case %zu: rank %d gets %d slices, expected %d", i, r, count[r], cases[i].count[r]);
            }
        }
    }
}

/* Every block that there can be fits into the lanes of a rank. */
static void lanes_suffice(void **state)
{
    int most = 0;

    (void)state;
    for (int total = 1; total <= CHARL_MAX_SLICES; total++) {
        const int step =
            total <= 64 ? 1 : total - 2; /* of many the block that leaves out both ends: nothing needs more */

        for (int first = 0; first < total; first += first == 0 ? 1 : step) {
            for (int end = first + 1; end <= total; end += end == first + 1 ? step : 1) {
                charl_slices s;

                assert_int_equal(charl_slices_range(total, first, end - first, &s), CHARL_OK);
                most = s.n_lanes > most ? s.n_lanes : most;
            }
        }
    }
    assert_true(most <= CHARL_MAX_LANES);
}

/* Passes of a step: whatever a rank's slices and their number, the lanes are those of one pass. */

/* The tree over slices [lo, hi), which start at an aligned one. */
static float fold(const float *slice, int lo, int hi)
{
    float copy[CHARL_MAX_SLICES], *part[CHARL_MAX_SLICES];

    memcpy(copy, slice + lo, (size_t)(hi - lo) * sizeof *slice);
    for (int i = 0; i < hi - lo; i++) {
        part[i] = &copy[i];
    }
    charl__tree_fold(part, hi - lo, 1);
    return copy[0];
}

static void check(const charl_slices *mine, int n, const float *slice)
{
    charl__grad_accum *p = NULL;
    float *slots;
    int next = mine->first;

    charl_assert_ok(charl__grad_accum_create(mine, n, &p));
    assert_int_equal(charl__grad_accum_count(p), n);
    assert_in_range(charl__grad_accum_depth(p), mine->n_lanes, 2 * CHARL_MAX_LANES);
    slots = calloc((size_t)charl__grad_accum_depth(p), sizeof *slots);
    for (int i = 0; i < n; i++) {
        const charl_slices *s = charl__grad_accum_slices(p, i);
        float lanes[CHARL_MAX_LANES];

        assert_true(s->first == next && s->count >= 1 && s->total == mine->total);
        assert_true(s->count <= charl__grad_accum_slices(p, 0)->count); /* the first tells what all need */
        next += s->count;
        for (int j = 0; j < s->n_lanes; j++) {
            lanes[j] = fold(slice, s->lane_lo[j], s->lane_hi[j]);
        }
        charl__grad_accum_fold_numbers(p, i, lanes, 1, slots);
    }
    assert_int_equal(next, mine->first + mine->count);
    for (int j = 0; j < mine->n_lanes; j++) {
        const float want = fold(slice, mine->lane_lo[j], mine->lane_hi[j]);

        charl_assert_same_bits(&slots[j], &want, 1);
    }
    free(slots);
    charl__grad_accum_destroy(p);
}

static void test_lanes(void **state)
{
    static const int totals[] = {1, 2, 3, 7, 8, 12, 13, 16, 63, 64};
    float slice[CHARL_MAX_SLICES];

    (void)state;
    charl_test_fill(slice, CHARL_MAX_SLICES, -1.0F, 1.0F, 4);
    for (size_t k = 0; k < sizeof totals / sizeof *totals; k++) {
        for (int size = 1; size <= 5 && size <= totals[k]; size++) {
            for (int rank = 0; rank < size; rank++) {
                charl_slices mine;

                charl_assert_ok(charl_slices_block(totals[k], rank, size, &mine));
                for (int n = 1; n <= mine.count; n++) {
                    check(&mine, n, slice);
                }
            }
        }
    }
}

/* More slices than a graph takes. */
static void test_many(void **state)
{
    static const int totals[] = {65, 1000, 1024, CHARL_MAX_SLICES};
    float slice[CHARL_MAX_SLICES];
    charl_slices mine;

    (void)state;
    charl_test_fill(slice, CHARL_MAX_SLICES, -1.0F, 1.0F, 5);
    for (size_t k = 0; k < sizeof totals / sizeof *totals; k++) {
        for (int rank = 0; rank < 3; rank++) {
            charl_assert_ok(charl_slices_block(totals[k], rank, 3, &mine));
            for (int n = charl__grad_accum_least(mine.count); n <= mine.count; n = 2 * n + 1) {
                check(&mine, n, slice);
            }
            check(&mine, mine.count, slice);
        }
    }
}

/* Neither graphs nor partial sums grow with the passes. */
static void test_shapes(void **state)
{
    charl_slices mine;

    (void)state;
    charl_assert_ok(charl_slices_block(1024, 0, 1, &mine));
    for (int n = 16; n <= 1024; n *= 2) {
        charl__grad_accum *p = NULL;

        charl_assert_ok(charl__grad_accum_create(&mine, n, &p));
        assert_int_equal(charl__grad_accum_shapes(p), 1);
        assert_in_range(charl__grad_accum_depth(p), 1, 11);
        charl__grad_accum_destroy(p);
    }
    charl_assert_ok(charl_slices_block(1000, 0, 1, &mine));
    for (int n = 16; n <= 1000; n++) {
        charl__grad_accum *p = NULL;

        charl_assert_ok(charl__grad_accum_create(&mine, n, &p));
        assert_in_range(charl__grad_accum_shapes(p), 1, 2 * (1000 / n + 1));
        charl__grad_accum_destroy(p);
    }
}

static void test_too_many(void **state)
{
    charl__grad_accum *p = NULL;
    charl_slices mine;

    (void)state;
    charl_assert_ok(charl_slices_block(8, 1, 3, &mine));
    charl_assert_status(charl__grad_accum_create(&mine, 4, &p), CHARL_ERR_CONFIG);
    charl_assert_message("passes = 4, but a rank has 3 of the 8 slices");
    assert_null(p);
}

/* Ranks own whole blocks of each chunk, also of gradients so many that chunks are longer than CHUNK_VALUES. */
static void test_chunks(void **state)
{
    (void)state;
    for (int64_t blocks = 1; blocks < INT64_C(1) << 33; blocks = 3 * blocks + 1) {
        const int64_t n = blocks * CHARL_ARENA_ALIGN, longest = charl__chunk_longest(n);

        assert_int_equal(longest % CHARL_PARAM_ALIGN, 0);
        assert_true(longest >= CHUNK_VALUES && n / longest < CUTS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nearly_the_best), cmocka_unit_test(as_expected), cmocka_unit_test(lanes_suffice),
        cmocka_unit_test(test_lanes),      cmocka_unit_test(test_many),   cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_too_many),   cmocka_unit_test(test_chunks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
