/* The commit protocol: whole or not at all, every step failing, stale temporaries, crashes at every
 * step. */
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
#include "io/scratch.h"

static char path[512];

static int setup(void **state)
{
    setup_dir(state);
    snprintf(path, sizeof path, "%s/file", dir);
    return 0;
}

static const char *contents(void)
{
    static char text[64];
    FILE *f = fopen(path, "rb");
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
    charl_assert_ok(charl__commit_bytes(path, "old", 3));
    assert_string_equal(contents(), "old");
    charl_assert_ok(charl__commit_bytes(path, "newer", 5));
    assert_string_equal(contents(), "newer");
    charl_assert_ok(charl__commit_bytes(path, "", 0));
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
    charl_assert_ok(charl__commit_bytes(path, "old", 3));
    for (int i = 0; i < 4; i++) {
        charl_assert_ok(charl__fault_set(faults[i]));
        charl_assert_status(charl__commit_bytes(path, "new", 3), CHARL_ERR_DISK);
        snprintf(message, sizeof message, "%s: %s", path, words[i]); /* no other file's name */
        charl_assert_message(message);
        assert_string_equal(contents(), "old");
        assert_int_equal(entries(), 1);
    }
    charl_assert_ok(charl__fault_set("io.dirfsync:1"));
    charl_assert_status(charl__commit_bytes(path, "new", 3), CHARL_ERR_DISK);
    charl_assert_message("fsync of the directory failed");
    assert_string_equal(contents(), "new");                /* there, but not acknowledged */
    charl_assert_ok(charl__fault_set("io.dirfsync:1:22")); /* EINVAL: needs none */
    charl_assert_ok(charl__commit_bytes(path, "last", 4));
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
    charl_assert_ok(charl__commit_bytes(path, "old", 3));
    charl_assert_ok(charl__commit_begin(path, &c));
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
    charl_assert_ok(charl__commit_begin(path, &first));
    charl_assert_status(charl__commit_begin(path, &second), CHARL_ERR_DISK);
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
    charl_assert_ok(charl__commit_bytes(path, "new", 3));
    assert_string_equal(contents(), "new");
    assert_int_equal(entries(), 1);
}

static void test_crash_at_every_step(void **state)
{
    static const char *const faults[] = {"io.crash.written:1", "io.crash.synced:1", "io.crash.verified:1",
                                         "io.crash.renamed:1"};

    (void)state;
    charl_assert_ok(charl__commit_bytes(path, "old", 3));
    for (int i = 0; i < 4; i++) {
        pid_t pid = fork();
        int status = 0, removed = 0;

        if (pid == 0) {
            _exit(charl__fault_set(faults[i]) != CHARL_OK || charl__commit_bytes(path, "new", 3) != CHARL_OK);
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
    CHARL_TRY(charl__commit_bytes(path, "x", 1));
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
    const char *inputs[] = {NULL, "no/such/file", other, path};

    (void)state;
    snprintf(other, sizeof other, "%s/other", dir);
    snprintf(link_name, sizeof link_name, "%s/link", dir);
    charl_assert_ok(charl__commit_check_inputs(path, inputs, 4)); /* there is no such file yet */
    charl_assert_ok(charl__commit_check_inputs(NULL, inputs, 4));
    charl_assert_ok(charl__commit_bytes(path, "x", 1));
    charl_assert_ok(charl__commit_bytes(other, "x", 1));
    charl_assert_ok(charl__commit_check_inputs(path, inputs, 3));
    charl_assert_status(charl__commit_check_inputs(path, inputs, 4), CHARL_ERR_CONFIG);
    charl_assert_message("is the same file as the input");
    assert_int_equal(link(path, link_name), 0);
    charl_assert_status(charl__commit_check_inputs(link_name, inputs, 4), CHARL_ERR_CONFIG);
    charl_assert_message(link_name);
    charl_assert_message(path);
    assert_int_equal(unlink(link_name), 0);
    assert_int_equal(symlink(path, link_name), 0);
    charl_assert_status(charl__commit_check_inputs(link_name, inputs, 4), CHARL_ERR_CONFIG);
    inputs[0] = "/dev/null";
    charl_assert_ok(charl__commit_check_inputs("/dev/null", inputs, 1)); /* is not replaced */
    charl_assert_ok(charl__commit_check_inputs(dir, (const char *const[]){dir}, 1));
}

static void test_disk_free(void **state)
{
    (void)state;
    assert_true(charl__disk_free(dir) >= 0);
    assert_true(charl__disk_free(path) >= 0); /* absent: its directory counts */
    assert_true(charl__disk_free("absent") >= 0);
    assert_int_equal(charl__disk_free("/no/such/place"), -1);
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
