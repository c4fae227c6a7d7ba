/* [model] from: settings of config.json become those of the model, what the section says replaces them, and what charl does not have is
 * refused by its name. */
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "charl/config.h"
#include "charl/nn.h"

static char *dir;

static void write_json(const char *json)
{
    FILE *f = fopen(charl_test_path(dir, "config.json"), "w");

    assert_non_null(f);
    fputs(json, f);
    fclose(f);
}

static charl_status parse(const char *rest, charl_config **out)
{
    char text[2048];

    snprintf(text, sizeof text, "[data]\npath = x\n[model]\nfrom = %s\n%s", dir, rest);
    return charl_config_parse("test.ini", text, strlen(text), NULL, 0, out);
}

static const char gpt2[] =
    "{\"model_type\": \"gpt2\", \"n_layer\": 3, \"n_head\": 4, \"n_embd\": 32, \"n_positions\": 24,"
    " \"vocab_size\": 300, \"n_inner\": null, \"layer_norm_epsilon\": 1e-06,"
    " \"activation_function\": \"gelu_new\"%s}";
static const char llama[] =
    "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"num_attention_heads\": 8,"
    " \"num_key_value_heads\": 2, \"hidden_size\": 32, \"intermediate_size\": 80, \"head_dim\": 16,"
    " \"max_position_embeddings\": 4096, \"vocab_size\": 300, \"rms_norm_eps\": 1e-05,"
    " \"hidden_act\": \"silu\", \"attention_bias\": false, \"rope_scaling\": null%s}";

static void json_of(const char *format, const char *more)
{
    char text[2048];

    /* more is put in front of the last brace */
    snprintf(text, sizeof text, "%.*s%s}", (int)(strlen(format) - strlen("%s}")), format, more);
    write_json(text);
}

static const charl_gpt_config *settings_of(const charl_config *c)
{
    const void *settings;

    charl_assert_ok(charl_config_get_settings(c, "model", &settings));
    return settings;
}

static void test_gpt2(void **state)
{
    charl_config *c = NULL;
    const char *type;
    const charl_gpt_config *g;

    (void)state;
    json_of(gpt2, "");
    charl_assert_ok(parse("", &c));
    charl_assert_ok(charl_config_get_text(c, "model.type", &type));
    assert_string_equal(type, "gpt");
    g = settings_of(c);
    assert_int_equal(g->n_layer, 3);
    assert_int_equal(g->n_head, 4);
    assert_int_equal(g->n_embd, 32);
    assert_int_equal(g->block_size, 24);
    assert_int_equal(g->vocab, 300);
    assert_int_equal(g->hidden, 0);
    assert_true(g->norm_eps == 1e-6);
    assert_true(g->bias && g->tie_weights && !g->qkv_bias);
    assert_int_equal(g->mlp, CHARL_BLOCK_GELU_TANH);
    assert_int_equal(g->positions, CHARL_GPT_LEARNED);
    charl_config_destroy(c);
}

/* rope_theta stands in either of two places; that in the object counts. */
static void test_llama(void **state)
{
    static const char *const places[] = {
        ", \"rope_theta\": 500000.0", ", \"rope_parameters\": {\"rope_theta\": 500000.0, \"rope_type\": \"default\"}",
        ", \"rope_theta\": 2.0, \"rope_parameters\": {\"rope_theta\": 500000.0}"};
    charl_config *c = NULL;
    const charl_gpt_config *g;

    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        json_of(llama, places[i]);
        charl_assert_ok(parse("block_size = 64\ndropout = 0.1\n", &c)); /* the file is replaced */
        g = settings_of(c);
        assert_int_equal(g->block_size, 64);
        assert_true(g->dropout == 0.1);
        assert_int_equal(g->n_kv_head, 2);
        assert_int_equal(g->head_dim, 16);
        assert_int_equal(g->hidden, 80);
        assert_true(g->rope_theta == 500000.0);
        assert_true(!g->bias && !g->tie_weights && !g->qkv_bias);
        assert_int_equal(g->norm, CHARL_BLOCK_RMS_NORM);
        assert_int_equal(g->mlp, CHARL_BLOCK_SWIGLU);
        assert_int_equal(g->positions, CHARL_GPT_ROTARY);
        charl_config_destroy(c);
    }
}

/* Llama 3.1's scaling of rotary positions. */
static void test_scaling(void **state)
{
    static const char *const wrong[][2] = {
        {"rope_high = 1\n", "rope_high: must be above rope_low = 2"},
        {"rope_factor = 0.5\n", "rope_factor: must be at least 1"},
        {"rope_low = 0\n", "rope_low: must be above 0"},
        {"rope_original = 0\n", "rope_original: must be at least 1"},
        {"rope_magnitude = 1\n", "rope_magnitude: must be 0 without rope_scaling = yarn"}};
    charl_config *c = NULL;
    const charl_gpt_config *g;

    (void)state;
    json_of(llama, ", \"rope_parameters\": {\"rope_type\": \"llama3\", \"factor\": 32.0,"
                   " \"low_freq_factor\": 2.0, \"high_freq_factor\": 5.0,"
                   " \"original_max_position_embeddings\": 4096}");
    charl_assert_ok(parse("", &c));
    g = settings_of(c);
    assert_int_equal(g->rope.kind, CHARL_ROPE_SCALING_LLAMA3);
    assert_true(g->rope.factor == 32 && g->rope.low == 2 && g->rope.high == 5);
    assert_int_equal(g->rope.original, 4096);
    charl_config_destroy(c);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        charl_assert_status(parse(wrong[i][0], &c), CHARL_ERR_CONFIG);
        charl_assert_message(wrong[i][1]);
    }
}

/* What is printed has the settings and not the folder: a checkpoint is read where the folder is not. */
static void test_printed(void **state)
{
    charl_config *c = NULL, *again = NULL;
    char *text = NULL, *origins = NULL, *printed = NULL;

    (void)state;
    json_of(gpt2, "");
    charl_assert_ok(parse("", &c));
    charl_assert_ok(charl_config_print(c, false, &text));
    assert_null(strstr(text, dir));
    assert_non_null(strstr(text, "\nfrom = none\n"));
    charl_assert_ok(charl_config_print(c, true, &origins));
    assert_non_null(strstr(origins, "/config.json\n"));
    assert_int_equal(remove(charl_test_path(dir, "config.json")), 0);
    charl_assert_ok(charl_config_parse("again", text, strlen(text), NULL, 0, &again));
    charl_assert_ok(charl_config_print(again, false, &printed));
    assert_string_equal(printed, text); /* every key has the value that it had */
    free(text);
    free(origins);
    free(printed);
    charl_config_destroy(c);
    charl_config_destroy(again);
}

/* What a kind of scaling has of its own is not read for another, and the window is the one of the file. */
static void test_scaling_kinds(void **state)
{
    charl_config *c = NULL;
    const charl_gpt_config *g;

    (void)state;
    json_of(llama, ", \"rope_parameters\": {\"type\": \"yarn\", \"factor\": 4.0, \"low_freq_factor\": 2.0}");
    charl_assert_ok(parse("block_size = 64\n", &c));
    g = settings_of(c);
    assert_int_equal(g->rope.kind, CHARL_ROPE_SCALING_YARN);
    assert_true(g->rope.factor == 4 && g->rope.low == 1 && g->rope.high == 32 && g->rope.magnitude == 0);
    assert_int_equal(g->rope.original, 4096);
    charl_config_destroy(c);
    json_of(llama, ", \"rope_parameters\": {\"type\": \"dynamic\", \"factor\": 4.0}");
    charl_assert_ok(parse("block_size = 64\n", &c));
    g = settings_of(c);
    assert_int_equal(g->rope.kind, CHARL_ROPE_SCALING_DYNAMIC);
    assert_int_equal(g->rope.original, 4096);
    charl_config_destroy(c);
    charl_assert_status(parse("block_size = 100000\n", &c), CHARL_ERR_CONFIG);
    charl_assert_message("rope_original: must be at least block_size = 100000 with rope_scaling = dynamic");
    json_of(llama,
            ", \"rope_parameters\": {\"type\": \"linear\", \"factor\": 4.0, \"beta_fast\": 7.0, \"mscale\": 1.0}");
    charl_assert_ok(parse("block_size = 64\n", &c));
    assert_true(settings_of(c)->rope.high == 4);
    charl_config_destroy(c);
}

/* Settings that several keys of the model have, a list of families, and null where it differs from no value. */
static void test_families(void **state)
{
    static const char mistral[] = "{\"model_type\": \"mistral\", \"num_hidden_layers\": 2, \"num_attention_heads\": 4,"
                                  " \"num_key_value_heads\": 2, \"hidden_size\": 32, \"intermediate_size\": 80,"
                                  " \"max_position_embeddings\": 64, \"vocab_size\": 300%s}";
    static const struct {
        const char *more, *message;
    } refused[] = {
        {", \"model_type\": \"qwen3\"", "duplicate"},
        {", \"sliding_window\": null, \"rope_scaling\": {\"type\": \"longrope\", \"factor\": 2.0}",
         "rope_scaling.type = longrope is not supported; charl has default, llama3, linear, yarn, dynamic"},
        {", \"sliding_window\": null, \"hidden_act\": \"relu\"", "hidden_act = relu is not supported"},
    };
    static const struct {
        const char *more;
        int64_t window;
    } windows[] = {
        {"", 4096}, /* the value of its class */
        {", \"sliding_window\": 16", 16},
        {", \"sliding_window\": null", 0},
    };
    static const char smollm3[] = "{\"model_type\": \"smollm3\", \"num_hidden_layers\": 5, \"num_attention_heads\": 4,"
                                  " \"num_key_value_heads\": 2, \"hidden_size\": 32, \"intermediate_size\": 80,"
                                  " \"max_position_embeddings\": 64, \"vocab_size\": 300%s}";
    static const struct {
        const char *list;
        int64_t every;
        const char *message;
    } lists[] = {
        {"", 4, NULL},
        {", \"no_rope_layers\": null, \"no_rope_layer_interval\": 3", 3, NULL},
        {", \"no_rope_layers\": [1, 0, 1, 0, 1], \"no_rope_layer_interval\": 3", 2, NULL},
        {", \"no_rope_layers\": [1, 1, 1, 1, 1]", 0, NULL},
        {", \"no_rope_layers\": [0, 0, 0, 0, 0]", 1, NULL},
        {", \"no_rope_layers\": [1, 0, 1, 1, 1]", 0,
         "no_rope_layers = 1, 0, 1, 1, 1 is not supported; charl has a list of 1"},
        {", \"no_rope_layers\": [0, 1, 1, 1, 1]", 0, "no_rope_layers = 0, 1, 1, 1, 1 is not supported"},
        {", \"no_rope_layers\": [1, 2, 1, 2, 1]", 0, "no_rope_layers = 1, 2, 1, 2, 1 is not supported"},
        {", \"no_rope_layers\": {\"a\": 1}", 0, "no_rope_layers = an object is not supported"},
        {", \"no_rope_layers\": []", 0, "no_rope_layers = an empty list is not supported"},
        {", \"no_rope_layer_interval\": -2", 0, "no_rope_layer_interval = -2 is not supported"},
    };
    charl_config *c = NULL;
    const charl_gpt_config *g;

    (void)state;
    json_of(llama, ", \"attention_bias\": false, \"mlp_bias\": true");
    charl_assert_status(parse("", &c), CHARL_ERR_CONFIG); /* attention_bias twice */
    json_of(llama, ", \"mlp_bias\": true");
    charl_assert_ok(parse("", &c));
    g = settings_of(c);
    assert_true(g->form.mlp_bias && !g->form.out_bias && !g->qkv_bias && !g->bias);
    assert_int_equal(g->family, CHARL_GPT_LLAMA);
    charl_config_destroy(c);
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        json_of(mistral, windows[i].more);
        charl_assert_ok(parse("", &c));
        assert_int_equal(settings_of(c)->family, CHARL_GPT_MISTRAL);
        assert_int_equal(settings_of(c)->form.attention_window, windows[i].window);
        charl_config_destroy(c);
    }
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        json_of(smollm3, lists[i].list);
        if (lists[i].message) {
            charl_assert_status(parse("", &c), CHARL_ERR_CONFIG);
            charl_assert_message(lists[i].message);
        } else {
            charl_assert_ok(parse("", &c));
            assert_int_equal(settings_of(c)->unrotated_every, lists[i].every);
            charl_config_destroy(c);
        }
    }
    json_of(mistral, ", \"sliding_window\": null");
    charl_assert_status(parse("rotary_share = 0.4\n", &c), CHARL_ERR_CONFIG);
    charl_assert_message("rotary_share: 0.4 of a head of 8 elements is 3, not 2, 4, 6, ...");
    charl_assert_status(parse("rotary_share = 0.1\n", &c), CHARL_ERR_CONFIG);
    charl_assert_message("rotary_share: 0.1 of a head of 8 elements is 0, not 2, 4, 6, ...");
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        json_of(mistral, refused[i].more);
        charl_assert_status(parse("", &c), CHARL_ERR_CONFIG);
        charl_assert_message(refused[i].message);
    }
}

static void test_refused(void **state)
{
    static const struct {
        const char *format, *more, *message;
    } cases[] = {
        {gpt2, ", \"scale_attn_by_inverse_layer_idx\": true",
         "scale_attn_by_inverse_layer_idx = yes is not supported; charl has no"},
        {gpt2, ", \"n_layer\": 4", "duplicate"},
        {llama, ", \"rope_parameters\": {\"rope_type\": \"longrope\"}",
         "rope_parameters.rope_type = longrope is not supported; charl has default, llama3, linear, yarn, dynamic"},
        {llama, ", \"rope_parameters\": {\"type\": \"longrope\"}", "rope_parameters.type = longrope is not supported"},
        {llama, ", \"rope_parameters\": {\"type\": \"yarn\"}", "factor is missing"},
        {llama, ", \"rope_parameters\": {\"type\": \"yarn\", \"factor\": 2.0, \"mscale\": 0.7}",
         "rope_parameters.mscale = 0.7 is not supported"},
        {llama, ", \"rope_parameters\": {\"type\": \"yarn\", \"factor\": 2.0, \"truncate\": false}",
         "rope_parameters.truncate = no is not supported"},
        {llama, ", \"is_causal\": false", "is_causal = no is not supported; charl has yes"},
        {llama, ", \"quantization_config\": {\"bits\": 4, \"quant_method\": \"gptq\"}",
         "quantization_config.quant_method = gptq is not supported; charl has none"},
        {llama, ", \"quantization_config\": {\"load_in_8bit\": true}",
         "quantization_config = an object is not supported; charl has none"},
        {gpt2, ", \"is_causal\": false", "is_causal = no is not supported"},
        {"{\"model_type\": \"t5\"%s}", "", "model_type = t5 is not supported; charl has bert, "},
        {"{\"model_type\": \"gpt2\"%s}", "", "n_layer is missing"},
        {"{\"a\": 1%s}", "", "model_type is missing"},
        {"[1%s}", "", "config.json: line 1"},
    };
    charl_config *c = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_of(cases[i].format, cases[i].more);
        charl_assert_status(parse("", &c), CHARL_ERR_CONFIG);
        charl_assert_message("test.ini:4: [model] from: ");
        charl_assert_message(cases[i].message);
    }
    json_of(gpt2, "");
    charl_assert_status(parse("type = mlp\n", &c), CHARL_ERR_CONFIG);
    charl_assert_message("config.json is of type = gpt, not mlp");
    remove(charl_test_path(dir, "config.json"));
    charl_assert_status(parse("", &c), CHARL_ERR_CONFIG);
    charl_assert_message("config.json: cannot be opened: No such file or directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2),          cmocka_unit_test(test_llama),   cmocka_unit_test(test_scaling),
        cmocka_unit_test(test_scaling_kinds), cmocka_unit_test(test_printed), cmocka_unit_test(test_families),
        cmocka_unit_test(test_refused),
    };
    int code;

    dir = charl_test_tempdir();
    code = cmocka_run_group_tests(tests, NULL, NULL);
    charl_test_tempdir_remove(dir);
    return code;
}
