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

static charl_var *declare(const charl_layer_build *b, const char *what, int64_t layer, charl_shape shape)
{
    const charl_recurrent_config *c = b->settings;
    const float bound = (float)(1.0 / sqrt((double)c->hidden_size));
    char suffix[64];

    snprintf(suffix, sizeof suffix, "%s_l%lld", what, (long long)layer);
    return charl_layer_param(b, suffix,
                             &(charl_param_spec){.shape = shape, .init = {CHARL_INIT_UNIFORM, -bound, bound}});
}

static weights declare_weights(const charl_layer_build *b, int64_t gates, int64_t layer, int64_t features)
{
    const charl_recurrent_config *c = b->settings;
    const int64_t rows = gates * c->hidden_size;
    weights w = {.ih = declare(b, "weight_ih", layer, (charl_shape){2, {rows, features}}),
                 .hh = declare(b, "weight_hh", layer, (charl_shape){2, {rows, c->hidden_size}})};

    if (c->bias) {
        w.bias_ih = declare(b, "bias_ih", layer, (charl_shape){1, {rows}});
        w.bias_hh = declare(b, "bias_hh", layer, (charl_shape){1, {rows}});
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

static charl_var *last_step(charl_graph *g, charl_var *x)
{
    const charl_shape s = x ? charl_var_get_type(x).shape : (charl_shape){0};

    return x ? charl_flatten(g, charl_slice(g, x, 1, s.dim[1] - 1, 1)) : NULL;
}

static charl_var *build(const charl_layer_build *b, charl_var *x, int64_t gates,
                        charl_var *(*apply)(charl_graph *g, charl_var *x, const weights *w))
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
        const weights w = declare_weights(b, gates, layer, layer == 0 ? in.dim[2] : c->hidden_size);

        x = layer > 0 ? charl_dropout(b->g, x, (float)c->dropout) : x;
        x = apply(b->g, x, &w);
    }
    if (c->last && x && charl__var_positions(x) > 0) {
        return charl__layer_last_position(b, x, false);
    }
    return c->last ? last_step(b->g, x) : x;
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
};

const charl_layer_type charl__layer_lstm =
    CHARL__LAYER("lstm", "long short-term memory over [batch, time, features], from the first step to the last",
                 build_lstm, CHARL_DEFAULTS(defaults), CHARL_KEYS(keys));

const charl_layer_type charl__layer_gru =
    CHARL__LAYER("gru", "gated recurrent units over [batch, time, features], from the first step to the last",
                 build_gru, CHARL_DEFAULTS(defaults), CHARL_KEYS(keys));
