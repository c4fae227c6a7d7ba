/* Running compiled graphs: gradient check, replay, warm-up, failing acquisitions. */
#include "support/on_device.h"

#include <math.h>
#include <string.h>

#include "charl/error.h"
#include "charl/graph.h"
#include "charl/ops.h"
#include "charl/optim.h"
#include "charl/steps.h"

static charl_device *dev;

static charl_graph *new_graph(void)
{
    charl_graph *g;

    charl_assert_ok(charl_graph_create(dev, NULL, &g));
    return g;
}

static charl_var *input(charl_graph *g, const char *name, charl_shape shape)
{
    return charl_input(g, name, CHARL_F32, shape, CHARL_REPLICATED);
}

static void read(const charl_var *v, float *out, int64_t n)
{
    assert_non_null(v);
    assert_non_null(charl_var_get_tensor(v));
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(v), out, (size_t)n * sizeof *out));
}

static void write(const charl_var *v, const float *in, int64_t n)
{
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(v), in, (size_t)n * sizeof *in));
}

static charl_var *sum_all(charl_graph *g, charl_var *x)
{
    return charl_sum(g, charl_reshape(g, x, (charl_shape){1, {-1}}), 0, false);
}

typedef struct net {
    charl_params *params;
    charl_graph *g;
    charl_var *x, *y, *loss;
    charl_steps *steps; /* NULL: none */
    float distort;      /* scales the loss behind the gradients' back */
} net;

enum { ROWS = 4, CLASSES = 3 };

static charl_status add_param(net *n, const char *name, charl_shape shape, charl_var **out)
{
    charl_param *p = NULL;
    const charl_param_spec spec = {
        .name = name, .shape = shape, .init = {CHARL_INIT_UNIFORM, -0.4F, 0.4F}, .trainable = true};

    CHARL_TRY(charl_params_add(n->params, &spec, &p));
    *out = charl_parameter(n->g, p);
    return CHARL_OK;
}

static charl_status build_net(net *n, bool batch_norm)
{
    static const charl_window same = {{3, 3}, {1, 1}, {1, 1}, {1, 1}};
    static const charl_window half = {{2, 2}, {2, 2}, {0, 0}, {1, 1}};
    charl_var *w = NULL, *b = NULL, *w1 = NULL, *b1 = NULL, *w2 = NULL, *h;

    CHARL_TRY(add_param(n, "conv.weight", (charl_shape){4, {2, 1, 3, 3}}, &w));
    CHARL_TRY(add_param(n, "conv.bias", (charl_shape){1, {2}}, &b));
    CHARL_TRY(add_param(n, "fc1.weight", (charl_shape){2, {6, 8}}, &w1));
    CHARL_TRY(add_param(n, "fc1.bias", (charl_shape){1, {6}}, &b1));
    CHARL_TRY(add_param(n, "fc2.weight", (charl_shape){2, {CLASSES, 6}}, &w2));
    h = charl_conv2d(n->g, n->x, w, b, &same, 1);
    if (batch_norm) {
        charl_param *mean = NULL, *var = NULL;
        charl_batch_norm_args bn = {.eps = 1e-5F, .momentum = 0.1F};
        charl_param_spec spec = {.name = "bn.running_mean", .shape = {1, {2}}};

        CHARL_TRY(charl_params_add(n->params, &spec, &mean));
        spec.name = "bn.running_var";
        spec.init.a = 1.0F;
        CHARL_TRY(charl_params_add(n->params, &spec, &var));
        bn.running_mean = charl_parameter(n->g, mean);
        bn.running_var = charl_parameter(n->g, var);
        h = charl_batch_norm(n->g, h, &bn);
    }
    h = charl_flatten(n->g, charl_avg_pool2d(n->g, charl_tanh(n->g, h), &half));
    charl_graph_scope_begin(n->g, "drop");
    h = charl_dropout(n->g, charl_gelu(n->g, charl_linear(n->g, h, w1, b1), false), 0.25F);
    charl_graph_scope_end(n->g);
    h = charl_linear(n->g, h, w2, NULL);
    n->loss = charl_batch_mean(n->g, charl_cross_entropy(n->g, h, n->y, NULL, NULL));
    charl_graph_keep(n->g, n->loss);
    charl_graph_backward(n->g, n->loss, n->distort != 0.0F ? charl_constant(n->g, n->distort) : NULL);
    return CHARL_OK;
}

static charl_status net_open(net *n, bool batch_norm)
{
    float x[ROWS * 16];

    charl_test_fill(x, ROWS * 16, -1.0F, 1.0F, 2);
    CHARL_TRY(charl_params_create(&n->params));
    CHARL_TRY(charl_graph_create(dev, NULL, &n->g));
    if (n->steps) {
        charl_graph_set_steps(n->g, n->steps);
    }
    n->x = charl_input(n->g, "x", CHARL_F32, (charl_shape){4, {ROWS, 1, 4, 4}}, CHARL_BATCHED);
    n->y = charl_input(n->g, "y", CHARL_I32, (charl_shape){1, {ROWS}}, CHARL_BATCHED);
    CHARL_TRY(build_net(n, batch_norm));
    CHARL_TRY(charl_graph_compile(n->g));
    CHARL_TRY(charl_params_initialize(n->params, 9));
    CHARL_TRY(charl_tensor_write(charl_var_get_tensor(n->x), x, sizeof x));
    CHARL_TRY(charl_tensor_write(charl_var_get_tensor(n->y), (int32_t[]){0, 2, 1, 2}, ROWS * sizeof(int32_t)));
    return CHARL_OK;
}

static void net_close(net *n)
{
    charl_graph_destroy(n->g);
    charl_params_destroy(n->params);
    charl_steps_destroy(n->steps);
}

/* The gradients of all trainable parameters, or the values of all others or of those; returns how many numbers. */
typedef enum what { GRADIENTS, VALUES, STATISTICS } what;
enum { MOST = 512 };

static int64_t read_params(const net *n, what which, float *out)
{
    int64_t used = 0;

    for (int i = 0; i < charl_params_get_count(n->params); i++) {
        const charl_param *p = charl_params_get(n->params, i);
        const charl_param_spec *spec = charl_param_get_spec(p);

        if (spec->trainable == (which != STATISTICS)) {
            assert_true(used + charl_shape_count(&spec->shape) <= MOST);
            charl_assert_ok(which == GRADIENTS ? charl_param_read_gradient(p, out + used)
                                               : charl_param_read(p, out + used));
            used += charl_shape_count(&spec->shape);
        }
    }
    return used;
}

static void test_gradcheck(void **state)
{
    double worst = -1.0;
    net n = {0};
    static float before[MOST], after[MOST];
    int64_t count;

    (void)state;
    charl_assert_ok(net_open(&n, true));
    count = read_params(&n, VALUES, before);
    charl_assert_ok(charl_gradcheck(n.g, n.loss, 20, &worst));
    read_params(&n, VALUES, after);
    if (!(worst < 2e-2)) {
        fail_msg("worst deviation %g", worst);
    }
    assert_true(worst > 0.0);
    charl_assert_same_bits(after, before, count);
    charl_assert_status(charl_gradcheck(n.g, n.x, 0, &worst), CHARL_ERR_INVALID);
    net_close(&n);
}

static void test_gradcheck_finds_a_wrong_gradient(void **state)
{
    double worst = -1.0;
    net n = {.distort = 1.2F};

    (void)state;
    charl_assert_ok(net_open(&n, false));
    charl_assert_ok(charl_gradcheck(n.g, n.loss, 20, &worst));
    assert_true(worst > 5e-2);
    net_close(&n);
}

static void test_gradcheck_reports_nan(void **state)
{
    double worst = -1.0;
    net n = {0};
    float x[ROWS * 16] = {NAN};

    (void)state;
    charl_assert_ok(net_open(&n, false));
    write(n.x, x, ROWS * 16);
    charl_assert_ok(charl_gradcheck(n.g, n.loss, 3, &worst));
    assert_true(isnan(worst));
    net_close(&n);
}

/* The same step has the same bits, and another one drops other elements. */
static void test_second_run_has_the_same_bits(void **state)
{
    static float first[MOST], second[MOST];
    charl_optimizer_config sgd = charl_optimizer_defaults("sgd");
    charl_optimizer *o = NULL;
    net n = {0};
    int64_t count;

    (void)state;
    charl_assert_ok(charl_steps_create(dev, &(charl_steps_options){sizeof(charl_steps_options), .seed = 1}, &n.steps));
    charl_assert_ok(net_open(&n, false));
    sgd.steps = n.steps;
    charl_assert_ok(charl_optimizer_create(n.params, &sgd, &o));
    for (int run = 0; run < 3; run++) {
        charl_assert_ok(charl_optimizer_set_steps(o, run == 2, 0));
        charl_assert_ok(charl_optimizer_begin(o, 0.1F));
        charl_assert_ok(charl_graph_run(n.g));
        count = read_params(&n, GRADIENTS, run == 0 ? first : second);
        if (run == 1) {
            charl_assert_same_bits(second, first, count);
        }
    }
    assert_memory_not_equal(second, first, (size_t)count * sizeof *first);
    charl_optimizer_destroy(o);
    net_close(&n);
}

/* The graph's replay of an operator gives the bits of running it at once. */
static void test_replay_equals_eager(void **state)
{
    charl_graph *g = new_graph();
    charl_var *x = input(g, "x", (charl_shape){2, {5, 37}}), *y;
    charl_tensor *in, *mid[4], *out[4];
    float data[5 * 37], a[5 * 37], b[5 * 37];

    (void)state;
    charl_test_fill(data, 5 * 37, -3.0F, 3.0F, 4);
    y = charl_softmax(g, charl_tanh(g, x));
    charl_graph_keep(g, y);
    charl_assert_ok(charl_graph_compile(g));
    write(x, data, 5 * 37);
    charl_assert_ok(charl_graph_run(g));
    read(y, a, 5 * 37);
    charl_assert_ok(charl_tensor_create(dev, CHARL_F32, &(charl_shape){2, {5, 37}}, &in));
    charl_assert_ok(charl_tensor_write(in, data, sizeof data));
    charl_assert_ok(charl_apply(dev, "tanh", &in, 1, mid));
    charl_assert_ok(charl_apply(dev, "softmax", mid, 1, out));
    assert_null(out[1]);
    charl_assert_ok(charl_tensor_read(out[0], b, sizeof b));
    charl_assert_same_bits(a, b, 5 * 37);
    charl_tensor_release(in);
    charl_tensor_release(mid[0]);
    charl_tensor_release(out[0]);
    charl_graph_destroy(g);
}

static void test_apply_refuses(void **state)
{
    charl_tensor *t, *u, *out[4];

    (void)state;
    charl_assert_ok(charl_tensor_create(dev, CHARL_F32, &(charl_shape){1, {3}}, &t));
    charl_assert_ok(charl_tensor_create(dev, CHARL_F32, &(charl_shape){1, {4}}, &u));
    charl_assert_status(charl_apply(dev, "nonsense", &t, 1, out), CHARL_ERR_INVALID);
    charl_assert_message("nonsense");
    charl_assert_status(charl_apply(dev, "scale", &t, 1, out), CHARL_ERR_INVALID);
    charl_assert_message("settings");
    charl_assert_status(charl_apply(dev, "add", &t, 1, out), CHARL_ERR_INVALID);
    charl_assert_message("2 operands, 1");
    charl_assert_status(charl_apply(dev, "tanh", (charl_tensor *[]){t, t}, 2, out), CHARL_ERR_INVALID);
    charl_assert_message("1 operands, 2");
    charl_assert_status(charl_apply(dev, "add", (charl_tensor *[]){t, NULL}, 2, out), CHARL_ERR_INVALID);
    charl_assert_status(charl_apply(dev, "add", (charl_tensor *[]){t, u}, 2, out), CHARL_ERR_SHAPE);
    charl_assert_message("add: ");
    for (int k = 0; k < 4; k++) {
        assert_null(out[k]);
    }
    charl_tensor_release(t);
    charl_tensor_release(u);
}

/* Warming up runs every launch and changes nothing that lasts. */
static void test_warm_up_changes_nothing(void **state)
{
    static float values[2][MOST], statistics[2][MOST];
    net n = {0};
    int64_t v, s;

    (void)state;
    charl_assert_ok(net_open(&n, true));
    v = read_params(&n, VALUES, values[0]);
    s = read_params(&n, STATISTICS, statistics[0]);
    assert_true(v > 0 && s > 0);
    charl_assert_ok(charl_graph_warm_up(n.g));
    read_params(&n, VALUES, values[1]);
    read_params(&n, STATISTICS, statistics[1]);
    charl_assert_same_bits(values[1], values[0], v);
    charl_assert_same_bits(statistics[1], statistics[0], s);
    charl_assert_ok(charl_graph_run(n.g)); /* a real run does move the statistics */
    read_params(&n, STATISTICS, statistics[1]);
    assert_memory_not_equal(statistics[1], statistics[0], (size_t)s * sizeof(float));
    net_close(&n);
}

/* An input over a tensor that somebody else owns. */
static void test_halves_replay_alone(void **state)
{
    const charl_shape shape = {1, {4}};
    const float x[] = {1, -2, 3, -4}, dy[] = {5, 6, 7, 8}, want[] = {5, 0, 7, 0};
    charl_graph *g = new_graph();
    charl_var *a = charl_input(g, "x", CHARL_F32, shape, CHARL_BATCHED);
    charl_var *b = charl_input(g, "dy", CHARL_F32, shape, CHARL_BATCHED);
    charl_var *y;
    float got[4];

    (void)state;
    charl_graph_require_gradient(g, a);
    y = charl_relu(g, a);
    charl_graph_backward(g, y, b);
    charl_graph_keep(g, charl_var_get_gradient(a));
    charl_graph_keep(g, y);
    charl_assert_ok(charl_graph_compile(g));
    write(a, x, 4);
    write(b, dy, 4);
    charl_assert_ok(charl_graph_run_forward(g));
    read(charl_var_get_gradient(a), got, 4);
    assert_memory_equal(got, ((const float[]){0, 0, 0, 0}), sizeof got);
    charl_assert_ok(charl_graph_run_backward(g));
    read(charl_var_get_gradient(a), got, 4);
    assert_memory_equal(got, want, sizeof got);
    charl_graph_destroy(g);
}

/* A gradient of another type or shape; a second backward pass; half of a part of the batch. */
static void test_backward_from_refuses(void **state)
{
    static const charl_shape four = {1, {4}}, two = {1, {2}};
    charl_graph *g = new_graph();
    charl_var *x = charl_input(g, "x", CHARL_F32, four, CHARL_BATCHED);
    charl_slices half;

    (void)state;
    charl_graph_backward(g, x, charl_input(g, "dy", CHARL_F32, two, CHARL_BATCHED));
    charl_assert_status(charl_graph_status(g), CHARL_ERR_SHAPE);
    charl_assert_message("dy is no gradient of x");
    charl_graph_destroy(g);
    g = new_graph();
    charl_graph_backward(g, charl_input(g, "x", CHARL_F32, four, CHARL_BATCHED), NULL);
    charl_assert_message("x is not one f32 number; HINT charl_batch_mean");
    charl_graph_destroy(g);
    g = new_graph();
    x = charl_relu(g, charl_input(g, "x", CHARL_F32, four, CHARL_BATCHED));
    charl_graph_backward(g, x, x);
    charl_graph_backward(g, x, x);
    charl_assert_status(charl_graph_status(g), CHARL_ERR_INVALID);
    charl_assert_message("has its gradients already");
    charl_graph_destroy(g);
    charl_assert_ok(charl_slices_block(2, 0, 2, &half));
    charl_assert_ok(charl_graph_create(dev, &half, &g));
    charl_graph_keep(g, charl_relu(g, charl_input(g, "x", CHARL_F32, four, CHARL_BATCHED)));
    charl_assert_status(charl_graph_run_backward(g), CHARL_ERR_INVALID);
    charl_assert_message("the graph is not compiled");
    charl_assert_ok(charl_graph_compile(g));
    charl_assert_status(charl_graph_run_forward(g), CHARL_ERR_INVALID);
    charl_assert_message("it can only run whole");
    charl_graph_destroy(g);
}

/* One graph of every product, and their number of operations by hand. */
static void test_flop_of_products(void **state)
{
    enum { B = 8, T = 4, H = 6 };
    static const charl_window window = {{3, 3}, {2, 2}, {1, 1}, {1, 1}};
    static const charl_attention_args causal = {.heads = 2, .causal = true};
    const double linear = 2.0 * B * T * 5 * 3 * H, attention = 2.0 * B * T * T * H;
    const double conv = 2.0 * B * 3 * 4 * 7 * (2 * 3 * 3);
    charl_graph *g = new_graph();
    charl_var *x = charl_input(g, "x", CHARL_F32, (charl_shape){3, {B, T, 5}}, CHARL_BATCHED);
    charl_var *w = input(g, "w", (charl_shape){2, {3 * H, 5}}), *y, *bias;

    (void)state;
    charl_graph_require_gradient(g, x);
    charl_graph_require_gradient(g, w);
    y = charl_attention(g, charl_linear(g, x, w, NULL), &causal);
    charl_graph_backward(g, y, charl_input(g, "dy", CHARL_F32, (charl_shape){3, {B, T, H}}, CHARL_BATCHED));
    charl_graph_keep(g, charl_var_get_gradient(x));
    charl_graph_keep(g, charl_var_get_gradient(w));
    charl_assert_ok(charl_graph_compile(g));
    assert_int_equal(llround(charl_graph_get_info(g).flop), llround(3 * linear + 3.5 * attention));
    charl_graph_destroy(g);
    g = new_graph(); /* with a bias, whose gradient is one with that of the weight */
    x = charl_input(g, "x", CHARL_F32, (charl_shape){2, {B, 5}}, CHARL_BATCHED);
    w = input(g, "w", (charl_shape){2, {H, 5}});
    bias = input(g, "bias", (charl_shape){1, {H}});
    charl_graph_require_gradient(g, w);
    charl_graph_require_gradient(g, bias);
    charl_graph_backward(g, charl_linear(g, x, w, bias),
                         charl_input(g, "dy", CHARL_F32, (charl_shape){2, {B, H}}, CHARL_BATCHED));
    charl_graph_keep(g, charl_var_get_gradient(w));
    charl_graph_keep(g, charl_var_get_gradient(bias));
    charl_assert_ok(charl_graph_compile(g));
    assert_int_equal(llround(charl_graph_get_info(g).flop), B * H * 5 * 2); /* only the gradient is kept */
    charl_graph_destroy(g);
    g = new_graph();
    x = charl_input(g, "x", CHARL_F32, (charl_shape){4, {B, 2, 5, 7}}, CHARL_BATCHED);
    w = input(g, "w", (charl_shape){4, {7, 2, 3, 3}});
    charl_graph_keep(g, charl_conv2d(g, x, w, NULL, &window, 1));
    charl_assert_ok(charl_graph_compile(g));
    assert_int_equal(llround(charl_graph_get_info(g).flop), llround(conv));
    charl_graph_destroy(g);
}

static charl_status life_of_a_graph(void *ctx)
{
    charl_status st = CHARL_OK;
    net n = {0};
    char *text = NULL;
    float loss;

    (void)ctx;
    CHARL_TRY_CLEANUP(net_open(&n, true));
    CHARL_TRY_CLEANUP(charl_graph_warm_up(n.g));
    CHARL_TRY_CLEANUP(charl_graph_run(n.g));
    CHARL_TRY_CLEANUP(charl_tensor_read(charl_var_get_tensor(n.loss), &loss, sizeof loss));
    CHARL_TRY_CLEANUP(charl_graph_print(n.g, true, &text));
cleanup:
    charl_free(text);
    net_close(&n);
    return st;
}

static charl_status life_of_an_eager_tensor(void *ctx)
{
    charl_status st = CHARL_OK;
    charl_tensor *t = NULL, *out[4] = {0};

    (void)ctx;
    CHARL_TRY_CLEANUP(charl_tensor_create(dev, CHARL_F32, &(charl_shape){2, {3, 4}}, &t));
    CHARL_TRY_CLEANUP(charl_apply(dev, "softmax", &t, 1, out));
cleanup:
    charl_tensor_release(t);
    charl_tensor_release(out[0]);
    return st;
}

static void test_every_acquisition_may_fail(void **state)
{
    (void)state;
    charl_test_fail_every_acquisition(life_of_a_graph, NULL);
    charl_test_fail_every_acquisition(life_of_an_eager_tensor, NULL);
}

/* A set survives a graph that could not be compiled. */
static charl_status compile_again(void *ctx)
{
    charl_status st = CHARL_OK, first;
    net n = {0};
    charl_graph *second = NULL;
    charl_var *w;

    (void)ctx;
    first = net_open(&n, false);
    charl_graph_destroy(n.g);
    n.g = NULL;
    if (first != CHARL_OK && n.params && charl_params_get_count(n.params) > 0) {
        CHARL_TRY_CLEANUP(charl_graph_create(dev, NULL, &second));
        w = charl_parameter(second, charl_params_get(n.params, 0));
        charl_graph_backward(second, sum_all(second, w), NULL);
        CHARL_TRY_CLEANUP(charl_graph_compile(second));
        CHARL_TRY_CLEANUP(charl_graph_run(second));
    }
    CHARL_TRY_CLEANUP(first);
cleanup:
    charl_graph_destroy(second);
    net_close(&n);
    return st;
}

static void test_a_set_outlives_a_failed_graph(void **state)
{
    (void)state;
    charl_test_fail_every_acquisition(compile_again, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradcheck),
        cmocka_unit_test(test_gradcheck_finds_a_wrong_gradient),
        cmocka_unit_test(test_gradcheck_reports_nan),
        cmocka_unit_test(test_second_run_has_the_same_bits),
        cmocka_unit_test(test_replay_equals_eager),
        cmocka_unit_test(test_apply_refuses),
        cmocka_unit_test(test_warm_up_changes_nothing),
        cmocka_unit_test(test_halves_replay_alone),
        cmocka_unit_test(test_backward_from_refuses),
        cmocka_unit_test(test_flop_of_products),
        cmocka_unit_test(test_every_acquisition_may_fail),
        cmocka_unit_test(test_a_set_outlives_a_failed_graph),
    };

    return charl_test_on_device(tests, &dev);
}
