/* Operators beyond their samples: what operators without a builder refuse, windows larger than any sample, the cache of keys and values, padded
 * sequences, a product that goes on as on a GPU; and the kernel that folds slices. */
#include "support/on_graph.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "autograd/check/opcheck.h"
#include "autograd/graph.h"
#include "autograd/kv_cache.h"
#include "autograd/onnx/onnx.h"
#include "autograd/op.h"
#include "autograd/op/attention/attention.h"
#include "autograd/op/conv/conv2d.h"
#include "autograd/op/linear/fp8.h"
#include "autograd/ops_data.h"
#include "base/alloc.h"
#include "base/numeric/bf16.h"
#include "base/numeric/tree.h"
#include "charl/ops.h"
#include "device/device.h"

#define IN(dt, batch, ...) charl_input(g, "x", CHARL_##dt, SHAPE(__VA_ARGS__), CHARL_##batch)

/* The graph's first error is `code` and mentions `part`; then a fresh graph. */
static void refused(charl_var *out, charl_status code, const char *part)
{
    assert_null(out);
    charl_assert_status(charl_graph_status(g), code);
    charl_assert_message(part);
    charl_graph_destroy(g);
    charl_assert_ok(charl_graph_create(dev, NULL, &g));
}

static void test_rows_and_windows(void **state)
{
    static const char same[] = "is the same on all ranks, but operand";
    charl_var *x, *box, *shift;

    (void)state;
    refused(charl__gather_rows(g, IN(F16, REPLICATED, 9, 5), IN(I32, BATCHED, 3), NULL, NULL), CHARL_ERR_DTYPE,
            "not available in f16");
    x = IN(F32, BATCHED, 8, 3, 4, 4);
    refused(charl__paste2d(g, x, NULL, IN(F32, REPLICATED, 8, 4)), CHARL_ERR_SHAPE, same);
    x = IN(F32, BATCHED, 8, 3, 4, 4);
    box = IN(F32, BATCHED, 8, 4);
    refused(charl__paste2d(g, x, IN(F32, REPLICATED, 8, 3, 4, 4), box), CHARL_ERR_SHAPE, same);
    x = IN(U8, REPLICATED, 9, 3, 4, 4);
    shift = IN(F32, REPLICATED, 3);
    refused(charl__gather_rows(g, x, IN(I32, BATCHED, 8), shift, IN(I32, REPLICATED, 3)), CHARL_ERR_DTYPE,
            "shift and scale are f32, not f32 and i32");
    x = IN(U8, REPLICATED, 9, 3, 4, 4);
    shift = IN(F32, BATCHED, 3);
    refused(charl__gather_rows(g, x, IN(I32, BATCHED, 8), shift, IN(F32, REPLICATED, 3)), CHARL_ERR_SHAPE,
            "not rows of the batch");
    refused(charl__gather_rows(g, IN(F32, REPLICATED, 9, 6), IN(I32, BATCHED, 8), IN(F32, REPLICATED, 6), NULL),
            CHARL_ERR_INVALID, "a shift without a scale");
    refused(charl__gather_rows(g, IN(F32, REPLICATED, 9, 6), IN(I32, BATCHED, 8), NULL, IN(F32, REPLICATED, 6)),
            CHARL_ERR_INVALID, "operand 2 is NULL");
    refused(charl__gather_windows(g, IN(U8, REPLICATED, 30), IN(U8, BATCHED, 8), 4, 0), CHARL_ERR_DTYPE,
            "at positions of u8");
    refused(charl__gather_windows(g, IN(U8, REPLICATED, 3, 10), IN(I32, BATCHED, 8), 4, 0), CHARL_ERR_SHAPE,
            "windows of tokens [3, 10]");
    refused(charl__gather_windows(g, IN(U8, REPLICATED, 30), IN(I32, BATCHED, 8), 0, 0), CHARL_ERR_INVALID,
            "length 0 and offset 0 are not at least 1 and 0");
    refused(charl__document_starts(g, IN(I32, REPLICATED, 30), IN(I32, BATCHED, 8), 0), CHARL_ERR_INVALID,
            "the length 0 is not at least 1");
}

/* Operators that only gradients use. A rank with one sample has as many values as the f32 vector beside them. */
static void test_gradients_of_losses(void **state)
{
    static const char same[] = "is the same on all ranks, but operand";
    static const charl_cross_entropy_args plain;
    charl_var *x, *label, *gout, *out[CHARL_OP_MAX_OUT];

    (void)state;
    for (int i = 0; i < 2; i++) { /* gout or lse */
        x = IN(F32, BATCHED, 8, 5);
        label = IN(I32, BATCHED, 8);
        gout = IN(F32, BATCHED, 8);
        charl__apply(g, &charl_op_cross_entropy_grad, &plain,
                     (charl_var *[]){i ? gout : IN(F32, REPLICATED, 8), x, label, i ? IN(F32, REPLICATED, 8) : gout}, 4,
                     out);
        refused(out[0], CHARL_ERR_SHAPE, same);
    }
    x = IN(F32, BATCHED, 8, 5);
    label = IN(I32, BATCHED, 8);
    charl__apply(g, &charl_op_cross_entropy_with_grad, &plain, (charl_var *[]){IN(F32, REPLICATED, 8), x, label}, 3,
                 out);
    refused(out[0], CHARL_ERR_SHAPE, same);
}

static void test_gradients_of_embeddings(void **state)
{
    const int64_t vocab = 7, huge = INT32_MAX;

    (void)state;
    refused(charl__apply2(g, &charl_op_embedding_wgrad, &vocab, IN(F32, BATCHED, 8, 5, 3), IN(I32, BATCHED, 8, 4)),
            CHARL_ERR_SHAPE, "one row for each token");
    refused(charl__apply2(g, &charl_op_embedding_wgrad, &vocab, IN(F32, BATCHED, 8, 5, 3), IN(F32, BATCHED, 8, 5)),
            CHARL_ERR_DTYPE, "floats and i32");
    refused(charl__apply2(g, &charl_op_embedding_wgrad, &huge, IN(F32, BATCHED, 8, 3), IN(I32, BATCHED, 8)),
            CHARL_ERR_SHAPE, "too many");
    refused(charl__apply2(g, &charl_op_swiglu_grad, NULL, IN(F32, BATCHED, 8, 6), IN(F32, BATCHED, 8, 6)),
            CHARL_ERR_SHAPE, "does not fit");
}

/* Saved values of other steps than the gradient's. */
static void test_recurrent_gradients(void **state)
{
    charl_var *out[CHARL_OP_MAX_OUT];

    (void)state;
    charl__apply(g, &charl_op_lstm_grad, NULL,
                 (charl_var *[]){IN(F32, BATCHED, 8, 5, 3), IN(F32, BATCHED, 8, 4, 15), IN(F32, REPLICATED, 12, 3)}, 3,
                 out);
    refused(out[0], CHARL_ERR_SHAPE, "other rows or steps");
    charl__apply(g, &charl_op_gru_grad, NULL,
                 (charl_var *[]){IN(F32, BATCHED, 8, 5, 3), IN(F32, BATCHED, 8, 4, 3), IN(F32, BATCHED, 8, 5, 12),
                                 IN(F32, REPLICATED, 9, 3)},
                 4, out);
    refused(out[0], CHARL_ERR_SHAPE, "other rows or steps");
}

/* Operators that only gradients use. */
static void test_gradient_operators(void **state)
{
    const struct {
        int axis;
        int64_t n;
    } far = {7, 2}, inside = {1, 2};
    const float smoothing = 0.0F;
    charl_var *out[CHARL_OP_MAX_OUT], *x;

    (void)state;
    refused(charl__apply1(g, &charl_op_expand, &far, IN(F32, REPLICATED, 3)), CHARL_ERR_SHAPE, "cannot insert axis 7");
    x = IN(F32, REPLICATED, 3);
    refused(charl__apply2(g, &charl_op_expand, &inside, x, IN(F32, BATCHED, 8, 3)), CHARL_ERR_SHAPE, "leading axis");
    x = IN(F32, REPLICATED, 3, 4);
    refused(charl__apply2(g, &charl_op_expand_like, NULL, x, IN(F32, REPLICATED, 3)), CHARL_ERR_SHAPE,
            "does not broadcast");
    x = IN(F32, REPLICATED, 3, 4);
    refused(charl__apply2(g, &charl_op_expand_like, NULL, x, IN(I32, REPLICATED, 4)), CHARL_ERR_DTYPE, "i32");
    x = IN(F32, REPLICATED, 3, 4);
    refused(charl__apply2(g, &charl_op_softmax_grad, NULL, x, IN(F32, REPLICATED, 4)), CHARL_ERR_SHAPE,
            "operand 1 is replicated f32 [4], but operand 0 is replicated f32 [3, 4]");
    x = IN(F32, BATCHED, 8, 4);
    refused(charl__apply2(g, &charl_op_softmax_grad, NULL, x, IN(F32, REPLICATED, 8, 4)), CHARL_ERR_SHAPE,
            "operand 1 is replicated f32 [8, 4], but operand 0 is batched f32 [8, 4]");
    x = IN(F32, BATCHED, 8, 4);
    charl__apply(g, &charl_op_cross_entropy_grad, &smoothing, (charl_var *[]){x, x, IN(I32, BATCHED, 8), x}, 4, out);
    refused(out[0], CHARL_ERR_SHAPE, "one f32 per row");
}

static void other_positions(void **state)
{
    (void)state;
    charl_var *x = charl__graph_set_padded(g, charl_input(g, "tokens", CHARL_I32, SHAPE(2, 6), CHARL_BATCHED), 0);

    x = charl_embedding(g, x, charl_input(g, "table", CHARL_F32, SHAPE(9, 8), CHARL_REPLICATED));
    x = charl_reshape(g, charl_reshape(g, x, SHAPE(2, 48)), SHAPE(2, 4, 12));
    assert_int_equal(charl__var_positions(x), 0);
    assert_null(charl_attention(g, x, &(charl_attention_args){2}));
    charl_assert_status(charl_graph_compile(g), CHARL_ERR_SHAPE);
    charl_assert_message("attention cannot tell where the padded sequences end: its 4 positions are not");
}

/* Inputs of padded sequences have lengths of their own: attention of one to the other has the positions of the queries, and what mixes the
 * positions of both has none. */
static void two_padded_inputs(void **state)
{
    charl_var *table = charl_input(g, "table", CHARL_F32, SHAPE(9, 8), CHARL_REPLICATED), *x[2], *y;

    (void)state;
    for (int i = 0; i < 2; i++) {
        x[i] = charl_input(g, i ? "b" : "a", CHARL_I32, SHAPE(2, 5), CHARL_BATCHED);
        x[i] = charl_embedding(g, charl__graph_set_padded(g, x[i], 0), table);
    }
    assert_ptr_not_equal(charl__graph_lengths(x[0]), charl__graph_lengths(x[1]));
    y = charl_attention(g, charl_slice(g, x[0], 2, 0, 4), &(charl_attention_args){.heads = 1, .kv = x[1]});
    assert_non_null(y);
    assert_int_equal(charl__var_positions(y), 1);
    assert_ptr_equal(charl__graph_lengths(y), charl__graph_lengths(x[0]));
    assert_true(charl__var_positions(charl_add(g, x[0], x[1])) < 0);
    y = charl_attention(g, input(SHAPE(2, 3, 4)), &(charl_attention_args){.heads = 1, .kv = x[1]});
    assert_int_equal(charl__var_positions(y), 0);
    assert_false(charl__var_has_padding(y));
    charl_assert_ok(charl_graph_status(g));
}

/* Padding changes nothing: 5 positions of which 3 count have the bits of 3 positions. */
static void padding_changes_nothing(void **state)
{
    enum { LONG = 5, SHORT = 3, C = 60 };
    charl_var *wide = input(SHAPE(1, LONG, C)), *narrow, *x, *length, *out[2], *grad[2];
    float in[LONG * C], dx[2][LONG * C];
    int32_t tokens[LONG] = {4, 0, 2, -1, -1};

    (void)state;
    x = charl_input(g, "tokens", CHARL_I32, SHAPE(1, LONG), CHARL_BATCHED);
    narrow = input(SHAPE(1, SHORT, C));
    charl_graph_require_gradient(g, wide);
    charl_graph_require_gradient(g, narrow);
    (void)!charl__padded_sequences(g, x, 0, &length);
    out[0] = charl_attention(g, narrow, &(charl_attention_args){.heads = 1});
    out[1] = charl_attention(g, wide, &(charl_attention_args){.heads = 1, .length = length});
    for (int i = 0; i < 2; i++) {
        charl_graph_keep(g, out[i]);
        out[i] = i == 1 ? charl_slice(g, out[i], 1, 0, SHORT) : out[i];
        out[i] = charl_sum(g, charl_sum(g, charl_flatten(g, out[i]), 1, false), 0, false);
    }
    charl_graph_backward(g, charl_batch_sum(g, charl_add(g, out[0], out[1])), NULL);
    charl_assert_ok(charl_graph_compile(g));
    fill(in, LONG * C);
    write(wide, in, LONG * C);
    write(narrow, in, SHORT * C);
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(x), tokens, sizeof tokens));
    charl_assert_ok(charl_graph_run(g));
    grad[0] = charl_var_get_gradient(narrow);
    grad[1] = charl_var_get_gradient(wide);
    read(grad[0], dx[0], SHORT * C);
    read(grad[1], dx[1], LONG * C);
    assert_memory_equal(dx[0], dx[1], SHORT * C * sizeof(float));
    for (int i = SHORT * C; i < LONG * C; i++) {
        assert_true(dx[1][i] == 0.0F);
    }
}

/* With one position lse = scale q . k: its gradient alone is that of q and k, and none of v. */
static void gradient_of_lse(void **state)
{
    enum { D = 20, N = 3 * D };
    charl_var *x = input(SHAPE(1, 1, N)), *out[CHARL_OP_MAX_OUT], *loss;
    const charl__op *op = charl__op_find("attention");
    const void *attr = NULL;
    float in[N], dx[N];

    (void)state;
    for (int i = 0; i < op->n_samples; i++) { /* the sample of one head and scale 1/4 */
        const charl_shape *s = &op->samples[i].in[0].shape;

        attr = s->dim[1] == 1 && s->dim[2] == N ? op->samples[i].attr : attr;
    }
    assert_non_null(attr);
    charl_graph_require_gradient(g, x);
    charl__apply(g, op, attr, &x, 1, out);
    loss = charl_sum(g, charl_sum(g, charl_flatten(g, out[1]), 1, false), 0, false);
    charl_graph_backward(g, charl_batch_sum(g, loss), NULL);
    charl_assert_ok(charl_graph_compile(g));
    fill(in, N);
    write(x, in, N);
    charl_assert_ok(charl_graph_run(g));
    read(charl_var_get_gradient(x), dx, N);
    for (int i = 0; i < D; i++) {
        assert_true(fabsf(dx[i] - in[D + i] / 4) < 1e-6F);
        assert_true(fabsf(dx[D + i] - in[i] / 4) < 1e-6F);
        assert_true(dx[2 * D + i] == 0.0F);
    }
}

enum { POSITIONS = 70, BEGIN = 66, CHANNELS = 80 };

/* Two attention layers with grouped heads, the first with rotary positions. */
static charl_var *two_layers(charl_graph *graph, charl_var *x)
{
    const charl_attention_args args = {.heads = 2, .kv_heads = 1, .causal = true};
    charl_var *turned = charl_rotary(graph, x, &(charl_rotary_args){20, 3, 10000});

    return charl_add(graph, charl_attention(graph, turned, &args),
                     charl_attention(graph, charl_scale(graph, x, 0.5F, 0.0F), &args));
}

/* A graph over `rows` positions of `sequences`; cache NULL: of a whole sequence. */
static void build(charl__kv_cache *cache, int64_t sequences, int64_t rows, charl_graph **graph, charl_var **x,
                  charl_var **y)
{
    charl_assert_ok(charl_graph_create(dev, NULL, graph));
    charl_graph_set_training(*graph, false);
    charl__graph_set_cache(*graph, cache, rows > 1);
    *x = charl_input(*graph, "x", CHARL_F32, SHAPE(sequences, rows, CHANNELS), CHARL_REPLICATED);
    *y = two_layers(*graph, *x);
    charl_graph_keep(*graph, *y);
    charl_assert_ok(charl_graph_compile(*graph));
}

static charl_tensor *positions(int64_t n)
{
    charl_tensor *t;

    charl_assert_ok(charl_tensor_create(dev, CHARL_I32, &SHAPE(n, 1), &t));
    return t;
}

/* Sequences that begin one by one, with 66 rows, and go on together, each from a position of its own, have the bits of one graph over
 * all their rows. */
static void sequences_go_on(void **state)
{
    enum { OUT = CHANNELS / 2, SEQUENCES = 3 };
    static float in[SEQUENCES][POSITIONS * CHANNELS], want[SEQUENCES][POSITIONS * OUT], got[SEQUENCES][POSITIONS * OUT];
    static const int32_t begun[SEQUENCES] = {BEGIN, BEGIN - 9, BEGIN - 1};
    charl_graph *all, *first, *next;
    charl_var *x[3], *y[3];
    charl_tensor *const sequence = positions(1), *const position = positions(SEQUENCES);
    charl__kv_cache *cache;

    (void)state;
    charl_assert_ok(charl__kv_cache_create(dev, POSITIONS, sequence, position, &cache));
    build(NULL, 1, POSITIONS, &all, &x[0], &y[0]);
    build(cache, 1, BEGIN, &first, &x[1], &y[1]);
    build(cache, SEQUENCES, 1, &next, &x[2], &y[2]);
    fill(&in[0][0], SEQUENCES * POSITIONS * CHANNELS);
    for (int run = 0; run < 2; run++) { /* a second sequence forgets the first */
        for (int32_t s = 0; s < SEQUENCES; s++) {
            write(x[0], in[s], POSITIONS * CHANNELS);
            charl_assert_ok(charl_graph_run(all));
            read(y[0], want[s], POSITIONS * OUT);
            charl_assert_ok(charl_tensor_write(sequence, &s, sizeof s));
            write(x[1], in[s], BEGIN * CHANNELS);
            charl_assert_ok(charl_graph_run(first));
            read(y[1], got[s], BEGIN * OUT);
        }
        for (int32_t p = 0; p < POSITIONS - begun[1]; p++) {
            float rows[SEQUENCES * CHANNELS], out[SEQUENCES * OUT];
            int32_t at[SEQUENCES];

            for (int s = 0; s < SEQUENCES; s++) { /* what is complete stays where it is */
                at[s] = begun[s] + p < POSITIONS ? begun[s] + p : POSITIONS - 1;
                memcpy(rows + s * CHANNELS, in[s] + at[s] * CHANNELS, sizeof(float) * CHANNELS);
            }
            charl_assert_ok(charl_tensor_write(position, at, sizeof at));
            write(x[2], rows, SEQUENCES * CHANNELS);
            charl_assert_ok(charl_graph_run(next));
            read(y[2], out, SEQUENCES * OUT);
            for (int s = 0; s < SEQUENCES; s++) {
                memcpy(got[s] + at[s] * OUT, out + s * OUT, sizeof(float) * OUT);
            }
        }
        assert_memory_equal(got, want, sizeof want);
        in[1][0] = -in[1][0] - 1.0F;
    }
    charl_graph_destroy(all);
    charl_graph_destroy(first);
    charl_graph_destroy(next);
    charl__kv_cache_destroy(cache);
    charl_tensor_release(sequence);
    charl_tensor_release(position);
}

static void caches_refuse(void **state)
{
    charl_tensor *const sequence = positions(1), *const position = positions(1);
    charl__kv_cache *cache;
    charl_graph *first;
    charl_var *x, *y;

    charl_assert_ok(charl__kv_cache_create(dev, 8, sequence, position, &cache));
    build(cache, 1, 4, &first, &x, &y);
    charl__graph_set_cache(g, cache, false);
    x = charl_input(g, "x", CHARL_F32, SHAPE(1, 1, 12), CHARL_REPLICATED);
    assert_null(charl_attention(g, x, &(charl_attention_args){.heads = 1, .causal = true}));
    charl_assert_status(charl_graph_compile(g), CHARL_ERR_INVALID);
    charl_assert_message("the cache belongs to another model");
    end(state);
    begin(state);
    charl__graph_set_cache(g, cache, false);
    x = charl_input(g, "x", CHARL_F32, SHAPE(1, 1, CHANNELS), CHARL_REPLICATED);
    assert_null(charl_attention(g, x, &(charl_attention_args){.heads = 2, .kv_heads = 1}));
    charl_assert_status(charl_graph_compile(g), CHARL_ERR_INVALID);
    charl_assert_message("where attention is causal");
    end(state);
    begin(state);
    charl__graph_set_cache(g, cache, true);
    x = charl_input(g, "x", CHARL_F32, SHAPE(1, 9, CHANNELS), CHARL_REPLICATED);
    assert_null(two_layers(g, x));
    charl_assert_status(charl_graph_compile(g), CHARL_ERR_SHAPE);
    charl_assert_message("the cache [1, 8, 40] is not [S, N, 40] for 9 positions");
    charl_graph_destroy(first);
    end(state);
    begin(state);
    charl__kv_cache_destroy(cache);
    charl_tensor_release(sequence);
    charl_tensor_release(position);
}

/* Convolutions with more taps than a thread has stack for, if a kernel kept something of each: 9025. (The operators' samples have small
 * windows.) */
#define IMAGE CHARL_R(F32, 1, 1, 95, 98)
#define WEIGHT CHARL_R(F32, 3, 1, 95, 95)
#define RESULT CHARL_R(F32, 1, 3, 3, 4)
#define DRAWN(n) .attr = &window, .lo = -1, .hi = 1, .terms = (n)

static const charl__conv_attr window = {
    .win = {.kernel = {95, 95}, .stride = {1, 1}, .padding = {1, 0}, .dilation = {1, 1}},
    .groups = 1,
    .size = {95, 98}};

static const charl__attention_attr two_heads = {.heads = 2, .kv_heads = 1, .scale = 0.35F, .causal = true},
                                   limited = {.heads = 2,
                                              .kv_heads = 1,
                                              .scale = 0.35F,
                                              .causal = true,
                                              .window = 9,
                                              .softcap = 1.5F};

static void large_windows_and_rows(void **state)
{
    static const struct {
        const char *op;
        charl__op_sample sample;
        charl_dtype half;
    } cases[] = {
        {"conv2d", {.in = {IMAGE, WEIGHT}, .n_in = 2, DRAWN(9025)}},
        {"conv2d_dgrad", {.in = {RESULT, WEIGHT}, DRAWN(36)}},
        {"conv2d_wgrad", {.in = {RESULT, IMAGE}, DRAWN(12)}},
        {"gather_rows", /* several work-groups to a row, and a row that is not there */
         {.in = {CHARL_R(F32, 3, 4100), CHARL_B(I32, 8)}, .n_in = 2, .lo = -1, .hi = 1, .int_end = 4}},
        {"gather_rows",
         {.in = {CHARL_R(U8, 3, 2, 2051), CHARL_B(I32, 8), CHARL_R(F32, 2), CHARL_R(F32, 2)},
          .lo = 0.5,
          .hi = 2,
          .int_end = 3}},
        {"attention_cached", /* keys in three parts */
         {.in = {CHARL_R(F32, 4, 1, 64), CHARL_R(F32, 4, 2070, 32), CHARL_R(I32, 4)},
          .attr = &two_heads,
          .lo = -2,
          .hi = 2,
          .int_end = 2070,
          .terms = 2070},
         CHARL_BF16},
        {"attention_cached",
         {.in = {CHARL_R(F32, 4, 1, 64), CHARL_R(F32, 4, 40, 32), CHARL_R(I32, 4)},
          .attr = &limited,
          .lo = -2,
          .hi = 2,
          .int_end = 40,
          .terms = 40},
         CHARL_BF16},
    };
    charl_slices whole;

    (void)state;
    charl_assert_ok(charl_slices_block(1, 0, 1, &whole));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        charl__op_case c;
        charl__op_error error;
        void *raw[CHARL_OP_MAX_OUT];

        charl_assert_ok(charl__op_case_create(charl__op_find(cases[i].op), &cases[i].sample, cases[i].half, 5, &c));
        charl_assert_ok(charl__op_case_run(dev, &c, &whole, 0, raw));
        error = charl__op_case_compare(&c, raw);
        if (!(error.allowed <= 1)) {
            fail_msg("%s: element %lld is %.9g, not %.9g", cases[i].op, (long long)error.index, error.got, error.want);
        }
        charl_free(raw[0]);
        charl__op_case_destroy(&c);
    }
}

enum { NARROW = 41, WIDTH = 35 };

static charl_var *weight(charl_graph *graph, const char *name, int64_t columns)
{
    return charl_input(graph, name, CHARL_F32, (charl_shape){2, {NARROW, columns}}, CHARL_REPLICATED);
}

static void fill_input(charl_var *v, uint64_t seed)
{
    const charl_type t = charl_var_get_type(v);
    const int64_t n = charl_shape_count(&t.shape);
    float *x;

    x = charl_test_array(n, sizeof *x);
    charl_test_fill(x, n, -1.0F, 1.0F, seed);
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(v), x, (size_t)n * sizeof *x));
    charl_free(x);
}

/* Products that two operators follow, of which one draws: the first keeps what is between them. */
static void run_products(const charl_slices *slices, int64_t rows, bool fused, float *got)
{
    const int64_t n = rows * slices->count * NARROW;
    charl_graph *graph = NULL;
    charl_var *in[3], *out[3];

    charl_assert_ok(charl_graph_create(dev, slices, &graph));
    charl_test_env_set("CHARL_NO_FUSION", fused ? NULL : "1");
    in[0] = charl_input(graph, "x", CHARL_F32, (charl_shape){2, {rows * slices->count, WIDTH}}, CHARL_BATCHED);
    in[1] = weight(graph, "w", WIDTH);
    in[2] = weight(graph, "v", NARROW);
    out[0] = charl_relu(graph, charl_linear(graph, in[0], in[1], NULL));
    out[1] = charl_dropout(graph, out[0], 0.3F);
    out[2] = charl_dropout(graph, charl_linear(graph, out[1], in[2], NULL), 0.2F);
    out[2] = charl_mul(graph, out[2], out[0]);
    for (int k = 0; k < 3; k++) {
        charl_graph_keep(graph, out[k]);
    }
    charl_assert_ok(charl_graph_compile(graph));
    charl_test_env_set("CHARL_NO_FUSION", NULL);
    assert_int_equal(charl_graph_get_info(graph).launches, fused ? 2 : 6);
    for (int k = 0; k < 3; k++) {
        fill_input(in[k], 7 + (uint64_t)k);
    }
    charl_assert_ok(charl_graph_run(graph));
    for (int k = 0; k < 3; k++) {
        charl_assert_ok(charl_tensor_read(charl_var_get_tensor(out[k]), got + k * n, (size_t)n * sizeof *got));
    }
    charl_graph_destroy(graph);
}

/* As on a GPU, where that is worth it: in the kernel for small products and the others. */
static void test_products_go_on(void **state)
{
    static const struct {
        bool local;
        int64_t rows;
    } forms[] = {{true, 2}, {true, 40}, {false, 2}};
    static float got[3 * 320 * NARROW], want[3 * 320 * NARROW];
    const charl__device_facts saved = *charl__device_facts_get(dev);

    (void)state;
    if (!charl_test_env_is_on("CHARL_TEST_LONG")) {
        skip();
    }
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
        charl__device_facts facts = saved;
        charl_slices slices;

        if (!forms[f].local && saved.tiles_in_local) {
            continue; /* no kernel for GPUs */
        }
        facts.group = 64;
        facts.tiles_in_local = forms[f].local;
        charl__device_set_facts(dev, facts);
        charl_assert_ok(charl_slices_block(8, f == 0, f == 0 ? 3 : 1, &slices));
        run_products(&slices, forms[f].rows, true, got);
        run_products(&slices, forms[f].rows, false, want);
        charl__device_set_facts(dev, saved);
        assert_memory_equal(got, want, (size_t)(3 * forms[f].rows * slices.count * NARROW) * sizeof got[0]);
    }
}

/* What an operator keeps for its gradient only is not exported. */
static void further_outputs_are_not_exported(void **state)
{
    static const char *const name = "output";
    charl_var *out[CHARL_OP_MAX_OUT];
    charl_var *in[] = {input(SHAPE(2, 1, 4)), charl_input(g, "w", CHARL_F32, SHAPE(4, 1), CHARL_REPLICATED)};
    charl__onnx_model model = {0};

    (void)state;
    charl__apply(g, charl__op_find("lstm"), NULL, in, 2, out);
    charl_assert_status(
        charl__graph_onnx(
            g, &(charl__onnx_export){.name = "test", .outputs = &out[1], .output_names = &name, .n_outputs = 1},
            &model),
        CHARL_ERR_CONFIG);
    charl_assert_message("ONNX: lstm: output 1 of operator lstm cannot be exported");
    charl__text_fini(&model.head);
    charl__text_fini(&model.graph);
}

/* kernels/reduce/fold.cl adds in the tree of base/numeric/tree.h, bit for bit, for any number of leaves. */

enum { N = 37, GROUP = 64, MOST = 4096, BEFORE = 5 };

static void fold_on_device(int m, const char *rounding, const float *part, float *out)
{
    charl__buffer *in, *sum;
    charl__arg from, to;
    char defines[64];

    charl_assert_ok(charl__buffer_create(dev, ((size_t)m * N + BEFORE) * sizeof(float), "leaves", &in));
    charl_assert_ok(charl__buffer_create(dev, (N + BEFORE) * sizeof(float), "sum", &sum));
    charl_assert_ok(charl__buffer_write(CHARL_QUEUE_COMPUTE, in, BEFORE * sizeof(float), part,
                                        (size_t)m * N * sizeof(float), true));
    from = charl__raw(CHARL_ARG_IN, in);
    to = charl__raw(CHARL_ARG_OUT, sum);
    from.v.offset = to.v.offset = BEFORE;
    snprintf(defines, sizeof defines, "#define M %d\n%s", m, rounding);
    charl_assert_ok(charl__launch_enqueue(dev, &(charl__launch){.file = "reduce/fold",
                                                                .entry = "charl_fold",
                                                                .defines = defines,
                                                                .global = {GROUP},
                                                                .local = {GROUP},
                                                                .args = {from, to, charl__i64(N)}}));
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, sum, BEFORE * sizeof(float), out, N * sizeof(float), true));
    charl__buffer_release(in);
    charl__buffer_release(sum);
}

static void test_tree(void **state)
{
    static const int leaves[] = {1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 21, 63, 64, 100, 1023, MOST};
    static float *row[MOST];
    float *part, got[N];

    (void)state;
    charl_assert_ok(charl__alloc_array((int64_t)MOST * N, sizeof *part, &part));
    for (size_t k = 0; k < sizeof leaves / sizeof leaves[0]; k++) {
        const int m = leaves[k];

        /* far from zero, so that another order gives other bits */
        charl_test_fill(part, (int64_t)m * N, -1.0F, 3.0F, (uint64_t)m);
        fold_on_device(m, "", part, got);
        for (int s = 0; s < m; s++) {
            row[s] = part + (size_t)s * N;
        }
        charl__tree_fold(row, m, N);
        charl_assert_same_bits(got, part, N);
    }
    charl_free(part);
}

static void round_row(float *row)
{
    for (int i = 0; i < N; i++) {
        row[i] = charl__bf16_load(charl__bf16_round(row[i]));
    }
}

/* Slices of 4 parts: what is below a slice is f32, slices and what is above them bf16. */
static void test_rounded_nodes(void **state)
{
    enum { PARTS = 4 };
    static const int slices[] = {1, 2, 3, 5, 8};

    (void)state;
    for (size_t k = 0; k < sizeof slices / sizeof slices[0]; k++) {
        static float part[8 * PARTS * N];
        const int n = slices[k];
        float *row[8], got[N];

        charl_test_fill(part, (int64_t)n * PARTS * N, -1.0F, 3.0F, (uint64_t)n);
        fold_on_device(n * PARTS, "#define ROUND 2\n", part, got);
        for (int s = 0; s < n; s++) {
            float *leaf[PARTS];

            for (int p = 0; p < PARTS; p++) {
                leaf[p] = part + (ptrdiff_t)(s * PARTS + p) * N;
            }
            charl__tree_fold(leaf, PARTS, N);
            row[s] = leaf[0];
            round_row(row[s]);
        }
        for (int step = 1; step < n; step *= 2) {
            for (int s = 0; s + step < n; s += 2 * step) {
                charl__tree_fold((float *[]){row[s], row[s + step]}, 2, N);
                round_row(row[s]);
            }
        }
        charl_assert_same_bits(got, row[0], N);
    }
}

/* Two results in one launch, one element or four to a work-item. */
static void test_two_results(void **state)
{
    enum { LEAVES = 7, FIRST = 4 * N, SECOND = 4 * (N + 60), BOTH = FIRST + SECOND };
    static float part[LEAVES * BOTH], tree[LEAVES * BOTH], got[BOTH];
    float *first[LEAVES], *second[LEAVES];
    charl__buffer *in, *sum;

    (void)state;
    charl_test_fill(part, LEAVES * BOTH, -1.0F, 3.0F, 9);
    memcpy(tree, part, sizeof part);
    for (int s = 0; s < LEAVES; s++) {
        first[s] = tree + (ptrdiff_t)s * FIRST;
        second[s] = tree + LEAVES * FIRST + (ptrdiff_t)s * SECOND;
    }
    charl__tree_fold(first, LEAVES, FIRST);
    charl__tree_fold(second, LEAVES, SECOND);
    charl_assert_ok(charl__buffer_create(dev, sizeof part, "leaves", &in));
    charl_assert_ok(charl__buffer_create(dev, sizeof got, "sums", &sum));
    charl_assert_ok(charl__buffer_write(CHARL_QUEUE_COMPUTE, in, 0, part, sizeof part, true));
    for (int vec = 1; vec <= 4; vec += 3) {
        const int groups = (FIRST / vec + GROUP - 1) / GROUP + (SECOND / vec + GROUP - 1) / GROUP;
        charl__arg from = charl__raw(CHARL_ARG_IN, in), to = charl__raw(CHARL_ARG_OUT, sum);
        charl__arg from2 = from, to2 = to;
        char defines[96];

        from2.v.offset = (int64_t)LEAVES * FIRST;
        to2.v.offset = FIRST;
        snprintf(defines, sizeof defines, "#define M %d\n#define CHARL_VEC %d\n#define TWO 1\n", LEAVES, vec);
        charl_assert_ok(charl__launch_enqueue(
            dev, &(charl__launch){.file = "reduce/fold",
                                  .entry = "charl_fold",
                                  .defines = defines,
                                  .global = {(size_t)(groups * GROUP)},
                                  .local = {GROUP},
                                  .args = {from, to, charl__i64(FIRST), from2, to2, charl__i64(SECOND)}}));
        charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, sum, 0, got, sizeof got, true));
        charl_assert_same_bits(got, first[0], FIRST);
        charl_assert_same_bits(got + FIRST, second[0], SECOND);
    }
    charl__buffer_release(in);
    charl__buffer_release(sum);
}

/* Leaves [rows, taps, padded] for a result [rows, channels, taps]. */
static void test_moved_leaves(void **state)
{
    enum { LEAVES = 5, ROWS = 3, TAPS = 9, PLANES = 11, PADDED = 16, LEAF = ROWS * TAPS * PADDED };
    enum { COUNT = ROWS * PLANES * TAPS, ITEMS = (COUNT + GROUP - 1) / GROUP * GROUP };
    static float part[LEAVES * LEAF], tree[LEAVES * LEAF], got[COUNT], want[COUNT];
    float *leaf[LEAVES];
    charl__buffer *in, *sum;

    (void)state;
    charl_test_fill(part, LEAVES * LEAF, -1.0F, 3.0F, 4);
    memcpy(tree, part, sizeof part);
    for (int s = 0; s < LEAVES; s++) {
        leaf[s] = tree + (ptrdiff_t)s * LEAF;
    }
    charl__tree_fold(leaf, LEAVES, LEAF);
    for (int i = 0; i < COUNT; i++) {
        const int row = i / (PLANES * TAPS), c = i / TAPS % PLANES, t = i % TAPS;

        want[i] = tree[(row * TAPS + t) * PADDED + c];
    }
    charl_assert_ok(charl__buffer_create(dev, sizeof part, "leaves", &in));
    charl_assert_ok(charl__buffer_create(dev, sizeof got, "sums", &sum));
    charl_assert_ok(charl__buffer_write(CHARL_QUEUE_COMPUTE, in, 0, part, sizeof part, true));
    charl_assert_ok(charl__launch_enqueue(
        dev, &(charl__launch){.file = "reduce/fold",
                              .entry = "charl_fold",
                              .defines = "#define M 5\n#define MOVED 1\n",
                              .global = {ITEMS},
                              .local = {GROUP},
                              .args = {charl__raw(CHARL_ARG_IN, in), charl__raw(CHARL_ARG_OUT, sum), charl__i64(COUNT),
                                       charl__i32(PLANES), charl__i32(TAPS), charl__i32(PADDED)}}));
    charl_assert_ok(charl__buffer_read(CHARL_QUEUE_COMPUTE, sum, 0, got, sizeof got, true));
    charl_assert_same_bits(got, want, COUNT);
    charl__buffer_release(in);
    charl__buffer_release(sum);
}

/* Ties, the smallest and the largest numbers of each format, scales at their limits, what is not finite; and blocks that share nothing. */
static void test_rounding_to_8_bits(void **state)
{
    enum { PAST_A_BLOCK = 130, NUMBERS = 12 };
    static const struct {
        charl__fp8 format;
        float in[NUMBERS], out[NUMBERS]; /* the first numbers of a block; 0 after them */
        float beside, rounded;           /* in the next block */
    } c[] = {
        {CHARL__E4M3,
         {448, 17, 19, -17, 0x1p-10F, 0x3p-10F, 447, INFINITY, -INFINITY, NAN, -300},
         {448, 16, 20, -16, 0, 0x1p-8F, 448, NAN, NAN, NAN, -288},
         1e-30F,
         1.25F * 0x1p-100F},
        {CHARL__E4M3, {449, 17, 0x1p-10F, 0x1p-9F}, {448, 16, 0, 0}, 1e38F, 448 * 0x1p60F},
        {CHARL__E5M2, {57344, 9, 11, -11, 0x1p-17F, 0x3p-17F, INFINITY}, {57344, 8, 12, -12, 0, 0x1p-15F, NAN}, 3, 3},
        {CHARL__E5M2, {0}, {0}, -7e37F, -57344 * 0x1p60F},
    };

    for (size_t k = 0; k < sizeof c / sizeof c[0]; k++) {
        charl_var *x, *y;
        float v[PAST_A_BLOCK] = {0};

        begin(state);
        x = IN(F32, REPLICATED, 1, PAST_A_BLOCK);
        y = charl__round_fp8(g, x, c[k].format);
        charl_graph_keep(g, y);
        charl_assert_ok(charl_graph_compile(g));
        memcpy(v, c[k].in, sizeof c[k].in);
        v[PAST_A_BLOCK - 1] = c[k].beside;
        write(x, v, PAST_A_BLOCK);
        charl_assert_ok(charl_graph_run(g));
        read(y, v, PAST_A_BLOCK);
        for (int i = 0; i < NUMBERS; i++) {
            assert_true(isnan(c[k].out[i]) ? isnan(v[i]) : v[i] == c[k].out[i]);
        }
        assert_true(v[PAST_A_BLOCK - 1] == c[k].rounded);
        end(state);
    }
    begin(state);
    refused(charl__apply1(g, &charl_op_round_fp8, &c[0].format, IN(F32, BATCHED, 8, 4)), CHARL_ERR_SHAPE,
            "no rows and columns besides the batch");
    end(state);
}

enum { INTEGER_M = 34, INTEGER_N = 131, INTEGER_K = 300 };

/* Rows or columns of numbers that products of integers treat differently, `step` apart: none, subnormal, not finite, of a range of 2^40, at the
 * limit of four digits, the largest and the smallest. */
static void fill_special(float *x, int lines, int64_t line, int64_t step)
{
    static const float first[] = {0,        0x3p-149F, INFINITY, NAN, 1, 0x1.FDFDFCp5F, 0x1.FDFDFEp5F, 0x1.FFFFFEp127F,
                                  0x1p-126F};

    for (int i = 0; i < (int)(sizeof first / sizeof *first) && i < lines; i++) {
        for (int64_t k = 0; k < INTEGER_K; k++) {
            float *const v = &x[i * line + k * step];

            *v = k == 7   ? first[i]
                 : i == 0 ? 0
                 : i == 1 ? 0x1p-149F * (float)(k % 3)
                 : i == 4 ? ldexpf(*v, -(int)(k % 41))
                 : i >= 7 ? ldexpf(*v, i == 7 ? 126 : -112)
                          : *v;
        }
    }
}

/* What the reference, in which a product is defined, gives for one slice; bits of f32. */
static void define(const charl__op *op, const void *attr, const charl_type in[2], const float *a, const float *b,
                   charl_type result, float *out)
{
    const int64_t n[2] = {charl_shape_count(&in[0].shape), charl_shape_count(&in[1].shape)};
    const int64_t m = charl_shape_count(&result.shape);
    double *const x[2] = {charl_test_array(n[0], sizeof(double)), charl_test_array(n[1], sizeof(double))};
    double *y = charl_test_array(m, sizeof *y);

    for (int64_t i = 0; i < n[0]; i++) {
        x[0][i] = (double)a[i];
    }
    for (int64_t i = 0; i < n[1]; i++) {
        x[1][i] = (double)b[i];
    }
    op->reference(&(charl__reference){.op = op,
                                      .attr = attr,
                                      .n_in = 2,
                                      .n_out = 1,
                                      .in = (const double *[]){x[0], x[1]},
                                      .in_type = in,
                                      .out = (double *[]){y},
                                      .out_type = &result});
    for (int64_t i = 0; i < m; i++) {
        out[i] = (float)y[i];
    }
    charl_free(x[0]);
    charl_free(x[1]);
    charl_free(y);
}

/* As charl_cast to bf16 and back. */
static void round_to_bf16(float *x, int n)
{
    for (int i = 0; i < n; i++) {
        uint32_t u;

        memcpy(&u, &x[i], sizeof u);
        u = isnan(x[i]) ? u : (u + 0x7fff + (u >> 16 & 1)) & 0xffff0000U;
        memcpy(&x[i], &u, sizeof u);
    }
}

/* x @ w^T, x @ w, and the sum over rows of two slices, also in bf16: the bits of the definition. */
static void test_products_of_integers(void **state)
{
    enum { M = INTEGER_M, COLUMNS = INTEGER_N, K = INTEGER_K };
    static const bool plain[] = {false, true};
    static float a[2 * M * K], b[2 * K * COLUMNS], got[M * COLUMNS], want[M * COLUMNS], other[M * COLUMNS];

    for (int form = 0; form < 4; form++) {
        const bool sums = form >= 2;
        const charl_dtype dtype = form == 3 ? CHARL_BF16 : CHARL_F32;
        const charl__op *op = sums ? &charl_op_linear_wgrad_integer : &charl_op_linear_integer;
        const void *attr = sums ? NULL : &plain[form];
        const charl_type in[2] = {
            {dtype, sums ? SHAPE(K, M) : SHAPE(M, K), sums ? CHARL_BATCHED : CHARL_REPLICATED},
            {dtype, form == 0 ? SHAPE(COLUMNS, K) : SHAPE(K, COLUMNS), sums ? CHARL_BATCHED : CHARL_REPLICATED}};
        const charl_type result = {CHARL_F32, SHAPE(M, COLUMNS), CHARL_REPLICATED};
        const int64_t slices = sums ? 2 : 1, before = (int64_t)charl_device_get_memory(dev).in_use;
        charl_slices two;
        charl_var *x, *w, *y;

        (void)state;
        charl_assert_ok(charl_slices_block(2, 0, 1, &two));
        charl_assert_ok(charl_graph_create(dev, sums ? &two : NULL, &g));
        charl_test_fill(a, slices * M * K, -1, 1, 3);
        charl_test_fill(b, slices * K * COLUMNS, -1, 1, 4);
        fill_special(a, M, sums ? 1 : K, sums ? M : 1);
        fill_special(b, COLUMNS, form == 0 ? K : 1, form == 0 ? 1 : COLUMNS);
        x = charl_input(g, "x", CHARL_F32, sums ? SHAPE(2 * K, M) : in[0].shape, in[0].batch);
        w = charl_input(g, "w", CHARL_F32, sums ? SHAPE(2 * K, COLUMNS) : in[1].shape, in[1].batch);
        y = charl__apply2(g, op, attr, form == 3 ? charl_cast(g, x, dtype) : x,
                          form == 3 ? charl_cast(g, w, dtype) : w);
        charl_graph_keep(g, y);
        charl_assert_ok(charl_graph_compile(g));
        write(x, a, (int)slices * M * K);
        write(w, b, (int)slices * K * COLUMNS);
        if (form == 3) {
            round_to_bf16(a, (int)slices * M * K);
            round_to_bf16(b, (int)slices * K * COLUMNS);
        }
        charl_assert_ok(charl_graph_run(g));
        read(y, got, M * COLUMNS);
        define(op, attr, in, a, b, result, want);
        if (sums) {
            define(op, attr, in, a + K * M, b + K * COLUMNS, result, other);
            for (int i = 0; i < M * COLUMNS; i++) {
                want[i] += other[i];
            }
        }
        for (int i = 0; i < M * COLUMNS; i++) {
            if (isnan(want[i])) {
                assert_true(isnan(got[i]));
                got[i] = want[i] = 0;
            }
        }
        charl_assert_same_bits(got, want, M * COLUMNS);
        end(state);
        assert_int_equal(charl_device_get_memory(dev).in_use, before); /* digits lie where the graph planned them */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rows_and_windows, begin, end),
        cmocka_unit_test_setup_teardown(test_gradients_of_losses, begin, end),
        cmocka_unit_test_setup_teardown(test_gradients_of_embeddings, begin, end),
        cmocka_unit_test_setup_teardown(test_recurrent_gradients, begin, end),
        cmocka_unit_test_setup_teardown(test_gradient_operators, begin, end),
        cmocka_unit_test_setup_teardown(other_positions, begin, end),
        cmocka_unit_test_setup_teardown(two_padded_inputs, begin, end),
        cmocka_unit_test_setup_teardown(padding_changes_nothing, begin, end),
        cmocka_unit_test_setup_teardown(gradient_of_lse, begin, end),
        cmocka_unit_test(sequences_go_on),
        cmocka_unit_test_setup_teardown(caches_refuse, begin, end),
        cmocka_unit_test(large_windows_and_rows),
        cmocka_unit_test(test_products_go_on),
        cmocka_unit_test_setup_teardown(further_outputs_are_not_exported, begin, end),
        cmocka_unit_test(test_tree),
        cmocka_unit_test(test_rounded_nodes),
        cmocka_unit_test(test_two_results),
        cmocka_unit_test(test_moved_leaves),
        cmocka_unit_test(test_rounding_to_8_bits),
        cmocka_unit_test(test_products_of_integers),
    };

    return charl_test_on_device(tests, &dev);
}
