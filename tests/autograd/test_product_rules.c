/* What products, windows and normalisations refuse, with the layer's name, and the builders that
 * are more than one operator. */
#include "support/on_device.h"

#include <math.h>
#include <string.h>

#include "charl/graph.h"
#include "charl/ops.h"

static charl_device *dev;

static charl_var *in(charl_graph *g, const char *name, charl_shape shape, charl_batch batch)
{
    return charl_input(g, name, CHARL_F32, shape, batch);
}

static charl_var *replicated(charl_graph *g, const char *name, charl_shape shape)
{
    return in(g, name, shape, CHARL_REPLICATED);
}

#define SHAPE(...) ((charl_shape){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})

static const charl_window w3 = {{3, 3}, {1, 1}, {0, 0}, {1, 1}}, no_stride = {{3, 3}, {0, 1}, {0, 0}, {1, 1}},
                          far = {{2, 2}, {1, 1}, {2, 0}, {1, 1}};

static charl_var *linear_inner(charl_graph *g)
{
    return charl_linear(g, replicated(g, "x", SHAPE(4, 5)), replicated(g, "w", SHAPE(3, 6)), NULL);
}

static charl_var *linear_bias(charl_graph *g)
{
    return charl_linear(g, replicated(g, "x", SHAPE(4, 5)), replicated(g, "w", SHAPE(3, 5)),
                        replicated(g, "b", SHAPE(4)));
}

static charl_var *linear_batched_weight(charl_graph *g)
{
    return charl_linear(g, replicated(g, "x", SHAPE(4, 5)), in(g, "w", SHAPE(3, 5), CHARL_BATCHED), NULL);
}

static charl_var *linear_vector(charl_graph *g)
{
    return charl_linear(g, in(g, "x", SHAPE(8), CHARL_BATCHED), replicated(g, "w", SHAPE(3, 8)), NULL);
}

static charl_var *linear_integers(charl_graph *g)
{
    return charl_linear(g, charl_input(g, "x", CHARL_I32, SHAPE(4, 5), CHARL_REPLICATED),
                        replicated(g, "w", SHAPE(3, 5)), NULL);
}

static charl_var *matmul_inner(charl_graph *g)
{
    return charl_matmul(g, replicated(g, "a", SHAPE(4, 5)), replicated(g, "b", SHAPE(4, 5)), false, false);
}

static charl_var *matmul_leading(charl_graph *g)
{
    return charl_matmul(g, replicated(g, "a", SHAPE(2, 4, 5)), replicated(g, "b", SHAPE(3, 5, 4)), false, false);
}

static charl_var *matmul_moves_batch(charl_graph *g)
{
    return charl_matmul(g, replicated(g, "a", SHAPE(4, 8)), in(g, "b", SHAPE(8, 3), CHARL_BATCHED), false, false);
}

static charl_var *matmul_turns_batch(charl_graph *g)
{
    return charl_matmul(g, in(g, "a", SHAPE(8, 4), CHARL_BATCHED), replicated(g, "b", SHAPE(8, 3)), true, false);
}

static charl_var *conv_channels(charl_graph *g)
{
    return charl_conv2d(g, replicated(g, "x", SHAPE(1, 3, 8, 8)), replicated(g, "w", SHAPE(4, 2, 3, 3)), NULL, &w3, 1);
}

static charl_var *conv_groups(charl_graph *g)
{
    return charl_conv2d(g, replicated(g, "x", SHAPE(1, 3, 8, 8)), replicated(g, "w", SHAPE(4, 1, 3, 3)), NULL, &w3, 2);
}

static charl_var *conv_too_small(charl_graph *g)
{
    return charl_conv2d(g, replicated(g, "x", SHAPE(1, 3, 2, 8)), replicated(g, "w", SHAPE(4, 3, 3, 3)), NULL, &w3, 1);
}

static charl_var *conv_stride(charl_graph *g)
{
    return charl_conv2d(g, replicated(g, "x", SHAPE(1, 3, 8, 8)), replicated(g, "w", SHAPE(4, 3, 3, 3)), NULL,
                        &no_stride, 1);
}

static charl_var *conv_rank(charl_graph *g)
{
    return charl_conv2d(g, replicated(g, "x", SHAPE(3, 8, 8)), replicated(g, "w", SHAPE(4, 3, 3, 3)), NULL, &w3, 1);
}

static charl_var *conv_bias(charl_graph *g)
{
    return charl_conv2d(g, replicated(g, "x", SHAPE(1, 3, 8, 8)), replicated(g, "w", SHAPE(4, 3, 3, 3)),
                        replicated(g, "b", SHAPE(3)), &w3, 1);
}

static charl_var *pool_padding(charl_graph *g)
{
    return charl_max_pool2d(g, replicated(g, "x", SHAPE(1, 3, 8, 8)), &far);
}

static charl_var *pool_stride(charl_graph *g)
{
    return charl_avg_pool2d(g, replicated(g, "x", SHAPE(1, 3, 8, 8)), &no_stride);
}

static charl_var *pool_too_small(charl_graph *g)
{
    return charl_avg_pool2d(g, replicated(g, "x", SHAPE(1, 3, 8, 2)), &w3);
}

static charl_var *pool_rank(charl_graph *g)
{
    return charl_max_pool2d(g, replicated(g, "x", SHAPE(3, 8, 8)), &w3);
}

static charl_var *global_pool_rank(charl_graph *g)
{
    return charl_global_avg_pool(g, replicated(g, "x", SHAPE(3, 8, 8)));
}

static charl_var *layer_norm_weight(charl_graph *g)
{
    return charl_layer_norm(g, replicated(g, "x", SHAPE(3, 8)), replicated(g, "w", SHAPE(3)), NULL, 1e-5F);
}

static charl_var *rms_norm_weight(charl_graph *g)
{
    return charl_rms_norm(g, replicated(g, "x", SHAPE(3, 8)), replicated(g, "w", SHAPE(3)), 1e-5F);
}

static charl_var *add_norm_shapes(charl_graph *g)
{
    charl_var *sum;

    return charl_add_rms_norm(g, replicated(g, "a", SHAPE(3, 8)), replicated(g, "b", SHAPE(1, 8)),
                              replicated(g, "w", SHAPE(8)), 1e-5F, &sum);
}

static charl_var *add_norm_without_weight(charl_graph *g)
{
    const charl_layer_norm_args none = {.eps = 1e-5F};
    charl_var *sum;

    return charl_add_layer_norm(g, replicated(g, "a", SHAPE(3, 8)), replicated(g, "b", SHAPE(3, 8)), &none, &sum);
}

static charl_var *layer_norm_scalar(charl_graph *g)
{
    return charl_layer_norm(g, in(g, "x", SHAPE(8), CHARL_BATCHED), NULL, NULL, 1e-5F);
}

static const struct {
    charl_var *(*build)(charl_graph *g);
    charl_status status;
    const char *message;
} refusals[] = {
    {linear_inner, CHARL_ERR_SHAPE, "block.linear: x [4, 5] and w [3, 6]"},
    {linear_bias, CHARL_ERR_SHAPE, "bias [4] does not fit w [3, 5]"},
    {linear_batched_weight, CHARL_ERR_SHAPE, "must be the same for all rows"},
    {linear_vector, CHARL_ERR_SHAPE, "no extent besides the batch"},
    {linear_integers, CHARL_ERR_DTYPE, "operand 0 is i32"},
    {matmul_inner, CHARL_ERR_SHAPE, "inner extents differ"},
    {matmul_leading, CHARL_ERR_SHAPE, "leading extents differ"},
    {matmul_moves_batch, CHARL_ERR_SHAPE, "the batch must stay the leading extent"},
    {matmul_turns_batch, CHARL_ERR_SHAPE, "the batch must stay the leading extent"},
    {conv_channels, CHARL_ERR_SHAPE, "weight [4, 2, 3, 3] does not fit x [1, 3, 8, 8]"},
    {conv_groups, CHARL_ERR_SHAPE, "and 2 groups"},
    {conv_too_small, CHARL_ERR_SHAPE, "larger than the padded image"},
    {conv_stride, CHARL_ERR_INVALID, "stride 0"},
    {conv_rank, CHARL_ERR_SHAPE, "has not four extents"},
    {conv_bias, CHARL_ERR_SHAPE, "bias [3] does not fit 4"},
    {pool_padding, CHARL_ERR_INVALID, "more than half"},
    {pool_stride, CHARL_ERR_INVALID, "stride 0"},
    {pool_too_small, CHARL_ERR_SHAPE, "larger than the padded image"},
    {pool_rank, CHARL_ERR_SHAPE, "is not [B, C, H, W]"},
    {global_pool_rank, CHARL_ERR_SHAPE, "3 extents"},
    {layer_norm_weight, CHARL_ERR_SHAPE, "does not fit the last axis"},
    {rms_norm_weight, CHARL_ERR_SHAPE, "does not fit the last axis"},
    {add_norm_shapes, CHARL_ERR_SHAPE, "operand 1 is replicated f32 [1, 8], but x is replicated f32 [3, 8]"},
    {add_norm_without_weight, CHARL_ERR_INVALID, "operand 2 is NULL"},
    {layer_norm_scalar, CHARL_ERR_SHAPE, "no last axis"},
};

static void refusals_name_the_layer(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        charl_graph *g;

        charl_assert_ok(charl_graph_create(dev, NULL, &g));
        charl_graph_scope_begin(g, "block");
        assert_null(refusals[i].build(g));
        charl_graph_scope_end(g);
        charl_assert_status(charl_graph_compile(g), refusals[i].status);
        charl_assert_message(refusals[i].message);
        charl_assert_message("block");
        charl_graph_destroy(g);
    }
}

static void write(charl_var *v, float scale, float *copy)
{
    const charl_shape s = charl_var_get_type(v).shape;
    const int64_t n = charl_shape_count(&s);

    for (int64_t i = 0; i < n; i++) {
        copy[i] = scale * (float)(i % 7 - 3);
    }
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(v), copy, (size_t)n * sizeof *copy));
}

/* Both operands batched, the first transposed: the product sums over the batch, and is PARTIAL. */
static void matmul_sums_over_the_batch(void **state)
{
    float a[8 * 3], b[8 * 2], got[6];
    charl_graph *g;
    charl_var *x, *y, *out;

    (void)state;
    charl_assert_ok(charl_graph_create(dev, NULL, &g));
    x = in(g, "x", SHAPE(8, 3), CHARL_BATCHED);
    y = in(g, "y", SHAPE(8, 2), CHARL_BATCHED);
    out = charl_matmul(g, x, y, true, false);
    assert_int_equal(charl_var_get_type(out).batch, CHARL_PARTIAL);
    charl_graph_keep(g, out);
    charl_assert_ok(charl_graph_compile(g));
    write(x, 1.0F, a);
    write(y, 2.0F, b);
    charl_assert_ok(charl_graph_run(g));
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(out), got, sizeof got));
    for (int i = 0; i < 6; i++) {
        float want = 0.0F;

        for (int r = 0; r < 8; r++) {
            want += a[3 * r + i / 2] * b[2 * r + i % 2];
        }
        assert_true(got[i] == want);
    }
    charl_graph_destroy(g);
}

/* A bias without a weight, which the operator itself does not take. */
static void layer_norm_with_a_bias_alone(void **state)
{
    const double deviation = sqrt(2.0 / 3.0 + 1e-5);
    float copy[3], got[3], bias[3];
    double want[3];
    charl_graph *g;
    charl_var *x, *b, *out;

    (void)state;
    charl_assert_ok(charl_graph_create(dev, NULL, &g));
    x = replicated(g, "x", SHAPE(1, 3));
    b = replicated(g, "b", SHAPE(3));
    out = charl_layer_norm(g, x, NULL, b, 1e-5F);
    charl_graph_keep(g, out);
    charl_assert_ok(charl_graph_compile(g));
    write(x, 1.0F, copy); /* -3 -2 -1 */
    write(b, 0.5F, bias);
    charl_assert_ok(charl_graph_run(g));
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(out), got, sizeof got));
    for (int i = 0; i < 3; i++) {
        want[i] = (i - 1) / deviation + (double)bias[i];
    }
    charl_assert_close(got, want, 3, 1e-6);
    charl_graph_destroy(g);
}

static void global_average(void **state)
{
    float copy[2 * 3 * 5 * 4], got[6];
    double want[6] = {0};
    charl_graph *g;
    charl_var *x, *out;

    (void)state;
    charl_assert_ok(charl_graph_create(dev, NULL, &g));
    x = replicated(g, "x", SHAPE(2, 3, 5, 4));
    out = charl_global_avg_pool(g, x);
    charl_graph_keep(g, out);
    charl_assert_ok(charl_graph_compile(g));
    write(x, 1.0F, copy);
    charl_assert_ok(charl_graph_run(g));
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(out), got, sizeof got));
    for (int i = 0; i < 120; i++) {
        want[i / 20] += (double)copy[i] / 20;
    }
    charl_assert_close(got, want, 6, 1e-6);
    charl_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals_name_the_layer),
        cmocka_unit_test(matmul_sums_over_the_batch),
        cmocka_unit_test(layer_norm_with_a_bias_alone),
        cmocka_unit_test(global_average),
    };

    return charl_test_on_device(tests, &dev);
}
