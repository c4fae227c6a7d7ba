#ifndef CHARL_NN_H
#define CHARL_NN_H
/** Layers and models.
 *
 *      charl_linear_config hidden, output;
 *      charl_model *model = NULL;
 *
 *      check(charl_layer_defaults("linear", &hidden));
 *      check(charl_layer_defaults("linear", &output));
 *      hidden.out = 128;
 *      hidden.activation = "relu";
 *      output.out = 10;
 *      check(charl_model_create(&model));
 *      check(charl_model_add(model, "fc1", "linear", &hidden));
 *      check(charl_model_add(model, "fc2", "linear", &output));
 *      charl_graph_keep(g, charl_model_build(model, g, params, x)); // x [B, 784] gives [B, 10]
 *
 *  A model is a list of named layers, each a type from a registry with a plain struct of settings.
 *  charl_model_build appends the model to a graph; the first time it also declares the parameters,
 *  whose shapes follow from the input. So one model builds a training graph and an evaluation graph
 *  over the same parameters. Names, layouts and default initial values are PyTorch's: layer "fc1" of
 *  type linear has fc1.weight [out, in] and fc1.bias [out].
 */
#include "charl/graph.h"
#include "charl/key.h"

CHARL_BEGIN_DECLS

typedef struct charl_model charl_model;

/* Settings of the layer types. Initialize a struct with charl_layer_defaults, because some defaults are not zero.
 * `activation` is a name of charl_activation_name, or NULL for none. */
typedef struct charl_linear_config {
    int64_t out; /* features; required */
    bool bias;   /* default true */
    const char *activation;
    const char *tie; /* an earlier layer whose weight [out, in] this one shares; default NULL */
    double init_std; /* > 0: weights start normal with this deviation, biases at 0; default 0:
                        uniform as in PyTorch */
    double softcap;  /* C > 0: the output becomes C * tanh(output / C), after the activation; default 0 */
} charl_linear_config;

/** Initial weights of a convolution: as torch.nn.Conv2d, or normal with variance 2 / (channels *
 *  kernel), which keeps the variance of gradients through a ReLU. */
typedef enum charl_conv_init { CHARL_CONV_INIT_DEFAULT, CHARL_CONV_INIT_KAIMING_NORMAL } charl_conv_init;

/** conv1d, conv2d and conv3d, and the transposed conv_transpose2d and conv_transpose3d. An array has a number for each
 *  extent of the window: T; H and W; or D, H and W. The others are not read. */
typedef struct charl_conv_config {
    int64_t channels;  /* output channels; required */
    int64_t kernel[3]; /* required */
    int64_t stride[3]; /* default 1 */
    /* default -1: (kernel - 1) * dilation / 2, which keeps the size if the stride is 1 and the kernel odd; transposed:
     * default 0 */
    int64_t padding[3];
    int64_t output_padding[3]; /* transposed only: default 0; less than the stride */
    int64_t dilation[3];       /* default 1 */
    int64_t groups;            /* default 1 */
    bool bias;                 /* default true */
    /* conv1d only: pad the beginning by (kernel - 1) * dilation and not the end, so that an output depends on its own
     * and earlier steps only; default false */
    bool causal;
    const char *activation;
    charl_conv_init init; /* conv2d only */
    /* conv2d only: pad as TensorFlow's SAME, so that the output has ceil(size / stride) positions; of an odd number of
     * zeros, the larger part follows the image. padding must be -1; default false */
    bool same;
} charl_conv_config;

/** Pooling over one, two or three extents, which are those of charl_conv_config. */
typedef struct charl_pool_config {
    int64_t kernel[3];  /* required */
    int64_t stride[3];  /* default 0: the kernel */
    int64_t padding[3]; /* default 0 */
} charl_pool_config;

typedef enum charl_residual_kind { CHARL_RESIDUAL_BASIC, CHARL_RESIDUAL_BOTTLENECK } charl_residual_kind;

typedef struct charl_residual_block_config {
    charl_residual_kind kind;
    int64_t channels; /* output channels; required */
    int64_t stride;   /* default 1 */
    int64_t width;    /* bottleneck: channels of the 3x3 convolution; default 0: channels / 4 */
    int64_t groups;   /* bottleneck: of the 3x3 convolution; default 1 */
    /* a shortcut with another size is average pooling over stride x stride pixels and a 1x1 convolution of stride 1,
     * named downsample.1 and downsample.2 with its norm, as in timm; default false */
    bool pool_shortcut;
} charl_residual_block_config;

typedef struct charl_norm_config {
    double eps;      /* default 1e-5 */
    double momentum; /* batch_norm only; default 0.1 */
    bool bias;       /* layer_norm only; default true */
    const char *activation;
} charl_norm_config;

typedef struct charl_group_norm_config {
    int64_t groups; /* required */
    double eps;     /* default 1e-5 */
    const char *activation;
} charl_group_norm_config;

typedef struct charl_dropout_config {
    double p; /* probability of zeroing an element, of stochastic_depth a sample, [0, 1); default 0.5 */
} charl_dropout_config;

typedef struct charl_activation_config {
    double slope; /* leaky_relu only; default 0.01 */
    double alpha; /* elu only; default 1 */
} charl_activation_config;

typedef struct charl_embedding_config {
    int64_t vocab;   /* rows of the table; required */
    int64_t dim;     /* required */
    double init_std; /* of the normal initial values; default 1 */
    double scale;    /* factor of the output; default 0: 1 */
} charl_embedding_config;

typedef struct charl_position_embedding_config {
    int64_t block_size; /* rows of the table: longest sequence, if first is 0; required */
    double init_std;    /* of the normal initial values; default 1 */
    int64_t first;      /* row of position 0; default 0 */
} charl_position_embedding_config;

typedef struct charl_segment_embedding_config {
    int64_t segments; /* rows of the table; required */
    double init_std;  /* of the normal initial values; default 1 */
} charl_segment_embedding_config;

/* The values of the keys `norm` and `mlp` of a transformer block. */
typedef enum charl_block_norm { CHARL_BLOCK_LAYER_NORM, CHARL_BLOCK_RMS_NORM } charl_block_norm;
typedef enum charl_rope_scaling_kind {
    CHARL_ROPE_SCALING_NONE,
    CHARL_ROPE_SCALING_LLAMA3, /* Llama 3.1's: see charl_rotary_args */
    CHARL_ROPE_SCALING_LINEAR, /* all angles are divided by `factor`, the only value that counts */
    CHARL_ROPE_SCALING_YARN,   /* see by_pair of charl_rotary_args */
    CHARL_ROPE_SCALING_DYNAMIC /* none up to `original` positions, and longer sequences are an error */
} charl_rope_scaling_kind;
/* Scaling of rotary positions, as in charl_rotary_args. All zero: none. */
typedef struct charl_rope_scaling {
    double factor, low, high;
    int64_t original;
    charl_rope_scaling_kind kind;
    double magnitude; /* YaRN's factor of queries and keys; 0: 0.1 ln(factor) + 1 */
} charl_rope_scaling;
typedef enum charl_block_mlp {
    CHARL_BLOCK_GELU,       /* exact, with erf */
    CHARL_BLOCK_GELU_TANH,  /* GPT-2's approximation */
    CHARL_BLOCK_SWIGLU,     /* Llama's: silu(gate) * up */
    CHARL_BLOCK_GEGLU,      /* gelu(gate) * up */
    CHARL_BLOCK_GEGLU_TANH, /* Gemma's: the same with gelu_tanh */
    CHARL_BLOCK_RELU,
    CHARL_BLOCK_RELU2 /* relu(x)^2 */
} charl_block_mlp;
/* Which values of a branch, attention or mlp, have a norm. */
typedef enum charl_block_norm_at {
    CHARL_BLOCK_NORM_INPUT,  /* the input, as in GPT-2: x + f(norm(x)) */
    CHARL_BLOCK_NORM_OUTPUT, /* the output, as in OLMo 2: x + norm(f(x)) */
    CHARL_BLOCK_NORM_BOTH,   /* as in Gemma 2 */
    CHARL_BLOCK_NORM_SUM     /* the sum, as in BERT: norm(x + f(x)) */
} charl_block_norm_at;
/* RMS norm of queries and keys, before they are rotated. */
typedef enum charl_qk_norm {
    CHARL_QK_NORM_NONE,
    CHARL_QK_NORM_HEAD, /* of each head, with one weight [head_dim] for all queries and one for all keys, as in Qwen3 */
    CHARL_QK_NORM_ALL   /* of all heads of a position together, as in OLMo 2 */
} charl_qk_norm;

/** How a block differs from Llama's or GPT-2's. All zero: in nothing. */
typedef struct charl_block_form {
    charl_block_norm_at norm_at;
    charl_qk_norm qk_norm;
    double rotary_share; /* share of the elements of a head that are rotated, [0, 1]: in halves of a head, the first
                            floor(share * head_dim) / 2 pairs. 0: 1 */
    double scale_dim;    /* scores are divided by its square root; 0: the width of a head */
    double attention_softcap; /* softcap of charl_attention_args; 0: none */
    int64_t attention_window; /* window of charl_attention_args; 0: none */
    bool parallel;            /* attention and mlp of the same x: x + attention(norm(x)) + mlp(norm(x)) */
    bool norm_bias, out_bias,
        mlp_bias; /* of layer norms, of attention's output and of the mlp also where bias is false */
} charl_block_form;

/** A transformer block over x [B, T, C]: x + attention(norm(x)), then x + mlp(norm(x)). With a second input [B, K, any
 *  width] in between x + attention(norm(x)) whose keys and values are projections of that input, as in a decoder. */
typedef struct charl_transformer_block_config {
    int64_t heads;     /* of the queries, C a multiple of it unless head_dim is given; required */
    int64_t kv_heads;  /* of keys and values, a divisor of heads; default 0: heads */
    int64_t hidden;    /* of the mlp; default 0: 4 C, for swiglu 8/3 C rounded up to a multiple of 64 */
    int64_t depth;     /* blocks of the model: the two projections onto the residual path are initialized with
                      init_std / sqrt(2 depth); default 1 */
    int64_t head_dim;  /* width of a head; default 0: C / heads */
    double dropout;    /* of attention weights and of both branches; default 0 */
    double init_std;   /* standard deviation of the initial weights; default 0.02 */
    double norm_eps;   /* of both norms; default 1e-5 */
    double rope_theta; /* base of the angles of rotary positions, > 1; default 10000 */
    charl_rope_scaling rope;
    bool rotary;   /* rotate queries and keys by their position; default false */
    bool causal;   /* a position attends to itself and earlier ones only; default true */
    bool bias;     /* of linear layers and layer norms; default true */
    bool qkv_bias; /* of queries, keys and values also where bias is false; default false */
    charl_block_norm norm;
    charl_block_mlp mlp;
    charl_block_form form;
    double stochastic_depth; /* probability that a sample skips a branch in training, [0, 1); default 0 */
} charl_transformer_block_config;

/** Attention without projections: x holds the queries of all heads, the keys and the values, as in charl_attention; or
 *  x the queries and a second input the keys and values. */
typedef struct charl_attention_config {
    int64_t heads;    /* required */
    int64_t kv_heads; /* of keys and values, a divisor of heads; default 0: heads */
    double dropout;   /* of the attention weights; default 0 */
    bool causal;      /* a position attends to itself and earlier ones only; default false */
} charl_attention_config;

typedef struct charl_class_token_config {
    double init_std; /* of the normal initial values; default 0.02 */
} charl_class_token_config;

/** mean and max; concat, which has no keep. Axis 0 is the batch: axes count from 1, or from -1, the last. */
typedef struct charl_axis_config {
    int64_t axis; /* default 1 */
    bool keep;    /* leave an extent of 1; default false */
} charl_axis_config;

typedef struct charl_slice_config {
    int64_t axis;   /* as in charl_axis_config; default 1 */
    int64_t start;  /* below 0: from the end; default 0 */
    int64_t length; /* default 0: to the end */
} charl_slice_config;

typedef struct charl_reshape_config {
    charl_int_list shape; /* of a row, without the batch; one extent may be -1. Required */
} charl_reshape_config;

typedef struct charl_permute_config {
    charl_int_list order; /* extent i of a row, counted from 1, is extent order[i] of the input. Required */
} charl_permute_config;

typedef enum charl_upsample_mode {
    CHARL_UPSAMPLE_NEAREST,
    CHARL_UPSAMPLE_BILINEAR, /* of images */
    CHARL_UPSAMPLE_TRILINEAR /* of volumes */
} charl_upsample_mode;

typedef struct charl_upsample_config {
    int64_t factor[2]; /* H, W; default 2 */
    int64_t depth;     /* factor of D, for volumes; 0, the default: the factor of H */
    charl_upsample_mode mode;
} charl_upsample_config;

typedef struct charl_rms_norm_config {
    double eps; /* default 1e-5 */
} charl_rms_norm_config;

typedef struct charl_pair_config {
    double temperature; /* the first one; default 0.07 */
} charl_pair_config;

typedef struct charl_fourier_config {
    int64_t octaves; /* default 8 */
} charl_fourier_config;

typedef struct charl_prelu_config {
    bool by_channel; /* a weight for each channel; default: one for all */
    double init;     /* default 0.25 */
} charl_prelu_config;

typedef struct charl_scale_config {
    double init; /* default 1 */
} charl_scale_config;

/** lstm and gru, named as in PyTorch. */
typedef struct charl_recurrent_config {
    int64_t hidden_size; /* required */
    int64_t num_layers;  /* default 1 */
    double dropout;      /* between layers; default 0 */
    bool bias;           /* default true */
    bool last;           /* output the last step only: [B, hidden_size]; default false: [B, T, hidden_size] */
    /* a second network from the last step to the first, whose output follows that of the first: [B, T, 2 hidden_size];
     * with `last` the last step of each network. Default false */
    bool bidirectional;
} charl_recurrent_config;

/** Copy the defaults of `type` to *config (a struct of the type's kind). Local. Errors: ERR_CONFIG
 *  for an unknown type. */
charl_status charl_layer_defaults(const char *type, void *config) CHARL_MUST_CHECK;

/** New model without layers. Owned. Local. Errors: ERR_NOMEM. */
charl_status charl_model_create(charl_model **out) CHARL_MUST_CHECK;
/** NULL is a no-op. Local. */
void charl_model_destroy(charl_model *m);

/** Append a layer. `config` points to the type's settings (copied), NULL for the defaults.
 *  Types: see charl_layer_type_name in charl/layer.h. Local.
 *  Errors: ERR_CONFIG  unknown type, value out of range, name taken
 *          ERR_NOMEM */
charl_status charl_model_add(charl_model *m, const char *name, const char *type, const void *config) CHARL_MUST_CHECK;

/** The name of the model's input, where names of layers are expected. */
#define CHARL_MODEL_INPUT "input"
enum { CHARL_MODEL_MAX_INPUTS = 8 }; /* of a layer */

/** Append a layer that reads the layers named in `inputs` (names of earlier layers, or CHARL_MODEL_INPUT) instead of
 *  the previous one; n_inputs 0: the previous layer. Every layer but the last must be an input of another. Blocks.
 *  Local.
 *  Errors: as charl_model_add; ERR_CONFIG  no such layer, or more or fewer inputs than the type takes */
charl_status charl_model_add_after(charl_model *m, const char *name, const char *type, const void *config,
                                   const char *const *inputs, int n_inputs) CHARL_MUST_CHECK;

/** One of several inputs of a model: elements [first, first + count of shape) of a row. */
typedef struct charl_model_field {
    const char *name; /* layers read it by this name; the first is CHARL_MODEL_INPUT too */
    int64_t first;
    charl_shape shape; /* of a sample */
    bool tokens;       /* converted to i32; otherwise to the precision of the graph */
    /* tokens [T]: a sequence ends before its first negative number; attention to it and means over it leave out the
     * rest */
    bool padded;
} charl_model_field;

/** Give the model several inputs: x of charl_model_build is then f32 [B, ...], whose rows hold all inputs of a sample.
 *  Call it before the first layer. Everything is copied. Blocks. Local.
 *  Errors: ERR_INVALID  there are layers or inputs already, or two inputs of one name
 *          ERR_NOMEM */
charl_status charl_model_set_inputs(charl_model *m, const charl_model_field *inputs, int n) CHARL_MUST_CHECK;

enum { CHARL_MODEL_MAX_OUTPUTS = 8 };

/** One of several outputs of a model. */
typedef struct charl_model_output {
    const char *name, *layer;
    int64_t values; /* that the layer gives for a sample; another number is an error of charl_model_build */
} charl_model_output;

/** Make charl_model_build return the outputs of these layers side by side, f32 [B, sum of values]. Call it after the
 *  last layer. Everything is copied. Blocks. Local.
 *  Errors: ERR_INVALID  they are set already
 *          ERR_CONFIG   no such layer
 *          ERR_NOMEM */
charl_status charl_model_set_outputs(charl_model *m, const charl_model_output *outputs, int n) CHARL_MUST_CHECK;

/** Low-rank adapters (LoRA, Hu et al. 2021): a linear layer with weight W [out, in] computes
 *
 *      out = x @ W^T + bias + alpha / rank * dropout(x) @ A^T @ B^T
 *
 *  A [rank, in] is initialized like the weight of torch.nn.Linear, B [out, rank] with 0, so the adapters change nothing
 *  at first. They are the parameters LAYER.lora_A.weight and LAYER.lora_B.weight. Freeze all others:
 *  charl_params_freeze(set, "*, !*.lora_?.weight", NULL). */
typedef struct charl_lora {
    int64_t rank; /* 0: no adapters */
    double alpha;
    double dropout; /* of the input of the adapters, in training only; [0, 1) */
    /* patterns of names of linear layers, as charl_params_freeze takes them: "*.c_attn, *.c_proj" */
    const char *targets;
    charl_packing base; /* of the frozen weights, for charl_params_pack */
} charl_lora;

/** Add adapters to linear layers of the model. Call it before the first build. `lora` is copied; NULL or rank 0: none.
 *  Blocks. Local.
 *  Errors: ERR_CONFIG  a value out of range
 *          ERR_NOMEM */
charl_status charl_model_set_lora(charl_model *m, const charl_lora *lora) CHARL_MUST_CHECK;

/** Append flatten, then for each entry of hidden: fcI, fc_bnI if batch_norm (fcI then has no bias), fc_actI, and
 *  fc_dropI if dropout > 0; finally a linear layer without activation, named as the next fcI. */
typedef struct charl_mlp_config {
    const int64_t *hidden;
    int n_hidden;
    int64_t outputs;
    const char *activation; /* NULL = relu */
    double dropout;
    bool batch_norm;
} charl_mlp_config;
/** Local. Errors: as charl_model_add. */
charl_status charl_model_add_mlp(charl_model *m, const charl_mlp_config *config) CHARL_MUST_CHECK;

/** Append for each entry of channels: a convolution with "same" padding (without bias if a norm follows), the norm if
 *  head.batch_norm, the activation and 2x2 max pooling; then the mlp `head`. */
typedef struct charl_cnn_config {
    const int64_t *channels;
    int n_channels;
    int64_t kernel; /* odd */
    charl_mlp_config head;
} charl_cnn_config;
/** Local. Errors: as charl_model_add. */
charl_status charl_model_add_cnn(charl_model *m, const charl_cnn_config *config) CHARL_MUST_CHECK;

#define CHARL_RESNET_DEPTHS "18, 34, 50, 101, 152, or for small images 20, 32, 44, 56"

typedef enum charl_resnet_stem {
    CHARL_RESNET_STEM_AUTO,     /* cifar for the depths for small images, else imagenet */
    CHARL_RESNET_STEM_IMAGENET, /* 7x7 convolution of stride 2, 3x3 max pooling of stride 2 */
    CHARL_RESNET_STEM_CIFAR,    /* 3x3 convolution of stride 1 */
    CHARL_RESNET_STEM_DEEP      /* three 3x3 convolutions, the first of stride 2, 3x3 max pooling of stride 2 */
} charl_resnet_stem;

/** Append a residual network with torchvision's names: conv1, bn1, [maxpool], layer1.0 ..., avgpool, fc. Each group has
 *  twice the channels of the previous one; shortcuts between groups are 1x1 convolutions. Initial values are
 *  torchvision's. A bottleneck in a group of C channels has a 3x3 convolution of floor(C * group_width / 64) * groups
 *  channels in as many groups: ResNeXt-50 32x4d has groups = 32 and group_width = 4, Wide ResNet-50-2 group_width =
 *  128. */
typedef struct charl_resnet_config {
    int64_t depth; /* CHARL_RESNET_DEPTHS */
    int64_t width; /* channels of the first group; 0: 64, or 16 for the depths for small images */
    charl_resnet_stem stem;
    int64_t outputs;
    int64_t groups, group_width; /* of bottlenecks; 0: 1, 64 */
    bool pool_shortcut;          /* of charl_residual_block_config */
} charl_resnet_config;
/** Local. Errors: as charl_model_add. */
charl_status charl_model_add_resnet(charl_model *m, const charl_resnet_config *config) CHARL_MUST_CHECK;
/** How a gpt encodes positions. */
typedef enum charl_gpt_positions {
    CHARL_GPT_LEARNED, /* an embedding per position, added to the token's */
    CHARL_GPT_ROTARY   /* queries and keys are rotated */
} charl_gpt_positions;

/** Families of published models, in whose layout a gpt is read and exported; AUTO: the first that has its settings. */
typedef enum charl_gpt_family {
    CHARL_GPT_AUTO,
    CHARL_GPT_GEMMA,
    CHARL_GPT_GEMMA2,
    CHARL_GPT_GEMMA3_TEXT,
    CHARL_GPT_GPT2,
    CHARL_GPT_GPT_NEOX,
    CHARL_GPT_LLAMA,
    CHARL_GPT_MISTRAL,
    CHARL_GPT_OLMO2,
    CHARL_GPT_PHI3,
    CHARL_GPT_QWEN2,
    CHARL_GPT_QWEN3,
    CHARL_GPT_SMOLLM3,
    CHARL_GPT_STABLELM
} charl_gpt_family;

/** Append GPT-2 or, with rms norm, swiglu and rotary positions, a model like Llama: wte; wpe if positions are learned;
 *  drop; blocks h.0, h.1, ...; ln_f; lm_head, which shares wte.weight if tie_weights. The input is tokens i32 [B, T],
 *  the output logits [B, T, vocab]. Names are nanoGPT's, initial values GPT-2's. */
typedef struct charl_gpt_config {
    int64_t n_layer, n_head;
    int64_t n_kv_head;  /* 0: n_head */
    int64_t n_embd;     /* a multiple of n_head, unless head_dim is given */
    int64_t head_dim;   /* 0: n_embd / n_head */
    int64_t hidden;     /* of the mlp; 0: as charl_transformer_block_config */
    int64_t block_size; /* positions of wpe */
    int64_t vocab;
    double dropout;
    double norm_eps;   /* 0: 1e-5 */
    double rope_theta; /* 0: 10000 */
    charl_rope_scaling rope;
    bool bias, tie_weights;
    bool qkv_bias; /* queries, keys and values have biases even if bias is false, as in Qwen2 */
    charl_block_norm norm;
    charl_block_mlp mlp;
    charl_gpt_positions positions;
    charl_block_form form;
    bool scale_embedding; /* multiply token embeddings by sqrt(n_embd), as in Gemma */
    double logit_softcap; /* of lm_head, as charl_linear_config; 0: none */
    /* N > 0: blocks N - 1, 2 N - 1, ... have no attention_window; no rotation */
    int64_t full_attention_every, unrotated_every;
    double rope_window_theta; /* > 0: of blocks with a window in place of rope_theta and rope */
    charl_gpt_family family;
} charl_gpt_config;
/** Local. Errors: as charl_model_add; ERR_CONFIG  widths are not multiples of the numbers of heads. */
charl_status charl_model_add_gpt(charl_model *m, const charl_gpt_config *config) CHARL_MUST_CHECK;

/** Number of layers; name of the i-th. Borrowed. Local. */
int charl_model_get_count(const charl_model *m);
const char *charl_model_get_layer_name(const charl_model *m, int i);

/** Append the model to g, with x [B, ...] BATCHED as input and parameters in `set`, NULL: the set that g trains
 *  (charl_graph_set_trained, which a learner has called). Returns the output, borrowed from g, or NULL after an error,
 *  which charl_graph_compile returns with the name of the layer. Local. */
charl_var *charl_model_build(const charl_model *m, charl_graph *g, charl_params *set, charl_var *x);

/** Append one layer, without a model: the layer `name` of a type, as charl_model_add has it, with its parameters in
 *  `set`, to which the first call adds them; NULL as above. A network is then a function of calls:
 *
 *      const charl_linear_config hidden = {.out = 32, .bias = true, .activation = "tanh"};
 *      const charl_linear_config one = {.out = 1, .bias = true};
 *
 *      x = charl_layer_apply(g, params, "fc1", "linear", &hidden, x);
 *      x = charl_layer_apply(g, params, "fc2", "linear", &one, x);
 *
 *  Returns the output, borrowed from g, or NULL after an error, which charl_graph_compile returns. Local. */
charl_var *charl_layer_apply(charl_graph *g, charl_params *set, const char *name, const char *type, const void *config,
                             charl_var *x);

/** Name of activation i = 0, 1, ...; NULL after the last. Static storage. Local. */
const char *charl_activation_name(int i);

CHARL_END_DECLS

#endif
