#ifndef CHARL_WEIGHTS_H
#define CHARL_WEIGHTS_H
/** Parameters in files: checkpoints of charl, and safetensors as PyTorch reads and writes them.
 *
 *      charl_params_save(params, "model.safetensors", NULL);
 *      charl_params_load(params, "pretrained.safetensors", &(charl_params_load_options){.by_name = true}, &report);
 *      printf("%d loaded, %d missing\n%s", report.loaded, report.missing, report.text);
 *      charl_params_report_fini(&report);
 *
 *  Saved is every parameter of a set, frozen ones and running statistics included, as f32 under its name.
 * With the text of a configuration a checkpoint is a whole model: charl_inference_open, charl predict and charl
 * checkpoint export take it.
 */
#include "charl/checkpoint.h"
#include "charl/params.h"

CHARL_BEGIN_DECLS

/** What is saved with the parameters. All zero is right. */
typedef struct charl_params_save_options {
    const char
        *config_text; /* checkpoint: a configuration whose [model] is this one's; NULL: none */
    const charl_data_schema *schema; /* of the data; NULL: unknown */
    int64_t step;                    /* checkpoint: steps trained */
} charl_params_save_options;

/** Write all parameters to `path`, replacing it: .safetensors in that format, .h5 a checkpoint. It appears
 * whole or not at all. A checkpoint has no optimizer state: training can start from it, but not resume it.
 *
 *  Blocks. Local. Errors: ERR_INVALID  another ending, config_text for safetensors, or no graph of the set has
 * been compiled   ERR_CONFIG  the text is no configuration   ERR_DISK, ERR_NOMEM, ERR_DEVICE */
charl_status charl_params_save(const charl_params *set, const char *path,
                               const charl_params_save_options *options) CHARL_MUST_CHECK;

/** How to load. All zero is strict. */
typedef struct charl_params_load_options {
    bool by_name;         /* load what fits and report the rest; false: everything must fit */
    charl_ema_choice ema; /* which weights of a checkpoint */
} charl_params_load_options;

/** What was found. Names that safetensors files of PyTorch have beside parameters, NAME.num_batches_tracked,
 * are passed over. */
typedef struct charl_params_report {
    int loaded;
    int missing;   /* parameters that the file does not have: they keep their values */
    int extra;     /* tensors of the file that the set does not have */
    int misshapen; /* in both, with different shapes or an integer type: not loaded */
    char *text;    /* a line for each that was not loaded; "" for none; NULL without memory */
} charl_params_report;

/** Load parameters by name from a .safetensors file (f32, bf16 or f16) or else a checkpoint. In strict mode
 * nothing is changed unless everything fits. `report` may be NULL; else it needs charl_params_report_fini, also
 * after a failure.
 *
 *  Blocks. Local. Errors: ERR_CHECKPOINT  damaged, or in strict mode what does not fit; by name, nothing fits
 *          ERR_INVALID  no graph of the set has been compiled   ERR_CONFIG  this build reads no safetensors
 *          ERR_NOMEM, ERR_DEVICE */
charl_status charl_params_load(charl_params *set, const char *path,
                               const charl_params_load_options *options,
                               charl_params_report *report) CHARL_MUST_CHECK;
/** Local. */
void charl_params_report_fini(charl_params_report *report);

CHARL_END_DECLS

#endif
