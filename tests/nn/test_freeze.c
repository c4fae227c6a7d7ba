/* Frozen parameters: they have no gradient and no optimizer state and do not change, and everything else gets the bits
 * that it gets when they are trained with a learning rate of 0.
 */
#include "support/on_device.h"

#include <string.h>

#include "charl/charl.h"

enum { ROWS = 16, FEATURES = 5, CLASSES = 3, HIDDEN = 8, STEPS = 4, FROZEN_PARAMS = 2 };

static charl_device *dev;

typedef struct run {
    charl_model *model;
    charl_params *params;
    charl_graph *g;
    charl_optimizer *optimizer;
    charl_var *loss;
    float loss_value;
} run;

/* The graph, with what freezes or initializes parameters, and the optimizer. */
static void connect(run *r, charl_dtype precision, bool freeze, bool initialize)
{
    charl_optimizer_config adamw = charl_optimizer_defaults("adamw");
    float x[ROWS * FEATURES];
    int32_t y[ROWS];
    charl_var *in, *labels;

    charl_assert_ok(charl_graph_create(dev, NULL, &r->g));
    charl_graph_set_precision(r->g, precision);
    in = charl_input(r->g, "x", CHARL_F32, (charl_shape){2, {ROWS, FEATURES}}, CHARL_BATCHED);
    labels = charl_input(r->g, "y", CHARL_I32, (charl_shape){1, {ROWS}}, CHARL_BATCHED);
    r->loss = charl_batch_mean(
        r->g, charl_cross_entropy(r->g, charl_model_build(r->model, r->g, r->params, charl_cast(r->g, in, precision)),
                                  labels, NULL, NULL));
    charl_graph_keep(r->g, r->loss);
    if (freeze) {
        int count = 0;

        charl_assert_ok(charl_params_freeze(r->params, "fc1.*", &count));
        assert_int_equal(count, FROZEN_PARAMS);
    }
    charl_graph_backward(r->g, r->loss, NULL);
    charl_assert_ok(charl_graph_compile(r->g));
    if (initialize) {
        charl_assert_ok(charl_params_initialize(r->params, 5));
    }
    for (int i = 0; initialize && i < FROZEN_PARAMS; i++) {
        charl_param_set_settings(charl_params_find(r->params, i ? "fc1.bias" : "fc1.weight"),
                                 (charl_param_settings){.lr_scale = 0.0F, .weight_decay = 0.0F});
    }
    charl_assert_ok(charl_optimizer_create(r->params, &adamw, &r->optimizer));
    charl_test_fill(x, ROWS * FEATURES, -1.0F, 1.0F, 8);
    for (int i = 0; i < ROWS; i++) {
        y[i] = i % CLASSES;
    }
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(in), x, sizeof x));
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(labels), y, sizeof y));
}

static void build(run *r, charl_dtype precision, bool freeze)
{
    const charl_mlp_config mlp = {.hidden = (int64_t[]){HIDDEN}, .n_hidden = 1, .outputs = CLASSES};

    *r = (run){.g = NULL};
    charl_assert_ok(charl_model_create(&r->model));
    charl_assert_ok(charl_model_add_mlp(r->model, &mlp));
    charl_assert_ok(charl_params_create(&r->params));
    connect(r, precision, freeze, true);
}

static void disconnect(run *r)
{
    charl_optimizer_destroy(r->optimizer);
    charl_graph_destroy(r->g);
    r->optimizer = NULL;
    r->g = NULL;
}

static void train(run *r)
{
    for (int i = 0; i < STEPS; i++) {
        charl_assert_ok(charl_graph_run(r->g));
        charl_assert_ok(charl_optimizer_step(r->optimizer, 1e-2F));
    }
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(r->loss), &r->loss_value, sizeof r->loss_value));
}

static void run_fini(run *r)
{
    disconnect(r);
    charl_params_destroy(r->params);
    charl_model_destroy(r->model);
}

static float *values(const charl_param *p)
{
    float *v;

    v = charl_test_array(charl_shape_count(&charl_param_get_spec(p)->shape), sizeof *v);
    charl_assert_ok(charl_param_read(p, v));
    return v;
}

static void compare(charl_dtype precision)
{
    run frozen, slow;

    build(&frozen, precision, true);
    build(&slow, precision, false);
    for (int i = 0; i < charl_params_get_count(frozen.params); i++) {
        charl_param *p = charl_params_get(frozen.params, i);
        const bool is = strncmp(charl_param_get_spec(p)->name, "fc1.", 4) == 0;
        charl_shape shape;

        assert_int_equal(charl_param_is_frozen(p), is);
        assert_int_equal(charl_param_get_spec(p)->trainable, !is);
        assert_int_equal(charl_var_get_gradient(charl_parameter(frozen.g, p)) == NULL, is);
        assert_int_equal(charl_optimizer_get_state_shape(frozen.optimizer, 0, p, &shape), !is);
    }
    assert_int_equal(charl_params_get_elements(frozen.params), HIDDEN * CLASSES + CLASSES);
    assert_true(charl_graph_get_info(frozen.g).launches < charl_graph_get_info(slow.g).launches);
    train(&frozen);
    train(&slow);
    charl_assert_same_bits(&frozen.loss_value, &slow.loss_value, 1);
    for (int i = 0; i < charl_params_get_count(frozen.params); i++) {
        const charl_param *p = charl_params_get(frozen.params, i);
        float *a = values(p), *b = values(charl_params_get(slow.params, i));

        charl_assert_same_bits(a, b, charl_shape_count(&charl_param_get_spec(p)->shape));
        charl_free(a);
        charl_free(b);
    }
    run_fini(&frozen);
    run_fini(&slow);
}

static void test_f32(void **state)
{
    (void)state;
    compare(CHARL_F32);
}

static void test_bf16(void **state)
{
    (void)state;
    compare(CHARL_BF16);
}

/* What is written to a frozen parameter counts at once, also in the working copy. */
static void test_written(void **state)
{
    static const float zero[HIDDEN * FEATURES];
    float before;
    run r;

    (void)state;
    build(&r, CHARL_BF16, true);
    train(&r);
    before = r.loss_value;
    charl_assert_ok(charl_param_write(charl_params_find(r.params, "fc1.weight"), zero));
    train(&r);
    assert_true(before != r.loss_value);
    run_fini(&r);
}

/* Between two parts of a training parameters are frozen and unfrozen: they keep their values, and change when they are trained again. */
static void phases(charl_dtype precision)
{
    charl_param_settings usual = {.lr_scale = 1.0F, .weight_decay = -1.0F};
    float written[HIDDEN], bias[HIDDEN], *before, *after;
    charl_param *weight;
    run r;
    int n = 0;

    build(&r, precision, true);
    weight = charl_params_find(r.params, "fc1.weight");
    before = values(weight);
    train(&r);
    charl_assert_status(charl_params_unfreeze(r.params, "fc1.*", NULL), CHARL_ERR_INVALID);
    charl_assert_message("are unfrozen while 2 graphs, optimizers and data-parallel objects use the set");
    disconnect(&r);
    charl_assert_status(charl_params_unfreeze(r.params, "fc9.*", NULL), CHARL_ERR_INVALID);
    charl_assert_ok(charl_params_unfreeze(r.params, "fc1.*", &n));
    assert_int_equal(n, FROZEN_PARAMS);
    charl_assert_ok(charl_params_freeze(r.params, "fc2.*", &n));
    assert_int_equal(n, FROZEN_PARAMS);

    /* Between the parts values are read and written as ever. */
    after = values(weight);
    charl_assert_same_bits(after, before, HIDDEN * FEATURES);
    charl_free(after);
    charl_test_fill(written, HIDDEN, -1.0F, 1.0F, 3);
    charl_assert_ok(charl_param_write(charl_params_find(r.params, "fc1.bias"), written));

    for (int i = 0; i < FROZEN_PARAMS; i++) {
        charl_param_set_settings(charl_params_find(r.params, i ? "fc1.bias" : "fc1.weight"), usual);
    }
    connect(&r, precision, false, false);
    assert_int_equal(charl_params_get_elements(r.params), HIDDEN * FEATURES + HIDDEN);
    charl_assert_ok(charl_param_read(charl_params_find(r.params, "fc1.bias"), bias));
    charl_assert_same_bits(bias, written, HIDDEN);
    after = values(charl_params_find(r.params, "fc2.weight"));
    train(&r);
    charl_free(before);
    before = values(charl_params_find(r.params, "fc2.weight"));
    charl_assert_same_bits(after, before, HIDDEN * CLASSES);
    charl_free(after);
    after = values(weight);
    assert_true(memcmp(after, before, sizeof *after) != 0);
    charl_assert_ok(charl_param_read(charl_params_find(r.params, "fc1.bias"), bias));
    assert_true(memcmp(bias, written, sizeof bias) != 0);
    charl_free(before);
    charl_free(after);
    run_fini(&r);
}

static void test_phases(void **state)
{
    (void)state;
    phases(CHARL_F32);
    phases(CHARL_BF16);
}

enum { WIDTH = 6 };

/* Two layers, whose weights are in one set or in two; the second one's is not trained. Returns the loss of the last step. */
static float two_layers(int sets, charl_dtype precision, float weight[2][WIDTH * WIDTH])
{
    charl_optimizer_config adamw = charl_optimizer_defaults("adamw");
    charl_params *set[2] = {NULL, NULL};
    charl_optimizer *optimizer;
    charl_param *p[2];
    charl_graph *g;
    charl_var *x, *y, *loss;
    float rows[ROWS * WIDTH], value;

    charl_assert_ok(charl_graph_create(dev, NULL, &g));
    charl_graph_set_precision(g, precision);
    x = charl_input(g, "x", CHARL_F32, (charl_shape){2, {ROWS, WIDTH}}, CHARL_BATCHED);
    y = charl_cast(g, x, precision);
    for (int i = 0; i < 2; i++) {
        const charl_param_spec spec = {.name = i ? "second" : "first",
                                       .shape = {2, {WIDTH, WIDTH}},
                                       .init = {CHARL_INIT_UNIFORM, -1.0F, 1.0F},
                                       .trainable = true};

        if (i < sets) {
            charl_assert_ok(charl_params_create(&set[i]));
        }
        charl_assert_ok(charl_params_add(set[i < sets ? i : 0], &spec, &p[i]));
        y = charl_tanh(g, charl_linear(g, y, charl_parameter(g, p[i]), NULL));
    }
    if (sets == 1) {
        charl_assert_ok(charl_params_freeze(set[0], "second", NULL));
    } else {
        charl_graph_set_trained(g, set[0]);
    }
    loss = charl_batch_mean(g, charl_mse(g, charl_cast(g, y, CHARL_F32), x));
    charl_graph_keep(g, loss);
    charl_graph_backward(g, loss, NULL);
    charl_assert_ok(charl_graph_compile(g));
    for (int i = 0; i < sets; i++) {
        charl_assert_ok(charl_params_initialize(set[i], 3));
    }
    assert_null(charl_var_get_gradient(charl_parameter(g, p[1])));
    charl_assert_ok(charl_optimizer_create(set[0], &adamw, &optimizer));
    charl_test_fill(rows, ROWS * WIDTH, -1.0F, 1.0F, 8);
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(x), rows, sizeof rows));
    for (int i = 0; i < STEPS; i++) {
        charl_assert_ok(charl_graph_run(g));
        charl_assert_ok(charl_optimizer_step(optimizer, 1e-2F));
    }
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(loss), &value, sizeof value));
    for (int i = 0; i < 2; i++) {
        charl_assert_ok(charl_param_read(p[i], weight[i]));
    }
    charl_optimizer_destroy(optimizer);
    charl_graph_destroy(g);
    charl_params_destroy(set[0]);
    charl_params_destroy(set[1]);
    return value;
}

/* Parameters of a set that a graph does not train are as if they were frozen. */
static void test_sets(void **state)
{
    static const charl_dtype precisions[] = {CHARL_F32, CHARL_BF16};
    float one[2][WIDTH * WIDTH], two[2][WIDTH * WIDTH];

    (void)state;
    for (int i = 0; i < 2; i++) {
        const float a = two_layers(1, precisions[i], one), b = two_layers(2, precisions[i], two);

        charl_assert_same_bits(&a, &b, 1);
        charl_assert_same_bits(one[0], two[0], WIDTH * WIDTH);
        charl_assert_same_bits(one[1], two[1], WIDTH * WIDTH);
    }
}

static void test_sets_unnamed(void **state)
{
    const charl_param_spec spec = {.name = "w", .shape = {1, {1}}, .trainable = true};
    charl_params *set[2];
    charl_param *p[2];
    charl_graph *g;
    charl_var *y;

    (void)state;
    charl_assert_ok(charl_graph_create(dev, NULL, &g));
    for (int i = 0; i < 2; i++) {
        charl_assert_ok(charl_params_create(&set[i]));
        charl_assert_ok(charl_params_add(set[i], &spec, &p[i]));
    }
    y = charl_mul(g, charl_parameter(g, p[0]), charl_parameter(g, p[1]));
    charl_graph_backward(g, y, NULL);
    charl_assert_status(charl_graph_compile(g), CHARL_ERR_INVALID);
    charl_assert_message("the graph has parameters of 2 sets; HINT charl_graph_set_trained says which one it trains");
    charl_graph_destroy(g);
    charl_assert_ok(charl_graph_create(dev, NULL, &g));
    charl_graph_backward(g, charl_parameter(g, p[0]), NULL);
    charl_graph_set_trained(g, set[1]);
    charl_assert_status(charl_graph_compile(g), CHARL_ERR_INVALID);
    charl_assert_message("charl_graph_set_trained comes before charl_graph_backward");
    charl_graph_destroy(g);
    charl_params_destroy(set[0]);
    charl_params_destroy(set[1]);
}

static void test_errors(void **state)
{
    run r;

    (void)state;
    build(&r, CHARL_F32, false);
    charl_assert_status(charl_params_freeze(r.params, "fc1.*", NULL), CHARL_ERR_INVALID);
    charl_assert_message("are frozen while 2 graphs, optimizers and data-parallel objects use the set");
    run_fini(&r);
    charl_assert_ok(charl_params_create(&r.params));
    charl_assert_status(charl_params_freeze(r.params, "fc9.*", NULL), CHARL_ERR_INVALID);
    charl_assert_message("fc9.*");
    charl_params_destroy(r.params);
}

static int frozen(const char *patterns, char *flags)
{
    charl_model *model;
    charl_params *params;
    charl_graph *g;
    charl_var *x;
    int n = -1;

    charl_assert_ok(charl_model_create(&model));
    charl_assert_ok(
        charl_model_add_mlp(model, &(charl_mlp_config){.hidden = (int64_t[]){2}, .n_hidden = 1, .outputs = CLASSES}));
    charl_assert_ok(charl_params_create(&params));
    charl_assert_ok(charl_graph_create(dev, NULL, &g));
    x = charl_input(g, "x", CHARL_F32, (charl_shape){2, {ROWS, FEATURES}}, CHARL_BATCHED);
    charl_model_build(model, g, params, x);
    charl_assert_ok(charl_params_freeze(params, patterns, &n));
    for (int i = 0; i < charl_params_get_count(params); i++) {
        flags[i] = charl_param_is_frozen(charl_params_get(params, i)) ? '1' : '0';
    }
    flags[charl_params_get_count(params)] = '\0';
    charl_graph_destroy(g);
    charl_params_destroy(params);
    charl_model_destroy(model);
    return n;
}

/* fc1.weight, fc1.bias, fc2.weight, fc2.bias: the last pattern that matches decides. */
static void test_patterns(void **state)
{
    static const struct {
        const char *patterns, *flags;
    } cases[] = {{"*", "1111"},
                 {"fc1.*", "1100"},
                 {"*, !fc2.*", "1100"},
                 {"*,! fc?.bias ", "1010"},
                 {"!fc1.bias, *", "1111"},
                 {"fc1.*,fc2.bias,", "1101"},
                 {"", "0000"}};
    char flags[8];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *expected = cases[i].flags;
        int ones = 0;

        for (const char *c = expected; *c; c++) {
            ones += *c == '1';
        }
        assert_int_equal(frozen(cases[i].patterns, flags), ones);
        assert_string_equal(flags, expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32),    cmocka_unit_test(test_bf16),         cmocka_unit_test(test_written),
        cmocka_unit_test(test_errors), cmocka_unit_test(test_patterns),     cmocka_unit_test(test_phases),
        cmocka_unit_test(test_sets),   cmocka_unit_test(test_sets_unnamed),
    };

    return charl_test_on_device(tests, &dev);
}
