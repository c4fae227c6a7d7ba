/* BERT, DistilBERT and RoBERTa of Hugging Face transformers, as models that classify texts. */
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
#define QKV(layer, q, k, v)                                                                                            \
    {"h.#.attn.c_attn.weight", {layer q ".weight", layer k ".weight", layer v ".weight"}},                             \
    {                                                                                                                  \
        "h.#.attn.c_attn.bias",                                                                                        \
        {                                                                                                              \
            layer q ".bias", layer k ".bias", layer v ".bias"                                                          \
        }                                                                                                              \
    }
#define EMBEDDINGS(prefix)                                                                                             \
    {"wte.weight", {prefix "embeddings.word_embeddings.weight"}},                                                      \
        {"wpe.weight", {prefix "embeddings.position_embeddings.weight"}, .first_rows = true},                          \
        BOTH("ln_e", prefix "embeddings.LayerNorm")
#define BERT(prefix)                                                                                                   \
    EMBEDDINGS(prefix), {"wse.weight", {prefix "embeddings.token_type_embeddings.weight"}},                            \
        QKV(prefix "encoder.layer.#.attention.self.", "query", "key", "value"),                                        \
        BOTH("h.#.attn.c_proj", prefix "encoder.layer.#.attention.output.dense"),                                      \
        BOTH("h.#.ln_1_out", prefix "encoder.layer.#.attention.output.LayerNorm"),                                     \
        BOTH("h.#.mlp.c_fc", prefix "encoder.layer.#.intermediate.dense"),                                             \
        BOTH("h.#.mlp.c_proj", prefix "encoder.layer.#.output.dense"),                                                 \
        BOTH("h.#.ln_2_out", prefix "encoder.layer.#.output.LayerNorm")

static const charl__weights_rule bert_rules[] = {
    BERT("bert."),
    BOTH("pooler", "bert.pooler.dense"),
    BOTH("classifier", "classifier"),
};

static const charl__weights_rule roberta_rules[] = {
    BERT("roberta."),
    BOTH("pooler", "classifier.dense"),
    BOTH("classifier", "classifier.out_proj"),
};

#define LAYER "distilbert.transformer.layer.#."
static const charl__weights_rule distilbert_rules[] = {
    EMBEDDINGS("distilbert."),
    QKV(LAYER "attention.", "q_lin", "k_lin", "v_lin"),
    BOTH("h.#.attn.c_proj", LAYER "attention.out_lin"),
    BOTH("h.#.ln_1_out", LAYER "sa_layer_norm"),
    BOTH("h.#.mlp.c_fc", LAYER "ffn.lin1"),
    BOTH("h.#.mlp.c_proj", LAYER "ffn.lin2"),
    BOTH("h.#.ln_2_out", LAYER "output_layer_norm"),
    BOTH("pooler", "pre_classifier"),
    BOTH("classifier", "classifier"),
};

/* Numbers of positions and segments that older files store as tensors. */
static const char *const ignored[] = {"embeddings.position_ids", "embeddings.token_type_ids", NULL};

/* clang-format off */
#define MLP(name) \
    {.theirs = name, .own = "mlp", .values = "gelu|gelu_new=gelu_tanh|gelu_pytorch_tanh=gelu_tanh|relu", .absent = "gelu"}
#define CLASSES {.theirs = "num_labels", .own = "classes", .absent = "auto"}
#define BERT_SETTINGS \
    {.theirs = "num_hidden_layers", .own = "n_layer"}, {.theirs = "num_attention_heads", .own = "n_head"}, \
    {.theirs = "hidden_size", .own = "n_embd"}, {.theirs = "intermediate_size", .own = "hidden"}, \
    {.theirs = "max_position_embeddings", .own = "block_size"}, {.theirs = "vocab_size", .own = "vocab_size"}, \
    {.theirs = "type_vocab_size", .own = "segments", .absent = "2"}, \
    {.theirs = "layer_norm_eps", .own = "norm_eps", .absent = "1e-12"}, MLP("hidden_act"), CLASSES, \
    {.theirs = "position_embedding_type", .values = "absolute", .absent = "absolute"}, \
    {.theirs = "is_decoder", .values = "no", .absent = "no"}, {.theirs = "add_cross_attention", .values = "no", .absent = "no"}, \
    {.own = "pooler", .absent = "tanh"}
/* clang-format on */

static const charl__weights_setting bert_settings[] = {
    BERT_SETTINGS,
    {.own = "first_position", .absent = "0"},
};

/* The first position follows that of padding, whose token has this number. */
static const charl__weights_setting roberta_settings[] = {
    BERT_SETTINGS,
    {.theirs = "pad_token_id", .values = "1", .absent = "1"},
    {.own = "first_position", .absent = "2"},
};

static const charl__weights_setting distilbert_settings[] = {
    {.theirs = "n_layers", .own = "n_layer"},
    {.theirs = "n_heads", .own = "n_head"},
    {.theirs = "dim", .own = "n_embd"},
    {.theirs = "hidden_dim", .own = "hidden"},
    {.theirs = "max_position_embeddings", .own = "block_size"},
    {.theirs = "vocab_size", .own = "vocab_size"},
    MLP("activation"),
    CLASSES,
    {.theirs = "sinusoidal_pos_embds", .values = "no", .absent = "no"},
    {.own = "norm_eps", .absent = "1e-12"},
    {.own = "segments", .absent = "0"},
    {.own = "pooler", .absent = "relu"},
    {.own = "first_position", .absent = "0"},
};

#define FAMILY(family, class, tensor, text)                                                                            \
    {                                                                                                                  \
        .row.name = #family, .row.help = text, .model = &charl__model_bert, .prefix = #family ".",                     \
        .rules = family##_rules, .n_rules = sizeof family##_rules / sizeof family##_rules[0], .ignored = ignored,      \
        .marker = tensor, .model_type = #family, .architecture = class "ForSequenceClassification",                    \
        .settings = family##_settings, .n_settings = sizeof family##_settings / sizeof family##_settings[0]            \
    }

const charl__weights_layout charl__layout_bert =
    FAMILY(bert, "Bert", "encoder.layer.0.attention.self.query.weight", "BERT of Hugging Face transformers");
const charl__weights_layout charl__layout_roberta =
    FAMILY(roberta, "Roberta", "encoder.layer.0.attention.self.query.weight",
           "RoBERTa of Hugging Face transformers: BERT whose positions begin at 2");
const charl__weights_layout charl__layout_distilbert =
    FAMILY(distilbert, "DistilBert", "transformer.layer.0.attention.q_lin.weight",
           "DistilBERT of Hugging Face transformers: BERT without segments");
