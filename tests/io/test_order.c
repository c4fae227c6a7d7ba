/* The order of samples: a permutation of every epoch for every size, different between epochs and
 * seeds, and spread evenly. */
#include "support/support.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "charl/dataset.h"

static void check_bijection(int64_t n, uint64_t seed, int64_t epoch)
{
    unsigned char *seen = calloc((size_t)n, 1);

    assert_non_null(seen);
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = charl_order_row(seed, n, true, epoch * n + i);

        assert_in_range(row, 0, n - 1);
        assert_int_equal(seen[row], 0);
        seen[row] = 1;
    }
    free(seen);
}

static void every_epoch_is_a_permutation(void **state)
{
    static const int64_t large[] = {1000, 1024, 1025, 4096, 4097, 60000, 65536, 65537, 262145};

    (void)state;
    for (int64_t n = 1; n <= 300; n++) {
        check_bijection(n, 42, n % 5);
    }
    for (size_t k = 0; k < sizeof large / sizeof *large; k++) {
        check_bijection(large[k], 7, (int64_t)k);
    }
}

/* Every row once; the rows of a window are those of a few blocks; other epochs have another order. */
static void blocks_stay_together(void **state)
{
    static const struct {
        int64_t n, block, window;
    } cases[] = {{1, 1, 2},    {7, 10, 20},   {10, 10, 20},  {100, 10, 40},      {103, 10, 40},
                 {103, 1, 40}, {1000, 7, 21}, {999, 128, 1}, {5000, 64, 100000}, {20011, 100, 800}};

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const int64_t n = cases[k].n, block = cases[k].block;
        const int64_t per_window = cases[k].window / block > 1 ? cases[k].window / block : 1;
        int64_t *row = calloc((size_t)(3 * n), sizeof *row), same = 0;
        unsigned char *seen = calloc((size_t)(n / block + 1), 1), *once = calloc((size_t)n, 1);

        assert_true(row && seen && once);
        charl_order_blocks(9, n, block, cases[k].window, 0, 3 * n, row);
        for (int64_t i = 0; i < 3 * n; i++) {
            assert_in_range(row[i], 0, n - 1);
            assert_int_equal(once[row[i]]++, i / n);
            same += i >= n && row[i] == row[i % n];
        }
        assert_true(n < 100 || same < 2 * n / 5); /* not the order of the first epoch */
        for (int64_t first = 0; first + block * per_window <= n; first += block * per_window) {
            int64_t blocks = 0;

            memset(seen, 0, (size_t)(n / block + 1));
            for (int64_t i = first; i < first + block * per_window; i++) {
                blocks += !seen[row[i] / block]++;
            }
            assert_in_range(blocks, 1, 2 * per_window); /* behind the short block windows begin within these pieces */
        }
        for (int64_t i = 0; i < n; i++) {
            int64_t one;

            charl_order_blocks(9, n, block, cases[k].window, n + i, 1, &one);
            assert_int_equal(one, row[n + i]);
        }
        free(once);
        free(seen);
        free(row);
    }
}

/* Any row may come first, and is as likely as any other. */
static void blocks_go_everywhere(void **state)
{
    enum { N = 60, BLOCK = 8, WINDOW = 16, SEEDS = 6000 };
    static int count[N];

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        int64_t row;

        charl_order_blocks(seed, N, BLOCK, WINDOW, 3, 1, &row);
        count[row]++;
    }
    for (int i = 0; i < N; i++) {
        assert_in_range(count[i], SEEDS / N / 2, SEEDS / N * 2); /* 100 expected, deviation 10 */
    }
}

/* Many at once are those asked for one by one, across the ends of epochs. */
static void rows_are_those_of_their_positions(void **state)
{
    enum { COUNT = 700 };
    static const int64_t n[] = {1, 5, 128, 129, 300, 8000};
    int64_t row[COUNT];

    (void)state;
    for (size_t k = 0; k < sizeof n / sizeof *n; k++) {
        for (int shuffle = 0; shuffle < 2; shuffle++) {
            const int64_t first = 2 * n[k] - 3 > 0 ? 2 * n[k] - 3 : 0;

            charl_order_rows(5, n[k], shuffle, first, COUNT, row);
            for (int64_t i = 0; i < COUNT; i++) {
                assert_int_equal(row[i], charl_order_row(5, n[k], shuffle, first + i));
            }
        }
    }
}

static void without_shuffle_it_is_the_identity(void **state)
{
    (void)state;
    for (int64_t p = 0; p < 50; p++) {
        assert_int_equal(charl_order_row(3, 7, false, p), p % 7);
        assert_int_equal(charl_order_shift(3, 7, false, p, 16), 0);
    }
}

static void epochs_and_seeds_differ(void **state)
{
    static const int64_t sizes[] = {20, 100, 1000, 60000};

    (void)state;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const int64_t n = sizes[k];
        int64_t same_epoch = 0;
        int64_t same_seed = 0;

        for (int64_t i = 0; i < n; i++) {
            same_epoch += charl_order_row(1, n, true, i) == charl_order_row(1, n, true, n + i);
            same_seed += charl_order_row(1, n, true, i) == charl_order_row(2, n, true, i);
        }
        /* Two independent permutations agree in one place on average. */
        assert_in_range(same_epoch, 0, 7);
        assert_in_range(same_seed, 0, 7);
    }
}

/* Over many epochs position 0 takes every row about equally often: chi-squared below mean + 5
 * deviations. */
static void rows_are_uniform(void **state)
{
    static const int64_t sizes[] = {2, 5, 30, 128, 129, 200};

    (void)state;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const int64_t n = sizes[k];
        const int64_t draws = 400 * n;
        double count[200] = {0};
        double chi = 0;

        for (int64_t e = 0; e < draws; e++) {
            count[charl_order_row(11, n, true, e * n)] += 1;
        }
        for (int64_t i = 0; i < n; i++) {
            chi += (count[i] - 400) * (count[i] - 400) / 400;
        }
        assert_true(chi < (double)(n - 1) + 5 * sqrt(2.0 * (double)(n - 1)));
    }
}

static void position_and_row_are_not_correlated(void **state)
{
    static const int64_t sizes[] = {1000, 60000};

    (void)state;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const int64_t n = sizes[k];
        const double mean = (double)(n - 1) / 2;
        double cov = 0;
        double var = 0;

        for (int64_t i = 0; i < n; i++) {
            const double d = (double)i - mean;

            cov += d * ((double)charl_order_row(5, n, true, i) - mean);
            var += d * d;
        }
        assert_true(fabs(cov / var) < 5 / sqrt((double)n));
    }
}

/* Checkpoints depend on the order: it must never change for a given version. */
static void the_order_is_frozen(void **state)
{
    (void)state;
    assert_int_equal(charl_order_row(42, 60000, true, 0), 45718);
    assert_int_equal(charl_order_row(42, 60000, true, 60000), 25307);
    assert_int_equal(charl_order_row(42, 10, true, 0), 9);
    assert_int_equal(charl_order_shift(42, 1000, true, 0, 256), 243);
}

static void shift_stays_inside_the_window(void **state)
{
    bool moved = false;

    (void)state;
    for (int64_t e = 0; e < 100; e++) {
        const int64_t shift = charl_order_shift(9, 10, true, e * 10 + 3, 64);

        assert_in_range(shift, 0, 63);
        assert_int_equal(shift, charl_order_shift(9, 10, true, e * 10 + 9, 64));
        moved = moved || shift != charl_order_shift(9, 10, true, 0, 64);
    }
    assert_true(moved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_epoch_is_a_permutation),
        cmocka_unit_test(without_shuffle_it_is_the_identity),
        cmocka_unit_test(rows_are_those_of_their_positions),
        cmocka_unit_test(blocks_stay_together),
        cmocka_unit_test(blocks_go_everywhere),
        cmocka_unit_test(epochs_and_seeds_differ),
        cmocka_unit_test(rows_are_uniform),
        cmocka_unit_test(position_and_row_are_not_correlated),
        cmocka_unit_test(the_order_is_frozen),
        cmocka_unit_test(shift_stays_inside_the_window),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
