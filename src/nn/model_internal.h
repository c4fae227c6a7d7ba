#ifndef CHARL_NN_MODEL_INTERNAL_H
#define CHARL_NN_MODEL_INTERNAL_H
/** Internal functions of a model, for training. */
#include "base/error.h"
#include "charl/layer.h"

/** The layer whose weight layer i uses too, or NULL. Borrowed. Local. */
const char *charl__model_get_tie(const charl_model *m, int i);

/** Declare that the layers of m are those of a type with these settings, which are copied: layouts of other programs depend on it. Errors:
 *  ERR_NOMEM. */
charl_status charl__model_set_type(charl_model *m, const charl_model_type *type, const void *settings,
                                   size_t bytes) CHARL_MUST_CHECK;
/** That type, and its settings in *settings; NULL: none was declared. Borrowed from the model. */
const charl_model_type *charl__model_get_type(const charl_model *m, const void **settings);

/** For CHARL_SCOPED. */
CHARL_SCOPED_POINTER(charl__model_left, charl_model, charl_model_destroy)

#endif
