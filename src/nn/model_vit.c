/* vit: vision transformers (Dosovitskiy et al. 2020). An image is divided into patches, which form a sequence behind a class token; the outputs
 * follow from the last value of that token. */
#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "nn/layer.h"
#include "nn/model.h"
#include "nn/model_internal.h"

static const double init_std = 0.02;

/* Names of the keys: see gpt. */
typedef struct vit_settings {
    int64_t image_size, patch_size, n_layer, n_head, n_embd, hidden, classes;
    double dropout, stochastic_depth, norm_eps;
    charl_block_mlp mlp;
    int family;
} vit_settings;

static charl_status add_dropout(charl_model *m, const char *name, double p)
{
    return p != 0 ? charl_model_add(m, name, "dropout", &(charl_dropout_config){p}) : CHARL_OK;
}

/* [B, C, H, W] -> [B, 1 + patches, n_embd] */
static charl_status add_patches(charl_model *m, const vit_settings *s)
{
    const int64_t side = s->image_size / s->patch_size;
    const charl_conv_config patch = {.channels = s->n_embd,
                                     .kernel = {s->patch_size, s->patch_size},
                                     .stride = {s->patch_size, s->patch_size},
                                     .dilation = {1, 1},
                                     .groups = 1,
                                     .bias = true};
    const charl_reshape_config rows = {.shape = {2, {s->n_embd, side * side}}};
    const charl_permute_config sequence = {.order = {2, {2, 1}}};
    const charl_class_token_config token = {.init_std = init_std};
    const charl_position_embedding_config positions = {.block_size = side * side + 1, .init_std = init_std};

    CHARL_TRY(charl_model_add(m, "patch", "conv2d", &patch));
    CHARL_TRY(charl_model_add(m, "rows", "reshape", &rows));
    CHARL_TRY(charl_model_add(m, "sequence", "permute", &sequence));
    CHARL_TRY(charl_model_add(m, "token", "class_token", &token));
    CHARL_TRY(charl_model_add(m, "wpe", "position_embedding", &positions));
    return add_dropout(m, "drop", s->dropout);
}

static charl_status add_blocks(charl_model *m, const vit_settings *s)
{
    charl_transformer_block_config block;
    char name[32];

    CHARL_TRY(charl_layer_defaults("transformer_block", &block));
    block.heads = s->n_head;
    block.depth = s->n_layer;
    block.dropout = s->dropout;
    block.causal = false;
    block.mlp = s->mlp;
    block.hidden = s->hidden;
    block.norm_eps = s->norm_eps;
    for (int64_t i = 0; i < s->n_layer; i++) {
        snprintf(name, sizeof name, "h.%" PRId64, i);
        block.stochastic_depth = s->n_layer > 1 ? s->stochastic_depth * (double)i / (double)(s->n_layer - 1) : 0;
        CHARL_TRY(charl_model_add(m, name, "transformer_block", &block));
    }
    return CHARL_OK;
}

static charl_status add(charl_model *m, const void *settings, int64_t outputs)
{
    const vit_settings *s = settings;
    const charl_linear_config head = {.out = outputs, .bias = true, .init_std = init_std};
    charl_slice_config first;
    charl_norm_config norm;

    CHARL_TRY(add_patches(m, s));
    CHARL_TRY(add_blocks(m, s));
    CHARL_TRY(charl_layer_defaults("layer_norm", &norm));
    norm.eps = s->norm_eps;
    CHARL_TRY(charl_model_add(m, "ln_f", "layer_norm", &norm));
    CHARL_TRY(charl_layer_defaults("slice", &first));
    first.length = 1;
    CHARL_TRY(charl_model_add(m, "first", "slice", &first));
    CHARL_TRY(charl_model_add(m, "flat", "flatten", NULL));
    CHARL_TRY(charl_model_add(m, "head", "linear", &head));
    return charl__model_set_type(m, &charl__model_vit, s, sizeof *s);
}

static void resolve(void *settings, int64_t outputs)
{
    vit_settings *s = settings;

    s->hidden = charl__transformer_hidden(s->hidden, s->mlp, s->n_embd);
    s->classes = s->classes ? s->classes : outputs;
}

static bool check(const void *settings, const char **key, char *reason)
{
    const vit_settings *s = settings;

    *key = "n_embd";
    if (s->n_embd % s->n_head != 0) {
        snprintf(reason, CHARL_REASON_BYTES, "%" PRId64 " does not divide among n_head = %" PRId64 " heads", s->n_embd,
                 s->n_head);
        return false;
    }
    *key = "image_size";
    if (s->image_size % s->patch_size != 0) {
        snprintf(reason, CHARL_REASON_BYTES, "%" PRId64 " is not a multiple of patch_size = %" PRId64, s->image_size,
                 s->patch_size);
        return false;
    }
    return true;
}

#define KEY(...) CHARL__KEY(vit_settings, __VA_ARGS__)
static const charl_key keys[] = {
    KEY(image_size, INT, "[1,65536]", false, "height and width of the images"),
    KEY(patch_size, INT, "[1,1024]", false, "height and width of a patch; divides image_size"),
    KEY(n_layer, INT, "[1,1000]", false, "number of transformer blocks"),
    KEY(n_head, INT, "[1,1000]", false, "attention heads per block"),
    KEY(n_embd, INT, "[1,1e6]", false, "embedding width; must be a multiple of n_head"),
    KEY(hidden, INT, "[1,1e9]", false, "width of the MLP; auto: 4 n_embd", "auto"),
    KEY(classes, INT, "[1,1e9]", false, "outputs, which are those of the data: a record for exports; auto: by the data",
        "auto"),
    KEY(dropout, FLOAT, "[0,1)", false, "dropout probability"),
    KEY(stochastic_depth, FLOAT, "[0,1)", false, CHARL__STOCHASTIC_DEPTH_HELP),
    KEY(norm_eps, FLOAT, "(0,1)", false, "added to the variance in the norms"),
    KEY(mlp, CHOICE, NULL, false, CHARL__BLOCK_MLP_HELP),
    KEY(family, CHOICE, NULL, false,
        "library in whose layout weights are exported, and first looked for in a file; vit: Hugging Face transformers",
        "timm|torchvision|vit"),
};
static const vit_settings defaults = {
    .image_size = 224, .patch_size = 16, .n_layer = 12, .n_head = 12, .n_embd = 768, .norm_eps = 1e-6};

const charl_model_type charl__model_vit = {
    .row.name = "vit",
    .row.help = "a vision transformer: reads images",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .row.check = check,
    .add = add,
    .resolve = resolve,
    .keeps_vectors = true,
};
