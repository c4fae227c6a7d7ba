/* The memory of a graph: where values lie, and which are computed again. */
#include "support/on_device.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "autograd/graph_segments.h"
#include "autograd/graph_private.h"
#include "autograd/ops_data.h"
#include "base/alloc.h"
#include "base/env.h"
#include "charl/ops.h"

/* The memory plan: what is alive together lies apart, and reuse changes no bit. */

enum { ROWS = 16, FEATURES = 24, LAYERS = 5 };

typedef struct net {
    charl_params *params;
    charl_graph *g;
    charl_var *x, *y, *loss;
} net;

static charl_device *dev;

/* Inputs, layers with views, values used twice, reductions with workspaces, softmax. */
static void net_init(net *n, bool keep_all)
{
    charl_slices slices;
    charl_var *h;

    charl_assert_ok(charl_slices_block(8, 0, 1, &slices));
    charl_assert_ok(charl_params_create(&n->params));
    charl_assert_ok(charl_graph_create(dev, &slices, &n->g));
    n->x = charl_input(n->g, "x", CHARL_F32, (charl_shape){2, {ROWS, FEATURES}}, CHARL_BATCHED);
    n->y = charl_input(n->g, "y", CHARL_I32, (charl_shape){1, {ROWS}}, CHARL_BATCHED);
    h = n->x;
    for (int i = 0; i < LAYERS; i++) {
        charl_param *w = NULL, *b = NULL;
        char name[32];

        snprintf(name, sizeof name, "fc%d.weight", i);
        charl_assert_ok(charl_params_add(n->params,
                                         &(charl_param_spec){.name = name,
                                                             .shape = {2, {FEATURES, FEATURES}},
                                                             .init = {CHARL_INIT_UNIFORM, -0.3F, 0.3F},
                                                             .trainable = true},
                                         &w));
        snprintf(name, sizeof name, "fc%d.bias", i);
        charl_assert_ok(charl_params_add(
            n->params, &(charl_param_spec){.name = name, .shape = {1, {FEATURES}}, .trainable = true}, &b));
        h = charl_linear(n->g, h, charl_parameter(n->g, w), charl_parameter(n->g, b));
        h = charl_reshape(n->g, h, (charl_shape){3, {ROWS, 4, FEATURES / 4}});
        h = charl_add(n->g, charl_tanh(n->g, h), charl_scale(n->g, h, 0.5F, 0.1F));
        h = charl_reshape(n->g, h, (charl_shape){2, {ROWS, FEATURES}});
    }
    n->loss = charl_batch_mean(n->g, charl_cross_entropy(n->g, h, n->y, NULL, NULL));
    charl_graph_keep(n->g, n->loss);
    charl_graph_backward(n->g, n->loss, NULL);
    for (int i = 0; keep_all && i < n->g->vars.count; i++) {
        charl_graph_keep(n->g, charl__var(n->g, i));
    }
    charl_assert_ok(charl_graph_compile(n->g));
    charl_assert_ok(charl_params_initialize(n->params, 5));
}

static void net_fini(net *n)
{
    charl_graph_destroy(n->g);
    charl_params_destroy(n->params);
}

/* NaN everywhere, so that a value read before it is written, or after it was overwritten by less
 * than its size, shows. */
static void poison(const charl_graph *g)
{
    for (int s = 0; s < g->n_segments; s++) {
        unsigned char *bytes;

        charl_assert_ok(charl__alloc((size_t)g->segment_bytes[s], &bytes));
        memset(bytes, 0xFF, (size_t)g->segment_bytes[s]);
        charl_assert_ok(
            charl__buffer_write(CHARL_QUEUE_COMPUTE, g->segment[s], 0, bytes, (size_t)g->segment_bytes[s], true));
        charl_free(bytes);
    }
}

static void run(net *n)
{
    float x[ROWS * FEATURES];
    int32_t y[ROWS];

    charl_test_fill(x, ROWS * FEATURES, -1.0F, 1.0F, 3);
    for (int i = 0; i < ROWS; i++) {
        y[i] = i % FEATURES;
    }
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(n->x), x, sizeof x));
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(n->y), y, sizeof y));
    poison(n->g);
    charl_assert_ok(charl_graph_run(n->g));
}

static float *gradients(const net *n)
{
    const size_t bytes = (size_t)n->params->elements * sizeof(float);
    float *g;

    charl_assert_ok(charl__alloc(bytes, &g));
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, n->params->sum, 0, g, bytes, true));
    return g;
}

static void test_reuse_changes_no_bit(void **state)
{
    net planned, kept;
    float *got, *want, a, b;

    (void)state;
    net_init(&planned, false);
    net_init(&kept, true);
    run(&planned);
    run(&kept);
    got = gradients(&planned);
    want = gradients(&kept);
    for (int i = 0; i < planned.params->count; i++) {
        const charl_param *p = planned.params->param[i], *q = kept.params->param[i];

        charl_assert_same_bits(got + p->offset, want + q->offset, charl_shape_count(&p->spec.shape));
    }
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(planned.loss), &a, sizeof a));
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(kept.loss), &b, sizeof b));
    charl_assert_same_bits(&a, &b, 1);
    assert_true(a > 0.0F);
    charl_free(got);
    charl_free(want);
    net_fini(&planned);
    net_fini(&kept);
}

static void test_arena_is_smaller(void **state)
{
    net planned, kept;
    charl_graph_info a, b;

    (void)state;
    net_init(&planned, false);
    net_init(&kept, true);
    a = charl_graph_get_info(planned.g);
    b = charl_graph_get_info(kept.g);
    assert_true(a.activation_bytes < a.unplanned_bytes / 2);
    assert_true(a.activation_bytes < b.activation_bytes);
    assert_true(a.launches > 0 && a.nodes > 0 && a.collectives == 0);
    assert_int_equal(a.input_bytes, ROWS * FEATURES * 4 + ROWS * 4);
    net_fini(&planned);
    net_fini(&kept);
}

static bool shares_time(const charl_var *a, const charl_var *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static bool is_planned(const charl_var *v)
{
    return !v->root_link && v->segment >= 0;
}

/* Every pair, from the plan itself: also what one run would not show. */
static void test_nothing_alive_overlaps(void **state)
{
    net n;
    int planned = 0;

    (void)state;
    net_init(&n, false);
    for (int i = 0; i < n.g->vars.count; i++) {
        const charl_var *a = charl__var(n.g, i);

        planned += is_planned(a);
        for (int k = 0; is_planned(a) && k < i; k++) {
            const charl_var *b = charl__var(n.g, k);

            if (is_planned(b) && b->segment == a->segment && shares_time(a, b)) {
                assert_true(a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset);
            }
        }
        if (is_planned(a)) {
            assert_int_equal(a->offset % 256, 0);
            assert_true(a->offset + a->bytes <= n.g->segment_bytes[a->segment]);
        }
    }
    assert_true(planned > LAYERS);
    net_fini(&n);
}

/* Workspaces are values that live for one node. */
static void test_workspace_is_planned(void **state)
{
    net n;
    int workspaces = 0;

    (void)state;
    net_init(&n, false);
    for (int i = 0; i < n.g->nodes.count; i++) {
        const charl__node *node = charl__graph_node(n.g, i);

        if (node->scratch) {
            workspaces++;
            assert_true(node->live && node->workspace > 0);
            assert_true(node->scratch->bytes >= node->workspace);
            assert_int_equal(node->scratch->first, i);
            assert_int_equal(node->scratch->last, i);
            assert_true(node->scratch->segment >= 0);
        }
    }
    assert_true(workspaces > 0);
    net_fini(&n);
}

static charl_var *input(charl_graph *g, const char *name, charl_shape shape)
{
    return charl_input(g, name, CHARL_F32, shape, CHARL_REPLICATED);
}

static bool same_memory(charl_var *a, charl_var *b)
{
    return charl__var_root(a) == charl__var_root(b);
}

/* A chain of elementwise operators needs one buffer. */
static void test_in_place(void **state)
{
    charl_graph *g;
    charl_var *x, *a, *b, *c, *kept, *last;
    const float in[4] = {-1.0F, 0.5F, 2.0F, 3.0F};
    float out[4];

    (void)state;
    charl_assert_ok(charl_graph_create(dev, NULL, &g));
    x = input(g, "x", (charl_shape){1, {4}});
    a = charl_scale(g, x, 2.0F, 0.0F);
    b = charl_relu(g, a);
    c = charl_scale(g, b, 1.0F, 1.0F);
    kept = charl_scale(g, c, 10.0F, 0.0F);
    last = charl_add(g, kept, c);
    charl_graph_keep(g, kept);
    charl_graph_keep(g, last);
    charl__env_set(CHARL_ENV_NO_FUSION, "1");
    charl_assert_ok(charl_graph_compile(g));
    charl__env_set(CHARL_ENV_NO_FUSION, NULL);
    assert_false(same_memory(a, x)); /* an input is the caller's */
    assert_true(same_memory(a, b) && same_memory(b, c));
    assert_false(same_memory(kept, c)); /* c is used once more */
    assert_false(same_memory(last, kept));
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(x), in, sizeof in));
    poison(g);
    charl_assert_ok(charl_graph_run(g));
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(kept), out, sizeof out));
    charl_assert_close_f32(out, ((float[]){10, 20, 50, 70}), 4, 1e-6);
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(last), out, sizeof out));
    charl_assert_close_f32(out, ((float[]){11, 22, 55, 77}), 4, 1e-6);
    assert_null(charl_var_get_tensor(b));
    charl_graph_destroy(g);
}

/* Operands that broadcast are padded to the size of the output here, but smaller: writing element 0
 * over them would destroy what element 3 reads. */
static void test_broadcast_operand_is_not_reused(void **state)
{
    charl_graph *g;
    charl_var *x, *row, *small, *y;
    const float in[6] = {1, 2, 3, 4, 5, 6}, r[3] = {10, 20, 30};
    float out[6];

    (void)state;
    charl_assert_ok(charl_graph_create(dev, NULL, &g));
    x = input(g, "x", (charl_shape){2, {2, 3}});
    row = input(g, "row", (charl_shape){1, {3}});
    small = charl_scale(g, row, 2.0F, 0.0F);
    y = charl_scale(g, charl_add(g, x, small), 1.0F, 0.0F);
    charl_graph_keep(g, y);
    charl_assert_ok(charl_graph_compile(g));
    assert_false(same_memory(small, charl__graph_node(g, 1)->out[0]));
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(x), in, sizeof in));
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(row), r, sizeof r));
    charl_assert_ok(charl_graph_run(g));
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(y), out, sizeof out));
    charl_assert_close_f32(out, ((float[]){21, 42, 63, 24, 45, 66}), 6, 1e-6);
    charl_graph_destroy(g);
}

/* As many numbers, but not one for one: every pixel reads the four numbers of its image's box, here all of the image. */
static void test_operand_of_another_shape_is_not_reused(void **state)
{
    const charl_shape images = {4, {2, 1, 2, 2}}, boxes = {2, {2, 4}};
    const float in[8] = {1, 2, 3, 4, 5, 6, 7, 8}, b[8] = {0, 0, 1, 1, 0, 0, 1, 1};
    charl_graph *g;
    charl_var *x, *box, *doubled, *pasted, *y;
    float out[8];

    (void)state;
    charl_assert_ok(charl_graph_create(dev, NULL, &g));
    x = charl_input(g, "x", CHARL_F32, images, CHARL_BATCHED);
    box = charl_input(g, "box", CHARL_F32, boxes, CHARL_BATCHED);
    doubled = charl_scale(g, box, 2.0F, 0.0F);
    pasted = charl__paste2d(g, x, NULL, doubled);
    y = charl_scale(g, pasted, 1.0F, 1.0F);
    charl_graph_keep(g, y);
    charl_assert_ok(charl_graph_compile(g));
    assert_false(same_memory(doubled, pasted));
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(x), in, sizeof in));
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(box), b, sizeof b));
    charl_assert_ok(charl_graph_run(g));
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(y), out, sizeof out));
    charl_assert_close_f32(out, ((float[]){1, 1, 1, 1, 1, 1, 1, 1}), 8, 0.0);
    charl_graph_destroy(g);
}

/* As many bytes, but not one element for one: f32 numbers for rows of two bf16 numbers. */
static void test_wider_operand_is_not_reused(void **state)
{
    const charl_shape rows = {2, {8, 2}}, one = {2, {8, 1}};
    charl_graph *g;
    charl_var *x, *small, *y;

    (void)state;
    charl_assert_ok(charl_graph_create(dev, NULL, &g));
    x = charl_input(g, "x", CHARL_BF16, rows, CHARL_BATCHED);
    small = charl_softmax(g, charl_input(g, "row", CHARL_F32, one, CHARL_BATCHED));
    y = charl_softmax(g, charl_add(g, x, small));
    charl_graph_keep(g, y);
    charl_assert_ok(charl_graph_compile(g));
    assert_false(same_memory(small, y->node->in[0]));
    charl_graph_destroy(g);
}

/* A view lives as long as what it looks at, and the other way round. */
static void test_views_share_memory(void **state)
{
    charl_graph *g;
    charl_var *x, *a, *view, *other, *sum;
    const float in[6] = {1, 2, 3, 4, 5, 6};
    float out[6];

    (void)state;
    charl_assert_ok(charl_graph_create(dev, NULL, &g));
    x = input(g, "x", (charl_shape){2, {2, 3}});
    a = charl_scale(g, x, 3.0F, 0.0F);
    view = charl_reshape(g, a, (charl_shape){2, {3, 2}});
    other = charl_scale(g, charl_transpose(g, x, (int[]){1, 0}), 1.0F, 0.0F);
    sum = charl_add(g, other, view);
    charl_graph_keep(g, sum);
    charl_assert_ok(charl_graph_compile(g));
    assert_true(same_memory(a, view));
    assert_false(same_memory(a, other));
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(x), in, sizeof in));
    poison(g);
    charl_assert_ok(charl_graph_run(g));
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(sum), out, sizeof out));
    charl_assert_close_f32(out, ((float[]){4, 10, 11, 17, 18, 24}), 6, 1e-6);
    charl_graph_destroy(g);
}

/* A kept view keeps what it looks at. */
static void test_kept_view(void **state)
{
    charl_graph *g;
    charl_var *x, *view, *h;
    const float in[4] = {1, 2, 3, 4};
    float out[4];

    (void)state;
    charl_assert_ok(charl_graph_create(dev, NULL, &g));
    x = input(g, "x", (charl_shape){1, {4}});
    view = charl_reshape(g, charl_scale(g, x, 2.0F, 0.0F), (charl_shape){2, {2, 2}});
    charl_graph_keep(g, view);
    h = view;
    for (int i = 0; i < 4; i++) {
        h = charl_exp(g, h);
    }
    charl_graph_keep(g, h);
    charl_assert_ok(charl_graph_compile(g));
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(x), in, sizeof in));
    charl_assert_ok(charl_graph_run(g));
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(view), out, sizeof out));
    charl_assert_close_f32(out, ((float[]){2, 4, 6, 8}), 4, 0.0);
    charl_graph_destroy(g);
}

static void test_a_value_too_large_for_the_device(void **state)
{
    charl_graph *g;
    charl_var *x;
    const int64_t limit = charl_device_get_info(dev)->max_alloc_bytes;
    int64_t dims[2] = {1 << 20, limit / 4 / (1 << 20) + 1};

    (void)state;
    charl_assert_ok(charl_graph_create(dev, NULL, &g));
    charl_graph_scope_begin(g, "huge");
    x = input(g, "x", (charl_shape){2, {1, 1}});
    x = charl_matmul(g, charl_matmul(g, input(g, "a", (charl_shape){2, {dims[0], 1}}), x, false, false),
                     input(g, "b", (charl_shape){2, {1, dims[1]}}), false, false);
    charl_graph_keep(g, x);
    charl_graph_scope_end(g);
    charl_assert_status(charl_graph_compile(g), CHARL_ERR_NOMEM);
    charl_assert_message("huge.matmul");
    charl_assert_message("HINT lower the batch size");
    charl_assert_status(charl_graph_compile(g), CHARL_ERR_NOMEM); /* stays so */
    charl_graph_destroy(g);
}

/* Computing activations again: the same bits from less memory. */

enum { BLOCKS = 6 };

typedef enum mode { KEEP, PARTS, CHEAP } mode;

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
    charl__graph_segment_begin(n->g);
    charl_graph_scope_begin(n->g, name);
    h = charl_gelu(n->g, charl_linear(n->g, x, parameter(n, name, "weight", square), NULL), false);
    mean = charl_batch_mean(n->g, charl_mean(n->g, h, 1, false));
    h = charl_sub(n->g, charl_dropout(n->g, h, 0.25F), mean);
    h = charl_tanh(n->g, charl_linear(n->g, h, parameter(n, name, "out", square), NULL));
    h = charl_add(n->g, x, h);
    charl_graph_scope_end(n->g);
    charl__graph_segment_end(n->g);
    return h;
}

static void net_init_blocks(net *n, mode how, bool keep)
{
    charl_slices slices;
    charl_var *h;

    charl_assert_ok(charl_slices_block(8, 0, 1, &slices));
    charl_assert_ok(charl_params_create(&n->params));
    charl_assert_ok(charl_graph_create(dev, &slices, &n->g));
    charl__graph_set_recompute(n->g, how == PARTS, how == CHEAP);
    n->x = charl_input(n->g, "x", CHARL_F32, (charl_shape){2, {ROWS, FEATURES}}, CHARL_BATCHED);
    n->y = charl_input(n->g, "y", CHARL_I32, (charl_shape){1, {ROWS}}, CHARL_BATCHED);
    h = n->x;
    for (int i = 0; i < BLOCKS; i++) {
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

static void check(mode how, bool keep)
{
    net plain, again;
    float *want, *got;

    net_init_blocks(&plain, KEEP, keep);
    net_init_blocks(&again, how, keep);
    run(&plain);
    run(&again);
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
    net_init_blocks(n, how, false);
    charl__env_set(CHARL_ENV_NO_FUSION, NULL);
}

/* What a part computes is computed once more, except in the last one and what is not per sample. */
static void test_what_is_repeated(void **state)
{
    net n;

    (void)state;
    net_init_apart(&n, PARTS);
    assert_int_equal(count(&n, "gelu"), 2 * BLOCKS - 1);
    assert_int_equal(count(&n, "dropout"), 3 * BLOCKS - 1); /* one is the gradient */
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
    assert_int_equal(count(&n, "gelu"), count(&plain, "gelu") + BLOCKS);
    assert_int_equal(count(&n, "dropout"), count(&plain, "dropout") + BLOCKS);
    assert_int_equal(count(&n, "sub"), count(&plain, "sub") + BLOCKS);
    assert_int_equal(count(&n, "add"), count(&plain, "add") + BLOCKS / 2);
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

static void test_a_run_allocates_and_builds_nothing(void **state)
{
    charl__device_counters before, after;
    net n;
    long live;

    (void)state;
    net_init(&n, false);
    charl_assert_ok(charl_graph_warm_up(n.g));
    for (int i = 0; i < 8; i++) { /* more than the ring of step records is deep */
        charl_assert_ok(charl_graph_run(n.g));
    }
    charl_assert_ok(charl_device_sync(dev));
    before = charl__device_counters_get(dev);
    live = charl_test_live();
    for (int i = 0; i < 3; i++) {
        charl_assert_ok(charl_graph_run(n.g));
    }
    charl_assert_ok(charl_device_sync(dev));
    after = charl__device_counters_get(dev);
    assert_int_equal(after.buffers_created, before.buffers_created);
    assert_int_equal(after.programs_built, before.programs_built);
    assert_int_equal(after.kernels_created, before.kernels_created);
    assert_int_equal(after.launches - before.launches, 3 * charl_graph_get_info(n.g).launches);
    assert_int_equal(charl_test_live(), live);
    net_fini(&n);
}

/* An input over a tensor that somebody else owns. */
static void test_bound_input(void **state)
{
    charl_graph *g = NULL;
    charl_var *x, *y;
    charl_tensor *t;
    float out[2];

    (void)state;
    charl_assert_ok(charl_graph_create(dev, NULL, &g));
    x = input(g, "x", (charl_shape){1, {2}});
    charl_assert_ok(charl_tensor_create(dev, CHARL_F32, &(charl_shape){1, {2}}, &t));
    charl__graph_bind_input(g, x, t);
    y = charl_scale(g, x, 2.0F, 0.0F);
    charl_graph_keep(g, y);
    charl_assert_ok(charl_graph_compile(g));
    charl_assert_ok(charl_tensor_write(t, (float[]){1, 2}, sizeof out));
    charl_assert_ok(charl_graph_run(g));
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(y), out, sizeof out));
    charl_assert_close_f32(out, ((float[]){2, 4}), 2, 0.0);
    charl__graph_bind_input(g, NULL, t); /* after an error: a no-op */
    charl_tensor_release(t);
    charl_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reuse_changes_no_bit),
        cmocka_unit_test(test_arena_is_smaller),
        cmocka_unit_test(test_nothing_alive_overlaps),
        cmocka_unit_test(test_workspace_is_planned),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_broadcast_operand_is_not_reused),
        cmocka_unit_test(test_operand_of_another_shape_is_not_reused),
        cmocka_unit_test(test_wider_operand_is_not_reused),
        cmocka_unit_test(test_views_share_memory),
        cmocka_unit_test(test_kept_view),
        cmocka_unit_test(test_a_value_too_large_for_the_device),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_what_is_repeated),
        cmocka_unit_test(test_what_is_cheap),
        cmocka_unit_test(test_measure),
        cmocka_unit_test(test_a_run_allocates_and_builds_nothing),
        cmocka_unit_test(test_bound_input),
    };

    return charl_test_on_device(tests, &dev);
}
