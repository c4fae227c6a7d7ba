#ifndef CHARL_CONFIG_MODEL_CONFIG_FROM_H
#define CHARL_CONFIG_MODEL_CONFIG_FROM_H
/** Settings of a model from config.json, as Hugging Face transformers writes it. */
#include "charl/status.h"

/** Receives a key of [model] and its value as text. `label` is the file. */
typedef charl_status (*charl__config_setting)(void *ctx, const char *key, const char *value, const char *label);

/** Read config.json in the folder `path`, or the file if it is named .json, and call `set` for `type` and for every setting of the layout that model_type names.
 *  Blocks. Errors: ERR_CONFIG  no such file, not JSON, a model or a setting that charl does not support;
 *  errors of `set`. */
charl_status charl__config_read_model(const char *path, charl__config_setting set, void *ctx) CHARL_MUST_CHECK;

#endif
