/* Draws with replacement: how often each sample comes, and that it follows from seed and position alone. */
#include "io/scratch.h"

#include <math.h>
#include <string.h>

#include "charl/loader.h"
#include "io/dataset/dataset_read.h"
#include "io/dataset/dataset_write.h"
#include "io/dataset/order/stream.h"

enum { ROWS = 64, CLASSES = 3, EPOCHS = 400 };

static void draws_have_their_probabilities(void **state)
{
    /* rows of weight 0 first, in the middle and last; totals that need all 64 bits of the product */
    const uint64_t sums[] = {0, 0, 1, 1, 4, UINT64_C(1) << 32, UINT64_C(1) << 62, UINT64_C(1) << 62};
    const uint64_t small[] = {0, 0, 1, 1, 4, 10, 10};
    int64_t rows[6000], count[6] = {0};

    (void)state;
    charl__order_draws(7, 7, sums, 0, 6000, rows);
    for (int i = 0; i < 6000; i++) {
        assert_int_equal(rows[i], 5);
    }
    charl__order_draws(7, 6, small, 0, 6000, rows);
    for (int i = 0; i < 6000; i++) {
        int64_t one;

        count[rows[i]]++;
        charl__order_draws(7, 6, small, i, 1, &one);
        assert_int_equal(one, rows[i]);
    }
    for (int r = 0; r < 6; r++) {
        const double expected = 6000 * (double)(small[r + 1] - small[r]) / 10;

        assert_true(fabs((double)count[r] - expected) <= 4 * sqrt(expected));
    }
}

/* The order that checkpoints continue. */
static void the_draws_are_frozen(void **state)
{
    const uint64_t sums[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    const int64_t frozen[] = {4, 0, 1, 5, 5, 5, 5, 4, 3, 2, 2, 0};
    int64_t rows[12];

    (void)state;
    charl__order_draws(42, 10, sums, 5, 12, rows);
    assert_memory_equal(rows, frozen, sizeof frozen);
}

static int32_t label_of(int64_t i)
{
    return i % 16 == 15 ? -1 : i % 8 == 7 ? 2 : i % 4 == 3 ? 1 : 0;
}

static const char *make(void)
{
    const char *path = charl_test_path(dir, "d.h5");
    const charl__writer_spec spec = {
        .kind = CHARL_DATASET_TABLE, .x_dtype = CHARL_F32, .x_item = {1, {1}}, .rows = ROWS, .classes = CLASSES};
    charl__writer *w = NULL;
    float x[ROWS], weights[ROWS];
    int32_t y[ROWS];

    for (int i = 0; i < ROWS; i++) {
        x[i] = (float)i;
        y[i] = label_of(i);
        weights[i] = (float)(i % 3);
    }
    charl_assert_ok(charl__writer_create(path, &spec,
                                         &(charl_import_options){sizeof(charl_import_options), .overwrite = true}, &w));
    charl_assert_ok(charl__writer_put(w, x, y, ROWS));
    charl_assert_ok(charl__writer_array(w, "/train/weights", CHARL_F32, &(charl_shape){0}, ROWS, weights));
    charl_assert_ok(charl__writer_finish(w));
    charl__writer_destroy(w);
    return path;
}

/* How often the training stream takes each sample in EPOCHS epochs, and its weight in the loss. */
static void count_draws(charl_sampling sampling, int64_t count[ROWS], float w[ROWS])
{
    const charl_dataset_options opt = {sizeof opt, .sampling = sampling};
    const charl_loader_options stream = {sizeof stream, .batch_size = ROWS, .shuffle = CHARL_SHUFFLE_ROWS, .seed = 3};
    charl_dataset *ds = NULL;
    charl_loader *loader = NULL;
    charl_loader_batch batch;
    int64_t rows[ROWS];

    charl_assert_ok(charl_dataset_open(make(), &opt, &ds));
    charl_assert_ok(charl_loader_create(ds, NULL, &stream, &loader));
    memset(count, 0, ROWS * sizeof *count);
    for (int e = 0; e < EPOCHS; e++) {
        charl_assert_ok(charl_loader_next(loader, &batch));
        for (int i = 0; i < ROWS; i++) {
            count[(int)((const float *)batch.x)[i]]++;
        }
    }
    for (int i = 0; i < ROWS; i++) {
        rows[i] = i;
    }
    charl_assert_ok(charl__dataset_read_weights(ds, CHARL_SPLIT_TRAIN, rows, ROWS, w));
    charl_loader_destroy(loader);
    charl_dataset_close(ds);
}

static void weights_choose_samples_instead_of_weighing_them(void **state)
{
    int64_t count[ROWS];
    float w[ROWS];
    double sum = 0;

    (void)state;
    for (int i = 0; i < ROWS; i++) {
        sum += label_of(i) < 0 ? 0 : i % 3;
    }
    count_draws(CHARL_SAMPLING_WEIGHTED, count, w);
    for (int i = 0; i < ROWS; i++) {
        const double expected = label_of(i) < 0 ? 0 : EPOCHS * ROWS * (i % 3) / sum;

        assert_true(fabs((double)count[i] - expected) <= 5 * sqrt(expected));
        assert_true(w[i] == (label_of(i) < 0 ? 0.0F : 1.0F));
    }
}

static void classes_come_alike(void **state)
{
    int64_t count[ROWS], of_class[CLASSES] = {0};
    float w[ROWS];

    (void)state;
    count_draws(CHARL_SAMPLING_BALANCED, count, w);
    for (int i = 0; i < ROWS; i++) {
        if (label_of(i) < 0) {
            assert_int_equal(count[i], 0);
        } else {
            of_class[label_of(i)] += count[i];
            assert_true(w[i] == (float)(i % 3)); /* still weighs in the loss */
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
    const charl__writer_spec spec = {.kind = CHARL_DATASET_REGRESSION,
                                     .x_dtype = CHARL_F32,
                                     .x_item = {1, {1}},
                                     .values = true,
                                     .y_item = {1, {1}},
                                     .rows = 1};
    charl__writer *w = NULL;
    charl_dataset *ds = NULL;

    (void)state;
    charl_assert_ok(charl__writer_create(path, &spec, NULL, &w));
    charl_assert_ok(charl__writer_put(w, (float[]){1}, (float[]){1}, 1));
    charl_assert_ok(charl__writer_finish(w));
    charl__writer_destroy(w);
    charl_assert_status(
        charl_dataset_open(
            path, &(charl_dataset_options){sizeof(charl_dataset_options), .sampling = CHARL_SAMPLING_BALANCED}, &ds),
        CHARL_ERR_CONFIG);
    charl_assert_message("data.sampling = balanced needs samples of one class each");
    charl_assert_status(
        charl_dataset_open(
            path, &(charl_dataset_options){sizeof(charl_dataset_options), .sampling = CHARL_SAMPLING_WEIGHTED}, &ds),
        CHARL_ERR_CONFIG);
    charl_assert_message("data.sampling = weighted needs weights of the samples");
    snprintf(balanced_path, sizeof balanced_path, "%s", make());
    assert_true(charl_test_fail_every_acquisition(open_balanced, balanced_path) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_have_their_probabilities),
        cmocka_unit_test(the_draws_are_frozen),
        cmocka_unit_test(weights_choose_samples_instead_of_weighing_them),
        cmocka_unit_test(classes_come_alike),
        cmocka_unit_test(what_cannot_be_drawn_is_refused),
    };

    return cmocka_run_group_tests(tests, setup_dir, teardown_dir);
}
