/* Attention beyond the table: what it refuses, what its settings mean, and that a causal query
 * really does not look ahead. */
#include "support/on_graph.h"

#include <math.h>
#include <string.h>

#include "charl/ops.h"

static const struct {
    charl_shape shape;
    charl_attention_args args;
    charl_status status;
    const char *message;
} refusals[] = {
    {{3, {2, 4, 10}}, {.heads = 2}, CHARL_ERR_SHAPE, "[2, 4, 10] is not [B, T, (2 + 2 * 2) * D]"},
    {{2, {4, 12}}, {.heads = 2}, CHARL_ERR_SHAPE, "[4, 12] is not [B, T, (2 + 2 * 2) * D]"},
    {{3, {2, 4, 771}}, {.heads = 1}, CHARL_ERR_SHAPE, "a head of 257 elements"},
    {{3, {2, INT32_MAX, 3}}, {.heads = 1}, CHARL_ERR_SHAPE, "2147483647 positions"},
    {{3, {2, 4, 12}}, {.heads = 0}, CHARL_ERR_INVALID, "0 heads"},
    {{3, {2, 4, 12}}, {.heads = 4, .kv_heads = 3}, CHARL_ERR_INVALID, "4 heads are not a multiple of 3 key heads"},
    {{3, {2, 4, 12}}, {.heads = 4, .kv_heads = -1}, CHARL_ERR_INVALID, "-1 key heads"},
    {{3, {2, 4, 12}}, {.heads = 2, .dropout = 1.0F}, CHARL_ERR_INVALID, "dropout is 1,"},
    {{3, {2, 4, 12}}, {.heads = 2, .scale = -1.0F}, CHARL_ERR_INVALID, "scale is -1"},
};

static void refused(void **state)
{
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        charl_graph_scope_begin(g, "block");
        assert_null(charl_attention(g, input(refusals[i].shape), &refusals[i].args));
        charl_graph_scope_end(g);
        charl_assert_status(charl_graph_compile(g), refusals[i].status);
        charl_assert_message(refusals[i].message);
        charl_assert_message("block");
        end(state);
        begin(state);
    }
    assert_null(
        charl_attention(g, charl_input(g, "x", CHARL_I32, SHAPE(2, 4, 12), CHARL_BATCHED), &(charl_attention_args){2}));
    charl_assert_status(charl_graph_compile(g), CHARL_ERR_DTYPE);
}

/* Keys and values of another source. */
static void refused_sources(void **state)
{
    static const struct {
        charl_shape q, kv;
        charl_attention_args args;
        charl_status status;
        const char *message;
    } cases[] = {
        {{3, {2, 4, 10}}, {3, {2, 3, 12}}, {.heads = 3}, CHARL_ERR_SHAPE, "queries [2, 4, 10] are not [B, T, 3 * D]"},
        {{3, {2, 4, 12}},
         {3, {2, 3, 12}},
         {.heads = 2},
         CHARL_ERR_SHAPE,
         "keys and values [2, 3, 12] are not [2, keys, 24], 2 * 2 heads of 6 elements"},
        {{3, {2, 4, 12}}, {3, {4, 3, 24}}, {.heads = 2}, CHARL_ERR_SHAPE, "keys and values [4, 3, 24] are not [2,"},
        {{3, {2, 4, 12}}, {3, {2, 0, 24}}, {.heads = 2}, CHARL_ERR_SHAPE, "4 queries of 0 keys"},
        {{3, {2, 4, 12}}, {3, {2, 3, 24}}, {.heads = 2, .causal = true}, CHARL_ERR_INVALID, "causal must be false"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        charl_attention_args args = cases[i].args;

        args.kv = input(cases[i].kv);
        assert_null(charl_attention(g, input(cases[i].q), &args));
        charl_assert_status(charl_graph_compile(g), cases[i].status);
        charl_assert_message(cases[i].message);
        end(state);
        begin(state);
    }
}

/* Queries, keys and values in two operands have the bits of all of them in one. */
static void own_source(void **state)
{
    charl_var *qkv = input(SHAPE(2, 5, 120)), *q = input(SHAPE(2, 5, 40)), *kv = input(SHAPE(2, 5, 80)), *y[2];
    float in[1200], part[800], out[2][400];

    (void)state;
    y[0] = charl_attention(g, qkv, &(charl_attention_args){.heads = 2});
    y[1] = charl_attention(g, q, &(charl_attention_args){.heads = 2, .kv = kv});
    charl_graph_keep(g, y[0]);
    charl_graph_keep(g, y[1]);
    charl_assert_ok(charl_graph_compile(g));
    fill(in, 1200);
    write(qkv, in, 1200);
    for (int i = 0; i < 400; i++) {
        part[i] = in[i / 40 * 120 + i % 40];
    }
    write(q, part, 400);
    for (int i = 0; i < 800; i++) {
        part[i] = in[i / 80 * 120 + 40 + i % 80];
    }
    write(kv, part, 800);
    charl_assert_ok(charl_graph_run(g));
    read(y[0], out[0], 400);
    read(y[1], out[1], 400);
    assert_memory_equal(out[0], out[1], sizeof out[0]);
}

/* Scale 0 is 1 / sqrt(D), and no key heads are as many as heads. */
static void defaults(void **state)
{
    charl_var *x = input(SHAPE(2, 5, 120)), *a, *b;
    float in[1200], first[400], second[400];

    (void)state;
    a = charl_attention(g, x, &(charl_attention_args){.heads = 2});
    b = charl_attention(g, x, &(charl_attention_args){.heads = 2, .kv_heads = 2, .scale = 0.223606798F});
    charl_graph_keep(g, a);
    charl_graph_keep(g, b);
    charl_assert_ok(charl_graph_compile(g));
    fill(in, 1200);
    write(x, in, 1200);
    charl_assert_ok(charl_graph_run(g));
    read(a, first, 400);
    read(b, second, 400);
    assert_memory_equal(first, second, sizeof first);
}

/* Dropout is for training graphs: an inference graph gives the bits of p = 0. */
static void no_dropout_at_inference(void **state)
{
    charl_var *x = input(SHAPE(1, 5, 120)), *a, *b;
    float in[600], first[200], second[200];

    (void)state;
    charl_graph_set_training(g, false);
    a = charl_attention(g, x, &(charl_attention_args){.heads = 2, .dropout = 0.5F});
    b = charl_attention(g, x, &(charl_attention_args){.heads = 2});
    charl_graph_keep(g, a);
    charl_graph_keep(g, b);
    charl_assert_ok(charl_graph_compile(g));
    fill(in, 600);
    write(x, in, 600);
    charl_assert_ok(charl_graph_run(g));
    read(a, first, 200);
    read(b, second, 200);
    assert_memory_equal(first, second, sizeof first);
}

/* A NaN at position 70 of 75 reaches no earlier query, forward, and no earlier query's gradient. */
static void causal_sees_nothing_ahead(void **state)
{
    enum { T = 75, D = 20, N = T * 3 * D, AT = 70 };
    charl_var *x = input(SHAPE(1, T, 3 * D)), *out, *loss, *grad;
    float in[N], y[T * D], dx[N];

    (void)state;
    charl_graph_require_gradient(g, x);
    out = charl_attention(g, x, &(charl_attention_args){.heads = 1, .causal = true});
    charl_graph_keep(g, out);
    loss = charl_sum(g, charl_sum(g, charl_flatten(g, out), 1, false), 0, false);
    charl_graph_backward(g, charl_batch_sum(g, loss), NULL);
    charl_assert_ok(charl_graph_compile(g));
    fill(in, N);
    in[AT * 3 * D + D] = in[AT * 3 * D + 2 * D] = NAN; /* in its key and its value */
    write(x, in, N);
    charl_assert_ok(charl_graph_run(g));
    grad = charl_var_get_gradient(x);
    read(out, y, T * D);
    read(grad, dx, N);
    for (int t = 0; t < T; t++) {
        for (int d = 0; d < D; d++) {
            assert_int_equal(isnan(y[t * D + d]) != 0, t >= AT);
            assert_int_equal(isnan(dx[t * 3 * D + d]) != 0, t >= AT);
        }
    }
}

/* Where a transpose has put the batch are no positions of padded sequences. */
static void transposed(void **state)
{
    static const int swap[] = {1, 0, 2};
    charl_var *x = charl_input(g, "x", CHARL_F32, SHAPE(5, 2, 12), CHARL_REPLICATED);

    (void)state;
    charl_graph_keep(g, charl_attention(g, charl_transpose(g, x, swap), &(charl_attention_args){.heads = 1}));
    charl_assert_ok(charl_graph_compile(g));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(refused, begin, end),
        cmocka_unit_test_setup_teardown(refused_sources, begin, end),
        cmocka_unit_test_setup_teardown(own_source, begin, end),
        cmocka_unit_test_setup_teardown(defaults, begin, end),
        cmocka_unit_test_setup_teardown(no_dropout_at_inference, begin, end),
        cmocka_unit_test_setup_teardown(causal_sees_nothing_ahead, begin, end),
        cmocka_unit_test_setup_teardown(transposed, begin, end),
    };

    return charl_test_on_device(tests, &dev);
}
