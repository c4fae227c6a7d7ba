/* Processes killed while they save. A child saves step after step and tells each one that is
 * acknowledged; the parent kills it at a random instant. Then the newest checkpoint that verifies
 * must hold its step's exact content and must not be older than the last acknowledged one. 20
 * kills; 500 with CHARL_TEST_LONG=1.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/env.h"
#include "files/job.h"
#include "base/numeric/rng.h"
#include "files/run.h"
#include "io/checkpoint_sample.h"
#include "io/scratch.h"

typedef struct tally {
    int kills, loaded, fresh, stale, wrong, older;
} tally;

typedef struct save_request {
    const char *path;
    const charl_checkpoint *checkpoint;
} save_request;

static charl_status save(void *ctx)
{
    const save_request *r = ctx;

    return charl_checkpoint_save(r->path, r->checkpoint);
}

/* What a trainer does, for ever: save, acknowledge on `out`, tidy up. */
static void save_for_ever(int64_t step, bool background, int out)
{
    static sample s;
    charl__run *run = NULL;
    charl_status st = charl__run_open(dir, &run);

    for (; st == CHARL_OK; step++) {
        const charl__run_policy policy = {.step = step, .keep_last = 3, .resumed_step = -1, .best_step = -1};
        charl__job *job = NULL;
        char *path = NULL;

        sample_init(&s, step);
        st = charl__run_path(dir, step, &path);
        st = st ? st : charl__job_start(background, save, &(save_request){path, &s.c}, &job);
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
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        charl__run_found found;
        int status = 0;
        pid_t pid;

        assert_int_equal(setup_dir(NULL), 0);
        pid = fork();
        if (pid == 0) {
            static sample s;
            char *path = NULL;
            charl__run *run = NULL;
            charl_status st = charl__run_open(dir, &run);

            st = st ? st : charl__fault_set(cases[i].fault);
            for (int64_t step = 1; st == CHARL_OK && step <= 2; step++) {
                sample_init(&s, step);
                st = charl__run_path(dir, step, &path);
                st = st ? st : charl_checkpoint_save(path, &s.c);
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
        cmocka_unit_test_setup_teardown(test_kills, setup_dir, teardown_dir),
        cmocka_unit_test_setup_teardown(test_crash_points, NULL, teardown_dir),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
