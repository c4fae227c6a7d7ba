/* What reaches the disk: files that are replaced atomically, and HDF5 on a disk that fails. */
#include "io/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "io/commit.h"
#include "io/h5.h"
#include "io/h5_driver.h"

/* The commit protocol: whole or not at all, every step failing, stale temporaries, crashes at every
 * step. */

static char target[512];

static int setup(void **state)
{
    setup_dir(state);
    snprintf(target, sizeof target, "%s/file", dir);
    return 0;
}

static const char *contents(void)
{
    static char text[64];
    FILE *f = fopen(target, "rb");
    size_t n = 0;

    if (f) {
        n = fread(text, 1, sizeof text - 1, f);
        fclose(f);
    }
    text[n] = '\0';
    return f ? text : "(none)";
}

/* Number of entries of `dir`. */
static int entries(void)
{
    char command[600];
    char text[16] = "";
    FILE *p;

    snprintf(command, sizeof command, "ls -A '%s' | wc -l", dir);
    p = popen(command, "r");
    assert_non_null(p);
    assert_non_null(fgets(text, sizeof text, p));
    pclose(p);
    return atoi(text);
}

static void test_replaces(void **state)
{
    (void)state;
    charl_assert_ok(charl__commit_bytes(target, "old", 3));
    assert_string_equal(contents(), "old");
    charl_assert_ok(charl__commit_bytes(target, "newer", 5));
    assert_string_equal(contents(), "newer");
    charl_assert_ok(charl__commit_bytes(target, "", 0));
    assert_string_equal(contents(), "");
    assert_int_equal(entries(), 1);
}

static void test_every_step_can_fail(void **state)
{
    static const char *const faults[] = {"io.create:1:28", "io.write:1:28", "io.fsync:1", "io.rename:1"};
    static const char *const words[] = {"create failed: No space", "write failed: No space", "fsync failed",
                                        "rename failed"};
    char message[4096];

    (void)state;
    charl_assert_ok(charl__commit_bytes(target, "old", 3));
    for (int i = 0; i < 4; i++) {
        charl_assert_ok(charl__fault_set(faults[i]));
        charl_assert_status(charl__commit_bytes(target, "new", 3), CHARL_ERR_DISK);
        snprintf(message, sizeof message, "%s: %s", target, words[i]); /* no other file's name */
        charl_assert_message(message);
        assert_string_equal(contents(), "old");
        assert_int_equal(entries(), 1);
    }
    charl_assert_ok(charl__fault_set("io.dirfsync:1"));
    charl_assert_status(charl__commit_bytes(target, "new", 3), CHARL_ERR_DISK);
    charl_assert_message("fsync of the directory failed");
    assert_string_equal(contents(), "new");                /* there, but not acknowledged */
    charl_assert_ok(charl__fault_set("io.dirfsync:1:22")); /* EINVAL: needs none */
    charl_assert_ok(charl__commit_bytes(target, "last", 4));
}

static charl_status refuse(const char *temp, void *user)
{
    assert_int_equal(access(temp, R_OK), 0);
    assert_string_equal(contents(), "old");
    CHARL_FAIL(CHARL_ERR_CHECKPOINT, "%s", (const char *)user);
    return CHARL_OK;
}

static void test_verify_decides(void **state)
{
    charl__commit c;
    char why[] = "not good enough";

    (void)state;
    charl_assert_ok(charl__commit_bytes(target, "old", 3));
    charl_assert_ok(charl__commit_begin(target, &c));
    charl_assert_status(charl__commit_end(&c, refuse, why), CHARL_ERR_CHECKPOINT);
    charl_assert_message("not good enough");
    charl__commit_fini(&c);
    assert_string_equal(contents(), "old");
    assert_int_equal(entries(), 1);
}

static void test_refuses_targets(void **state)
{
    charl__commit c;

    (void)state;
    charl_assert_status(charl__commit_begin(dir, &c), CHARL_ERR_DISK);
    charl_assert_message("not a regular file");
    charl__commit_fini(&c);
    charl_assert_status(charl__commit_bytes("/dev/null", "x", 1), CHARL_ERR_DISK);
    charl_assert_status(charl__commit_bytes(charl_test_path(dir, "no/file"), "x", 1), CHARL_ERR_DISK);
    charl_assert_message("does not exist; make it with: mkdir -p");
    charl_assert_status(charl__commit_probe(charl_test_path(dir, "no")), CHARL_ERR_DISK);
    charl_assert_status(charl__commit_sync_dir(charl_test_path(dir, "no")), CHARL_ERR_DISK);
    charl_assert_status(charl__commit_sweep(charl_test_path(dir, "no"), false, NULL), CHARL_ERR_DISK);
    charl_assert_ok(charl__commit_probe(dir));
    assert_int_equal(entries(), 0);
}

static void test_two_writers(void **state)
{
    charl__commit first, second;

    (void)state;
    charl_assert_ok(charl__commit_begin(target, &first));
    charl_assert_status(charl__commit_begin(target, &second), CHARL_ERR_DISK);
    charl_assert_message("is being written already");
    charl__commit_fini(&second);
    charl_assert_ok(charl__commit_end(&first, NULL, NULL));
    charl__commit_fini(&first);
    assert_string_equal(contents(), "");
}

static void touch(const char *name)
{
    char full[700];
    int fd;

    snprintf(full, sizeof full, "%s/%s", dir, name);
    fd = open(full, O_CREAT | O_WRONLY, 0666);
    assert_true(fd >= 0);
    close(fd);
}

/* A process number that nobody has. */
static long dead_pid(void)
{
    const pid_t pid = fork();

    if (pid == 0) {
        _exit(0);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    return (long)pid;
}

static void test_sweep(void **state)
{
    char host[256], name[600], locked[700];
    int removed = 0, fd;

    (void)state;
    assert_int_equal(gethostname(host, sizeof host), 0);
    snprintf(name, sizeof name, "a.h5.tmp.%s.%ld", host, dead_pid());
    touch(name);
    snprintf(name, sizeof name, "own.tmp.%s.%ld", host, (long)getpid());
    touch(name); /* of an earlier process with this number */
    snprintf(name, sizeof name, "b.h5.tmp.%s.%ld", host, (long)getppid());
    touch(name); /* alive */
    touch("c.h5.tmp.elsewhere.1");
    touch("data.tmp.h5");
    touch("x.tmp.host.12a");
    snprintf(locked, sizeof locked, "%s/d.h5.tmp.%s.%ld", dir, host, dead_pid());
    fd = open(locked, O_CREAT | O_RDWR, 0666);
    assert_true(fd >= 0 && flock(fd, LOCK_EX) == 0); /* its writer lives in another container */
    charl_assert_ok(charl__commit_sweep(dir, false, &removed));
    assert_int_equal(removed, 2);
    assert_int_equal(entries(), 5);
    charl_assert_ok(charl__commit_sweep(dir, true, &removed));
    assert_int_equal(removed, 2);
    assert_int_equal(entries(), 3);
    close(fd);
    charl_assert_ok(charl__commit_sweep(dir, true, &removed));
    assert_int_equal(removed, 1);
    assert_int_equal(access(charl_test_path(dir, "data.tmp.h5"), F_OK), 0);
}

static void test_takes_over_own_stale_temporary(void **state)
{
    char host[256], name[600];

    (void)state;
    assert_int_equal(gethostname(host, sizeof host), 0);
    snprintf(name, sizeof name, "file.tmp.%s.%ld", host, (long)getpid());
    touch(name);
    charl_assert_ok(charl__commit_bytes(target, "new", 3));
    assert_string_equal(contents(), "new");
    assert_int_equal(entries(), 1);
}

static void test_crash_at_every_step(void **state)
{
    static const char *const faults[] = {"io.crash.written:1", "io.crash.synced:1", "io.crash.verified:1",
                                         "io.crash.renamed:1"};

    (void)state;
    charl_assert_ok(charl__commit_bytes(target, "old", 3));
    for (int i = 0; i < 4; i++) {
        pid_t pid = fork();
        int status = 0, removed = 0;

        if (pid == 0) {
            _exit(charl__fault_set(faults[i]) != CHARL_OK || charl__commit_bytes(target, "new", 3) != CHARL_OK);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        assert_string_equal(contents(), i < 3 ? "old" : "new");
        charl_assert_ok(charl__commit_sweep(dir, false, &removed));
        assert_int_equal(removed, i < 3 ? 1 : 0);
        assert_int_equal(entries(), 1);
    }
}

static charl_status scenario(void *ctx)
{
    (void)ctx;
    CHARL_TRY(charl__commit_bytes(target, "x", 1));
    CHARL_TRY(charl__commit_probe(dir));
    CHARL_TRY(charl__commit_sweep(dir, true, NULL));
    return CHARL_OK;
}

static void test_every_acquisition(void **state)
{
    (void)state;
    assert_true(charl_test_fail_every_acquisition(scenario, NULL) >= 10);
    assert_int_equal(entries(), 1);
}

/* The same file by another name, and what is no file that could be lost. */
static void test_inputs_are_not_outputs(void **state)
{
    char other[600], link_name[600];
    const char *inputs[] = {NULL, "no/such/file", other, target};

    (void)state;
    snprintf(other, sizeof other, "%s/other", dir);
    snprintf(link_name, sizeof link_name, "%s/link", dir);
    charl_assert_ok(charl__commit_check_inputs(target, inputs, 4)); /* there is no such file yet */
    charl_assert_ok(charl__commit_check_inputs(NULL, inputs, 4));
    charl_assert_ok(charl__commit_bytes(target, "x", 1));
    charl_assert_ok(charl__commit_bytes(other, "x", 1));
    charl_assert_ok(charl__commit_check_inputs(target, inputs, 3));
    charl_assert_status(charl__commit_check_inputs(target, inputs, 4), CHARL_ERR_CONFIG);
    charl_assert_message("is the same file as the input");
    assert_int_equal(link(target, link_name), 0);
    charl_assert_status(charl__commit_check_inputs(link_name, inputs, 4), CHARL_ERR_CONFIG);
    charl_assert_message(link_name);
    charl_assert_message(target);
    assert_int_equal(unlink(link_name), 0);
    assert_int_equal(symlink(target, link_name), 0);
    charl_assert_status(charl__commit_check_inputs(link_name, inputs, 4), CHARL_ERR_CONFIG);
    inputs[0] = "/dev/null";
    charl_assert_ok(charl__commit_check_inputs("/dev/null", inputs, 1)); /* is not replaced */
    charl_assert_ok(charl__commit_check_inputs(dir, (const char *const[]){dir}, 1));
}

static void test_disk_free(void **state)
{
    (void)state;
    assert_true(charl__disk_free(dir) >= 0);
    assert_true(charl__disk_free(target) >= 0); /* absent: its directory counts */
    assert_true(charl__disk_free("absent") >= 0);
    assert_int_equal(charl__disk_free("/no/such/place"), -1);
}

/* The sticky file driver: transfers through signals and short counts, first error kept, regular
 * files only. */

enum { COUNT = 5000 };

/* Write `target` with one dataset of 0..COUNT-1; the driver's verdict is in *io. */
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
        cmocka_unit_test_setup_teardown(test_replaces, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_every_step_can_fail, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_verify_decides, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_refuses_targets, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_inputs_are_not_outputs, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_two_writers, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_sweep, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_takes_over_own_stale_temporary, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_crash_at_every_step, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_every_acquisition, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_disk_free, setup, teardown_dir),
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
