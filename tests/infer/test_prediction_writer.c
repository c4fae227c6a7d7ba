/* HDF5 files of predictions: more rows than a block, what is abandoned, what cannot be written. */
#include "io/scratch.h"

#include <hdf5.h>
#include <stdio.h>
#include <unistd.h>

#include "charl/predict.h"

enum { ROWS = 600 };

static char path[512];

static int setup(void **state)
{
    setup_dir(state);
    snprintf(path, sizeof path, "%s", charl_test_path(dir, "p.h5"));
    return 0;
}

static charl_status write_rows(int64_t rows, const charl_image_files *files, bool finish)
{
    static char nothing[] = "", names[] = "ant\nbee\ncat";
    const charl_data_schema schema = {.class_names = names, .targets = nothing};
    const charl_predict_info info = {.schema = &schema,
                                     .targets = CHARL_TARGET_CLASS,
                                     .answer = "probability",
                                     .subject = "test",
                                     .step = 7,
                                     .n_rows = rows,
                                     .n_outputs = 2,
                                     .n_targets = 1,
                                     .has_targets = !files,
                                     .has_names = files,
                                     .files = files};
    const charl_prediction_writer_options options = {sizeof options, .path = path, .format = CHARL_PREDICTION_HDF5};
    charl_prediction_writer *w = NULL;
    charl_status st = charl_prediction_writer_create(&options, &info, &w);

    for (int32_t i = 0; st == CHARL_OK && i < rows; i++) {
        const float output[2] = {(float)i, (float)-i};
        const double answer[2] = {i, -i};

        st = charl_prediction_writer_put(w, &(charl_prediction){.info = &info,
                                                                .row = i,
                                                                .name = files ? files->paths[i] : NULL,
                                                                .outputs = output,
                                                                .answers = answer,
                                                                .predicted = i % 3,
                                                                .labels = files ? NULL : &i});
    }
    if (st == CHARL_OK && finish) {
        st = charl_prediction_writer_finish(w);
    }
    charl_prediction_writer_destroy(w);
    return st;
}

static void read_array(const char *name, hid_t type, void *out)
{
    const hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    const hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);

    assert_true(dataset >= 0);
    assert_true(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) >= 0);
    H5Dclose(dataset);
    H5Fclose(file);
}

static void rows_of_several_blocks(void **state)
{
    float output[ROWS][2];
    int32_t predicted[ROWS], label[ROWS];

    (void)state;
    charl_assert_ok(write_rows(ROWS, NULL, true));
    read_array("/output", H5T_NATIVE_FLOAT, output);
    read_array("/predicted", H5T_NATIVE_INT32, predicted);
    read_array("/label", H5T_NATIVE_INT32, label);
    for (int i = 0; i < ROWS; i++) {
        assert_true(output[i][0] == (float)i && output[i][1] == (float)-i);
        assert_int_equal(predicted[i], i % 3);
        assert_int_equal(label[i], i);
    }
}

static void an_abandoned_file_leaves_the_old_one(void **state)
{
    int32_t label[ROWS];

    (void)state;
    charl_assert_ok(write_rows(10, NULL, false));
    read_array("/label", H5T_NATIVE_INT32, label);
    assert_int_equal(label[ROWS - 1], ROWS - 1);
    snprintf(path, sizeof path, "%s", charl_test_path(dir, "no/such/p.h5"));
    charl_assert_status(write_rows(10, NULL, true), CHARL_ERR_DISK);
    snprintf(path, sizeof path, "%s", charl_test_path(dir, "p.h5"));
}

static charl_status write_few(void *ctx)
{
    return write_rows(2, ctx, true);
}

static void every_acquisition_may_fail(void **state)
{
    char *names[] = {(char[]){"a.png"}, (char[]){"longer.png"}};
    charl_image_files files = {.paths = names, .count = 2};

    (void)state;
    assert_true(charl_test_fail_every_acquisition(write_few, &files) > 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_several_blocks),
        cmocka_unit_test(an_abandoned_file_leaves_the_old_one),
        cmocka_unit_test(every_acquisition_may_fail),
    };

    return cmocka_run_group_tests(tests, setup, teardown_dir);
}
