/* conv1d, max_pool1d and avg_pool1d over sequences [B, C, T]: those of images of height 1. Parameters have the shapes of
 * torch.nn.Conv1d, and its initial values. */
#include "autograd/graph.h"
#include "nn/layer.h"

static charl_var *as_image(charl_graph *g, charl_var *x)
{
    const charl_shape s = x ? charl_var_get_type(x).shape : (charl_shape){0};

    return charl_reshape(g, x, (charl_shape){4, {s.dim[0], s.dim[1], 1, s.dim[2]}});
}

static charl_var *as_sequence(charl_graph *g, charl_var *x)
{
    const charl_shape s = x ? charl_var_get_type(x).shape : (charl_shape){0};

    return charl_reshape(g, x, (charl_shape){3, {s.dim[0], s.dim[1], s.dim[3]}});
}

static charl_var *build_conv(const charl_layer_build *b, charl_var *x)
{
    const charl_conv1d_config *c = b->settings;
    const charl_shape in = charl_var_get_type(x).shape;
    const int positions = charl__var_positions(x);
    const int64_t reach = (c->kernel - 1) * c->dilation;
    const int64_t padding = c->causal ? reach : c->padding >= 0 ? c->padding : reach / 2;
    const charl_window win = {{1, (int)c->kernel}, {1, (int)c->stride}, {0, (int)padding}, {1, (int)c->dilation}};
    charl_var *param[2];

    if (c->causal && c->padding >= 0) {
        return charl__graph_refuse(b->g, "conv1d: causal = yes has a padding of its own; leave padding out");
    }
    if (!charl__conv_declare(b, x,
                             &(charl__conv){.type = "conv1d",
                                            .needs = "[batch, channels, time]",
                                            .dims = 1,
                                            .kernel = &c->kernel,
                                            .channels = c->channels,
                                            .groups = c->groups,
                                            .bias = c->bias},
                             param)) {
        return NULL;
    }
    param[0] = charl_reshape(b->g, param[0], (charl_shape){4, {c->channels, in.dim[1] / c->groups, 1, c->kernel}});
    x = as_sequence(b->g, charl_conv2d(b->g, as_image(b->g, x), param[0], param[1], &win, (int)c->groups));
    if (c->causal && x && reach > 0) { /* what the padding behind the sequence has given */
        x = charl_slice(b->g, x, 2, 0, (in.dim[2] - 1) / c->stride + 1);
    }
    if (x && positions == 2 &&
        charl_var_get_type(x).shape.dim[2] == in.dim[2]) { /* also with causal = yes, which has cut off an end */
        charl__var_set_positions(x, positions);
    }
    return charl__activate(b->g, c->activation, x);
}

static charl_var *pool(const charl_layer_build *b, charl_var *x,
                       charl_var *(*apply)(charl_graph *, charl_var *, const charl_window *))
{
    const charl_pool1d_config *c = b->settings;
    const charl_window win = {
        {1, (int)c->kernel}, {1, (int)(c->stride ? c->stride : c->kernel)}, {0, (int)c->padding}, {1, 1}};

    if (charl_var_get_type(x).shape.ndim != 3) {
        return charl__graph_refuse(b->g, "pooling over time needs [batch, channels, time]");
    }
    return as_sequence(b->g, apply(b->g, as_image(b->g, x), &win));
}

static charl_var *build_max(const charl_layer_build *b, charl_var *x)
{
    return pool(b, x, charl_max_pool2d);
}

static charl_var *build_avg(const charl_layer_build *b, charl_var *x)
{
    return pool(b, x, charl_avg_pool2d);
}

static const charl_conv1d_config conv_defaults = {.stride = 1, .padding = -1, .dilation = 1, .groups = 1, .bias = true};
static const charl_key conv_keys[] = {
    {"channels", CHARL_KEY_INT, offsetof(charl_conv1d_config, channels), "[1,1e6]", true, "output channels", NULL},
    {"kernel", CHARL_KEY_INT, offsetof(charl_conv1d_config, kernel), "[1,4096]", true, "steps of the kernel", NULL},
    {"stride", CHARL_KEY_INT, offsetof(charl_conv1d_config, stride), "[1,4096]", false, "step of the window", NULL},
    {"padding", CHARL_KEY_INT, offsetof(charl_conv1d_config, padding), "[-1,65536]", false,
     "zeros at both ends; -1 keeps the length at stride 1 if the kernel is odd", NULL},
    {"dilation", CHARL_KEY_INT, offsetof(charl_conv1d_config, dilation), "[1,65536]", false, "spacing of the kernel",
     NULL},
    {"groups", CHARL_KEY_INT, offsetof(charl_conv1d_config, groups), "[1,1e6]", false, "groups of channels", NULL},
    {"bias", CHARL_KEY_BOOL, offsetof(charl_conv1d_config, bias), NULL, false, "add a bias", NULL},
    {"causal", CHARL_KEY_BOOL, offsetof(charl_conv1d_config, causal), NULL, false,
     "a step sees only itself and those before it: all zeros stand in front", NULL},
    {"activation", CHARL_KEY_ACTIVATION, offsetof(charl_conv1d_config, activation), NULL, false,
     "applied to the output", NULL},
};
static const charl_pool1d_config pool_defaults = {.stride = 0};
static const charl_key pool_keys[] = {
    {"kernel", CHARL_KEY_INT, offsetof(charl_pool1d_config, kernel), "[1,4096]", true, "steps of the window", NULL},
    {"stride", CHARL_KEY_INT, offsetof(charl_pool1d_config, stride), "[0,4096]", false,
     "step of the window; 0 = kernel", NULL},
    {"padding", CHARL_KEY_INT, offsetof(charl_pool1d_config, padding), "[0,2048]", false, "at both ends", NULL},
};

const charl_layer_type charl__layer_conv1d = {
    .row.name = "conv1d",
    .row.help = "cross-correlation over sequences [B, C, T]",
    .build = build_conv,
    CHARL_DEFAULTS(conv_defaults),
    CHARL_KEYS(conv_keys),
};

const charl_layer_type charl__layer_max_pool1d = {
    .row.name = "max_pool1d",
    .row.help = "largest value of each window over time",
    .build = build_max,
    CHARL_DEFAULTS(pool_defaults),
    CHARL_KEYS(pool_keys),
};

const charl_layer_type charl__layer_avg_pool1d = {
    .row.name = "avg_pool1d",
    .row.help = "mean of each window over time",
    .build = build_avg,
    CHARL_DEFAULTS(pool_defaults),
    CHARL_KEYS(pool_keys),
};
