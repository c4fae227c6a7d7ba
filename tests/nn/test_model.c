/* Models as lists of layers: names, what is refused, shared parameters. */
#include "support/on_device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "charl/error.h"
#include "charl/layer.h"
#include "charl/ops.h"
#include "nn/net.h"

static const charl_linear_config linear = {.out = 50, .bias = true, .activation = "silu"};

/* Layers "a", of type `first`, and "b" over [ROWS, 6]. */
static void net_init_tied(net *n, const char *first, const charl_linear_config *a, const charl_linear_config *b)
{
    net_init(n);
    charl_assert_ok(charl_model_add(n->model, "a", first, a));
    charl_assert_ok(charl_model_add(n->model, "b", "linear", b));
    net_build(n, (charl_shape){1, {6}});
}

/* A layer that uses another's weight has none of its own, and the gradient is the sum of both. */
static void test_tied_weights(void **state)
{
    static const charl_linear_config first = {.out = 6, .init_std = 0.5}, second = {.out = 6, .bias = true, .tie = "a"};
    double worst = 1.0;
    net n;

    (void)state;
    net_init_tied(&n, "linear", &first, &second);
    assert_int_equal(charl_params_get_count(n.params), 2);
    assert_non_null(charl_params_find(n.params, "b.bias"));
    n.loss = charl_batch_mean(n.g, charl_sum(n.g, charl_mul(n.g, n.out, n.out), 1, true));
    charl_graph_backward(n.g, n.loss, NULL);
    charl_graph_keep(n.g, n.loss);
    charl_assert_ok(charl_graph_compile(n.g));
    charl_assert_ok(charl_params_initialize(n.params, 3));
    charl_assert_ok(charl_gradcheck(n.g, n.loss, 12, &worst));
    assert_true(worst < 1e-2);
    net_fini(&n);
}

static void test_ties_that_do_not_fit(void **state)
{
    static const charl_linear_config first = {.out = 6}, other = {.out = 5, .tie = "a"}, same = {.out = 6, .tie = "a"},
                                     later = {.out = 6, .tie = "z"};
    net n;

    (void)state;
    net_init_tied(&n, "linear", &first, &other);
    assert_null(n.out);
    charl_assert_status(charl_graph_status(n.g), CHARL_ERR_SHAPE);
    charl_assert_message("a.weight has shape [6, 6], this input needs [5, 6]");
    charl_assert_status(charl_model_add(n.model, "c", "linear", &later), CHARL_ERR_CONFIG);
    charl_assert_message("tie is z; no layer before this one has that name");
    net_fini(&n);
    net_init_tied(&n, "tanh", NULL, &same);
    assert_null(n.out);
    charl_assert_status(charl_graph_status(n.g), CHARL_ERR_CONFIG);
    charl_assert_message("layer a has no weight to share");
    net_fini(&n);
}

static void test_refused_layers(void **state)
{
    static const charl_conv_config no_kernel = {.channels = 4}, groups = {.channels = 4,
                                                                          .kernel = {3, 3},
                                                                          .stride = {1, 1},
                                                                          .dilation = {1, 1},
                                                                          .groups = -1};
    static const charl_linear_config unheard = {.out = 3, .activation = "unheard"};
    static const charl_dropout_config all = {.p = 1.0}, nan = {.p = (double)NAN};
    static const charl_norm_config eps = {.eps = -1.0};
    static const struct {
        const char *name, *type;
        const void *config;
        const char *message;
    } bad[] = {
        {"l", "perceptron", NULL, "layer l: there is no layer type perceptron"},
        {"l", "linaer", NULL, "layer l: there is no layer type linaer (did you mean linear?)"},
        {"", "relu", NULL, "needs a name"},
        {"l", "linear", NULL, "layer l: out is 0"},
        {"l", "linear", &unheard, "activation is unheard; it can be relu"},
        {"l", "conv2d", &no_kernel, "kernel is 0"},
        {"l", "conv2d", &groups, "groups is -1"},
        {"l", "dropout", &all, "p is 1"},
        {"l", "dropout", &nan, "p is"},
        {"l", "batch_norm", &eps, "eps is -1"},
        {"taken", "relu", NULL, "two layers named taken"},
    };
    charl_model *m;
    unsigned char config[CHARL_LAYER_MAX_SETTINGS];

    (void)state;
    charl_assert_ok(charl_model_create(&m));
    charl_assert_ok(charl_model_add(m, "taken", "relu", NULL));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        charl_assert_status(charl_model_add(m, bad[i].name, bad[i].type, bad[i].config), CHARL_ERR_CONFIG);
        charl_assert_message(bad[i].message);
    }
    assert_int_equal(charl_model_get_count(m), 1);
    assert_string_equal(charl_model_get_layer_name(m, 0), "taken");
    assert_null(charl_model_get_layer_name(m, 1));
    assert_null(charl_model_get_layer_name(m, -1));
    charl_assert_status(charl_layer_defaults("perceptron", config), CHARL_ERR_CONFIG);
    charl_model_destroy(m);
    charl_model_destroy(NULL);
}

static void test_name_too_long(void **state)
{
    net n;
    char name[252];

    (void)state;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    net_init(&n);
    charl_assert_ok(charl_model_add(n.model, name, "linear", &linear));
    net_build(&n, (charl_shape){1, {64}});
    assert_null(n.out);
    charl_assert_status(charl_graph_compile(n.g), CHARL_ERR_CONFIG);
    charl_assert_message("too long");
    assert_int_equal(charl_params_get_count(n.params), 0);
    net_fini(&n);
}

/* One model, two graphs, inputs that do not fit the same parameters. */
static void test_another_input_shape(void **state)
{
    net n;
    charl_graph *other;
    charl_var *x;

    (void)state;
    net_init(&n);
    charl_assert_ok(charl_model_add(n.model, "fc", "linear", &linear));
    net_build(&n, (charl_shape){1, {64}});
    charl_assert_ok(charl_graph_create(dev, NULL, &other));
    x = charl_input(other, "x", CHARL_F32, (charl_shape){2, {ROWS, 63}}, CHARL_BATCHED);
    assert_null(charl_model_build(n.model, other, n.params, x));
    charl_assert_status(charl_graph_compile(other), CHARL_ERR_SHAPE);
    charl_assert_message("fc.weight has shape [50, 64], this input needs [50, 63]");
    charl_graph_destroy(other);
    net_fini(&n);
}

static void test_settings_are_copied(void **state)
{
    net n;
    char activation[] = "relu";
    charl_linear_config c = {.out = 3, .bias = false, .activation = activation};

    (void)state;
    net_init(&n);
    charl_assert_ok(charl_model_add(n.model, "fc", "linear", &c));
    memset(activation, 'x', 4);
    c.out = 0;
    net_build(&n, (charl_shape){1, {2}});
    assert_string_equal(charl_var_get_name(n.out), "fc.relu");
    assert_int_equal(charl_var_get_type(n.out).shape.dim[1], 3);
    net_fini(&n);
}

/* The evaluation graph reads what the training graph trains, without dropout or batch statistics.
 */
static void test_evaluation_shares_parameters(void **state)
{
    const charl_mlp_config c = {
        .hidden = (int64_t[]){16}, .n_hidden = 1, .outputs = 3, .dropout = 0.5, .batch_norm = true};
    const float bias[3] = {10.0F, 20.0F, 30.0F};
    net n;
    charl_graph *eval;
    charl_var *x, *out;
    float *first, *second, *in;
    int count;

    (void)state;
    net_init(&n);
    charl_assert_ok(charl_model_add_mlp(n.model, &c));
    net_build(&n, (charl_shape){1, {6}});
    count = charl_params_get_count(n.params);
    n.loss = charl_batch_mean(n.g, charl_max(n.g, n.out, 1, true));
    charl_graph_keep(n.g, n.loss);
    charl_graph_backward(n.g, n.loss, NULL);
    charl_assert_ok(charl_graph_compile(n.g));
    charl_assert_ok(charl_params_initialize(n.params, 1));
    charl_assert_ok(charl_graph_create(dev, NULL, &eval));
    charl_graph_set_training(eval, false);
    x = charl_input(eval, "x", CHARL_F32, (charl_shape){2, {ROWS, 6}}, CHARL_BATCHED);
    out = charl_model_build(n.model, eval, n.params, x);
    charl_graph_keep(eval, out);
    charl_assert_ok(charl_graph_compile(eval));
    assert_int_equal(charl_params_get_count(n.params), count);
    write_input(&n);
    in = values_of(charl_var_get_tensor(n.x));
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(x), in, ROWS * 6 * sizeof *in));
    charl_assert_ok(charl_graph_run(eval));
    first = values_of(charl_var_get_tensor(out));
    charl_assert_ok(charl_graph_run(eval)); /* another step number drops nothing either */
    second = values_of(charl_var_get_tensor(out));
    charl_assert_same_bits(second, first, ROWS * 3);
    charl_free(second);
    charl_assert_ok(charl_graph_run(n.g)); /* moves the running statistics */
    charl_assert_ok(charl_param_write(charl_params_find(n.params, "fc2.bias"), bias));
    charl_assert_ok(charl_graph_run(eval));
    second = values_of(charl_var_get_tensor(out));
    for (int i = 0; i < ROWS * 3; i++) {
        assert_true(fabsf(second[i] - bias[i % 3]) < 5.0F);
    }
    charl_free(in);
    charl_free(first);
    charl_free(second);
    charl_graph_destroy(eval);
    net_fini(&n);
}

static charl_status life_of_a_model(void *ctx)
{
    charl_status st = CHARL_OK;
    const charl_cnn_config c = {
        .channels = (int64_t[]){2}, .n_channels = 1, .kernel = 3, .head = {.outputs = 2, .batch_norm = true}};
    net n = {0};

    (void)ctx;
    CHARL_TRY_CLEANUP(charl_model_create(&n.model));
    CHARL_TRY_CLEANUP(charl_params_create(&n.params));
    CHARL_TRY_CLEANUP(charl_graph_create(dev, NULL, &n.g));
    CHARL_TRY_CLEANUP(charl_model_add_cnn(n.model, &c));
    net_build(&n, (charl_shape){3, {1, 4, 4}});
    CHARL_TRY_CLEANUP(charl_graph_status(n.g));
cleanup:
    net_fini(&n);
    return st;
}

static void test_every_acquisition_may_fail(void **state)
{
    (void)state;
    charl_test_fail_every_acquisition(life_of_a_model, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tied_weights),
        cmocka_unit_test(test_ties_that_do_not_fit),
        cmocka_unit_test(test_refused_layers),
        cmocka_unit_test(test_name_too_long),
        cmocka_unit_test(test_another_input_shape),
        cmocka_unit_test(test_settings_are_copied),
        cmocka_unit_test(test_evaluation_shares_parameters),
        cmocka_unit_test(test_every_acquisition_may_fail),
    };

    return charl_test_on_device(tests, &dev);
}
