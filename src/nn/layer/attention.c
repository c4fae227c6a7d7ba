/* attention and class_token: parts of transformers that are connected in the configuration. */
#include "autograd/graph.h"
#include "nn/layer.h"

static charl_var *build_attention(const charl_layer_build *b, charl_var *x)
{
    const charl_attention_config *c = b->settings;
    const charl_attention_args args = {.heads = (int)c->heads,
                                       .kv_heads = (int)c->kv_heads,
                                       .causal = c->causal,
                                       .dropout = (float)c->dropout,
                                       .kv = b->n_in > 1 ? b->in[1] : NULL};

    if (charl_var_get_type(x).shape.ndim != 3) {
        return charl__graph_refuse(b->g, "attention needs [batch, positions, features]");
    }
    if (args.kv && c->causal) {
        return charl__graph_refuse(b->g, "causal = yes: attention to another source has no order of positions");
    }
    return charl_attention(b->g, x, &args);
}

/* A learned row before every sequence. */
static charl_var *build_class_token(const charl_layer_build *b, charl_var *x)
{
    const charl_class_token_config *c = b->settings;
    const charl_shape in = charl_var_get_type(x).shape;
    charl_var *token, *both[2], *y;

    if (in.ndim != 3 || in.dim[1] < 1) {
        return charl__graph_refuse(b->g, "class_token needs [batch, positions, features]");
    }
    token = charl_layer_param(
        b, "weight",
        &(charl_param_spec){.shape = {1, {in.dim[2]}}, .init = {CHARL_INIT_NORMAL, 0.0F, (float)c->init_std}});
    both[0] = charl_expand_like(b->g, charl_slice(b->g, x, 1, 0, 1), token);
    both[1] = x;
    y = charl_concat(b->g, both, 2, 1);
    if (charl__var_positions(x) == 1 && !charl__var_is_shifted(x)) {
        charl__var_set_positions(y, 1);
    }
    return y;
}

static const charl_attention_config attention_defaults = {.heads = 0};
static const charl_key attention_keys[] = {
    CHARL__KEY(charl_attention_config, heads, INT, "[1,65536]", true, "attention heads"),
    CHARL__KEY(charl_attention_config, kv_heads, INT, "[0,65536]", false,
               "heads of keys and values; 0: as many as heads"),
    CHARL__KEY(charl_attention_config, dropout, FLOAT, "[0,1)", false, "probability to drop attention weights"),
    CHARL__KEY(charl_attention_config, causal, BOOL, NULL, false, "a position sees only itself and those before it"),
};
static const charl_class_token_config token_defaults = {.init_std = 0.02};
static const charl_key token_keys[] = {
    CHARL__KEY(charl_class_token_config, init_std, FLOAT, "[0,1e6)", false, "standard deviation of the initial values"),
};

const charl_layer_type charl__layer_attention = CHARL__LAYER(
    "attention",
    "of what a linear layer puts out: queries of all heads, keys, values, side by side; input = q, kv: queries of "
    "one source, keys and values of another",
    build_attention, .max_inputs = 2, .one_input = true, CHARL__SETTINGS(attention));

const charl_layer_type charl__layer_class_token =
    CHARL__LAYER("class_token", "a learned position in front of a sequence: [B, T, C] -> [B, T + 1, C]",
                 build_class_token, CHARL__SETTINGS(token));
