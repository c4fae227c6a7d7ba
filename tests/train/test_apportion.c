/* Divisions of slices: against every division there is, and those that people expect. */
#include "train/parallel/apportion.h"

#include "base/numeric/rng.h"
#include "base/numeric/tree.h"
#include "support/support.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nearly_the_best),
        cmocka_unit_test(as_expected),
        cmocka_unit_test(lanes_suffice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
