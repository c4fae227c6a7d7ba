#ifndef CHARL_NN_MODEL_H
#define CHARL_NN_MODEL_H
/** The registry of models. */
#include "charl/layer.h"

/** Model i = 0, 1, ...; NULL past the last. By name; NULL if unknown. */
const charl_model_type *charl__model_type_at(int i);
const charl_model_type *charl__model_type_find(const char *name);

/** Say where the last layer added is described, "FILE:LINE": messages about it begin with that. Errors: ERR_NOMEM. */
charl_status charl__model_locate(charl_model *m, const char *origin) CHARL_MUST_CHECK;
/** Whether the layers are connected. Errors: ERR_CONFIG  a layer that nothing reads. */
charl_status charl__model_check(const charl_model *m) CHARL_MUST_CHECK;

/** What a layer has appended to the graph and declared in the set: nodes and parameters [first, end), and the shape of its output. */
typedef struct charl__layer_built {
    int first_node, end_node, first_param, end_param;
    charl_shape shape;
} charl__layer_built;

/** charl_model_build that fills in built[count of the model]. */
charl_var *charl__model_build_noting(const charl_model *m, charl_graph *g, charl_params *set, charl_var *x,
                                     charl__layer_built *built);
/** Type of layer i, and the names of what it reads into names[CHARL_MODEL_MAX_INPUTS], borrowed from the model; returns their number. */
const char *charl__model_layer_type(const charl_model *m, int i);
int charl__model_layer_inputs(const charl_model *m, int i, const char **names);

/** All of them, charl__model_NAME in a file of this folder, and NULL. Made by CMake. */
extern const void *const charl__models[];
/* Those that have layouts. */
extern const charl_model_type charl__model_gpt, charl__model_resnet;

#endif
