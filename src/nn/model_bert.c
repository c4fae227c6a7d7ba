/* bert: encoders of text that classify or measure a text, such as BERT, DistilBERT and RoBERTa, as a list of layers. */
#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "nn/layer.h"
#include "nn/model.h"
#include "nn/model_internal.h"

static const double init_std = 0.02;

/* Names of the keys: see gpt. The position of a text's first token is row `first_position` of wpe. */
typedef struct bert_settings {
    int64_t n_layer, n_head, n_embd, hidden, block_size, first_position, vocab, segments, classes;
    double dropout, norm_eps;
    charl_block_mlp mlp;
    int pooler; /* "tanh|relu" */
    int family;
} bert_settings;

static charl_status add_dropout(charl_model *m, const char *name, double p)
{
    return p != 0 ? charl_model_add(m, name, "dropout", &(charl_dropout_config){p}) : CHARL_OK;
}

static charl_status add_embeddings(charl_model *m, const bert_settings *s)
{
    const charl_embedding_config tokens = {.vocab = s->vocab, .dim = s->n_embd, .init_std = init_std};
    const charl_segment_embedding_config segments = {.segments = s->segments, .init_std = init_std};
    const charl_position_embedding_config positions = {
        .block_size = s->block_size, .init_std = init_std, .first = s->first_position};
    charl_norm_config norm;

    CHARL_TRY(charl_model_add(m, "wte", "embedding", &tokens));
    if (s->segments > 0) {
        CHARL_TRY(charl_model_add(m, "wse", "segment_embedding", &segments));
    }
    CHARL_TRY(charl_model_add(m, "wpe", "position_embedding", &positions));
    CHARL_TRY(charl_layer_defaults("layer_norm", &norm));
    norm.eps = s->norm_eps;
    CHARL_TRY(charl_model_add(m, "ln_e", "layer_norm", &norm));
    return add_dropout(m, "drop", s->dropout);
}

static charl_status add_blocks(charl_model *m, const bert_settings *s)
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
    block.form.norm_at = CHARL_BLOCK_NORM_SUM;
    for (int64_t i = 0; i < s->n_layer; i++) {
        snprintf(name, sizeof name, "h.%" PRId64, i);
        CHARL_TRY(charl_model_add(m, name, "transformer_block", &block));
    }
    return CHARL_OK;
}

/* The first position of the last block is that of the whole text. */
static charl_status add_head(charl_model *m, const bert_settings *s, int64_t outputs)
{
    charl_slice_config first;
    charl_linear_config linear;

    CHARL_TRY(charl_layer_defaults("slice", &first));
    first.length = 1;
    CHARL_TRY(charl_model_add(m, "first", "slice", &first));
    CHARL_TRY(charl_model_add(m, "flat", "flatten", NULL));
    CHARL_TRY(charl_layer_defaults("linear", &linear));
    linear.init_std = init_std;
    linear.out = s->n_embd;
    linear.activation = s->pooler == 0 ? "tanh" : "relu";
    CHARL_TRY(charl_model_add(m, "pooler", "linear", &linear));
    CHARL_TRY(add_dropout(m, "drop_pooled", s->dropout));
    linear.out = outputs;
    linear.activation = NULL;
    return charl_model_add(m, "classifier", "linear", &linear);
}

static charl_status add(charl_model *m, const void *settings, int64_t outputs)
{
    const bert_settings *s = settings;

    CHARL_TRY(add_embeddings(m, s));
    CHARL_TRY(add_blocks(m, s));
    CHARL_TRY(add_head(m, s, outputs));
    return charl__model_set_type(m, &charl__model_bert, s, sizeof *s);
}

static void resolve(void *settings, int64_t outputs)
{
    bert_settings *s = settings;

    s->hidden = charl__transformer_hidden(s->hidden, s->mlp, s->n_embd);
    s->classes = s->classes ? s->classes : outputs;
}

static bool check(const void *settings, const char **key, char *reason)
{
    const bert_settings *s = settings;

    *key = "n_embd";
    if (s->n_embd % s->n_head != 0) {
        snprintf(reason, CHARL_REASON_BYTES, "%" PRId64 " does not divide among n_head = %" PRId64 " heads", s->n_embd,
                 s->n_head);
        return false;
    }
    *key = "first_position";
    if (s->first_position >= s->block_size) {
        snprintf(reason, CHARL_REASON_BYTES, "must be below block_size = %" PRId64, s->block_size);
        return false;
    }
    return true;
}

#define KEY(...) CHARL__KEY(bert_settings, __VA_ARGS__)
static const charl_key keys[] = {
    KEY(n_layer, INT, "[1,1000]", false, "number of transformer blocks"),
    KEY(n_head, INT, "[1,1000]", false, "attention heads per block"),
    KEY(n_embd, INT, "[1,1e6]", false, "embedding width; must be a multiple of n_head"),
    KEY(hidden, INT, "[1,1e9]", false, "width of the MLP; auto: 4 n_embd", "auto"),
    KEY(block_size, INT, "[1,1e6]", false,
        "rows of the position embedding; texts have at most as many tokens, less first_position"),
    KEY(first_position, INT, "[0,1000]", false, "row of the first token's position: 2 in RoBERTa"),
    {"vocab_size", CHARL_KEY_INT, offsetof(bert_settings, vocab), "[1,1e9]", false,
     "rows of the token embedding, at least as many as the data have tokens", NULL},
    KEY(segments, INT, "[0,1000]", false,
        "rows of the segment embedding (token types), of which charl uses the first; 0: no segment embedding"),
    KEY(classes, INT, "[1,1e9]", false, "outputs, which are those of the data: a record for exports; auto: by the data",
        "auto"),
    KEY(dropout, FLOAT, "[0,1)", false, "dropout probability"),
    KEY(norm_eps, FLOAT, "(0,1)", false, "added to the variance in the norms"),
    KEY(mlp, CHOICE, NULL, false, CHARL__BLOCK_MLP_HELP),
    KEY(pooler, CHOICE, NULL, false, "activation of the layer between the first position and the outputs", "tanh|relu"),
    KEY(family, CHOICE, NULL, false,
        "family of published models, in whose layout weights are read and exported; auto: the first that has these "
        "settings",
        "auto|bert|distilbert|roberta"),
};
static const bert_settings defaults = {
    .n_layer = 12, .n_head = 12, .n_embd = 768, .block_size = 512, .vocab = 30522, .segments = 2, .norm_eps = 1e-12};

const charl_model_type charl__model_bert = {
    .row.name = "bert",
    .row.help = "an encoder such as BERT, which classifies texts: reads tokens",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .row.check = check,
    .input = CHARL_MODEL_READS_ANY,
    .add = add,
    .resolve = resolve,
    .keeps_vectors = true,
};
