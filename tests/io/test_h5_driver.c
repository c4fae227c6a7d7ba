/* The sticky file driver: transfers through signals and short counts, first error kept, regular
 * files only. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "io/h5.h"
#include "io/h5_driver.h"
#include "io/scratch.h"

enum { COUNT = 5000 };

/* Write `path` with one dataset of 0..COUNT-1; the driver's verdict is in *io. */
static charl_status write_one(const char *path, charl__h5_io *io)
{
    CHARL_H5_SCOPE;
    charl_status st = CHARL_OK;
    static int32_t data[COUNT];
    const hsize_t n = COUNT;
    hid_t fapl = H5I_INVALID_HID, file = H5I_INVALID_HID, space = H5I_INVALID_HID;
    hid_t set = H5I_INVALID_HID, tail = H5I_INVALID_HID, dcpl = H5I_INVALID_HID;

    for (int i = 0; i < COUNT; i++) {
        data[i] = i;
    }
    CHARL_TRY_CLEANUP(charl__h5_driver_fapl(io, &fapl));
    CHARL_H5_OPEN_CLEANUP(CHARL_ERR_DISK, file, H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, fapl), "file");
    CHARL_H5_OPEN_CLEANUP(CHARL_ERR_DISK, space, H5Screate_simple(1, &n, NULL), "space");
    CHARL_H5_OPEN_CLEANUP(CHARL_ERR_DISK, set,
                          H5Dcreate2(file, "x", H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                          "dataset");
    CHARL_H5_CLEANUP(CHARL_ERR_DISK, H5Dwrite(set, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), "write");
    /* allocated at the end of the file and never written: the file must be extended */
    CHARL_H5_OPEN_CLEANUP(CHARL_ERR_DISK, dcpl, H5Pcreate(H5P_DATASET_CREATE), "properties");
    CHARL_H5_CLEANUP(CHARL_ERR_DISK, H5Pset_alloc_time(dcpl, H5D_ALLOC_TIME_EARLY), "properties");
    CHARL_H5_CLEANUP(CHARL_ERR_DISK, H5Pset_fill_time(dcpl, H5D_FILL_TIME_NEVER), "properties");
    CHARL_H5_OPEN_CLEANUP(CHARL_ERR_DISK, tail,
                          H5Dcreate2(file, "tail", H5T_STD_I32LE, space, H5P_DEFAULT, dcpl, H5P_DEFAULT), "dataset");
cleanup:
    charl__h5_close(&tail);
    charl__h5_close(&dcpl);
    charl__h5_close(&set);
    charl__h5_close(&space);
    assert_true(charl__h5_close(&file)); /* never fails, whatever happened to the disk */
    charl__h5_close(&fapl);
    return st;
}

static int32_t read_last(const char *path, charl__h5_io *io)
{
    CHARL_H5_SCOPE;
    static int32_t data[COUNT];
    hid_t fapl = H5I_INVALID_HID, file = H5I_INVALID_HID, set = H5I_INVALID_HID;
    charl_status st = CHARL_OK;

    data[COUNT - 1] = -1;
    CHARL_TRY_CLEANUP(charl__h5_driver_fapl(io, &fapl));
    CHARL_H5_OPEN_CLEANUP(CHARL_ERR_IO, file, H5Fopen(path, H5F_ACC_RDONLY, fapl), "open");
    CHARL_H5_OPEN_CLEANUP(CHARL_ERR_IO, set, H5Dopen2(file, "x", H5P_DEFAULT), "dataset");
    CHARL_H5_CLEANUP(CHARL_ERR_IO, H5Dread(set, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), "read");
cleanup:
    charl__h5_close(&set);
    charl__h5_close(&file);
    charl__h5_close(&fapl);
    return st == CHARL_OK ? data[COUNT - 1] : -1;
}

static void test_writes_and_reads(void **state)
{
    const char *path = charl_test_path(dir, "a.h5");
    charl__h5_io io = {.fd = -1};

    (void)state;
    charl_assert_ok(write_one(path, &io));
    charl_assert_ok(charl__h5_io_check(&io, path, 0));
    assert_true(io.writes > 1 && io.bytes_written >= COUNT * 4);
    assert_int_equal(read_last(path, &io), COUNT - 1);
    assert_true(io.reads > 1 && io.bytes_read >= COUNT * 4);
}

static void test_given_descriptor(void **state)
{
    const char *path = charl_test_path(dir, "a.h5");
    charl__h5_io io = {.fd = open(path, O_RDWR | O_CREAT, 0666)};

    (void)state;
    assert_true(io.fd >= 0);
    assert_int_equal(write(io.fd, "junk that must go", 17), 17);
    charl_assert_ok(write_one("/no/such/name.h5", &io));
    charl_assert_ok(charl__h5_io_check(&io, path, 0));
    assert_int_equal(read_last("/no/such/name.h5", &io), COUNT - 1);
    close(io.fd);
    io.fd = -1;
    assert_int_equal(read_last(path, &io), COUNT - 1);
}

static void test_signals_and_short_counts(void **state)
{
    const char *path = charl_test_path(dir, "a.h5");
    charl__h5_io io = {.fd = -1};

    (void)state;
    charl_assert_ok(charl__fault_set("io.eintr:1,io.short:2,io.short:3,io.short:4"));
    charl_assert_ok(write_one(path, &io));
    charl_assert_ok(charl__h5_io_check(&io, path, 0));
    charl_assert_ok(charl__fault_set("io.eintr:1,io.eintr:3"));
    assert_int_equal(read_last(path, &io), COUNT - 1);
}

static void test_first_error_sticks(void **state)
{
    static const struct {
        const char *fault, *op;
        int error;
    } cases[] = {
        {"io.write:1", "write", EIO},       {"io.write:2:122", "write", 122},
        {"io.enospc:1+", "write", ENOSPC},  {"io.eio:2", "write", EIO},
        {"io.truncate:1", "truncate", EIO}, {"io.close:1", "close", EIO},
        {"io.open:1:13", "open", EACCES},   {"io.enospc:2,io.close:1", "write", ENOSPC},
    };
    const char *path = charl_test_path(dir, "a.h5");

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        charl__h5_io io = {.fd = -1};
        charl_status st;

        unlink(path);
        charl_assert_ok(charl__fault_set(cases[i].fault));
        st = write_one(path, &io);
        assert_true(st == CHARL_OK || cases[i].fault[3] == 'o');
        assert_int_equal(io.error, cases[i].error);
        assert_string_equal(io.op, cases[i].op);
        charl_assert_status(charl__h5_io_check(&io, path, 12345), CHARL_ERR_DISK);
        charl_assert_message(path);
        charl_assert_message(cases[i].op);
        charl_assert_message("12345 bytes needed, ");
        charl_assert_message(" free)");
    }
}

static void test_nothing_is_written_after_an_error(void **state)
{
    const char *path = charl_test_path(dir, "a.h5");
    charl__h5_io io = {.fd = -1};
    struct stat s;

    (void)state;
    charl_assert_ok(charl__fault_set("io.write:1"));
    charl_assert_ok(write_one(path, &io));
    assert_int_equal(io.bytes_written, 0);
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_size, 0);
}

static void test_flip(void **state)
{
    const char *path = charl_test_path(dir, "a.h5");
    charl__h5_io io = {.fd = -1};

    (void)state;
    charl_assert_ok(charl__fault_set("io.flip:1:19996")); /* the raw data come first */
    charl_assert_ok(write_one(path, &io));
    charl_assert_ok(charl__h5_io_check(&io, path, 0));
    charl_assert_ok(charl__fault_set(NULL));
    assert_int_equal(read_last(path, &io), (COUNT - 1) ^ 1);
}

static void test_refuses_what_is_no_file(void **state)
{
    CHARL_H5_SCOPE;
    const char *path = charl_test_path(dir, "fifo");
    charl__h5_io io = {.fd = -1};

    (void)state;
    assert_int_equal(mkfifo(path, 0666), 0);
    assert_int_equal(read_last(path, &io), -1);
    assert_int_equal(io.error, EINVAL);
    assert_int_equal(read_last(dir, &io), -1);
    assert_int_equal(io.error, EINVAL);
    assert_int_equal(read_last(charl_test_path(dir, "absent"), &io), -1);
    assert_int_equal(io.error, ENOENT);
    charl_assert_ok(charl__fault_set("io.read:1"));
    io.fd = -1;
    assert_int_equal(read_last("/proc/self/exe", &io), -1);
    assert_int_equal(io.error, EIO);
    assert_string_equal(io.op, "read");
}

static void test_out_of_memory(void **state)
{
    charl__h5_io io = {.fd = -1, .error = ENOMEM, .op = "open"};

    (void)state;
    charl_assert_status(charl__h5_io_check(&io, "x", 1), CHARL_ERR_NOMEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_writes_and_reads, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(test_given_descriptor, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(test_signals_and_short_counts, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(test_first_error_sticks, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(test_nothing_is_written_after_an_error, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(test_flip, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(test_refuses_what_is_no_file, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(test_out_of_memory, setup_dir, teardown_dir),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
