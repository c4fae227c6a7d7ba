#ifndef CHARL_INFER_INFERENCE_H
#define CHARL_INFER_INFERENCE_H
/** Shared by servers (charl/inference.h) and predictions: one evaluation graph over a batch of raw rows. */
#include "charl/inference.h"
#include "task/session.h"

/* Settings that only matter for training are not needed: a row can be computed on any device, in any batch. */
enum { CHARL__INFERENCE_OVERRIDES = 3 };
extern const charl_config_override charl__inference_overrides[CHARL__INFERENCE_OVERRIDES];

/** Build and compile the model of `s` (borrowed; config and schema are set) for batches of max_rows rows on the device of
 *  `request`. Its weights are not loaded: load them into s->params, then call charl__inference_begin. `path` names
 *  the model in messages. *out is owned: charl_inference_close.
 *  Errors: ERR_CONFIG  layers, or the model and its data, do not fit   ERR_DEVICE, ERR_KERNEL, ERR_NOMEM */
charl_status charl__inference_create(charl__session *s, const char *path, int64_t max_rows,
                                     const charl_device_request *request, charl_inference **out) CHARL_MUST_CHECK;

/** Run every launch once. Errors: ERR_DEVICE, ERR_KERNEL. */
charl_status charl__inference_begin(charl_inference *m) CHARL_MUST_CHECK;

/** Shape of the model's output, [max_rows, ...]. Local. */
charl_shape charl__inference_output_shape(const charl_inference *m);

#endif
