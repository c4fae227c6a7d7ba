/* Files of a run: what a resumed run removes, those that are written whole, trace files. */
#include "support/support.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "files/run.h"
#include "io/checkpoint_sample.h"
#include "io/commit.h"
#include "train/metrics/metrics.h"
#include "train/metrics/trace_file.h"
#include "train/rundir.h"

/* A run directory beside its checkpoints. Clearing it removes what charl named, and nothing that a user put there. A save that is killed
 * anywhere is completed by the next start. */

static void touch(const char *dir, const char *name)
{
    char path[4096];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
}

static bool exists(const char *dir, const char *name)
{
    char path[4096];
    struct stat info;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return lstat(path, &info) == 0;
}

static void test_clear(void **state)
{
    static const char *const keep[] = {
        "checkpoints/step-1.h5", "checkpoints/step-00000007.h5.bak",
        "checkpoints/notes.txt", "checkpoints/my-step-00000001.h5",
        "metrics.jsonl",         "best.h5",
    };
    char *dir = charl_test_tempdir();
    char path[4096];
    const long live = charl__live();

    (void)state;
    charl_assert_ok(charl__rundir_clear(dir, NULL));
    snprintf(path, sizeof path, "%s/checkpoints", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    touch(dir, "checkpoints/step-00000007.h5");
    touch(dir, "checkpoints/step-123456789.h5");
    for (size_t i = 0; i < sizeof keep / sizeof *keep; i++) {
        touch(dir, keep[i]);
    }
    snprintf(path, sizeof path, "%s/last.h5", dir);
    assert_int_equal(symlink("checkpoints/step-00000007.h5", path), 0);
    touch(dir, "last.onnx");
    charl_assert_ok(charl__rundir_clear(dir, NULL));
    assert_false(exists(dir, "last.onnx"));
    assert_false(exists(dir, "checkpoints/step-00000007.h5"));
    assert_false(exists(dir, "checkpoints/step-123456789.h5"));
    assert_false(exists(dir, "last.h5"));
    for (size_t i = 0; i < sizeof keep / sizeof *keep; i++) {
        assert_true(exists(dir, keep[i])); /* best.h5 here is a file, not charl's link */
    }
    /* But for a file, and links to it. */
    touch(dir, "checkpoints/step-00000008.h5");
    touch(dir, "checkpoints/step-00000009.h5");
    touch(dir, "last.onnx");
    assert_int_equal(symlink("checkpoints/step-00000008.h5", path), 0);
    charl_assert_ok(charl__rundir_clear(dir, path));
    assert_true(exists(dir, "checkpoints/step-00000008.h5") && exists(dir, "last.h5"));
    assert_false(exists(dir, "checkpoints/step-00000009.h5") || exists(dir, "last.onnx"));
    assert_int_equal(charl__live(), live);
    charl_test_tempdir_remove(dir);
}

static void test_supersede(void **state)
{
    char *dir = charl_test_tempdir();
    char path[4096];
    const long live = charl__live();
    int moved = -1;

    (void)state;
    charl_assert_ok(charl__rundir_supersede(dir, 0, &moved)); /* no checkpoints, no error */
    assert_int_equal(moved, 0);
    snprintf(path, sizeof path, "%s/checkpoints", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    touch(dir, "checkpoints/step-00000004.h5");
    touch(dir, "checkpoints/step-00000005.h5");
    touch(dir, "checkpoints/step-00000006.h5");
    touch(dir, "checkpoints/step-00000007.h5");
    touch(dir, "checkpoints/step-123456789.h5");
    touch(dir, "checkpoints/step-9.h5");
    snprintf(path, sizeof path, "%s/best.h5", dir);
    assert_int_equal(symlink("checkpoints/step-00000005.h5", path), 0);
    charl_assert_ok(charl__rundir_supersede(dir, 5, &moved));
    assert_int_equal(moved, 3);
    assert_true(exists(dir, "checkpoints/step-00000004.h5"));
    assert_true(exists(dir, "checkpoints/step-00000005.h5"));
    assert_true(exists(dir, "checkpoints/step-00000006.h5.superseded"));
    assert_true(exists(dir, "checkpoints/step-9.h5"));
    assert_false(exists(dir, "checkpoints/step-00000007.h5"));
    assert_true(exists(dir, "checkpoints/step-00000007.h5.superseded"));
    assert_true(exists(dir, "checkpoints/step-123456789.h5.superseded"));
    assert_int_equal(charl__run_linked(dir, "best.h5"), 5);
    touch(dir, "best.safetensors");
    charl_assert_ok(charl__rundir_supersede(dir, 4, &moved));
    assert_int_equal(moved, 1);
    assert_false(exists(dir, "best.h5") || exists(dir, "best.safetensors"));
    touch(dir, "checkpoints/step-00000008.h5");
    snprintf(path, sizeof path, "%s/checkpoints/step-00000008.h5.superseded", dir);
    assert_int_equal(mkdir(path, 0700), 0); /* rename refuses */
    charl_assert_status(charl__rundir_supersede(dir, 4, &moved), CHARL_ERR_DISK);
    charl_assert_message("cannot rename ");
    /* The rest is renamed at the next start, by the step that was meant. */
    assert_int_equal(rmdir(path), 0);
    charl_assert_ok(charl__rundir_supersede_rest(dir));
    assert_false(exists(dir, "checkpoints/step-00000008.h5") || exists(dir, ".superseding"));
    assert_true(exists(dir, "checkpoints/step-00000008.h5.superseded"));
    touch(dir, "checkpoints/step-00000010.h5");
    charl_assert_ok(charl__rundir_supersede_rest(dir));
    assert_true(exists(dir, "checkpoints/step-00000010.h5"));
    assert_int_equal(charl__live(), live);
    charl_test_tempdir_remove(dir);
}

static void test_errors(void **state)
{
    char *dir = charl_test_tempdir();
    char path[4096];
    char deep[5000];
    const long live = charl__live();

    (void)state;
    touch(dir, "checkpoints"); /* not a directory */
    charl_assert_status(charl__rundir_clear(dir, NULL), CHARL_ERR_DISK);
    charl_assert_message("checkpoints: Not a directory");
    snprintf(path, sizeof path, "%s/checkpoints", dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/checkpoints/step-00000001.h5", dir);
    assert_int_equal(mkdir(path, 0700), 0); /* unlink refuses directories */
    charl_assert_status(charl__rundir_clear(dir, NULL), CHARL_ERR_DISK);
    charl_assert_message("cannot remove ");
    memset(deep, 'd', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    charl_assert_status(charl__rundir_clear(deep, NULL), CHARL_ERR_DISK);
    charl_assert_message("the path dddd");
    charl__fault_after(1);
    charl_assert_status(charl__rundir_clear(dir, NULL), CHARL_ERR_NOMEM);
    charl__fault_after(0);
    assert_int_equal(charl__live(), live);
    charl_test_tempdir_remove(dir);
}

/* The checkpoint of step 1 stays although keep_last is 2. */
enum { STEPS = 4 };
static const int64_t best_at[STEPS + 1] = {-1, 1, 1, 1, 4};

static charl__rundir_plan plan_of(int64_t step, const charl__lock *lock)
{
    return (charl__rundir_plan){
        .policy = {.step = step, .keep_last = 2, .resumed_step = -1, .best_step = best_at[step]},
        .export_format = "safetensors",
        .lock = lock};
}

static void settle(const char *dir, int64_t step, const charl__lock *lock)
{
    const charl__rundir_plan plan = plan_of(step, lock);
    charl__text warnings = {0};

    charl__rundir_update(dir, &plan, &warnings);
    assert_string_equal(charl__text_string(&warnings), "");
    charl__text_fini(&warnings);
}

/* The steps from `step` to `last`, as the trainer saves them. */
static void save_from(const char *dir, int64_t step, int64_t last, charl__lock *lock)
{
    static sample s;

    for (; step <= last; step++) {
        charl__lock_line line = {.kind = CHARL__LOCK_CHECKPOINT, .step = step};
        char *path = NULL;

        sample_init(&s, step);
        s.c.n_tensors = 1;
        charl_assert_ok(charl__lock_tensors(s.tensors, NULL, 1, line.value[CHARL__LOCK_TENSORS]));
        charl_assert_ok(charl__lock_state(&s.c.state, s.c.schema, line.value[CHARL__LOCK_STATE]));
        memset(line.value[CHARL__LOCK_METRICS], '0', CHARL__SHA256_TEXT - 1);
        charl_assert_ok(charl__lock_append(dir, lock, &line));
        charl_assert_ok(charl__run_path(dir, step, &path));
        charl_assert_ok(charl_checkpoint_save(path, &s.c));
        charl_free(path);
        settle(dir, step, lock);
    }
}

/* What a start does: go on after the newest checkpoint, having completed its save, up to step `last`. */
static void start(const char *dir, int64_t last)
{
    charl__run *run = NULL;
    charl__lock lock = {0};
    charl__run_found found = {0};
    charl__text wrong = {0};

    charl_assert_ok(charl__run_open(dir, &run));
    charl_assert_ok(charl__run_find(dir, INT64_MAX, &found));
    if (exists(dir, "run.lock")) {
        charl_assert_ok(charl__lock_read(dir, &lock, &wrong));
    }
    if (found.path) {
        settle(dir, found.step, &lock);
    }
    save_from(dir, found.path ? found.step + 1 : 1, last, &lock);
    charl__run_found_fini(&found);
    charl__lock_fini(&lock);
    charl__text_fini(&wrong);
    charl__run_close(run);
}

/* Names of a directory and its checkpoints, and what links name. run.lock tells of the kill; `.lock` of the process. */
static void list(const char *dir, charl__text *out)
{
    char command[5000], line[512];
    FILE *f;

    snprintf(command, sizeof command, "cd '%s' && find . ! -name .lock -printf '%%p %%y %%l\\n' | LC_ALL=C sort", dir);
    f = popen(command, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        charl_assert_ok(charl__text_printf(out, "%s", line));
    }
    assert_int_equal(pclose(f), 0);
}

/* The export holds the weights of `step`. */
static void check_export(const char *dir, const char *name, int64_t step)
{
    static sample s;
    float values[6];
    FILE *f = fopen(charl_test_path(dir, name), "rb");

    assert_non_null(f);
    assert_int_equal(fseek(f, -(long)sizeof values, SEEK_END), 0);
    assert_int_equal(fread(values, sizeof values, 1, f), 1);
    fclose(f);
    sample_init(&s, step);
    charl_assert_same_bits(values, s.weight, 6);
}

/* A child saves the last step and is killed at the nth time that it passes the point; false: it does not pass it so often. */
static bool is_killed(const char *dir, const char *point, int n)
{
    char fault[64];
    int status = 0;
    const pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        snprintf(fault, sizeof fault, "%s:%d", point, n);
        charl_assert_ok(charl__fault_set(fault));
        start(dir, STEPS);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    return WIFSIGNALED(status);
}

static void test_killed(void **state)
{
    static const char *const points[] = {"io.crash.verified", "io.crash.renamed", "io.crash.symlink", "io.crash.linked",
                                         "io.crash.removed"};
    char *whole = charl_test_tempdir();
    char command[2100], *before = charl_test_tempdir();
    charl__text want = {0};
    int kills = 0;

    (void)state;
    start(before, STEPS - 1);
    start(whole, STEPS);
    list(whole, &want);
    assert_non_null(strstr(charl__text_string(&want), "./best.h5 l checkpoints/step-00000004.h5"));
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        bool killed = true;

        for (int n = 1; killed; n += charl_test_each(3)) {
            char *dir = charl_test_tempdir();
            charl__text got = {0};

            snprintf(command, sizeof command, "cp -a '%s/.' '%s'", before, dir);
            assert_int_equal(system(command), 0);
            killed = is_killed(dir, points[i], n);
            kills += killed;
            start(dir, STEPS); /* also after the last save: nothing is left to do but to complete it */
            list(dir, &got);
            assert_string_equal(charl__text_string(&got), charl__text_string(&want));
            check_export(dir, "last.safetensors", STEPS);
            check_export(dir, "best.safetensors", STEPS);
            charl__text_fini(&got);
            charl_test_tempdir_remove(dir);
        }
    }
    assert_true(kills >= 5);
    charl__text_fini(&want);
    charl_test_tempdir_remove(whole);
    charl_test_tempdir_remove(before);
}

/* A start leaves alone what is right, and an export of a line that does not record the checkpoint is written again. */
static void test_settle(void **state)
{
    char *dir = charl_test_tempdir();
    charl__lock lock = {0};
    charl__text wrong = {0};
    struct stat before, after;

    (void)state;
    start(dir, STEPS);
    charl_assert_ok(charl__lock_read(dir, &lock, &wrong));
    assert_int_equal(stat(charl_test_path(dir, "last.safetensors"), &before), 0);
    settle(dir, STEPS, &lock);
    assert_int_equal(stat(charl_test_path(dir, "last.safetensors"), &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(unlink(charl_test_path(dir, "best.safetensors")), 0);
    touch(dir, "last.safetensors");
    settle(dir, STEPS, &lock);
    check_export(dir, "last.safetensors", STEPS);
    check_export(dir, "best.safetensors", STEPS);
    charl__lock_fini(&lock);
    charl__text_fini(&wrong);
    charl_test_tempdir_remove(dir);
}

/* Files of a run that are written whole, and the log: what a link in their place leads to stays as it is. */
static void test_files(void **state)
{
    char *dir = charl_test_tempdir(), path[600], other[600], text[64] = "";
    FILE *f;

    (void)state;
    charl_assert_status(charl__metrics_write_file("/no/such/dir", "x", "y"), CHARL_ERR_DISK);
    charl_assert_message(
        "/no/such/dir/x: create failed: the folder /no/such/dir does not exist; make it with: mkdir -p '/no/such/dir'");
    snprintf(other, sizeof other, "%s/other", dir);
    charl_assert_ok(charl__metrics_write_file(dir, "other", "precious"));
    for (int i = 0; i < 2; i++) { /* a symbolic link, and another name */
        snprintf(path, sizeof path, "%s/train.log", dir);
        assert_int_equal(i == 0 ? symlink(other, path) : link(other, path), 0);
        charl_assert_status(charl__log_open(path, true, &f), CHARL_ERR_DISK);
        charl_assert_message("train.log: is ");
        assert_int_equal(unlink(path), 0);
    }
    snprintf(path, sizeof path, "%s/metrics.csv", dir);
    assert_int_equal(symlink(other, path), 0);
    charl_assert_status(charl__metrics_write_file(dir, "metrics.csv", "x"), CHARL_ERR_DISK);
    charl_assert_message("metrics.csv: exists and is not a regular file");
    f = fopen(other, "r");
    assert_non_null(f);
    assert_int_equal(fread(text, 1, sizeof text - 1, f), strlen("precious"));
    assert_string_equal(text, "precious");
    fclose(f);
    charl_test_tempdir_remove(dir);
}

/* Time lines: overlap of made-up spans, and threads for what overlaps in a lane. */

static void add(charl__trace *t, charl__lane lane, const char *name, double begin_s, double end_s)
{
    charl__trace_add(t, &(charl__trace_span){.lane = lane,
                                             .name = charl__trace_number(t, name),
                                             .label = charl__trace_number(t, "layer \"x\""),
                                             .begin_s = begin_s,
                                             .end_s = end_s});
}

static void expect_overlap(const charl__trace *t, double way_s, double hidden_s)
{
    double way = -1, hidden = -1;

    charl_assert_ok(charl__trace_overlap(t, &way, &hidden));
    assert_true(fabs(way - way_s) < 1e-9);
    assert_true(fabs(hidden - hidden_s) < 1e-9);
}

static void test_overlap(void **state)
{
    charl__trace *t = NULL;

    (void)state;
    charl_assert_ok(charl__trace_create(&t));
    expect_overlap(t, 0, 0);
    add(t, CHARL__LANE_ALLREDUCE, "a", 10, 12);
    expect_overlap(t, 2, 0);
    add(t, CHARL__LANE_COMPUTE, "k", 11.5, 13); /* covers the end */
    expect_overlap(t, 2, 0.5);
    add(t, CHARL__LANE_ALLREDUCE, "b", 11, 12.5); /* counted once where two are on their way */
    expect_overlap(t, 2.5, 1);
    add(t, CHARL__LANE_COMPUTE, "k", 9, 10.25);
    add(t, CHARL__LANE_COMPUTE, "k", 10, 10.5); /* overlaps the kernel before it */
    expect_overlap(t, 2.5, 1.5);
    add(t, CHARL__LANE_COMMUNICATE, "sums", 20, 21); /* on the device */
    add(t, CHARL__LANE_COMPUTE, "k", 20.5, 20.75);
    add(t, CHARL__LANE_COMPUTE, "k", 20.8, 20.9);
    expect_overlap(t, 3.5, 1.85);
    add(t, CHARL__LANE_UPLOAD, "write", 0, 100); /* neither */
    add(t, CHARL__LANE_HOST, "step", 0, 100);
    expect_overlap(t, 3.5, 1.85);
    charl__trace_destroy(t);
}

static int count(const char *text, const char *part)
{
    int n = 0;

    for (const char *p = strstr(text, part); p; p = strstr(p + 1, part)) {
        n++;
    }
    return n;
}

static void test_print(void **state)
{
    const long live = charl__live();
    const charl__trace_clock clock = {.host_s = 100, .offset_s = 2, .drift = 0.5, .zero_s = 98};
    charl__trace *t = NULL;
    charl__text out = {0};
    const char *text;

    (void)state;
    charl_assert_ok(charl__trace_create(&t));
    add(t, CHARL__LANE_ALLREDUCE, "first", 100, 101);
    add(t, CHARL__LANE_ALLREDUCE, "beside", 100.5, 102);
    add(t, CHARL__LANE_ALLREDUCE, "after", 101, 101.5);
    add(t, CHARL__LANE_HOST, "inner", 100.25, 100.5);
    add(t, CHARL__LANE_HOST, "outer", 100, 102); /* holds the other: one thread */
    charl_assert_ok(charl__trace_print(t, &clock, 3, "rank 3: a \"host\"", &out));
    text = charl__text_string(&out);
    assert_int_equal(count(text, "\"name\":\"thread_name\""), 3);
    assert_int_equal(count(text, "\"name\":\"all-reduce 2\""), 1);
    assert_non_null(strstr(text, "{\"name\":\"rank 3: a \\\"host\\\"\"}"));
    assert_int_equal(count(text, "\"layer\":\"layer \\\"x\\\"\""), 5);
    /* 101 s: less the offset of 2 s, the drift of half a second in one, and the zero at 98 s */
    assert_non_null(strstr(
        text, "\"pid\":3,\"tid\":769,\"ts\":500000.000,\"dur\":250000.000,\"cat\":\"all-reduce\",\"name\":\"after\""));
    assert_true(strstr(text, "\"outer\"") < strstr(text, "\"inner\""));
    charl__text_fini(&out);
    charl__trace_destroy(t);
    assert_int_equal(charl__live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clear),   cmocka_unit_test(test_supersede), cmocka_unit_test(test_errors),
        cmocka_unit_test(test_killed),  cmocka_unit_test(test_settle),    cmocka_unit_test(test_files),
        cmocka_unit_test(test_overlap), cmocka_unit_test(test_print),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
