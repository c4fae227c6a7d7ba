/* gpt2: Hugging Face's GPT-2, whose Conv1D layers store their matrices as [in, out]. nanogpt: the same names with
 * matrices as in charl. */
#include "nn/model.h"
#include "nn/weights_layout.h"

static const charl__weights_rule gpt2_rules[] = {
    {"wte.weight", {"transformer.wte.weight"}},
    {"wpe.weight", {"transformer.wpe.weight"}, .first_rows = true},
    {"h.#.ln_1.weight", {"transformer.h.#.ln_1.weight"}},
    {"h.#.ln_1.bias", {"transformer.h.#.ln_1.bias"}, .zeros = true},
    {"h.#.attn.c_attn.weight", {"transformer.h.#.attn.c_attn.weight"}, .transposed = true},
    {"h.#.attn.c_attn.bias", {"transformer.h.#.attn.c_attn.bias"}, .zeros = true},
    {"h.#.attn.c_proj.weight", {"transformer.h.#.attn.c_proj.weight"}, .transposed = true},
    {"h.#.attn.c_proj.bias", {"transformer.h.#.attn.c_proj.bias"}, .zeros = true},
    {"h.#.ln_2.weight", {"transformer.h.#.ln_2.weight"}},
    {"h.#.ln_2.bias", {"transformer.h.#.ln_2.bias"}, .zeros = true},
    {"h.#.mlp.c_fc.weight", {"transformer.h.#.mlp.c_fc.weight"}, .transposed = true},
    {"h.#.mlp.c_fc.bias", {"transformer.h.#.mlp.c_fc.bias"}, .zeros = true},
    {"h.#.mlp.c_proj.weight", {"transformer.h.#.mlp.c_proj.weight"}, .transposed = true},
    {"h.#.mlp.c_proj.bias", {"transformer.h.#.mlp.c_proj.bias"}, .zeros = true},
    {"ln_f.weight", {"transformer.ln_f.weight"}},
    {"ln_f.bias", {"transformer.ln_f.bias"}, .zeros = true},
    {"lm_head.weight", {"lm_head.weight"}},
};

static const charl__weights_rule nanogpt_rules[] = {
    {"wpe.weight", {"transformer.wpe.weight"}, .first_rows = true},
};

/* Masks that older files store as tensors. */
static const char *const ignored[] = {"h.*.attn.bias", "h.*.attn.masked_bias", NULL};

static const charl__weights_setting settings[] = {
    {.theirs = "n_layer", .own = "n_layer"},
    {.theirs = "n_head", .own = "n_head"},
    {.theirs = "n_embd", .own = "n_embd"},
    {.theirs = "n_inner", .own = "hidden", .absent = "auto"},
    {.theirs = "n_positions", .own = "block_size"},
    {.theirs = "vocab_size", .own = "vocab_size"},
    {.theirs = "layer_norm_epsilon", .own = "norm_eps", .absent = "1e-5"},
    {.theirs = "activation_function",
     .own = "mlp",
     .values = "gelu_new=gelu_tanh|gelu_pytorch_tanh=gelu_tanh|gelu=gelu",
     .absent = "gelu_tanh"},
    {.theirs = "tie_word_embeddings", .own = "tie_weights", .absent = "yes"},
    {.own = "n_kv_head", .absent = "auto"},
    {.own = "head_dim", .absent = "auto"},
    {.own = "bias", .absent = "yes", .values = "no"}, /* written as zeros */
    {.own = "rope_theta"},
    {.own = "rope_scaling"},
    {.own = "rope_factor"},
    {.own = "rope_low"},
    {.own = "rope_high"},
    {.own = "rope_original"},
    {.own = "rope_magnitude"},
    {.own = "rotary_share"},
    {.theirs = "scale_attn_weights", .values = "yes", .absent = "yes"},
    {.theirs = "scale_attn_by_inverse_layer_idx", .values = "no", .absent = "no"},
    {.theirs = "add_cross_attention", .values = "no", .absent = "no"},
    {.theirs = "is_causal", .values = "yes", .absent = "yes"},
};

/* As [in, out]: queries, keys and values have the width of the model each. */
static bool is_conv1d(const charl_shape *shape)
{
    return shape->ndim == 2 && shape->dim[1] == 3 * shape->dim[0];
}

/* As [out, in], which is wider than tall where heads are narrow or share keys. */
static bool is_linear(const charl_shape *shape)
{
    return shape->ndim == 2 && !is_conv1d(shape);
}

const charl__weights_layout charl__layout_gpt2 = {
    .row.name = "gpt2",
    .row.help = "GPT-2 of Hugging Face transformers",
    .model = &charl__model_gpt,
    .prefix = "transformer.",
    .rules = gpt2_rules,
    .n_rules = sizeof gpt2_rules / sizeof gpt2_rules[0],
    .ignored = ignored,
    .marker = "h.0.attn.c_attn.weight",
    .recognizes = is_conv1d,
    .model_type = "gpt2",
    .architecture = "GPT2LMHeadModel",
    .settings = settings,
    .n_settings = sizeof settings / sizeof settings[0],
};

const charl__weights_layout charl__layout_nanogpt = {
    .row.name = "nanogpt",
    .row.help = "nanoGPT, and gpt models of charl",
    .model = &charl__model_gpt,
    .prefix = "transformer.",
    .rules = nanogpt_rules,
    .n_rules = sizeof nanogpt_rules / sizeof nanogpt_rules[0],
    .ignored = ignored,
    .marker = "h.0.attn.c_attn.weight",
    .recognizes = is_linear,
};
