#ifndef CHARL_TASK_WEIGHTS_WEIGHTS_H
#define CHARL_TASK_WEIGHTS_WEIGHTS_H
/** The weights of a checkpoint: selecting and loading them. */
#include "charl/checkpoint.h"
#include "config/values.h"
#include "charl/params.h"
#include "weights/weights_source.h"

/** One tensor of a checkpoint, whose parameter is f32 of `shape`: *out is owned by the caller, even
 *  after failure (NULL or not). `path` is for messages. Errors: ERR_CHECKPOINT, ERR_NOMEM. Blocks.
 */
charl_status charl__weights_read(charl_checkpoint_reader *r, const char *path, const char *group, const char *name,
                                 const charl_shape *shape, float **out) CHARL_MUST_CHECK;

/** Weights from `group` ("model" or "ema") of a checkpoint that is open. Errors: ERR_CHECKPOINT
 *  if it belongs to another model, or contains more than this one. Blocks. */
charl_status charl__weights_restore(charl_params *params, charl_checkpoint_reader *r, const char *path,
                                    const char *group) CHARL_MUST_CHECK;
/** Number of classes of the model in a checkpoint, if they follow from the data: extent of its
 *  last weight. 0: the configuration determines it. Errors: ERR_CONFIG, ERR_NOMEM. */
charl_status charl__weights_classes(const charl_config *config, const charl_checkpoint_reader *r,
                                    int64_t *out) CHARL_MUST_CHECK;

/** Number of outputs of the model in a checkpoint: rows of its last weight; 0: it has no such weight. Errors: ERR_CONFIG, ERR_NOMEM. */
charl_status charl__weights_outputs(const charl_config *config, const charl_checkpoint_reader *r,
                                    int64_t *out) CHARL_MUST_CHECK;

/** Whether init.skip reinitializes the output layer of the model, and with `tokens` also the layer that reads them. Errors: ERR_CONFIG,
 *  ERR_NOMEM. */
charl_status charl__weights_outputs_skipped(const charl_config *config, bool tokens, bool *out) CHARL_MUST_CHECK;

#endif
