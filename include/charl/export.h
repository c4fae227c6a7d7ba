#ifndef CHARL_EXPORT_H
#define CHARL_EXPORT_H
/** Models for other programs. */
#include "charl/checkpoint.h"
#include "charl/config.h"

CHARL_BEGIN_DECLS

/** Write the model of a checkpoint to `path` for use elsewhere; the ending of the name chooses the
 * format. .safetensors: every weight and buffer in f32 under its PyTorch name. .onnx: the whole
 * computation of the evaluation graph, from rows as they lie in a data file to outputs as the loss
 * reads them (for a checkpoint without a schema the data file is opened, for shape and statistics).
 * `overrides` replace values of the checkpoint's configuration. ema: a charl_ema_choice.
 *
 *  Blocks. Local. Deterministic.
 *  Errors: ERR_CONFIG  no such format, or a layer that it has no form for; ERR_DATA,
 * ERR_CHECKPOINT, ERR_DISK, ERR_NOMEM */
charl_status charl_export_model(const char *checkpoint, const charl_config_override *overrides, int n_overrides,
                                int ema, const char *path) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
