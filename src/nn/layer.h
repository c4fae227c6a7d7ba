#ifndef CHARL_NN_LAYER_H
#define CHARL_NN_LAYER_H
/** The registry of layer types, and what layers share. */
#include "charl/layer.h"
#include "charl/nn.h"
#include "charl/ops.h"

enum { CHARL_LAYER_MAX_NAME = 256 };

const charl_layer_type *charl__layer_type_find(const char *name); /* NULL if unknown */
const charl_layer_type *charl__layer_type_at(int i);              /* NULL past the end */

/** Append a layer that is a part of this one: its name and scope are b's with ".suffix". NULL x, or
 * an error, gives NULL. */
charl_var *charl__layer_build_inside(const charl_layer_build *b, const char *suffix, const charl_layer_type *type,
                                     const void *config, charl_var *x);
/** Parameter `suffix` of the layer named `layer`, declared before with that shape. */
charl_var *charl__layer_param_of(const charl_layer_build *b, const char *layer, const char *suffix,
                                 const charl_shape *shape);
/** Refuse the input: ERR_SHAPE with the layer's name. Returns NULL. */
charl_var *charl__graph_refuse(charl_graph *g, const char *reason);
/** x through the activation named `name`; NULL name: x. */
charl_var *charl__activate(charl_graph *g, const char *name, charl_var *x);
/** The name itself in static memory, NULL if unknown. */
const char *charl__activation_find(const char *name);

/** The only list of layer types: charl__layer_NAME is the row in its file. */
/* clang-format off */
#define CHARL__LAYERS(X) \
    X(linear) X(conv2d) X(batch_norm) X(layer_norm) X(max_pool2d) X(avg_pool2d) \
    X(global_avg_pool) X(flatten) X(dropout) X(conv_transpose2d) X(group_norm) X(residual_block) \
    X(embedding) X(position_embedding) X(lstm) X(gru) X(transformer_block) X(rms_norm) X(relu) \
    X(leaky_relu) X(elu) X(sigmoid) X(tanh) X(gelu) X(gelu_tanh) X(silu) X(softplus) X(swiglu)
/* clang-format on */
#define CHARL__LAYER_EXTERN(name) extern const charl_layer_type charl__layer_##name;
CHARL__LAYERS(CHARL__LAYER_EXTERN)

#endif
