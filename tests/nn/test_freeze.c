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

static void build(run *r, charl_dtype precision, bool freeze)
{
    const charl_mlp_config mlp = {.hidden = (int64_t[]){HIDDEN}, .n_hidden = 1, .outputs = CLASSES};
    charl_optimizer_config adamw = charl_optimizer_defaults("adamw");
    float x[ROWS * FEATURES];
    int32_t y[ROWS];
    charl_var *in, *labels;

    *r = (run){.g = NULL};
    charl_assert_ok(charl_model_create(&r->model));
    charl_assert_ok(charl_model_add_mlp(r->model, &mlp));
    charl_assert_ok(charl_params_create(&r->params));
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
    charl_assert_ok(charl_params_initialize(r->params, 5));
    for (int i = 0; i < FROZEN_PARAMS; i++) {
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
    charl_optimizer_destroy(r->optimizer);
    charl_graph_destroy(r->g);
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
        assert_int_equal(charl_var_gradient(charl_parameter(frozen.g, p)) == NULL, is);
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

static void test_errors(void **state)
{
    run r;

    (void)state;
    build(&r, CHARL_F32, false);
    charl_assert_status(charl_params_freeze(r.params, "fc1.*", NULL), CHARL_ERR_INVALID);
    charl_assert_message("too late");
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
        cmocka_unit_test(test_f32),    cmocka_unit_test(test_bf16),     cmocka_unit_test(test_written),
        cmocka_unit_test(test_errors), cmocka_unit_test(test_patterns),
    };

    return charl_test_on_device(tests, &dev);
}
