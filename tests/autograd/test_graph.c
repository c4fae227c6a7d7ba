/* Building and differentiating graphs, and what is refused. */
#include "support/on_device.h"

#include <string.h>

#include "charl/ops.h"
#include "charl/ops.h"

enum { MOST_SCOPES = 16 };

static charl_device *dev;

static const charl_shape scalar = {0, {0}};

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

static charl_param *param(charl_params *set, const char *name, charl_shape shape)
{
    charl_param *p = NULL;

    charl_assert_ok(charl_params_add(
        set,
        &(charl_param_spec){.name = name, .shape = shape, .init = {CHARL_INIT_UNIFORM, -0.5F, 0.5F}, .trainable = true},
        &p));
    return p;
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

static void test_scopes(void **state)
{
    charl_graph *g = new_graph();
    charl_var *x = input(g, "x", (charl_shape){2, {2, 3}}), *inside, *outside;

    (void)state;
    charl_graph_scope_begin(g, "block.1"); /* a name with a dot is one scope */
    charl_graph_scope_begin(g, "fc1");
    inside = charl_relu(g, x);
    charl_graph_scope_end(g);
    charl_graph_scope_end(g);
    outside = charl_relu(g, x);
    assert_string_equal(charl_var_get_name(inside), "block.1.fc1.relu");
    assert_string_equal(charl_var_get_name(outside), "relu");
    charl_graph_destroy(g);
}

static void test_first_error_names_the_layer(void **state)
{
    charl_graph *g = new_graph();
    charl_var *x = input(g, "x", (charl_shape){2, {2, 3}}), *bad;

    (void)state;
    charl_graph_scope_begin(g, "block.1");
    charl_graph_scope_begin(g, "fc1");
    bad = charl_matmul(g, x, x, false, false);
    charl_graph_scope_end(g);
    charl_graph_scope_end(g);
    assert_null(bad);
    assert_null(charl_relu(g, bad)); /* NULL in, NULL out; the error stays the first */
    assert_null(charl_add(g, x, bad));
    assert_null(charl_relu(g, x)); /* nothing is built after an error */
    charl_graph_backward(g, bad, NULL);
    charl_assert_status(charl_graph_compile(g), CHARL_ERR_SHAPE);
    charl_assert_message("block.1.fc1.matmul");
    charl_assert_status(charl_graph_status(g), CHARL_ERR_SHAPE);
    charl_graph_destroy(g);
}

/* One call that fails, what it gives and what the message holds. */
typedef struct bad_call {
    const char *name;
    void (*call)(charl_graph *g, charl_var *x);
    charl_status status;
    const char *message;
} bad_call;

static void null_operand(charl_graph *g, charl_var *x)
{
    charl_add(g, x, NULL);
}

static void null_in_list(charl_graph *g, charl_var *x)
{
    charl_concat(g, (charl_var *[]){x, NULL}, 2, 0);
}

static void foreign_var(charl_graph *g, charl_var *x)
{
    charl_graph *other = new_graph();

    charl_add(g, x, input(other, "x", (charl_shape){2, {2, 3}}));
    charl_graph_destroy(other);
}

/* A chain that is longer than the graph, so that its nodes have positions that this has not. */
static void foreign_loss(charl_graph *g, charl_var *x)
{
    charl_graph *other = new_graph();
    charl_var *y = input(other, "x", (charl_shape){2, {2, 3}});

    (void)x;
    for (int i = 0; i < 100; i++) {
        y = charl_relu(other, y);
    }
    charl_graph_backward(g, sum_all(other, y), NULL);
    charl_graph_destroy(other);
}

static void foreign_gradient(charl_graph *g, charl_var *x)
{
    charl_graph *other = new_graph();

    charl_graph_backward(g, sum_all(g, x), input(other, "seed", scalar));
    charl_graph_destroy(other);
}

static void foreign_kept(charl_graph *g, charl_var *x)
{
    charl_graph *other = new_graph();

    (void)x;
    charl_graph_keep(g, input(other, "y", (charl_shape){2, {2, 3}}));
    charl_graph_destroy(other);
}

static void gradient_of_foreign(charl_graph *g, charl_var *x)
{
    charl_graph *other = new_graph();

    (void)x;
    charl_graph_require_gradient(g, input(other, "y", (charl_shape){2, {2, 3}}));
    charl_graph_destroy(other);
}

static void gradient_of_integers(charl_graph *g, charl_var *x)
{
    (void)x;
    charl_graph_require_gradient(g, charl_input(g, "i", CHARL_I32, scalar, CHARL_REPLICATED));
}

static void wrong_dtype(charl_graph *g, charl_var *x)
{
    (void)x;
    charl_relu(g, charl_input(g, "i", CHARL_I32, scalar, CHARL_REPLICATED));
}

static void partial_input(charl_graph *g, charl_var *x)
{
    (void)x;
    charl_input(g, "p", CHARL_F32, scalar, CHARL_PARTIAL);
}

static void batch_without_extent(charl_graph *g, charl_var *x)
{
    (void)x;
    charl_input(g, "b", CHARL_F32, scalar, CHARL_BATCHED);
}

static void negative_extent(charl_graph *g, charl_var *x)
{
    (void)x;
    input(g, "n", (charl_shape){1, {-2}});
}

static void loss_of_many(charl_graph *g, charl_var *x)
{
    charl_graph_backward(g, x, NULL);
}

static void backward_twice(charl_graph *g, charl_var *x)
{
    charl_var *loss = sum_all(g, x);

    charl_graph_backward(g, loss, NULL);
    charl_graph_backward(g, loss, NULL);
}

static void gradient_of_computed(charl_graph *g, charl_var *x)
{
    charl_graph_require_gradient(g, charl_relu(g, x));
}

static void gradient_too_late(charl_graph *g, charl_var *x)
{
    charl_relu(g, x);
    charl_graph_require_gradient(g, x);
}

static void not_differentiable(charl_graph *g, charl_var *x)
{
    charl_var *label = charl_input(g, "label", CHARL_I32, (charl_shape){1, {2}}, CHARL_REPLICATED);
    charl_var *z = input(g, "z", (charl_shape){2, {2, 3}});

    (void)x;
    charl_graph_require_gradient(g, z);
    charl_graph_backward(g, sum_all(g, charl_top_k_correct(g, z, label, 1)), NULL);
}

static void sum_of_batched(charl_graph *g, charl_var *x)
{
    (void)x;
    charl_batch_sum(g, charl_input(g, "b", CHARL_F32, (charl_shape){1, {4}}, CHARL_BATCHED));
}

static void mean_of_replicated(charl_graph *g, charl_var *x)
{
    charl_batch_mean(g, x);
}

static void deep_scope(charl_graph *g, charl_var *x)
{
    for (int i = 0; i < MOST_SCOPES + 1; i++) {
        charl_graph_scope_begin(g, "s");
    }
    charl_relu(g, x);
}

static void long_scope(charl_graph *g, charl_var *x)
{
    char name[300];

    (void)x;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    charl_graph_scope_begin(g, name);
}

static const bad_call bad_calls[] = {
    {"null operand", null_operand, CHARL_ERR_INVALID, "add: operand 1 is NULL"},
    {"null in a list", null_in_list, CHARL_ERR_INVALID, "concat: operand 1 is NULL"},
    {"foreign var", foreign_var, CHARL_ERR_INVALID, "another graph"},
    {"foreign loss", foreign_loss, CHARL_ERR_INVALID, "backward: sum belongs to another graph"},
    {"foreign gradient", foreign_gradient, CHARL_ERR_INVALID, "backward: seed belongs to another graph"},
    {"foreign kept", foreign_kept, CHARL_ERR_INVALID, "y belongs to another graph"},
    {"gradient of foreign", gradient_of_foreign, CHARL_ERR_INVALID, "y belongs to another graph"},
    {"gradient of integers", gradient_of_integers, CHARL_ERR_DTYPE, "i is i32, which has no gradient"},
    {"wrong dtype", wrong_dtype, CHARL_ERR_DTYPE, "i32"},
    {"partial input", partial_input, CHARL_ERR_INVALID, "input p"},
    {"batch without extent", batch_without_extent, CHARL_ERR_SHAPE, "input b"},
    {"negative extent", negative_extent, CHARL_ERR_SHAPE, "-2"},
    {"loss of many", loss_of_many, CHARL_ERR_SHAPE, "the loss x"},
    {"backward twice", backward_twice, CHARL_ERR_INVALID, "already"},
    {"gradient of computed", gradient_of_computed, CHARL_ERR_INVALID, "before they are used"},
    {"gradient too late", gradient_too_late, CHARL_ERR_INVALID, "before they are used"},
    {"not differentiable", not_differentiable, CHARL_ERR_INVALID, "top_k_correct is not differentiable"},
    {"sum of batched", sum_of_batched, CHARL_ERR_SHAPE, "batch_sum: b"},
    {"mean of replicated", mean_of_replicated, CHARL_ERR_SHAPE, "batch_mean: x [2, 3]"},
    {"deep scope", deep_scope, CHARL_ERR_INVALID, "too deep"},
    {"long scope", long_scope, CHARL_ERR_INVALID, "too long"},
};

static void test_bad_calls(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_calls / sizeof bad_calls[0]; i++) {
        const bad_call *c = &bad_calls[i];
        charl_graph *g = new_graph();
        charl_status st;

        c->call(g, input(g, "x", (charl_shape){2, {2, 3}}));
        st = charl_graph_compile(g);
        if (st != c->status || !strstr(charl_error_message(), c->message)) {
            fail_msg("%s: %s \"%s\", expected %s with \"%s\"", c->name, charl_status_name(st), charl_error_message(),
                     charl_status_name(c->status), c->message);
        }
        charl_graph_destroy(g);
    }
}

static void test_order_of_calls(void **state)
{
    charl_graph *g = new_graph();
    charl_var *x = input(g, "x", (charl_shape){1, {2}});
    double worst;

    (void)state;
    charl_graph_keep(g, charl_relu(g, x));
    charl_assert_status(charl_graph_run(g), CHARL_ERR_INVALID);
    charl_assert_status(charl_graph_warm_up(g), CHARL_ERR_INVALID);
    charl_assert_status(charl_gradcheck(g, x, 1, &worst), CHARL_ERR_INVALID);
    charl_assert_ok(charl_graph_compile(g));
    charl_assert_status(charl_graph_compile(g), CHARL_ERR_INVALID);
    charl_assert_ok(charl_graph_run(g)); /* a second compile has harmed nothing */
    assert_null(charl_relu(g, x));
    charl_assert_status(charl_graph_status(g), CHARL_ERR_INVALID);
    charl_assert_message("already compiled");
    assert_null(charl_input(g, "late", CHARL_F32, scalar, CHARL_REPLICATED)); /* it would have no memory */
    charl_graph_destroy(g);
    charl_graph_destroy(NULL);
}

/* A rank without slices has no rows, and no graph. */
static void test_slices_of_a_graph(void **state)
{
    charl_slices none, many;
    charl_graph *g;

    (void)state;
    charl_assert_ok(charl_slices_range(8, 8, 0, &none));
    charl_assert_status(charl_graph_create(dev, &none, &g), CHARL_ERR_INVALID);
    charl_assert_message("a graph over 0 slices; it takes 1 to 64");
    assert_null(g);
    charl_assert_ok(charl_slices_range(128, 0, 65, &many));
    charl_assert_status(charl_graph_create(dev, &many, &g), CHARL_ERR_INVALID);
    charl_assert_message("a graph over 65 slices");
    charl_assert_status(charl_graph_create(dev, &(charl_slices){.total = 8, .count = 8}, &g), CHARL_ERR_INVALID);
    charl_assert_message("slices 0 to 8 of 8 have 1 lanes, not 0");
    charl_assert_status(charl_graph_create(dev, &(charl_slices){.total = 8, .first = 4, .count = 8}, &g),
                        CHARL_ERR_INVALID);
    assert_null(g);
}

static void test_parameters_of_two_sets(void **state)
{
    charl_params *one, *two;
    charl_graph *g = new_graph();

    (void)state;
    charl_assert_ok(charl_params_create(&one));
    charl_assert_ok(charl_params_create(&two));
    assert_non_null(charl_parameter(g, param(one, "a", scalar)));
    assert_non_null(charl_parameter(g, param(two, "b", scalar)));
    charl_graph_backward(g, charl_parameter(g, charl_params_find(two, "b")), NULL);
    charl_assert_status(charl_graph_compile(g), CHARL_ERR_INVALID);
    charl_assert_message("the graph has parameters of 2 sets");
    charl_graph_destroy(g);
    charl_params_destroy(one);
    charl_params_destroy(two);
}

static void test_dead_nodes_are_removed(void **state)
{
    charl_graph *g = new_graph();
    charl_var *x = input(g, "x", (charl_shape){1, {2}}), *used;
    charl_graph_info info;

    (void)state;
    used = charl_relu(g, x);
    charl_exp(g, charl_tanh(g, used));
    charl_graph_keep(g, used);
    charl_assert_ok(charl_graph_compile(g));
    info = charl_graph_get_info(g);
    assert_int_equal(info.nodes, 1);
    assert_int_equal(info.launches, 1);
    charl_graph_destroy(g);
}

static void test_names_are_unique(void **state)
{
    charl_graph *g = new_graph();
    charl_var *x = input(g, "x", (charl_shape){1, {2}});

    (void)state;
    charl_graph_scope_begin(g, "a.b");
    assert_string_equal(charl_var_get_name(charl_relu(g, x)), "a.b.relu");
    assert_string_equal(charl_var_get_name(charl_relu(g, x)), "a.b.relu#2");
    charl_graph_scope_begin(g, "c");
    assert_string_equal(charl_var_get_name(charl_relu(g, x)), "a.b.c.relu");
    charl_graph_scope_end(g);
    assert_string_equal(charl_var_get_name(charl_relu(g, x)), "a.b.relu#3");
    charl_graph_scope_end(g);
    charl_graph_scope_end(g); /* one too many: nothing to close */
    assert_string_equal(charl_var_get_name(charl_relu(g, x)), "relu");
    assert_string_equal(charl_var_get_name(x), "x");
    assert_string_equal(charl_var_get_name(charl_constant(g, 1.0F)), "constant");
    charl_assert_ok(charl_graph_status(g));
    charl_graph_destroy(g);
}

static void test_print(void **state)
{
    charl_graph *g = new_graph();
    charl_var *x = input(g, "x", (charl_shape){2, {2, 3}}), *y;
    char *text = NULL;

    (void)state;
    charl_graph_scope_begin(g, "act");
    y = charl_relu(g, x);
    charl_tanh(g, y);
    charl_graph_scope_end(g);
    charl_graph_keep(g, y);
    charl_assert_ok(charl_graph_compile(g));
    charl_assert_ok(charl_graph_print(g, false, &text));
    assert_non_null(strstr(text, "act.relu"));
    assert_non_null(strstr(text, "f32[2, 3] replicated 24 B <- x\n"));
    assert_non_null(strstr(text, "<- act.relu  (dead)\n"));
    charl_free(text);
    charl_assert_ok(charl_graph_print(g, true, &text));
    assert_int_equal(strncmp(text, "digraph charl {\n", 16), 0);
    assert_non_null(strstr(text, "n0 [label=\"act.relu\\n[2, 3]\"];"));
    assert_non_null(strstr(text, "-> n0;"));
    assert_null(strstr(text, "act.tanh"));
    assert_string_equal(text + strlen(text) - 2, "}\n");
    charl_free(text);
    charl_graph_destroy(g);
}

static void test_var_used_twice(void **state)
{
    charl_graph *g = new_graph();
    charl_var *x = input(g, "x", (charl_shape){1, {3}}), *loss;
    float out[3];

    (void)state;
    charl_graph_require_gradient(g, x);
    loss = sum_all(g, charl_add(g, charl_mul(g, x, x), charl_scale(g, x, 3.0F, 0.0F)));
    charl_graph_backward(g, loss, NULL);
    charl_assert_ok(charl_graph_compile(g));
    write(x, (float[]){1, 2, -3}, 3);
    charl_assert_ok(charl_graph_run(g));
    read(charl_var_get_gradient(x), out, 3); /* 2x + 3 */
    charl_assert_close_f32(out, ((float[]){5, 7, -3}), 3, 1e-6);
    charl_graph_destroy(g);
}

static void test_seed_scales_gradients(void **state)
{
    charl_graph *g = new_graph();
    charl_var *x = input(g, "x", (charl_shape){1, {2}}), *seed = input(g, "seed", scalar);
    float out[2];

    (void)state;
    charl_graph_require_gradient(g, x);
    charl_graph_backward(g, sum_all(g, charl_mul(g, x, x)), seed);
    charl_assert_ok(charl_graph_compile(g));
    write(x, (float[]){1, 2}, 2);
    write(seed, (float[]){0.25F}, 1);
    charl_assert_ok(charl_graph_run(g));
    read(charl_var_get_gradient(x), out, 2);
    charl_assert_close_f32(out, ((float[]){0.5F, 1}), 2, 1e-6);
    charl_graph_destroy(g);
}

static void test_no_gradient_where_nothing_depends(void **state)
{
    charl_graph *g = new_graph();
    charl_var *x = input(g, "x", (charl_shape){1, {2}}), *y = input(g, "y", (charl_shape){1, {2}});

    (void)state;
    charl_graph_require_gradient(g, x);
    charl_graph_require_gradient(g, y);
    charl_graph_backward(g, sum_all(g, x), NULL);
    charl_assert_ok(charl_graph_compile(g));
    assert_non_null(charl_var_get_gradient(x));
    assert_null(charl_var_get_gradient(y));
    assert_null(charl_var_get_gradient(NULL));
    charl_graph_destroy(g);
}

/* The loss is the input itself: the gradient is the seed. */
static void test_loss_is_an_input(void **state)
{
    charl_graph *g = new_graph();
    charl_var *x = input(g, "x", scalar);
    float out;

    (void)state;
    charl_graph_require_gradient(g, x);
    charl_graph_backward(g, x, NULL);
    charl_assert_ok(charl_graph_compile(g));
    charl_assert_ok(charl_graph_run(g));
    read(charl_var_get_gradient(x), &out, 1);
    assert_true(out == 1.0F);
    charl_graph_destroy(g);
}

/* z = p + q: both parameters have the same gradient, which lies in the arena twice. */
static void test_shared_gradient(void **state)
{
    charl_params *set;
    charl_param *p, *q, *r;
    charl_graph *g = new_graph();
    charl_var *x = input(g, "x", (charl_shape){1, {2}}), *h;
    float gradient[2];

    (void)state;
    charl_assert_ok(charl_params_create(&set));
    p = param(set, "p", (charl_shape){1, {2}});
    q = param(set, "q", (charl_shape){1, {2}});
    r = param(set, "r", (charl_shape){1, {2}}); /* its gradient is a leaf: a constant 1 */
    h = charl_mul(g, charl_add(g, charl_parameter(g, p), charl_parameter(g, q)), x);
    charl_graph_backward(g, sum_all(g, charl_add(g, h, charl_parameter(g, r))), NULL);
    charl_assert_ok(charl_graph_compile(g));
    write(x, (float[]){3, -4}, 2);
    charl_assert_ok(charl_graph_run(g));
    charl_assert_ok(charl_param_read_gradient(p, gradient));
    charl_assert_close_f32(gradient, ((float[]){3, -4}), 2, 0.0);
    charl_assert_ok(charl_param_read_gradient(q, gradient));
    charl_assert_close_f32(gradient, ((float[]){3, -4}), 2, 0.0);
    charl_assert_ok(charl_param_read_gradient(r, gradient));
    charl_assert_close_f32(gradient, ((float[]){1, 1}), 2, 0.0);
    charl_graph_destroy(g);
    charl_params_destroy(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_first_error_names_the_layer),
        cmocka_unit_test(test_bad_calls),
        cmocka_unit_test(test_order_of_calls),
        cmocka_unit_test(test_slices_of_a_graph),
        cmocka_unit_test(test_parameters_of_two_sets),
        cmocka_unit_test(test_dead_nodes_are_removed),
        cmocka_unit_test(test_names_are_unique),
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_var_used_twice),
        cmocka_unit_test(test_seed_scales_gradients),
        cmocka_unit_test(test_no_gradient_where_nothing_depends),
        cmocka_unit_test(test_loss_is_an_input),
        cmocka_unit_test(test_shared_gradient),
    };

    return charl_test_on_device(tests, &dev);
}
