#ifndef CHARL_TRAIN_EXPORT_H
#define CHARL_TRAIN_EXPORT_H
/** Files of other programs that hold a model's weights. */
#include "charl/checkpoint.h"
#include "charl/config.h"
#include "charl/params.h"

/** Whether `path` names a safetensors file. */
bool charl__is_safetensors(const char *path);

/** PyTorch counts the batches that a batch norm has seen: for the buffer "bn1.running_mean" there
 * is "bn1.num_batches_tracked", i64. Writes that name into text[bytes] when `name` is such a buffer
 * and it fits, and returns whether it did. */
bool charl__batches_name(const char *name, char *text, size_t bytes);

/** Export `checkpoint` to DIR/NAME with the format's ending; nothing to do for CHARL_EXPORT_NONE.
 *  Errors: as charl_train_export. */
charl_status charl__export_beside(const char *checkpoint, charl_export_format format,
                                  const char *dir, const char *name) CHARL_MUST_CHECK;

/** Every weight and buffer of a checkpoint as safetensors. Errors: ERR_DISK, ERR_CHECKPOINT,
 * ERR_NOMEM. */
charl_status charl__export_safetensors(charl_checkpoint_reader *r,
                                       const char *path) CHARL_MUST_CHECK;

/** Give every parameter of `set` the value of the tensor of its name, F32, F16 or BF16. A tensor
 * that the model does not have is refused, except for counts of batches of its batch norms.
 *  Errors: ERR_CHECKPOINT naming file and tensor; ERR_NOMEM, ERR_DEVICE. */
charl_status charl__import_safetensors(const char *path, charl_params *set) CHARL_MUST_CHECK;

#endif
