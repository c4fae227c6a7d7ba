/* What a run makes of a configuration: intervals and durations, groups of parameters, settings without effect, differences between two. */
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "base/alloc.h"
#include "config/config_run.h"
#include "config/diff.h"
#include "config/model/config_groups.h"
#include "config/text/interval.h"

/* Intervals and durations: every form, every refusal, and when one is due. */

static void test_intervals(void **state)
{
    static const struct {
        const char *text;
        charl__interval_unit unit;
        int64_t count;
        const char *printed;
    } cases[] = {
        {"500", CHARL__INTERVAL_STEPS, 500, "500"},
        {"500 steps", CHARL__INTERVAL_STEPS, 500, "500"},
        {"1ep", CHARL__INTERVAL_EPOCHS, 1, "1ep"},
        {"3 epochs", CHARL__INTERVAL_EPOCHS, 3, "3ep"},
        {"1 epoch", CHARL__INTERVAL_EPOCHS, 1, "1ep"},
        {"30m", CHARL__INTERVAL_SECONDS, 1800, "30m"},
        {"5min", CHARL__INTERVAL_SECONDS, 300, "5m"},
        {"45s", CHARL__INTERVAL_SECONDS, 45, "45s"},
        {"2h", CHARL__INTERVAL_SECONDS, 7200, "120m"},
        {"1d", CHARL__INTERVAL_SECONDS, 86400, "1440m"},
        {"0", CHARL__INTERVAL_OFF, 0, "0"},
        {"0ep", CHARL__INTERVAL_OFF, 0, "0"},
        {"none", CHARL__INTERVAL_OFF, 0, "0"},
        {"1000000000000", CHARL__INTERVAL_STEPS, 1000000000000, "1000000000000"},
        {"10M tokens", CHARL__INTERVAL_TOKENS, 10000000, "10000000 tokens"},
        {"4.35k tok", CHARL__INTERVAL_TOKENS, 4350, "4350 tokens"},
        {"1 token", CHARL__INTERVAL_TOKENS, 1, "1 tokens"},
        {"1.1B tokens", CHARL__INTERVAL_TOKENS, 1100000000, "1100000000 tokens"},
        {"15Ttok", CHARL__INTERVAL_TOKENS, 15000000000000, "15000000000000 tokens"},
        {"3e8 tokens", CHARL__INTERVAL_TOKENS, 300000000, "300000000 tokens"},
    };
    static const char *const bad[] = {"",
                                      "ep",
                                      "-1",
                                      "1.5ep",
                                      "1 ep x",
                                      "1e3",
                                      "1w",
                                      "x",
                                      " 1",
                                      "1epp",
                                      "1000000000001",
                                      "9999999999999999999999",
                                      "0 tokens",
                                      "1.5 tokens",
                                      "tokens",
                                      "M tokens",
                                      "5K tokens",
                                      "5G tokens",
                                      "-1 tokens",
                                      "2000T tokens",
                                      "5 k tokens x"};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        charl__interval v = {CHARL__INTERVAL_OFF, -1};
        char text[64];

        assert_true(charl__interval_parse(cases[i].text, &v));
        assert_int_equal(v.unit, cases[i].unit);
        assert_int_equal(v.count, cases[i].count);
        assert_string_equal(charl__interval_format(v, text, sizeof text), cases[i].printed);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        charl__interval v = {CHARL__INTERVAL_OFF, -1};

        assert_false(charl__interval_parse(bad[i], &v));
        assert_int_equal(v.count, -1);
    }
}

static void test_durations(void **state)
{
    static const struct {
        const char *text;
        double seconds;
        const char *printed;
    } cases[] = {
        {"", 0, ""},
        {"00:00:05", 5, "00:00:05"},
        {"1:02:03", 3723, "01:02:03"},
        {"100:00:00", 360000, "4-04:00:00"},
        {"2-03:04:05", 183845, "2-03:04:05"},
        {"90s", 90, "00:01:30"},
        {"30m", 1800, "00:30:00"},
        {"2h", 7200, "02:00:00"},
        {"1d", 86400, "1-00:00:00"},
    };
    static const char *const bad[] = {"5",        "1:00",     "1:60:00",        "1:00:60", "1-24:00:00", "1:2:3",
                                      "-1:00:00", "1:00:00x", "1-1:00",         "1.5h",    "h",          "1-",
                                      "1:00:000", "1:000:00", "9999999999999h", "0:00:00", "0s"};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double s = -1;
        char text[64];

        assert_true(charl__duration_parse(cases[i].text, &s));
        assert_true(s == cases[i].seconds);
        assert_string_equal(charl__duration_format(s, text, sizeof text), cases[i].printed);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double s = -1;

        assert_false(charl__duration_parse(bad[i], &s));
        assert_true(s == -1);
    }
}

/* Every epoch is reported exactly once, by the step that completes it, also when batches straddle
 * epochs. */
static void test_due(void **state)
{
    const charl__interval steps = {CHARL__INTERVAL_STEPS, 3};
    const charl__interval seconds = {CHARL__INTERVAL_SECONDS, 60};
    const charl__interval off = {CHARL__INTERVAL_OFF, 0};
    const charl__interval automatic = {CHARL__INTERVAL_AUTO, 0};

    (void)state;
    assert_false(charl__interval_due(steps, 0, 1, 1, 0));
    assert_false(charl__interval_due(steps, 2, 1, 1, 0));
    assert_true(charl__interval_due(steps, 3, 1, 1, 0));
    assert_false(charl__interval_due(seconds, 1, 1, 1, 59.9));
    assert_true(charl__interval_due(seconds, 1, 1, 1, 60));
    assert_false(charl__interval_due(off, 3, 1, 1, 1e9));
    assert_true(charl__interval_due(automatic, 4, 5, 10, 10));
    assert_false(charl__interval_due(automatic, 4, 5, 10, 9.9)); /* an epoch, but too early */
    assert_false(charl__interval_due(automatic, 5, 5, 10, 1e9)); /* within an epoch */
    for (int64_t rows = 1; rows < 30; rows++) {
        for (int64_t batch = 1; batch < 12; batch++) {
            for (int64_t every = 1; every < 4; every++) {
                const charl__interval epochs = {CHARL__INTERVAL_EPOCHS, every};

                for (int64_t step = 1; step < 40; step++) {
                    bool want = false;

                    for (int64_t s = (step - 1) * batch + 1; s <= step * batch; s++) {
                        want = want || s % (rows * every) == 0;
                    }
                    assert_int_equal(charl__interval_due(epochs, step, batch, rows, 0), want);
                }
            }
        }
    }
}

/* optimizer.groups: patterns, rules, and what parameters get. */

static void test_patterns(void **state)
{
    (void)state;
    assert_true(charl__text_matches("*", "fc1.weight"));
    assert_true(charl__text_matches("*.bias", "h.0.attn.c_attn.bias"));
    assert_true(charl__text_matches("h.?.*.weight", "h.3.ln_1.weight"));
    assert_true(charl__text_matches("a*b*c", "axxbxxbc"));
    assert_true(charl__text_matches("fc1.weight", "fc1.weight"));
    assert_false(charl__text_matches("fc1.weight", "fc1.weights"));
    assert_false(charl__text_matches("fc1.weights", "fc1.weight"));
    assert_false(charl__text_matches("h.?.weight", "h.10.weight"));
    assert_false(charl__text_matches("*.bias", "fc1.weight"));
    assert_false(charl__text_matches("", "a"));
    assert_true(charl__text_matches("", ""));
}

static void test_rules(void **state)
{
    charl__group g[CHARL__MAX_GROUPS];
    char why[256], many[1024] = "", name[400];
    int n;

    (void)state;
    charl__groups_parse(" *.bias weight_decay=0 ,\nwte.*  lr_scale=0.5 weight_decay=1e-2", g, &n, why, sizeof why);
    assert_string_equal(why, "");
    assert_int_equal(n, 2);
    assert_string_equal(g[0].pattern, "*.bias");
    assert_true(g[0].weight_decay == 0.0 && g[0].lr_scale < 0.0);
    assert_string_equal(g[1].pattern, "wte.*");
    assert_true(g[1].weight_decay == 0.01 && g[1].lr_scale == 0.5);
    charl__groups_parse("", g, &n, why, sizeof why);
    assert_true(n == 0 && why[0] == '\0');
    charl__groups_parse("a weight_decay=-1", g, &n, why, sizeof why);
    assert_non_null(strstr(why, "weight_decay=-1"));
    charl__groups_parse("a lr_scale=1,,b lr_scale=1", g, &n, why, sizeof why);
    assert_non_null(strstr(why, "sets nothing"));
    for (int i = 0; i <= CHARL__MAX_GROUPS; i++) {
        snprintf(many + strlen(many), sizeof many - strlen(many), "p%d lr_scale=1,", i);
    }
    charl__groups_parse(many, g, &n, why, sizeof why);
    assert_non_null(strstr(why, "more than 32 groups"));
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    charl__groups_parse(name, g, &n, why, sizeof why);
    assert_non_null(strstr(why, "too long"));
}

static charl_param *add(charl_params *set, const char *name, charl_shape shape, bool embedding)
{
    charl_param *p = NULL;

    charl_assert_ok(charl_params_add(
        set, &(charl_param_spec){.name = name, .shape = shape, .trainable = true, .embedding = embedding}, &p));
    return p;
}

static void test_settings(void **state)
{
    charl_config c = {.optimizer.groups = "", .optimizer.layer_decay = 1.0};
    charl_params *set = NULL;
    charl_param *wte, *w, *bias, *head;

    (void)state;
    charl_assert_ok(charl_params_create(&set));
    wte = add(set, "wte.weight", (charl_shape){2, {20, 8}}, true);
    w = add(set, "fc.weight", (charl_shape){2, {8, 8}}, false);
    bias = add(set, "fc.bias", (charl_shape){1, {8}}, false);
    head = add(set, "head.weight", (charl_shape){2, {10, 8}}, false);
    charl_assert_ok(charl__groups_apply(&c, NULL, set, 10));
    assert_true(charl_param_get_settings(wte).muon_exclude && charl_param_get_settings(head).muon_exclude);
    assert_false(charl_param_get_settings(w).muon_exclude);
    assert_true(charl_param_get_settings(bias).weight_decay < 0.0F);
    c.model.type = "gpt";
    charl_assert_ok(charl__groups_apply(&c, NULL, set, 20));
    assert_false(charl_param_get_settings(head).muon_exclude); /* of another size: something in the middle */
    assert_true(charl_param_get_settings(bias).weight_decay == 0.0F);
    assert_true(charl_param_get_settings(w).weight_decay < 0.0F);
    c.optimizer.groups = "fc.* lr_scale=2 weight_decay=0.5, *.bias lr_scale=3";
    charl_assert_ok(charl__groups_apply(&c, NULL, set, 20));
    assert_true(charl_param_get_settings(w).lr_scale == 2.0F);
    assert_true(charl_param_get_settings(w).weight_decay == 0.5F);
    assert_true(charl_param_get_settings(bias).lr_scale == 3.0F);
    assert_true(charl_param_get_settings(bias).weight_decay == 0.5F);
    assert_true(charl_param_get_settings(wte).lr_scale == 1.0F);
    c.optimizer.groups = "conv* lr_scale=2";
    charl_assert_status(charl__groups_apply(&c, NULL, set, 20), CHARL_ERR_CONFIG);
    charl_assert_message("no parameter is called conv*");
    charl_params_destroy(set);
}

/* A transformer with two blocks: embeddings, blocks, the norm with the last block, the head. */
static void test_depth(void **state)
{
    static const struct {
        const char *name;
        charl_shape shape;
        bool embedding;
        int above; /* levels */
    } want[] = {{"wte.weight", {2, {20, 8}}, true, 3},      {"wpe.weight", {2, {4, 8}}, true, 3},
                {"h.0.ln_1.weight", {1, {8}}, false, 2},    {"h.0.attn.weight", {2, {8, 8}}, false, 2},
                {"h.0.mlp.weight", {2, {8, 8}}, false, 2},  {"h.1.ln_1.weight", {1, {8}}, false, 1},
                {"h.1.attn.weight", {2, {8, 8}}, false, 1}, {"ln_f.weight", {1, {8}}, false, 1},
                {"lm_head.weight", {2, {20, 8}}, false, 0}};
    charl_config c = {.optimizer.groups = "h.1.attn.* lr_scale=3", .optimizer.layer_decay = 0.5};
    charl_model *model = NULL;
    charl_params *set = NULL;

    (void)state;
    charl_assert_ok(charl_model_create(&model));
    charl_assert_ok(charl_model_add_gpt(
        model, &(charl_gpt_config){.n_layer = 2, .n_head = 1, .n_embd = 8, .block_size = 4, .vocab = 20}));
    charl_assert_ok(charl_params_create(&set));
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        add(set, want[i].name, want[i].shape, want[i].embedding);
    }
    charl_assert_ok(charl__groups_apply(&c, model, set, 20));
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        const float scale = charl_param_get_settings(charl_params_find(set, want[i].name)).lr_scale;
        const float more = strcmp(want[i].name, "h.1.attn.weight") == 0 ? 3.0F : 1.0F;

        if (scale != more / (float)(1 << want[i].above)) {
            fail_msg("%s: lr_scale %g", want[i].name, (double)scale);
        }
    }
    charl_params_destroy(set);
    charl_model_destroy(model);
}

/* Settings that have no effect in a run, or another one than it seems: what is told of each, and nothing of others. */

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
    {&ten, "[dist]\nshard_group = node\n", "dist.shard_group = node has no effect: dist.shard is none"},
    {&ten, "val_split = 0.2\n", "data.val_split = 0.2 has no effect: the data have a validation set"},
    {&cut, "val_split = 0.2\n", NULL},
    {&ten, "shuffle_window = 64\n", "data.shuffle_window = 64 has no effect: data.shuffle is not blocks"},
    {&ten, "[eval]\nsample_tokens = 9\n", "eval.sample_tokens = 9 has no effect: there is no eval.sample_prompt"},
    {&ten, "[model]\ntype = gpt\nrope_factor = 4\n", "model.rope_factor = 4 has no effect: model.rope_scaling is none"},
    {&ten, "[model]\ntype = gpt\nrope_factor = 4\nrope_scaling = linear\n", NULL},
    {&ten, "[model]\ntype = gpt\nrope_low = 2\nrope_scaling = linear\n",
     "model.rope_low = 2 has no effect: model.rope_scaling is linear"},
    {&ten, "[model]\ntype = gpt\nrope_original = 4096\nrope_scaling = linear\n",
     "model.rope_original = 4096 has no effect: model.rope_scaling is linear"},
    {&ten, "[model]\ntype = gpt\nrope_original = 4096\nrope_scaling = dynamic\n", NULL},
    {&ten, "[model]\ntype = gpt\nrope_high = 8\nrope_scaling = dynamic\n",
     "model.rope_high = 8 has no effect: model.rope_scaling is dynamic"},
    {&ten, "[model]\ntype = gpt\nrope_high = 8\nrope_scaling = yarn\n", NULL},
    {&ten, "[eval]\nsample_tokens = 64\n", NULL}, /* the default, as config.ini in a run directory has it */
};

static void test_runs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        charl_config *cfg = NULL;
        charl__text text = {0}, said = {0};

        charl_assert_ok(charl__text_printf(&text, "[data]\npath = a.h5\n%s%s", cases[i].set,
                                           strstr(cases[i].set, "[model]") ? "" : "[model]\ntype = mlp\n"));
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

static charl_status parse_text(const char *text, charl_config **out)
{
    return charl_config_parse("conf/t.ini", text, strlen(text), NULL, 0, out);
}

static void test_source_and_slices(void **state)
{
    static const char text[] = "[data]\npath = d # quoted\n[model]\ntype = mlp\n";
    charl_config *c = NULL;
    size_t length = 0;

    (void)state;
    charl_assert_ok(parse_text(text, &c));
    assert_int_equal(charl__config_slices(c), 8);
    assert_string_equal(charl__config_source(c, &length), text);
    assert_int_equal(length, strlen(text));
    charl_config_destroy(c);
}

static void test_differences(void **state)
{
    static const char was[] = "[run]\nseed = 1\nname = x\n[data]\npath = /d\n"
                              "[layer a]\ntype = conv2d\nkernel = 3\nbias = no\n[layer b]\ntype = relu\n"
                              "[layer c]\ntype = relu\n[optimizer]\nlearning_rate = 1e-3\nmomentum = 0.5\n";
    static const char now[] = "[run]\nseed = 2\nname = y\n[data]\npath = /d\n"
                              "[layer b]\ntype = relu\n[layer a]\ntype = conv2d\nkernel = 5\nchannels = 8\n"
                              "[layer d]\ntype = relu\n[optimizer]\nlearning_rate = 0.001\n[log]\ninterval = 3\n";
    charl_config *c = NULL;
    char *text = NULL;
    unsigned found = 7;
    const long live = charl_test_live();

    (void)state;
    assert_int_equal(parse_text(was, &c), CHARL_OK);
    assert_int_equal(charl__config_diff(c, was, CHARL__CHANGE_RESULT, &found, &text), CHARL_OK);
    assert_string_equal(text, "");
    assert_int_equal(found, 0);
    charl_free(text);
    assert_int_equal(charl__config_diff(c, "[nonsense", CHARL__CHANGE_RESULT, &found, &text), CHARL_ERR_CONFIG);
    assert_null(text);
    charl_config_destroy(c);
    assert_int_equal(parse_text(now, &c), CHARL_OK);
    assert_int_equal(charl__config_diff(c, was, CHARL__CHANGE_RESULT, &found, &text), CHARL_OK);
    assert_string_equal(text, "[run] seed = 2 (was 1)\n"
                              "[layer a] kernel = 5 (was 3)\n"
                              "[layer a] channels = 8 (was not given)\n"
                              "[layer a] bias (was no)\n"
                              "[layer d] is new\n"
                              "[layer c] is gone");
    assert_int_equal(found, CHARL__CHANGE_MODEL | CHARL__CHANGE_TRAINING);
    charl_free(text);
    charl_config_destroy(c);
    assert_int_equal(parse_text("[data]\npath=/d\n[layer b]\ntype=relu\n[layer a]\ntype=tanh\n", &c), CHARL_OK);
    assert_int_equal(charl__config_diff(c, "[data]\npath=/d\n[layer a]\ntype=tanh\n[layer b]\ntype=relu\n",
                                        CHARL__CHANGE_RESULT, &found, &text),
                     CHARL_OK);
    assert_string_equal(text, "[layer a] is in another place\n[layer b] is in another place");
    charl_free(text);
    charl_config_destroy(c);
    assert_int_equal(parse_text("[data]\npath=/d\n[model]\ntype=mlp\nhidden=17\n[train]\nepochs=3\n", &c), CHARL_OK);
    assert_int_equal(charl__config_diff(c, "[data]\npath=/d\n[model]\ntype=mlp\n", CHARL__CHANGE_RESULT, &found, &text),
                     CHARL_OK);
    assert_string_equal(text, "[model] hidden = 17 (was 128)\n[train] epochs = 3 (was 10)");
    assert_int_equal(found, CHARL__CHANGE_MODEL | CHARL__CHANGE_LENGTH);
    charl_free(text);
    charl_config_destroy(c);
    assert_int_equal(parse_text("[data]\npath=/d\n[init]\nfrom=/r/last.h5\nskip=fc.*\n[model]\ntype=mlp\n", &c),
                     CHARL_OK);
    assert_int_equal(
        charl__config_diff(c, "[data]\npath=/d\n[model]\ntype=mlp\n[init]\nfrom=/r/checkpoints/step-00000006.h5\n",
                           CHARL__CHANGE_START, &found, &text),
        CHARL_OK);
    assert_string_equal(text, "[init] skip = fc.* (was )"); /* the same run */
    assert_int_equal(found, CHARL__CHANGE_START);
    charl_free(text);
    assert_int_equal(charl__config_diff(c, "[data]\npath=/d\n[model]\ntype=mlp\n[init]\nfrom=/r2/last.h5\nskip=fc.*\n",
                                        CHARL__CHANGE_START, &found, &text),
                     CHARL_OK);
    assert_string_equal(text, "[init] from = /r/last.h5 (was /r2/last.h5)");
    charl_free(text);
    charl_config_destroy(c);
    assert_int_equal(charl_test_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_intervals),   cmocka_unit_test(test_durations), cmocka_unit_test(test_due),
        cmocka_unit_test(test_patterns),    cmocka_unit_test(test_rules),     cmocka_unit_test(test_settings),
        cmocka_unit_test(test_depth),       cmocka_unit_test(test_runs),      cmocka_unit_test(test_source_and_slices),
        cmocka_unit_test(test_differences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
