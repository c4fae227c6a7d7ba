#ifndef CHARL_EXPORT_EXPORT_H
#define CHARL_EXPORT_EXPORT_H
/** Files of other programs that hold a model's weights. */
#include "charl/checkpoint.h"
#include "charl/config.h"
#include "charl/nn.h"
#include "charl/params.h"

/** PyTorch counts the batches that a batch norm has seen: for the buffer "bn1.running_mean" there
 * is "bn1.num_batches_tracked", i64. Writes that name into text[bytes] when `name` is such a buffer
 * and it fits, and returns whether it did. */
bool charl__batches_name(const char *name, char *text, size_t bytes);

/** Export `checkpoint` to DIR/NAME with the format's ending; nothing to do for CHARL_EXPORT_NONE.
 *  Errors: as charl_export_model. */
charl_status charl__export_beside(const char *checkpoint, charl_export_format format, const char *dir,
                                  const char *name) CHARL_MUST_CHECK;

/** What is exported where. Borrowed. */
typedef struct charl__export {
    charl_checkpoint_reader *r;
    const char *checkpoint; /* its path */
    const char *group;      /* of trained weights: "model" or "ema" */
    const charl_config_override *overrides;
    int n_overrides;
    const char *path;
} charl__export;

/** Every weight and buffer as safetensors. A weight that two layers of `model` share is there under
 * both names; NULL: no such model is known. Errors: ERR_DISK, ERR_CHECKPOINT, ERR_NOMEM. */
charl_status charl__export_safetensors(const charl__export *e, const charl_model *model) CHARL_MUST_CHECK;

/** The evaluation graph with its weights as an ONNX model: see docs/exporting.md. Opens the data
 * file, no device. Errors: ERR_CONFIG, ERR_DATA, ERR_CHECKPOINT, ERR_DISK, ERR_NOMEM. */
charl_status charl__export_onnx(const charl__export *e) CHARL_MUST_CHECK;

/** Give every parameter of `set` the value of the tensor of its name, F32, F16 or BF16. A tensor
 * that `model` does not have is refused, except for counts of batches of its batch norms and equal
 * copies of weights that layers share.
 *  Errors: ERR_CHECKPOINT naming file and tensor; ERR_NOMEM, ERR_DEVICE. */
charl_status charl__import_safetensors(const char *path, const charl_model *model, charl_params *set) CHARL_MUST_CHECK;

#endif
