/* The registry of layer types. */
#include <string.h>

#include "nn/layer.h"

static const charl_layer_type *const types[] = {
    &charl__layer_linear,
    &charl__layer_conv2d,
    &charl__layer_batch_norm,
    &charl__layer_layer_norm,
    &charl__layer_max_pool2d,
    &charl__layer_avg_pool2d,
    &charl__layer_global_avg_pool,
    &charl__layer_flatten,
    &charl__layer_dropout,
    &charl__layer_conv_transpose2d,
    &charl__layer_group_norm,
    &charl__layer_residual_block,
    &charl__layer_embedding,
    &charl__layer_position_embedding,
    &charl__layer_lstm,
    &charl__layer_gru,
    &charl__layer_transformer_block,
    &charl__layer_rms_norm,
};

enum { N_TYPES = (int)(sizeof types / sizeof types[0]) };

const charl_layer_type *charl__layer_type_at(int i)
{
    if (i < N_TYPES) {
        return types[i];
    }
    for (int k = 0; charl__layer_activations[k].name; k++) {
        if (i == N_TYPES + k) {
            return &charl__layer_activations[k];
        }
    }
    return NULL;
}

const charl_layer_type *charl__layer_type_find(const char *name)
{
    const charl_layer_type *t;

    for (int i = 0; (t = charl__layer_type_at(i)) != NULL; i++) {
        if (strcmp(t->name, name) == 0) {
            return t;
        }
    }
    return NULL;
}
