/* gpt: GPT-2 and its relatives as a list of layers. */
#include <stdio.h>

#include "base/error.h"
#include "nn/layer.h"

static const double init_std = 0.02;

static charl_status add_embeddings(charl_model *m, const charl_gpt_config *c)
{
    const charl_embedding_config tokens = {
        .vocab = c->vocab, .dim = c->n_embd, .init_std = init_std};
    const charl_position_embedding_config positions = {.block_size = c->block_size,
                                                       .init_std = init_std};
    const charl_dropout_config dropout = {c->dropout};

    CHARL_TRY(charl_model_add(m, "wte", "embedding", &tokens));
    if (c->positions == CHARL_GPT_LEARNED) {
        CHARL_TRY(charl_model_add(m, "wpe", "position_embedding", &positions));
    }
    if (c->dropout > 0) {
        CHARL_TRY(charl_model_add(m, "drop", "dropout", &dropout));
    }
    return CHARL_OK;
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
    block.rotary = c->positions == CHARL_GPT_ROTARY;
    block.bias = c->bias;
    block.norm = c->norm;
    block.mlp = c->mlp;
    for (int64_t i = 0; i < c->n_layer; i++) {
        snprintf(name, sizeof name, "h.%lld", (long long)i);
        CHARL_TRY(charl_model_add(m, name, "transformer_block", &block));
    }
    return CHARL_OK;
}

static charl_status add_norm(charl_model *m, const charl_gpt_config *c)
{
    charl_norm_config norm;

    if (c->norm == CHARL_BLOCK_RMS_NORM) {
        CHARL_TRY(charl_model_add(m, "ln_f", "rms_norm", NULL));
        return CHARL_OK;
    }
    CHARL_TRY(charl_layer_defaults("layer_norm", &norm));
    norm.bias = c->bias;
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
    CHARL_TRY(charl_model_add(m, "lm_head", "linear", &head));
    return CHARL_OK;
}

charl_status charl_model_add_gpt(charl_model *m, const charl_gpt_config *c)
{
    CHARL_REQUIRE(c->vocab >= 1 && c->n_layer >= 1 && c->n_head >= 1, CHARL_ERR_CONFIG,
                  "a gpt needs a vocabulary, layers and heads");
    CHARL_REQUIRE(c->n_embd >= 1 && c->n_embd % c->n_head == 0, CHARL_ERR_CONFIG,
                  "n_embd = %lld is not a multiple of n_head = %lld", (long long)c->n_embd,
                  (long long)c->n_head);
    CHARL_TRY(add_embeddings(m, c));
    CHARL_TRY(add_blocks(m, c));
    CHARL_TRY(add_norm(m, c));
    CHARL_TRY(add_head(m, c));
    return CHARL_OK;
}
