/* Step parameters in a loop of a program's own: a loss scale changes no bit in f32, a dynamic one recovers from an
 * overflow, and dropout draws by seed and step.
 */
#include "support/on_device.h"

#include <math.h>
#include <string.h>

#include "charl/charl.h"

enum { ROWS = 16, FEATURES = 6, CLASSES = 3, STEPS = 3, WEIGHTS = 8 * FEATURES };

static charl_device *dev;

typedef struct run {
    charl_steps *steps;
    charl_model *model;
    charl_params *params;
    charl_graph *g;
    charl_optimizer *optimizer;
    charl_var *loss;
} run;

static void open_run(run *r, charl_steps_options o, double dropout, charl_dtype precision)
{
    const charl_mlp_config mlp = {.hidden = (int64_t[]){8}, .n_hidden = 1, .outputs = CLASSES, .dropout = dropout};
    charl_optimizer_config sgd = charl_optimizer_defaults("sgd");
    float x[ROWS * FEATURES];
    int32_t y[ROWS];
    charl_var *in, *labels;

    sgd.grad_clip = 1.0F;
    charl_assert_ok(charl_steps_create(dev, &o, &r->steps));
    charl_assert_ok(charl_model_create(&r->model));
    charl_assert_ok(charl_model_add_mlp(r->model, &mlp));
    charl_assert_ok(charl_params_create(&r->params));
    charl_assert_ok(charl_graph_create(dev, NULL, &r->g));
    charl_graph_set_steps(r->g, r->steps);
    charl_graph_set_precision(r->g, precision);
    in = charl_input(r->g, "x", CHARL_F32, (charl_shape){2, {ROWS, FEATURES}}, CHARL_BATCHED);
    labels = charl_input(r->g, "y", CHARL_I32, (charl_shape){1, {ROWS}}, CHARL_BATCHED);
    r->loss = charl_batch_mean(
        r->g, charl_cross_entropy(r->g, charl_model_build(r->model, r->g, r->params, charl_cast(r->g, in, precision)),
                                  labels, NULL, NULL));
    charl_graph_keep(r->g, r->loss);
    charl_graph_backward(r->g, r->loss, charl_graph_loss_scale(r->g));
    charl_assert_ok(charl_graph_compile(r->g));
    charl_assert_ok(charl_params_initialize(r->params, 4));
    sgd.steps = r->steps;
    charl_assert_ok(charl_optimizer_create(r->params, &sgd, &r->optimizer));
    charl_test_fill(x, ROWS * FEATURES, -1.0F, 1.0F, 8);
    for (int i = 0; i < ROWS; i++) {
        y[i] = i % CLASSES;
    }
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(in), x, sizeof x));
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(labels), y, sizeof y));
}

static void train(run *r, int steps, float *weights)
{
    for (int i = 0; i < steps; i++) {
        charl_assert_ok(charl_optimizer_begin(r->optimizer, 0.1F));
        charl_assert_ok(charl_graph_run(r->g));
        charl_assert_ok(charl_optimizer_step(r->optimizer, 0.1F));
    }
    charl_assert_ok(charl_param_read(charl_params_find(r->params, "fc1.weight"), weights));
}

static void close_run(run *r)
{
    charl_optimizer_destroy(r->optimizer);
    charl_graph_destroy(r->g);
    charl_params_destroy(r->params);
    charl_model_destroy(r->model);
    charl_steps_destroy(r->steps);
}

static void trained(charl_steps_options o, double dropout, int steps, float *weights)
{
    run r;

    open_run(&r, o, dropout, CHARL_F32);
    train(&r, steps, weights);
    close_run(&r);
}

static void test_a_scale_changes_no_bit(void **state)
{
    float plain[WEIGHTS], scaled[WEIGHTS];

    (void)state;
    trained((charl_steps_options){sizeof(charl_steps_options), .seed = 0}, 0, STEPS, plain);
    trained((charl_steps_options){sizeof(charl_steps_options), .loss_scale = 1024}, 0, STEPS, scaled);
    charl_assert_same_bits(plain, scaled, WEIGHTS);
}

static void test_seed_and_step(void **state)
{
    float a[WEIGHTS], b[WEIGHTS], other[WEIGHTS];
    run r;

    (void)state;
    trained((charl_steps_options){sizeof(charl_steps_options), .seed = 5}, 0.5, STEPS, a);
    trained((charl_steps_options){sizeof(charl_steps_options), .seed = 5}, 0.5, STEPS, b);
    trained((charl_steps_options){sizeof(charl_steps_options), .seed = 6}, 0.5, STEPS, other);
    charl_assert_same_bits(a, b, WEIGHTS);
    assert_true(memcmp(a, other, sizeof a) != 0);
    open_run(&r, (charl_steps_options){sizeof(charl_steps_options), .seed = 5}, 0.5, CHARL_F32);
    charl_assert_ok(charl_optimizer_set_steps(r.optimizer, 9, 0)); /* the same weights at another step draw otherwise */
    train(&r, STEPS, other);
    assert_true(memcmp(a, other, sizeof a) != 0);
    close_run(&r);
}

static void test_a_dynamic_scale_recovers(void **state)
{
    float before[WEIGHTS], after[WEIGHTS], scale;
    run r;

    (void)state;
    open_run(&r, (charl_steps_options){sizeof(charl_steps_options), .loss_scale = 65536, .dynamic = true}, 0,
             CHARL_F16);
    charl_assert_ok(charl_steps_set_loss_scale(r.steps, 0x1p127F));
    train(&r, 0, before);
    train(&r, 1, after);
    charl_assert_same_bits(before, after, WEIGHTS); /* left out */
    charl_assert_ok(charl_steps_get_loss_scale(r.steps, &scale));
    assert_true(scale == 0x1p126F);
    train(&r, 130, after);
    charl_assert_ok(charl_steps_get_loss_scale(r.steps, &scale));
    assert_true(scale >= 1.0F && scale <= 0x1p22F);
    assert_true(memcmp(before, after, sizeof before) != 0);
    for (int i = 0; i < WEIGHTS; i++) {
        assert_true(isfinite(after[i]));
    }
    close_run(&r);
}

static void test_errors(void **state)
{
    charl_optimizer *plain;
    charl_steps *s;
    run r;
    float scale;
    double worst;

    (void)state;
    charl_assert_status(
        charl_steps_create(dev, &(charl_steps_options){sizeof(charl_steps_options), .loss_scale = 3}, &s),
        CHARL_ERR_INVALID);
    charl_assert_status(
        charl_steps_create(dev, &(charl_steps_options){sizeof(charl_steps_options), .dynamic = true}, &s),
        CHARL_ERR_INVALID);
    open_run(&r, (charl_steps_options){sizeof(charl_steps_options), .seed = 1}, 0, CHARL_F32);
    charl_assert_ok(charl_steps_get_loss_scale(r.steps, &scale));
    assert_true(scale == 1.0F);
    charl_assert_status(charl_steps_set_loss_scale(r.steps, 2), CHARL_ERR_INVALID);
    charl_assert_status(charl_optimizer_step(r.optimizer, 0.1F), CHARL_ERR_INVALID);
    charl_assert_message("charl_optimizer_begin");
    charl_assert_ok(charl_optimizer_create(r.params, &(charl_optimizer_config){.type = "sgd"}, &plain));
    charl_assert_status(charl_optimizer_begin(plain, 0.1F), CHARL_ERR_INVALID);
    charl_optimizer_destroy(plain);
    charl_assert_ok(charl_gradcheck(r.g, r.loss, 1, &worst));
    close_run(&r);
    open_run(&r, (charl_steps_options){sizeof(charl_steps_options), .seed = 1, .loss_scale = 1024}, 0, CHARL_F32);
    charl_assert_status(charl_gradcheck(r.g, r.loss, 1, &worst), CHARL_ERR_INVALID);
    charl_assert_message("loss scale");
    close_run(&r);
}

/* Of two ranks one, whose gradients nobody adds to those of the other. */
static void test_part_of_the_batch(void **state)
{
    const charl_shape rows = {2, {ROWS, FEATURES}};
    const charl_optimizer_config sgd = charl_optimizer_defaults("sgd");
    charl_optimizer *o = NULL;
    charl_params *params;
    charl_slices half;
    charl_graph *g;
    charl_param *w;
    charl_var *y;

    (void)state;
    charl_assert_ok(charl_slices_block(8, 0, 2, &half));
    charl_assert_ok(charl_graph_create(dev, &half, &g));
    charl_assert_ok(charl_params_create(&params));
    charl_assert_ok(
        charl_params_add(params, &(charl_param_spec){.name = "w", .shape = {2, {1, FEATURES}}, .trainable = true}, &w));
    y = charl_linear(g, charl_input(g, "x", CHARL_F32, rows, CHARL_BATCHED), charl_parameter(g, w), NULL);
    charl_graph_backward(g, charl_sum(g, charl_sum(g, y, 1, false), 0, false), NULL);
    charl_assert_ok(charl_graph_compile(g));
    charl_assert_status(charl_optimizer_create(params, &sgd, &o), CHARL_ERR_INVALID);
    charl_assert_message("HINT call charl_data_parallel_compile");
    charl_graph_destroy(g);
    charl_params_destroy(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_scale_changes_no_bit),
        cmocka_unit_test(test_seed_and_step),
        cmocka_unit_test(test_a_dynamic_scale_recovers),
        cmocka_unit_test(test_part_of_the_batch),
        cmocka_unit_test(test_errors),
    };

    return charl_test_on_device(tests, &dev);
}
