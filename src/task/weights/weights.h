#ifndef CHARL_TASK_WEIGHTS_WEIGHTS_H
#define CHARL_TASK_WEIGHTS_WEIGHTS_H
/** The weights of a checkpoint: which of them, and on their way into a model. */
#include "charl/checkpoint.h"
#include "config/values.h"
#include "charl/params.h"
#include "weights/weights_source.h"

/** One tensor of a checkpoint, which the model has as f32 of `shape`: *out is the caller's, also
 *  after failure (NULL or not). `path` is for messages. Errors: ERR_CHECKPOINT, ERR_NOMEM. Blocks.
 */
charl_status charl__weights_read(charl_checkpoint_reader *r, const char *path, const char *group, const char *name,
                                 const charl_shape *shape, float **out) CHARL_MUST_CHECK;

/** Weights from `group` ("model" or "ema") of a checkpoint that is open. Errors: ERR_CHECKPOINT
 *  when it is another model's, or holds more than this one. Blocks. */
charl_status charl__weights_restore(charl_params *params, charl_checkpoint_reader *r, const char *path,
                                    const char *group) CHARL_MUST_CHECK;
/** Classes of the model that a checkpoint holds, where they follow from the data: extent of its
 *  last weight. 0: the configuration says it itself. Errors: ERR_CONFIG, ERR_NOMEM. */
charl_status charl__weights_classes(const charl_config *config, const charl_checkpoint_reader *r,
                                    int64_t *out) CHARL_MUST_CHECK;

/** Outputs of the model that a checkpoint holds: rows of its last weight; 0: it has none like that. Errors: ERR_CONFIG, ERR_NOMEM. */
charl_status charl__weights_outputs(const charl_config *config, const charl_checkpoint_reader *r,
                                    int64_t *out) CHARL_MUST_CHECK;

/** Whether init.skip starts the output layer of the model afresh, and with `tokens` also the layer that reads them. Errors: ERR_CONFIG,
 *  ERR_NOMEM. */
charl_status charl__weights_outputs_skipped(const charl_config *config, bool tokens, bool *out) CHARL_MUST_CHECK;

#endif
