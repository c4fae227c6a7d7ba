/* Computing activations again: the same bits from less memory. */
#include "support/on_device.h"

#include <stdio.h>
#include <string.h>

#include "autograd/graph_parts.h"
#include "autograd/graph_private.h"
#include "base/alloc.h"
#include "base/env.h"
#include "charl/ops.h"

enum { ROWS = 16, FEATURES = 24, LAYERS = 6 };

typedef enum mode { KEEP, PARTS, CHEAP } mode;

typedef struct net {
    charl_params *params;
    charl_graph *g;
    charl_var *x, *y, *loss;
} net;

static charl_device *dev;

static charl_var *parameter(net *n, const char *layer, const char *what, charl_shape shape)
{
    charl_param *p = NULL;
    char name[64];

    snprintf(name, sizeof name, "%s.%s", layer, what);
    charl_assert_ok(charl_params_add(
        n->params,
        &(charl_param_spec){.name = name, .shape = shape, .init = {CHARL_INIT_UNIFORM, -0.3F, 0.3F}, .trainable = true},
        &p));
    return charl_parameter(n->g, p);
}

/* A block with a shortcut, random numbers, and statistics of the whole batch. */
static charl_var *block(net *n, int i, charl_var *x)
{
    const charl_shape square = {2, {FEATURES, FEATURES}};
    charl_var *h, *mean;
    char name[16];

    snprintf(name, sizeof name, "b%d", i);
    charl__graph_part_begin(n->g);
    charl_graph_scope_begin(n->g, name);
    h = charl_gelu(n->g, charl_linear(n->g, x, parameter(n, name, "weight", square), NULL), false);
    mean = charl_batch_mean(n->g, charl_mean(n->g, h, 1, false));
    h = charl_sub(n->g, charl_dropout(n->g, h, 0.25F), mean);
    h = charl_tanh(n->g, charl_linear(n->g, h, parameter(n, name, "out", square), NULL));
    h = charl_add(n->g, x, h);
    charl_graph_scope_end(n->g);
    charl__graph_part_end(n->g);
    return h;
}

static void net_init(net *n, mode how, bool keep)
{
    charl_slices slices;
    charl_var *h;

    charl_assert_ok(charl_slices_block(8, 0, 1, &slices));
    charl_assert_ok(charl_params_create(&n->params));
    charl_assert_ok(charl_graph_create(dev, &slices, &n->g));
    charl__graph_set_recompute(n->g, how == PARTS);
    charl__graph_set_recompute_cheap(n->g, how == CHEAP);
    n->x = charl_input(n->g, "x", CHARL_F32, (charl_shape){2, {ROWS, FEATURES}}, CHARL_BATCHED);
    n->y = charl_input(n->g, "y", CHARL_I32, (charl_shape){1, {ROWS}}, CHARL_BATCHED);
    h = n->x;
    for (int i = 0; i < LAYERS; i++) {
        h = block(n, i, h);
        if (keep && i == 2) {
            charl_graph_keep(n->g, h);
        }
    }
    n->loss = charl_batch_mean(n->g, charl_cross_entropy(n->g, h, n->y, NULL, NULL));
    charl_graph_keep(n->g, n->loss);
    charl_graph_backward(n->g, n->loss, NULL);
    charl_assert_ok(charl_graph_compile(n->g));
    charl_assert_ok(charl_params_initialize(n->params, 5));
}

static void net_fini(net *n)
{
    charl_graph_destroy(n->g);
    charl_params_destroy(n->params);
}

static float *gradients(net *n)
{
    const size_t bytes = (size_t)n->params->elements * sizeof(float);
    float x[ROWS * FEATURES], *g;
    int32_t y[ROWS];

    charl_test_fill(x, ROWS * FEATURES, -1.0F, 1.0F, 3);
    for (int i = 0; i < ROWS; i++) {
        y[i] = i % FEATURES;
    }
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(n->x), x, sizeof x));
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(n->y), y, sizeof y));
    charl_assert_ok(charl_graph_run(n->g));
    charl_assert_ok(charl__alloc(bytes, &g));
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, n->params->sum, 0, g, bytes, true));
    return g;
}

static void check(mode how, bool keep)
{
    net plain, again;
    float *want, *got;

    net_init(&plain, KEEP, keep);
    net_init(&again, how, keep);
    want = gradients(&plain);
    got = gradients(&again);
    assert_int_equal(plain.params->elements, again.params->elements);
    charl_assert_same_bits(got, want, plain.params->elements);
    charl_free(want);
    charl_free(got);
    assert_true(charl_graph_get_info(again.g).nodes > charl_graph_get_info(plain.g).nodes);
    assert_true(charl_graph_get_info(again.g).activation_bytes < charl_graph_get_info(plain.g).activation_bytes);
    net_fini(&plain);
    net_fini(&again);
}

static void test_same_bits(void **state)
{
    (void)state;
    for (int keep = 0; keep < 2; keep++) {
        check(PARTS, keep);
        check(CHEAP, keep);
    }
}

static int count(const net *n, const char *op)
{
    int sum = 0;

    for (int i = 0; i < n->g->nodes.count; i++) {
        sum += charl__graph_node(n->g, i)->live && strcmp(charl__graph_node(n->g, i)->op->name, op) == 0;
    }
    return sum;
}

static void net_init_apart(net *n, mode how)
{
    charl__env_set(CHARL_ENV_NO_FUSION, "1");
    net_init(n, how, false);
    charl__env_set(CHARL_ENV_NO_FUSION, NULL);
}

/* What a part computes is computed once more, except in the last one and what is not per sample. */
static void test_what_is_repeated(void **state)
{
    net n;

    (void)state;
    net_init_apart(&n, PARTS);
    assert_int_equal(count(&n, "gelu"), 2 * LAYERS - 1);
    assert_int_equal(count(&n, "dropout"), 3 * LAYERS - 1); /* one is the gradient */
    assert_true(count(&n, "batch_sum") > 0);
    net_fini(&n);
}

/* What enters the second product of a block is formed again from the result of the first. Of the sums that the blocks hand on every second
 * one is kept, and the last, which the loss reads at once. */
static void test_what_is_cheap(void **state)
{
    net plain, n;

    (void)state;
    net_init_apart(&plain, KEEP);
    net_init_apart(&n, CHEAP);
    assert_int_equal(count(&n, "gelu"), count(&plain, "gelu") + LAYERS);
    assert_int_equal(count(&n, "dropout"), count(&plain, "dropout") + LAYERS);
    assert_int_equal(count(&n, "sub"), count(&plain, "sub") + LAYERS);
    assert_int_equal(count(&n, "add"), count(&plain, "add") + LAYERS / 2);
    assert_int_equal(count(&n, "tanh"), count(&plain, "tanh"));
    assert_int_equal(count(&n, "linear"), count(&plain, "linear"));
    net_fini(&plain);
    net_fini(&n);
}

static void test_measure(void **state)
{
    int64_t bytes, twice;
    net n = {0};

    (void)state;
    charl_assert_ok(charl_params_create(&n.params));
    charl_assert_ok(charl_graph_create(dev, NULL, &n.g));
    n.x = charl_input(n.g, "x", CHARL_F32, (charl_shape){1, {1000}}, CHARL_REPLICATED);
    n.loss = charl_exp(n.g, n.x);
    charl_graph_keep(n.g, n.loss);
    charl_assert_ok(charl__graph_measure(n.g, &bytes));
    charl_assert_ok(charl__graph_measure(n.g, &twice));
    assert_true(bytes >= 4000 && bytes == twice);
    charl_assert_ok(charl_graph_compile(n.g));
    assert_int_equal(charl_graph_get_info(n.g).activation_bytes, bytes);
    net_fini(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_what_is_repeated),
        cmocka_unit_test(test_what_is_cheap),
        cmocka_unit_test(test_measure),
    };

    return charl_test_on_device(tests, &dev);
}
