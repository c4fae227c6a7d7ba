/* New datasets from the rows of others: which rows they hold, and that nothing else is lost. */
#include "io/imports.h"
#include "io/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "charl/dataset.h"
#include "charl/import.h"
#include "io/h5_dataset.h"

enum { TRAIN = 60, VAL = 8, TEST = 4, ALL = TRAIN + VAL + TEST, CLASSES = 3 };

/* A sample is its number; every tenth has no class, class 2 is rare. */
static int32_t label_of(int64_t i)
{
    return i % 10 == 9 ? -1 : i % 6 == 5 ? 2 : (int32_t)(i % 2);
}

static float weight_of(int64_t i)
{
    return label_of(i) < 0 ? 0 : 1 + (float)i;
}

static const char *make_classes(const char *name, const char *class_names)
{
    const char *path = charl_test_path(dir, name);
    float x[ALL], weights[TRAIN];
    int32_t y[ALL];
    const h5_dataset d = {.kind = CHARL_DATASET_TABLE,
                          .x_dtype = CHARL_F32,
                          .x_item = {1, {1}},
                          .rows = {TRAIN, VAL, TEST},
                          .classes = CLASSES,
                          .class_names = class_names,
                          .columns = "number",
                          .recipe = "{}",
                          .x = x,
                          .y = y,
                          .weights = weights};

    for (int i = 0; i < ALL; i++) {
        x[i] = (float)i;
        y[i] = label_of(i);
        weights[i % TRAIN] = i < TRAIN ? weight_of(i) : weights[i % TRAIN];
    }
    charl_assert_ok(h5_import(path, &d, true));
    return path;
}

/* Read a split: the numbers of its samples into `numbers`, whose labels and weights are right. */
static int64_t read_split(const char *path, charl_split split, int *numbers)
{
    charl_dataset *ds = NULL;
    charl_dataset_info info;
    int64_t rows[ALL], n;
    float x[ALL], w[ALL];
    int32_t y[ALL];

    charl_assert_ok(charl_dataset_open(path, NULL, &ds));
    charl_dataset_get_info(ds, &info);
    assert_string_equal(info.class_names, "a\nb\nc");
    assert_string_equal(info.columns, "number");
    assert_string_equal(info.recipe, "{}");
    assert_int_equal(info.classes, CLASSES);
    n = info.rows[split];
    assert_true(n <= ALL);
    for (int64_t i = 0; i < n; i++) {
        rows[i] = i;
    }
    charl_assert_ok(charl_dataset_read(ds, split, rows, n, x, y));
    charl_dataset_close(ds);
    if (split == CHARL_SPLIT_TRAIN) {
        h5_read_weights(path, split, n, w);
    }
    for (int64_t i = 0; i < n; i++) {
        numbers[i] = (int)x[i];
        assert_int_equal(y[i], label_of(numbers[i]));
        assert_true(split != CHARL_SPLIT_TRAIN || w[i] == weight_of(numbers[i]));
    }
    return n;
}

/* How many of each class, those that do not count last. */
static void count(const int *numbers, int64_t n, int counts[CLASSES + 1])
{
    memset(counts, 0, (CLASSES + 1) * sizeof *counts);
    for (int64_t i = 0; i < n; i++) {
        const int32_t label = label_of(numbers[i]);

        counts[label < 0 ? CLASSES : label]++;
        assert_true(i == 0 || numbers[i] > numbers[i - 1]);
    }
}

static void sample(const char *path, int64_t n, const char *out, const charl_import_options *opt)
{
    charl_dataset *ds = NULL;

    charl_assert_ok(charl_dataset_open(path, NULL, &ds));
    charl_assert_ok(charl_dataset_sample(ds, n, out, opt));
    charl_dataset_close(ds);
}

static void a_sample_has_each_class_in_proportion(void **state)
{
    const char *path = make_classes("d.h5", "a\nb\nc"), *out = charl_test_path(dir, "s.h5");
    int numbers[ALL], first[ALL], counts[CLASSES + 1], all[CLASSES + 1];

    (void)state;
    for (uint64_t seed = 0; seed < 2; seed++) {
        assert_int_equal(read_split(path, CHARL_SPLIT_TRAIN, numbers), TRAIN);
        count(numbers, TRAIN, all);
        sample(path, 20, out, &(charl_import_options){sizeof(charl_import_options), .seed = seed, .overwrite = true});
        assert_int_equal(read_split(out, CHARL_SPLIT_TRAIN, numbers), 20);
        count(numbers, 20, counts);
        for (int c = 0; c <= CLASSES; c++) {
            assert_true(abs(3 * counts[c] - all[c]) < 3);
        }
        assert_true(seed == 0 || memcmp(numbers, first, 20 * sizeof *first) != 0);
        memcpy(first, numbers, sizeof first);
        assert_int_equal(read_split(out, CHARL_SPLIT_VAL, numbers), VAL);
        assert_int_equal(numbers[0], TRAIN);
        assert_int_equal(read_split(out, CHARL_SPLIT_TEST, numbers), TEST);
    }
    sample(path, 20, out, &(charl_import_options){sizeof(charl_import_options), .seed = 1, .overwrite = true});
    assert_int_equal(read_split(out, CHARL_SPLIT_TRAIN, numbers), 20);
    assert_memory_equal(numbers, first, 20 * sizeof *first);
    sample(path, 5, out, &(charl_import_options){sizeof(charl_import_options), .in_order = true, .overwrite = true});
    assert_int_equal(read_split(out, CHARL_SPLIT_TRAIN, numbers), 5);
    assert_int_equal(numbers[4], 4);
}

static void every_row_is_in_one_part(void **state)
{
    const char *path = make_classes("d.h5", "a\nb\nc");
    const char *outs[] = {charl_test_path(dir, "p0.h5"), charl_test_path(dir, "p1.h5"), charl_test_path(dir, "p2.h5")};
    const double fractions[] = {0.5, 0.25, 0.25};
    charl_dataset *ds = NULL;
    char none[600];
    int seen[ALL] = {0}, numbers[ALL], counts[CLASSES + 1];

    (void)state;
    charl_assert_ok(charl_dataset_open(path, NULL, &ds));
    put_file(outs[2], "", 0); /* before anything is written */
    charl_assert_status(charl_dataset_divide(ds, fractions, outs, 3, NULL), CHARL_ERR_CONFIG);
    charl_assert_message("p2.h5: exists already; HINT remove it or use --overwrite");
    assert_int_not_equal(access(outs[0], F_OK), 0);
    charl_assert_ok(charl_dataset_divide(ds, fractions, outs, 3,
                                         &(charl_import_options){sizeof(charl_import_options), .overwrite = true}));
    for (int p = 0; p < 3; p++) {
        for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
            const int of[] = {TRAIN, VAL, TEST};
            const int64_t n = read_split(outs[p], (charl_split)s, numbers);

            assert_int_equal(n, (int)(of[s] * fractions[p]));
            count(numbers, n, counts);
            assert_true(s > 0 || counts[2] >= 2);
            for (int64_t i = 0; i < n; i++) {
                seen[numbers[i]]++;
            }
        }
    }
    for (int i = 0; i < ALL; i++) {
        assert_int_equal(seen[i], 1);
    }
    charl_assert_status(charl_dataset_divide(ds, (double[]){0.5, 0.4}, outs, 2, NULL), CHARL_ERR_CONFIG);
    charl_assert_message("the fractions must sum to 1, not 0.9");
    charl_assert_status(charl_dataset_sample(ds, TRAIN + 1, outs[0], NULL), CHARL_ERR_CONFIG);
    charl_assert_message("has 60 training samples, not 61");
    charl_assert_status(
        charl_dataset_sample(ds, 0, outs[0], &(charl_import_options){sizeof(charl_import_options), .val_split = 0.1}),
        CHARL_ERR_CONFIG);
    charl_assert_message("has a validation set");
    charl_dataset_close(ds);
    /* together again */
    charl_assert_ok(charl_import("hdf5", NULL, outs, 3, path,
                                 &(charl_import_options){sizeof(charl_import_options), .overwrite = true}));
    assert_int_equal(read_split(path, CHARL_SPLIT_TRAIN, numbers), TRAIN);
    assert_int_equal(read_split(path, CHARL_SPLIT_TEST, numbers), TEST);
    outs[1] = make_classes("other.h5", "a\nb\nd");
    snprintf(none, sizeof none, "%s/none.h5", dir);
    charl_assert_status(charl_import("hdf5", NULL, outs, 2, none, NULL), CHARL_ERR_DATA);
    charl_assert_message("differ in their names of classes");
}

/* Targets that are numbers: a training scales them by what the file says of its rows, or the files of theirs. */
static void targets_keep_their_scale(void **state)
{
    const char *paths[] = {charl_test_path(dir, "r0.h5"), charl_test_path(dir, "r1.h5")};
    const char *out = charl_test_path(dir, "r.h5"), *pattern = charl_test_path(dir, "r[01].h5");
    char table_path[512];
    const char *table = table_path;
    charl_dataset *ds = NULL;
    charl_dataset_info info;

    (void)state;
    snprintf(table_path, sizeof table_path, "%s/t.csv", dir);
    for (int p = 0; p < 2; p++) {
        char text[128];

        snprintf(text, sizeof text, "x,y\n%d,%d\n%d,%d\n%d,%d\n%d,%d\n", 1, 10 + p * 8, 2, 12 + p * 8, 3, 14 + p * 8, 4,
                 16 + p * 8);
        put_file(table, text, strlen(text));
        charl_assert_ok(charl_import("csv", WITH("label=y", "regression=yes"), &table, 1, paths[p], NULL));
    }
    charl_assert_ok(charl_import("hdf5", NULL, paths, 2, out, NULL));
    for (int i = 0; i < 2; i++) { /* numbers 10, 12, ... 24 */
        charl_assert_ok(charl_dataset_open(i == 0 ? out : pattern, NULL, &ds));
        charl_dataset_get_info(ds, &info);
        assert_int_equal(info.n_target_stats, 1);
        assert_float_equal(info.target_mean[0], 17, 1e-5);
        assert_float_equal(info.target_std[0], 4.582576, 1e-5);
        charl_dataset_close(ds);
    }
}

/* Rows are copied in blocks of a few megabytes, whatever is large in them: with blocks by the input alone, this would take 4 TB. */
static void rows_may_have_wide_targets(void **state)
{
    enum { ROWS = 2, WIDE = 1 << 20 };
    const char *path = charl_test_path(dir, "wide.h5"), *out = charl_test_path(dir, "copy.h5");
    const int64_t rows[ROWS] = {0, 1};
    float x[ROWS] = {1, 2}, *y = calloc((size_t)ROWS * WIDE, sizeof *y);
    const h5_dataset d = {.kind = CHARL_DATASET_REGRESSION,
                          .x_dtype = CHARL_F32,
                          .x_item = {1, {1}},
                          .values = true,
                          .y_item = {1, {WIDE}},
                          .rows = {ROWS},
                          .x = x,
                          .y = y};
    charl_dataset *ds = NULL;

    (void)state;
    assert_non_null(y);
    y[0] = 3;
    y[ROWS * WIDE - 1] = 4;
    h5_write(path, &d);
    sample(path, 0, out, NULL);
    charl_assert_ok(charl_dataset_open(out, NULL, &ds));
    y[0] = y[ROWS * WIDE - 1] = 0;
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, ROWS, x, y));
    assert_true(x[1] == 2 && y[0] == 3 && y[ROWS * WIDE - 1] == 4);
    charl_dataset_close(ds);
    free(y);
}

static charl_status scenario(void *ctx)
{
    const char *const *paths = ctx;
    const charl_import_options opt = {sizeof opt, .overwrite = true};
    charl_dataset *ds = NULL;
    charl_status st = charl_dataset_open(paths[0], NULL, &ds);

    if (st == CHARL_OK) {
        st = charl_dataset_sample(ds, 10, paths[1], &opt);
    }
    charl_dataset_close(ds);
    return st;
}

static void every_acquisition_may_fail(void **state)
{
    const char *paths[] = {make_classes("d.h5", "a\nb\nc"), charl_test_path(dir, "f.h5")};

    (void)state;
    assert_true(charl_test_fail_every_acquisition(scenario, paths) > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sample_has_each_class_in_proportion),
        cmocka_unit_test(every_row_is_in_one_part),
        cmocka_unit_test(targets_keep_their_scale),
        cmocka_unit_test(rows_may_have_wide_targets),
        cmocka_unit_test(every_acquisition_may_fail),
    };

    return cmocka_run_group_tests(tests, setup_dir, teardown_dir);
}
