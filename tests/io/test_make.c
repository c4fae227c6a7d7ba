/* Synthetic sets: the same bytes from the same seed, all classes, independent splits, and not
 * solvable by looking at means. */
#include "io/scratch.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "charl/dataset.h"
#include "charl/import.h"

enum { PIXELS = 28 * 28 };

static charl_dataset *make(const char *name, const char *kind, int64_t n_train, uint64_t seed, charl_dataset_info *info)
{
    const char *path = charl_test_path(dir, name);
    const charl_make_options opt = {sizeof opt,  .kind = kind, .n_train = n_train,
                                    .n_val = 60, .seed = seed, .overwrite = true};
    charl_dataset *ds = NULL;

    charl_assert_ok(charl_dataset_make(path, &opt));
    charl_assert_ok(charl_dataset_open(path, NULL, &ds));
    charl_dataset_get_info(ds, info);
    return ds;
}

static void digits_have_all_classes(void **state)
{
    enum { N = 600 };
    charl_dataset_info info;
    charl_dataset *ds = make("digits.h5", "digits", N, 1, &info);
    int count[10] = {0};
    int64_t rows[N];
    int32_t y[N];

    (void)state;
    assert_int_equal(info.kind, CHARL_DATASET_IMAGES);
    assert_int_equal(info.rows[0], N);
    assert_int_equal(info.rows[1], 60);
    assert_int_equal(info.classes, 10);
    assert_int_equal(info.x_shape.dim[0], 1);
    assert_true(info.mean[0] > 15 && info.mean[0] < 60);
    for (int i = 0; i < N; i++) {
        rows[i] = i;
    }
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, N, NULL, y));
    for (int i = 0; i < N; i++) {
        count[y[i]]++;
    }
    for (int c = 0; c < 10; c++) {
        assert_in_range(count[c], 30, 95);
    }
    charl_dataset_close(ds);
}

static void the_seed_decides_everything(void **state)
{
    charl_dataset_info a;
    charl_dataset_info b;
    charl_dataset_info c;
    charl_dataset *da = make("a.h5", "digits", 300, 5, &a);
    charl_dataset *db = make("b.h5", "digits", 300, 5, &b);
    charl_dataset *dc = make("c.h5", "digits", 300, 6, &c);

    (void)state;
    assert_string_equal(a.content_id, b.content_id);
    assert_string_not_equal(a.content_id, c.content_id);
    charl_dataset_close(da);
    charl_dataset_close(db);
    charl_dataset_close(dc);
}

static void splits_do_not_depend_on_each_other(void **state)
{
    static unsigned char xs[4][PIXELS];
    charl_dataset_info info;
    charl_dataset *small = make("small.h5", "digits", 20, 9, &info);
    charl_dataset *large = make("large.h5", "digits", 400, 9, &info);
    const int64_t row = 7;

    (void)state;
    charl_assert_ok(charl_dataset_read(small, CHARL_SPLIT_TRAIN, &row, 1, xs[0], NULL));
    charl_assert_ok(charl_dataset_read(large, CHARL_SPLIT_TRAIN, &row, 1, xs[1], NULL));
    charl_assert_ok(charl_dataset_read(small, CHARL_SPLIT_VAL, &row, 1, xs[2], NULL));
    charl_assert_ok(charl_dataset_read(large, CHARL_SPLIT_VAL, &row, 1, xs[3], NULL));
    assert_memory_equal(xs[0], xs[1], PIXELS);
    assert_memory_equal(xs[2], xs[3], PIXELS);
    assert_memory_not_equal(xs[0], xs[2], PIXELS);
    charl_dataset_close(small);
    charl_dataset_close(large);
}

/* The nearest class mean, a linear classifier, must do better than guessing and much worse than a
 * network can. */
static void digits_are_learnable_but_not_linearly(void **state)
{
    enum { N = 3000 };
    static double mean[10][PIXELS];
    int count[10] = {0};
    charl_dataset_info info;
    charl_dataset *ds = make("hard.h5", "digits", N, 3, &info);
    unsigned char x[PIXELS];
    int32_t y;
    int right = 0;

    (void)state;
    memset(mean, 0, sizeof mean);
    for (int64_t i = 0; i < N; i++) {
        charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &i, 1, x, &y));
        count[y]++;
        for (int p = 0; p < PIXELS; p++) {
            mean[y][p] += x[p];
        }
    }
    for (int64_t i = 0; i < 60; i++) {
        double best = INFINITY;
        int guess = -1;

        charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_VAL, &i, 1, x, &y));
        for (int c = 0; c < 10; c++) {
            double distance = 0;

            for (int p = 0; p < PIXELS; p++) {
                const double d = x[p] - mean[c][p] / count[c];

                distance += d * d;
            }
            guess = distance < best ? c : guess;
            best = distance < best ? distance : best;
        }
        right += guess == y;
    }
    assert_in_range(right, 15, 50);
    charl_dataset_close(ds);
}

static void regression_is_a_function_with_noise(void **state)
{
    charl_dataset_info info;
    charl_dataset *ds = make("r.h5", "regression", 500, 2, &info);
    double square = 0;

    (void)state;
    assert_int_equal(info.kind, CHARL_DATASET_REGRESSION);
    assert_int_equal(info.y_dtype, CHARL_F32);
    assert_int_equal(info.x_shape.dim[0], 8);
    for (int64_t i = 0; i < 500; i++) {
        float x[8];
        float y;
        double want;

        charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &i, 1, x, &y));
        want = 2 * (double)x[0] * (double)x[1] + (double)x[2] * (double)x[2] -
               1.5 * (double)x[3] * (double)x[3] * (double)x[3] + 2 / (1 + 4 * (double)x[4] * (double)x[4]) +
               (double)x[5] + (double)x[6] * (double)x[7];
        square += ((double)y - want) * ((double)y - want);
    }
    assert_true(fabs(sqrt(square / 500) - 0.1) < 0.02);
    charl_dataset_close(ds);
}

static void bad_options_are_refused(void **state)
{
    const char *path = charl_test_path(dir, "none.h5");

    (void)state;
    charl_assert_status(
        charl_dataset_make(path, &(charl_make_options){sizeof(charl_make_options), .kind = "letters", .n_train = 5}),
        CHARL_ERR_CONFIG);
    charl_assert_message("letters");
    charl_assert_status(charl_dataset_make(path, &(charl_make_options){sizeof(charl_make_options), .n_train = 5}),
                        CHARL_ERR_CONFIG);
    charl_assert_status(charl_dataset_make(path, &(charl_make_options){sizeof(charl_make_options), .kind = "digits"}),
                        CHARL_ERR_CONFIG);
    charl_assert_status(charl_dataset_make(path, &(charl_make_options){sizeof(charl_make_options), .kind = "digits",
                                                                       .n_train = 1, .n_val = -1}),
                        CHARL_ERR_CONFIG);
    charl_assert_status(charl_dataset_make("/nonexistent/x.h5", &(charl_make_options){sizeof(charl_make_options),
                                                                                      .kind = "digits", .n_train = 1}),
                        CHARL_ERR_DISK);
}

static charl_status make_small(void *ctx)
{
    return charl_dataset_make(ctx, &(charl_make_options){sizeof(charl_make_options), .kind = "regression",
                                                         .n_train = 20, .n_val = 5, .overwrite = true});
}

static void every_acquisition_may_fail(void **state)
{
    char path[512];

    (void)state;
    snprintf(path, sizeof path, "%s", charl_test_path(dir, "faults.h5"));
    assert_true(charl_test_fail_every_acquisition(make_small, path) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digits_have_all_classes),
        cmocka_unit_test(the_seed_decides_everything),
        cmocka_unit_test(splits_do_not_depend_on_each_other),
        cmocka_unit_test(digits_are_learnable_but_not_linearly),
        cmocka_unit_test(regression_is_a_function_with_noise),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(every_acquisition_may_fail),
    };

    return cmocka_run_group_tests(tests, setup_dir, teardown_dir);
}
