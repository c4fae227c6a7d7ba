#ifndef CHARL_NN_MODEL_H
#define CHARL_NN_MODEL_H
/** The registry of models. */
#include "charl/layer.h"

/** Model i = 0, 1, ...; NULL past the last. By name; NULL if unknown. */
const charl_model_type *charl__model_type_at(int i);
const charl_model_type *charl__model_type_find(const char *name);

/** The only list of models: charl__model_NAME is the row in its file. */
/* clang-format off */
#define CHARL__MODELS(X) \
    X(sequential) X(mlp) X(cnn) X(gpt) X(resnet)
/* clang-format on */
#define CHARL__MODEL_EXTERN(name) extern const charl_model_type charl__model_##name;
CHARL__MODELS(CHARL__MODEL_EXTERN)

#endif
