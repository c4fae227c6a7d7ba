/* llama and qwen2: Hugging Face's Llama and Qwen2, with separate matrices for queries, keys, values, gate and up. charl stacks the
 * rows of the first three, and of the other two. Rotary positions rotate halves of a head in both. */
#include "charl/nn.h"
#include "nn/model.h"
#include "nn/weights_layout.h"

/* Rows of queries, keys or values. */
static int64_t qkv_rows(const void *settings, int64_t all, int part)
{
    const charl_gpt_config *c = settings;
    const int64_t kv_heads = c->n_kv_head ? c->n_kv_head : c->n_head;
    const int64_t head = all / (c->n_head + 2 * kv_heads);

    return part == 0 ? c->n_head * head : kv_heads * head;
}

#define LAYER(name) "model.layers.#." name
#define QKV(end)                                                                                                       \
    {                                                                                                                  \
        LAYER("self_attn.q_proj." end), LAYER("self_attn.k_proj." end), LAYER("self_attn.v_proj." end)                 \
    }

static const charl__weights_rule rules[] = {
    {"wte.weight", {"model.embed_tokens.weight"}},
    {"h.#.ln_1.weight", {LAYER("input_layernorm.weight")}},
    {"h.#.attn.c_attn.weight", QKV("weight"), .rows = qkv_rows},
    {"h.#.attn.c_attn.bias", QKV("bias"), .rows = qkv_rows}, /* qwen2's */
    {"h.#.attn.c_proj.weight", {LAYER("self_attn.o_proj.weight")}},
    {"h.#.ln_2.weight", {LAYER("post_attention_layernorm.weight")}},
    {"h.#.mlp.c_fc.weight", {LAYER("mlp.gate_proj.weight"), LAYER("mlp.up_proj.weight")}},
    {"h.#.mlp.c_proj.weight", {LAYER("mlp.down_proj.weight")}},
    {"ln_f.weight", {"model.norm.weight"}},
    {"lm_head.weight", {"lm_head.weight"}},
};

/* Tables of angles that older files store as tensors. */
static const char *const ignored[] = {"layers.*.self_attn.rotary_emb.inv_freq", NULL};

#define COMMON_SETTINGS                                                                                                \
    {.theirs = "num_hidden_layers", .own = "n_layer"}, {.theirs = "num_attention_heads", .own = "n_head"},             \
        {.theirs = "num_key_value_heads", .own = "n_kv_head", .absent = "auto"},                                       \
        {.theirs = "hidden_size", .own = "n_embd"}, {.theirs = "intermediate_size", .own = "hidden"},                  \
        {.theirs = "head_dim", .own = "head_dim", .absent = "auto"},                                                   \
        {.theirs = "max_position_embeddings", .own = "block_size"}, {.theirs = "vocab_size", .own = "vocab_size"},     \
        {.theirs = "rms_norm_eps", .own = "norm_eps", .absent = "1e-6"},                                               \
        {.theirs = "rope_theta|rope_scaling.rope_theta|rope_parameters.rope_theta",                                    \
         .own = "rope_theta",                                                                                          \
         .absent = "10000"},                                                                                           \
        {.theirs = "rope_scaling.rope_type|rope_scaling.type|rope_parameters.rope_type|rope_parameters.type",          \
         .own = "rope_scaling",                                                                                        \
         .values = "default=none|llama3",                                                                              \
         .absent = "none"},                                                                                            \
        {.theirs = "rope_scaling.factor|rope_parameters.factor", .own = "rope_factor", .absent = "8"},                 \
        {.theirs = "rope_scaling.low_freq_factor|rope_parameters.low_freq_factor", .own = "rope_low", .absent = "1"},  \
        {.theirs = "rope_scaling.high_freq_factor|rope_parameters.high_freq_factor",                                   \
         .own = "rope_high",                                                                                           \
         .absent = "4"},                                                                                               \
        {.theirs = "rope_scaling.original_max_position_embeddings|"                                                    \
                   "rope_parameters.original_max_position_embeddings",                                                 \
         .own = "rope_original",                                                                                       \
         .absent = "8192"},                                                                                            \
        {.theirs = "tie_word_embeddings", .own = "tie_weights", .absent = "no"},                                       \
        {.theirs = "hidden_act", .own = "mlp", .values = "silu=swiglu", .absent = "swiglu"},                           \
        {.theirs = "is_causal", .values = "yes", .absent = "yes"}, {.own = "bias", .absent = "no"},                    \
        {.own = "norm", .absent = "rms"},                                                                              \
    {                                                                                                                  \
        .own = "positions", .absent = "rotary"                                                                         \
    }

static const charl__weights_setting llama_settings[] = {
    COMMON_SETTINGS,
    {.own = "qkv_bias", .absent = "no"},
    {.theirs = "attention_bias", .values = "no", .absent = "no"},
    {.theirs = "mlp_bias", .values = "no", .absent = "no"},
};

static const charl__weights_setting qwen2_settings[] = {
    COMMON_SETTINGS,
    {.own = "qkv_bias", .absent = "yes"},
    {.theirs = "use_sliding_window", .values = "no", .absent = "no"},
};

#define COMMON_ROW                                                                                                     \
    .model = &charl__model_gpt, .prefix = "model.", .rules = rules, .n_rules = sizeof rules / sizeof rules[0],         \
    .ignored = ignored

const charl__weights_layout charl__layout_llama = {
    .row.name = "llama",
    .row.help = "Llama of Hugging Face transformers",
    COMMON_ROW,
    .marker = "layers.0.self_attn.q_proj.weight",
    .model_type = "llama",
    .architecture = "LlamaForCausalLM",
    .settings = llama_settings,
    .n_settings = sizeof llama_settings / sizeof llama_settings[0],
};

const charl__weights_layout charl__layout_qwen2 = {
    .row.name = "qwen2",
    .row.help = "Qwen2 of Hugging Face transformers: Llama with biases of queries, keys and values",
    COMMON_ROW,
    .marker = "layers.0.self_attn.q_proj.weight", /* llama's layout, which has the same rules */
    .model_type = "qwen2",
    .architecture = "Qwen2ForCausalLM",
    .settings = qwen2_settings,
    .n_settings = sizeof qwen2_settings / sizeof qwen2_settings[0],
};
