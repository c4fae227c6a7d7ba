/* Passes of a step: whatever a rank's slices and their number, the lanes are those of one pass. */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "parallel/grad_accum.h"

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
    charl_assert_message("train.grad_accum_steps = 4, but a rank here has 3 of the 8 slices");
    assert_null(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_too_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
