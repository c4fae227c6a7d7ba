/* optimizer.groups: patterns, rules, and what parameters get. */
#include "support/support.h"

#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "config/model/config_groups.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_depth),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
