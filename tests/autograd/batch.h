#ifndef CHARL_TESTS_AUTOGRAD_BATCH_H
#define CHARL_TESTS_AUTOGRAD_BATCH_H
/** Graphs of several ranks over one batch in one process, run in lock step. */
#include "support/support.h"

#include <stdio.h>
#include <string.h>

#include "autograd/graph_private.h"
#include "base/alloc.h"
#include "base/numeric/bf16.h"
#include "charl/ops.h"

enum { TOTAL = 8, ROWS = 16, CLASSES = 4, MAX_LANES_OF_ALL = 32 };

typedef struct rank {
    charl_slices slices;
    charl_params *params;
    charl_graph *g;
    charl_var *x, *y, *loss;
} rank;

typedef charl_var *(*model_fn)(charl_graph *g, charl_params *set, charl_var *x);

static charl_device *dev;
static charl_steps *steps;
static charl_dtype reduce_dtype = CHARL_F32;

static charl_var *param(charl_graph *g, charl_params *set, const char *name, charl_shape shape)
{
    charl_param *p = NULL;

    charl_assert_ok(charl_params_add(
        set,
        &(charl_param_spec){.name = name, .shape = shape, .init = {CHARL_INIT_UNIFORM, -0.5F, 0.5F}, .trainable = true},
        &p));
    return charl_parameter(g, p);
}

static charl_var *statistic(charl_graph *g, charl_params *set, const char *name, int64_t n, float a)
{
    charl_param *p = NULL;

    charl_assert_ok(charl_params_add(
        set, &(charl_param_spec){.name = name, .shape = {1, {n}}, .init = {CHARL_INIT_CONSTANT, a, 0}}, &p));
    return charl_parameter(g, p);
}

/* Dropout; a weight used twice, whose gradients are completed before they are added up; biases that
 * share one gradient, one of which is used twice; a parameter that the loss does not use. */
static charl_var *mlp(charl_graph *g, charl_params *set, charl_var *x)
{
    charl_var *unused = param(g, set, "unused", (charl_shape){1, {5}});
    charl_var *w1 = param(g, set, "fc1.weight", (charl_shape){2, {10, 72}});
    charl_var *a = param(g, set, "a", (charl_shape){1, {10}});
    charl_var *b = param(g, set, "b", (charl_shape){1, {10}});
    charl_var *c = param(g, set, "c", (charl_shape){1, {10}});
    charl_var *tied = param(g, set, "tied.weight", (charl_shape){2, {10, 10}});
    charl_var *w2 = param(g, set, "fc2.weight", (charl_shape){2, {CLASSES, 10}});
    charl_var *b2 = param(g, set, "fc2.bias", (charl_shape){1, {CLASSES}});
    charl_var *h = charl_linear(g, charl_flatten(g, x), w1, charl_add(g, charl_add(g, a, b), c));

    assert_non_null(unused);
    charl_graph_scope_begin(g, "drop");
    h = charl_dropout(g, charl_relu(g, h), 0.5F);
    charl_graph_scope_end(g);
    h = charl_tanh(g, charl_add(g, charl_linear(g, h, tied, NULL), c));
    h = charl_linear(g, h, tied, NULL);
    return charl_linear(g, h, w2, b2);
}

static charl_var *cnn(charl_graph *g, charl_params *set, charl_var *x)
{
    static const charl_window same = {{3, 3}, {1, 1}, {1, 1}, {1, 1}};
    static const charl_window half = {{2, 2}, {2, 2}, {0, 0}, {1, 1}};
    charl_var *w = param(g, set, "conv.weight", (charl_shape){4, {3, 2, 3, 3}});
    charl_var *b = param(g, set, "conv.bias", (charl_shape){1, {3}});
    charl_var *w2 = param(g, set, "fc.weight", (charl_shape){2, {CLASSES, 27}});
    charl_var *b2 = param(g, set, "fc.bias", (charl_shape){1, {CLASSES}});
    charl_var *h = charl_max_pool2d(g, charl_relu(g, charl_conv2d(g, x, w, b, &same, 1)), &half);

    return charl_linear(g, charl_flatten(g, h), w2, b2);
}

static charl_var *normed_cnn(charl_graph *g, charl_params *set, charl_var *x)
{
    static const charl_window same = {{3, 3}, {1, 1}, {1, 1}, {1, 1}};
    charl_var *w = param(g, set, "conv.weight", (charl_shape){4, {3, 2, 3, 3}});
    charl_batch_norm_args bn = {.eps = 1e-5F, .momentum = 0.1F};
    charl_var *w2, *b2, *h = charl_conv2d(g, x, w, NULL, &same, 1);

    bn.weight = param(g, set, "bn.weight", (charl_shape){1, {3}});
    bn.bias = param(g, set, "bn.bias", (charl_shape){1, {3}});
    bn.running_mean = statistic(g, set, "bn.running_mean", 3, 0.0F);
    bn.running_var = statistic(g, set, "bn.running_var", 3, 1.0F);
    w2 = param(g, set, "fc.weight", (charl_shape){2, {CLASSES, 3}});
    b2 = param(g, set, "fc.bias", (charl_shape){1, {CLASSES}});
    h = charl_global_avg_pool(g, charl_relu(g, charl_batch_norm(g, h, &bn)));
    return charl_linear(g, h, w2, b2);
}

/* Gradients that are moved to where they end: of transposed weights, one of which is also used as
 * it is. */
static charl_var *turned(charl_graph *g, charl_params *set, charl_var *x)
{
    charl_var *w = param(g, set, "w", (charl_shape){2, {72, 10}});
    charl_var *both = param(g, set, "both", (charl_shape){2, {10, 10}});
    charl_var *w2 = param(g, set, "w2", (charl_shape){2, {CLASSES, 10}});
    charl_var *h = charl_linear(g, charl_flatten(g, x), charl_transpose(g, w, (int[]){1, 0}), NULL);

    h = charl_tanh(g, charl_linear(g, h, charl_transpose(g, both, (int[]){1, 0}), NULL));
    return charl_linear(g, charl_linear(g, h, both, NULL), w2, NULL);
}

/* A norm without bias: one of two sums that a launch forms is not used. */
static charl_var *scaled(charl_graph *g, charl_params *set, charl_var *x)
{
    charl_var *w1 = param(g, set, "fc1.weight", (charl_shape){2, {10, 72}});
    charl_var *scale = param(g, set, "norm.weight", (charl_shape){1, {10}});
    charl_var *w2 = param(g, set, "fc2.weight", (charl_shape){2, {CLASSES, 10}});
    charl_var *h = charl_linear(g, charl_flatten(g, x), w1, NULL);

    return charl_linear(g, charl_layer_norm(g, h, scale, NULL, 1e-5F), w2, NULL);
}

static charl_status no_collective(void *ctx, charl_tensor *lanes, charl_tensor *sum)
{
    (void)ctx;
    (void)lanes;
    (void)sum;
    return CHARL_ERR_COMM; /* the test performs collectives itself */
}

static void rank_init(rank *r, model_fn model, int i, int size)
{
    const charl_shape one = {4, {1, 2, 6, 6}};
    charl_shape shape = one;
    charl_var *logits;

    charl_assert_ok(charl_slices_block(TOTAL, i, size, &r->slices));
    shape.dim[0] = ROWS / TOTAL * r->slices.count;
    charl_assert_ok(charl_params_create(&r->params));
    r->params->reduce_dtype = reduce_dtype;
    charl_assert_ok(charl_graph_create(dev, &r->slices, &r->g));
    charl_graph_set_steps(r->g, steps);
    charl__graph_on_collective(r->g, no_collective, NULL);
    r->x = charl_input(r->g, "x", CHARL_F32, shape, CHARL_BATCHED);
    r->y = charl_input(r->g, "y", CHARL_I32, (charl_shape){1, {shape.dim[0]}}, CHARL_BATCHED);
    logits = model(r->g, r->params, r->x);
    r->loss = charl_batch_mean(
        r->g, charl_cross_entropy(r->g, logits, r->y, NULL, &(charl_cross_entropy_args){.label_smoothing = 0.1F}));
    charl_graph_keep(r->g, r->loss);
    charl_graph_backward(r->g, r->loss, NULL);
    charl_assert_ok(charl_graph_compile(r->g));
    charl_assert_ok(charl_params_initialize(r->params, 7));
}

static void rank_fini(rank *r)
{
    charl_graph_destroy(r->g);
    charl_params_destroy(r->params);
}

/* This rank's rows of a batch that is the same whatever the number of ranks. */
static void write_inputs(rank *r)
{
    const int64_t rows = ROWS / TOTAL * r->slices.count;
    const int64_t first = (int64_t)ROWS / TOTAL * r->slices.first;
    float x[ROWS * 72];
    int32_t y[ROWS];

    charl_test_fill(x, ROWS * 72, -1.0F, 1.0F, 11);
    for (int i = 0; i < ROWS; i++) {
        y[i] = i * 7 % CLASSES;
    }
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(r->x), x + first * 72, (size_t)rows * 72 * sizeof *x));
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(r->y), y + first, (size_t)rows * sizeof *y));
}

/* The tree over lanes[k][0..n), which start at slices lo[k]. */
static void add_lanes(const float *const *lanes, const int *lo, int m, int64_t n, float *out)
{
    charl__tree_add adds[MAX_LANES_OF_ALL];

    assert_int_equal(charl__tree_combine(TOTAL, lo, m, adds), m - 1);
    charl__tree_apply(adds, m, lanes, n, out);
}

static void collective(rank *r, int size, int action)
{
    const int64_t n = charl__tensor_count(r[0].g->action[action].node->out[0]->tensor);
    float *lanes[MAX_LANES_OF_ALL], *data[TOTAL], *sum;
    int lo[MAX_LANES_OF_ALL], m = 0;

    charl_assert_ok(charl__alloc_array(n, sizeof *sum, &sum));
    for (int i = 0; i < size; i++) {
        const charl_tensor *t = r[i].g->action[action].node->in[0]->tensor;

        assert_int_equal(charl__tensor_count(t), n * r[i].slices.n_lanes);
        charl_assert_ok(charl__alloc(charl__tensor_bytes(t), &data[i]));
        charl_assert_ok(charl_tensor_read(t, data[i], charl__tensor_bytes(t)));
        for (int j = 0; j < r[i].slices.n_lanes; j++) {
            lo[m] = r[i].slices.lane_lo[j];
            lanes[m++] = data[i] + j * n;
        }
    }
    add_lanes((const float *const *)lanes, lo, m, n, sum);
    for (int i = 0; i < size; i++) {
        charl_tensor *t = r[i].g->action[action].node->out[0]->tensor;

        charl_assert_ok(charl_tensor_write(t, sum, charl__tensor_bytes(t)));
        charl_free(data[i]);
    }
    charl_free(sum);
}

static void run_in_lock_step(rank *r, int size)
{
    const charl__step_params record = {.seed_lo = 3, .step_lo = 5, .loss_seed = 1, .commit = 1};

    charl_assert_ok(charl__steps_push(steps, &record));
    for (int a = 0; a < r[0].g->n_actions; a++) {
        for (int i = 0; i < size; i++) {
            const charl__action *action = &r[i].g->action[a];

            assert_int_equal(r[i].g->n_actions, r[0].g->n_actions);
            assert_int_equal(action->kind, r[0].g->action[a].kind);
            if (action->kind == CHARL_DO_REPLAY) {
                charl_assert_ok(charl__recording_replay(r[i].g->recording, action->first, action->last));
            }
        }
        if (r[0].g->action[a].kind == CHARL_DO_COLLECTIVE) {
            collective(r, size, a);
        }
    }
}

/* The same in bf16, as an all-reduce does it; lanes[k] are rounded in place, into their first half.
 */
static void add_lanes_bf16(float *const *lanes, const int *lo, int m, int64_t n, float *out)
{
    const uint16_t *half[MAX_LANES_OF_ALL];
    charl__tree_add adds[MAX_LANES_OF_ALL];
    uint16_t *sum;

    assert_int_equal(charl__tree_combine(TOTAL, lo, m, adds), m - 1);
    charl_assert_ok(charl__alloc_array(n, (size_t)m * sizeof *sum, &sum));
    for (int k = 0; k < m; k++) {
        for (int64_t i = 0; i < n; i++) {
            sum[k * n + i] = charl__bf16_round(lanes[k][i]);
        }
        half[k] = sum + k * n;
    }
    charl__tree_apply_bf16(adds, m, half, n, sum);
    for (int64_t i = 0; i < n; i++) {
        out[i] = charl__bf16_load(sum[i]);
    }
    charl_free(sum);
}

/* What charl__params_join does, on the host. */
static void join_shares(const charl_params *set, float *sum)
{
    for (int i = 0; i < set->count; i++) {
        const charl_param *p = set->param[i];

        for (int k = 1; k <= p->n_shares; k++) {
            for (int64_t e = 0; e < charl_shape_count(&p->spec.shape); e++) {
                sum[p->offset + e] += sum[charl__param_gradient_at(p, k) + e];
            }
        }
    }
}

/* The gradient of the whole batch from the arenas of all ranks, `elements` floats. */
static float *sum_gradients(const rank *r, int size)
{
    const int64_t n = r[0].params->gradient_elements;
    float *lanes[MAX_LANES_OF_ALL], *data[TOTAL], *sum;
    int lo[MAX_LANES_OF_ALL], m = 0;

    charl_assert_ok(charl__alloc_array(n, sizeof *sum, &sum));
    for (int i = 0; i < size; i++) {
        const size_t bytes = (size_t)(n * r[i].slices.n_lanes) * sizeof *sum;

        assert_int_equal(r[i].params->gradient_elements, n);
        charl_assert_ok(charl__alloc(bytes, &data[i]));
        charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, r[i].params->grad, 0, data[i], bytes, true));
        for (int j = 0; j < r[i].slices.n_lanes; j++) {
            lo[m] = r[i].slices.lane_lo[j];
            lanes[m++] = data[i] + j * n;
        }
    }
    if (reduce_dtype == CHARL_BF16) {
        add_lanes_bf16(lanes, lo, m, n, sum);
    } else {
        add_lanes((const float *const *)lanes, lo, m, n, sum);
    }
    join_shares(r[0].params, sum);
    for (int i = 0; i < size; i++) {
        charl_free(data[i]);
    }
    return sum;
}

#endif
