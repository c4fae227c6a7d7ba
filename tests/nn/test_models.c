/* Models that are a few numbers: their layers, parameters and shapes, and what is refused. */
#include <string.h>

#include "nn/net.h"
#include "support/on_device.h"

static void net_init_resnet(net *n, const charl_resnet_config *c, int64_t size)
{
    net_init(n);
    charl_assert_ok(charl_model_add_resnet(n->model, c));
    net_build(n, (charl_shape){3, {3, size, size}});
    charl_assert_ok(charl_graph_status(n->g));
}

static void assert_names(const charl_model *m, const char *const *want, int n)
{
    assert_int_equal(charl_model_get_count(m), n);
    for (int i = 0; i < n; i++) {
        assert_string_equal(charl_model_get_layer_name(m, i), want[i]);
    }
}

static void assert_params(const charl_params *set, const char *const *want, int n)
{
    assert_int_equal(charl_params_get_count(set), n);
    for (int i = 0; i < n; i++) {
        assert_string_equal(charl_param_get_spec(charl_params_get(set, i))->name, want[i]);
    }
}

static const charl_param_spec *spec_of(const net *n, const char *name)
{
    const charl_param *p = charl_params_find(n->params, name);

    assert_non_null(p);
    return charl_param_get_spec(p);
}

static int64_t extent_of(const net *n, const char *name, int axis)
{
    return spec_of(n, name)->shape.dim[axis];
}

/* Standard deviation of a parameter's initial values. */
static double deviation_of(const net *n, const char *name)
{
    assert_int_equal(spec_of(n, name)->init.kind, CHARL_INIT_NORMAL);
    return (double)spec_of(n, name)->init.b;
}

static void test_mlp(void **state)
{
    static const char *const names[] = {"flatten", "fc1", "fc_bn1", "fc_act1", "fc_drop1", "fc2"};
    static const char *const params[] = {"fc1.weight",         "fc_bn1.weight", "fc_bn1.bias", "fc_bn1.running_mean",
                                         "fc_bn1.running_var", "fc2.weight",    "fc2.bias"};
    const charl_mlp_config c = {
        .hidden = (int64_t[]){16}, .n_hidden = 1, .outputs = 3, .dropout = 0.1, .batch_norm = true};
    const charl_mlp_config none = {.outputs = 0};
    net n;

    (void)state;
    net_init(&n);
    charl_assert_ok(charl_model_add_mlp(n.model, &c));
    assert_names(n.model, names, 6);
    net_build(&n, (charl_shape){2, {4, 5}});
    assert_params(n.params, params, 7);
    assert_int_equal(charl_var_get_type(n.out).shape.dim[1], 3);
    charl_assert_status(charl_model_add_mlp(n.model, &none), CHARL_ERR_CONFIG);
    net_fini(&n);
}

static void test_gpt(void **state)
{
    static const char *const names[] = {"wte", "wpe", "drop", "h.0", "h.1", "ln_f", "lm_head"};
    static const char *const block[] = {"h.1.ln_1.weight",      "h.1.ln_1.bias",          "h.1.attn.c_attn.weight",
                                        "h.1.attn.c_attn.bias", "h.1.attn.c_proj.weight", "h.1.attn.c_proj.bias",
                                        "h.1.ln_2.weight",      "h.1.ln_2.bias",          "h.1.mlp.c_fc.weight",
                                        "h.1.mlp.c_fc.bias",    "h.1.mlp.c_proj.weight",  "h.1.mlp.c_proj.bias"};
    charl_gpt_config c = {.n_layer = 2,
                          .n_head = 2,
                          .n_embd = 8,
                          .block_size = 5,
                          .vocab = 11,
                          .dropout = 0.1,
                          .bias = true,
                          .tie_weights = true};
    charl_shape out;
    net n;

    (void)state;
    net_init(&n);
    charl_assert_ok(charl_model_add_gpt(n.model, &c));
    assert_names(n.model, names, 7);
    net_build_tokens(&n, (charl_shape){1, {5}});
    charl_assert_ok(charl_graph_status(n.g));
    out = charl_var_get_type(n.out).shape;
    assert_true(charl_shape_equal(&out, &(charl_shape){3, {ROWS, 5, 11}}));
    assert_int_equal(charl_params_get_count(n.params), 2 + 2 * 12 + 2);
    for (int i = 0; i < 12; i++) {
        assert_string_equal(charl_param_get_spec(charl_params_get(n.params, 14 + i))->name, block[i]);
    }
    assert_float_equal(deviation_of(&n, "h.1.mlp.c_fc.weight"), 0.02, 1e-6);
    assert_float_equal(deviation_of(&n, "h.1.mlp.c_proj.weight"), 0.01, 1e-6);
    net_fini(&n);
}

/* Llama's settings: other widths, other norms, no positions to learn, a head of its own. */
static void test_gpt_like_llama(void **state)
{
    charl_gpt_config c = {.n_layer = 1,
                          .n_head = 4,
                          .n_kv_head = 2,
                          .n_embd = 32,
                          .block_size = 6,
                          .vocab = 9,
                          .norm = CHARL_BLOCK_RMS_NORM,
                          .mlp = CHARL_BLOCK_SWIGLU,
                          .positions = CHARL_GPT_ROTARY};
    net n;

    (void)state;
    net_init(&n);
    charl_assert_ok(charl_model_add_gpt(n.model, &c));
    net_build_tokens(&n, (charl_shape){1, {6}});
    charl_assert_ok(charl_graph_status(n.g));
    assert_int_equal(extent_of(&n, "h.0.attn.c_attn.weight", 0), (4 + 2 * 2) * 8);
    assert_int_equal(extent_of(&n, "h.0.mlp.c_fc.weight", 0), 2 * 128); /* 8/3 * 32, to 64s */
    assert_int_equal(extent_of(&n, "lm_head.weight", 0), 9);
    assert_null(charl_params_find(n.params, "wpe.weight"));
    assert_null(charl_params_find(n.params, "ln_f.bias"));
    net_fini(&n);
    net_init(&n);
    c.n_embd = 30;
    charl_assert_status(charl_model_add_gpt(n.model, &c), CHARL_ERR_CONFIG);
    charl_assert_message("n_embd = 30 is not a multiple of n_head = 4");
    net_fini(&n);
}

static void test_cnn(void **state)
{
    static const char *const names[] = {"conv1", "act1",    "pool1", "conv2",   "act2",
                                        "pool2", "flatten", "fc1",   "fc_act1", "fc2"};
    static const char *const params[] = {"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
                                         "fc1.weight",   "fc1.bias",   "fc2.weight",   "fc2.bias"};
    charl_cnn_config c = {.channels = (int64_t[]){4, 6},
                          .n_channels = 2,
                          .kernel = 3,
                          .head = {.hidden = (int64_t[]){8}, .n_hidden = 1, .outputs = 2, .activation = "tanh"}};
    net n;

    (void)state;
    net_init(&n);
    charl_assert_ok(charl_model_add_cnn(n.model, &c));
    assert_names(n.model, names, 10);
    net_build(&n, (charl_shape){3, {1, 8, 8}});
    assert_params(n.params, params, 8);
    assert_int_equal(charl_params_find(n.params, "fc1.weight") != NULL, 1);
    assert_int_equal(charl_param_get_spec(charl_params_find(n.params, "fc1.weight"))->shape.dim[1], 6 * 2 * 2);
    net_fini(&n);
    net_init(&n);
    c.kernel = 4;
    charl_assert_status(charl_model_add_cnn(n.model, &c), CHARL_ERR_CONFIG);
    charl_assert_message("odd");
    c.kernel = 3;
    c.head.batch_norm = true;
    charl_assert_ok(charl_model_add_cnn(n.model, &c));
    net_build(&n, (charl_shape){3, {1, 8, 8}});
    assert_null(charl_params_find(n.params, "conv1.bias"));
    assert_non_null(charl_params_find(n.params, "bn2.running_var"));
    charl_assert_ok(charl_graph_status(n.g));
    net_fini(&n);
}

/* Trainable elements of torchvision's models; of He et al.'s, whose shortcuts have none, and the
 * two projections. */
static void test_resnet_sizes(void **state)
{
    static const struct {
        charl_resnet_config config;
        int64_t size, elements;
    } known[] = {
        {{.depth = 18, .outputs = 1000}, 64, 11689512},
        {{.depth = 34, .outputs = 1000}, 64, 21797672},
        {{.depth = 50, .outputs = 1000}, 64, 25557032},
        {{.depth = 101, .outputs = 1000}, 64, 44549160},
        {{.depth = 152, .outputs = 1000}, 64, 60192808},
        {{.depth = 50, .outputs = 1000, .groups = 32, .group_width = 4}, 64, 25028904},
        {{.depth = 50, .outputs = 1000, .group_width = 128}, 64, 68883240},
        {{.depth = 18, .outputs = 10, .stem = CHARL_RESNET_STEM_CIFAR}, 32, 11173962},
        {{.depth = 20, .outputs = 10}, 32, 269722 + 16 * 32 + 2 * 32 + 32 * 64 + 2 * 64},
        {{.depth = 56, .outputs = 10}, 32, 853018 + 16 * 32 + 2 * 32 + 32 * 64 + 2 * 64},
    };

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        net n;

        net_init_resnet(&n, &known[i].config, known[i].size);
        assert_int_equal(charl_params_get_elements(n.params), known[i].elements);
        net_fini(&n);
    }
}

static void assert_shape(const net *n, const char *name, charl_shape want)
{
    const charl_param *p = charl_params_find(n->params, name);

    if (!p) {
        fail_msg("there is no %s", name);
        return;
    }
    assert_true(charl_shape_equal(&charl_param_get_spec(p)->shape, &want));
}

static void test_resnet_names(void **state)
{
    const charl_resnet_config deep = {.depth = 50, .width = 8, .outputs = 7};
    const charl_resnet_config small = {.depth = 32, .outputs = 7};
    net n;

    (void)state;
    net_init_resnet(&n, &deep, 64);
    assert_shape(&n, "conv1.weight", (charl_shape){4, {8, 3, 7, 7}});
    assert_shape(&n, "bn1.running_var", (charl_shape){1, {8}});
    assert_shape(&n, "layer1.0.downsample.0.weight", (charl_shape){4, {32, 8, 1, 1}});
    assert_shape(&n, "layer1.2.conv3.weight", (charl_shape){4, {32, 8, 1, 1}});
    assert_shape(&n, "layer2.0.conv2.weight", (charl_shape){4, {16, 16, 3, 3}});
    assert_shape(&n, "layer4.2.bn3.bias", (charl_shape){1, {256}});
    assert_shape(&n, "fc.weight", (charl_shape){2, {7, 256}});
    assert_null(charl_params_find(n.params, "layer1.1.downsample.0.weight"));
    assert_null(charl_params_find(n.params, "conv1.bias"));
    assert_string_equal(charl_model_get_layer_name(n.model, 2), "maxpool");
    assert_int_equal(charl_var_get_type(n.out).shape.dim[1], 7);
    net_fini(&n);
    net_init_resnet(&n, &small, 32);
    assert_shape(&n, "conv1.weight", (charl_shape){4, {16, 3, 3, 3}});
    assert_shape(&n, "layer1.4.conv2.weight", (charl_shape){4, {16, 16, 3, 3}});
    assert_shape(&n, "layer3.0.downsample.0.weight", (charl_shape){4, {64, 32, 1, 1}});
    assert_null(charl_params_find(n.params, "layer4.0.conv1.weight"));
    assert_string_equal(charl_model_get_layer_name(n.model, 2), "layer1.0");
    net_fini(&n);
}

static void test_refused_resnets(void **state)
{
    static const struct {
        charl_resnet_config config;
        const char *message;
    } bad[] = {
        {{.depth = 19, .outputs = 2}, "a resnet of depth 19: it can be 18, 34"},
        {{.depth = 18}, "at least one output"},
        {{.depth = 18, .width = -1, .outputs = 2}, "layer conv1: channels is -1"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        charl_model *m;

        charl_assert_ok(charl_model_create(&m));
        charl_assert_status(charl_model_add_resnet(m, &bad[i].config), CHARL_ERR_CONFIG);
        charl_assert_message(bad[i].message);
        charl_model_destroy(m);
    }
}

/* A block refuses what only the input or its other settings show; parts are named. */
static void test_refused_blocks(void **state)
{
    static const charl_residual_block_config plain = {.channels = 4, .stride = 1, .groups = 1},
                                             grouped_basic = {.channels = 4, .stride = 1, .groups = 2},
                                             narrow = {CHARL_RESIDUAL_BOTTLENECK, .channels = 3, .stride = 1,
                                                       .groups = 1},
                                             odd_groups = {CHARL_RESIDUAL_BOTTLENECK, .channels = 16, .stride = 1,
                                                           .groups = 3},
                                             pooled = {.channels = 8, .stride = 2, .groups = 1, .pool_shortcut = true};
    char long_name[252];
    const struct {
        const char *name;
        const charl_residual_block_config *config;
        charl_shape in;
        charl_status status;
        const char *message;
    } bad[] = {
        {"b", &plain, {1, {5}}, CHARL_ERR_SHAPE, "b: residual_block needs images"},
        {"b", &grouped_basic, {3, {4, 5, 5}}, CHARL_ERR_SHAPE, "b: residual_block: width"},
        {"b", &narrow, {3, {4, 5, 5}}, CHARL_ERR_SHAPE, "b: residual_block: a bottleneck has"},
        {"b", &odd_groups, {3, {4, 5, 5}}, CHARL_ERR_SHAPE, "b.conv2: conv2d: groups"},
        {"b", &pooled, {3, {4, 6, 5}}, CHARL_ERR_SHAPE, "b: residual_block: pool_shortcut = yes needs"},
        {long_name, &plain, {3, {4, 5, 5}}, CHARL_ERR_CONFIG, "too long"},
    };

    (void)state;
    memset(long_name, 'n', sizeof long_name - 1); /* fits; with .conv1 it does not */
    long_name[sizeof long_name - 1] = '\0';
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        net n;

        net_init(&n);
        charl_assert_ok(charl_model_add(n.model, bad[i].name, "residual_block", bad[i].config));
        net_build(&n, bad[i].in);
        assert_null(n.out);
        charl_assert_status(charl_graph_status(n.g), bad[i].status);
        charl_assert_message(bad[i].message);
        net_fini(&n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mlp),
        cmocka_unit_test(test_cnn),
        cmocka_unit_test(test_gpt),
        cmocka_unit_test(test_gpt_like_llama),
        cmocka_unit_test(test_resnet_sizes),
        cmocka_unit_test(test_resnet_names),
        cmocka_unit_test(test_refused_resnets),
        cmocka_unit_test(test_refused_blocks),
    };

    return charl_test_on_device(tests, &dev);
}
