/* Saving in the background: the copy is the caller's state of that moment, errors come out of poll
 * and wait. */
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "io/checkpoint_sample.h"
#include "io/scratch.h"

static sample s;
static char path[512];

static int setup(void **state)
{
    setup_dir(state);
    snprintf(path, sizeof path, "%s/a.h5", dir);
    sample_init(&s, 7);
    return 0;
}

static void poll_until_done(charl_checkpoint_writer *w, charl_status want)
{
    bool done = false;
    charl_status st = CHARL_OK;

    while (!done) {
        st = charl_checkpoint_writer_poll(w, &done);
        assert_true(done || st == CHARL_OK);
        charl__sleep_s(0.001);
    }
    charl_assert_status(st, want);
}

static void save_and_change(bool background)
{
    charl_checkpoint_writer *w = NULL;

    charl_assert_ok(charl_checkpoint_writer_create(background, &w));
    charl_assert_ok(charl_checkpoint_writer_wait(w)); /* nothing to wait for */
    for (int64_t step = 7; step < 10; step++) {
        charl_checkpoint c;
        charl_checkpoint_tensor tensors[SAMPLE_TENSORS];

        sample_init(&s, step);
        c = s.c;
        memcpy(tensors, s.tensors, sizeof tensors);
        c.tensors = tensors;
        charl_assert_ok(charl_checkpoint_writer_begin(w, path, &c));
        charl_assert_status(charl_checkpoint_writer_begin(w, path, &s.c), CHARL_ERR_INVALID);
        memset(tensors, 0xff, sizeof tensors); /* the caller's memory is the caller's again */
        memset(s.large, 0, sizeof s.large);
        memset(s.weight, 0, sizeof s.weight);
        memset(s.resolved, 0, sizeof s.resolved);
        if (step % 2) {
            poll_until_done(w, CHARL_OK);
        } else {
            charl_assert_ok(charl_checkpoint_writer_wait(w));
        }
        assert_int_equal(sample_load(path), step);
    }
    charl_checkpoint_writer_destroy(w);
}

static void test_background(void **state)
{
    (void)state;
    save_and_change(true);
}

static void test_foreground(void **state)
{
    (void)state;
    save_and_change(false);
}

static void test_grows(void **state)
{
    charl_checkpoint_writer *w = NULL;
    static float big[100000];

    (void)state;
    charl_assert_ok(charl_checkpoint_writer_create(true, &w));
    charl_assert_ok(charl_checkpoint_writer_begin(w, path, &s.c));
    charl_assert_ok(charl_checkpoint_writer_wait(w));
    s.tensors[1].shape = (charl_shape){1, {100000}};
    s.tensors[1].data = big;
    charl_assert_ok(charl_checkpoint_writer_begin(w, path, &s.c));
    charl_assert_ok(charl_checkpoint_writer_wait(w));
    charl_assert_ok(charl_checkpoint_verify(path));
    charl_checkpoint_writer_destroy(w);
}

static void test_errors_come_out(void **state)
{
    charl_checkpoint_writer *w = NULL;
    bool done = false;

    (void)state;
    charl_assert_ok(charl_checkpoint_writer_create(true, &w));
    charl_assert_ok(charl_checkpoint_save(path, &s.c));
    charl_assert_ok(charl__fault_set("io.enospc:2+"));
    sample_init(&s, 8);
    charl_assert_ok(charl_checkpoint_writer_begin(w, path, &s.c));
    charl_assert_status(charl_checkpoint_writer_wait(w), CHARL_ERR_DISK);
    charl_assert_message("No space left on device");
    charl_assert_message("bytes needed");
    charl_assert_ok(charl_checkpoint_writer_wait(w)); /* told once */
    assert_int_equal(sample_load(path), 7);           /* the old one is untouched */
    charl_assert_ok(charl_checkpoint_writer_begin(w, path, &s.c));
    poll_until_done(w, CHARL_ERR_DISK);
    charl_assert_ok(charl_checkpoint_writer_poll(w, &done));
    assert_true(done);
    charl_assert_ok(charl__fault_set(NULL));
    s.c.state.slices = 0;
    charl_assert_ok(charl_checkpoint_writer_begin(w, path, &s.c));
    charl_assert_status(charl_checkpoint_writer_wait(w), CHARL_ERR_INVALID);
    s.c.n_tensors = -1;
    charl_assert_status(charl_checkpoint_writer_begin(w, path, &s.c), CHARL_ERR_INVALID);
    sample_init(&s, 9); /* and it goes on working */
    charl_assert_ok(charl_checkpoint_writer_begin(w, path, &s.c));
    charl_assert_ok(charl_checkpoint_writer_wait(w));
    assert_int_equal(sample_load(path), 9);
    charl_checkpoint_writer_destroy(w);
}

static void test_destroy_waits(void **state)
{
    charl_checkpoint_writer *w = NULL;

    (void)state;
    charl_assert_ok(charl_checkpoint_writer_create(true, &w));
    charl_assert_ok(charl_checkpoint_writer_begin(w, path, &s.c));
    charl_checkpoint_writer_destroy(w);
    assert_int_equal(sample_load(path), 7);
    charl_checkpoint_writer_destroy(NULL);
}

static charl_status scenario(void *ctx)
{
    charl_status st = CHARL_OK;
    charl_checkpoint_writer *w = NULL;

    (void)ctx;
    CHARL_TRY_CLEANUP(charl_checkpoint_writer_create(true, &w));
    CHARL_TRY_CLEANUP(charl_checkpoint_writer_begin(w, path, &s.c));
    CHARL_TRY_CLEANUP(charl_checkpoint_writer_wait(w));
cleanup:
    charl_checkpoint_writer_destroy(w);
    return st;
}

static void test_every_acquisition(void **state)
{
    (void)state;
    assert_true(charl_test_fail_every_acquisition(scenario, NULL) > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_background, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_foreground, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_grows, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_errors_come_out, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_destroy_waits, setup, teardown_dir),
        cmocka_unit_test_setup_teardown(test_every_acquisition, setup, teardown_dir),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
