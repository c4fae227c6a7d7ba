/* A disk that fails: every write in turn, a file size limit, a full file system. The old checkpoint
 * stays, the message names path, bytes needed and bytes free, and the process lives to its regular
 * end.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/checkpoint_sample.h"
#include "io/scratch.h"

enum { MANY = 400 };

static sample s;
static char path[512];

static int setup(void **state)
{
    setup_dir(state);
    snprintf(path, sizeof path, "%s/a.h5", dir);
    sample_init(&s, 7);
    charl_assert_ok(charl_checkpoint_save(path, &s.c));
    sample_init(&s, 8);
    return 0;
}

/* Enough tensors that HDF5 writes metadata out, and reads it back, while the file is being made. */
static void many(charl_checkpoint *c)
{
    static charl_checkpoint_tensor tensors[MANY];
    static char names[MANY][200];
    static float value[1024];

    for (int i = 0; i < MANY; i++) {
        memset(names[i], 'a' + i % 26, sizeof names[i] - 1);
        snprintf(names[i], 24, "%d.weight", i);
        names[i][strlen(names[i])] = '_';
        tensors[i] =
            (charl_checkpoint_tensor){i % 2 ? "model" : "optim/m", names[i], CHARL_F32, {1, {1 + i % 1024}}, value, 0};
    }
    c->tensors = tensors;
    c->n_tensors = MANY;
}

/* Fail write 1, 2, ... until none is reached; the number of failures. */
static int fail_every_write(const char *point, const char *suffix, int stride)
{
    int failures = 0;

    for (int n = 1;; n += stride) {
        char fault[64];
        charl_status st;

        snprintf(fault, sizeof fault, "%s:%d%s", point, n, suffix);
        charl_test_fault_set(fault);
        st = charl_checkpoint_save(path, &s.c);
        charl_test_fault_set(NULL);
        if (st == CHARL_OK) {
            return failures;
        }
        assert_int_equal(st, CHARL_ERR_DISK);
        charl_assert_message(path);
        charl_assert_message(" bytes needed, ");
        assert_int_equal(sample_load(path), 7); /* the old one */
        assert_int_equal(charl_test_live(), 0);
        failures++;
    }
}

static void test_every_write(void **state)
{
    (void)state;
    assert_true(fail_every_write("io.write", "", 1) >= 5);
    assert_int_equal(sample_load(path), 8);
}

static void test_every_write_from_then_on(void **state)
{
    (void)state;
    assert_true(fail_every_write("io.enospc", "+", 1) >= 5);
}

static void test_many_tensors(void **state)
{
    (void)state;
    many(&s.c);
    assert_true(fail_every_write("io.enospc", "+", 37 * charl_test_each(2)) >= 5);
    charl_assert_ok(charl_checkpoint_verify(path));
}

static void test_other_steps(void **state)
{
    static const char *const faults[] = {"io.create:1:30", "io.open:1", "io.close:1", "io.fsync:1", "io.rename:1"};

    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        charl_test_fault_set(faults[i]);
        charl_assert_status(charl_checkpoint_save(path, &s.c), CHARL_ERR_DISK);
        charl_assert_message(path);
        charl_test_fault_set(NULL);
        assert_int_equal(sample_load(path), 7);
    }
    charl_test_fault_set("io.dirfsync:1");
    charl_assert_status(charl_checkpoint_save(path, &s.c), CHARL_ERR_DISK);
}

/* A disk that writes one wrong bit, in any write: noticed when the file is read back, before the
 * rename. Until there are no such writes any more. */
static void test_wrong_bit_is_read_back(void **state)
{
    int noticed = 0, right = 0;

    (void)state;
    for (int n = 1; right < 5; n += charl_test_each(3)) {
        char fault[64];
        charl_status st;

        snprintf(fault, sizeof fault, "io.flip:%d:%d", n, 7 * n);
        charl_test_fault_set(fault);
        st = charl_checkpoint_save(path, &s.c);
        charl_test_fault_set(NULL);
        if (st != CHARL_OK) {
            assert_int_equal(st, CHARL_ERR_DISK);
            charl_assert_message("read back after writing");
            noticed++;
            right = 0;
        } else {
            assert_int_equal(sample_load(path), 8);
            right++;
        }
    }
    assert_true(noticed >= 5);
}

/* In a child: run `body` to a regular exit with HDF5 cleaning up; 0 is success. */
static void in_child(int (*body)(void))
{
    int status = 0;
    const pid_t pid = fork();

    if (pid == 0) {
        alarm(100);
        exit(body());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static bool says(const char *part)
{
    return strstr(charl_error_message(), part) != NULL;
}

static int save_with_size_limit(void)
{
    struct rlimit limit;

    signal(SIGXFSZ, SIG_IGN);
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0) {
        return 10;
    }
    for (rlim_t bytes = 0; bytes <= 20000; bytes += 1000) {
        limit.rlim_cur = bytes;
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) {
            return 11;
        }
        if (charl_checkpoint_save(path, &s.c) != CHARL_ERR_DISK || !says("files are limited to")) {
            return 14;
        }
        charl_test_fault_set("io.rlimit:*");
        if (charl_checkpoint_save(path, &s.c) != CHARL_ERR_DISK || !says("File too large") || !says("bytes needed")) {
            return 15;
        }
        charl_test_fault_set(NULL);
        if (sample_load(path) != 7 || charl_test_live() != 0) {
            fprintf(stderr, "%s\n", charl_error_message());
            return 12;
        }
    }
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_FSIZE, &limit) == 0 && charl_checkpoint_save(path, &s.c) == CHARL_OK &&
                   sample_load(path) == 8
               ? 0
               : 13;
}

static void test_size_limit(void **state)
{
    (void)state;
    in_child(save_with_size_limit);
}

/* The tensors are larger than any file system: refused before the first write. */
static void test_not_enough_room(void **state)
{
    static float one;
    charl_checkpoint_tensor huge = {"model", "huge", CHARL_F32, {1, {(int64_t)1 << 50}}, &one, 0};

    (void)state;
    s.c.tensors = &huge;
    s.c.n_tensors = 1;
    charl_test_fault_set("io.create:*"); /* not even a temporary is made */
    charl_assert_status(charl_checkpoint_save(path, &s.c), CHARL_ERR_DISK);
    charl_assert_message("not enough room on the disk");
    charl_assert_message(path);
    assert_int_equal(sample_load(path), 7);
}

/* What a save asks for is what its file takes, and little more. */
static void room_is_what_it_takes(const char *what)
{
    long long needed = 0, left = 0;
    const char *numbers;
    struct stat info;

    charl_test_fault_set("io.statvfs:*:1");
    charl_assert_status(charl_checkpoint_save(path, &s.c), CHARL_ERR_DISK);
    charl_test_fault_set(NULL);
    numbers = strstr(charl_error_message(), "disk: ");
    assert_non_null(numbers);
    assert_int_equal(sscanf(numbers, "disk: %lld bytes needed, %lld free", &needed, &left), 2);
    charl_assert_ok(charl_checkpoint_save(path, &s.c));
    assert_int_equal(stat(path, &info), 0);
    print_message("%s: %lld bytes, asked for %lld\n", what, (long long)info.st_size, needed);
    assert_true(needed >= (long long)info.st_size);
    assert_true(needed <= (long long)info.st_size + info.st_size / 10 + 65536);
}

static void test_room(void **state)
{
    static charl_checkpoint_tensor large[8], pages[100];
    static char names[100][32];
    static float value[300001];

    (void)state;
    room_is_what_it_takes("a few small tensors");
    many(&s.c);
    room_is_what_it_takes("400 small tensors with long names");
    for (int i = 0; i < 100; i++) {
        snprintf(names[i], sizeof names[i], "%d.weight", i);
        pages[i] = (charl_checkpoint_tensor){"model", names[i], CHARL_F32, {1, {8197 + i}}, value, 0};
    }
    for (int i = 0; i < 8; i++) {
        large[i] = (charl_checkpoint_tensor){"model", names[i], CHARL_F32, {1, {300001}}, value, 0};
    }
    s.c.tensors = large;
    s.c.n_tensors = 8;
    room_is_what_it_takes("8 large tensors");
    s.c.tensors = pages;
    s.c.n_tensors = 100;
    room_is_what_it_takes("100 tensors that end on a page of their own");
}

static int64_t disk_free(const char *folder)
{
    struct statvfs fs;

    return statvfs(folder, &fs) == 0 ? (int64_t)fs.f_bavail * (int64_t)fs.f_frsize : -1;
}

/* Fill the file system of `folder` up to `spare` bytes. */
static int fill(const char *folder, int64_t spare)
{
    static char block[512];
    char name[600];
    int fd, rc = 0;

    snprintf(name, sizeof name, "%s/filler", folder);
    fd = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0666);
    while (disk_free(folder) > spare && rc == 0) {
        rc = write(fd, block, sizeof block) == (ssize_t)sizeof block ? 0 : 20;
    }
    return close(fd) == 0 ? rc : 21;
}

/* Two saves that must fail, told in advance and found out while writing: 0, or a number. */
static int save_on_full_disk(void)
{
    if (charl_checkpoint_save(path, &s.c) != CHARL_ERR_DISK || !says("not enough room on the disk") ||
        sample_load(path) != 7) {
        return 2;
    }
    charl_test_fault_set("io.statvfs:*");
    if (charl_checkpoint_save(path, &s.c) != CHARL_ERR_DISK || !says("No space left on device") ||
        charl_test_live() != 0) {
        return 3;
    }
    charl_test_fault_set(NULL);
    return sample_load(path) == 7 ? 0 : 4;
}

/* Less and less room until a save is refused: the message's numbers say why. 0, or a number. */
static int save_until_refused(const char *folder)
{
    int64_t spare = 500 << 10;
    long long needed = 0, left = 0;
    const char *numbers;

    while (fill(folder, spare) == 0 && charl_checkpoint_save(path, &s.c) == CHARL_OK) {
        spare -= 4096;
    }
    numbers = strstr(charl_error_message(), "disk: ");
    return numbers && sscanf(numbers, "disk: %lld bytes needed, %lld free", &needed, &left) == 2 && needed > left ? 0
                                                                                                                  : 5;
}

/* The test program again, inside a small file system of its own: 0, or a number that says what went
 * wrong. */
static int on_full_disk(const char *folder)
{
    int rc = 0;

    snprintf(path, sizeof path, "%s/a.h5", folder);
    sample_init(&s, 7);
    if (charl_checkpoint_save(path, &s.c) != CHARL_OK) {
        return 1;
    }
    sample_init(&s, 8);
    for (int64_t spare = 0; spare <= 16384 && rc == 0; spare += 4096) {
        rc = fill(folder, spare);
        rc = rc ? rc : save_on_full_disk();
    }
    if (rc == 0 && (unlink(charl_test_path(folder, "filler")) != 0 || charl_checkpoint_save(path, &s.c) != CHARL_OK ||
                    sample_load(path) != 8)) {
        rc = 4;
    }
    rc = rc ? rc : save_until_refused(folder);
    if (rc) {
        fprintf(stderr, "%d: %s\n", rc, charl_error_message());
    }
    return rc;
}

static void test_full_disk(void **state)
{
    static const char mount[] = "mount -t tmpfs -o size=800k tmpfs";
    char self[512], command[2048];
    ssize_t n;

    (void)state;
    snprintf(command, sizeof command, "unshare -rm sh -c '%s %s' 2>/dev/null", mount, dir);
    if (system(command) != 0) {
        print_message("SKIP: no file system may be mounted here\n");
        skip();
    }
    n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    snprintf(command, sizeof command, "unshare -rm sh -c '%s %s && exec \"%s\" --full-disk %s'", mount, dir, self, dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(sample_load(path), 7); /* the other file system is gone again */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_write, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_every_write_from_then_on, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_many_tensors, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_other_steps, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_wrong_bit_is_read_back, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_size_limit, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_not_enough_room, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_room, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_full_disk, setup, teardown_dir),
    };

    if (argc == 3 && strcmp(argv[1], "--full-disk") == 0) {
        return on_full_disk(argv[2]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
