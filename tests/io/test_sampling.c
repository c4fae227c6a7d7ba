/* Draws with replacement: how often each sample comes. How much it weighs then: test_trainer.c. */
#include "io/scratch.h"

#include <math.h>
#include <string.h>

#include "charl/loader.h"
#include "io/h5_dataset.h"

enum { ROWS = 64, CLASSES = 3, EPOCHS = 400 };

static int32_t label_of(int64_t i)
{
    return i % 16 == 15 ? -1 : i % 8 == 7 ? 2 : i % 4 == 3 ? 1 : 0;
}

static const char *make(void)
{
    const char *path = charl_test_path(dir, "d.h5");
    float x[ROWS], weights[ROWS];
    int32_t y[ROWS];
    const h5_dataset d = {.kind = CHARL_DATASET_TABLE,
                          .x_dtype = CHARL_F32,
                          .x_item = {1, {1}},
                          .rows = {ROWS},
                          .classes = CLASSES,
                          .x = x,
                          .y = y,
                          .weights = weights};

    for (int i = 0; i < ROWS; i++) {
        x[i] = (float)i;
        y[i] = label_of(i);
        weights[i] = (float)(i % 3);
    }
    charl_assert_ok(h5_import(path, &d, true));
    return path;
}

/* How often the training stream takes each sample in EPOCHS epochs. */
static void count_draws(charl_sampling sampling, int64_t count[ROWS])
{
    const charl_dataset_options opt = {sizeof opt, .sampling = sampling};
    const charl_loader_options stream = {sizeof stream, .batch_size = ROWS, .shuffle = CHARL_SHUFFLE_ROWS, .seed = 3};
    charl_dataset *ds = NULL;
    charl_loader *loader = NULL;
    charl_loader_batch batch;

    charl_assert_ok(charl_dataset_open(make(), &opt, &ds));
    charl_assert_ok(charl_loader_create(ds, NULL, &stream, &loader));
    memset(count, 0, ROWS * sizeof *count);
    for (int e = 0; e < EPOCHS; e++) {
        charl_assert_ok(charl_loader_next(loader, &batch));
        for (int i = 0; i < ROWS; i++) {
            count[(int)((const float *)batch.x)[i]]++;
        }
    }
    charl_loader_destroy(loader);
    charl_dataset_close(ds);
}

static void weights_choose_samples(void **state)
{
    int64_t count[ROWS];
    double sum = 0;

    (void)state;
    for (int i = 0; i < ROWS; i++) {
        sum += label_of(i) < 0 ? 0 : i % 3;
    }
    count_draws(CHARL_SAMPLING_WEIGHTED, count);
    for (int i = 0; i < ROWS; i++) {
        const double expected = label_of(i) < 0 ? 0 : EPOCHS * ROWS * (i % 3) / sum;

        assert_true(fabs((double)count[i] - expected) <= 5 * sqrt(expected));
    }
}

static void classes_come_alike(void **state)
{
    int64_t count[ROWS], of_class[CLASSES] = {0};

    (void)state;
    count_draws(CHARL_SAMPLING_BALANCED, count);
    for (int i = 0; i < ROWS; i++) {
        if (label_of(i) < 0) {
            assert_int_equal(count[i], 0);
        } else {
            of_class[label_of(i)] += count[i];
        }
    }
    for (int c = 0; c < CLASSES; c++) {
        const double expected = EPOCHS * ROWS / (double)CLASSES;

        assert_true(fabs((double)of_class[c] - expected) <= 5 * sqrt(expected));
    }
}

static charl_status open_balanced(void *ctx)
{
    const charl_dataset_options opt = {sizeof opt, .sampling = CHARL_SAMPLING_BALANCED};
    charl_dataset *ds = NULL;
    const charl_status st = charl_dataset_open(ctx, &opt, &ds);

    charl_dataset_close(ds);
    return st;
}

static void what_cannot_be_drawn_is_refused(void **state)
{
    const char *path = charl_test_path(dir, "numbers.h5");
    char balanced_path[512];
    const h5_dataset d = {.kind = CHARL_DATASET_REGRESSION,
                          .x_dtype = CHARL_F32,
                          .x_item = {1, {1}},
                          .values = true,
                          .y_item = {1, {1}},
                          .rows = {1},
                          .x = (float[]){1},
                          .y = (float[]){1}};
    charl_dataset *ds = NULL;

    (void)state;
    charl_assert_ok(h5_import(path, &d, false));
    charl_assert_status(
        charl_dataset_open(
            path, &(charl_dataset_options){sizeof(charl_dataset_options), .sampling = CHARL_SAMPLING_BALANCED}, &ds),
        CHARL_ERR_CONFIG);
    charl_assert_message("sampling = balanced needs samples of one class each");
    charl_assert_status(
        charl_dataset_open(
            path, &(charl_dataset_options){sizeof(charl_dataset_options), .sampling = CHARL_SAMPLING_WEIGHTED}, &ds),
        CHARL_ERR_CONFIG);
    charl_assert_message("sampling = weighted needs weights of the samples");
    snprintf(balanced_path, sizeof balanced_path, "%s", make());
    assert_true(charl_test_fail_every_acquisition(open_balanced, balanced_path) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_choose_samples),
        cmocka_unit_test(classes_come_alike),
        cmocka_unit_test(what_cannot_be_drawn_is_refused),
    };

    return cmocka_run_group_tests(tests, setup_dir, teardown_dir);
}
