/* gpt: GPT-2 and its relatives as a list of layers. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "nn/layer.h"
#include "nn/model.h"
#include "nn/model_internal.h"

static const double init_std = 0.02, default_eps = 1e-5, default_theta = 10000.0;

static double eps_of(const charl_gpt_config *c)
{
    return c->norm_eps != 0 ? c->norm_eps : default_eps;
}

static charl_status add_embeddings(charl_model *m, const charl_gpt_config *c)
{
    const charl_embedding_config tokens = {.vocab = c->vocab,
                                           .dim = c->n_embd,
                                           .init_std = init_std,
                                           .scale = c->scale_embedding ? sqrt((double)c->n_embd) : 0};
    const charl_position_embedding_config positions = {.block_size = c->block_size, .init_std = init_std};
    const charl_dropout_config dropout = {c->dropout};

    CHARL_TRY(charl_model_add(m, "wte", "embedding", &tokens));
    if (c->positions == CHARL_GPT_LEARNED) {
        CHARL_TRY(charl_model_add(m, "wpe", "position_embedding", &positions));
    }
    if (c->dropout != 0) {
        CHARL_TRY(charl_model_add(m, "drop", "dropout", &dropout));
    }
    return CHARL_OK;
}

/* Whether block i is one of every n; n = 0: none is. */
static bool is_every(int64_t i, int64_t n)
{
    return n > 0 && (i + 1) % n == 0;
}

static charl_status add_blocks(charl_model *m, const charl_gpt_config *c)
{
    charl_transformer_block_config block;
    char name[32];

    CHARL_TRY(charl_layer_defaults("transformer_block", &block));
    block.heads = c->n_head;
    block.kv_heads = c->n_kv_head;
    block.depth = c->n_layer;
    block.dropout = c->dropout;
    block.bias = c->bias;
    block.qkv_bias = c->qkv_bias;
    block.norm = c->norm;
    block.mlp = c->mlp;
    block.hidden = c->hidden;
    block.head_dim = c->head_dim;
    block.norm_eps = eps_of(c);
    block.form = c->form;
    for (int64_t i = 0; i < c->n_layer; i++) {
        const bool is_local = c->form.attention_window > 0 && !is_every(i, c->full_attention_every);
        const bool is_other = is_local && c->rope_window_theta > 0;

        block.rotary = c->positions == CHARL_GPT_ROTARY && !is_every(i, c->unrotated_every);
        block.rope = is_other ? (charl_rope_scaling){.kind = CHARL_ROPE_SCALING_NONE} : c->rope;
        block.rope_theta = is_other ? c->rope_window_theta : c->rope_theta != 0 ? c->rope_theta : default_theta;
        block.form.attention_window = is_local ? c->form.attention_window : 0;
        snprintf(name, sizeof name, "h.%lld", (long long)i);
        CHARL_TRY(charl_model_add(m, name, "transformer_block", &block));
    }
    return CHARL_OK;
}

static charl_status add_norm(charl_model *m, const charl_gpt_config *c)
{
    charl_norm_config norm;

    if (c->norm == CHARL_BLOCK_RMS_NORM) {
        CHARL_TRY(charl_model_add(m, "ln_f", "rms_norm", &(charl_rms_norm_config){.eps = eps_of(c)}));
        return CHARL_OK;
    }
    CHARL_TRY(charl_layer_defaults("layer_norm", &norm));
    norm.eps = eps_of(c);
    norm.bias = c->bias || c->form.norm_bias;
    CHARL_TRY(charl_model_add(m, "ln_f", "layer_norm", &norm));
    return CHARL_OK;
}

static charl_status add_head(charl_model *m, const charl_gpt_config *c)
{
    charl_linear_config head;

    CHARL_TRY(charl_layer_defaults("linear", &head));
    head.out = c->vocab;
    head.bias = false;
    head.init_std = init_std;
    head.tie = c->tie_weights ? "wte" : NULL;
    head.softcap = c->logit_softcap;
    CHARL_TRY(charl_model_add(m, "lm_head", "linear", &head));
    return CHARL_OK;
}

charl_status charl_model_add_gpt(charl_model *m, const charl_gpt_config *config)
{
    CHARL_GIVEN(m, config);
    CHARL_REQUIRE(config->vocab >= 1 && config->n_layer >= 1 && config->n_head >= 1, CHARL_ERR_CONFIG,
                  "a gpt needs a vocabulary, layers and heads");
    CHARL_REQUIRE(config->n_embd >= 1 && (config->head_dim || config->n_embd % config->n_head == 0), CHARL_ERR_CONFIG,
                  "n_embd = %lld is not a multiple of n_head = %lld", (long long)config->n_embd,
                  (long long)config->n_head);
    CHARL_REQUIRE(config->rope_window_theta == 0 ||
                      (config->rope_window_theta > 1 && isfinite(config->rope_window_theta)),
                  CHARL_ERR_CONFIG, "rope_window_theta is %g, not 0 or above 1", config->rope_window_theta);
    CHARL_REQUIRE(config->full_attention_every >= 0 && config->unrotated_every >= 0, CHARL_ERR_CONFIG,
                  "full_attention_every = %lld and unrotated_every = %lld must be 0 or more",
                  (long long)config->full_attention_every, (long long)config->unrotated_every);
    CHARL_TRY(add_embeddings(m, config));
    CHARL_TRY(add_blocks(m, config));
    CHARL_TRY(add_norm(m, config));
    CHARL_TRY(add_head(m, config));
    return charl__model_set_type(m, &charl__model_gpt, config, sizeof *config);
}

typedef struct gpt_settings {
    charl_gpt_config gpt;
    int64_t vocab_multiple;
} gpt_settings;

static int64_t vocab(const void *settings, int64_t tokens)
{
    const gpt_settings *s = settings;
    const int64_t multiple = s->vocab_multiple;

    return s->gpt.vocab > 0 ? s->gpt.vocab : (tokens + multiple - 1) / multiple * multiple;
}

static int64_t window(const void *settings)
{
    return ((const gpt_settings *)settings)->gpt.block_size;
}

static charl_status add(charl_model *m, const void *settings, int64_t outputs)
{
    charl_gpt_config c = ((const gpt_settings *)settings)->gpt;

    c.vocab = outputs;
    return charl_model_add_gpt(m, &c);
}

static void resolve(void *settings, int64_t outputs)
{
    charl_gpt_config *c = &((gpt_settings *)settings)->gpt;

    c->n_kv_head = c->n_kv_head ? c->n_kv_head : c->n_head;
    c->head_dim = c->head_dim ? c->head_dim : c->n_embd / c->n_head;
    c->hidden = charl__transformer_hidden(c->hidden, c->mlp, c->n_embd);
    c->vocab = c->vocab ? c->vocab : outputs;
    c->form.rotary_share = c->form.rotary_share > 0 ? c->form.rotary_share : 1;
}

static bool check_scaling(const charl_rope_scaling *rope, int64_t window, const char **key, char *reason)
{
    *key = "rope_magnitude";
    if (rope->magnitude > 0 && rope->kind != CHARL_ROPE_SCALING_YARN) {
        snprintf(reason, CHARL_REASON_BYTES, "must be 0 without rope_scaling = yarn");
        return false;
    }
    if (rope->kind == CHARL_ROPE_SCALING_NONE) {
        return true;
    }
    *key = "rope_factor";
    if (!(rope->factor >= 1)) {
        snprintf(reason, CHARL_REASON_BYTES, "must be at least 1");
        return false;
    }
    if (rope->kind == CHARL_ROPE_SCALING_LINEAR) {
        return true;
    }
    *key = "rope_original";
    if (rope->original < 1) {
        snprintf(reason, CHARL_REASON_BYTES, "must be at least 1");
        return false;
    }
    if (rope->kind == CHARL_ROPE_SCALING_DYNAMIC) {
        if (window > rope->original) {
            snprintf(reason, CHARL_REASON_BYTES,
                     "must be at least block_size = %" PRId64
                     " with rope_scaling = dynamic; HINT yarn takes longer windows",
                     window);
            return false;
        }
        return true;
    }
    *key = "rope_low";
    if (!(rope->low > 0)) {
        snprintf(reason, CHARL_REASON_BYTES, "must be above 0");
        return false;
    }
    *key = "rope_high";
    if (!(rope->high > rope->low)) {
        snprintf(reason, CHARL_REASON_BYTES, "must be above rope_low = %g", rope->low);
        return false;
    }
    return true;
}

static bool check(const void *settings, const char **key, char *reason)
{
    const charl_gpt_config *c = &((const gpt_settings *)settings)->gpt;
    const int64_t kv = c->n_kv_head > 0 ? c->n_kv_head : c->n_head;
    const int64_t head_dim = c->head_dim ? c->head_dim : c->n_embd / c->n_head;
    const int64_t rotated = charl__rotated(&c->form, head_dim);

    *key = "n_embd";
    if (!c->head_dim && c->n_embd % c->n_head != 0) {
        snprintf(reason, CHARL_REASON_BYTES, "%" PRId64 " does not divide among n_head = %" PRId64 " heads", c->n_embd,
                 c->n_head);
        return false;
    }
    if (c->positions == CHARL_GPT_ROTARY && head_dim % 2 != 0) {
        snprintf(reason, CHARL_REASON_BYTES, "rotary positions need an even width of each head");
        return false;
    }
    *key = "rotary_share";
    if (c->positions == CHARL_GPT_ROTARY && (rotated < 2 || rotated % 2 != 0)) {
        snprintf(reason, CHARL_REASON_BYTES, "%g of a head of %" PRId64 " elements is %" PRId64 ", not 2, 4, 6, ...",
                 c->form.rotary_share, head_dim, rotated);
        return false;
    }
    *key = "rope_window_theta";
    if (c->rope_window_theta > 0 && c->rope_window_theta <= 1) {
        snprintf(reason, CHARL_REASON_BYTES, "must be 0 or above 1");
        return false;
    }
    if (!check_scaling(&c->rope, c->block_size, key, reason)) {
        return false;
    }
    *key = "n_kv_head";
    if (c->n_head % kv != 0) {
        snprintf(reason, CHARL_REASON_BYTES, "%" PRId64 " does not divide n_head = %" PRId64, kv, c->n_head);
        return false;
    }
    return true;
}

#define AT(field) offsetof(gpt_settings, field)
static const charl_key keys[] = {
    {"n_layer", CHARL_KEY_INT, AT(gpt.n_layer), "[1,1000]", false, "number of transformer blocks", NULL},
    {"n_head", CHARL_KEY_INT, AT(gpt.n_head), "[1,1000]", false, "attention heads per block", NULL},
    {"n_kv_head", CHARL_KEY_INT, AT(gpt.n_kv_head), "[1,1000]", false,
     "key/value heads (grouped-query attention); n_head must be a multiple of it; auto: n_head", "auto"},
    {"n_embd", CHARL_KEY_INT, AT(gpt.n_embd), "[1,1e6]", false,
     "embedding width; must be a multiple of n_head, unless head_dim is given", NULL},
    {"head_dim", CHARL_KEY_INT, AT(gpt.head_dim), "[1,256]", false, "width of an attention head; auto: n_embd / n_head",
     "auto"},
    {"hidden", CHARL_KEY_INT, AT(gpt.hidden), "[1,1e9]", false,
     "width of the MLP; auto: 4 n_embd, with swiglu 8/3 n_embd rounded up to a multiple of 64", "auto"},
    {"block_size", CHARL_KEY_SIZE, AT(gpt.block_size), "[1,1e6]", false, "context length in tokens", NULL},
    {"dropout", CHARL_KEY_FLOAT, AT(gpt.dropout), "[0,1)", false, "dropout probability", NULL},
    {"bias", CHARL_KEY_BOOL, AT(gpt.bias), NULL, false, "use biases in linear layers and norms, as GPT-2 does", NULL},
    {"qkv_bias", CHARL_KEY_BOOL, AT(gpt.qkv_bias), NULL, false,
     "use biases of queries, keys and values even with bias = no, as Qwen2 does", NULL},
    {"tie_weights", CHARL_KEY_BOOL, AT(gpt.tie_weights), NULL, false,
     "share one matrix between the token embedding and the output layer", NULL},
    {"vocab_size", CHARL_KEY_INT, AT(gpt.vocab), "[1,1e9]", false,
     "rows of embedding and output, at least as many as the data have tokens; auto: those tokens, "
     "rounded up to "
     "vocab_multiple",
     "auto"},
    {"vocab_multiple", CHARL_KEY_INT, AT(vocab_multiple), "[1,65536]", false,
     "round the vocabulary size of embedding and output up to a multiple of this; multiples of 64 "
     "are faster on GPUs",
     NULL},
    {"norm", CHARL_KEY_CHOICE, AT(gpt.norm), NULL, false, "layer: layer norm; rms: RMS norm, as in Llama", "layer|rms"},
    {"norm_eps", CHARL_KEY_FLOAT, AT(gpt.norm_eps), "(0,1)", false, "added to the variance in the norms", NULL},
    {"mlp", CHARL_KEY_CHOICE, AT(gpt.mlp), NULL, false, CHARL__BLOCK_MLP_HELP},
    {"positions", CHARL_KEY_CHOICE, AT(gpt.positions), NULL, false,
     "position encoding: learned embeddings, or rotary embeddings (RoPE) of queries and keys", "learned|rotary"},
    {"rope_theta", CHARL_KEY_FLOAT, AT(gpt.rope_theta), "(1,1e9)", false, "base of the angles of rotary positions",
     NULL},
    CHARL__ROPE_SCALING_KEYS(gpt_settings, gpt.rope),
    CHARL__BLOCK_FORM_KEYS(gpt_settings, gpt.form),
    {"full_attention_every", CHARL_KEY_INT, AT(gpt.full_attention_every), "[0,1000]", false,
     "with attention_window: every Nth block attends to all positions; 0: none does", NULL},
    {"rope_window_theta", CHARL_KEY_FLOAT, AT(gpt.rope_window_theta), "[0,1e9)", false,
     "rope_theta of the blocks with a window, whose positions are not scaled, as in Gemma 3; 0: as in the others",
     NULL},
    {"unrotated_every", CHARL_KEY_INT, AT(gpt.unrotated_every), "[0,1000]", false,
     "every Nth block does not rotate queries and keys, as in SmolLM3; 0: every block does", NULL},
    {"scale_embedding", CHARL_KEY_BOOL, AT(gpt.scale_embedding), NULL, false,
     "multiply token embeddings by the square root of n_embd, as in Gemma", NULL},
    {"logit_softcap", CHARL_KEY_FLOAT, AT(gpt.logit_softcap), "[0,1e6)", false,
     "limits logits to this range smoothly, as in Gemma 2; 0: no limit", NULL},
    {"family", CHARL_KEY_CHOICE, AT(gpt.family), NULL, false,
     "family of published models, in whose layout weights are read and exported; auto: the first that has these "
     "settings",
     "auto|gemma|gemma2|gemma3_text|gpt2|gpt_neox|llama|mistral|olmo2|phi3|qwen2|qwen3|smollm3|stablelm"},
};
static const gpt_settings defaults = {.gpt = {.n_layer = 12,
                                              .n_head = 12,
                                              .n_embd = 768,
                                              .block_size = 1024,
                                              .norm_eps = 1e-5,
                                              .rope_theta = 10000,
                                              .rope = CHARL__ROPE_SCALING_DEFAULTS,
                                              .form = {.rotary_share = 1},
                                              .tie_weights = true},
                                      .vocab_multiple = 1};

const charl_model_type charl__model_gpt = {
    .row.name = "gpt",
    .row.help = "GPT-2, or with other settings a model like Llama: reads tokens",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .row.check = check,
    .input = CHARL_MODEL_READS_TOKENS,
    .add = add,
    .window = window,
    .vocab = vocab,
    .resolve = resolve,
    .has_kv_cache = true,
    .keeps_vectors = true,
};
