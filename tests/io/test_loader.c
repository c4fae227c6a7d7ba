/* The loader: every sample once per epoch whatever the batch, the cursor, the ranks and how much is read ahead; errors reach the caller; it can be stopped at any time. */
#include "io/h5_dataset.h"
#include "io/imports.h"
#include "io/scratch.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "charl/loader.h"

enum { N = 103 };

static char path[512];
static charl_dataset *ds;

/* Row i is (i, -i) with label i % 4. */
static void write_table(void)
{
    float x[N][2];
    int32_t y[N];
    const h5_dataset d = {
        .kind = CHARL_DATASET_TABLE, .x_dtype = CHARL_F32, .x_item = {1, {2}}, .rows = {N}, .x = x, .y = y};

    for (int i = 0; i < N; i++) {
        x[i][0] = (float)i;
        x[i][1] = (float)-i;
        y[i] = i % 4;
    }
    charl_assert_ok(h5_import(path, &d, false));
}

static int setup(void **state)
{
    setup_dir(state);
    snprintf(path, sizeof path, "%s", charl_test_path(dir, "table.h5"));
    write_table();
    charl_assert_ok(charl_dataset_open(path, NULL, &ds));
    return 0;
}

static int teardown(void **state)
{
    charl_dataset_close(ds);
    return teardown_dir(state);
}

static charl_loader_options options(int64_t batch, int prefetch)
{
    return (charl_loader_options){sizeof(charl_loader_options), .shuffle = CHARL_SHUFFLE_ROWS, .seed = 77,
                                  .batch_size = batch, .prefetch = prefetch};
}

/* Append the rows of the next `steps` steps to out; checks that x and y belong together. */
static void collect(charl_loader *l, int64_t first_step, int64_t steps, int64_t rows, int *out)
{
    for (int64_t k = 0; k < steps; k++) {
        charl_loader_batch b;

        charl_assert_ok(charl_loader_next(l, &b));
        assert_int_equal(b.step, first_step + k);
        assert_int_equal(b.rows, rows);
        for (int64_t i = 0; i < rows; i++) {
            const float *x = (const float *)b.x + 2 * i;

            out[k * rows + i] = (int)x[0];
            assert_int_equal((int)x[1], -(int)x[0]);
            assert_int_equal(((const int32_t *)b.y)[i], (int)x[0] % 4);
        }
    }
}

static void every_sample_once_per_epoch(void **state)
{
    static const int64_t batches[] = {1, 10, 32, 64};

    (void)state;
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
        const int64_t batch = batches[b];
        const int64_t steps = 3 * N / batch + 1;
        const charl_loader_options opt = options(batch, 2);
        charl_loader *l = NULL;
        int *rows = calloc((size_t)(steps * batch), sizeof *rows);

        assert_non_null(rows);
        charl_assert_ok(charl_loader_create(ds, NULL, &opt, &l));
        collect(l, 0, steps, batch, rows);
        charl_loader_destroy(l);
        for (int e = 0; e < 3; e++) { /* batches straddle the epochs: N is prime */
            int seen[N] = {0};

            for (int i = 0; i < N; i++) {
                seen[rows[e * N + i]]++;
            }
            for (int i = 0; i < N; i++) {
                assert_int_equal(seen[i], 1);
            }
        }
        free(rows);
    }
}

static void any_cursor_and_any_ranks_give_the_same_rows(void **state)
{
    enum { B = 12, STEPS = 30 };
    static const int ranks[] = {1, 2, 3, 4, 6, 12};
    int all[B * STEPS];
    int part[B * STEPS];
    charl_slices mine;
    charl_loader *l = NULL;
    charl_loader_options opt = options(B, 1);

    (void)state;
    charl_assert_ok(charl_loader_create(ds, NULL, &opt, &l));
    collect(l, 0, STEPS, B, all);
    charl_loader_destroy(l);
    for (size_t k = 0; k < sizeof ranks / sizeof *ranks; k++) {
        const int64_t rows = B / ranks[k];

        for (int rank = 0; rank < ranks[k]; rank++) {
            const int64_t first = (rank * 7) % STEPS;

            opt = options(B, rank % 5);
            opt.first_step = first;
            charl_assert_ok(charl_slices_block(ranks[k], rank, ranks[k], &mine));
            charl_assert_ok(charl_loader_create(ds, &mine, &opt, &l));
            collect(l, first, STEPS - first, rows, part);
            charl_loader_destroy(l);
            for (int64_t s = 0; s < STEPS - first; s++) {
                assert_memory_equal(part + s * rows, all + (first + s) * B + rank * rows, (size_t)rows * sizeof *part);
            }
        }
    }
}

static void the_last_step_is_the_last(void **state)
{
    charl_loader_options opt = options(40, 1);
    int rows[3 * 40];
    charl_loader_batch b;
    charl_loader *l = NULL;

    (void)state;
    opt.shuffle = CHARL_SHUFFLE_NO;
    opt.end_step = 3; /* 120 rows of 103: the rest begins again */
    charl_assert_ok(charl_loader_create(ds, NULL, &opt, &l));
    collect(l, 0, 3, 40, rows);
    for (int i = 0; i < 120; i++) {
        assert_int_equal(rows[i], i % N);
    }
    charl_assert_status(charl_loader_next(l, &b), CHARL_ERR_INVALID);
    charl_loader_destroy(l);
}

static void read_errors_reach_the_caller(void **state)
{
    const charl_loader_options opt = options(1, 1);
    charl_loader *l = NULL;
    charl_status st = CHARL_OK;
    charl_loader_batch b;
    int good = 0;

    (void)state;
    /* Two reads per step (x and y); the blocks were checked by earlier tests or are by this one. */
    charl_test_fault_set("data.eio:15+");
    charl_assert_ok(charl_loader_create(ds, NULL, &opt, &l));
    while (st == CHARL_OK && good < 100) {
        st = charl_loader_next(l, &b);
        good += st == CHARL_OK;
    }
    assert_int_equal(st, CHARL_ERR_IO);
    charl_assert_message("table.h5");
    assert_in_range(good, 6, 7);
    charl_error_clear();
    charl_assert_status(charl_loader_next(l, &b), CHARL_ERR_IO); /* and again */
    charl_assert_message("table.h5");
    charl_loader_destroy(l);
    charl_test_fault_set(NULL);
}

static void it_stops_at_any_time(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        const charl_loader_options opt = options(8, i % 5);
        charl_loader *l = NULL;
        charl_loader_batch b;

        charl_assert_ok(charl_loader_create(ds, NULL, &opt, &l));
        if (i % 3 == 1) {
            charl_assert_ok(charl_loader_next(l, &b));
        } else if (i % 3 == 2) {
            charl_test_sleep_s(0.001); /* time for the ring to fill: the thread now waits */
        }
        charl_loader_destroy(l);
    }
    charl_loader_destroy(NULL);
}

static void bad_options_are_refused(void **state)
{
    charl_loader *l = NULL;
    charl_loader_options opt = options(8, 1);

    (void)state;
    opt.split = CHARL_SPLIT_VAL;
    charl_assert_status(charl_loader_create(ds, NULL, &opt, &l), CHARL_ERR_INVALID);
    charl_assert_message("no split val");
    opt = options(8, 1);
    opt.first_step = INT64_MAX / 2;
    charl_assert_status(charl_loader_create(ds, NULL, &opt, &l), CHARL_ERR_INVALID);
    assert_null(l);
}

static void token_windows_shift_with_the_epoch(void **state)
{
    const char *tokens_path = charl_test_path(dir, "tokens.h5"), *raw = charl_test_path(dir, "raw.bin");
    const charl_loader_options opt = options(7, 1);
    uint16_t tokens[500];
    charl_dataset *text = NULL;
    charl_loader *l = NULL;
    charl_loader_batch b;
    charl_dataset_info info;

    (void)state;
    for (int i = 0; i < 500; i++) {
        tokens[i] = (uint16_t)i;
    }
    put_file(raw, tokens, sizeof tokens);
    charl_assert_ok(charl_import("tokens", NULL, &raw, 1, tokens_path, NULL));
    charl_assert_ok(
        charl_dataset_open(tokens_path, &(charl_dataset_options){sizeof(charl_dataset_options), .window = 8}, &text));
    charl_dataset_get_info(text, &info);
    charl_assert_ok(charl_loader_create(text, NULL, &opt, &l));
    for (int64_t k = 0; k < 40; k++) {
        charl_assert_ok(charl_loader_next(l, &b));
        for (int64_t i = 0; i < 7; i++) {
            const int32_t *x = (const int32_t *)b.x + i * 8, *y = (const int32_t *)b.y + i * 8;
            const int64_t n = info.rows[0];
            const int64_t p = b.step * 7 + i;
            const int64_t at = charl_order_row(77, n, true, p) * 8 + charl_order_shift(77, n, true, p, 8);

            for (int64_t j = 0; j < 8; j++) {
                assert_int_equal(x[j], at + j);
                assert_int_equal(y[j], at + j + 1);
            }
        }
    }
    charl_loader_destroy(l);
    charl_dataset_close(text);
}

static charl_status open_and_load(void *ctx)
{
    charl_loader_options opt = options(10, 1);
    charl_dataset *table = NULL;
    charl_loader *l = NULL;
    charl_loader_batch b;
    charl_status st = charl_dataset_open(ctx, NULL, &table);

    opt.end_step = 6;
    if (st == CHARL_OK) {
        st = charl_loader_create(table, NULL, &opt, &l);
    }
    for (int k = 0; st == CHARL_OK && k < 6; k++) {
        st = charl_loader_next(l, &b);
    }
    charl_loader_destroy(l);
    charl_dataset_close(table);
    return st;
}

static void every_acquisition_may_fail(void **state)
{
    (void)state;
    assert_true(charl_test_fail_every_acquisition(open_and_load, path) > 20);
}

/* Every rank gets the rows of its slices, of the steps from any first step on. */
static void slices_give_the_rows_of_one_rank(void **state)
{
    enum { B = 24, STEPS = 12, SLICES = 8 };
    static int want[STEPS * B];

    (void)state;
    for (int first = 0; first < STEPS; first += 5) {
        for (int ranks = 1; ranks <= 5; ranks++) {
            for (int r = 0; r < ranks; r++) {
                const charl_loader_options o = {sizeof o,     .batch_size = B,     .shuffle = true,
                                                .seed = 77,   .first_step = first, .end_step = STEPS,
                                                .prefetch = r};
                charl_loader *l;
                charl_loader_batch b;
                charl_slices mine;

                charl_assert_ok(charl_slices_block(SLICES, r, ranks, &mine));
                charl_assert_ok(charl_loader_create(ds, ranks == 1 ? NULL : &mine, &o, &l));
                for (int step = first; step < STEPS; step++) {
                    charl_assert_ok(charl_loader_next(l, &b));
                    assert_int_equal(b.step, step);
                    assert_int_equal(b.rows, B / SLICES * mine.count);
                    assert_int_equal(b.x_bytes, (size_t)b.rows * 2 * sizeof(float));
                    for (int64_t i = 0; i < b.rows; i++) {
                        int *slot = &want[step * B + B / SLICES * mine.first + i];
                        const int row = (int)((const float *)b.x)[2 * i];

                        assert_int_equal(((const int32_t *)b.y)[i], row % 4);
                        *slot = first == 0 && ranks == 1 ? row : *slot;
                        assert_int_equal(row, *slot);
                    }
                }
                charl_assert_status(charl_loader_next(l, &b), CHARL_ERR_INVALID);
                charl_loader_destroy(l);
            }
        }
    }
}

static void refuses_what_does_not_divide(void **state)
{
    charl_loader_options o = {sizeof o, .batch_size = 20};
    charl_slices mine;
    charl_loader *l;

    (void)state;
    charl_assert_ok(charl_slices_block(8, 0, 2, &mine));
    charl_assert_status(charl_loader_create(ds, &mine, &o, &l), CHARL_ERR_INVALID);
    charl_assert_message("8 slices");
    o.batch_size = 0;
    charl_assert_status(charl_loader_create(ds, NULL, &o, &l), CHARL_ERR_INVALID);
    o = (charl_loader_options){sizeof(charl_loader_options), .batch_size = 8,
                               .prefetch = CHARL_LOADER_MAX_PREFETCH + 1};
    charl_assert_status(charl_loader_create(ds, NULL, &o, &l), CHARL_ERR_INVALID);
    o = (charl_loader_options){sizeof(charl_loader_options), .batch_size = 8, .split = CHARL_SPLIT_TEST};
    charl_assert_status(charl_loader_create(ds, NULL, &o, &l), CHARL_ERR_INVALID);
    charl_assert_ok(charl_slices_range(8, 3, 0, &mine));
    o = (charl_loader_options){sizeof(charl_loader_options), .batch_size = 8};
    charl_assert_status(charl_loader_create(ds, &mine, &o, &l), CHARL_ERR_INVALID);
    charl_assert_status(charl_loader_create(ds, &(charl_slices){0}, &o, &l), CHARL_ERR_INVALID);
    charl_assert_message("0 slices");
    o.batch_size = (int64_t)1 << 61; /* times 8 bytes is 0 */
    charl_assert_status(charl_loader_create(ds, NULL, &o, &l), CHARL_ERR_NOMEM);
    charl_assert_message("no memory for a batch of 2305843009213693952 rows");
    o = (charl_loader_options){sizeof(charl_loader_options), .batch_size = 8,
                               .shuffle = (charl_shuffle)(CHARL_SHUFFLE_BLOCKS + 1)};
    charl_assert_status(charl_loader_create(ds, NULL, &o, &l), CHARL_ERR_INVALID);
    assert_null(l);
}

/* One step, so that what fails in the reading thread is told by the batch that is asked for. */
static charl_status read_one(void *ctx)
{
    charl_loader *l = NULL;
    charl_loader_batch b;
    const charl_loader_options o = {sizeof o, .batch_size = 8, .prefetch = 1, .end_step = 1};
    charl_status st = charl_loader_create(ctx, NULL, &o, &l);

    if (st == CHARL_OK) {
        st = charl_loader_next(l, &b);
    }
    charl_loader_destroy(l);
    return st;
}

static void every_acquisition_of_a_loader_can_fail(void **state)
{
    (void)state;
    assert_true(charl_test_fail_every_acquisition(read_one, ds) >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_errors_reach_the_caller),
        cmocka_unit_test(every_sample_once_per_epoch),
        cmocka_unit_test(any_cursor_and_any_ranks_give_the_same_rows),
        cmocka_unit_test(the_last_step_is_the_last),
        cmocka_unit_test(it_stops_at_any_time),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(token_windows_shift_with_the_epoch),
        cmocka_unit_test(every_acquisition_may_fail),
        cmocka_unit_test(slices_give_the_rows_of_one_rank),
        cmocka_unit_test(refuses_what_does_not_divide),
        cmocka_unit_test(every_acquisition_of_a_loader_can_fail),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
