#ifndef CHARL_INFER_INFERENCE_H
#define CHARL_INFER_INFERENCE_H
/** What servers (charl/inference.h) and predictions share: one evaluation graph over a batch of raw rows. */
#include "charl/inference.h"
#include "task/session.h"

/* What matters to training does not matter here: a row can be computed on any device, in any number. */
enum { CHARL__INFERENCE_OVERRIDES = 3 };
extern const charl_config_override charl__inference_overrides[CHARL__INFERENCE_OVERRIDES];

/** Build and compile the model of `s` (borrowed; config and schema are set) for batches of max_rows rows on the device of
 *  `request`. Its weights are not loaded yet: load them into s->params, then call charl__inference_begin. `path` is what has
 *  the model, for messages. *out is owned: charl_inference_close.
 *  Errors: ERR_CONFIG  layers, or the model and its data, do not fit   ERR_DEVICE, ERR_KERNEL, ERR_NOMEM */
charl_status charl__inference_create(charl__session *s, const char *path, int64_t max_rows,
                                     const charl_device_request *request, charl_inference **out) CHARL_MUST_CHECK;

/** Run every launch once. Errors: ERR_DEVICE, ERR_KERNEL. */
charl_status charl__inference_begin(charl_inference *m) CHARL_MUST_CHECK;

/** Shape of the model's output, [max_rows, ...]. Local. */
charl_shape charl__inference_output_shape(const charl_inference *m);

#endif
