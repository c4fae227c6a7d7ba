/* Llama and the models of Hugging Face transformers that descend from it: matrices for queries, keys, values, gate and up are separate, or
 * stacked as in charl. charl stacks the rows of the first three, and of the other two. Rotary positions rotate halves of a head in all.
 *
 * A family is a row: the settings of its config.json and the names of its weights. Keys of the model that a row does not list have their
 * defaults.
 */
#include "charl/nn.h"
#include "nn/layer.h"
#include "nn/model.h"
#include "nn/weights_layout.h"

static int64_t head_dim(const charl_gpt_config *c, int64_t all)
{
    return all / (c->n_head + 2 * (c->n_kv_head ? c->n_kv_head : c->n_head));
}

/* Rows of queries, keys or values. */
static int64_t qkv_rows(const void *settings, int64_t all, int part)
{
    const charl_gpt_config *c = settings;
    const int64_t head = head_dim(c, all);

    return part == 0 ? c->n_head * head : (all - c->n_head * head) / 2;
}

/* The element of a head of `width` that is element i in charl, if only the first `rotated` are. They rotate halves of these; charl rotates
 * pairs of the halves of the head, so in charl each half of the head begins with a half of those:
 *
 *     theirs   a a b b c c c c d d d d      a, b: the halves of what is rotated
 *     charl's  a a c c c c b b d d d d
 */
int64_t charl__layout_rotated(int64_t i, int64_t width, int64_t rotated)
{
    const int64_t half = width / 2, pair = i % half;

    return pair < rotated / 2 ? i / half * (rotated / 2) + pair : i / half * half + pair + (i < half ? rotated / 2 : 0);
}

static int64_t head_row(const charl_gpt_config *c, int64_t width, int64_t r)
{
    return r / width * width + charl__layout_rotated(r % width, width, charl__rotated(&c->form, width));
}

static int64_t qkv_row(const void *settings, int64_t all, int64_t r)
{
    const charl_gpt_config *c = settings;
    const int64_t width = head_dim(c, all), values = all - (all - c->n_head * width) / 2;

    return r < values ? head_row(c, width, r) : r;
}

/* Of the norms of queries and keys. */
static int64_t norm_row(const void *settings, int64_t all, int64_t r)
{
    const charl_gpt_config *c = settings;

    (void)all;
    return head_row(c, c->head_dim ? c->head_dim : c->n_embd / c->n_head, r);
}

#define LAYER(name) "model.layers.#." name
#define QKV(end)                                                                                                       \
    {                                                                                                                  \
        LAYER("self_attn.q_proj." end), LAYER("self_attn.k_proj." end), LAYER("self_attn.v_proj." end)                 \
    }
#define SEPARATE_QKV                                                                                                   \
    {"h.#.attn.c_attn.weight", QKV("weight"), .rows = qkv_rows, .row = qkv_row},                                       \
    {                                                                                                                  \
        "h.#.attn.c_attn.bias", QKV("bias"), .rows = qkv_rows, .row = qkv_row                                          \
    }
#define SEPARATE_MLP                                                                                                   \
    {"h.#.mlp.c_fc.weight", {LAYER("mlp.gate_proj.weight"), LAYER("mlp.up_proj.weight")}},                             \
    {                                                                                                                  \
        "h.#.mlp.c_fc.bias",                                                                                           \
        {                                                                                                              \
            LAYER("mlp.gate_proj.bias"), LAYER("mlp.up_proj.bias")                                                     \
        }                                                                                                              \
    }
#define OTHERS                                                                                                         \
    {"wte.weight", {"model.embed_tokens.weight"}}, {"h.#.attn.c_proj.weight", {LAYER("self_attn.o_proj.weight")}},     \
        {"h.#.attn.c_proj.bias", {LAYER("self_attn.o_proj.bias")}},                                                    \
        {"h.#.mlp.c_proj.weight", {LAYER("mlp.down_proj.weight")}},                                                    \
        {"h.#.mlp.c_proj.bias", {LAYER("mlp.down_proj.bias")}}, {"ln_f.weight", {"model.norm.weight"}},                \
        {"ln_f.bias", {"model.norm.bias"}},                                                                            \
    {                                                                                                                  \
        "lm_head.weight",                                                                                              \
        {                                                                                                              \
            "lm_head.weight"                                                                                           \
        }                                                                                                              \
    }
#define QK_NORMS                                                                                                       \
    {"h.#.attn.q_norm.weight", {LAYER("self_attn.q_norm.weight")}, .row = norm_row},                                   \
    {                                                                                                                  \
        "h.#.attn.k_norm.weight", {LAYER("self_attn.k_norm.weight")}, .row = norm_row                                  \
    }
#define INPUT_NORMS                                                                                                    \
    {"h.#.ln_1.weight", {LAYER("input_layernorm.weight")}}, {"h.#.ln_1.bias", {LAYER("input_layernorm.bias")}},        \
        {"h.#.ln_2.weight", {LAYER("post_attention_layernorm.weight")}},                                               \
    {                                                                                                                  \
        "h.#.ln_2.bias",                                                                                               \
        {                                                                                                              \
            LAYER("post_attention_layernorm.bias")                                                                     \
        }                                                                                                              \
    }

static const charl__weights_rule llama_rules[] = {SEPARATE_QKV, SEPARATE_MLP, OTHERS, QK_NORMS, INPUT_NORMS};

static const charl__weights_rule olmo2_rules[] = {
    SEPARATE_QKV,
    SEPARATE_MLP,
    OTHERS,
    QK_NORMS,
    {"h.#.ln_1_out.weight", {LAYER("post_attention_layernorm.weight")}},
    {"h.#.ln_2_out.weight", {LAYER("post_feedforward_layernorm.weight")}},
};

static const charl__weights_rule gemma2_rules[] = {
    SEPARATE_QKV,
    SEPARATE_MLP,
    OTHERS,
    QK_NORMS,
    {"h.#.ln_1.weight", {LAYER("input_layernorm.weight")}},
    {"h.#.ln_1_out.weight", {LAYER("post_attention_layernorm.weight")}},
    {"h.#.ln_2.weight", {LAYER("pre_feedforward_layernorm.weight")}},
    {"h.#.ln_2_out.weight", {LAYER("post_feedforward_layernorm.weight")}},
};

static const charl__weights_rule phi3_rules[] = {
    {"h.#.attn.c_attn.weight", {LAYER("self_attn.qkv_proj.weight")}, .row = qkv_row},
    {"h.#.mlp.c_fc.weight", {LAYER("mlp.gate_up_proj.weight")}},
    OTHERS,
    INPUT_NORMS,
};

/* Tables of angles that older files store as tensors. */
static const char *const ignored[] = {"layers.*.self_attn.rotary_emb.inv_freq", NULL};

/* clang-format off */
#define GIVEN_KV_HEADS {.theirs = "num_key_value_heads", .own = "n_kv_head"}
#define KV_HEADS {.theirs = "num_key_value_heads", .own = "n_kv_head", .absent = "auto"}
#define HEAD_DIM {.theirs = "head_dim", .own = "head_dim", .absent = "auto"}
#define NO_HEAD_DIM {.own = "head_dim", .absent = "auto"}
#define RMS(eps) {.own = "norm", .absent = "rms"}, {.theirs = "rms_norm_eps", .own = "norm_eps", .absent = eps}
#define TIED(absence) {.theirs = "tie_word_embeddings", .own = "tie_weights", .absent = absence}
#define ATTENTION_BIAS \
    {.theirs = "attention_bias", .own = "qkv_bias", .absent = "no"}, {.theirs = "attention_bias", .own = "out_bias", .absent = "no"}
#define MLP_BIAS {.theirs = "mlp_bias", .own = "mlp_bias", .absent = "no"}
#define ROTARY_SHARE(absence) \
    {.theirs = "partial_rotary_factor|rope_parameters.partial_rotary_factor", .own = "rotary_share", .absent = absence}
#define WINDOW(absence) {.theirs = "sliding_window", .own = "attention_window", .absent = absence, .null = "0"}
#define NO_WINDOW {.theirs = "use_sliding_window", .values = "no", .absent = "no"}
#define GATED_BY(name, absence) \
    {.theirs = name, .own = "mlp", .absent = absence, \
     .values = "silu=swiglu|swish=swiglu|gelu=geglu|gelu_pytorch_tanh=geglu_tanh|gelu_new=geglu_tanh"}
#define GATED(name) GATED_BY(name, "swiglu")
#define GEMMA \
    CHARL__LAYOUT_SIZES, GIVEN_KV_HEADS, {.theirs = "head_dim", .own = "head_dim"}, RMS("1e-6"), TIED("yes"), ATTENTION_BIAS, \
    GATED_BY("hidden_activation", "geglu_tanh"), {.own = "norm_at", .absent = "both"}, {.own = "scale_embedding", .absent = "yes"}, \
    WINDOW("4096"), \
    {.theirs = "query_pre_attn_scalar", .own = "scale_dim", .absent = "256"}, \
    {.theirs = "use_bidirectional_attention", .values = "no|null=no", .absent = "no"}
/* clang-format on */

static const charl__weights_setting gemma_settings[] = {
    CHARL__LAYOUT_SIZES,
    CHARL__LAYOUT_ROPE("rope_theta", "10000"),
    GIVEN_KV_HEADS,
    {.theirs = "head_dim", .own = "head_dim"},
    RMS("1e-6"),
    TIED("yes"),
    ATTENTION_BIAS,
    GATED_BY("hidden_act", "geglu_tanh"),
    {.own = "scale_embedding", .absent = "yes"},
    {.theirs = "use_bidirectional_attention", .values = "no|null=no", .absent = "no"},
};

static const charl__weights_setting llama_settings[] = {
    CHARL__LAYOUT_SIZES,
    CHARL__LAYOUT_ROPE("rope_theta", "10000"),
    KV_HEADS,
    HEAD_DIM,
    RMS("1e-6"),
    TIED("no"),
    ATTENTION_BIAS,
    MLP_BIAS,
    GATED("hidden_act"),
};

static const charl__weights_setting mistral_settings[] = {
    CHARL__LAYOUT_SIZES, CHARL__LAYOUT_ROPE("rope_theta", "10000"),
    GIVEN_KV_HEADS,      HEAD_DIM,
    RMS("1e-6"),         TIED("no"),
    GATED("hidden_act"), WINDOW("4096"),
};

static const charl__weights_setting qwen2_settings[] = {
    CHARL__LAYOUT_SIZES,
    CHARL__LAYOUT_ROPE("rope_theta", "10000"),
    KV_HEADS,
    HEAD_DIM,
    RMS("1e-6"),
    TIED("no"),
    {.own = "qkv_bias", .absent = "yes"},
    GATED("hidden_act"),
    NO_WINDOW,
};

static const charl__weights_setting qwen3_settings[] = {
    CHARL__LAYOUT_SIZES, CHARL__LAYOUT_ROPE("rope_theta", "10000"),
    GIVEN_KV_HEADS,      {.theirs = "head_dim", .own = "head_dim"},
    RMS("1e-6"),         TIED("no"),
    ATTENTION_BIAS,      {.own = "qk_norm", .absent = "head"},
    GATED("hidden_act"), NO_WINDOW,
};

static const charl__weights_setting phi3_settings[] = {
    CHARL__LAYOUT_SIZES,
    CHARL__LAYOUT_ROPE("rope_theta", "10000"),
    KV_HEADS,
    HEAD_DIM,
    RMS("1e-5"),
    TIED("no"),
    ROTARY_SHARE("1"),
    GATED("hidden_act"),
    WINDOW("0"),
};

static const charl__weights_setting gemma2_settings[] = {
    GEMMA,
    CHARL__LAYOUT_ROPE("rope_theta", "10000"),
    {.theirs = "attn_logit_softcapping", .own = "attention_softcap", .absent = "50", .null = "0.0"},
    {.theirs = "final_logit_softcapping", .own = "logit_softcap", .absent = "30", .null = "0.0"},
    {.theirs = "layer_types",
     .own = "full_attention_every",
     .absent = "2",
     .every = "sliding_attention|full_attention"},
};

static const charl__weights_setting gemma3_text_settings[] = {
    GEMMA,
    CHARL__LAYOUT_ROPE_IN("rope_parameters.full_attention.", "rope_theta", "1000000"),
    {.theirs = "rope_local_base_freq|rope_parameters.sliding_attention.rope_theta",
     .own = "rope_window_theta",
     .absent = "10000"},
    {.theirs = "rope_parameters.sliding_attention.rope_type", .values = "default", .absent = "default"},
    {.theirs = "attn_logit_softcapping", .values = "null", .absent = "null", .null = "null"},
    {.theirs = "final_logit_softcapping", .own = "logit_softcap", .absent = "0", .null = "0.0"},
    {.own = "qk_norm", .absent = "head"},
    {.theirs = "layer_types|sliding_window_pattern|_sliding_window_pattern",
     .own = "full_attention_every",
     .absent = "6",
     .every = "sliding_attention|full_attention"},
};

static const charl__weights_setting smollm3_settings[] = {
    CHARL__LAYOUT_SIZES,
    CHARL__LAYOUT_ROPE("rope_theta", "2000000"),
    GIVEN_KV_HEADS,
    NO_HEAD_DIM,
    RMS("1e-6"),
    TIED("yes"),
    ATTENTION_BIAS,
    MLP_BIAS,
    GATED("hidden_act"),
    {.theirs = "no_rope_layers|no_rope_layer_interval", .own = "unrotated_every", .absent = "4", .every = "1|0"},
    NO_WINDOW,
};

static const charl__weights_setting olmo2_settings[] = {
    CHARL__LAYOUT_SIZES,
    CHARL__LAYOUT_ROPE("rope_theta", "10000"),
    KV_HEADS,
    HEAD_DIM,
    RMS("1e-5"),
    TIED("no"),
    ATTENTION_BIAS,
    {.own = "norm_at", .absent = "output"},
    {.own = "qk_norm", .absent = "all"},
    GATED("hidden_act"),
};

static const charl__weights_setting stablelm_settings[] = {
    CHARL__LAYOUT_SIZES,
    CHARL__LAYOUT_ROPE("rope_theta", "10000"),
    GIVEN_KV_HEADS,
    NO_HEAD_DIM,
    {.own = "norm_bias", .absent = "yes"},
    {.theirs = "layer_norm_eps", .own = "norm_eps", .absent = "1e-5"},
    TIED("no"),
    {.theirs = "use_qkv_bias", .own = "qkv_bias", .absent = "no"},
    ROTARY_SHARE("0.25"),
    GATED("hidden_act"),
    {.theirs = "qk_layernorm", .values = "no", .absent = "no"},
    {.theirs = "use_parallel_residual", .values = "no", .absent = "no"},
};

#define FAMILY_NORMS(family, table, tensor, class, text, less_one)                                                     \
    {                                                                                                                  \
        .row.name = #family, .row.help = text, .model = &charl__model_gpt, .prefix = "model.", .rules = table,         \
        .n_rules = sizeof table / sizeof table[0], .ignored = ignored, .marker = "layers.0." tensor,                   \
        .model_type = #family, .architecture = class "ForCausalLM", .settings = family##_settings,                     \
        .n_settings = sizeof family##_settings / sizeof family##_settings[0], .norms_less_one = less_one               \
    }
#define FAMILY(family, table, tensor, class, text) FAMILY_NORMS(family, table, tensor, class, text, false)

/* Families whose tensors other families have too come later: the first whose marker a file has is taken, unless model.family names one. */
const charl__weights_layout charl__layout_gemma2 = FAMILY_NORMS(
    gemma2, gemma2_rules, "pre_feedforward_layernorm.weight", "Gemma2",
    "Gemma 2 of Hugging Face transformers: norms before and after attention and MLP, limited scores", true);
const charl__weights_layout charl__layout_gemma3_text =
    FAMILY_NORMS(gemma3_text, gemma2_rules, "pre_feedforward_layernorm.weight", "Gemma3",
                 "Gemma 3 for text of Hugging Face transformers: Gemma 2 with norms of queries and keys", true);
const charl__weights_layout charl__layout_olmo2 =
    FAMILY(olmo2, olmo2_rules, "post_feedforward_layernorm.weight", "Olmo2",
           "OLMo 2 of Hugging Face transformers: norms after attention and MLP, and of queries and keys");
const charl__weights_layout charl__layout_qwen3 =
    FAMILY(qwen3, llama_rules, "self_attn.q_norm.weight", "Qwen3",
           "Qwen3 of Hugging Face transformers: Llama with norms of queries and keys");
const charl__weights_layout charl__layout_llama =
    FAMILY(llama, llama_rules, "self_attn.q_proj.weight", "Llama", "Llama of Hugging Face transformers");
const charl__weights_layout charl__layout_mistral = FAMILY(mistral, llama_rules, "self_attn.q_proj.weight", "Mistral",
                                                           "Mistral of Hugging Face transformers: as Llama");
const charl__weights_layout charl__layout_qwen2 =
    FAMILY(qwen2, llama_rules, "self_attn.q_proj.weight", "Qwen2",
           "Qwen2 of Hugging Face transformers: Llama with biases of queries, keys and values");
const charl__weights_layout charl__layout_gemma =
    FAMILY_NORMS(gemma, llama_rules, "self_attn.q_proj.weight", "Gemma",
                 "Gemma 1 of Hugging Face transformers: Llama with scaled embeddings and wide heads", true);
const charl__weights_layout charl__layout_phi3 =
    FAMILY(phi3, phi3_rules, "self_attn.qkv_proj.weight", "Phi3",
           "Phi-3 and Phi-4 of Hugging Face transformers: Llama with stacked matrices");
const charl__weights_layout charl__layout_smollm3 =
    FAMILY(smollm3, llama_rules, "self_attn.q_proj.weight", "SmolLM3",
           "SmolLM3 of Hugging Face transformers: Llama with blocks without rotary positions");
const charl__weights_layout charl__layout_stablelm =
    FAMILY(stablelm, llama_rules, "self_attn.q_proj.weight", "StableLm",
           "StableLM of Hugging Face transformers: layer norms, a part of each head is rotated");
