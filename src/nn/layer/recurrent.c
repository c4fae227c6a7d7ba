/* lstm and gru: layers of recurrent networks over [B, T, F] with the names, the order of gates and
 * the initial values of torch.nn.LSTM and GRU: uniform within 1 / sqrt(hidden_size).
 */
#include <math.h>
#include <stdio.h>

#include "autograd/graph.h"
#include "nn/layer.h"

typedef struct weights {
    charl_var *ih, *hh, *bias_ih, *bias_hh; /* biases NULL without */
} weights;

/* The direction of a network: from the first step to the last, or `_reverse`. */
static const char *const directions[] = {"", "_reverse"};

static charl_var *declare(const charl_layer_build *b, const char *what, int64_t layer, int direction, charl_shape shape)
{
    const charl_recurrent_config *c = b->settings;
    const float bound = (float)(1.0 / sqrt((double)c->hidden_size));
    char suffix[64];

    snprintf(suffix, sizeof suffix, "%s_l%lld%s", what, (long long)layer, directions[direction]);
    return charl_layer_param(b, suffix,
                             &(charl_param_spec){.shape = shape, .init = {CHARL_INIT_UNIFORM, -bound, bound}});
}

static weights declare_weights(const charl_layer_build *b, int64_t gates, int64_t layer, int direction,
                               int64_t features)
{
    const charl_recurrent_config *c = b->settings;
    const int64_t rows = gates * c->hidden_size;
    weights w = {.ih = declare(b, "weight_ih", layer, direction, (charl_shape){2, {rows, features}}),
                 .hh = declare(b, "weight_hh", layer, direction, (charl_shape){2, {rows, c->hidden_size}})};

    if (c->bias) {
        w.bias_ih = declare(b, "bias_ih", layer, direction, (charl_shape){1, {rows}});
        w.bias_hh = declare(b, "bias_hh", layer, direction, (charl_shape){1, {rows}});
    }
    return w;
}

/* Both biases are added to the same sums. */
static charl_var *apply_lstm(charl_graph *g, charl_var *x, const weights *w)
{
    charl_var *bias = w->bias_ih ? charl_add(g, w->bias_ih, w->bias_hh) : NULL;

    return charl_lstm(g, charl_linear(g, x, w->ih, bias), w->hh);
}

static charl_var *apply_gru(charl_graph *g, charl_var *x, const weights *w)
{
    return charl_gru(g, charl_linear(g, x, w->ih, w->bias_ih), w->hh, w->bias_hh);
}

/* The last step before any padding. */
static charl_var *last_step(const charl_layer_build *b, charl_var *x)
{
    if (!x) {
        return NULL;
    }
    return charl__var_positions(x) > 0
               ? charl__layer_last_position(b, x, false)
               : charl_flatten(b->g, charl_slice(b->g, x, 1, charl_var_get_type(x).shape.dim[1] - 1, 1));
}

/* Sequences from their last step to the first. */
static charl_var *reverse(const charl_layer_build *b, charl_var *x)
{
    charl_var *length = x && charl__var_positions(x) == 1 ? charl__graph_lengths(x) : NULL;

    if (x && !length && charl__var_has_padding(x)) {
        return charl__graph_refuse(b->g, "bidirectional = yes: the positions of padded sequences are not the steps, so "
                                         "their ends are unknown");
    }
    return charl_reverse_sequence(b->g, x, length);
}

typedef charl_var *cell(charl_graph *g, charl_var *x, const weights *w);

/* One layer over x; with `ends` the last step of each direction. */
static charl_var *apply_layer(const charl_layer_build *b, charl_var *x, int64_t gates, int64_t layer, cell *apply,
                              bool ends)
{
    const charl_recurrent_config *c = b->settings;
    const int64_t features = charl_var_get_type(x).shape.dim[2];
    charl_var *y[2];

    for (int k = 0; k < 1 + c->bidirectional; k++) {
        const weights w = declare_weights(b, gates, layer, k, features);

        y[k] = apply(b->g, k == 0 ? x : reverse(b, x), &w);
        if (ends) {
            y[k] = last_step(b, y[k]);
        } else if (k == 1) {
            y[k] = reverse(b, y[k]);
        }
    }
    return c->bidirectional ? charl_concat(b->g, y, 2, -1) : y[0];
}

static charl_var *build(const charl_layer_build *b, charl_var *x, int64_t gates, cell *apply)
{
    const charl_recurrent_config *c = b->settings;
    charl_shape in = charl_var_get_type(x).shape;

    if (in.ndim == 4 && in.dim[1] == 1) { /* an image with one channel: a series of its rows */
        in = (charl_shape){3, {in.dim[0], in.dim[2], in.dim[3]}};
        x = charl_reshape(b->g, x, in);
    }
    if (charl__graph_starts(b->g)) {
        return charl__graph_refuse(b->g, "a recurrent layer carries its state from one document to the next; "
                                         "data.documents = separate is for attention");
    }
    if (in.ndim != 3 || in.dim[1] < 1 || in.dim[2] < 1) {
        return charl__graph_refuse(b->g, "a recurrent layer needs [batch, time, features]");
    }
    for (int64_t layer = 0; layer < c->num_layers && x; layer++) {
        x = layer > 0 ? charl_dropout(b->g, x, (float)c->dropout) : x;
        x = x ? apply_layer(b, x, gates, layer, apply, c->last && layer == c->num_layers - 1) : NULL;
    }
    return x;
}

static charl_var *build_lstm(const charl_layer_build *b, charl_var *x)
{
    return build(b, x, 4, apply_lstm);
}

static charl_var *build_gru(const charl_layer_build *b, charl_var *x)
{
    return build(b, x, 3, apply_gru);
}

static const charl_recurrent_config defaults = {.num_layers = 1, .bias = true};
static const charl_key keys[] = {
    CHARL__KEY(charl_recurrent_config, hidden_size, INT, "[1,1e6]", true, "features of the output"),
    CHARL__KEY(charl_recurrent_config, num_layers, INT, "[1,1000]", false,
               "layers, each over the output of the one before"),
    CHARL__KEY(charl_recurrent_config, dropout, FLOAT, "[0,1)", false,
               "probability to drop an element between two layers"),
    CHARL__KEY(charl_recurrent_config, bias, BOOL, NULL, false, "add biases"),
    CHARL__KEY(charl_recurrent_config, last, BOOL, NULL, false,
               "return the last step before any padding only, as classification needs"),
    CHARL__KEY(
        charl_recurrent_config, bidirectional, BOOL, NULL, false,
        "a second network reads the steps from the last before any padding to the first; its output follows that "
        "of the first"),
};

const charl_layer_type charl__layer_lstm = CHARL__LAYER("lstm", "long short-term memory over [batch, time, features]",
                                                        build_lstm, CHARL_DEFAULTS(defaults), CHARL_KEYS(keys));

const charl_layer_type charl__layer_gru = CHARL__LAYER("gru", "gated recurrent units over [batch, time, features]",
                                                       build_gru, CHARL_DEFAULTS(defaults), CHARL_KEYS(keys));
