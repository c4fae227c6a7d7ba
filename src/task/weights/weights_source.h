#ifndef CHARL_TASK_WEIGHTS_WEIGHTS_SOURCE_H
#define CHARL_TASK_WEIGHTS_WEIGHTS_SOURCE_H
/** Where weights are read from: a checkpoint, a safetensors file, or a folder with safetensors shards. */
#include "charl/checkpoint.h"
#include "charl/safetensors.h"

typedef struct charl__weights_source {
    const char *path; /* borrowed */
    charl_checkpoint_reader *checkpoint;
    charl_safetensors *tensors;
    const char *group; /* of the checkpoint that trained weights are taken from */
} charl__weights_source;

/** Whether weights at `path` are safetensors: a file named so, an index of shards, or a folder. */
bool charl__is_safetensors(const char *path);

/** Open `path`. ema: a charl_ema_choice, for checkpoints. Call charl__weights_source_close also after a failure.
 *  Blocks. Errors: ERR_CHECKPOINT, ERR_CONFIG (built without safetensors), ERR_NOMEM. */
charl_status charl__weights_source_open(const char *path, charl_ema_choice ema,
                                        charl__weights_source *s) CHARL_MUST_CHECK;
void charl__weights_source_close(charl__weights_source *s);

/** Number of tensors; the i-th, NULL where it is no weight, such as the state of an optimizer. */
int64_t charl__weights_source_count(const charl__weights_source *s);
const charl_checkpoint_tensor *charl__weights_source_get(const charl__weights_source *s, int64_t i);

/** Read a tensor of F32, F16 or BF16 as f32.  dst [shape of t]. Blocks. Errors: ERR_CHECKPOINT, ERR_NOMEM. */
charl_status charl__weights_source_read(const charl__weights_source *s, const charl_checkpoint_tensor *t,
                                        float *dst) CHARL_MUST_CHECK;

#endif
