/* Attention beyond the table: what it refuses, what its settings mean, and that a causal query
 * really does not look ahead. */
#include "support/on_device.h"

#include <math.h>
#include <string.h>

#include "autograd/graph.h"
#include "autograd/kv_cache.h"
#include "autograd/op.h"
#include "autograd/ops_data.h"
#include "charl/ops.h"

static charl_device *dev;
static charl_graph *g;

#define SHAPE(...) ((charl_shape){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})

static int begin(void **state)
{
    (void)state;
    charl_assert_ok(charl_graph_create(dev, NULL, &g));
    return 0;
}

static int end(void **state)
{
    (void)state;
    charl_graph_destroy(g);
    g = NULL;
    return 0;
}

static charl_var *input(charl_shape shape)
{
    return charl_input(g, "x", CHARL_F32, shape, CHARL_BATCHED);
}

/* Small numbers without a pattern. */
static void fill(float *x, int n)
{
    for (int i = 0; i < n; i++) {
        x[i] = (float)(i * 7919 % 101 - 50) / 50.0F;
    }
}

static void write(charl_var *v, const float *x, int n)
{
    charl_assert_ok(charl_tensor_write(charl_var_get_tensor(v), x, (size_t)n * sizeof *x));
}

static void read(charl_var *v, float *x, int n)
{
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(v), x, (size_t)n * sizeof *x));
}

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
    end(state);
    begin(state);
    charl__graph_set_padded(g, charl_input(g, "tokens", CHARL_I32, SHAPE(2, 6), CHARL_BATCHED), 0);
    assert_null(charl_attention(g, input(SHAPE(2, 4, 12)), &(charl_attention_args){2}));
    charl_assert_status(charl_graph_compile(g), CHARL_ERR_SHAPE);
    charl_assert_message("attention cannot tell where the padded sequences end: its 4 positions are not");
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

enum { POSITIONS = 70, BEGIN = 66, WIDTH = 80 };

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
    *x = charl_input(*graph, "x", CHARL_F32, SHAPE(sequences, rows, WIDTH), CHARL_REPLICATED);
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
    enum { OUT = WIDTH / 2, SEQUENCES = 3 };
    static float in[SEQUENCES][POSITIONS * WIDTH], want[SEQUENCES][POSITIONS * OUT], got[SEQUENCES][POSITIONS * OUT];
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
    fill(&in[0][0], SEQUENCES * POSITIONS * WIDTH);
    for (int run = 0; run < 2; run++) { /* a second sequence forgets the first */
        for (int32_t s = 0; s < SEQUENCES; s++) {
            write(x[0], in[s], POSITIONS * WIDTH);
            charl_assert_ok(charl_graph_run(all));
            read(y[0], want[s], POSITIONS * OUT);
            charl_assert_ok(charl_tensor_write(sequence, &s, sizeof s));
            write(x[1], in[s], BEGIN * WIDTH);
            charl_assert_ok(charl_graph_run(first));
            read(y[1], got[s], BEGIN * OUT);
        }
        for (int32_t p = 0; p < POSITIONS - begun[1]; p++) {
            float rows[SEQUENCES * WIDTH], out[SEQUENCES * OUT];
            int32_t at[SEQUENCES];

            for (int s = 0; s < SEQUENCES; s++) { /* what is complete stays where it is */
                at[s] = begun[s] + p < POSITIONS ? begun[s] + p : POSITIONS - 1;
                memcpy(rows + s * WIDTH, in[s] + at[s] * WIDTH, sizeof(float) * WIDTH);
            }
            charl_assert_ok(charl_tensor_write(position, at, sizeof at));
            write(x[2], rows, SEQUENCES * WIDTH);
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
    x = charl_input(g, "x", CHARL_F32, SHAPE(1, 1, WIDTH), CHARL_REPLICATED);
    assert_null(charl_attention(g, x, &(charl_attention_args){.heads = 2, .kv_heads = 1}));
    charl_assert_status(charl_graph_compile(g), CHARL_ERR_INVALID);
    charl_assert_message("where attention is causal");
    end(state);
    begin(state);
    charl__graph_set_cache(g, cache, true);
    x = charl_input(g, "x", CHARL_F32, SHAPE(1, 9, WIDTH), CHARL_REPLICATED);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(refused, begin, end),
        cmocka_unit_test_setup_teardown(defaults, begin, end),
        cmocka_unit_test_setup_teardown(no_dropout_at_inference, begin, end),
        cmocka_unit_test_setup_teardown(padding_changes_nothing, begin, end),
        cmocka_unit_test_setup_teardown(causal_sees_nothing_ahead, begin, end),
        cmocka_unit_test_setup_teardown(transposed, begin, end),
        cmocka_unit_test_setup_teardown(gradient_of_lse, begin, end),
        cmocka_unit_test(sequences_go_on),
        cmocka_unit_test_setup_teardown(caches_refuse, begin, end),
    };

    return charl_test_on_device(tests, &dev);
}
