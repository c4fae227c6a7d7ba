#ifndef CHARL_EXPORT_H
#define CHARL_EXPORT_H
/** Models for other programs.
 *
 *      check(charl_export_model("run/best.h5", NULL, 0, CHARL_EMA_AUTO, "model.onnx")); // of a checkpoint
 *
 *      charl_graph *g = NULL; // of layers in code, whose parameters have their values
 *      check(charl_graph_create(NULL, NULL, &g));
 *      charl_graph_set_training(g, false);
 *      charl_var *x = charl_input(g, "x", CHARL_F32, shape, CHARL_BATCHED);
 *      charl_var *y = charl_model_build(model, g, params, x);
 *      check(charl_export_onnx(g, &y, 1, NULL, "net.onnx"));
 *      charl_graph_destroy(g);
 */
#include "charl/checkpoint.h"
#include "charl/config.h"
#include "charl/graph.h"

CHARL_BEGIN_DECLS

/** Write the model of a checkpoint to `path` for use elsewhere; the ending of the name chooses the
 *  format. .safetensors: every weight and buffer in f32 under its PyTorch name. .onnx: the whole
 *  computation of the evaluation graph, from rows as they lie in a data file to outputs as the loss
 *  reads them (for a checkpoint without a schema the data file is opened, for shape and statistics).
 *  A file of that name is replaced, unless it is the checkpoint or its base.
 *  `overrides` replace values of the checkpoint's configuration; init.from=PATH says where its base is now
 *  (charl_checkpoint_tensor).
 *
 *  Blocks. Local. Deterministic.
 *  Errors: ERR_CONFIG  no such format, a layer that it has no form for, or `path` is an input; ERR_DATA,
 *  ERR_CHECKPOINT, ERR_DISK, ERR_NOMEM */
charl_status charl_export_model(const char *checkpoint, const charl_config_override *overrides, int n_overrides,
                                charl_ema_choice ema, const char *path) CHARL_MUST_CHECK;

/** How a graph is exported. All members may be zero for one output. */
typedef struct charl_onnx_options {
    size_t struct_size;              /* sizeof(charl_onnx_options) */
    const char *name;                /* of the model; NULL: "model" */
    const char *const *output_names; /* [n_outputs] NULL: "output", where there is one */
} charl_onnx_options;

/** Write what n_outputs values of a graph depend on as an ONNX model, replacing a file of that name. Inputs have the
 *  names and types that charl_input gave them (i32 becomes int64), and the batch is of any size; parameters are
 *  initializers under their names, with the values that they have now.
 *
 *  g  in inference mode and not compiled; it needs no device. The parameters have their values: another graph over
 *     their set has been compiled, as for training
 *
 *  Blocks. Local. Deterministic.
 *  Errors: ERR_INVALID  a graph for training, or one that is compiled; an output of another graph; a parameter without
 *                       memory
 *          ERR_CONFIG   an operator or element type that has no form in ONNX, naming it; more than 2 GiB
 *          ERR_DISK, ERR_NOMEM, ERR_DEVICE, and the graph's first error */
charl_status charl_export_onnx(const charl_graph *g, charl_var *const *outputs, int n_outputs,
                               const charl_onnx_options *options, const char *path) CHARL_MUST_CHECK;

/** Format i = 0, 1, ..., which is the ending of a file without its dot, and one line of help; NULL past the last. help
 *  may be NULL. Static. Local. */
const char *charl_export_format(int i, const char **help);

/* Bytes of a shard unless another number is given: 5 GB, as transformers writes them. */
#define CHARL_EXPORT_SHARD_BYTES INT64_C(5000000000)

/** How to write a folder for transformers or peft. All zero: as is usual. */
typedef struct charl_export_options {
    size_t struct_size; /* sizeof(charl_export_options) */
    charl_ema_choice ema;
    /* where the base of the checkpoint is now (charl_checkpoint_tensor); NULL: where it was in training */
    const char *base;
    int64_t shard_bytes; /* largest file of weights; 0: CHARL_EXPORT_SHARD_BYTES */
} charl_export_options;

/** Write a gpt as a folder that Hugging Face transformers loads: config.json, and the weights in f32 as
 *  model.safetensors or, above a shard, as several files with an index. The settings of the model decide whether it is
 *  a GPT-2, a Llama or a Qwen2; GPT-2's biases that the model does not have are zeros. Adapters (charl_lora) are added
 *  to their weights. `path` is a new or empty folder, and so it is after a failure. `options` may be NULL.
 *
 *  Blocks. Local. Deterministic. Cost: a shard of memory.
 *  Errors: ERR_CONFIG      no such model has these settings; the message names them
 *          ERR_CHECKPOINT, ERR_DISK, ERR_NOMEM */
charl_status charl_export_huggingface(const char *checkpoint, const charl_export_options *options,
                                      const char *path) CHARL_MUST_CHECK;

/** Write the low-rank adapters of a gpt as a folder that the Python package peft loads onto the model of transformers
 *  that they belong to: adapter_config.json and adapter_model.safetensors. options->base is what the file names as that
 *  model; NULL: [init] from. The base is not read. `path` is a new or empty folder, and so it is after a failure.
 *  `options` may be NULL.
 *
 *  Blocks. Local. Deterministic.
 *  Errors: ERR_CONFIG      there are no adapters, more than adapters was trained, or transformers has no such model
 *          ERR_CHECKPOINT, ERR_DISK, ERR_NOMEM */
charl_status charl_export_peft(const char *checkpoint, const charl_export_options *options,
                               const char *path) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
