/* Runs: which checkpoints are kept, and processes that are killed while they save. */
#include "io/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/fault.h"
#include "base/numeric/rng.h"
#include "files/job.h"
#include "files/run.h"
#include "files/run_path.h"
#include "io/checkpoint_sample.h"

/* Run directories: which checkpoint to go on from, which ones stay, links, the lock. */

static sample s;

static int setup(void **state)
{
    char folder[600];

    setup_dir(state);
    snprintf(folder, sizeof folder, "%s/checkpoints", dir);
    assert_int_equal(mkdir(folder, 0777), 0);
    return 0;
}

static void save(int64_t step)
{
    char *path = NULL;

    sample_init(&s, step);
    charl_assert_ok(charl__run_path(dir, step, &path));
    charl_assert_ok(charl_checkpoint_save(path, &s.c));
    charl_free(path);
}

/* Flip a bit in the data of the checkpoint of `step`. */
static void damage(int64_t step)
{
    char *path = NULL;
    struct stat st;
    char byte = 0;
    int fd;

    charl_assert_ok(charl__run_path(dir, step, &path));
    fd = open(path, O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    for (off_t at = 4096; at < st.st_size; at += 64) { /* large tensors lie at multiples of 4096 */
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte = (char)(byte ^ 16);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    close(fd);
    charl_free(path);
}

static bool exists(int64_t step)
{
    char *path = NULL;
    bool found;

    charl_assert_ok(charl__run_path(dir, step, &path));
    found = access(path, F_OK) == 0;
    charl_free(path);
    return found;
}

static void expect(int64_t step, int n_refused)
{
    charl__run_found found;

    charl_assert_ok(charl__run_find(dir, INT64_MAX, &found));
    assert_int_equal(found.step, step);
    assert_int_equal(found.n_refused, n_refused);
    assert_int_equal(found.path != NULL, step >= 0);
    assert_int_equal(found.warning != NULL, n_refused > 0);
    charl__run_found_fini(&found);
}

static void test_find(void **state)
{
    charl__run_found found;

    (void)state;
    expect(-1, 0);
    save(5);
    save(123456789); /* more digits than the name is padded to */
    save(40);
    expect(123456789, 0);
    damage(123456789);
    expect(40, 1);
    damage(40);
    charl_assert_ok(charl__run_find(dir, INT64_MAX, &found));
    assert_int_equal(found.step, 5);
    assert_int_equal(found.n_refused, 2);
    assert_non_null(strstr(found.warning, "step-123456789.h5"));
    assert_non_null(strstr(found.warning, "\n"));
    assert_non_null(strstr(found.warning, "step-00000040.h5"));
    charl__run_found_fini(&found);
    damage(5);
    expect(-1, 3);
}

static void test_find_ignores_other_names(void **state)
{
    static const char *const names[] = {"step-7.h5",        "step-00000009.h5.tmp.host.1",
                                        "step-0000000a.h5", "other.h5",
                                        "step--0000001.h5", "step-99999999999999999999.h5"};
    char path[700];

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        FILE *f;

        snprintf(path, sizeof path, "%s/checkpoints/%s", dir, names[i]);
        f = fopen(path, "w");
        assert_non_null(f);
        fclose(f);
    }
    expect(-1, 0);
}

static void test_find_refuses_a_renamed_file(void **state)
{
    char *from = NULL, *to = NULL;
    charl__run_found found;

    (void)state;
    save(10);
    charl_assert_ok(charl__run_path(dir, 10, &from));
    charl_assert_ok(charl__run_path(dir, 20, &to));
    assert_int_equal(rename(from, to), 0);
    charl_assert_ok(charl__run_find(dir, INT64_MAX, &found));
    assert_int_equal(found.step, -1);
    assert_non_null(strstr(found.warning, "holds step 10"));
    charl__run_found_fini(&found);
    charl_free(from);
    charl_free(to);
}

static void test_find_errors(void **state)
{
    charl__run_found found;
    char path[600];

    (void)state;
    charl_assert_ok(charl__run_find(charl_test_path(dir, "absent"), INT64_MAX, &found));
    assert_int_equal(found.step, -1);
    snprintf(path, sizeof path, "%s/checkpoints", dir);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(close(open(path, O_CREAT | O_WRONLY, 0666)), 0);
    charl_assert_status(charl__run_find(dir, INT64_MAX, &found), CHARL_ERR_CHECKPOINT);
    assert_null(found.path);
}

static charl_status find_scenario(void *ctx)
{
    charl_status st = CHARL_OK;
    charl__run_found found;

    (void)ctx;
    CHARL_TRY_CLEANUP(charl__run_find(dir, INT64_MAX, &found));
cleanup:
    charl__run_found_fini(&found);
    return st;
}

static void test_find_every_acquisition(void **state)
{
    (void)state;
    save(1);
    save(2);
    damage(2); /* running out of memory must not look like damage */
    assert_true(charl_test_fail_every_acquisition(find_scenario, NULL) > 50);
}

static void test_retain(void **state)
{
    charl__run_policy policy = {.step = 10, .keep_last = 1, .resumed_step = 3, .best_step = 5};
    int removed = 0;

    (void)state;
    for (int64_t step = 1; step <= 10; step++) {
        save(step);
    }
    save(50); /* of another history */
    policy.keep_every = 4;
    charl_assert_ok(charl__run_retain(dir, &policy, &removed));
    assert_int_equal(removed, 4);
    for (int64_t step = 1; step <= 10; step++) {
        assert_int_equal(exists(step), step != 1 && step != 2 && step != 6 && step != 7);
    }
    assert_true(exists(50));
    policy = (charl__run_policy){.step = 10, .keep_last = 3, .resumed_step = -1, .best_step = -1};
    charl_assert_ok(charl__run_retain(dir, &policy, &removed));
    assert_int_equal(removed, 3);
    assert_true(exists(8) && exists(9) && exists(10) && exists(50));
    charl_assert_ok(charl__run_link(dir, "best.h5", 8)); /* kept, though the policy does not name it */
    policy.keep_last = 2;
    charl_assert_ok(charl__run_retain(dir, &policy, &removed));
    assert_int_equal(removed, 0);
    assert_true(exists(8));
    policy.step = 0; /* everything is of another history */
    charl_assert_ok(charl__run_retain(dir, &policy, &removed));
    assert_int_equal(removed, 0);
}

static void test_retain_errors(void **state)
{
    const charl__run_policy policy = {.step = 9, .resumed_step = -1, .best_step = -1};
    char *path = NULL;

    (void)state;
    save(8);
    save(9);
    charl_assert_ok(charl__run_path(dir, 1, &path));
    assert_int_equal(mkdir(path, 0777), 0); /* cannot be unlinked */
    charl_assert_status(charl__run_retain(dir, &policy, NULL), CHARL_ERR_DISK);
    charl_assert_message("unlink failed");
    assert_int_equal(rmdir(path), 0);
    charl_free(path);
    save(1);
    charl_assert_ok(charl__fault_set("io.dirfsync:1"));
    charl_assert_status(charl__run_retain(dir, &policy, NULL), CHARL_ERR_DISK);
}

static void test_paths(void **state)
{
    char *out = NULL, *want = NULL, link[600];

    (void)state;
    assert_int_equal(charl_run_length("a/b/last.h5"), 3);
    assert_int_equal(charl_run_length("a/b/checkpoints/step-00000002.h5"), 3);
    assert_int_equal(charl_run_length("best.h5"), 0);
    assert_int_equal(charl_run_length("a/step-00000002.h5"), strlen("a/step-00000002.h5"));
    assert_int_equal(charl_run_length("checkpoints/step-00000002.h5"), strlen("checkpoints/step-00000002.h5"));
    assert_true(charl__run_is_same("/no/run/last.h5", "/no/run/checkpoints/step-00000002.h5"));
    assert_false(charl__run_is_same("/no/run/last.h5", "/no/other/last.h5"));
    assert_false(charl__run_is_same("/no/run/model.h5", "/no/run/model.h5")); /* of no run */
    save(3);
    charl_assert_ok(charl__run_link(dir, "last.h5", 3));
    snprintf(link, sizeof link, "%s", charl_test_path(dir, "last.h5"));
    charl_assert_ok(charl__run_resolve(link, &out));
    charl_assert_ok(charl__run_path(dir, 3, &want));
    assert_string_equal(out, want);
    assert_true(charl__run_is_same(link, out));
    charl_free(out);
    charl_assert_ok(charl__run_resolve(want, &out));
    assert_string_equal(out, want);
    charl_free(out);
    charl_assert_ok(charl__run_resolve(dir, &out)); /* a run directory: its last checkpoint, and what that names now */
    assert_string_equal(out, want);
    charl_free(out);
    charl_assert_ok(charl_run_checkpoint(dir, &out));
    assert_string_equal(out, link);
    charl_free(out);
    assert_int_equal(unlink(link), 0); /* copied without its links: the newest checkpoint */
    charl_assert_ok(charl_run_checkpoint(dir, &out));
    assert_string_equal(out, want);
    charl_free(out);
    charl_assert_ok(charl_run_checkpoint(charl_test_path(dir, "checkpoints"), &out)); /* no run directory */
    assert_string_equal(out, charl_test_path(dir, "checkpoints"));
    charl_free(out);
    charl_free(want);
}

static void test_links(void **state)
{
    char target[600];
    ssize_t n;

    (void)state;
    save(3);
    charl_assert_ok(charl__run_link(dir, "last.h5", 2));
    charl_assert_ok(charl__run_link(dir, "last.h5", 3));
    n = readlink(charl_test_path(dir, "last.h5"), target, sizeof target - 1);
    assert_true(n > 0);
    target[n] = '\0';
    assert_string_equal(target, "checkpoints/step-00000003.h5");
    assert_int_equal(charl__run_linked(dir, "last.h5"), 3);
    assert_int_equal(charl__run_linked(dir, "best.h5"), -1);
    assert_int_equal(symlink("step-00000003.h5", charl_test_path(dir, "best.h5")), 0); /* made by a user */
    assert_int_equal(charl__run_linked(dir, "best.h5"), -1);
    assert_int_equal(unlink(charl_test_path(dir, "best.h5")), 0);
    charl_assert_ok(charl_checkpoint_verify(charl_test_path(dir, "last.h5")));
    assert_int_equal(close(open(charl_test_path(dir, "best.h5"), O_CREAT | O_WRONLY, 0666)), 0);
    charl_assert_status(charl__run_link(dir, "best.h5", 3), CHARL_ERR_DISK);
    charl_assert_message("not a symbolic link");
    charl_assert_status(charl__run_link(charl_test_path(dir, "no"), "best.h5", 3), CHARL_ERR_DISK);
    charl_assert_message("symlink failed");
}

static void test_lock(void **state)
{
    char run_dir[600];
    charl__run *run = NULL, *second = NULL;
    int out[2], status = 0;
    char byte = 0;
    pid_t pid;

    (void)state;
    snprintf(run_dir, sizeof run_dir, "%s/runs/mnist", dir);
    charl_assert_ok(charl__run_open(run_dir, &run));
    assert_string_equal(charl__run_get_note(run), "");
    charl_assert_status(charl__run_open(run_dir, &second), CHARL_ERR_BUSY);
    assert_null(second);
    charl_assert_message("is in use by another job: process ");
    charl_assert_message(" since 20");
    charl__run_close(run);
    assert_int_equal(pipe(out), 0);
    pid = fork();
    if (pid == 0) { /* hold the lock until killed */
        byte = charl__run_open(run_dir, &run) == CHARL_OK ? 'y' : 'n';
        if (write(out[1], &byte, 1) == 1) {
            pause();
        }
        _exit(1);
    }
    assert_int_equal(read(out[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    charl_assert_status(charl__run_open(run_dir, &second), CHARL_ERR_BUSY);
    assert_int_equal(kill(pid, 9), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    charl_assert_ok(charl__run_open(run_dir, &run)); /* free at once */
    charl__run_close(run);
    close(out[0]);
    close(out[1]);
}

/* A .lock that was removed lets no second job in, and comes back. */
static void test_removed_lock(void **state)
{
    const char *lock = charl_test_path(dir, ".lock");
    charl__run *run = NULL, *second = NULL;
    struct stat info;

    (void)state;
    charl_assert_ok(charl__run_open(dir, &run));
    charl_assert_ok(charl__run_check(run));
    assert_int_equal(unlink(lock), 0);
    charl_assert_status(charl__run_open(dir, &second), CHARL_ERR_BUSY);
    charl_assert_message("is in use by another job, whose lock file does not name it");
    charl_assert_ok(charl__run_check(run));
    assert_int_equal(stat(lock, &info), 0);
    assert_true(info.st_size > 0);
    charl_assert_status(charl__run_open(dir, &second), CHARL_ERR_BUSY);
    charl_assert_message("is in use by another job: process ");
    charl__run_close(run);
}

/* On a file system that cannot lock directories a second job may get in; the first one notices. */
static void test_lock_of_another(void **state)
{
    const char *lock = charl_test_path(dir, ".lock");
    charl__run *run = NULL;
    int fd;

    (void)state;
    charl_assert_ok(charl__run_open(dir, &run));
    assert_int_equal(unlink(lock), 0);
    fd = open(lock, O_RDWR | O_CREAT, 0666);
    assert_true(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
    assert_int_equal(write(fd, "process 7 elsewhere\n", 20), 20);
    charl_assert_status(charl__run_check(run), CHARL_ERR_BUSY);
    charl_assert_message("is in use by another job: process 7 elsewhere");
    charl_assert_status(charl__run_check(run), CHARL_ERR_BUSY);
    assert_int_equal(close(fd), 0); /* it has ended */
    charl_assert_ok(charl__run_check(run));
    charl__run_close(run);
}

static void test_replaced_directory(void **state)
{
    char run_dir[600], moved[620];
    charl__run *run = NULL, *second = NULL;

    (void)state;
    snprintf(run_dir, sizeof run_dir, "%s/run", dir);
    snprintf(moved, sizeof moved, "%s.moved", run_dir);
    charl_assert_ok(charl__run_open(run_dir, &run));
    assert_int_equal(rename(run_dir, moved), 0);
    charl_assert_status(charl__run_check(run), CHARL_ERR_DISK);
    charl_assert_message("was removed or replaced");
    charl_assert_ok(charl__run_open(run_dir, &second));
    charl_assert_status(charl__run_check(run), CHARL_ERR_DISK);
    charl_assert_ok(charl__run_check(second));
    charl__run_close(second);
    charl__run_close(run);
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0 && fclose(f) == 0);
}

/* What .lock leads to, or shares its contents with, is not truncated. */
static void test_lock_is_a_link(void **state)
{
    const char *lock = charl_test_path(dir, ".lock"), *other = charl_test_path(dir, "other");
    charl__run *run = NULL;
    struct stat info;

    (void)state;
    for (int i = 0; i < 2; i++) {
        write_text(other, "precious");
        assert_int_equal(i == 0 ? symlink(other, lock) : link(other, lock), 0);
        charl_assert_status(charl__run_open(dir, &run), CHARL_ERR_DISK);
        charl_assert_message(i == 0 ? "is a symbolic link" : "is not a file of its own");
        assert_int_equal(stat(other, &info), 0);
        assert_int_equal(info.st_size, 8);
        assert_int_equal(unlink(lock), 0);
    }
    assert_int_equal(symlink(charl_test_path(dir, "nothing"), lock), 0); /* it leads nowhere */
    charl_assert_status(charl__run_open(dir, &run), CHARL_ERR_DISK);
    assert_int_not_equal(access(charl_test_path(dir, "nothing"), F_OK), 0);
    assert_int_equal(unlink(lock), 0);
    assert_int_equal(mkfifo(lock, 0666), 0);
    charl_assert_status(charl__run_open(dir, &run), CHARL_ERR_DISK);
}

static void test_open_errors(void **state)
{
    char run_dir[600];
    charl__run *run = NULL;

    (void)state;
    snprintf(run_dir, sizeof run_dir, "%s/file", dir);
    assert_int_equal(close(open(run_dir, O_CREAT | O_WRONLY, 0666)), 0);
    charl_assert_status(charl__run_open(run_dir, &run), CHARL_ERR_DISK);
    charl_assert_message(run_dir);
    snprintf(run_dir, sizeof run_dir, "%s/run", dir);
    charl_assert_status(charl__run_open("", &run), CHARL_ERR_INVALID);
    charl_assert_ok(charl__fault_set("io.create:1:28"));
    charl_assert_status(charl__run_open(run_dir, &run), CHARL_ERR_DISK);
    charl_assert_message("No space left");
    charl_assert_ok(charl__fault_set("io.flock:1"));
    charl_assert_ok(charl__run_open(run_dir, &run));
    assert_non_null(strstr(charl__run_get_note(run), "no locks"));
    charl__run_close(run);
}

static charl_status open_scenario(void *ctx)
{
    charl_status st = CHARL_OK;
    charl__run *run = NULL;

    CHARL_TRY_CLEANUP(charl__run_open(ctx, &run));
    CHARL_TRY_CLEANUP(charl__run_link(ctx, "last.h5", 1));
cleanup:
    charl__run_close(run);
    return st;
}

static void test_open_every_acquisition(void **state)
{
    char run_dir[600];

    (void)state;
    snprintf(run_dir, sizeof run_dir, "%s/a/b", dir);
    assert_true(charl_test_fail_every_acquisition(open_scenario, run_dir) > 10);
}

static void test_sweeps_stale_temporaries(void **state)
{
    char path[700];
    charl__run *run = NULL;

    (void)state;
    snprintf(path, sizeof path, "%s/checkpoints/step-00000009.h5.tmp.elsewhere.77", dir);
    assert_int_equal(close(open(path, O_CREAT | O_WRONLY, 0666)), 0);
    charl_assert_ok(charl__run_open(dir, &run));
    assert_int_not_equal(access(path, F_OK), 0);
    charl__run_close(run);
}

/* Processes killed while they save. A child saves step after step and tells each one that is
 * acknowledged; the parent kills it at a random instant. Then the newest checkpoint that verifies
 * must hold its step's exact content and must not be older than the last acknowledged one. 20
 * kills; 500 with CHARL_TEST_LONG=1.
 */

typedef struct tally {
    int kills, loaded, fresh, stale, wrong, older;
} tally;

typedef struct save_request {
    const char *path;
    const charl_checkpoint *checkpoint;
} save_request;

static charl_status checkpoint_crash_save(void *ctx)
{
    const save_request *r = ctx;

    return charl_checkpoint_save(r->path, r->checkpoint);
}

/* What a trainer does, for ever: checkpoint_crash_save, acknowledge on `out`, tidy up. */
static void save_for_ever(int64_t step, bool background, int out)
{
    static sample one;
    charl__run *run = NULL;
    charl_status st = charl__run_open(dir, &run);

    for (; st == CHARL_OK; step++) {
        const charl__run_policy policy = {.step = step, .keep_last = 3, .resumed_step = -1, .best_step = -1};
        charl__job *job = NULL;
        char *path = NULL;

        sample_init(&one, step);
        st = charl__run_path(dir, step, &path);
        st = st ? st : charl__job_start(background, checkpoint_crash_save, &(save_request){path, &one.c}, &job);
        st = st ? st : charl__job_end(job);
        if (st == CHARL_OK && write(out, &step, sizeof step) != (ssize_t)sizeof step) {
            _exit(2);
        }
        st = st ? st : charl__run_link(dir, "last.h5", step);
        st = st ? st : charl__run_retain(dir, &policy, NULL);
        charl_free(path);
    }
    fprintf(stderr, "%s\n", charl_error_message());
    _exit(1);
}

/* Start a child at `step`, kill it after `seconds`; the last step it acknowledged, or -1. */
static int64_t kill_one(int64_t step, bool background, double seconds)
{
    int64_t last = -1, got = 0;
    int out[2], status = 0;
    pid_t pid;

    assert_int_equal(pipe(out), 0);
    pid = fork();
    if (pid == 0) {
        close(out[0]);
        save_for_ever(step, background, out[1]);
    }
    close(out[1]);
    charl__sleep_s(seconds);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status)); /* it did not end by itself */
    while (read(out[0], &got, sizeof got) == (ssize_t)sizeof got) {
        last = got;
    }
    close(out[0]);
    return last;
}

static int count_stale(void)
{
    char command[600], text[16] = "";
    FILE *p;

    snprintf(command, sizeof command, "ls '%s/checkpoints' | grep -c tmp", dir);
    p = popen(command, "r");
    assert_non_null(p);
    assert_non_null(fgets(text, sizeof text, p));
    pclose(p);
    return atoi(text) > 0 ? 1 : 0;
}

static void test_kills(void **state)
{
    const int kills = charl__env_is_on(CHARL_ENV_TEST_LONG) ? 500 : 20;
    const charl__rng key = charl__rng_key(charl_test_seed(), 0, 0);
    int64_t acknowledged = -1;
    tally t = {.kills = kills};

    (void)state;
    if (charl_test_each(2) > 1) {
        return; /* valgrind is too slow for processes that die after milliseconds */
    }
    for (int i = 0; i < kills; i++) {
        const double seconds = 0.001 + 0.08 * (double)charl__rng_uniform(&key, (uint64_t)i);
        const int64_t last = kill_one(acknowledged + 1, i % 2 == 0, seconds);
        charl__run_found found;

        acknowledged = last > acknowledged ? last : acknowledged;
        charl_assert_ok(charl__run_find(dir, INT64_MAX, &found));
        t.older += found.step < acknowledged ? 1 : 0;
        t.wrong += found.n_refused;
        t.wrong += found.path && sample_load(found.path) != found.step ? 1 : 0;
        t.loaded += found.path ? 1 : 0;
        t.fresh += found.path ? 0 : 1;
        t.stale += count_stale();
        acknowledged = found.step > acknowledged ? found.step : acknowledged;
        charl__run_found_fini(&found);
    }
    print_message("%d kills: %d loaded with the exact content, %d before the first save, %d wrong "
                  "or refused, "
                  "%d older than acknowledged; %d left a temporary; last step %lld\n",
                  t.kills, t.loaded, t.fresh, t.wrong, t.older, t.stale, (long long)acknowledged);
    assert_int_equal(t.wrong, 0);
    assert_int_equal(t.older, 0);
    assert_true(acknowledged >= 0);
}

/* Die exactly before and after each step of the commit, with an older checkpoint present. */
static void test_crash_points(void **state)
{
    static const struct {
        const char *fault;
        int64_t newest;
    } cases[] = {
        {"io.crash.written:2", 1}, {"io.crash.synced:2", 1}, {"io.crash.verified:2", 1}, {"io.crash.renamed:2", 2}};

    (void)state;
    if (charl_test_each(2) > 1) {
        assert_int_equal(setup_dir(NULL), 0);
        return;
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        charl__run_found found;
        int status = 0;
        pid_t pid;

        assert_int_equal(setup_dir(NULL), 0);
        pid = fork();
        if (pid == 0) {
            static sample one;
            char *path = NULL;
            charl__run *run = NULL;
            charl_status st = charl__run_open(dir, &run);

            st = st ? st : charl__fault_set(cases[i].fault);
            for (int64_t step = 1; st == CHARL_OK && step <= 2; step++) {
                sample_init(&one, step);
                st = charl__run_path(dir, step, &path);
                st = st ? st : charl_checkpoint_save(path, &one.c);
            }
            _exit(3);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        charl_assert_ok(charl__run_find(dir, INT64_MAX, &found));
        assert_int_equal(found.step, cases[i].newest);
        assert_int_equal(found.n_refused, 0);
        assert_int_equal(sample_load(found.path), cases[i].newest);
        charl__run_found_fini(&found);
        charl_test_tempdir_remove(dir);
    }
    assert_int_equal(setup_dir(NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_find, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_find_ignores_other_names, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_find_refuses_a_renamed_file, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_find_errors, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_find_every_acquisition, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_retain, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_retain_errors, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_paths, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_links, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_lock, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_removed_lock, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_lock_of_another, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_replaced_directory, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_lock_is_a_link, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_open_errors, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_open_every_acquisition, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_sweeps_stale_temporaries, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_kills, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(test_crash_points, NULL, teardown_dir),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
