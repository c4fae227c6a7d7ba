/* The mean of checkpoints: exact sums, the newest state, and nothing left behind by failures. What
 * is refused: tests/cli/test_charl_checkpoint.sh. */
#include "io/checkpoint_sample.h"
#include "io/scratch.h"

enum { FILES = 3, WEIGHTS = 2 };

static char path[FILES][512], out[512];
static const char *const paths[FILES] = {path[0], path[1], path[2]};
static const int64_t steps[FILES] = {4, 9, 2};

static int setup(void **state)
{
    static sample s;

    setup_dir(state);
    for (int k = 0; k < FILES; k++) {
        snprintf(path[k], sizeof path[k], "%s/%d.h5", dir, k);
        sample_init(&s, steps[k]);
        s.c.n_tensors = WEIGHTS;
        charl_assert_ok(charl_checkpoint_save(path[k], &s.c));
    }
    snprintf(out, sizeof out, "%s/mean.h5", dir);
    return 0;
}

static void test_mean(void **state)
{
    static sample s[FILES];
    static float mean[SAMPLE_LARGE];
    charl_checkpoint_reader *r = NULL;

    (void)state;
    charl_assert_ok(charl_checkpoint_average(paths, FILES, out));
    charl_assert_ok(charl_checkpoint_open(out, &r));
    assert_int_equal(charl_checkpoint_get_info(r).n_tensors, WEIGHTS);
    assert_int_equal(charl_checkpoint_get_info(r).state->step, 9);
    assert_true(isnan(charl_checkpoint_get_info(r).state->best_metric));
    assert_string_equal(charl_checkpoint_get_info(r).state->optim_kind, CHARL_CHECKPOINT_NO_OPTIMIZER);
    assert_string_equal(charl_checkpoint_get_info(r).config_resolved, "train.steps = 9\n");
    for (int k = 0; k < FILES; k++) {
        sample_init(&s[k], steps[k]);
    }
    charl_assert_ok(charl_checkpoint_read(r, charl_checkpoint_find(r, "model", "conv.weight"), mean));
    for (int i = 0; i < SAMPLE_LARGE; i++) {
        const double sum = (double)s[0].large[i] + (double)s[1].large[i] + (double)s[2].large[i];

        assert_true(mean[i] == (float)(sum / 3));
    }
    assert_true(sample_same_schema(charl_checkpoint_get_info(r).schema, &s[1].schema));
    charl_checkpoint_close(r);
    charl_assert_status(charl_checkpoint_average(paths, 0, out), CHARL_ERR_INVALID);
}

/* Weights for classes in another order have no mean; what does not say its classes is taken. */
static void test_other_classes(void **state)
{
    static sample s;
    const char *with[2] = {path[0], charl_test_path(dir, "other.h5")};

    (void)state;
    sample_init(&s, 4);
    s.c.n_tensors = WEIGHTS;
    s.schema.class_names = sample_text("d\xc3\xb6g\ncat");
    charl_assert_ok(charl_checkpoint_save(with[1], &s.c));
    charl_assert_status(charl_checkpoint_average(with, 2, out), CHARL_ERR_CHECKPOINT);
    charl_assert_message("were trained on data with other classes");
    charl_assert_message("schema: class names: other text");
    sample_init_v1(&s, 4);
    s.c.n_tensors = WEIGHTS;
    charl_assert_ok(charl_checkpoint_save(with[1], &s.c));
    charl_assert_ok(charl_checkpoint_average(with, 2, out));
}

static charl_status scenario(void *ctx)
{
    (void)ctx;
    return charl_checkpoint_average(paths, FILES, out);
}

static void test_faults(void **state)
{
    (void)state;
    charl_test_fail_every_acquisition(scenario, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mean), cmocka_unit_test(test_other_classes),
                                       cmocka_unit_test(test_faults)};

    return cmocka_run_group_tests(tests, setup, teardown_dir);
}
