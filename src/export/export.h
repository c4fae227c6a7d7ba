#ifndef CHARL_EXPORT_EXPORT_H
#define CHARL_EXPORT_EXPORT_H
/** Files of other programs that hold a model's weights. */
#include "charl/checkpoint.h"
#include "charl/config.h"
#include "charl/nn.h"
#include "charl/params.h"
#include "config/export_formats.h"

/** Export `checkpoint` to DIR/NAME.FORMAT; nothing to do for the format "none".
 *  Errors: as charl_export_model. */
charl_status charl__export_beside(const char *checkpoint, const char *format, const char *dir,
                                  const char *name) CHARL_MUST_CHECK;

/** Add the adapters among n f32 tensors to the weights that they adapt: W += alpha / rank * B @ A, summed in double. data[i] holds the
 *  values of t[i]. The adapters stay where they are. Cost: 2 * rank flop per element of W. Errors: ERR_CHECKPOINT if they do not fit. */
charl_status charl__merge_adapters(const charl_lora *lora, const charl_checkpoint_tensor *t, float *const *data,
                                   int64_t n) CHARL_MUST_CHECK;

/** What is exported where. Borrowed. */
typedef struct charl__export {
    charl_checkpoint_reader *r;
    const char *checkpoint; /* its path */
    const char *group;      /* of trained weights: "model" or "ema" */
    const charl_config_override *overrides;
    int n_overrides;
    const char *path;
} charl__export;

/** The exporters of config/export_formats.h, each in a file of its own. Errors: ERR_CONFIG, ERR_DATA, ERR_CHECKPOINT, ERR_DISK, ERR_NOMEM. */
#define CHARL__EXPORTER_RUN(name, help) charl_status charl__export_##name(const charl__export *e) CHARL_MUST_CHECK;
CHARL__EXPORTERS(CHARL__EXPORTER_RUN)

#endif
