/* Batch normalisation as a whole, against a computation in double: values, gradients, running
 * statistics, inference, and the same bits whether a batch is one slice row range or another
 * rank's.
 */
#include "support/on_device.h"

#include <math.h>
#include <string.h>

#include "charl/ops.h"

enum { B = 16, C = 5, H = 3, W = 7, N = B * C * H * W, INNER = H * W };
enum { PLAIN, WEIGHT, BIAS, BOTH }; /* what a norm learns: bits */

static const float eps = 1e-3F, momentum = 0.1F;
static charl_device *dev;

typedef struct model {
    charl_params *set;
    charl_param *weight, *bias, *mean, *var;
    charl_graph *g;
    charl_var *x, *seed, *out;
} model;

static void add(model *m, const char *name, float value, bool trainable, charl_param **out)
{
    charl_assert_ok(charl_params_add(
        m->set,
        &(charl_param_spec){
            .name = name, .shape = {1, {C}}, .init = {CHARL_INIT_CONSTANT, value, 0.0F}, .trainable = trainable},
        out));
}

/* loss = sum of seed * batch_norm(x); x [B, C, H, W], or [B * INNER, C] for `flat`. */
static void build(model *m, bool flat, bool training, int learns)
{
    const charl_shape shape = flat ? (charl_shape){2, {B * INNER, C}} : (charl_shape){4, {B, C, H, W}};
    charl_slices slices;
    charl_batch_norm_args a = {.eps = eps, .momentum = momentum};
    charl_var *loss;

    memset(m, 0, sizeof *m);
    charl_assert_ok(charl_slices_block(8, 0, 1, &slices));
    charl_assert_ok(charl_params_create(&m->set));
    add(m, "weight", 1.5F, true, &m->weight);
    add(m, "bias", -0.25F, true, &m->bias);
    add(m, "running_mean", 0.5F, false, &m->mean);
    add(m, "running_var", 2.0F, false, &m->var);
    charl_assert_ok(charl_graph_create(dev, &slices, &m->g));
    charl_graph_set_training(m->g, training);
    m->x = charl_input(m->g, "x", CHARL_F32, shape, CHARL_BATCHED);
    m->seed = charl_input(m->g, "seed", CHARL_F32, shape, CHARL_BATCHED);
    charl_graph_require_gradient(m->g, m->x);
    a.weight = learns & WEIGHT ? charl_parameter(m->g, m->weight) : NULL;
    a.bias = learns & BIAS ? charl_parameter(m->g, m->bias) : NULL;
    a.running_mean = charl_parameter(m->g, m->mean);
    a.running_var = charl_parameter(m->g, m->var);
    m->out = charl_batch_norm(m->g, m->x, &a);
    charl_graph_keep(m->g, m->out);
    loss = charl_sum(m->g, charl_flatten(m->g, charl_mul(m->g, m->out, m->seed)), 1, false);
    charl_graph_backward(m->g, charl_sum(m->g, loss, 0, false), NULL);
    charl_assert_ok(charl_graph_compile(m->g));
    charl_assert_ok(charl_params_initialize(m->set, 1));
}

static void tear_down(model *m)
{
    charl_graph_destroy(m->g);
    charl_params_destroy(m->set);
}

/* One run; the running statistics afterwards. */
static void run(model *m, charl_status (*how)(charl_graph *g), float *mean, float *var)
{
    charl_assert_ok(how(m->g));
    charl_assert_ok(charl_param_read(m->mean, mean));
    charl_assert_ok(charl_param_read(m->var, var));
}

static void set_inputs(model *m, const float *x, const float *seed)
{
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(m->x), x, N * sizeof *x));
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(m->seed), seed, N * sizeof *seed));
}

static int64_t channel_of(int64_t i, bool flat)
{
    return flat ? i % C : i / INNER % C;
}

typedef struct expected {
    double out[N], gx[N], gw[C], gb[C], mean[C], var[C];
} expected;

static void statistics(const float *x, bool flat, double *mean, double *var)
{
    const double n = B * INNER;

    memset(mean, 0, C * sizeof *mean);
    memset(var, 0, C * sizeof *var);
    for (int64_t i = 0; i < N; i++) {
        mean[channel_of(i, flat)] += (double)x[i] / n;
    }
    for (int64_t i = 0; i < N; i++) {
        const double d = (double)x[i] - mean[channel_of(i, flat)];

        var[channel_of(i, flat)] += d * d / n;
    }
}

static void compute(const float *x, const float *g, bool flat, bool training, int learns, expected *e)
{
    const double n = B * INNER, w = learns & WEIGHT ? 1.5 : 1.0, b = learns & BIAS ? -0.25 : 0.0;
    double mean[C], var[C];

    memset(e, 0, sizeof *e);
    statistics(x, flat, mean, var);
    for (int c = 0; c < C; c++) {
        e->mean[c] = training ? 0.9 * 0.5 + 0.1 * mean[c] : 0.5;
        e->var[c] = training ? 0.9 * 2.0 + 0.1 * var[c] * n / (n - 1) : 2.0;
        mean[c] = training ? mean[c] : 0.5;
        var[c] = training ? var[c] : 2.0;
    }
    for (int64_t i = 0; i < N; i++) {
        const int64_t c = channel_of(i, flat);
        const double hat = ((double)x[i] - mean[c]) / sqrt(var[c] + (double)eps);

        e->out[i] = hat * w + b;
        e->gw[c] += (double)g[i] * hat;
        e->gb[c] += (double)g[i];
    }
    for (int64_t i = 0; i < N; i++) {
        const int64_t c = channel_of(i, flat);
        const double invstd = 1 / sqrt(var[c] + (double)eps), hat = ((double)x[i] - mean[c]) * invstd;

        e->gx[i] = w * invstd * ((double)g[i] - (training ? e->gb[c] / n + hat * e->gw[c] / n : 0));
    }
}

static void read_gradient(charl_var *v, float *out, int64_t n)
{
    charl_var *g = charl_var_get_gradient(v);

    assert_non_null(g);
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(g), out, (size_t)n * sizeof *out));
}

static void check(bool flat, bool training, int learns, float shift)
{
    static expected want;
    static float x[N], g[N], got[N];
    static const double start_mean[C] = {0.5, 0.5, 0.5, 0.5, 0.5}, start_var[C] = {2, 2, 2, 2, 2};
    float mean[C], var[C];
    const double tolerance = 16 * charl_test_tolerance(B * INNER) * (1 + fabs((double)shift));
    model m;

    build(&m, flat, training, learns);
    charl_test_fill(x, N, shift - 1.0F, shift + 1.0F, 1);
    charl_test_fill(g, N, -1.0F, 1.0F, 2);
    set_inputs(&m, x, g);
    compute(x, g, flat, training, learns, &want);
    run(&m, charl_graph_warm_up, mean, var); /* runs all of it, and leaves them alone */
    charl_assert_close(mean, start_mean, C, 0.0);
    charl_assert_close(var, start_var, C, 0.0);
    run(&m, charl_graph_run, mean, var);
    charl_assert_close(mean, want.mean, C, tolerance);
    charl_assert_close(var, want.var, C, tolerance);
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(m.out), got, sizeof got));
    charl_assert_close(got, want.out, N, tolerance);
    read_gradient(m.x, got, N);
    charl_assert_close(got, want.gx, N, tolerance);
    if (learns & WEIGHT) {
        read_gradient(charl_parameter(m.g, m.weight), got, C);
        charl_assert_close(got, want.gw, C, tolerance);
    }
    if (learns & BIAS) {
        read_gradient(charl_parameter(m.g, m.bias), got, C);
        charl_assert_close(got, want.gb, C, tolerance);
    }
    tear_down(&m);
}

static void training_in_four_dimensions(void **state)
{
    (void)state;
    for (int learns = PLAIN; learns <= BOTH; learns++) {
        check(false, true, learns, 0.0F);
    }
}

static void training_in_two_dimensions(void **state)
{
    (void)state;
    check(true, true, BOTH, 0.0F);
    check(true, true, BIAS, 0.0F);
}

/* Two passes: a mean of 1000 deviations costs no more digits than x itself has. */
static void a_large_mean_is_harmless(void **state)
{
    (void)state;
    check(false, true, BOTH, 1000.0F);
    check(true, true, BOTH, 1000.0F);
}

static charl_var *misuse(charl_graph *g, charl_shape shape, charl_var *running)
{
    charl_var *x = charl_input(g, "x", CHARL_F32, shape, CHARL_REPLICATED);

    return charl_batch_norm(g, x, &(charl_batch_norm_args){.running_mean = running, .running_var = running});
}

static void what_makes_no_sense_is_refused(void **state)
{
    charl_graph *g;
    charl_var *running;

    (void)state;
    for (int i = 0; i < 3; i++) {
        charl_assert_ok(charl_graph_create(dev, NULL, &g));
        running = i == 2 ? NULL : charl_input(g, "running", CHARL_F32, (charl_shape){1, {4}}, CHARL_REPLICATED);
        assert_null(misuse(g, i == 0 ? (charl_shape){1, {4}} : (charl_shape){2, {3, 5}}, running));
        charl_assert_status(charl_graph_compile(g), i == 2 ? CHARL_ERR_INVALID : CHARL_ERR_SHAPE);
        charl_graph_destroy(g);
    }
}

/* Normalised by itself, one value per channel is 0, and nothing is learned. */
static void one_value_per_channel_cannot_train(void **state)
{
    static const charl_shape shapes[] = {{2, {1, 4}}, {4, {1, 4, 1, 1}}, {4, {1, 4, 1, 2}}};

    (void)state;
    for (int training = 0; training < 2; training++) {
        for (int i = 0; i < 3; i++) {
            charl_graph *g;

            charl_assert_ok(charl_graph_create(dev, NULL, &g));
            charl_graph_set_training(g, training != 0);
            if (misuse(g, shapes[i], charl_input(g, "running", CHARL_F32, (charl_shape){1, {4}}, CHARL_REPLICATED))) {
                assert_true(training == 0 || i == 2);
            } else {
                assert_true(training == 1 && i < 2);
                charl_assert_status(charl_graph_compile(g), CHARL_ERR_SHAPE);
                charl_assert_message("one value per channel");
            }
            charl_graph_destroy(g);
        }
    }
}

static void inference(void **state)
{
    (void)state;
    check(false, false, BOTH, 0.0F);
    check(true, false, PLAIN, 0.0F);
    check(false, false, BIAS, 0.0F);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_in_four_dimensions),    cmocka_unit_test(training_in_two_dimensions),
        cmocka_unit_test(a_large_mean_is_harmless),       cmocka_unit_test(inference),
        cmocka_unit_test(what_makes_no_sense_is_refused), cmocka_unit_test(one_value_per_channel_cannot_train),
    };

    return charl_test_on_device(tests, &dev);
}
