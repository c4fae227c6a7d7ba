#ifndef CHARL_EXPORT_EXPORT_H
#define CHARL_EXPORT_EXPORT_H
/** Files with a model's weights for other programs. */
#include "charl/checkpoint.h"
#include "config/values.h"
#include "charl/nn.h"
#include "charl/params.h"
#include "config/export_formats.h"

/** Export `checkpoint` to DIR/NAME.FORMAT; does nothing for the format "none".
 *  Errors: as charl_export_model. */
charl_status charl__export_beside(const char *checkpoint, const char *format, const char *dir,
                                  const char *name) CHARL_MUST_CHECK;

/** The source and destination of an export. Borrowed. */
typedef struct charl__export {
    charl_checkpoint_reader *r;
    const char *checkpoint; /* its path */
    const char *group;      /* of trained weights: "model" or "ema" */
    const charl_config_override *overrides;
    int n_overrides;
    const char *path;
    bool adapters_only; /* the base is not needed */
    char lock[65];      /* hash of the line of run.lock that records the checkpoint; "": there is none */
    charl_lora lora;    /* of the checkpoint's configuration; rank 0: none */
} charl__export;

/** The value of init.from among n overrides; NULL: none. */
const char *charl__export_base(const charl_config_override *overrides, int n);

/** Open e->checkpoint with its base (`base`, or as found by charl__weights_find_base), select the group of weights by ema, a
 *  charl_ema_choice, and read the settings of adapters. The caller closes the reader, even after a failure. Errors: ERR_CHECKPOINT, ERR_CONFIG, ERR_NOMEM. */
charl_status charl__export_open(charl__export *e, const char *base, charl_ema_choice ema) CHARL_MUST_CHECK;

/** Read the weight t of the checkpoint, f32, and add its adapters if it has any: W + alpha / rank * B @ A, summed in double.
 *  Cost of an adapter: 2 * rank flop per element of W. Errors: ERR_CHECKPOINT if the adapters do not fit; ERR_NOMEM. */
charl_status charl__export_read(const charl__export *e, const charl_checkpoint_tensor *t, float *dst) CHARL_MUST_CHECK;

/** The exporters of config/export_formats.h, in one file each. Errors: ERR_CONFIG, ERR_DATA, ERR_CHECKPOINT, ERR_DISK, ERR_NOMEM. */
#define CHARL__EXPORTER_RUN(name, help) charl_status charl__export_##name(const charl__export *e) CHARL_MUST_CHECK;
CHARL__EXPORTERS(CHARL__EXPORTER_RUN)

#endif
