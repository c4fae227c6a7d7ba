/* Which targets count in the loss, and how much: labels that are ignored, weights of samples, tokens and classes. */
#include "io/import_sample.h"

#include <math.h>

#include "io/dataset/dataset_read.h"
#include "io/dataset/dataset_write.h"
#include "io/dataset/weights.h"

enum { ROWS = 6, TOKENS = 12, WINDOW = 4 };

static const charl_shape one = {0, {0}};

/* A table whose labels are given, the last two for validation; `weights` may be NULL. */
static charl_status write_table(const int32_t labels[ROWS], charl_dtype dtype, const void *weights, int64_t n)
{
    charl_status st = CHARL_OK;
    const charl__writer_spec spec = {
        .kind = CHARL_DATASET_TABLE, .x_dtype = CHARL_F32, .x_item = {1, {2}}, .rows = ROWS - 2, .more = 2};
    const float x[ROWS][2] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}, {11, 12}};
    charl__writer *w = NULL;

    CHARL_TRY_CLEANUP(charl__writer_create(out, &spec, &replace, &w));
    CHARL_TRY_CLEANUP(charl__writer_put(w, x, labels, ROWS));
    if (weights) {
        CHARL_TRY_CLEANUP(charl__writer_array(w, "/train/weights", dtype, &one, n, weights));
    }
    CHARL_TRY_CLEANUP(charl__writer_finish(w));
cleanup:
    charl__writer_destroy(w);
    return st;
}

static void check_weights(charl_dataset *ds, charl_split split, int64_t n, const float *want)
{
    const int64_t places[ROWS] = {0, 1, 2, 3, 4, 5};
    float w[ROWS * WINDOW];

    charl_assert_ok(charl__dataset_read_weights(ds, split, places, n, w));
    for (int64_t i = 0; i < n; i++) {
        assert_float_equal(w[i], want[i], 0);
    }
}

static void ignored_labels_weigh_nothing(void **state)
{
    const int32_t labels[ROWS] = {0, -1, 2, -100, 1, -1};
    const int64_t rows[] = {3, 0, 1, 2};
    int32_t y[4];
    charl_dataset_info info;
    charl_dataset *ds;

    (void)state;
    charl_assert_ok(write_table(labels, CHARL_F32, NULL, 0));
    ds = open_out(NULL, &info);
    assert_int_equal(info.classes, 3);
    assert_int_equal(info.ignored[CHARL_SPLIT_TRAIN], 2);
    assert_int_equal(info.ignored[CHARL_SPLIT_VAL], 1);
    assert_true(info.weighted);
    charl_assert_ok(charl_dataset_read(ds, CHARL_SPLIT_TRAIN, rows, 4, NULL, y));
    assert_int_equal(y[0], -1);
    assert_int_equal(y[1], 0);
    assert_int_equal(y[2], -1);
    assert_int_equal(y[3], 2);
    check_weights(ds, CHARL_SPLIT_TRAIN, 4, (const float[]){1, 0, 1, 0});
    check_weights(ds, CHARL_SPLIT_VAL, 2, (const float[]){1, 0});
    charl_assert_ok(charl_dataset_verify(ds));

    /* Classes weigh what they are given, in training only; labels that are ignored still nothing. */
    charl_assert_ok(charl__dataset_weigh_classes(ds, (const float[]){0.5F, 3, 0.25F}));
    check_weights(ds, CHARL_SPLIT_TRAIN, 4, (const float[]){0.5F, 0, 0.25F, 0});
    check_weights(ds, CHARL_SPLIT_VAL, 2, (const float[]){1, 0});
    charl_dataset_close(ds);
}

static void samples_have_weights(void **state)
{
    const int32_t labels[ROWS] = {0, -1, 2, 1, 1, 1};
    const float weights[] = {0.5F, 7, 0, 2};
    const unsigned char bytes[] = {255, 1, 0, 3};
    charl_dataset_info info;
    charl_dataset *ds;

    (void)state;
    charl_assert_ok(write_table(labels, CHARL_F32, weights, 4));
    ds = open_out(NULL, &info);
    assert_true(info.weighted);
    check_weights(ds, CHARL_SPLIT_TRAIN, 4, (const float[]){0.5F, 0, 0, 2});
    check_weights(ds, CHARL_SPLIT_VAL, 2, (const float[]){1, 1});
    charl_dataset_close(ds);
    charl_assert_ok(write_table(labels, CHARL_U8, bytes, 4));
    ds = open_out(NULL, &info);
    check_weights(ds, CHARL_SPLIT_TRAIN, 4, (const float[]){255, 0, 0, 3});
    charl_dataset_close(ds);
}

static void tokens_have_weights(void **state)
{
    const charl__writer_spec spec = {
        .kind = CHARL_DATASET_TOKENS, .x_dtype = CHARL_U8, .rows = TOKENS, .classes = TOKENS};
    unsigned char tokens[TOKENS], weights[TOKENS];
    float w[2 * WINDOW], f[TOKENS];
    charl_dataset_info info;
    charl__writer *writer = NULL;
    charl_dataset *ds;

    (void)state;
    for (int i = 0; i < TOKENS; i++) {
        tokens[i] = (unsigned char)i;
        weights[i] = (unsigned char)(10 * i);
        f[i] = 0.5F * (float)i;
    }
    for (int k = 0; k < 2; k++) {
        charl_assert_ok(charl__writer_create(out, &spec, &replace, &writer));
        charl_assert_ok(charl__writer_put(writer, tokens, NULL, TOKENS));
        charl_assert_ok(charl__writer_array(writer, "/train/weights", k ? CHARL_F32 : CHARL_U8, &one, TOKENS,
                                            k ? (void *)f : weights));
        charl_assert_ok(charl__writer_finish(writer));
        charl__writer_destroy(writer);
        ds = open_out(&(charl_dataset_options){sizeof(charl_dataset_options), .window = WINDOW}, &info);
        assert_true(info.weighted);
        assert_int_equal(charl__dataset_weights_dtype(ds), k ? CHARL_F32 : CHARL_U8);
        /* The weights of targets: of the tokens after those that are read. */
        charl_assert_ok(charl__dataset_read_weights(ds, CHARL_SPLIT_TRAIN, (const int64_t[]){5, 1}, 2, w));
        for (int i = 0; i < WINDOW; i++) {
            assert_float_equal(w[i], (k ? 0.5F : 10) * (float)(6 + i), 0);
            assert_float_equal(w[WINDOW + i], (k ? 0.5F : 10) * (float)(2 + i), 0);
        }
        charl_assert_status(charl__dataset_read_weights(ds, CHARL_SPLIT_TRAIN, (const int64_t[]){8}, 1, w),
                            CHARL_ERR_INVALID);
        charl_dataset_close(ds);
    }
}

static void wrong_weights_are_refused(void **state)
{
    const int32_t labels[ROWS] = {0, 1, 2, 1, 1, 1}, signs[ROWS] = {-1, 1, 1, -1, 1, 1};
    static const float bad[][4] = {{1, -1, 1, 1}, {1, 1, NAN, 1}, {INFINITY, 1, 1, 1}};

    (void)state;
    for (int i = 0; i < 3; i++) { /* what was written is verified */
        charl_assert_status(write_table(labels, CHARL_F32, bad[i], 4), CHARL_ERR_DATA);
        charl_assert_message("/train/weights");
        charl_assert_message(i == 0 ? "is not a weight" : "holds a NaN or an infinity");
    }
    charl_assert_status(write_table(labels, CHARL_F32, bad[0], 3), CHARL_ERR_DATA);
    charl_assert_message("/train/weights has 3 weights for 4 samples");
    charl_assert_status(write_table(signs, CHARL_F32, NULL, 0), CHARL_ERR_DATA);
    charl_assert_message("the labels in /train/y are -1 and 1, but -1 marks samples that do not count");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ignored_labels_weigh_nothing),
        cmocka_unit_test(samples_have_weights),
        cmocka_unit_test(tokens_have_weights),
        cmocka_unit_test(wrong_weights_are_refused),
    };

    return cmocka_run_group_tests(tests, setup, teardown_dir);
}
