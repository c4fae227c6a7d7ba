/* A file that changes while it is open: blocks that were read lately are compared with their
 * checksums at once, the others when they are read. */
#include "io/scratch.h"

#include <fcntl.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "charl/dataset.h"
#include "charl/import.h"
#include "io/dataset/dataset_read.h"
#include "io/dataset/dataset_write.h"

enum {
    ROWS = 1200,
    BYTES = 1024,
    FIRST = 3,
    SECOND = 1100 /* rows of the first and the second block */
};

static const char *path;
static off_t begin; /* of row 0 in the file */
static int64_t written_s = 1000000000;

static void row_fill(int64_t row, unsigned char *x)
{
    for (int64_t i = 0; i < BYTES; i++) {
        x[i] = (unsigned char)((row + 1) * (i + 7) * 2654435761u >> 13);
    }
}

static void file_make(void)
{
    const charl__writer_spec spec = {
        .kind = CHARL_DATASET_TABLE, .x_dtype = CHARL_U8, .x_item = {1, {BYTES}}, .rows = ROWS};
    charl__writer *w = NULL;
    unsigned char x[BYTES];
    int32_t y = 0;

    charl_assert_ok(charl__writer_create(path, &spec,
                                         &(charl_import_options){sizeof(charl_import_options), .overwrite = true}, &w));
    for (int64_t row = 0; row < ROWS; row++) {
        row_fill(row, x);
        charl_assert_ok(charl__writer_put(w, x, &y, 1));
    }
    charl_assert_ok(charl__writer_finish(w));
    charl__writer_destroy(w);
}

static int open_to_write(void)
{
    const int fd = open(path, O_RDWR | O_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

/* A time of its own, however coarse the file system's clock is. */
static void close_written(int fd)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = ++written_s}};

    assert_int_equal(futimens(fd, times), 0);
    close(fd);
}

static void find_begin(void)
{
    unsigned char x[BYTES], here[BYTES];
    const int fd = open_to_write();

    row_fill(0, x);
    for (begin = 0; pread(fd, here, BYTES, begin) == BYTES && memcmp(here, x, BYTES) != 0;) {
        begin += 8;
    }
    assert_memory_equal(here, x, BYTES);
    close(fd);
}

/* Turn over the bits of a byte: the second time it is as it was. */
static void flip(int64_t row)
{
    const int fd = open_to_write();
    unsigned char byte;

    assert_int_equal(pread(fd, &byte, 1, begin + row * BYTES + 5), 1);
    byte ^= 0xff;
    assert_int_equal(pwrite(fd, &byte, 1, begin + row * BYTES + 5), 1);
    close_written(fd);
}

static charl_status read_row(charl_dataset *ds, int64_t row)
{
    charl_status st;
    unsigned char x[BYTES], want[BYTES];
    int32_t y;

    st = charl_dataset_read(ds, CHARL_SPLIT_TRAIN, &row, 1, x, &y);
    if (st == CHARL_OK) {
        row_fill(row, want);
        assert_memory_equal(x, want, BYTES);
    }
    return st;
}

static charl_dataset *open_data(void)
{
    charl_dataset *ds = NULL;

    charl_assert_ok(charl_dataset_open(path, NULL, &ds));
    return ds;
}

static void test_what_was_read_is_checked_at_once(void **state)
{
    charl_dataset *ds = open_data();

    (void)state;
    charl_assert_ok(charl__dataset_check(ds));
    charl_assert_ok(read_row(ds, FIRST));
    flip(FIRST);
    charl_assert_status(charl__dataset_check(ds), CHARL_ERR_DATA);
    charl_assert_message("/train/x: rows 0 to 1023 are no longer what was opened");
    flip(FIRST);
    charl_dataset_close(ds);
}

static void test_the_rest_is_checked_when_it_is_read(void **state)
{
    charl_dataset *ds = open_data();

    (void)state;
    charl_assert_ok(read_row(ds, FIRST));
    charl_assert_ok(read_row(ds, SECOND));
    charl_assert_ok(charl__dataset_check(ds)); /* that was good */
    flip(SECOND);
    charl_assert_ok(charl__dataset_check(ds));
    charl_assert_ok(read_row(ds, FIRST));
    charl_assert_status(read_row(ds, SECOND), CHARL_ERR_DATA);
    charl_assert_message("rows 1024 to 1199 are no longer what was opened");
    flip(SECOND);
    charl_assert_ok(read_row(ds, SECOND)); /* it is what was opened */
    charl_assert_ok(charl__dataset_check(ds));
    charl_dataset_close(ds);
}

static void test_a_change_before_the_first_look_is_one(void **state)
{
    charl_dataset *ds = open_data();

    (void)state;
    flip(FIRST);
    charl_assert_status(read_row(ds, FIRST), CHARL_ERR_DATA);
    charl_assert_message("are no longer what was opened");
    flip(FIRST);
    charl_dataset_close(ds);
    flip(FIRST);
    ds = open_data();
    charl_assert_status(read_row(ds, FIRST), CHARL_ERR_DATA); /* but this was so before */
    charl_assert_message("damaged: checksum");
    charl_dataset_close(ds);
    flip(FIRST);
}

static void test_times_alone_are_no_change(void **state)
{
    charl_dataset *ds = open_data();

    (void)state;
    charl_assert_ok(read_row(ds, FIRST));
    for (int i = 0; i < 3; i++) {
        close_written(open_to_write());
        charl_assert_ok(charl__dataset_check(ds));
        charl_assert_ok(read_row(ds, FIRST));
    }
    assert_int_equal(chmod(path, 0600), 0);
    charl_assert_ok(charl__dataset_check(ds));
    charl_assert_ok(read_row(ds, SECOND));
    charl_dataset_close(ds);
}

static void test_a_cut_file_is_refused(void **state)
{
    charl_dataset *ds = open_data();
    struct stat s;
    int fd;

    (void)state;
    charl_assert_ok(read_row(ds, FIRST));
    fd = open_to_write();
    assert_int_equal(fstat(fd, &s), 0);
    assert_int_equal(ftruncate(fd, s.st_size - 1), 0);
    close_written(fd);
    charl_assert_status(charl__dataset_check(ds), CHARL_ERR_DATA);
    charl_assert_message("the file was cut while it was in use, from ");
    charl_assert_status(charl__dataset_check(ds), CHARL_ERR_DATA); /* and stays so */
    charl_dataset_close(ds);
    file_make();
}

/* The file of the array that /x of `virtual` shows. */
static void test_a_cut_source_is_refused(void **state)
{
    const charl_dataset_options named = {sizeof named, .x = "/x", .y = "/y"};
    const char *source = charl_test_path(dir, "held.h5"), *virtual = charl_test_path(dir, "virtual.h5");
    const hsize_t dims[2] = {4, 3};
    const int32_t labels[4] = {0, 1, 0, 1};
    const hid_t plist = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(2, dims, NULL),
                row = H5Screate_simple(1, dims, NULL);
    charl_dataset *ds = NULL;
    hid_t file, x, y;

    (void)state;
    file = H5Fcreate(source, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    x = H5Dcreate2(file, "/held", H5T_NATIVE_UINT8, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Dwrite(x, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, "abcdefghijkl") >= 0);
    H5Dclose(x);
    H5Fclose(file);
    assert_true(H5Pset_virtual(plist, space, "held.h5", "/held", space) >= 0);
    file = H5Fcreate(virtual, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    x = H5Dcreate2(file, "/x", H5T_NATIVE_UINT8, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    y = H5Dcreate2(file, "/y", H5T_NATIVE_INT32, row, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Dwrite(y, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, labels) >= 0);
    H5Dclose(x);
    H5Dclose(y);
    H5Fclose(file);
    H5Sclose(row);
    H5Sclose(space);
    H5Pclose(plist);
    charl_assert_ok(charl_dataset_open(virtual, &named, &ds));
    charl_assert_ok(charl__dataset_check(ds));
    assert_int_equal(truncate(source, 100), 0);
    charl_assert_status(charl__dataset_check(ds), CHARL_ERR_DATA);
    charl_assert_message("held.h5: the file was cut while it was in use");
    charl_dataset_close(ds);
}

/* A mix is checked in each of its files. */
static void test_a_mix_is_checked(void **state)
{
    const uint16_t tokens[100] = {0};
    const charl_dataset_options window = {sizeof window, .window = 4};
    const double weights[2] = {1, 1};
    char file[2][512], raw[512];
    const char *const files[2] = {file[0], file[1]}, *source = raw;
    charl_dataset *ds = NULL;

    (void)state;
    snprintf(raw, sizeof raw, "%s/raw.bin", dir);
    put_file(raw, tokens, sizeof tokens);
    for (int i = 0; i < 2; i++) {
        snprintf(file[i], sizeof file[i], "%s/mix%d.h5", dir, i);
        charl_assert_ok(charl_import("tokens", (const char *const[]){"vocab=10", NULL}, &source, 1, file[i], NULL));
    }
    charl_assert_ok(charl_dataset_open_mix(files, weights, 2, &window, &ds));
    charl_assert_ok(charl__dataset_check(ds));
    assert_int_equal(truncate(file[1], 1000), 0);
    charl_assert_status(charl__dataset_check(ds), CHARL_ERR_DATA);
    charl_assert_message("mix1.h5: the file was cut while it was in use");
    charl_dataset_close(ds);
}

static charl_status scenario(void *ctx)
{
    charl_status st;
    charl_dataset *ds = NULL;

    (void)ctx;
    st = charl_dataset_open(path, NULL, &ds);
    if (st == CHARL_OK) {
        st = read_row(ds, FIRST);
    }
    if (st == CHARL_OK) {
        close_written(open_to_write());
        st = charl__dataset_check(ds);
    }
    charl_dataset_close(ds);
    return st;
}

static void test_every_acquisition_may_fail(void **state)
{
    (void)state;
    assert_true(charl_test_fail_every_acquisition(scenario, NULL) > 5);
}

static int setup(void **state)
{
    static char text[512];

    setup_dir(state);
    snprintf(text, sizeof text, "%s/f.h5", dir);
    path = text;
    file_make();
    find_begin();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_read_is_checked_at_once),
        cmocka_unit_test(test_the_rest_is_checked_when_it_is_read),
        cmocka_unit_test(test_a_change_before_the_first_look_is_one),
        cmocka_unit_test(test_times_alone_are_no_change),
        cmocka_unit_test(test_a_cut_file_is_refused),
        cmocka_unit_test(test_a_cut_source_is_refused),
        cmocka_unit_test(test_a_mix_is_checked),
        cmocka_unit_test(test_every_acquisition_may_fail),
    };

    return cmocka_run_group_tests(tests, setup, teardown_dir);
}
