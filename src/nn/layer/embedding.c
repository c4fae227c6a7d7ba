/* embedding, position_embedding and segment_embedding: rows of a table by token, a row added for each position, and one added to all.
 * Initial values as torch.nn.Embedding: normal. */
#include <stdio.h>

#include "autograd/graph.h"
#include "autograd/kv_cache.h"
#include "nn/layer.h"

static charl_var *table(const charl_layer_build *b, int64_t rows, int64_t dim, double std)
{
    const charl_param_spec spec = {
        .shape = {2, {rows, dim}}, .init = {CHARL_INIT_NORMAL, 0.0F, (float)std}, .embedding = true};

    return charl_layer_param(b, "weight", &spec);
}

static charl_var *build_embedding(const charl_layer_build *b, charl_var *x)
{
    const charl_embedding_config *c = b->settings;

    if (charl_var_get_type(x).dtype != CHARL_I32) {
        return charl__graph_refuse(b->g, "embedding needs token numbers (i32), not measurements");
    }
    if (c->vocab < charl__graph_vocab(b->g)) {
        char text[128];

        snprintf(text, sizeof text, "embedding: vocab = %lld, but the data have %lld tokens", (long long)c->vocab,
                 (long long)charl__graph_vocab(b->g));
        return charl__graph_refuse(b->g, text);
    }
    x = charl_embedding(b->g, x, table(b, c->vocab, c->dim, c->init_std));
    return c->scale > 0 ? charl_scale(b->g, x, (float)c->scale, 0.0F) : x;
}

static charl_var *build_position_embedding(const charl_layer_build *b, charl_var *x)
{
    const charl_position_embedding_config *c = b->settings;
    const charl_shape in = charl_var_get_type(x).shape;
    const int64_t rows = c->block_size - c->first;
    charl_var *w, *position;

    if (in.ndim != 3) {
        return charl__graph_refuse(b->g, "position_embedding needs [batch, time, features]");
    }
    if (rows < 1) {
        return charl__graph_refuse(b->g, "position_embedding: first must be below block_size");
    }
    if (in.dim[1] > rows) {
        char text[128];

        snprintf(text, sizeof text, "a sequence of %lld is longer than block_size = %lld%s", (long long)in.dim[1],
                 (long long)c->block_size, c->first > 0 ? " less its first rows" : "");
        return charl__graph_refuse(b->g, text);
    }
    w = table(b, c->block_size, in.dim[2], c->init_std);
    if (c->first > 0) {
        w = charl_slice(b->g, w, 0, c->first, rows);
    }
    position = charl__graph_position(b->g);
    if (position) {
        w = charl_embedding(b->g, position, w);
    } else if (charl__graph_starts(b->g)) { /* each document has positions of its own */
        w = charl_embedding(b->g, charl__graph_document_positions(b->g), w);
    } else if (in.dim[1] < rows) {
        w = charl_slice(b->g, w, 0, 0, in.dim[1]);
    }
    return charl_add(b->g, x, w);
}

/* All positions are of the first segment. */
static charl_var *build_segment_embedding(const charl_layer_build *b, charl_var *x)
{
    const charl_segment_embedding_config *c = b->settings;
    const charl_shape in = charl_var_get_type(x).shape;
    charl_var *w;

    if (in.ndim != 3) {
        return charl__graph_refuse(b->g, "segment_embedding needs [batch, time, features]");
    }
    w = charl_slice(b->g, table(b, c->segments, in.dim[2], c->init_std), 0, 0, 1);
    return charl_add(b->g, x, charl_reshape(b->g, w, (charl_shape){1, {in.dim[2]}}));
}

static const charl_embedding_config embedding_defaults = {.init_std = 1.0};
static const charl_key embedding_keys[] = {
    CHARL__KEY(charl_embedding_config, vocab, INT, "[1,1e9]", true, "rows of the table: tokens are 0 to vocab - 1"),
    CHARL__KEY(charl_embedding_config, dim, INT, "[1,1e6]", true, "features of a token"),
    CHARL__KEY(charl_embedding_config, init_std, FLOAT, "[0,1e6)", false, "standard deviation of the initial values"),
    CHARL__KEY(charl_embedding_config, scale, FLOAT, "[0,1e6)", false, "factor of the output; 0: 1"),
};
static const charl_position_embedding_config position_defaults = {.init_std = 1.0};
static const charl_key position_keys[] = {
    CHARL__KEY(charl_position_embedding_config, block_size, INT, "[1,1e9]", true,
               "rows of the table: longest sequence, if first is 0"),
    CHARL__KEY(charl_position_embedding_config, init_std, FLOAT, "[0,1e6)", false,
               "standard deviation of the initial values"),
    CHARL__KEY(charl_position_embedding_config, first, INT, "[0,1e9]", false, "row of the first position"),
};
static const charl_segment_embedding_config segment_defaults = {.init_std = 1.0};
static const charl_key segment_keys[] = {
    CHARL__KEY(charl_segment_embedding_config, segments, INT, "[1,1e6]", true, "rows of the table"),
    CHARL__KEY(charl_segment_embedding_config, init_std, FLOAT, "[0,1e6)", false,
               "standard deviation of the initial values"),
};

const charl_layer_type charl__layer_embedding =
    CHARL__LAYER("embedding", "a row of a table for each token", build_embedding, CHARL__SETTINGS(embedding));

const charl_layer_type charl__layer_position_embedding =
    CHARL__LAYER("position_embedding", "add a learned row for each position of a sequence", build_position_embedding,
                 CHARL__SETTINGS(position));

const charl_layer_type charl__layer_segment_embedding =
    CHARL__LAYER("segment_embedding", "add the first row of a learned table to all positions of a sequence",
                 build_segment_embedding, CHARL__SETTINGS(segment));
