#ifndef CHARL_NN_MODEL_INTERNAL_H
#define CHARL_NN_MODEL_INTERNAL_H
/** What a training asks of a model. */
#include "charl/nn.h"

/** The model's adapters, borrowed; NULL if it has none. Local. */
const charl_lora *charl__model_get_lora(const charl_model *m);

/** The layer whose weight the i-th uses too, or NULL. Borrowed. Local. */
const char *charl__model_get_tie(const charl_model *m, int i);
#endif
