#ifndef CHARL_EXPORT_H
#define CHARL_EXPORT_H
/** Export of models to other programs.
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

/** Export the model of a checkpoint to `path`, in the format of the file name's ending. .safetensors: every weight and
 *  buffer in f32 under its PyTorch name. .onnx: the evaluation graph, from rows as a data file stores them to the
 *  outputs that the loss reads (for a checkpoint without a schema the data file is opened, for shape and statistics).
 *  An existing file is replaced, unless it is the checkpoint or its base.
 *  `overrides` replace values of the checkpoint's configuration; init.from=PATH says where its base is now
 *  (charl_checkpoint_tensor).
 *
 *  Blocks. Local. Deterministic.
 *  Errors: ERR_CONFIG  no such format, a layer that the format cannot express, or `path` is an input; ERR_DATA,
 *  ERR_CHECKPOINT, ERR_DISK, ERR_NOMEM */
charl_status charl_export_model(const char *checkpoint, const charl_config_override *overrides, int n_overrides,
                                charl_ema_choice ema, const char *path) CHARL_MUST_CHECK;

/** Options of charl_export_onnx. With one output all members may be zero. */
typedef struct charl_onnx_options {
    size_t struct_size;              /* sizeof(charl_onnx_options) */
    const char *name;                /* of the model; NULL: "model" */
    const char *const *output_names; /* [n_outputs] NULL, with one output: "output" */
} charl_onnx_options;

/** Export n_outputs values of a graph, and all that they depend on, as an ONNX model. An existing file is replaced.
 *  Inputs have the names and types of charl_input (i32 becomes int64), and a batch may have any size; parameters are
 *  initializers under their names, with their current values.
 *
 *  g        in inference mode and not compiled; it needs no device. Its parameters have memory, because another graph
 *           over their set has been compiled, as for training
 *  options  may be NULL
 *
 *  Blocks. Local. Deterministic.
 *  Errors: ERR_INVALID  a graph for training, or one that is compiled; an output of another graph; a parameter without
 *                       memory
 *          ERR_CONFIG   an operator or element type that ONNX cannot express, which the message names; two values of
 *                       the same name, such as parameters of two sets; more than 2 GiB
 *          ERR_DISK, ERR_NOMEM, ERR_DEVICE, and the graph's first error */
charl_status charl_export_onnx(const charl_graph *g, charl_var *const *outputs, int n_outputs,
                               const charl_onnx_options *options, const char *path) CHARL_MUST_CHECK;

/** Name of format i = 0, 1, ..., which is the ending of its file names without the dot, and one line of help; NULL past
 *  the last. help may be NULL. Static storage. Local. */
const char *charl_export_format(int i, const char **help);

/* Bytes of a shard unless another number is given: 5 GB, as transformers writes them. */
#define CHARL_EXPORT_SHARD_BYTES INT64_C(5000000000)

/** Options of charl_export_huggingface and charl_export_peft; zeros are the defaults. */
typedef struct charl_export_options {
    size_t struct_size; /* sizeof(charl_export_options) */
    charl_ema_choice ema;
    /* where the base of the checkpoint is now (charl_checkpoint_tensor); NULL: where it was in training */
    const char *base;
    int64_t shard_bytes; /* largest file of weights; 0: CHARL_EXPORT_SHARD_BYTES */
} charl_export_options;

/** Export a gpt as a folder for Hugging Face transformers: config.json, the tokenizer if the checkpoint holds one, and
 *  the weights in f32 as model.safetensors or, if they exceed a shard, as several files with an index. The settings of
 *  the model decide whether it is a GPT-2, a Llama or a Qwen2; biases of GPT-2 that the model does not have become
 *  zeros. Adapters (charl_lora) are merged into their weights. `path` must be a new or empty folder; after a failure it
 *  is again. `options` may be NULL.
 *
 *  Blocks. Local. Deterministic. Cost: memory for one shard.
 *  Errors: ERR_CONFIG      no such model has these settings, which the message names
 *          ERR_INVALID     shard_bytes is negative
 *          ERR_CHECKPOINT, ERR_DISK, ERR_NOMEM */
charl_status charl_export_huggingface(const char *checkpoint, const charl_export_options *options,
                                      const char *path) CHARL_MUST_CHECK;

/** Export the low-rank adapters of a gpt as a folder for the Python package peft, which applies them to the model of
 *  transformers: adapter_config.json and adapter_model.safetensors. adapter_config.json names options->base as that
 *  model, or [init] from if it is NULL; the base is not read. `path` must be a new or empty folder; after a failure it
 *  is again. `options` may be NULL.
 *
 *  Blocks. Local. Deterministic.
 *  Errors: ERR_CONFIG      there are no adapters, other parameters were trained too, or transformers has no such model
 *          ERR_CHECKPOINT, ERR_DISK, ERR_NOMEM */
charl_status charl_export_peft(const char *checkpoint, const charl_export_options *options,
                               const char *path) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
