/* Fusion: which operators become one, and that no bit changes. */
#include "support/on_device.h"

#include <stdio.h>
#include <string.h>

#include "charl/graph.h"
#include "charl/ops.h"

enum { ROWS = 16, DEEP = 3, WIDE = 35, MOST = 8 };

static charl_device *dev;

static charl_graph *new_graph(const charl_slices *slices)
{
    charl_graph *g;

    charl_assert_ok(charl_graph_create(dev, slices, &g));
    return g;
}

static charl_var *input(charl_graph *g, int64_t rows)
{
    return charl_input(g, "x", CHARL_F32, (charl_shape){3, {rows, DEEP, WIDE}}, CHARL_BATCHED);
}

/* The line of charl_graph_print, after compiling, that node number n of those that run has; NULL past the last. */
static const char *node(const charl_graph *g, int n)
{
    static char line[1024];
    const char *out = NULL;
    char *text = NULL;

    charl_assert_ok(charl_graph_print(g, false, &text));
    for (char *at = strtok(text, "\n"); at && !out; at = strtok(NULL, "\n")) {
        if (!strstr(at, "(dead)") && n-- == 0) {
            snprintf(line, sizeof line, "%s", at);
            out = line;
        }
    }
    charl_free(text);
    return out;
}

/* The names of the nodes that run, separated by spaces. */
static const char *plan(charl_graph *g)
{
    static char text[1024];
    const char *line;

    text[0] = '\0';
    charl_assert_ok(charl_graph_compile(g));
    for (int i = 0; (line = node(g, i)) != NULL; i++) {
        char name[128];

        assert_int_equal(sscanf(line, "%*d %*s %127s", name), 1);
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", text[0] ? " " : "", name);
    }
    charl_graph_destroy(g);
    return text;
}

static void test_chain(void **state)
{
    charl_graph *g = new_graph(NULL);
    charl_var *h = charl_relu(g, input(g, ROWS)), *y;

    (void)state;
    h = charl_reshape(g, charl_tanh(g, h), (charl_shape){2, {ROWS, DEEP * WIDE}});
    y = charl_exp(g, h);
    h = charl_add(g, y, charl_scale(g, h, 2.0F, 0.0F));
    charl_graph_keep(g, h);
    assert_string_equal(plan(g), "relu+tanh+exp+scale+add");
}

/* How many values a node writes: their types stand before the arrow, between commas. */
static int count_results(const char *line)
{
    int n = 1;

    for (const char *at = line; at < strstr(line, " <- "); at++) {
        n += strncmp(at, " B, ", 4) == 0;
    }
    return n;
}

/* What others read is written too, by the same kernel: here relu's result. */
static void test_results(void **state)
{
    charl_graph *g = new_graph(NULL);
    charl_var *y = charl_relu(g, input(g, ROWS)), *z = charl_tanh(g, y);

    (void)state;
    charl_graph_keep(g, charl_softmax(g, y));
    charl_graph_keep(g, z);
    charl_assert_ok(charl_graph_compile(g));
    assert_non_null(strstr(node(g, 0), " relu+tanh "));
    assert_int_equal(count_results(node(g, 0)), 2);
    assert_non_null(strstr(node(g, 1), " softmax "));
    assert_non_null(strstr(node(g, 1), " <- relu"));
    assert_null(node(g, 2));
    charl_graph_destroy(g);
}

/* Not where the first result is needed before the last operator can run; not over different
 * extents; and not for the price of memory. */
static void test_apart(void **state)
{
    charl_graph *g = new_graph(NULL);
    charl_var *x = input(g, ROWS), *h = charl_relu(g, x), *y;

    (void)state;
    charl_graph_keep(g, charl_add(g, charl_softmax(g, h), h));
    assert_string_equal(plan(g), "relu softmax add");

    g = new_graph(NULL);
    x = charl_input(g, "v", CHARL_F32, (charl_shape){1, {WIDE}}, CHARL_REPLICATED);
    charl_graph_keep(g, charl_add(g, input(g, ROWS), charl_relu(g, x)));
    assert_string_equal(plan(g), "relu add");

    g = new_graph(NULL);
    x = charl_softmax(g, input(g, ROWS));
    y = charl_mul(g, x, charl_log_softmax(g, input(g, ROWS)));
    h = charl_softmax(g, input(g, ROWS));
    charl_graph_keep(g, charl_add(g, y, h)); /* y's operands would outlive softmax#2 */
    assert_string_equal(plan(g), "softmax log_softmax mul softmax#2 add");
}

static charl_var *matrix(charl_graph *g, int64_t rows)
{
    return charl_input(g, "w", CHARL_F32, (charl_shape){2, {rows, WIDE}}, CHARL_REPLICATED);
}

/* A product takes operators along, whatever reads it through a view; on a CPU what draws random
 * numbers stays outside. */
static void test_product(void **state)
{
    charl_graph *g = new_graph(NULL);
    charl_var *x = input(g, ROWS), *h = charl_linear(g, x, matrix(g, WIDE), NULL);

    (void)state;
    h = charl_reshape(g, h, (charl_shape){2, {ROWS, DEEP * WIDE}});
    charl_graph_keep(g, charl_dropout(g, charl_relu(g, h), 0.5F));
    assert_string_equal(plan(g), charl_device_get_info(dev)->kind == CHARL_DEVICE_CPU ? "linear+relu dropout"
                                                                                      : "linear+relu+dropout");

    g = new_graph(NULL);
    x = input(g, ROWS);
    h = charl_linear(g, x, matrix(g, WIDE), NULL);
    charl_graph_keep(g, charl_scale(g, charl_add(g, x, h), 2.0F, 0.0F));
    assert_string_equal(plan(g), "linear+add+scale");

    g = new_graph(NULL); /* an operand that broadcasts */
    h = charl_linear(g, input(g, ROWS), matrix(g, WIDE), NULL);
    charl_graph_keep(g, charl_mul(g, h, charl_constant(g, 2.0F)));
    assert_string_equal(plan(g), "linear mul");

    g = new_graph(NULL); /* an operand that comes later */
    h = charl_linear(g, input(g, ROWS), matrix(g, WIDE), NULL);
    charl_graph_keep(g, charl_add(g, h, charl_softmax(g, input(g, ROWS))));
    assert_string_equal(plan(g), "linear softmax add");
}

/* Where others read the product it is a result too, and the node needs its operands only. */
static void test_product_is_kept(void **state)
{
    charl_graph *g = new_graph(NULL);
    charl_var *h = charl_linear(g, input(g, ROWS), matrix(g, WIDE), NULL), *y;

    (void)state;
    y = charl_mul(g, h, charl_leaky_relu(g, h, 0.1F));
    charl_graph_keep(g, charl_softmax(g, y));
    charl_assert_ok(charl_graph_compile(g));
    assert_non_null(strstr(node(g, 0), " linear+leaky_relu "));
    assert_int_equal(count_results(node(g, 0)), 2);
    assert_non_null(strstr(node(g, 0), " <- x w"));
    assert_non_null(strstr(node(g, 1), " mul "));
    assert_int_equal(charl_graph_get_info(g).fused, 1);
    charl_graph_destroy(g);
}

static void test_limits(void **state)
{
    charl_graph *g = new_graph(NULL);
    charl_var *h = input(g, ROWS);

    (void)state;
    for (int i = 0; i <= MOST; i++) {
        h = charl_relu(g, h);
    }
    charl_graph_keep(g, h);
    assert_string_equal(plan(g), "relu+relu+relu+relu+relu+relu+relu+relu relu#9");

    g = new_graph(NULL);
    h = input(g, ROWS);
    for (int i = 0; i < MOST; i++) {
        h = charl_add(g, h, input(g, ROWS));
    }
    charl_graph_keep(g, h);
    assert_string_equal(plan(g), "add+add+add+add+add+add+add add#8");
}

static void test_switches(void **state)
{
    static const char *const off[] = {"CHARL_NO_FUSION", "CHARL_CHECK_FINITE"};

    (void)state;
    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++) {
        charl_graph *g = new_graph(NULL);

        charl_graph_keep(g, charl_tanh(g, charl_relu(g, input(g, ROWS))));
        charl_test_env_set(off[i], "1");
        assert_string_equal(plan(g), "relu tanh");
        charl_test_env_set(off[i], NULL);
    }
}

/* The rows of a classifier's loss of *x. */
static charl_var *losses(charl_graph *g, charl_var **x)
{
    const charl_shape rows = {2, {ROWS, DEEP}};
    charl_var *label = charl_input(g, "label", CHARL_I32, rows, CHARL_BATCHED);
    charl_var *weight = charl_input(g, "weight", CHARL_F32, rows, CHARL_BATCHED);

    *x = input(g, ROWS);
    charl_graph_require_gradient(g, *x);
    return charl_cross_entropy(g, charl_softmax(g, *x), label, weight,
                               &(charl_cross_entropy_args){.label_smoothing = 0.1F});
}

/* A classifier's loss comes with its gradient where the gradient of the loss can be had before it:
 * not where it depends on the loss. */
static void test_loss(void **state)
{
    charl_graph *g = new_graph(NULL);
    charl_var *x, *y = losses(g, &x);

    (void)state;
    charl_graph_keep(g, y);
    y = charl_sum(g, charl_mean(g, y, 1, false), 0, false);
    charl_graph_backward(g, y, charl_constant(g, 2.0F));
    charl_graph_keep(g, y);
    charl_graph_keep(g, charl_var_get_gradient(x));
    assert_string_equal(plan(g), "softmax reshape sum#2.reshape sum#2.expand scale.scale sum.reshape "
                                 "sum.expand cross_entropy+grad sum scale sum#2 "
                                 "softmax.softmax_grad");

    g = new_graph(NULL);
    y = losses(g, &x);
    y = charl_sum(g, charl_sum(g, charl_mul(g, y, y), 1, false), 0, false);
    charl_graph_backward(g, y, NULL);
    charl_graph_keep(g, charl_var_get_gradient(x));
    assert_non_null(strstr(plan(g), " cross_entropy.cross_entropy_grad "));
}

/* What goes on beside a norm comes back in the pass of the norm's gradient. */
static void test_norm(void **state)
{
    charl_graph *g = new_graph(NULL);
    charl_var *x = input(g, ROWS), *y, *w;

    (void)state;
    charl_graph_require_gradient(g, x);
    w = charl_input(g, "w", CHARL_F32, (charl_shape){1, {WIDE}}, CHARL_REPLICATED);
    y = charl_mul(g, x, charl_rms_norm(g, x, NULL, 1e-5F)); /* not without a weight */
    y = charl_add(g, y, charl_mul(g, x, charl_layer_norm(g, x, w, NULL, 1e-5F)));
    for (int dim = 2; dim >= 0; dim--) {
        y = charl_sum(g, y, dim, false);
    }
    charl_graph_backward(g, y, NULL);
    charl_graph_keep(g, charl_var_get_gradient(x));
    assert_non_null(strstr(plan(g), " layer_norm.layer_norm_grad mul.mul mul.mul#2 mul.add "
                                    "rms_norm.rms_norm_grad rms_norm.add"));
}

/* A label for each row: where chunks of classes meet, and one that is none. */
static int32_t label_of(int64_t row, int64_t classes)
{
    const int64_t some[] = {0, classes - 1, 7, -1, 512, 1023, 1024, classes - 7, row * 1000 % classes};

    return (int32_t)some[row % 9];
}

/* Gradients of weight and bias come where they belong: nothing copies them. */
static void test_norm_weights(void **state)
{
    charl_graph *g = new_graph(NULL);
    charl_var *x = input(g, ROWS), *w, *b, *y;
    const char *nodes;

    (void)state;
    w = charl_input(g, "w", CHARL_F32, (charl_shape){1, {WIDE}}, CHARL_REPLICATED);
    b = charl_input(g, "b", CHARL_F32, (charl_shape){1, {WIDE}}, CHARL_REPLICATED);
    charl_graph_require_gradient(g, x);
    charl_graph_require_gradient(g, w);
    charl_graph_require_gradient(g, b);
    y = charl_layer_norm(g, x, w, b, 1e-5F);
    y = charl_mul(g, y, y);
    for (int dim = 2; dim >= 0; dim--) {
        y = charl_sum(g, y, dim, false);
    }
    charl_graph_backward(g, y, NULL);
    charl_graph_keep(g, charl_var_get_gradient(x));
    charl_graph_keep(g, charl_var_get_gradient(w));
    charl_graph_keep(g, charl_var_get_gradient(b));
    nodes = plan(g);
    assert_non_null(strstr(nodes, " layer_norm.layer_norm_grads"));
    assert_null(strstr(nodes, "slice"));
}

/* Loss and gradient of more classes than a chunk, as bytes. The gradient takes the place of the
 * logits; rows do not begin at 16 bytes. */
static unsigned char *run_loss(bool fused, int64_t rows, int64_t classes, size_t *bytes)
{
    const charl_shape shape = {2, {rows, classes}};
    const int64_t n = rows * classes;
    charl_graph *g = new_graph(NULL);
    charl_var *x = charl_input(g, "x", CHARL_F32, shape, CHARL_BATCHED), *y, *label;
    float *values;
    int32_t *labels;
    unsigned char *got;

    charl_test_env_set("CHARL_NO_FUSION", fused ? NULL : "1");
    label = charl_input(g, "label", CHARL_I32, (charl_shape){1, {rows}}, CHARL_BATCHED);
    charl_graph_require_gradient(g, x);
    y = charl_cross_entropy(g, charl_cast(g, x, CHARL_BF16), label, NULL,
                            &(charl_cross_entropy_args){.label_smoothing = 0.1F});
    charl_graph_keep(g, y);
    charl_graph_backward(g, charl_sum(g, y, 0, false), charl_constant(g, 3.0F));
    charl_graph_keep(g, charl_var_get_gradient(x));
    charl_assert_ok(charl_graph_compile(g));
    charl_test_env_set("CHARL_NO_FUSION", NULL);
    assert_int_equal(charl_graph_get_info(g).fused, fused ? 1 : 0);
    values = charl_test_array(n, sizeof *values);
    labels = charl_test_array(rows, sizeof *labels);
    got = charl_test_array(n + rows, sizeof *values);
    charl_test_fill(values, n, -9.0F, 9.0F, 6);
    for (int64_t i = 0; i < rows; i++) {
        labels[i] = label_of(i, classes);
    }
    *bytes = (size_t)n * sizeof *values;
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(x), values, *bytes));
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(label), labels, (size_t)rows * 4));
    charl_assert_ok(charl_graph_run(g));
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(charl_var_get_gradient(x)), got, *bytes));
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(y), got + *bytes, (size_t)rows * 4));
    *bytes += (size_t)rows * 4;
    charl_free(values);
    charl_free(labels);
    charl_graph_destroy(g);
    return got;
}

/* Also of so many and long rows that a work-group of a GPU has several, in a kernel for those. */
static void test_loss_bits(void **state)
{
    static const int64_t shapes[][2] = {{ROWS, 1031}, {300, 24601}};
    const bool is_cpu = charl_device_get_info(dev)->kind == CHARL_DEVICE_CPU;

    (void)state;
    for (int i = 0; i < (is_cpu ? 1 : 2); i++) {
        size_t bytes, other;
        unsigned char *got = run_loss(true, shapes[i][0], shapes[i][1], &bytes);
        unsigned char *want = run_loss(false, shapes[i][0], shapes[i][1], &other);

        assert_int_equal(bytes, other);
        assert_memory_equal(got, want, bytes);
        charl_free(got);
        charl_free(want);
    }
}

typedef struct net {
    charl_graph *g;
    charl_var *x, *out[3];
} net;

/* Every type in between, operands that broadcast, numbers, random numbers, a view, three results.
 */
static void net_init(net *n, const charl_slices *slices)
{
    const int64_t rows = 2 * slices->count;
    charl_var *h, *row;

    n->g = new_graph(slices);
    n->x = input(n->g, rows);
    row = charl_max(n->g, n->x, 2, true);
    h = charl_sub(n->g, charl_cast(n->g, n->x, CHARL_BF16), row);
    h = charl_gelu(n->g, h, true);
    n->out[0] = charl_dropout(n->g, h, 0.3F);
    h = charl_cast(n->g, charl_reshape(n->g, n->out[0], (charl_shape){2, {rows, DEEP * WIDE}}), CHARL_F16);
    n->out[1] = charl_scale(n->g, h, 1.7F, -0.1F);
    n->out[2] = charl_mul(n->g, n->out[1], n->out[1]);
    for (int k = 0; k < 3; k++) {
        charl_graph_keep(n->g, n->out[k]);
    }
}

/* All results of one run, as bytes. */
static size_t run(const charl_slices *slices, bool fused, unsigned char *got)
{
    const int64_t count = (int64_t)2 * slices->count * DEEP * WIDE;
    size_t used = 0;
    float *x;
    net n;

    charl_test_env_set("CHARL_NO_FUSION", fused ? NULL : "1");
    net_init(&n, slices);
    charl_assert_ok(charl_graph_compile(n.g));
    charl_test_env_set("CHARL_NO_FUSION", NULL);
    assert_int_equal(charl_graph_get_info(n.g).launches, fused ? 2 : 8);
    x = charl_test_array(count, sizeof *x);
    charl_test_fill(x, count, -3.0F, 3.0F, 5);
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(n.x), x, (size_t)count * sizeof *x));
    charl_assert_ok(charl_graph_run(n.g));
    for (int k = 0; k < 3; k++) {
        const size_t bytes = (size_t)count * charl_dtype_size(charl_var_get_type(n.out[k]).dtype);

        charl_assert_ok(charl_tensor_read(charl_var_get_tensor(n.out[k]), got + used, bytes));
        used += bytes;
    }
    charl_free(x);
    charl_graph_destroy(n.g);
    return used;
}

/* Alone, and as ranks whose random numbers begin at multiples of 4 and elsewhere. */
static void test_same_bits(void **state)
{
    static const int rank_of[][2] = {{0, 1}, {1, 8}, {2, 3}};
    static unsigned char got[6 * ROWS * DEEP * WIDE], want[6 * ROWS * DEEP * WIDE];

    (void)state;
    for (size_t i = 0; i < sizeof rank_of / sizeof rank_of[0]; i++) {
        charl_slices slices;
        size_t bytes;

        charl_assert_ok(charl_slices_block(8, rank_of[i][0], rank_of[i][1], &slices));
        bytes = run(&slices, true, got);
        assert_int_equal(run(&slices, false, want), bytes);
        assert_memory_equal(got, want, bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain),    cmocka_unit_test(test_results),         cmocka_unit_test(test_apart),
        cmocka_unit_test(test_product),  cmocka_unit_test(test_product_is_kept), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_switches), cmocka_unit_test(test_same_bits),       cmocka_unit_test(test_loss),
        cmocka_unit_test(test_norm),     cmocka_unit_test(test_norm_weights),    cmocka_unit_test(test_loss_bits),
    };

    return charl_test_on_device(tests, &dev);
}
