#ifndef CHARL_WEIGHTS_H
#define CHARL_WEIGHTS_H
/** Saving and loading parameters: charl checkpoints, and safetensors files compatible with PyTorch.
 *
 *      charl_params_save(params, "model.safetensors", NULL);
 *      charl_params_load(params, "pretrained.safetensors", &(charl_params_load_options){.by_name = true}, &report);
 *      printf("%d loaded, %d missing\n%s", report.loaded, report.missing, report.text);
 *      charl_params_report_fini(&report);
 *
 *  Every parameter of the set is saved as f32 under its name, including frozen parameters and running statistics.
 * If config_text is given, the checkpoint describes the complete model, and charl_inference_open, charl predict
 * and charl checkpoint export accept it.
 */
#include "charl/checkpoint.h"
#include "charl/params.h"

CHARL_BEGIN_DECLS

/** What to save besides the parameters. All members may be zero. */
typedef struct charl_params_save_options {
    const char *config_text;         /* checkpoints only; its [model] describes this model; NULL: none */
    const charl_data_schema *schema; /* of the data set; NULL: unknown */
    int64_t step;                    /* checkpoints only: steps trained */
} charl_params_save_options;

/** Write all parameters to `path`, replacing an existing file. The extension selects the format: .safetensors, or
 * .h5 for a checkpoint. The file is replaced atomically. The checkpoint has no optimizer state: a run can be
 * initialized from it, but not resumed.
 *
 *  Blocks. Local. Errors: ERR_INVALID  unknown extension, config_text with safetensors, or no graph that uses the set has
 * been compiled   ERR_CONFIG  config_text is not a valid configuration   ERR_DISK, ERR_NOMEM, ERR_DEVICE */
charl_status charl_params_save(const charl_params *set, const char *path,
                               const charl_params_save_options *options) CHARL_MUST_CHECK;

/** How to load. All zero: strict. */
typedef struct charl_params_load_options {
    bool by_name;         /* load what fits and report the rest; false: everything must fit */
    charl_ema_choice ema; /* from a checkpoint: the weights or their moving average */
} charl_params_load_options;

/** Result of a load. NAME.num_batches_tracked, which PyTorch adds to safetensors files, is ignored. */
typedef struct charl_params_report {
    int loaded;
    int missing;   /* parameters not in the file; they keep their values */
    int extra;     /* tensors of the file that are not in the set */
    int misshapen; /* in both, but with another shape or an integer type; not loaded */
    char *text;    /* one line per tensor that was not loaded; "": none; NULL: out of memory */
} charl_params_report;

/** Load parameters by name from a .safetensors file (f32, bf16 or f16), or from a checkpoint if the extension is
 * any other. In strict mode nothing is changed unless everything fits. `report` may be NULL; otherwise release it
 * with charl_params_report_fini, also after a failure.
 *
 *  Blocks. Local. Errors: ERR_CHECKPOINT  the file is damaged; strict: something does not fit; by name: nothing fits
 *          ERR_INVALID  no graph that uses the set has been compiled   ERR_CONFIG  built without safetensors
 *          ERR_NOMEM, ERR_DEVICE */
charl_status charl_params_load(charl_params *set, const char *path, const charl_params_load_options *options,
                               charl_params_report *report) CHARL_MUST_CHECK;
/** Release the text of a report. Local. */
void charl_params_report_fini(charl_params_report *report);

CHARL_END_DECLS

#endif
