/* charl-bench linear, conv, attention, layernorm, cross-entropy and embedding: an operator and
 * its gradients as a training step runs them. Each gradient has a graph of its own, of which either
 * half is replayed alone where they are apart. */
#include <stdlib.h>
#include <string.h>

#include <charl/error.h>
#include <charl/ops.h>
#include "bench/kernel.h"

enum { FORWARD, OF_X, OF_W, AMOUNTS };

/* The operator of a case, and what its passes are worth: floating-point operations, or bytes that
 * have to be read and written. */
typedef struct layer {
    charl_shape x, w, bias; /* of 0 extents: there is none */
    charl_var *(*apply)(charl_graph *g, const int64_t *extent, charl_var *x, charl_var *w, charl_var *bias);
    double amount[AMOUNTS];
    int64_t tokens; /* > 0: x are tokens below it, which have no gradient */
    bool fuses;     /* the gradient of x comes with the result in training */
    bool together;  /* the gradient of w is formed with that of x in training */
} layer;

typedef struct layer_graphs {
    charl_params *params;
    charl_graph *forward, *of_x, *of_w; /* forward: where the gradient comes with it */
} layer_graphs;

static charl_status run_forward(void *ctx)
{
    return charl_graph_run_forward(ctx);
}

static charl_status run_backward(void *ctx)
{
    return charl_graph_run_backward(ctx);
}

/* As many slices of a batch as training takes unless told otherwise. */
static int slices_of(int64_t rows)
{
    int n = 8;

    while (rows % n != 0) {
        n /= 2;
    }
    return n;
}

static charl_status add_weight(layer_graphs *l, charl_graph *g, const char *name, const charl_shape *shape,
                               charl_var **out)
{
    charl_param *p = NULL;

    if (!l->params) {
        CHARL_TRY(charl_params_create(&l->params));
    }
    CHARL_TRY(charl_params_add(
        l->params,
        &(charl_param_spec){
            .name = name, .shape = *shape, .init = {CHARL_INIT_UNIFORM, -0.5F, 0.5F}, .trainable = true},
        &p));
    *out = charl_parameter(g, p);
    return CHARL_OK;
}

/* Spread over 0 .. end - 1. */
static charl_status fill_tokens(const charl_var *v, int64_t end)
{
    charl_status st = CHARL_OK;
    const charl_type type = charl_var_get_type(v);
    const int64_t n = charl_shape_count(&type.shape);
    int32_t *token = NULL;

    CHARL_TRY_CLEANUP(charl__cli_alloc(n, sizeof *token, &token));
    for (int64_t i = 0; i < n; i++) {
        token[i] = (int32_t)((uint64_t)i * 0x9e3779b97f4a7c15U % (uint64_t)end);
    }
    CHARL_TRY_CLEANUP(charl_tensor_write(charl_var_get_tensor(v), token, (size_t)n * sizeof *token));
cleanup:
    free(token);
    return st;
}

/* A weight or bias that the layer has: a parameter, or an input. */
static charl_status add_operand(const charl__bench_case *c, layer_graphs *l, charl_graph *g, const char *name,
                                const charl_shape *shape, bool is_parameter, charl_var **out)
{
    if (shape->ndim > 0 && is_parameter) {
        CHARL_TRY(add_weight(l, g, name, shape, out));
    } else if (shape->ndim > 0) {
        *out = charl_input(g, name, shape->ndim >= 2 ? c->dtype : CHARL_F32, *shape, CHARL_REPLICATED);
    }
    return CHARL_OK;
}

/* y = layer(x, w), and one of its gradients, or both, unless `pass` is FORWARD. */
static charl_status build(const charl__bench_case *c, const layer *d, layer_graphs *l, int pass, charl_graph **out)
{
    const bool of_w = pass == OF_W;
    const bool of_x = d->tokens == 0 && (pass == OF_X || (of_w && d->together));
    charl_var *x, *w = NULL, *bias = NULL, *y, *dy = NULL;
    charl_slices slices;
    charl_graph *g;

    CHARL_TRY(charl_slices_block(slices_of(d->x.dim[0]), 0, 1, &slices));
    CHARL_TRY(charl_graph_create(c->dev, &slices, out));
    g = *out;
    charl_graph_set_precision(g, c->dtype);
    x = charl_input(g, "x", d->tokens > 0 ? CHARL_I32 : c->dtype, d->x, CHARL_BATCHED);
    CHARL_TRY(add_operand(c, l, g, "weight", &d->w, of_w, &w));
    CHARL_TRY(add_operand(c, l, g, "bias", &d->bias, of_w, &bias));
    if (of_x) {
        charl_graph_require_gradient(g, x);
    }
    y = d->apply(g, c->shape->x, x, w, bias);
    CHARL_TRY(charl_graph_status(g));
    charl_graph_keep(g, y);
    if (pass != FORWARD) {
        dy = charl_input(g, "dy", charl_var_get_type(y).dtype, charl_var_get_type(y).shape, CHARL_BATCHED);
        charl_graph_backward(g, y, dy);
    }
    if (of_x) {
        charl_graph_keep(g, charl_var_get_gradient(x));
    }
    CHARL_TRY(charl_graph_compile(g));
    CHARL_TRY(d->tokens > 0 ? fill_tokens(x, d->tokens) : charl__bench_fill_random(charl_var_get_tensor(x)));
    if (dy) {
        CHARL_TRY(charl__bench_fill_random(charl_var_get_tensor(dy)));
    }
    if (of_w) {
        CHARL_TRY(charl_params_initialize(l->params, 1));
    } else {
        CHARL_TRY(w ? charl__bench_fill_random(charl_var_get_tensor(w)) : CHARL_OK);
        CHARL_TRY(bias ? charl__bench_fill_random(charl_var_get_tensor(bias)) : CHARL_OK);
    }
    CHARL_TRY(charl_graph_warm_up(g));
    return CHARL_OK;
}

static charl_status begin(charl__bench_case *c, const layer *d)
{
    layer_graphs *l = NULL;

    CHARL_TRY(charl__cli_alloc(1, sizeof *l, &l));
    c->own = l;
    if (d->tokens == 0) {
        CHARL_TRY(build(c, d, l, OF_X, &l->of_x));
    }
    if (d->tokens > 0) {
        CHARL_TRY(build(c, d, l, OF_W, &l->of_w));
        charl__bench_add(c, "forward", run_forward, l->of_w, d->amount[FORWARD]);
        charl__bench_add(c, "gradient of w", run_backward, l->of_w, d->amount[OF_W]);
        return CHARL_OK;
    }
    if (d->fuses) {
        CHARL_TRY(build(c, d, l, FORWARD, &l->forward));
        charl__bench_add(c, "forward", run_forward, l->forward, d->amount[FORWARD]);
        charl__bench_add(c, "with gradient", run_forward, l->of_x, d->amount[OF_X]);
    } else {
        charl__bench_add(c, "forward", run_forward, l->of_x, d->amount[FORWARD]);
        charl__bench_add(c, "gradient of x", run_backward, l->of_x, d->amount[OF_X]);
    }
    if (d->w.ndim > 0) {
        CHARL_TRY(build(c, d, l, OF_W, &l->of_w));
        charl__bench_add(c, d->together ? "of x and w" : "gradient of w", run_backward, l->of_w, d->amount[OF_W]);
    }
    return CHARL_OK;
}

static void end(charl__bench_case *c)
{
    layer_graphs *l = c->own;

    if (l) {
        charl_graph_destroy(l->forward);
        charl_graph_destroy(l->of_x);
        charl_graph_destroy(l->of_w);
        charl_params_destroy(l->params);
        free(l);
    }
}

/* Rows, inputs, outputs. */
static charl_var *apply_linear(charl_graph *g, const int64_t *e, charl_var *x, charl_var *w, charl_var *bias)
{
    (void)e;
    return charl_linear(g, x, w, bias);
}

static charl_var *apply_integer(charl_graph *g, const int64_t *e, charl_var *x, charl_var *w, charl_var *bias)
{
    (void)e;
    return charl_linear_integer(g, x, w, bias);
}

static charl_status linear_begin(charl__bench_case *c)
{
    const int64_t *e = c->shape->x;
    const double flop = 2.0 * (double)(e[0] * e[1]) * (double)e[2];

    return begin(c, &(layer){.x = {2, {e[0], e[1]}},
                             .w = {2, {e[2], e[1]}},
                             .bias = {1, {e[2]}},
                             .apply = c->integer ? apply_integer : apply_linear,
                             .amount = {flop, flop, flop}});
}

/* B, C, H, W, O, K, S: padding K / 2, no bias. */
static charl_var *apply_conv(charl_graph *g, const int64_t *e, charl_var *x, charl_var *w, charl_var *bias)
{
    const int k = (int)e[5], s = (int)e[6];
    const charl_window window = {{k, k}, {s, s}, {k / 2, k / 2}, {1, 1}};

    (void)bias;
    return charl_conv2d(g, x, w, NULL, &window, 1);
}

static int64_t conv_extent(int64_t n, int64_t k, int64_t s)
{
    return (n + 2 * (k / 2) - k) / s + 1;
}

static charl_status conv_begin(charl__bench_case *c)
{
    const int64_t *e = c->shape->x;
    const double pixels = (double)(e[0] * conv_extent(e[2], e[5], e[6]) * conv_extent(e[3], e[5], e[6]));
    const double flop = 2.0 * pixels * (double)(e[1] * e[4] * e[5] * e[5]);

    return begin(c, &(layer){.x = {4, {e[0], e[1], e[2], e[3]}},
                             .w = {4, {e[4], e[1], e[5], e[5]}},
                             .apply = apply_conv,
                             .amount = {flop, flop, flop}});
}

/* B, T, heads, D: causal. */
static charl_var *apply_attention(charl_graph *g, const int64_t *e, charl_var *x, charl_var *w, charl_var *bias)
{
    (void)w, (void)bias;
    return charl_attention(g, x, &(charl_attention_args){.heads = (int)e[2], .causal = true});
}

static charl_status attention_begin(charl__bench_case *c)
{
    const int64_t *e = c->shape->x;
    const double flop = 2.0 * (double)(e[0] * e[2] * e[3]) * (double)e[1] * (double)e[1];

    return begin(
        c, &(layer){.x = {3, {e[0], e[1], 3 * e[2] * e[3]}}, .apply = apply_attention, .amount = {flop, 2.5 * flop}});
}

static charl_var *apply_layer_norm(charl_graph *g, const int64_t *e, charl_var *x, charl_var *w, charl_var *bias)
{
    (void)e, (void)bias;
    return charl_layer_norm(g, x, w, NULL, 1e-5F);
}

static charl_status layer_norm_begin(charl__bench_case *c)
{
    const int64_t *e = c->shape->x;
    const double bytes = (double)(e[0] * e[1]) * (double)charl_dtype_size(c->dtype);

    return begin(c, &(layer){.x = {2, {e[0], e[1]}},
                             .w = {1, {e[1]}},
                             .apply = apply_layer_norm,
                             .amount = {2 * bytes, 3 * bytes, 3 * bytes},
                             .together = true});
}

/* All labels are 0. */
static charl_var *apply_cross_entropy(charl_graph *g, const int64_t *e, charl_var *x, charl_var *w, charl_var *bias)
{
    (void)w, (void)bias;
    return charl_cross_entropy(g, x, charl_input(g, "label", CHARL_I32, (charl_shape){1, {e[0]}}, CHARL_BATCHED), NULL,
                               NULL);
}

static charl_status cross_entropy_begin(charl__bench_case *c)
{
    const int64_t *e = c->shape->x;
    const double bytes = (double)(e[0] * e[1]) * (double)charl_dtype_size(c->dtype);

    return begin(
        c, &(layer){.x = {2, {e[0], e[1]}}, .apply = apply_cross_entropy, .amount = {bytes, 2 * bytes}, .fuses = true});
}

static charl_var *apply_embedding(charl_graph *g, const int64_t *e, charl_var *x, charl_var *w, charl_var *bias)
{
    (void)e, (void)bias;
    return charl_embedding(g, x, w);
}

/* The gradient of the table is f32. */
static charl_status embedding_begin(charl__bench_case *c)
{
    const int64_t *e = c->shape->x;
    const double rows = (double)(e[0] * e[1]) * (double)charl_dtype_size(c->dtype);

    return begin(c, &(layer){.x = {1, {e[0]}},
                             .w = {2, {e[2], e[1]}},
                             .apply = apply_embedding,
                             .amount = {2 * rows, 0, rows + 4.0 * (double)(e[1] * e[2])},
                             .tokens = e[2]});
}

/* launch/mnist-mlp.ini and shakespeare.ini; GPT-2 124M. */
static const charl__cli_shape linear_cpu[] = {
    {{128, 784, 256}, 0}, {{768, 128, 512}, 0}, {{768, 512, 128}, 0}, {{0}, 0}};
static const charl__cli_shape linear_gpu[] = {{{32768, 768, 2304}, 0},  {{32768, 768, 768}, 0},
                                              {{32768, 768, 3072}, 0},  {{32768, 3072, 768}, 0},
                                              {{32768, 768, 50304}, 0}, {{0}, 0}};

/* The convolutions of launch/mnist-cnn.ini and cifar10-resnet.ini; of ResNet-50 with 256 images. */
static const charl__cli_shape conv_cpu[] = {{{128, 1, 28, 28, 16, 3, 1}, 0},  {{128, 16, 14, 14, 32, 3, 1}, 0},
                                            {{128, 16, 32, 32, 16, 3, 1}, 0}, {{128, 32, 16, 16, 64, 3, 2}, 0},
                                            {{128, 64, 8, 8, 64, 3, 1}, 0},   {{0}, 0}};
static const charl__cli_shape conv_gpu[] = {
    {{256, 3, 224, 224, 64, 7, 2}, 0},   {{256, 64, 56, 56, 64, 3, 1}, 0},   {{256, 64, 56, 56, 256, 1, 1}, 0},
    {{256, 128, 28, 28, 128, 3, 1}, 0},  {{256, 256, 56, 56, 512, 1, 2}, 0}, {{256, 256, 14, 14, 256, 3, 1}, 0},
    {{256, 1024, 14, 14, 256, 1, 1}, 0}, {{256, 512, 7, 7, 512, 3, 1}, 0},   {{0}, 0}};

/* launch/shakespeare.ini and a longer sequence; GPT-2 124M, and heads twice as long. */
static const charl__cli_shape attention_cpu[] = {{{12, 64, 4, 32}, 0}, {{8, 256, 6, 64}, 0}, {{0}, 0}};
static const charl__cli_shape attention_gpu[] = {
    {{32, 1024, 12, 64}, 0}, {{16, 2048, 16, 128}, 0}, {{64, 256, 6, 64}, 0}, {{0}, 0}};

static const charl__cli_shape layer_norm_cpu[] = {{{768, 128}, 0}, {{8192, 768}, 0}, {{0}, 0}};
static const charl__cli_shape layer_norm_gpu[] = {{{32768, 768}, 0}, {{32768, 1600}, 0}, {{16384, 384}, 0}, {{0}, 0}};

static const charl__cli_shape cross_entropy_cpu[] = {{{768, 65}, 0}, {{256, 50304}, 0}, {{0}, 0}};
static const charl__cli_shape cross_entropy_gpu[] = {{{32768, 50304}, 0}, {{8192, 50257}, 0}, {{0}, 0}};

static const charl__cli_shape embedding_cpu[] = {{{768, 128, 65}, 0}, {{0}, 0}};
static const charl__cli_shape embedding_gpu[] = {{{32768, 768, 50304}, 0}, {{16384, 384, 65}, 0}, {{0}, 0}};

/* integers: --products integer. products: amounts are floating-point operations, compared with the peak of arithmetic; otherwise bytes, compared with the speed of memory. */
#define LAYER(word, title, what, n, products, integers, text)                                                          \
    {                                                                                                                  \
        .name = (title),                                                                                               \
        .shapes =                                                                                                      \
            &(const charl__cli_shape_kind){.extents = (what), .n_extents = (n), .cpu = word##_cpu, .gpu = word##_gpu}, \
        .unit = (products) ? "GFLOP/s" : "GB/s", .is_typed = true, .multiplies = (products), .has_peak = true,         \
        .has_products = (integers), .doc = (text), .begin = word##_begin, .end = end                                   \
    }

const charl__bench_kind charl__bench_linear = LAYER(
    linear, "linear", "ROWSxINPUTSxOUTPUTS", 3, true, true,
    "Time a linear layer with a bias, the gradient of its input, and the gradients of weight and bias, computed in 8 "
    "slices of the batch and added. The peak is the rate of a loop of the device's fastest multiplications.");

const charl__bench_kind charl__bench_conv =
    LAYER(conv, "conv", "BxCxHxWxOxKxS", 7, true, false,
          "Time convolutions of B images of C channels, H by W, to O channels with a window of K by K, stride S and "
          "padding K/2, and the gradients of image and window, the latter in 8 slices of the batch. The peak is the "
          "rate of a loop of the device's fastest multiplications.");

const charl__bench_kind charl__bench_attention =
    LAYER(attention, "attention", "BxTxHEADSxD", 4, true, false,
          "Time causal attention over B sequences of T positions with HEADS heads of D elements, and its gradient. "
          "Half of the T*T products count, and 2.5 times as many for the gradient. The peak is the rate of a loop of "
          "the device's fastest multiplications.");

const charl__bench_kind charl__bench_layer_norm =
    LAYER(layer_norm, "layernorm", "ROWSxCOLUMNS", 2, false, false,
          "Time layer norm and its gradients, of x alone and of x and w. Bytes counted: operands and results, once "
          "each. The peak is a loop that copies as much as the forward pass moves.");

const charl__bench_kind charl__bench_cross_entropy = LAYER(
    cross_entropy, "cross-entropy", "ROWSxCLASSES", 2, false, false,
    "Time the loss of a classifier, alone and with its gradient. Bytes counted: the logits, read once for the loss, "
    "read and written once with the gradient. The peak is a loop that copies as much as the forward pass moves.");

const charl__bench_kind charl__bench_embedding =
    LAYER(embedding, "embedding", "POSITIONSxCOLUMNSxTOKENS", 3, false, false,
          "Time the lookup of rows of a table by token, with tokens spread over the table, and the gradient of the "
          "table. Bytes counted: rows read and written once; for the gradient, rows read and the table written in f32. "
          "The peak is a loop that copies as much as the forward pass moves.");
