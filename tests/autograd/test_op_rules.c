/* What operators refuse, with which words, and what builders make of their arguments. */
#include "support/on_graph.h"

#include <math.h>
#include <string.h>

#include "charl/ops.h"

#define IN(dt, batch, ...)                                                                                             \
    charl_input(g, "x", CHARL_##dt,                                                                                    \
                (charl_shape){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}},               \
                CHARL_##batch)

/* The graph's first error is `code` and mentions `part`; then a fresh graph. */
static void refused(charl_var *out, charl_status code, const char *part)
{
    assert_null(out);
    charl_assert_status(charl_graph_status(g), code);
    charl_assert_message(part);
    charl_graph_destroy(g);
    charl_assert_ok(charl_graph_create(dev, NULL, &g));
}

static void test_elementwise(void **state)
{
    (void)state;
    refused(charl_add(g, IN(F32, REPLICATED, 3, 5), IN(F32, REPLICATED, 4, 5)), CHARL_ERR_SHAPE, "do not broadcast");
    refused(charl_mul(g, IN(F32, REPLICATED, 3, 4, 5), IN(F32, REPLICATED, 3, 1, 5)), CHARL_ERR_SHAPE,
            "do not broadcast");
    refused(charl_mul(g, IN(F32, BATCHED, 1, 4, 5), IN(F32, BATCHED, 1, 1, 5)), CHARL_ERR_SHAPE, /* as with more rows */
            "shapes [1, 4, 5] and [1, 1, 5] do not broadcast");
    refused(charl_sub(g, IN(F32, REPLICATED, 3), IN(I32, REPLICATED, 3)), CHARL_ERR_DTYPE, "i32");
    refused(charl_relu(g, IN(I32, REPLICATED, 3)), CHARL_ERR_DTYPE, "i32");
    refused(charl_div(g, NULL, IN(F32, REPLICATED, 3)), CHARL_ERR_INVALID, "operand 0 is NULL");
}

static void test_half_operands(void **state)
{
    (void)state;
    refused(charl_add(g, IN(BF16, BATCHED, 3, 5), IN(F32, BATCHED, 3, 5)), CHARL_ERR_DTYPE,
            "operands are bf16 and f32");
    refused(charl_mul(g, IN(F32, BATCHED, 3, 5), IN(F16, REPLICATED, 5)), CHARL_ERR_DTYPE, "operands are f32 and f16");
    refused(charl_matmul(g, IN(BF16, BATCHED, 3, 5), IN(F16, REPLICATED, 5, 2), false, false), CHARL_ERR_DTYPE,
            "operand 1 is f16, those before it bf16");
    charl_graph_scope_begin(g, "fc1");
    refused(charl_linear(g, IN(BF16, BATCHED, 3, 5), IN(BF16, REPLICATED, 2, 5), IN(BF16, REPLICATED, 2)),
            CHARL_ERR_DTYPE, "fc1.linear: operand 2 is bf16: this is not available in bf16");
    refused(charl_batch_sum(g, IN(BF16, BATCHED, 3)), CHARL_ERR_SHAPE, "batch extent");
}

/* A rank with one sample has as many values as the f32 vector beside them. */
static void test_one_row_of_a_half_type(void **state)
{
    charl_var *y = charl_mul(g, IN(BF16, BATCHED, 1, 5), IN(F32, REPLICATED, 5));

    (void)state;
    assert_non_null(y);
    assert_int_equal(charl_var_get_type(y).dtype, CHARL_BF16);
    refused(charl_mul(g, IN(BF16, REPLICATED, 1, 5), IN(F32, REPLICATED, 1, 5)), CHARL_ERR_DTYPE,
            "operands are bf16 and f32");
}

static void test_reductions(void **state)
{
    (void)state;
    refused(charl_sum(g, IN(F32, REPLICATED, 3, 5), 2, false), CHARL_ERR_SHAPE, "no axis 2");
    refused(charl_sum(g, IN(F32, REPLICATED, 3, 5), -3, false), CHARL_ERR_SHAPE, "no axis -3");
    refused(charl_sum(g, IN(I32, REPLICATED, 3), 0, false), CHARL_ERR_DTYPE, "i32");
    refused(charl_mean(g, IN(F32, REPLICATED, 3), 1, false), CHARL_ERR_SHAPE, "no axis 1");
    refused(charl_sum_to(g, IN(F32, REPLICATED, 3, 5), 2), CHARL_ERR_SHAPE, "no axis 2");
    refused(charl_sum_to(g, IN(U8, REPLICATED, 3, 5), 1), CHARL_ERR_DTYPE, "u8");
    refused(charl_max(g, IN(F32, REPLICATED, 3, 5), 2, false), CHARL_ERR_SHAPE, "no axis 2");
    refused(charl_max(g, IN(F32, REPLICATED, 3, 0), 1, false), CHARL_ERR_SHAPE, "no largest");
    refused(charl_max(g, IN(F32, BATCHED, 8, 5), 0, false), CHARL_ERR_SHAPE, "over the batch axis");
    refused(charl_max(g, IN(I32, REPLICATED, 3), 0, false), CHARL_ERR_DTYPE, "i32");
    refused(charl_softmax(g, IN(F32, BATCHED, 8)), CHARL_ERR_SHAPE, "no axis to normalise");
    refused(charl_log_softmax(g, IN(U8, REPLICATED, 8)), CHARL_ERR_DTYPE, "u8");
}

static void test_losses(void **state)
{
    charl_var *x;

    (void)state;
    refused(charl_cross_entropy(g, IN(F32, BATCHED, 8, 5), IN(F32, BATCHED, 8), NULL, NULL), CHARL_ERR_DTYPE,
            "labels i32");
    refused(charl_cross_entropy(g, IN(F32, BATCHED, 8, 5), IN(I32, BATCHED, 8, 1), NULL, NULL), CHARL_ERR_SHAPE,
            "[..., C] and [...]");
    refused(charl_cross_entropy(g, IN(F32, BATCHED, 8, 0), IN(I32, BATCHED, 8), NULL, NULL), CHARL_ERR_SHAPE,
            "no classes");
    x = IN(F32, BATCHED, 8, 5);
    refused(charl_cross_entropy(g, x, IN(I32, BATCHED, 8), IN(F32, BATCHED, 8, 1), NULL), CHARL_ERR_SHAPE, "weight");
    x = IN(F32, BATCHED, 8, 5);
    refused(charl_cross_entropy(g, x, IN(I32, BATCHED, 8), NULL, &(charl_cross_entropy_args){.label_smoothing = 1.5F}),
            CHARL_ERR_INVALID, "label_smoothing is 1.5");
    x = IN(F32, BATCHED, 8, 5);
    refused(charl_cross_entropy(g, x, IN(I32, BATCHED, 8), NULL, &(charl_cross_entropy_args){.z_loss = -1.0F}),
            CHARL_ERR_INVALID, "z_loss is -1");
    refused(charl_top_k_correct(g, IN(F32, BATCHED, 8, 5), IN(I32, BATCHED, 8), 0), CHARL_ERR_INVALID, "k is 0");
    refused(charl_top_k_correct(g, IN(F32, BATCHED, 8, 5), IN(F32, BATCHED, 8), 1), CHARL_ERR_DTYPE, "labels i32");
    refused(charl_top_k_correct(g, IN(F32, BATCHED, 8, 5), IN(I32, REPLICATED, 9), 1), CHARL_ERR_SHAPE,
            "[..., C] and [...]");
    refused(charl_mse(g, IN(F32, BATCHED, 8, 5), IN(F32, BATCHED, 8)), CHARL_ERR_SHAPE, "same [B, ...]");
    refused(charl_bce_with_logits(g, IN(F32, BATCHED, 8), IN(I32, BATCHED, 8)), CHARL_ERR_DTYPE, "i32");
    refused(charl_huber(g, IN(F32, BATCHED, 8), IN(F32, BATCHED, 8), 0.0F), CHARL_ERR_INVALID, "delta is 0");
}

/* A row for each sample of the batch against rows that are the same on all ranks: each rank would give them to other samples. */
static void test_rows_that_are_not_of_the_batch(void **state)
{
    static const char same[] = "is the same on all ranks, but operand";
    charl_var *x, *label;

    (void)state;
    x = IN(F32, BATCHED, 8, 5);
    refused(charl_mse(g, x, IN(F32, REPLICATED, 8, 5)), CHARL_ERR_SHAPE,
            "mse: operand 1 [8, 5] is the same on all ranks, but operand 0 has a row for each sample of the batch");
    x = IN(F32, REPLICATED, 8, 5);
    refused(charl_bce_with_logits(g, x, IN(F32, BATCHED, 8, 5)), CHARL_ERR_SHAPE, "operand 0 [8, 5] is the same");
    x = IN(F32, BATCHED, 8, 5);
    refused(charl_binary_accuracy(g, x, IN(F32, REPLICATED, 8, 5)), CHARL_ERR_SHAPE, same);
    x = IN(F32, BATCHED, 8, 5);
    refused(charl_top_k_correct(g, x, IN(I32, REPLICATED, 8), 1), CHARL_ERR_SHAPE, same);
    x = IN(F32, BATCHED, 8, 5);
    refused(charl_cross_entropy(g, x, IN(I32, REPLICATED, 8), NULL, NULL), CHARL_ERR_SHAPE, same);
    x = IN(F32, BATCHED, 8, 5);
    label = IN(I32, BATCHED, 8);
    refused(charl_cross_entropy(g, x, label, IN(F32, REPLICATED, 8), NULL), CHARL_ERR_SHAPE, same);
    x = IN(F32, BATCHED, 8, 5);
    refused(charl_expand_like(g, x, IN(F32, REPLICATED, 8, 1)), CHARL_ERR_SHAPE, "along the batch");
    x = IN(F32, REPLICATED, 8, 5);
    refused(charl_expand_like(g, x, IN(F32, BATCHED, 8, 1)), CHARL_ERR_SHAPE, "along the batch");
    x = IN(F32, BATCHED, 8, 8);
    refused(charl_expand_like(g, x, IN(F32, BATCHED, 8)), CHARL_ERR_SHAPE, "would move the batch");
    x = IN(F32, BATCHED, 8, 5);
    refused(charl_expand_like(g, IN(U8, BATCHED, 8, 5), IN(F32, REPLICATED, 5)), CHARL_ERR_DTYPE, "operand 0 is u8");
    x = IN(F32, BATCHED, 8, 5);
    assert_non_null(charl_expand_like(g, x, IN(F32, REPLICATED, 5)));
    assert_non_null(charl_expand_like(g, x, IN(F32, BATCHED, 8, 1)));
}

static void test_images_and_boxes(void **state)
{
    static const char same[] = "is the same on all ranks, but operand";
    const charl_augment2d_args shifted = {.crop = 1, .name = "shifted"};
    charl_var *x, *box, *shift;

    (void)state;
    x = IN(F32, BATCHED, 8, 3, 4, 4);
    refused(charl_resized_crop2d(g, x, IN(F32, REPLICATED, 8, 4), 2, 2), CHARL_ERR_SHAPE, same);
    x = IN(F32, BATCHED, 8, 3, 4, 4);
    box = IN(F32, BATCHED, 8, 6);
    refused(charl_transform2d(g, x, IN(I32, REPLICATED, 8), box, 0, 1.0F), CHARL_ERR_SHAPE, same);
    x = IN(F32, BATCHED, 8, 3, 4, 4);
    box = IN(I32, BATCHED, 8);
    refused(charl_transform2d(g, x, box, IN(F32, REPLICATED, 8, 6), 0, 1.0F), CHARL_ERR_SHAPE, same);
    x = IN(F32, BATCHED, 8, 3, 4, 4);
    shift = IN(I32, REPLICATED, 3);
    refused(charl_augment2d(g, x, shift, IN(F32, REPLICATED, 3), &shifted), CHARL_ERR_DTYPE,
            "shift and scale are f32, not i32");
    x = IN(F32, BATCHED, 8, 3, 4, 4);
    shift = IN(F32, REPLICATED, 3);
    refused(charl_augment2d(g, x, shift, IN(F32, BATCHED, 3), &shifted), CHARL_ERR_SHAPE, "not rows of the batch");
}

static void test_embedding_and_rows(void **state)
{
    (void)state;
    refused(charl_embedding(g, IN(F32, BATCHED, 8, 5), IN(F32, REPLICATED, 7, 3)), CHARL_ERR_DTYPE, "tokens are i32");
    refused(charl_embedding(g, IN(I32, BATCHED, 8, 5), IN(F32, REPLICATED, 7)), CHARL_ERR_SHAPE, "[V, C]");
    refused(charl_embedding(g, IN(I32, BATCHED, 8, 5), IN(F32, BATCHED, 8, 3)), CHARL_ERR_SHAPE, "[V, C]");
}

static void test_transformer_parts(void **state)
{
    const charl_rotary_args odd = {7, 1, 10000}, flat = {8, 1, 1}, usual = {8, 3, 10000};

    (void)state;
    refused(charl_swiglu(g, IN(F32, BATCHED, 8, 5)), CHARL_ERR_SHAPE, "gates and as many values");
    refused(charl_swiglu(g, IN(F32, BATCHED, 8)), CHARL_ERR_SHAPE, "gates and as many values");
    refused(charl_swiglu(g, IN(I32, BATCHED, 8, 6)), CHARL_ERR_DTYPE, "i32");
    refused(charl_rotary(g, IN(F32, BATCHED, 8, 3, 14), &odd), CHARL_ERR_INVALID, "heads of 7");
    refused(charl_rotary(g, IN(F32, BATCHED, 8, 3, 16), &flat), CHARL_ERR_INVALID, "theta is 1");
    refused(charl_rotary(g, IN(F32, BATCHED, 8, 24), &usual), CHARL_ERR_SHAPE, "[..., time");
    refused(charl_rotary(g, IN(F32, BATCHED, 8, 3, 16), &usual), CHARL_ERR_SHAPE, "3 heads of 8");
    refused(charl_rotary(g, IN(I32, BATCHED, 8, 3, 24), &usual), CHARL_ERR_DTYPE, "i32");
}

static void test_recurrent(void **state)
{
    (void)state;
    refused(charl_lstm(g, IN(F32, BATCHED, 8, 5, 12), IN(F32, REPLICATED, 12, 4)), CHARL_ERR_SHAPE, "[B, T, 4 * H]");
    refused(charl_lstm(g, IN(F32, BATCHED, 8, 12), IN(F32, REPLICATED, 12, 3)), CHARL_ERR_SHAPE, "[B, T, 4 * H]");
    refused(charl_lstm(g, IN(F32, BATCHED, 12, 5, 12), IN(F32, BATCHED, 12, 3)), CHARL_ERR_SHAPE, "[B, T, 4 * H]");
    refused(charl_gru(g, IN(F32, BATCHED, 8, 5, 12), IN(F32, REPLICATED, 12, 3), NULL), CHARL_ERR_SHAPE,
            "[B, T, 3 * H]");
    refused(charl_gru(g, IN(F32, BATCHED, 8, 5, 9), IN(F32, REPLICATED, 9, 3), IN(F32, REPLICATED, 3)), CHARL_ERR_SHAPE,
            "b_hh does not fit");
    refused(charl_gru(g, IN(I32, BATCHED, 8, 5, 9), IN(F32, REPLICATED, 9, 3), NULL), CHARL_ERR_DTYPE,
            "operand 0 is i32");
}

/* Without rows there is nothing to compute, and no workspace: the weights' gradient is 0. */
static void test_recurrent_without_rows(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const int64_t gates = i ? 3 : 4;
        charl_var *w = IN(F32, REPLICATED, 2 * gates, 2), *pre = IN(F32, BATCHED, 0, 5, 2 * gates), *h;
        float grad[16];

        memset(grad, 1, sizeof grad);
        charl_graph_require_gradient(g, w);
        charl_graph_require_gradient(g, pre);
        h = i ? charl_gru(g, pre, w, NULL) : charl_lstm(g, pre, w);
        charl_graph_backward(g, charl_sum(g, charl_sum(g, charl_flatten(g, h), 1, false), 0, false), NULL);
        charl_assert_ok(charl_graph_compile(g));
        charl_assert_ok(charl_graph_run(g));
        charl_assert_ok(charl_tensor_read(charl_var_get_tensor(charl_var_get_gradient(w)), grad,
                                          (size_t)(4 * gates) * sizeof *grad));
        for (int64_t k = 0; k < 4 * gates; k++) {
            assert_true(grad[k] == 0.0F);
        }
        charl_graph_destroy(g);
        charl_assert_ok(charl_graph_create(dev, NULL, &g));
    }
}

static void test_movement(void **state)
{
    charl_var *many[9];

    (void)state;
    refused(charl_reshape(g, IN(F32, REPLICATED, 3, 5), (charl_shape){2, {-1, 4}}), CHARL_ERR_SHAPE,
            "does not reshape");
    refused(charl_reshape(g, IN(F32, REPLICATED, 3, 5), (charl_shape){2, {-1, -1}}), CHARL_ERR_SHAPE, "is not a shape");
    refused(charl_reshape(g, IN(F32, REPLICATED, 3, 5), (charl_shape){1, {14}}), CHARL_ERR_SHAPE, "does not reshape");
    refused(charl_reshape(g, IN(F32, REPLICATED, 3, 5), (charl_shape){.ndim = 7}), CHARL_ERR_SHAPE, "too many");
    refused(charl_reshape(g, IN(F32, BATCHED, 8, 5), (charl_shape){1, {40}}), CHARL_ERR_SHAPE, "move the batch");
    refused(charl_flatten(g, charl_constant(g, 1.0F)), CHARL_ERR_SHAPE, "scalar");
    refused(charl_transpose(g, IN(F32, REPLICATED, 3, 5), (int[]){0, 0}), CHARL_ERR_INVALID,
            "not a permutation: perm[1] = 0");
    refused(charl_transpose(g, IN(F32, BATCHED, 8, 5), (int[]){1, 0}), CHARL_ERR_SHAPE, "stay in front");
    refused(charl_slice(g, IN(F32, REPLICATED, 3, 5), 1, 3, 3), CHARL_ERR_SHAPE,
            "3 elements from 3 on are outside axis 1");
    refused(charl_slice(g, IN(F32, REPLICATED, 3, 5), 1, -1, 3), CHARL_ERR_SHAPE, "outside axis 1");
    refused(charl_slice(g, IN(F32, REPLICATED, 3, 5), 2, 0, 1), CHARL_ERR_SHAPE, "no axis 2");
    refused(charl_slice(g, IN(F32, BATCHED, 8, 5), 0, 0, 4), CHARL_ERR_SHAPE, "cannot be cut");
    many[0] = IN(F32, BATCHED, 8, 5);
    many[1] = IN(F32, BATCHED, 8, 5);
    refused(charl_concat(g, many, 2, 0), CHARL_ERR_SHAPE, "cannot grow");
    many[0] = IN(F32, BATCHED, 8, 5);
    many[1] = IN(F32, REPLICATED, 8, 5);
    refused(charl_concat(g, many, 2, 1), CHARL_ERR_SHAPE, "only some operands");
    many[0] = IN(F32, REPLICATED, 8, 5);
    many[1] = IN(I32, REPLICATED, 8, 5);
    refused(charl_concat(g, many, 2, 1), CHARL_ERR_DTYPE, "f32 and i32");
    many[0] = IN(F32, REPLICATED, 8, 5);
    many[1] = IN(F32, REPLICATED, 7, 5);
    refused(charl_concat(g, many, 2, 1), CHARL_ERR_SHAPE, "differ besides axis 1");
    many[0] = IN(F32, REPLICATED, 8);
    refused(charl_concat(g, many, 1, 1), CHARL_ERR_SHAPE, "no axis 1");
    refused(charl_concat(g, many, 9, 1), CHARL_ERR_INVALID, "9 operands");
    refused(charl_cast(g, IN(I64, REPLICATED, 3), CHARL_F32), CHARL_ERR_DTYPE, "cannot cast i64");
    refused(charl_dropout(g, IN(F32, REPLICATED, 3), 1.0F), CHARL_ERR_INVALID, "p is 1");
    refused(charl_resized_crop2d(g, IN(F32, BATCHED, 8, 1, 4, 4), IN(F32, BATCHED, 8, 4), 0, 4), CHARL_ERR_INVALID,
            "the output size 0 x 4 is out of range");
}

/* Run a graph whose only input x holds 0, 1, 2 ... and read v. */
static void run(charl_var *x, charl_var *v, float *out)
{
    const charl_type t = charl_var_get_type(x), o = charl_var_get_type(v);
    const int64_t n = charl_shape_count(&t.shape);
    float *values;

    values = charl_test_array(n, sizeof *values);
    for (int64_t i = 0; i < n; i++) {
        values[i] = (float)i;
    }
    charl_graph_keep(g, v);
    charl_assert_ok(charl_graph_compile(g));
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(x), values, (size_t)n * sizeof *values));
    charl_assert_ok(charl_graph_run(g));
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(v), out, (size_t)charl_shape_count(&o.shape) * sizeof *out));
    charl_free(values);
}

static void test_mean(void **state)
{
    charl_var *x = IN(F32, REPLICATED, 2, 4);
    float out[2];

    (void)state;
    run(x, charl_mean(g, x, -1, true), out);
    assert_true(out[0] == 1.5F && out[1] == 5.5F);
}

/* A number for each row, such as a gate, also where a rank has a single row. */
static void test_gradient_of_a_gate(void **state)
{
    for (int rows = 1; rows <= 2; rows++) {
        charl_var *x = IN(F32, BATCHED, rows, 2, 3), *gate = IN(F32, BATCHED, rows, 1, 1);
        float out[2] = {0};

        charl_graph_require_gradient(g, gate);
        charl_graph_backward(g, charl_sum(g, charl_sum(g, charl_flatten(g, charl_mul(g, x, gate)), 1, false), 0, false),
                             NULL);
        charl_assert_ok(charl_graph_status(g));
        run(x, charl_var_get_gradient(gate), out);
        assert_true(out[0] == 15.0F && out[1] == (rows == 2 ? 51.0F : 0.0F));
        end(state);
        begin(state);
    }
}

/* The mean over axis 0 of a batch is that of the global batch: 4 of 8 slices hold half of the rows.
 */
static void test_mean_over_the_batch(void **state)
{
    charl_slices half;
    charl_var *x, *m;
    float out;

    (void)state;
    charl_graph_destroy(g);
    charl_assert_ok(charl_slices_range(8, 0, 4, &half));
    charl_assert_ok(charl_graph_create(dev, &half, &g));
    x = IN(F32, BATCHED, 8);
    m = charl_sum(g, x, 0, false);
    assert_int_equal(charl_var_get_type(m).batch, CHARL_PARTIAL);
    run(x, m, &out);
    assert_true(out == 28.0F);
    charl_graph_destroy(g);
    charl_assert_ok(charl_graph_create(dev, &half, &g));
    m = charl_mean(g, IN(F32, BATCHED, 8), 0, false);
    assert_int_equal(charl_var_get_type(m).batch, CHARL_REPLICATED);
    charl_assert_ok(charl_graph_status(g));
}

static void test_dropout_rests(void **state)
{
    charl_var *x = IN(F32, BATCHED, 8, 3);

    (void)state;
    assert_ptr_equal(charl_dropout(g, x, 0.0F), x);
    assert_ptr_not_equal(charl_dropout(g, x, 0.5F), x);
    charl_graph_destroy(g);
    charl_assert_ok(charl_graph_create(dev, NULL, &g));
    charl_graph_set_training(g, false);
    x = IN(F32, BATCHED, 8, 3);
    assert_ptr_equal(charl_dropout(g, x, 0.5F), x);
}

/* Two layers drop different elements, about as many as they should, and scale the rest. */
static void test_dropout_draws(void **state)
{
    enum { N = 4096 };
    static float a[N], b[N];
    charl_var *x = IN(F32, REPLICATED, N), *ones = charl_scale(g, x, 0.0F, 1.0F), *first, *second;
    int kept = 0, same = 0;

    (void)state;
    charl_graph_scope_begin(g, "one");
    first = charl_dropout(g, ones, 0.25F);
    charl_graph_scope_end(g);
    charl_graph_scope_begin(g, "two");
    second = charl_dropout(g, ones, 0.25F);
    charl_graph_scope_end(g);
    charl_graph_keep(g, second);
    run(x, first, a);
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(second), b, sizeof b));
    for (int i = 0; i < N; i++) {
        assert_true(a[i] == 0.0F || a[i] == 1.0F / 0.75F);
        kept += a[i] != 0.0F;
        same += (a[i] != 0.0F) == (b[i] != 0.0F);
    }
    assert_in_range(kept, 3072 - 140, 3072 + 140); /* 5 standard deviations */
    assert_in_range(same, 2560 - 160, 2560 + 160); /* of independent draws */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_elementwise, begin, end),
        cmocka_unit_test_setup_teardown(test_half_operands, begin, end),
        cmocka_unit_test_setup_teardown(test_one_row_of_a_half_type, begin, end),
        cmocka_unit_test_setup_teardown(test_reductions, begin, end),
        cmocka_unit_test_setup_teardown(test_losses, begin, end),
        cmocka_unit_test_setup_teardown(test_rows_that_are_not_of_the_batch, begin, end),
        cmocka_unit_test_setup_teardown(test_images_and_boxes, begin, end),
        cmocka_unit_test_setup_teardown(test_embedding_and_rows, begin, end),
        cmocka_unit_test_setup_teardown(test_transformer_parts, begin, end),
        cmocka_unit_test_setup_teardown(test_recurrent, begin, end),
        cmocka_unit_test_setup_teardown(test_recurrent_without_rows, begin, end),
        cmocka_unit_test_setup_teardown(test_movement, begin, end),
        cmocka_unit_test_setup_teardown(test_mean, begin, end),
        cmocka_unit_test_setup_teardown(test_gradient_of_a_gate, begin, end),
        cmocka_unit_test_setup_teardown(test_mean_over_the_batch, begin, end),
        cmocka_unit_test_setup_teardown(test_dropout_rests, begin, end),
        cmocka_unit_test_setup_teardown(test_dropout_draws, begin, end),
    };

    return charl_test_on_device(tests, &dev);
}
