/* Convolutions, transposed convolutions and pooling over sequences [B, C, T], images [B, C, H, W] and volumes [B, C, D, H, W]. Parameters
 * and their initial values are those of torch.nn.Conv1d, ConvTranspose2d and so on. A sequence is computed as an image of height 1. */
#include <math.h>
#include <stdio.h>

#include "autograd/graph.h"
#include "autograd/op/conv/conv2d.h"
#include "nn/layer.h"

static const char *const inputs[] = {NULL, "[batch, channels, time]", "images [batch, channels, height, width]",
                                     "volumes [batch, channels, depth, height, width]"};

/* The window over so many extents; for one extent, negative padding keeps the size, and a stride of 0 means the kernel. */
static charl_window window_of(int dims, const int64_t *kernel, const int64_t *stride, const int64_t *padding,
                              const int64_t *dilation)
{
    charl_window w = {{1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}};

    for (int i = 0; i < dims; i++) {
        const int at = dims == 1 ? 1 : i;

        w.kernel[at] = (int)kernel[i];
        w.stride[at] = (int)(stride[i] ? stride[i] : kernel[i]);
        w.dilation[at] = (int)dilation[i];
        w.padding[at] = (int)(padding[i] >= 0 ? padding[i] : (kernel[i] - 1) * dilation[i] / 2);
    }
    return w;
}

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

typedef struct convolution {
    int dims;
    bool transposed;
} convolution;

/* Declare weight [channels, inputs / groups, kernel], or transposed [inputs, channels / groups, kernel], and bias (NULL without). Returns
 * false after rejecting x, or after an error. */
static bool declare(const charl_layer_build *b, const charl_var *x, charl_var *out[2])
{
    const convolution *v = b->type->variant;
    const charl_conv_config *c = b->settings;
    const charl_shape in = charl_var_get_type(x).shape;
    charl_shape shape = {v->dims + 2, {c->channels}};
    int64_t taps = 1;
    charl_init init = {.kind = CHARL_INIT_UNIFORM}, normal = {.kind = CHARL_INIT_NORMAL};
    char text[256];

    if (in.ndim != v->dims + 2 || in.dim[1] % c->groups != 0 || c->channels % c->groups != 0) {
        int n = snprintf(text, sizeof text, "%s%s%s", b->type->row.name,
                         in.ndim != v->dims + 2 ? " needs " : ": groups must divide input and output channels",
                         in.ndim != v->dims + 2 ? inputs[v->dims] : "");

        if (in.ndim == v->dims + 1 && v->dims > 1) {
            n += snprintf(text + n, sizeof text - (size_t)n, "; a single channel is added by a reshape with shape = 1");
            for (int i = 1; i < in.ndim; i++) {
                n += snprintf(text + n, sizeof text - (size_t)n, ", %lld", (long long)in.dim[i]);
            }
        }
        charl__graph_refuse(b->g, text);
        return false;
    }
    if (v->transposed) {
        shape.dim[0] = in.dim[1];
    }
    shape.dim[1] = (v->transposed ? c->channels : in.dim[1]) / c->groups;
    for (int i = 0; i < v->dims; i++) {
        shape.dim[i + 2] = c->kernel[i];
        taps *= c->kernel[i];
    }
    init.b = (float)(1.0 / sqrt((double)(shape.dim[1] * taps)));
    init.a = -init.b;
    normal.b = (float)sqrt(2.0 / (double)(c->channels * taps)); /* kaiming_normal_ with mode fan_out for a ReLU */
    out[0] = charl_layer_param(
        b, "weight",
        &(charl_param_spec){.shape = shape, .init = c->init == CHARL_CONV_INIT_KAIMING_NORMAL ? normal : init});
    out[1] =
        c->bias ? charl_layer_param(b, "bias", &(charl_param_spec){.shape = {1, {c->channels}}, .init = init}) : NULL;
    return out[0] && (out[1] || !c->bias);
}

static charl_var *convolve(const charl_layer_build *b, charl_var *x, charl_var *w, charl_var *bias,
                           const charl_window *win)
{
    const charl_conv_config *c = b->settings;

    if (charl__graph_get_linear(b->g) != CHARL__LINEAR_INTEGER) {
        return charl_conv2d(b->g, x, w, bias, win, (int)c->groups);
    }
    if (charl__graph_has_padding(b->g)) { /* scales would depend on it */
        return charl__graph_refuse(b->g, "a convolution with train.products = integer does not take padded sequences; "
                                         "HINT use train.products = fma");
    }
    return charl__conv2d_integer(b->g, x, w, bias, win, (int)c->groups);
}

static charl_var *conv_over_time(const charl_layer_build *b, charl_var *x, charl_var *const param[2],
                                 const charl_window *win)
{
    const charl_conv_config *c = b->settings;
    const charl_shape in = charl_var_get_type(x).shape;
    const int positions = charl__var_positions(x);
    charl_var *w =
        charl_reshape(b->g, param[0], (charl_shape){4, {c->channels, in.dim[1] / c->groups, 1, c->kernel[0]}});

    x = as_sequence(b->g, convolve(b, as_image(b->g, x), w, param[1], win));
    if (c->causal && x && win->padding[1] > 0) { /* the values computed from padding after the sequence */
        x = charl_slice(b->g, x, 2, 0, (in.dim[2] - 1) / c->stride[0] + 1);
    }
    if (x && positions == 2 &&
        charl_var_get_type(x).shape.dim[2] == in.dim[2]) { /* even with causal = yes, which has cut off an end */
        charl__var_set_positions(x, positions);
    }
    return x;
}

/* x with a row of zeros behind those of an axis. */
static charl_var *append_zeros(charl_graph *g, charl_var *x, int axis)
{
    charl_var *both[] = {x, charl_expand_like(g, charl_slice(g, x, axis, 0, 1), charl_constant(g, 0.0F))};

    return charl_concat(g, both, 2, axis);
}

/* Pad x so that the window, with its padding on both sides, has ceil(size / stride) positions. */
static charl_var *pad_same(charl_graph *g, charl_var *x, charl_window *win)
{
    const charl_shape in = charl_var_get_type(x).shape;

    for (int i = 0; i < 2; i++) {
        const int64_t size = in.dim[i + 2], stride = win->stride[i], positions = (size + stride - 1) / stride;
        const int64_t reach = (positions - 1) * stride + (int64_t)(win->kernel[i] - 1) * win->dilation[i] + 1;
        const int64_t zeros = reach > size ? reach - size : 0;

        win->padding[i] = (int)(zeros / 2);
        x = zeros % 2 ? append_zeros(g, x, i + 2) : x;
    }
    return x;
}

static charl_var *build_conv(const charl_layer_build *b, charl_var *x)
{
    const convolution *v = b->type->variant;
    const charl_conv_config *c = b->settings;
    const bool causal = v->dims == 1 && c->causal;
    const int64_t before = (c->kernel[0] - 1) * c->dilation[0];
    charl_window win = window_of(v->dims, c->kernel, c->stride, causal ? &before : c->padding, c->dilation);
    charl_var *param[2];

    if (causal && c->padding[0] >= 0) {
        return charl__graph_refuse(b->g, "conv1d: causal = yes has a padding of its own; leave padding out");
    }
    if (c->same && (c->padding[0] >= 0 || c->padding[1] >= 0)) {
        return charl__graph_refuse(b->g, "conv2d: same = yes has a padding of its own; leave padding out");
    }
    if (!declare(b, x, param)) {
        return NULL;
    }
    if (c->same && v->dims == 2 && !v->transposed) {
        x = pad_same(b->g, x, &win);
    }
    if (v->transposed) {
        charl_conv_transpose_args args = {.win = win, .groups = (int)c->groups};

        for (int i = 0; i < v->dims; i++) {
            args.output_padding[i] = (int)c->output_padding[i];
        }
        x = (v->dims == 2 ? charl_conv_transpose2d : charl_conv_transpose3d)(b->g, x, param[0], param[1], &args);
    } else if (v->dims == 1) {
        x = conv_over_time(b, x, param, &win);
    } else if (v->dims == 2) {
        x = convolve(b, x, param[0], param[1], &win);
    } else {
        x = charl_conv3d(b->g, x, param[0], param[1], &win, (int)c->groups);
    }
    return charl__activate(b->g, c->activation, x);
}

typedef struct pooling {
    int dims;
    charl_var *(*apply)(charl_graph *g, charl_var *x, const charl_window *win);
} pooling;

static charl_var *build_pool(const charl_layer_build *b, charl_var *x)
{
    static const int64_t dilation[] = {1, 1, 1};
    const pooling *v = b->type->variant;
    const charl_pool_config *c = b->settings;
    const charl_window win = window_of(v->dims, c->kernel, c->stride, c->padding, dilation);

    if (v->dims > 1) {
        return v->apply(b->g, x, &win);
    }
    if (charl_var_get_type(x).shape.ndim != 3) {
        return charl__graph_refuse(b->g, "pooling over time needs [batch, channels, time]");
    }
    return as_sequence(b->g, v->apply(b->g, as_image(b->g, x), &win));
}

static charl_var *build_global(const charl_layer_build *b, charl_var *x)
{
    return charl_global_avg_pool(b->g, x);
}

/* clang-format off */
#define KEY(...) CHARL__KEY(charl_conv_config, __VA_ARGS__)
#define KERNEL(kind, most, extents, step) \
    KEY(channels, INT, "[1,1e6]", true, "output channels"), \
    KEY(kernel, kind, "[1," most "]", true, extents " of the kernel"), \
    KEY(stride, kind, "[1," most "]", false, step)
#define GROUPS(kind, most) \
    KEY(dilation, kind, "[1," most "]", false, "spacing of the kernel"), \
    KEY(groups, INT, "[1,1e6]", false, "groups of channels"), \
    KEY(bias, BOOL, NULL, false, "add a bias")
#define ACTIVATION KEY(activation, ACTIVATION, NULL, false, "applied to the output")
#define CONV(kind, extents, what) \
    KERNEL(kind, "1024", extents, "step of the window"), \
    KEY(padding, kind, "[-1,1024]", false, "zeros around the " what "; -1 keeps its size at stride 1 if the kernel is odd"), \
    GROUPS(kind, "1024"), ACTIVATION
#define TRANSPOSED(kind, extents, what) \
    KERNEL(kind, "1024", extents, "factor by which the " what " grows"), \
    KEY(padding, kind, "[0,1024]", false, "cut off around the output"), \
    KEY(output_padding, kind, "[0,1023]", false, "added at the end of the output; less than the stride"), \
    GROUPS(kind, "1024"), ACTIVATION
#define POOL(kind, most, most_padding, extents, where) \
    CHARL__KEY(charl_pool_config, kernel, kind, "[1," most "]", true, extents " of the window"), \
    CHARL__KEY(charl_pool_config, stride, kind, "[0," most "]", false, "step of the window; 0 = kernel"), \
    CHARL__KEY(charl_pool_config, padding, kind, "[0," most_padding "]", false, where)
/* clang-format on */

static const charl_key conv1d_keys[] = {
    KERNEL(INT, "4096", "steps", "step of the window"),
    KEY(padding, INT, "[-1,65536]", false, "zeros at both ends; -1 keeps the length at stride 1 if the kernel is odd"),
    GROUPS(INT, "65536"),
    KEY(causal, BOOL, NULL, false, "a step sees only itself and those before it: all zeros stand in front"),
    ACTIVATION,
};
static const charl_key conv2d_keys[] = {
    CONV(PAIR, "height and width", "image"),
    KEY(init, CHOICE, NULL, false, "initial weights: uniform as PyTorch's default, or kaiming_normal over the fan-out",
        "default|kaiming_normal"),
    KEY(same, BOOL, NULL, false,
        "pad as TensorFlow's SAME: size / stride positions, rounded up; of an odd number of zeros more follow the "
        "image"),
};
static const charl_key conv3d_keys[] = {CONV(TRIPLE, "depth, height and width", "volume")};
static const charl_key conv_transpose2d_keys[] = {TRANSPOSED(PAIR, "height and width", "image")};
static const charl_key conv_transpose3d_keys[] = {TRANSPOSED(TRIPLE, "depth, height and width", "volume")};
static const charl_key pool1d_keys[] = {POOL(INT, "4096", "2048", "steps", "at both ends")};
static const charl_key pool2d_keys[] = {POOL(PAIR, "1024", "512", "height and width", "around the image")};
static const charl_key pool3d_keys[] = {POOL(TRIPLE, "1024", "512", "depth, height and width", "around the volume")};

static const charl_conv_config conv_defaults = {
    .stride = {1, 1, 1}, .padding = {-1, -1, -1}, .dilation = {1, 1, 1}, .groups = 1, .bias = true};
static const charl_conv_config transposed_defaults = {
    .stride = {1, 1, 1}, .dilation = {1, 1, 1}, .groups = 1, .bias = true};
static const charl_pool_config pool_defaults = {.stride = {0, 0, 0}};

/* clang-format off */
#define CONV_LAYER(word, dims, text) \
    CHARL__LAYER(#word, text, build_conv, .variant = &(const convolution){dims, false}, CHARL_DEFAULTS(conv_defaults), \
                 CHARL_KEYS(word##_keys))
#define TRANSPOSED_LAYER(word, dims, text) \
    CHARL__LAYER(#word, text, build_conv, .variant = &(const convolution){dims, true}, CHARL_DEFAULTS(transposed_defaults), \
                 CHARL_KEYS(word##_keys))
#define POOL_LAYER(word, dims, operate, text) \
    CHARL__LAYER(#word, text, build_pool, .variant = &(const pooling){dims, operate}, CHARL_DEFAULTS(pool_defaults), \
                 CHARL_KEYS(pool##dims##d_keys))

const charl_layer_type charl__layer_conv1d = CONV_LAYER(conv1d, 1, "cross-correlation over sequences [B, C, T]");
const charl_layer_type charl__layer_conv2d = CONV_LAYER(conv2d, 2, "cross-correlation over images");
const charl_layer_type charl__layer_conv3d = CONV_LAYER(conv3d, 3, "cross-correlation over volumes [B, C, D, H, W]");
const charl_layer_type charl__layer_conv_transpose2d =
    TRANSPOSED_LAYER(conv_transpose2d, 2, "transposed convolution: images grow by the stride");
const charl_layer_type charl__layer_conv_transpose3d =
    TRANSPOSED_LAYER(conv_transpose3d, 3, "transposed convolution: volumes grow by the stride");
const charl_layer_type charl__layer_max_pool1d =
    POOL_LAYER(max_pool1d, 1, charl_max_pool2d, "largest value of each window over time");
const charl_layer_type charl__layer_avg_pool1d =
    POOL_LAYER(avg_pool1d, 1, charl_avg_pool2d, "mean of each window over time");
const charl_layer_type charl__layer_max_pool2d =
    POOL_LAYER(max_pool2d, 2, charl_max_pool2d, "largest value of each window");
const charl_layer_type charl__layer_avg_pool2d =
    POOL_LAYER(avg_pool2d, 2, charl_avg_pool2d, "mean of each window");
const charl_layer_type charl__layer_max_pool3d =
    POOL_LAYER(max_pool3d, 3, charl_max_pool3d, "largest value of each window of a volume");
const charl_layer_type charl__layer_avg_pool3d =
    POOL_LAYER(avg_pool3d, 3, charl_avg_pool3d, "mean of each window of a volume");
/* clang-format on */
const charl_layer_type charl__layer_global_avg_pool =
    CHARL__LAYER("global_avg_pool", "mean of each channel: [B, C, H, W] or [B, C, D, H, W] -> [B, C]", build_global);
