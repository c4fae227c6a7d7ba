/* Vision transformers and ConvNeXt of timm, torchvision and Hugging Face transformers. A row is a table of names; what PyTorch has as a tensor without a
 * module, such as cls_token [1, 1, C], is the weight of a layer in charl. */
#include "nn/model.h"
#include "nn/weights_layout.h"

#define BOTH(own, theirs)                                                                                              \
    {own ".weight", {theirs ".weight"}},                                                                               \
    {                                                                                                                  \
        own ".bias",                                                                                                   \
        {                                                                                                              \
            theirs ".bias"                                                                                             \
        }                                                                                                              \
    }
/* clang-format off */
#define VIT(patch, token, positions, block, ln_1, proj, ln_2, fc, fc_proj, norm, head) \
    BOTH("patch", patch), {"token.weight", {token}, .before = 2}, {"wpe.weight", {positions}, .before = 1}, \
    BOTH("h.#.ln_1", block ln_1), BOTH("h.#.attn.c_proj", block proj), BOTH("h.#.ln_2", block ln_2), BOTH("h.#.mlp.c_fc", block fc), \
    BOTH("h.#.mlp.c_proj", block fc_proj), BOTH("ln_f", norm), BOTH("head", head)
/* clang-format on */

static const charl__weights_rule timm_vit_rules[] = {
    VIT("patch_embed.proj", "cls_token", "pos_embed", "blocks.#.", "norm1", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2",
        "norm", "head"),
    BOTH("h.#.attn.c_attn", "blocks.#.attn.qkv"),
};

#define ENCODER "encoder.layers.encoder_layer_#."
#define TORCHVISION(fc, fc_proj)                                                                                       \
    VIT("conv_proj", "class_token", "encoder.pos_embedding", ENCODER, "ln_1", "self_attention.out_proj", "ln_2", fc,   \
        fc_proj, "encoder.ln", "heads.head"),                                                                          \
        {"h.#.attn.c_attn.weight", {ENCODER "self_attention.in_proj_weight"}},                                         \
    {                                                                                                                  \
        "h.#.attn.c_attn.bias",                                                                                        \
        {                                                                                                              \
            ENCODER "self_attention.in_proj_bias"                                                                      \
        }                                                                                                              \
    }
static const charl__weights_rule torchvision_vit_rules[] = {TORCHVISION("mlp.0", "mlp.3")};
static const charl__weights_rule torchvision_vit_1_rules[] = {TORCHVISION("mlp.linear_1", "mlp.linear_2")};

#define LAYER "vit.encoder.layer.#."
#define QKV(end)                                                                                                       \
    {                                                                                                                  \
        LAYER "attention.attention.query." end, LAYER "attention.attention.key." end,                                  \
            LAYER "attention.attention.value." end                                                                     \
    }
static const charl__weights_rule vit_rules[] = {
    VIT("vit.embeddings.patch_embeddings.projection", "vit.embeddings.cls_token", "vit.embeddings.position_embeddings",
        LAYER, "layernorm_before", "attention.output.dense", "layernorm_after", "intermediate.dense", "output.dense",
        "vit.layernorm", "classifier"),
    {"h.#.attn.c_attn.weight", QKV("weight")},
    {"h.#.attn.c_attn.bias", QKV("bias")},
};

static const charl__weights_setting vit_settings[] = {
    {.theirs = "num_hidden_layers", .own = "n_layer"},
    {.theirs = "num_attention_heads", .own = "n_head"},
    {.theirs = "hidden_size", .own = "n_embd"},
    {.theirs = "intermediate_size", .own = "hidden"},
    {.theirs = "image_size", .own = "image_size"},
    {.theirs = "patch_size", .own = "patch_size"},
    {.theirs = "layer_norm_eps", .own = "norm_eps", .absent = "1e-12"},
    {.theirs = "hidden_act",
     .own = "mlp",
     .values = "gelu|gelu_new=gelu_tanh|gelu_pytorch_tanh=gelu_tanh|relu",
     .absent = "gelu"},
    {.theirs = "num_labels", .own = "classes", .absent = "auto"},
    {.theirs = "num_channels", .values = "3", .absent = "3"},
    {.theirs = "qkv_bias", .values = "yes", .absent = "yes"},
};

/* A stage of ConvNeXt. */
#define STAGE(stage, block, dw, norm, fc1, fc2, gamma)                                                                 \
    BOTH("stages." stage ".blocks.#.conv_dw", block dw), BOTH("stages." stage ".blocks.#.norm", block norm),           \
        BOTH("stages." stage ".blocks.#.mlp.fc1", block fc1), BOTH("stages." stage ".blocks.#.mlp.fc2", block fc2),    \
    {                                                                                                                  \
        "stages." stage ".blocks.#.gamma.weight", {block gamma}, .after = 2                                            \
    }
#define TORCHVISION_STAGE(stage, n)                                                                                    \
    STAGE(stage, "features." n ".#.", "block.0", "block.2", "block.3", "block.5", "layer_scale")
#define DOWN(stage, n)                                                                                                 \
    BOTH("stages." stage ".downsample.0", "features." n ".0"), BOTH("stages." stage ".downsample.1", "features." n "." \
                                                                                                     "1")
static const charl__weights_rule torchvision_convnext_rules[] = {
    BOTH("stem.0", "features.0.0"),  BOTH("stem.1", "features.0.1"),
    TORCHVISION_STAGE("0", "1"),     DOWN("1", "2"),
    TORCHVISION_STAGE("1", "3"),     DOWN("2", "4"),
    TORCHVISION_STAGE("2", "5"),     DOWN("3", "6"),
    TORCHVISION_STAGE("3", "7"),     BOTH("head.norm", "classifier.0"),
    BOTH("head.fc", "classifier.2"),
};
static const charl__weights_rule timm_convnext_rules[] = {
    {"stages.0.blocks.#.gamma.weight", {"stages.0.blocks.#.gamma"}},
    {"stages.1.blocks.#.gamma.weight", {"stages.1.blocks.#.gamma"}},
    {"stages.2.blocks.#.gamma.weight", {"stages.2.blocks.#.gamma"}},
    {"stages.3.blocks.#.gamma.weight", {"stages.3.blocks.#.gamma"}},
};

#define LAYOUT(word, of, text, value, ...)                                                                             \
    {                                                                                                                  \
        .row.name = #word, .row.help = (text), .model = &charl__model_##of, .family = (value), .rules = word##_rules,  \
        .n_rules = sizeof word##_rules / sizeof word##_rules[0], .marker = __VA_ARGS__                                 \
    }

const charl__weights_layout charl__layout_timm_vit =
    LAYOUT(timm_vit, vit, "vision transformers of timm", "timm", "blocks.0.attn.qkv.weight");
const charl__weights_layout charl__layout_torchvision_vit =
    LAYOUT(torchvision_vit, vit, "vision transformers of torchvision", "torchvision",
           "encoder.layers.encoder_layer_0.mlp.0.weight");
/* Names in the files that torchvision publishes. */
const charl__weights_layout charl__layout_torchvision_vit_1 =
    LAYOUT(torchvision_vit_1, vit, "vision transformers of torchvision, as before version 0.13", "torchvision_1",
           "encoder.layers.encoder_layer_0.mlp.linear_1.weight");
const charl__weights_layout charl__layout_vit =
    LAYOUT(vit, vit, "vision transformers of Hugging Face transformers", "vit",
           "encoder.layer.0.attention.attention.query.weight", .prefix = "vit.", .model_type = "vit",
           .architecture = "ViTForImageClassification", .settings = vit_settings,
           .n_settings = sizeof vit_settings / sizeof vit_settings[0]);
const charl__weights_layout charl__layout_timm_convnext =
    LAYOUT(timm_convnext, convnext, "ConvNeXt of timm", "timm", "stages.0.blocks.0.conv_dw.weight");
const charl__weights_layout charl__layout_torchvision_convnext =
    LAYOUT(torchvision_convnext, convnext, "ConvNeXt of torchvision", "torchvision", "features.1.0.block.0.weight");
