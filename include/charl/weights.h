#ifndef CHARL_WEIGHTS_H
#define CHARL_WEIGHTS_H
/** Saving and loading parameters: charl checkpoints, and safetensors files compatible with PyTorch.
 *
 *      charl_params_save(params, "model.safetensors", NULL);
 *      const charl_params_load_options o = {sizeof o, .by_name = true};
 *      charl_params_load(params, "pretrained.safetensors", &o, &report);
 *      printf("%d loaded, %d missing\n%s", report.loaded, report.missing, report.text);
 *      charl_params_report_fini(&report);
 *
 *  Every parameter of the set is saved as f32 under its name, including frozen parameters and running statistics.
 *  If config_text is given, the checkpoint describes the complete model, and charl_inference_open, charl predict
 *  and charl checkpoint export accept it.
 */
#include "charl/checkpoint.h"
#include "charl/nn.h"
#include "charl/params.h"

CHARL_BEGIN_DECLS

/** What to save besides the parameters. All members may be zero. */
typedef struct charl_params_save_options {
    size_t struct_size; /* sizeof(charl_params_save_options) */
    /* checkpoints only: a configuration, which libcharl-train checks; its [model] describes this model. NULL: none */
    const char *config_text;
    const charl_data_schema *schema; /* of the dataset; NULL: unknown */
    int64_t step;                    /* checkpoints only: number of training steps */
} charl_params_save_options;

/** Write all parameters to `path`, replacing an existing file. The extension selects the format: .safetensors, or
 *  .h5 for a checkpoint. The file is replaced atomically. The checkpoint has no optimizer state: a run can be
 *  initialized from it, but not resumed.
 *
 *  Blocks. Local.
 *  Errors: ERR_INVALID  unknown extension, config_text with safetensors, or no graph that uses the set has been
 *                       compiled
 *          ERR_CONFIG   config_text is not a valid configuration, or libcharl-train, which checks it, is not loaded
 *          ERR_DISK, ERR_NOMEM, ERR_DEVICE */
charl_status charl_params_save(const charl_params *set, const char *path,
                               const charl_params_save_options *options) CHARL_MUST_CHECK;

/** How to load. All zero: load everything, strictly. */
typedef struct charl_params_load_options {
    size_t struct_size;   /* sizeof(charl_params_load_options) */
    bool by_name;         /* load what fits and report the rest; false: everything must fit */
    charl_ema_choice ema; /* from a checkpoint: the weights or their moving average */

    /* "fc.*, ...": patterns of parameters that keep their values and of tensors in the file that are ignored. NULL:
     * none */
    const char *skip;
    /* "OLD -> NEW, ...": names in the file and in the set; the first matching OLD applies. One * in OLD matches any
     * text, which replaces * in NEW. NULL: none */
    const char *rename;
    /* The model of the set. Copies of weights that its layers share are accepted, and of a gpt and a resnet
     * (charl_model_add_gpt, charl_model_add_resnet) also the names and layouts of other programs: Hugging Face's GPT-2,
     * Llama and Qwen2, nanoGPT, torchvision. NULL: names and layouts of the set */
    const charl_model *model;
} charl_params_load_options;

/** Result of a load. */
typedef struct charl_params_report {
    int loaded;
    int missing;        /* parameters not in the file; they keep their values */
    int extra;          /* tensors in the file that are not in the set */
    int misshapen;      /* in both, but with another shape, an integer type, or different from their copy; not loaded */
    int skipped;        /* parameters that match `skip` */
    const char *layout; /* name of the recognized layout, static; NULL: the layout of the set */
    char *text;         /* a line for each tensor that was not, or not fully, loaded; "": none; NULL: out of memory */
} charl_params_report;

/** Load parameters by name (f32, bf16, f16, or f64 rounded to f32) from a file or folder that charl_tensor_file_open
 *  takes, or from a checkpoint. In strict mode nothing is changed unless everything fits. What PyTorch's wrappers add
 *  to names is removed: _orig_mod. (torch.compile), _fsdp_wrapped_module., _checkpoint_wrapped_module., and in front
 *  module. (DistributedDataParallel); its counts of batches are left out. `report` may
 *  be NULL; otherwise release it with charl_params_report_fini, even after a failure.
 *
 *  Blocks. Local.
 *  Errors: ERR_CHECKPOINT  the file is damaged; strict: something does not fit; by name: nothing fits
 *          ERR_INVALID     no graph that uses the set has been compiled
 *          ERR_CONFIG      skip or rename is malformed or names nothing
 *          ERR_NOMEM, ERR_DEVICE */
charl_status charl_params_load(charl_params *set, const char *path, const charl_params_load_options *options,
                               charl_params_report *report) CHARL_MUST_CHECK;
/** Release the text of a report. Local. */
void charl_params_report_fini(charl_params_report *report);

CHARL_END_DECLS

#endif
