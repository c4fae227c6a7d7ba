/* Layer types: names, shapes, initial values, gradients, what their inputs may be. */
#include "support/on_device.h"

#include <math.h>
#include <string.h>

#include "charl/layer.h"
#include "charl/ops.h"
#include "nn/net.h"

enum { MAX_PARAMS = 20 };

typedef struct expected_param {
    const char *name;
    charl_shape shape;
    double bound; /* of a uniform start; 0: constant */
    float constant;
    bool is_buffer;
    double deviation; /* of a normal start */
} expected_param;

static const charl_linear_config linear = {.out = 50, .bias = true, .activation = "silu"};
static const charl_conv_config conv = {.channels = 8,
                                       .kernel = {3, 5},
                                       .stride = {2, 1},
                                       .padding = {-1, 0},
                                       .dilation = {1, 1},
                                       .groups = 2,
                                       .bias = true,
                                       .activation = "relu"};
static const charl_conv_config same = {.channels = 8,
                                       .kernel = {3, 3},
                                       .stride = {2, 2},
                                       .padding = {-1, -1},
                                       .dilation = {1, 1},
                                       .groups = 1,
                                       .init = CHARL_CONV_INIT_KAIMING_NORMAL,
                                       .same = true};
static const charl_conv_config kaiming = {.channels = 8,
                                          .kernel = {3, 3},
                                          .stride = {1, 1},
                                          .padding = {-1, -1},
                                          .dilation = {1, 1},
                                          .groups = 1,
                                          .init = CHARL_CONV_INIT_KAIMING_NORMAL};
static const charl_residual_block_config plain = {.channels = 4, .stride = 1, .groups = 1},
                                         resnext = {CHARL_RESIDUAL_BOTTLENECK, .channels = 8, .stride = 2, .width = 4,
                                                    .groups = 2};
static const charl_pool_config pool = {.kernel = {2, 2}};
static const charl_pool_config wide = {.kernel = {3, 3}, .stride = {1, 2}, .padding = {1, 1}};

static const charl_reshape_config rows_of_6 = {.shape = {2, {6, -1}}};
static const charl_permute_config swapped = {.order = {2, {2, 1}}}, twice_1 = {.order = {2, {1, 1}}};
static const charl_slice_config tail = {.axis = -1, .start = -2}, beyond = {.axis = 1, .start = 2, .length = 9},
                                of_batch = {.axis = 0};
static const charl_axis_config over_last = {.axis = -1, .keep = true}, over_batch = {.axis = 0};
static const charl_upsample_config larger = {.factor = {2, 3}, .mode = CHARL_UPSAMPLE_BILINEAR};
static const charl_class_token_config token = {.init_std = 0.5};
static const charl_attention_config heads = {.heads = 3, .kv_heads = 3};
static const charl_conv_config conv_1d = {.channels = 8,
                                          .kernel = {3},
                                          .stride = {2},
                                          .padding = {-1},
                                          .dilation = {1},
                                          .groups = 2,
                                          .bias = true,
                                          .activation = "gelu"},
                               conv_causal = {.channels = 4,
                                              .kernel = {3},
                                              .stride = {1},
                                              .padding = {-1},
                                              .dilation = {2},
                                              .groups = 1,
                                              .causal = true};
static const charl_conv_config conv_3d = {.channels = 6,
                                          .kernel = {3, 2, 3},
                                          .stride = {2, 1, 1},
                                          .padding = {-1, 1, 0},
                                          .dilation = {1, 1, 2},
                                          .groups = 2,
                                          .bias = true,
                                          .activation = "relu"};
static const charl_conv_config up_3d = {.channels = 3,
                                        .kernel = {3, 2, 2},
                                        .stride = {2, 2, 1},
                                        .padding = {1, 0, 1},
                                        .output_padding = {1, 0, 0},
                                        .dilation = {1, 1, 1},
                                        .groups = 1,
                                        .bias = true};
static const charl_pool_config pool_3d = {.kernel = {2, 3, 2}, .stride = {0, 1, 2}, .padding = {0, 1, 0}};
static const charl_upsample_config deeper = {.factor = {2, 1}, .depth = 3, .mode = CHARL_UPSAMPLE_TRILINEAR},
                                   flat_only = {.factor = {2, 2}, .mode = CHARL_UPSAMPLE_BILINEAR};
static const charl_pool_config pool_1d = {.kernel = {3}, .stride = {2}, .padding = {1}};

/* Parameters of a convolution, and of the batch norm after it. */
#define KAIMING(name, deviation, ...)                                                                                  \
    {                                                                                                                  \
        name, {4, {__VA_ARGS__}}, 0, 0, false, deviation                                                               \
    }
#define NORM(prefix, n)                                                                                                \
    {prefix ".weight", {1, {n}}, 0, 1.0F, false, 0}, {prefix ".bias", {1, {n}}, 0, 0, false, 0},                       \
        {prefix ".running_mean", {1, {n}}, 0, 0, true, 0},                                                             \
    {                                                                                                                  \
        prefix ".running_var", {1, {n}}, 0, 1.0F, true, 0                                                              \
    }

static const charl_embedding_config embedding = {.vocab = 40, .dim = 12, .init_std = 0.02};
static const charl_position_embedding_config position = {.block_size = 9, .init_std = 1.0};

static const charl_position_embedding_config shifted = {.block_size = 9, .init_std = 1.0, .first = 2};
static const charl_segment_embedding_config segments = {.segments = 3, .init_std = 1.0};

static const charl_conv_config up = {.channels = 3,
                                     .kernel = {3, 2},
                                     .stride = {2, 1},
                                     .padding = {1, 0},
                                     .output_padding = {1, 0},
                                     .dilation = {1, 1},
                                     .groups = 1,
                                     .bias = true};
static const charl_group_norm_config pairs = {.groups = 3, .eps = 1e-5};
static const charl_scale_config tenth = {.init = 0.1F};
static const charl_prelu_config by_channel = {.by_channel = true, .init = 0.1F};
static const charl_recurrent_config stacked = {.hidden_size = 16, .num_layers = 2, .dropout = 0.25, .bias = true},
                                    one = {.hidden_size = 4, .num_layers = 1, .last = true},
                                    both_ways = {
                                        .hidden_size = 4, .num_layers = 2, .last = true, .bidirectional = true};
static const charl_transformer_block_config gpt2 = {
    .heads = 2, .depth = 2, .init_std = 0.02, .rope_theta = 10000, .causal = true, .bias = true};
static const charl_transformer_block_config llama = {.heads = 2,
                                                     .kv_heads = 1,
                                                     .hidden = 6,
                                                     .depth = 1,
                                                     .init_std = 0.5,
                                                     .rope_theta = 10000,
                                                     .rotary = true,
                                                     .causal = true,
                                                     .mlp = CHARL_BLOCK_SWIGLU};

static const charl_transformer_block_config rms_block = {
    .heads = 2, .depth = 1, .init_std = 0.5, .rope_theta = 10000, .causal = true, .norm = CHARL_BLOCK_RMS_NORM};

/* What descends from Llama. */
static const charl_transformer_block_config olmo2 = {.heads = 2,
                                                     .kv_heads = 1,
                                                     .hidden = 6,
                                                     .depth = 1,
                                                     .init_std = 0.5,
                                                     .rope_theta = 10000,
                                                     .rotary = true,
                                                     .causal = true,
                                                     .norm = CHARL_BLOCK_RMS_NORM,
                                                     .mlp = CHARL_BLOCK_GEGLU,
                                                     .form = {.norm_at = CHARL_BLOCK_NORM_BOTH,
                                                              .qk_norm = CHARL_QK_NORM_ALL,
                                                              .rotary_share = 0.5,
                                                              .scale_dim = 9,
                                                              .attention_softcap = 3,
                                                              .attention_window = 2,
                                                              .out_bias = true}};
static const charl_transformer_block_config neox = {
    .heads = 2,
    .depth = 1,
    .init_std = 0.5,
    .rope_theta = 10000,
    .causal = true,
    .mlp = CHARL_BLOCK_RELU2,
    .form = {.qk_norm = CHARL_QK_NORM_HEAD, .parallel = true, .norm_bias = true, .mlp_bias = true}};

static const struct layer_case {
    const char *type;
    const void *config;
    charl_shape in, out; /* without the batch extent */
    expected_param param[MAX_PARAMS];
    bool tokens; /* the input is i32 */
} layers[] = {
    {"linear",
     &linear,
     {1, {64}},
     {1, {50}},
     {{"l.weight", {2, {50, 64}}, 0.125, 0, false}, {"l.bias", {1, {50}}, 0.125, 0, false}}},
    {"linear", /* over the last extent of more than two */
     &linear,
     {2, {3, 64}},
     {2, {3, 50}},
     {{"l.weight", {2, {50, 64}}, 0.125, 0, false}, {"l.bias", {1, {50}}, 0.125, 0, false}}},
    {"conv2d",
     &conv,
     {3, {4, 7, 9}},
     {3, {8, 4, 5}},
     {{"l.weight", {4, {8, 2, 3, 5}}, 0.18257418583505536, 0, false},
      {"l.bias", {1, {8}}, 0.18257418583505536, 0, false}}},
    {"batch_norm",
     NULL,
     {3, {3, 4, 4}},
     {3, {3, 4, 4}},
     {{"l.weight", {1, {3}}, 0, 1.0F, false},
      {"l.bias", {1, {3}}, 0, 0.0F, false},
      {"l.running_mean", {1, {3}}, 0, 0.0F, true},
      {"l.running_var", {1, {3}}, 0, 1.0F, true}}},
    {"layer_norm",
     NULL,
     {2, {3, 7}},
     {2, {3, 7}},
     {{"l.weight", {1, {7}}, 0, 1.0F, false}, {"l.bias", {1, {7}}, 0, 0.0F, false}}},
    {"conv_transpose2d",
     &up,
     {3, {4, 5, 4}},
     {3, {3, 10, 5}},
     {{"l.weight", {4, {4, 3, 3, 2}}, 0.23570226039551584, 0, false},
      {"l.bias", {1, {3}}, 0.23570226039551584, 0, false}}},
    {"group_norm",
     &pairs,
     {3, {6, 4, 4}},
     {3, {6, 4, 4}},
     {{"l.weight", {1, {6}}, 0, 1.0F, false}, {"l.bias", {1, {6}}, 0, 0.0F, false}}},
    {"rms_norm", NULL, {2, {3, 7}}, {2, {3, 7}}, {{"l.weight", {1, {7}}, 0, 1.0F, false}}},
    {"scale", &tenth, {2, {3, 7}}, {2, {3, 7}}, {{"l.weight", {1, {7}}, 0, 0.1F, false}}},
    {"max_pool2d", &pool, {3, {2, 6, 5}}, {3, {2, 3, 2}}, {{0}}},
    {"max_pool2d", &wide, {3, {2, 6, 5}}, {3, {2, 6, 3}}, {{0}}},
    {"avg_pool2d", &wide, {3, {2, 6, 5}}, {3, {2, 6, 3}}, {{0}}},
    {"conv2d",
     &same,
     {3, {4, 5, 6}},
     {3, {8, 3, 3}},
     {{"l.weight", {4, {8, 4, 3, 3}}, 0, 0, false, 0.16666666666666666}}},
    {"conv2d",
     &kaiming,
     {3, {4, 5, 5}},
     {3, {8, 5, 5}},
     {{"l.weight", {4, {8, 4, 3, 3}}, 0, 0, false, 0.16666666666666666}}},
    {"residual_block",
     &plain,
     {3, {4, 5, 5}},
     {3, {4, 5, 5}},
     {KAIMING("l.conv1.weight", 0.23570226039551584, 4, 4, 3, 3), NORM("l.bn1", 4),
      KAIMING("l.conv2.weight", 0.23570226039551584, 4, 4, 3, 3), NORM("l.bn2", 4)}},
    {"residual_block",
     &resnext,
     {3, {6, 5, 5}},
     {3, {8, 3, 3}},
     {KAIMING("l.conv1.weight", 0.70710678118654757, 4, 6, 1, 1), NORM("l.bn1", 4),
      KAIMING("l.conv2.weight", 0.23570226039551584, 4, 2, 3, 3), NORM("l.bn2", 4),
      KAIMING("l.conv3.weight", 0.5, 8, 4, 1, 1), NORM("l.bn3", 8), KAIMING("l.downsample.0.weight", 0.5, 8, 6, 1, 1),
      NORM("l.downsample.1", 8)}},
    {"global_avg_pool", NULL, {3, {2, 6, 5}}, {1, {2}}, {{0}}},
    {"flatten", NULL, {3, {2, 6, 5}}, {1, {60}}, {{0}}},
    {"dropout", NULL, {1, {40}}, {1, {40}}, {{0}}},
    {"stochastic_depth", NULL, {2, {3, 40}}, {2, {3, 40}}, {{0}}},
    {.type = "transformer_block",
     .config = &gpt2,
     .in = {2, {5, 4}},
     .out = {2, {5, 4}},
     .param = {{.name = "l.ln_1.weight", .shape = {1, {4}}, .constant = 1.0F},
               {.name = "l.ln_1.bias", .shape = {1, {4}}},
               {.name = "l.attn.c_attn.weight", .shape = {2, {12, 4}}, .deviation = 0.02},
               {.name = "l.attn.c_attn.bias", .shape = {1, {12}}},
               {.name = "l.attn.c_proj.weight", .shape = {2, {4, 4}}, .deviation = 0.01},
               {.name = "l.attn.c_proj.bias", .shape = {1, {4}}},
               {.name = "l.ln_2.weight", .shape = {1, {4}}, .constant = 1.0F},
               {.name = "l.ln_2.bias", .shape = {1, {4}}},
               {.name = "l.mlp.c_fc.weight", .shape = {2, {16, 4}}, .deviation = 0.02},
               {.name = "l.mlp.c_fc.bias", .shape = {1, {16}}},
               {.name = "l.mlp.c_proj.weight", .shape = {2, {4, 16}}, .deviation = 0.01},
               {.name = "l.mlp.c_proj.bias", .shape = {1, {4}}}}},
    {.type = "transformer_block", /* shared keys, turned by position, gated, without biases */
     .config = &llama,
     .in = {2, {5, 8}},
     .out = {2, {5, 8}},
     .param = {{.name = "l.ln_1.weight", .shape = {1, {8}}, .constant = 1.0F},
               {.name = "l.attn.c_attn.weight", .shape = {2, {16, 8}}, .deviation = 0.5},
               {.name = "l.attn.c_proj.weight", .shape = {2, {8, 8}}, .deviation = 0.35355339059327379},
               {.name = "l.ln_2.weight", .shape = {1, {8}}, .constant = 1.0F},
               {.name = "l.mlp.c_fc.weight", .shape = {2, {12, 8}}, .deviation = 0.5},
               {.name = "l.mlp.c_proj.weight", .shape = {2, {8, 6}}, .deviation = 0.35355339059327379}}},
    {.type = "transformer_block", /* normalised without a mean */
     .config = &rms_block,
     .in = {2, {5, 8}},
     .out = {2, {5, 8}},
     .param = {{.name = "l.ln_1.weight", .shape = {1, {8}}, .constant = 1.0F},
               {.name = "l.attn.c_attn.weight", .shape = {2, {24, 8}}, .deviation = 0.5},
               {.name = "l.attn.c_proj.weight", .shape = {2, {8, 8}}, .deviation = 0.35355339059327379},
               {.name = "l.ln_2.weight", .shape = {1, {8}}, .constant = 1.0F},
               {.name = "l.mlp.c_fc.weight", .shape = {2, {32, 8}}, .deviation = 0.5},
               {.name = "l.mlp.c_proj.weight", .shape = {2, {8, 32}}, .deviation = 0.35355339059327379}}},
    {.type = "transformer_block", /* norms of the output and of all queries together, half of a head is turned */
     .config = &olmo2,
     .in = {2, {5, 8}},
     .out = {2, {5, 8}},
     .param = {{.name = "l.ln_1.weight", .shape = {1, {8}}, .constant = 1.0F},
               {.name = "l.attn.c_attn.weight", .shape = {2, {16, 8}}, .deviation = 0.5},
               {.name = "l.attn.q_norm.weight", .shape = {1, {8}}, .constant = 1.0F},
               {.name = "l.attn.k_norm.weight", .shape = {1, {4}}, .constant = 1.0F},
               {.name = "l.attn.c_proj.weight", .shape = {2, {8, 8}}, .deviation = 0.35355339059327379},
               {.name = "l.attn.c_proj.bias", .shape = {1, {8}}},
               {.name = "l.ln_1_out.weight", .shape = {1, {8}}, .constant = 1.0F},
               {.name = "l.ln_2.weight", .shape = {1, {8}}, .constant = 1.0F},
               {.name = "l.mlp.c_fc.weight", .shape = {2, {12, 8}}, .deviation = 0.5},
               {.name = "l.mlp.c_proj.weight", .shape = {2, {8, 6}}, .deviation = 0.35355339059327379},
               {.name = "l.ln_2_out.weight", .shape = {1, {8}}, .constant = 1.0F}}},
    {.type = "transformer_block", /* attention and mlp side by side */
     .config = &neox,
     .in = {2, {5, 8}},
     .out = {2, {5, 8}},
     .param = {{.name = "l.ln_1.weight", .shape = {1, {8}}, .constant = 1.0F},
               {.name = "l.ln_1.bias", .shape = {1, {8}}},
               {.name = "l.attn.c_attn.weight", .shape = {2, {24, 8}}, .deviation = 0.5},
               {.name = "l.attn.q_norm.weight", .shape = {1, {4}}, .constant = 1.0F},
               {.name = "l.attn.k_norm.weight", .shape = {1, {4}}, .constant = 1.0F},
               {.name = "l.attn.c_proj.weight", .shape = {2, {8, 8}}, .deviation = 0.35355339059327379},
               {.name = "l.ln_2.weight", .shape = {1, {8}}, .constant = 1.0F},
               {.name = "l.ln_2.bias", .shape = {1, {8}}},
               {.name = "l.mlp.c_fc.weight", .shape = {2, {32, 8}}, .deviation = 0.5},
               {.name = "l.mlp.c_fc.bias", .shape = {1, {32}}},
               {.name = "l.mlp.c_proj.weight", .shape = {2, {8, 32}}, .deviation = 0.35355339059327379},
               {.name = "l.mlp.c_proj.bias", .shape = {1, {8}}}}},
    {.type = "embedding",
     .config = &embedding,
     .in = {1, {7}},
     .out = {2, {7, 12}},
     .param = {{.name = "l.weight", .shape = {2, {40, 12}}, .deviation = 0.02}},
     .tokens = true},
    {.type = "position_embedding",
     .config = &position,
     .in = {2, {7, 12}},
     .out = {2, {7, 12}},
     .param = {{.name = "l.weight", .shape = {2, {9, 12}}, .deviation = 1.0}}},
    {.type = "position_embedding",
     .config = &position,
     .in = {2, {9, 12}},
     .out = {2, {9, 12}},
     .param = {{.name = "l.weight", .shape = {2, {9, 12}}, .deviation = 1.0}}},
    {.type = "position_embedding",
     .config = &shifted,
     .in = {2, {6, 12}},
     .out = {2, {6, 12}},
     .param = {{.name = "l.weight", .shape = {2, {9, 12}}, .deviation = 1.0}}},
    {.type = "segment_embedding",
     .config = &segments,
     .in = {2, {7, 12}},
     .out = {2, {7, 12}},
     .param = {{.name = "l.weight", .shape = {2, {3, 12}}, .deviation = 1.0}}},
    {"lstm",
     &stacked,
     {2, {5, 3}},
     {2, {5, 16}},
     {{"l.weight_ih_l0", {2, {64, 3}}, 0.25, 0, false},
      {"l.weight_hh_l0", {2, {64, 16}}, 0.25, 0, false},
      {"l.bias_ih_l0", {1, {64}}, 0.25, 0, false},
      {"l.bias_hh_l0", {1, {64}}, 0.25, 0, false},
      {"l.weight_ih_l1", {2, {64, 16}}, 0.25, 0, false},
      {"l.weight_hh_l1", {2, {64, 16}}, 0.25, 0, false},
      {"l.bias_ih_l1", {1, {64}}, 0.25, 0, false},
      {"l.bias_hh_l1", {1, {64}}, 0.25, 0, false}}},
    {"lstm", /* the rows of an image */
     &one,
     {3, {1, 5, 3}},
     {1, {4}},
     {{"l.weight_ih_l0", {2, {16, 3}}, 0.5, 0, false}, {"l.weight_hh_l0", {2, {16, 4}}, 0.5, 0, false}}},
    {"gru",
     &stacked,
     {2, {5, 3}},
     {2, {5, 16}},
     {{"l.weight_ih_l0", {2, {48, 3}}, 0.25, 0, false},
      {"l.weight_hh_l0", {2, {48, 16}}, 0.25, 0, false},
      {"l.bias_ih_l0", {1, {48}}, 0.25, 0, false},
      {"l.bias_hh_l0", {1, {48}}, 0.25, 0, false},
      {"l.weight_ih_l1", {2, {48, 16}}, 0.25, 0, false},
      {"l.weight_hh_l1", {2, {48, 16}}, 0.25, 0, false},
      {"l.bias_ih_l1", {1, {48}}, 0.25, 0, false},
      {"l.bias_hh_l1", {1, {48}}, 0.25, 0, false}}},
    {"gru",
     &one,
     {2, {1, 3}}, /* a single step */
     {1, {4}},
     {{"l.weight_ih_l0", {2, {12, 3}}, 0.5, 0, false}, {"l.weight_hh_l0", {2, {12, 4}}, 0.5, 0, false}}},
    {"gru", /* from both ends */
     &both_ways,
     {2, {5, 3}},
     {1, {8}},
     {{"l.weight_ih_l0", {2, {12, 3}}, 0.5, 0, false},
      {"l.weight_hh_l0", {2, {12, 4}}, 0.5, 0, false},
      {"l.weight_ih_l0_reverse", {2, {12, 3}}, 0.5, 0, false},
      {"l.weight_hh_l0_reverse", {2, {12, 4}}, 0.5, 0, false},
      {"l.weight_ih_l1", {2, {12, 8}}, 0.5, 0, false},
      {"l.weight_hh_l1", {2, {12, 4}}, 0.5, 0, false},
      {"l.weight_ih_l1_reverse", {2, {12, 8}}, 0.5, 0, false},
      {"l.weight_hh_l1_reverse", {2, {12, 4}}, 0.5, 0, false}}},
    {"relu", NULL, {1, {5}}, {1, {5}}, {{0}}},
    {"relu6", NULL, {1, {5}}, {1, {5}}, {{0}}},
    {"hardsigmoid", NULL, {1, {5}}, {1, {5}}, {{0}}},
    {"hardswish", NULL, {1, {5}}, {1, {5}}, {{0}}},
    {"leaky_relu", NULL, {1, {5}}, {1, {5}}, {{0}}},
    {"prelu", NULL, {1, {5}}, {1, {5}}, {{"l.weight", {1, {1}}, 0, 0.25F, false}}},
    {"prelu", &by_channel, {3, {3, 2, 5}}, {3, {3, 2, 5}}, {{"l.weight", {1, {3}}, 0, 0.1F, false}}},
    {"elu", NULL, {1, {5}}, {1, {5}}, {{0}}},
    {"sigmoid", NULL, {1, {5}}, {1, {5}}, {{0}}},
    {"tanh", NULL, {1, {5}}, {1, {5}}, {{0}}},
    {"gelu", NULL, {1, {5}}, {1, {5}}, {{0}}},
    {"gelu_tanh", NULL, {1, {5}}, {1, {5}}, {{0}}},
    {"silu", NULL, {1, {5}}, {1, {5}}, {{0}}},
    {"softplus", NULL, {1, {5}}, {1, {5}}, {{0}}},
    {"swiglu", NULL, {2, {3, 10}}, {2, {3, 5}}, {{0}}},
    {"reshape", &rows_of_6, {2, {4, 9}}, {2, {6, 6}}, {{0}}},
    {"permute", &swapped, {2, {3, 5}}, {2, {5, 3}}, {{0}}},
    {"slice", &tail, {2, {3, 5}}, {2, {3, 2}}, {{0}}},
    {"mean", &over_last, {2, {3, 5}}, {2, {3, 1}}, {{0}}},
    {"mean", NULL, {3, {3, 5, 2}}, {2, {5, 2}}, {{0}}},
    {"max", NULL, {2, {3, 5}}, {1, {5}}, {{0}}},
    {"upsample", &larger, {3, {2, 3, 4}}, {3, {2, 6, 12}}, {{0}}},
    {"upsample", NULL, {3, {2, 3, 4}}, {3, {2, 6, 8}}, {{0}}},
    {"class_token", &token, {2, {5, 60}}, {2, {6, 60}}, {{"l.weight", {1, {60}}, 0, 0, false, 0.5}}},
    {"attention", &heads, {2, {5, 36}}, {2, {5, 12}}, {{0}}},
    {"conv1d",
     &conv_1d,
     {2, {4, 9}},
     {2, {8, 5}},
     {{"l.weight", {3, {8, 2, 3}}, 0.40824829, 0, false}, {"l.bias", {1, {8}}, 0.40824829, 0, false}}},
    {"conv3d",
     &conv_3d,
     {4, {4, 5, 4, 7}},
     {4, {6, 3, 5, 3}},
     {{"l.weight", {5, {6, 2, 3, 2, 3}}, 0.16666667, 0, false}, {"l.bias", {1, {6}}, 0.16666667, 0, false}}},
    {"conv_transpose3d",
     &up_3d,
     {4, {4, 2, 3, 4}},
     {4, {3, 4, 6, 3}},
     {{"l.weight", {5, {4, 3, 3, 2, 2}}, 0.16666667, 0, false}, {"l.bias", {1, {3}}, 0.16666667, 0, false}}},
    {"max_pool3d", &pool_3d, {4, {2, 4, 5, 6}}, {4, {2, 2, 5, 3}}, {{0}}},
    {"avg_pool3d", &pool_3d, {4, {2, 4, 5, 6}}, {4, {2, 2, 5, 3}}, {{0}}},
    {"upsample", &deeper, {4, {2, 2, 3, 4}}, {4, {2, 6, 6, 4}}, {{0}}},
    {"global_avg_pool", NULL, {4, {2, 2, 3, 4}}, {1, {2}}, {{0}}},
    {"conv1d", &conv_causal, {2, {2, 9}}, {2, {4, 9}}, {{"l.weight", {3, {4, 2, 3}}, 0.40824829, 0, false}}},
    {"max_pool1d", &pool_1d, {2, {3, 9}}, {2, {3, 5}}, {{0}}},
    {"avg_pool1d", &pool_1d, {2, {3, 9}}, {2, {3, 5}}, {{0}}},
};

static void check_initial_value(const charl_params *set, const expected_param *want)
{
    const charl_param *p = charl_params_find(set, want->name);
    const int64_t n = charl_shape_count(&want->shape);
    double largest = 0.0, squares = 0.0;
    float *v;

    assert_non_null(p);
    assert_true(charl_shape_equal(&charl_param_get_spec(p)->shape, &want->shape));
    assert_int_equal(charl_param_get_spec(p)->trainable, !want->is_buffer);
    v = charl_test_array(n, sizeof *v);
    charl_assert_ok(charl_param_read(p, v));
    for (int64_t i = 0; i < n; i++) {
        assert_true(want->bound > 0.0 || want->deviation > 0.0 || v[i] == want->constant);
        largest = fmax(largest, fabs((double)v[i]));
        squares += (double)v[i] * (double)v[i];
    }
    if (want->deviation > 0.0) { /* within four standard errors */
        const double ratio = sqrt(squares / (double)n) / want->deviation;

        assert_true(fabs(ratio - 1.0) < 4.0 / sqrt(2.0 * (double)n));
        assert_true(largest > want->deviation); /* not a uniform start: that ends at 1.7 of it */
    }
    if (want->bound > 0.0) { /* fills the range of PyTorch's default, and no more */
        assert_true(largest <= want->bound * (1.0 + 1e-6));
        assert_true(largest > want->bound * (n > 100 ? 0.95 : 0.6));
    }
    charl_free(v);
}

/* The gradient of v is finite, and not zero everywhere. */
static void check_gradient(const charl_var *v)
{
    const charl_shape shape = charl_var_get_type(v).shape;
    float *grad = values_of(charl_var_get_tensor(charl_var_get_gradient(v)));
    bool any = false;

    for (int64_t i = 0; i < charl_shape_count(&shape); i++) {
        assert_true(isfinite(grad[i]));
        any = any || grad[i] != 0.0F;
    }
    assert_true(any);
    charl_free(grad);
}

/* Build, compile and run one training step of the layer: every gradient is there and finite. */
static void check_layer(const struct layer_case *c)
{
    net n;
    charl_shape want = batch_of(c->out), have;
    charl_var *rows, *target;
    float loss;
    int n_params = 0;

    net_init(&n);
    charl_assert_ok(charl_model_add(n.model, "l", c->type, c->config));
    c->tokens ? net_build_tokens(&n, c->in) : net_build(&n, c->in);
    charl_assert_ok(charl_graph_status(n.g));
    have = charl_var_get_type(n.out).shape;
    assert_true(charl_shape_equal(&have, &want));
    assert_int_equal(charl_var_get_type(n.out).batch, CHARL_BATCHED);
    rows = charl_flatten(n.g, n.out);
    target = charl_input(n.g, "target", CHARL_F32, charl_var_get_type(rows).shape, CHARL_BATCHED);
    n.loss = charl_batch_mean(n.g, charl_mse(n.g, charl_scale(n.g, rows, 1.0F, 0.3F), target));
    charl_graph_keep(n.g, n.loss);
    charl_graph_backward(n.g, n.loss, NULL);
    charl_assert_ok(charl_graph_compile(n.g));
    charl_assert_ok(charl_params_initialize(n.params, 1));
    for (; n_params < MAX_PARAMS && c->param[n_params].name; n_params++) {
        check_initial_value(n.params, &c->param[n_params]);
    }
    assert_int_equal(charl_params_get_count(n.params), n_params);
    if (!c->tokens) {
        write_input(&n);
    }
    charl_assert_ok(charl_graph_warm_up(n.g));
    charl_assert_ok(charl_graph_run(n.g));
    charl_assert_ok(charl_tensor_read(charl_var_get_tensor(n.loss), &loss, sizeof loss));
    assert_true(isfinite(loss) && loss > 0.0F);
    check_gradient(c->tokens ? charl_parameter(n.g, charl_params_get(n.params, 0)) : n.x);
    net_fini(&n);
}

/* Two layers that read the input, and one that reads both: values, and a gradient that comes from both. */
static void test_layers_of_several(void **state)
{
    static const charl_axis_config by_channels = {.axis = 1}, by_last = {.axis = -1};
    static const char *const both[] = {"a", "input", "b"}, *const input[] = {"input"};
    static const struct {
        const char *type;
        const void *config;
        charl_shape out;
    } cases[] = {
        {"add", NULL, {2, {3, 5}}},
        {"multiply", NULL, {2, {3, 5}}},
        {"concat", &by_channels, {2, {9, 5}}},
        {"concat", &by_last, {2, {3, 15}}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        charl_shape want = batch_of(cases[i].out), have;
        const int64_t n_want = charl_shape_count(&want);
        float *x, *y;
        net n;

        net_init(&n);
        charl_assert_ok(charl_model_add(n.model, "a", "tanh", NULL));
        charl_assert_ok(charl_model_add_after(n.model, "b", "sigmoid", NULL, input, 1));
        charl_assert_ok(charl_model_add_after(n.model, "y", cases[i].type, cases[i].config, both, 3));
        net_build(&n, (charl_shape){2, {3, 5}});
        charl_assert_ok(charl_graph_status(n.g));
        have = charl_var_get_type(n.out).shape;
        assert_true(charl_shape_equal(&have, &want));
        n.loss = charl_batch_mean(n.g, charl_sum(n.g, charl_flatten(n.g, n.out), 1, false));
        charl_graph_keep(n.g, n.out);
        charl_graph_backward(n.g, n.loss, NULL);
        charl_assert_ok(charl_graph_compile(n.g));
        write_input(&n);
        charl_assert_ok(charl_graph_run(n.g));
        x = values_of(charl_var_get_tensor(n.x));
        y = values_of(charl_var_get_tensor(n.out));
        for (int64_t k = 0; k < n_want; k++) {
            const bool joins = strcmp(cases[i].type, "concat") == 0, last = cases[i].config == &by_last;
            const int64_t part = last ? k / 5 % 3 : k / 15 % 3, at = last ? k / 15 * 5 + k % 5 : k / 45 * 15 + k % 15;
            const double v = (double)x[joins ? at : k], a = tanh(v), b = 1.0 / (1.0 + exp(-v));

            assert_true(fabs((double)y[k] - (joins                     ? (part == 0   ? a
                                                                          : part == 1 ? v
                                                                                      : b)
                                             : cases[i].type[0] == 'a' ? a + v + b
                                                                       : a * v * b)) < 1e-6);
        }
        check_gradient(n.x);
        charl_free(x);
        charl_free(y);
        net_fini(&n);
    }
}

/* Embeddings of length 1 times the root of exp(log_scale), one after the other. */
static void test_pair(void **state)
{
    static const charl_pair_config config = {.temperature = 0.25};
    static const char *const both[] = {"a", "b"}, *const input[] = {"input"};
    float *x, *y;
    net n;

    (void)state;
    net_init(&n);
    charl_assert_ok(charl_model_add(n.model, "a", "tanh", NULL));
    charl_assert_ok(charl_model_add_after(n.model, "b", "sigmoid", NULL, input, 1));
    charl_assert_ok(charl_model_add_after(n.model, "y", "pair", &config, both, 2));
    net_build(&n, (charl_shape){1, {5}});
    charl_assert_ok(charl_graph_status(n.g));
    n.loss = charl_batch_mean(n.g, charl_sum(n.g, charl_flatten(n.g, n.out), 1, false));
    charl_graph_keep(n.g, n.out);
    charl_graph_backward(n.g, n.loss, NULL);
    charl_assert_ok(charl_graph_compile(n.g));
    charl_assert_ok(charl_params_initialize(n.params, 1));
    write_input(&n);
    charl_assert_ok(charl_graph_run(n.g));
    x = values_of(charl_var_get_tensor(n.x));
    y = values_of(charl_var_get_tensor(n.out));
    for (int half = 0; half < 2; half++) {
        double want[5], length = 0.0;

        for (int k = 0; k < 5; k++) {
            want[k] = half == 0 ? tanh((double)x[k]) : 1.0 / (1.0 + exp(-(double)x[k]));
            length += want[k] * want[k];
        }
        for (int k = 0; k < 5; k++) {
            assert_true(fabs((double)y[half * 5 + k] - want[k] / sqrt(length * config.temperature)) < 1e-5);
        }
    }
    check_gradient(n.x);
    check_gradient(charl_parameter(n.g, charl_params_get(n.params, 0)));
    charl_free(x);
    charl_free(y);
    net_fini(&n);
}

/* Of each number the sines, then the cosines. */
static void test_fourier(void **state)
{
    static const charl_fourier_config config = {.octaves = 3};
    const double pi = 3.14159265358979323846;
    float *x, *y;
    net n;

    (void)state;
    net_init(&n);
    charl_assert_ok(charl_model_add(n.model, "y", "fourier", &config));
    net_build(&n, (charl_shape){2, {2, 3}});
    charl_assert_ok(charl_graph_status(n.g));
    charl_graph_keep(n.g, n.out);
    charl_assert_ok(charl_graph_compile(n.g));
    write_input(&n);
    charl_assert_ok(charl_graph_run(n.g));
    x = values_of(charl_var_get_tensor(n.x));
    y = values_of(charl_var_get_tensor(n.out));
    for (int k = 0; k < 6 * 6; k++) {
        const double angle = pi * (double)x[k / 6] * (1 << k % 3);

        assert_true(fabs((double)y[k] - (k % 6 < 3 ? sin(angle) : cos(angle))) < 1e-5);
    }
    charl_free(x);
    charl_free(y);
    net_fini(&n);
}

/* A decoder: a block that attends to another source, and attention of queries and keys that other layers make. */
static void test_second_sources(void **state)
{
    static const char *const memory[] = {"x", "input"}, *const input[] = {"input"}, *const qkv[] = {"q", "kv"};
    static const charl_transformer_block_config sums = {.heads = 2,
                                                        .depth = 1,
                                                        .rope_theta = 100,
                                                        .init_std = 0.5,
                                                        .causal = true,
                                                        .bias = true,
                                                        .form = {.norm_at = CHARL_BLOCK_NORM_SUM}};
    static const charl_linear_config six = {.out = 6, .bias = true}, twelve = {.out = 12};
    static const charl_attention_config two_heads = {.heads = 2}, causal = {.heads = 2, .causal = true};
    static const struct {
        const char *type;
        const void *config;
        const char *message;
    } cases[] = {
        {"transformer_block", &gpt2, NULL},
        {"transformer_block", &sums, NULL},
        {"attention", &two_heads, NULL},
        {"attention", &causal, "y: causal = yes: attention to another source has no order of positions"},
        {"transformer_block", &neox, "y: parallel = yes has no attention to a second input"},
        {"transformer_block", &olmo2, "y: qk_norm has no attention to a second input"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const bool block = cases[i].type[0] == 't';
        net n;

        net_init(&n);
        charl_assert_ok(charl_model_add(n.model, "x", "tanh", NULL));
        charl_assert_ok(charl_model_add_after(n.model, "q", "linear", &six, memory, 1));
        charl_assert_ok(charl_model_add_after(n.model, "kv", "linear", &twelve, input, 1));
        charl_assert_ok(charl_model_add_after(n.model, "y", cases[i].type, cases[i].config, block ? memory : qkv, 2));
        if (block) { /* q and kv are read too */
            charl_assert_ok(charl_model_add_after(n.model, "all", "concat", &(charl_axis_config){-1},
                                                  (const char *[]){"y", "q", "kv"}, 3));
        }
        net_build(&n, (charl_shape){2, {5, 8}});
        if (cases[i].message) {
            assert_null(n.out);
            charl_assert_status(charl_graph_compile(n.g), CHARL_ERR_SHAPE);
            charl_assert_message(cases[i].message);
            net_fini(&n);
            continue;
        }
        charl_assert_ok(charl_graph_status(n.g));
        assert_int_equal(charl_var_get_type(n.out).shape.dim[2], block ? 8 + 6 + 12 : 6);
        n.loss = charl_batch_mean(
            n.g, charl_sum(n.g, charl_flatten(n.g, charl_mul(n.g, n.out, charl_tanh(n.g, n.out))), 1, false));
        charl_graph_backward(n.g, n.loss, NULL);
        charl_assert_ok(charl_graph_compile(n.g));
        charl_assert_ok(charl_params_initialize(n.params, 1));
        write_input(&n);
        charl_assert_ok(charl_graph_run(n.g));
        check_gradient(n.x);
        for (int k = 0; block && k < 5; k++) {
            const char *const names[] = {"y.crossattention.q_attn.weight", "y.crossattention.c_attn.weight",
                                         "y.crossattention.c_attn.bias", "y.crossattention.c_proj.weight",
                                         cases[i].config == &sums ? "y.ln_cross_attn_out.weight"
                                                                  : "y.ln_cross_attn.weight"};

            assert_non_null(charl_params_find(n.params, names[k]));
            check_gradient(charl_parameter(n.g, charl_params_find(n.params, names[k])));
        }
        net_fini(&n);
    }
}

/* What is wrong with a graph is told when it is made, or with the shapes on both sides. */
static void test_wrong_graphs(void **state)
{
    static const char *const unknown[] = {"z"}, *const two[] = {"a", "b"}, *const of_a[] = {"a"},
                             *const input[] = {"input"};
    static const charl_linear_config narrow = {.out = 4, .bias = true};
    net n;

    (void)state;
    net_init(&n);
    charl_assert_status(charl_model_add(n.model, "input", "relu", NULL), CHARL_ERR_CONFIG);
    charl_assert_message("cannot be named input");
    charl_assert_ok(charl_model_add(n.model, "a", "relu", NULL));
    charl_assert_status(charl_model_add_after(n.model, "b", "relu", NULL, unknown, 1), CHARL_ERR_CONFIG);
    charl_assert_message("layer b: input: no layer before this one is named z");
    charl_assert_status(charl_model_add(n.model, "b", "add", NULL), CHARL_ERR_CONFIG);
    charl_assert_message("layer b: input: add reads 2 to 8 layers, not 1; name them, as in input = a, b");
    charl_assert_ok(charl_model_add_after(n.model, "b", "linear", &narrow, input, 1));
    charl_assert_status(charl_model_add_after(n.model, "c", "relu", NULL, two, 2), CHARL_ERR_CONFIG);
    charl_assert_message("layer c: input: relu reads one layer, not 2");
    charl_assert_ok(charl_model_add_after(n.model, "c", "relu", NULL, of_a, 1));
    net_build(&n, (charl_shape){1, {5}});
    assert_null(n.out);
    charl_assert_status(charl_graph_compile(n.g), CHARL_ERR_CONFIG);
    charl_assert_message("layer b: no layer reads it, and it is not the last one");
    net_fini(&n);

    net_init(&n);
    charl_assert_ok(charl_model_add(n.model, "a", "relu", NULL));
    charl_assert_ok(charl_model_add_after(n.model, "b", "linear", &narrow, input, 1));
    charl_assert_ok(charl_model_add_after(n.model, "sum", "add", NULL, two, 2));
    net_build(&n, (charl_shape){1, {5}});
    assert_null(n.out);
    charl_assert_status(charl_graph_compile(n.g), CHARL_ERR_SHAPE);
    charl_assert_message("sum.add: ");
    charl_assert_message("; it reads a [4, 5], b [4, 4]");
    net_fini(&n);
}

static void test_every_layer_type(void **state)
{
    /* test_layers_of_several, test_pair, test_fourier */
    static const char *const of_several[] = {"add", "multiply", "concat", "pair", "fourier"};

    (void)state;
    for (int i = 0; charl_layer_type_name(i); i++) {
        const char *name = charl_layer_type_name(i);
        int used = 0;

        for (size_t k = 0; k < sizeof layers / sizeof layers[0]; k++) {
            if (strcmp(layers[k].type, name) == 0) {
                check_layer(&layers[k]);
                used++;
            }
        }
        for (size_t k = 0; k < sizeof of_several / sizeof of_several[0]; k++) {
            used += strcmp(of_several[k], name) == 0;
        }
        if (used == 0) {
            fail_msg("no case of layer type %s: nothing tests it", name);
        }
    }
}

/* What only the input's shape shows: the message names the layer. */
static void test_refused_inputs(void **state)
{
    static const charl_transformer_block_config odd_heads = {
        .heads = 3, .kv_heads = 2, .depth = 1, .rope_theta = 10000};
    static const charl_conv_config odd = {
        .channels = 4, .kernel = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}, .groups = 2};
    static const charl_conv_config both_paddings = {.channels = 4,
                                                    .kernel = {3, 3},
                                                    .stride = {1, 1},
                                                    .padding = {-1, 1},
                                                    .dilation = {1, 1},
                                                    .groups = 1,
                                                    .same = true};
    static const charl_pool_config large = {.kernel = {9, 9}};
    static const charl_transformer_block_config scaled = {
        .heads = 1,
        .depth = 1,
        .rope_theta = 100,
        .rotary = true,
        .rope = {.factor = 2, .original = 4, .kind = CHARL_ROPE_SCALING_DYNAMIC}};
    static const charl_transformer_block_config both = {
        .heads = 1, .depth = 1, .rope_theta = 100, .form = {.norm_at = CHARL_BLOCK_NORM_SUM, .parallel = true}};
    static const struct {
        const char *type;
        const void *config;
        charl_shape in;
        const char *message;
    } bad[] = {
        {"linear", &linear, {0, {0}}, "block.0: a linear layer needs"},
        {"conv2d", &conv, {1, {5}}, "block.0: conv2d needs images"},
        {"conv2d",
         &conv,
         {2, {7, 5}},
         "a single channel is added by a reshape with shape = 1, 7, 5; it reads the model's"},
        {"conv2d", &odd, {3, {3, 5, 5}}, "block.0: conv2d: groups"},
        {"conv2d", &both_paddings, {3, {4, 5, 5}}, "conv2d: same = yes has a padding of its own"},
        {"batch_norm", NULL, {0, {0}}, "block.0: batch_norm needs"},
        {"layer_norm", NULL, {0, {0}}, "block.0: layer_norm needs"},
        {"layer_norm", NULL, {2, {5, 1}}, "block.0: layer_norm: the last extent is 1"},
        {"group_norm", &pairs, {1, {3}}, "block.0: group_norm: each group has one value"},
        {"transformer_block", &gpt2, {1, {5}}, "block.0: a transformer block needs"},
        {"transformer_block", &gpt2, {2, {5, 3}}, "block.0: the features are not a multiple"},
        {"transformer_block", &odd_heads, {2, {5, 6}}, "block.0: heads is not a multiple"},
        {"embedding", &embedding, {1, {5}}, "block.0: embedding needs token numbers"},
        {"position_embedding", &position, {1, {5}}, "block.0: position_embedding needs"},
        {"position_embedding", &position, {2, {10, 5}}, "a sequence of 10 is longer than block_size = 9"},
        {"position_embedding",
         &shifted,
         {2, {8, 5}},
         "a sequence of 8 is longer than block_size = 9 less its first rows"},
        {"segment_embedding", &segments, {1, {5}}, "block.0: segment_embedding needs"},
        {"transformer_block", &scaled, {2, {5, 8}}, "a sequence is longer than rope_original"},
        {"transformer_block", &both, {2, {5, 8}}, "parallel = yes has no norm_at = sum"},
        {"rms_norm", NULL, {0, {0}}, "block.0: rms_norm needs"},
        {"scale", NULL, {0, {0}}, "block.0: scale needs"},
        {"prelu", NULL, {0, {0}}, "block.0: prelu needs"},
        {"lstm", &one, {1, {5}}, "block.0: a recurrent layer needs"},
        {"gru", &one, {2, {0, 5}}, "block.0: a recurrent layer needs"},
        {"max_pool2d", &large, {3, {1, 4, 4}}, "block.0"},
        {"avg_pool2d", &pool, {1, {5}}, "block.0"},
        {"global_avg_pool", NULL, {1, {5}}, "block.0"},
        {"reshape",
         &rows_of_6,
         {2, {4, 5}},
         "block.0.reshape: [4, 4, 5] does not reshape to [4, 6, -1]; it reads the model's"},
        {"permute", &twice_1, {2, {4, 5}}, "block.0: permute: order needs each of the axes 1 to 2 once"},
        {"permute", &swapped, {1, {4}}, "block.0: permute: order needs each of the axes 1 to 1 once"},
        {"slice", &beyond, {2, {4, 5}}, "block.0: slice: start = 2, length = 9 leave axis 1, which has 4 elements"},
        {"slice", &of_batch, {2, {4, 5}}, "block.0: axis = 0: axis 0 is the batch, and there are axes up to 2"},
        {"mean", &over_batch, {2, {4, 5}}, "block.0: axis = 0: axis 0 is the batch"},
        {"max", NULL, {0, {0}}, "block.0: axis = 1: axis 0 is the batch, and there are axes up to 0"},
        {"upsample", NULL, {2, {4, 5}}, "block.0.upsample2d: x [4, 4, 5] is not [B, C, H, W]"},
        {"class_token", NULL, {1, {5}}, "block.0: class_token needs"},
        {"attention", &heads, {1, {5}}, "block.0: attention needs"},
        {"conv1d", &conv_1d, {3, {4, 5, 5}}, "block.0: conv1d needs"},
        {"conv3d", &conv_3d, {3, {4, 5, 5}}, "block.0: conv3d needs volumes"},
        {"conv3d", &conv_3d, {4, {3, 5, 5, 5}}, "block.0: conv3d: groups"},
        {"conv3d", &conv_3d, {4, {4, 5, 5, 4}}, "block.0: conv3d: kernel 3 x 2 x 3 is larger"},
        {"max_pool3d", &pool_3d, {3, {4, 5, 5}}, "block.0: max_pool3d: x [4, 4, 5, 5] is not [B, C, D, H, W]"},
        {"upsample", &flat_only, {4, {4, 5, 5, 5}}, "block.0: upsample: bilinear is for images"},
        {"upsample", &deeper, {3, {4, 5, 5}}, "block.0: upsample: trilinear and depth"},
        {"conv1d", &conv_1d, {2, {3, 5}}, "block.0: conv1d: groups"},
        {"max_pool1d", &pool_1d, {1, {5}}, "block.0: pooling over time needs"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        net n;

        net_init(&n);
        charl_assert_ok(charl_model_add(n.model, "block.0", bad[i].type, bad[i].config));
        charl_assert_ok(charl_model_add(n.model, "after", "relu", NULL));
        net_build(&n, bad[i].in);
        assert_null(n.out);
        charl_assert_status(charl_graph_compile(n.g), CHARL_ERR_SHAPE);
        charl_assert_message(bad[i].message);
        net_fini(&n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_layer_type),
        cmocka_unit_test(test_layers_of_several),
        cmocka_unit_test(test_pair),
        cmocka_unit_test(test_fourier),
        cmocka_unit_test(test_second_sources),
        cmocka_unit_test(test_wrong_graphs),
        cmocka_unit_test(test_refused_inputs),
    };

    return charl_test_on_device(tests, &dev);
}
