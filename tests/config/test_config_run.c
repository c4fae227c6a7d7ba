/* Settings that have no effect in a run, or another one than it seems: what is told of each, and nothing of others. */
#include <string.h>

#include "config/config_run.h"
#include "support/support.h"

static const charl__run_facts ten = {.steps = 10, .batch = 8, .train_rows = 40, .val_rows = 10};
static const charl__run_facts cut = {.steps = 10, .batch = 8, .train_rows = 40, .val_rows = 10, .val_is_cut = true};
static const charl__run_facts none = {.steps = 10, .batch = 8, .train_rows = 40};

static const struct {
    const charl__run_facts *facts;
    const char *set;  /* what follows [data] */
    const char *said; /* NULL: nothing */
} cases[] = {
    {&ten, "", NULL},
    {&none, "", NULL},
    {&ten, "[scheduler]\nwarmup_steps = 9\n", NULL},
    {&ten, "[scheduler]\nwarmup_steps = 20\n[optimizer]\nlearning_rate = 0.21\n",
     "scheduler.warmup_steps = 20 is not shorter than the run of 10 steps: the learning rate only reaches 0.1 of 0.21"},
    {&ten, "[eval]\ninterval = 10\n[checkpoint]\ninterval = 10\n", NULL},
    {&ten, "[eval]\ninterval = 11\n",
     "eval.interval is longer than the run of 10 steps: it is evaluated once, at the end"},
    {&ten, "[eval]\ninterval = 3ep\n", "eval.interval is longer than the run"},
    {&ten, "[eval]\ninterval = 30m\n", NULL},
    {&ten, "[checkpoint]\ninterval = 11\n", "checkpoint.interval is longer than the run of 10 steps: one checkpoint"},
    {&ten, "[train]\nearly_stopping_patience = 1\n", NULL},
    {&ten, "[train]\nearly_stopping_patience = 2\n",
     "train.early_stopping_patience = 2 cannot stop this run, which is evaluated 2 times"},
    {&ten, "[scheduler]\ntype = step\nstep_size = 9\n", NULL},
    {&ten, "[scheduler]\ntype = step\nstep_size = 10\n", "scheduler.step_size = 10 is not shorter"},
    {&ten, "[scheduler]\ntype = multistep\nmilestones = 5, 9\n", NULL},
    {&ten, "[scheduler]\ntype = multistep\nmilestones = 5, 10, 20\n",
     "scheduler.milestones: 2 of 3 are not before the end of the run, at step 10"},
    {&ten, "[train]\nema_decay = 0.9\n", NULL},
    {&ten, "[train]\nema_decay = 0.99\n",
     "train.ema_decay = 0.99: after the 10 steps of the run the average, which is evaluated and kept as the best, "
     "still has 90 %"},
    {&ten, "[train]\nspike_window = 4\n", "train.spike_window = 4 has no effect: train.on_spike is off"},
    {&ten, "[train]\nspike_window = 4\non_spike = warn\n", NULL},
    {&ten, "[train]\non_spike = warn\n",
     "train.spike_window = 128 is not shorter than the run of 10 steps: no step can be a spike"},
    {&ten, "[lora]\nrank = 2\n", "lora.rank without init.from: the weights under the adapters stay random"},
    {&ten, "[lora]\nrank = 2\n[init]\nfrom = a.safetensors\n", NULL},
    {&ten, "[train]\nfreeze = fc1.*\n", "train.freeze without init.from: the frozen weights stay random"},
    {&ten, "[train]\nmax_nonfinite_steps = 4\n",
     "train.max_nonfinite_steps = 4 has no effect: train.on_nonfinite is stop"},
    {&none, "[eval]\ninterval = 2\n", "eval.interval = 2 has no effect: there are no validation rows"},
    {&ten, "[eval]\ninterval = 0\n[checkpoint]\nmonitor = val/accuracy\n",
     "checkpoint.monitor = val/accuracy has no effect: eval.interval is 0, so nothing is evaluated"},
    {&none, "[eval]\nmetrics = f1\n", "eval.metrics = f1 has no effect: there are no validation rows"},
    {&ten, "val_split = 0.2\n", "data.val_split = 0.2 has no effect: the data have a validation set"},
    {&cut, "val_split = 0.2\n", NULL},
    {&ten, "shuffle_window = 64\n", "data.shuffle_window = 64 has no effect: data.shuffle is not blocks"},
    {&ten, "[eval]\nsample_tokens = 9\n", "eval.sample_tokens = 9 has no effect: there is no eval.sample_prompt"},
    {&ten, "[eval]\nsample_tokens = 64\n", NULL}, /* the default, as config.ini in a run directory has it */
};

static void test_runs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        charl_config *cfg = NULL;
        charl__text text = {0}, said = {0};

        charl_assert_ok(charl__text_printf(&text, "[model]\ntype = mlp\n[data]\npath = a.h5\n%s", cases[i].set));
        charl_assert_ok(charl_config_parse("a.ini", charl__text_string(&text), text.length, NULL, 0, &cfg));
        charl_assert_ok(charl__config_check_run(cfg, cases[i].facts, &said));
        if (cases[i].said ? strncmp(charl__text_string(&said), cases[i].said, strlen(cases[i].said)) != 0
                          : said.length > 0) {
            fail_msg("%s: \"%s\"", cases[i].set, charl__text_string(&said));
        }
        assert_null(strchr(charl__text_string(&said), '\n'));
        charl__text_fini(&said);
        charl__text_fini(&text);
        charl_config_destroy(cfg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_runs)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
