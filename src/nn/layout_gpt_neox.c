/* gpt_neox: Hugging Face's GPT-NeoX, such as Pythia. Its matrix for queries, keys and values has the three of a head together. */
#include "charl/nn.h"
#include "nn/layer.h"
#include "nn/model.h"
#include "nn/weights_layout.h"

static int64_t qkv_row(const void *settings, int64_t all, int64_t r)
{
    const charl_gpt_config *c = settings;
    const int64_t width = all / (3 * c->n_head), part = r / width / c->n_head, head = r / width % c->n_head;

    return (3 * head + part) * width +
           (part < 2 ? charl__layout_rotated(r % width, width, charl__rotated(&c->form, width)) : r % width);
}

#define LAYER(name) "gpt_neox.layers.#." name
#define BOTH(own, theirs)                                                                                              \
    {own ".weight", {theirs ".weight"}},                                                                               \
    {                                                                                                                  \
        own ".bias",                                                                                                   \
        {                                                                                                              \
            theirs ".bias"                                                                                             \
        }                                                                                                              \
    }
static const charl__weights_rule rules[] = {
    {"wte.weight", {"gpt_neox.embed_in.weight"}},
    BOTH("h.#.ln_1", LAYER("input_layernorm")),
    {"h.#.attn.c_attn.weight", {LAYER("attention.query_key_value.weight")}, .row = qkv_row},
    {"h.#.attn.c_attn.bias", {LAYER("attention.query_key_value.bias")}, .row = qkv_row},
    BOTH("h.#.attn.c_proj", LAYER("attention.dense")),
    BOTH("h.#.ln_2", LAYER("post_attention_layernorm")),
    BOTH("h.#.mlp.c_fc", LAYER("mlp.dense_h_to_4h")),
    BOTH("h.#.mlp.c_proj", LAYER("mlp.dense_4h_to_h")),
    BOTH("ln_f", "gpt_neox.final_layer_norm"),
    {"lm_head.weight", {"embed_out.weight"}},
};

/* Masks and angles that older files store as tensors. */
static const char *const ignored[] = {"layers.*.attention.bias", "layers.*.attention.masked_bias",
                                      "layers.*.attention.rotary_emb.inv_freq", NULL};

static const charl__weights_setting settings[] = {
    CHARL__LAYOUT_SIZES,
    CHARL__LAYOUT_ROPE("rotary_emb_base|rope_theta", "10000"),
    {.own = "n_kv_head", .absent = "auto"},
    {.own = "head_dim", .absent = "auto"},
    {.theirs = "rotary_pct|rope_parameters.partial_rotary_factor", .own = "rotary_share", .absent = "0.25"},
    {.theirs = "layer_norm_eps", .own = "norm_eps", .absent = "1e-5"},
    {.theirs = "use_parallel_residual", .own = "parallel", .absent = "yes"},
    {.theirs = "hidden_act",
     .own = "mlp",
     .values = "gelu|gelu_new=gelu_tanh|gelu_pytorch_tanh=gelu_tanh|relu|relu2",
     .absent = "gelu"},
    {.theirs = "attention_bias", .own = "qkv_bias", .absent = "yes"},
    {.theirs = "attention_bias", .own = "out_bias", .absent = "yes"},
    {.own = "norm_bias", .absent = "yes"},
    {.own = "mlp_bias", .absent = "yes"},
    {.theirs = "tie_word_embeddings", .own = "tie_weights", .absent = "no"},
};

const charl__weights_layout charl__layout_gpt_neox = {
    .row.name = "gpt_neox",
    .row.help = "GPT-NeoX of Hugging Face transformers, such as Pythia",
    .model = &charl__model_gpt,
    .prefix = "gpt_neox.",
    .rules = rules,
    .n_rules = sizeof rules / sizeof rules[0],
    .ignored = ignored,
    .marker = "layers.0.attention.query_key_value.weight",
    .model_type = "gpt_neox",
    .architecture = "GPTNeoXForCausalLM",
    .settings = settings,
    .n_settings = sizeof settings / sizeof settings[0],
};
