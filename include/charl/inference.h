#ifndef CHARL_INFERENCE_H
#define CHARL_INFERENCE_H
/** A trained model that answers: for servers. There is no trainer and no MPI; a file is opened once, and batches of any
 *  size up to a maximum are run as they come, from any number of threads.
 *
 *      charl_inference_options o = {.struct_size = sizeof o, .max_rows = 32};
 *      charl_inference *model = NULL;
 *
 *      check(charl_inference_open("best.h5", &o, &model));
 *      for (int64_t i = 0; i < requests; i++) { // in each thread
 *          check(charl_inference_run(model, rows[i], 1, outputs[i]));
 *      }
 *      charl_inference_close(model); // when the threads have been joined
 *
 *  Rows are given as the training data had them, before normalisation (charl_inference_info: x_dtype, x_shape). A file
 *  knows them by its schema (charl/data_schema.h). To predict files of data use charl/predict.h, for text
 *  charl/generate.h.
 *
 *  A model that was built in code, of layers (charl/nn.h) or operators (charl/ops.h), becomes such an object with
 *  charl_inference_create.
 *
 *  charl_inference_run is Thread-safe. Calls queue: while a batch is computed, the rows of further calls are collected,
 *  and the next batch takes all that fit. So rows of several threads share the work on every weight, and no call waits
 *  for others to come. Several models run in several threads at once, each with its own device.
 */
#include "charl/checkpoint.h"
#include "charl/device.h"
#include "charl/graph.h"
#include "charl/shape.h"

CHARL_BEGIN_DECLS

typedef struct charl_inference charl_inference;

/** All zero is right for a checkpoint. */
typedef struct charl_inference_options {
    size_t struct_size;      /* sizeof(charl_inference_options) */
    int64_t max_rows;        /* of a batch; 0: 64 */
    const char *device;      /* charl_device_request.select; NULL: CHARL_DEVICE, else the best */
    charl_ema_choice ema;    /* which weights of a checkpoint */
    const char *config_text; /* the training's configuration, for safetensors, which hold none */
} charl_inference_options;

typedef struct charl_inference_info {
    /* names of classes, columns and targets; borrowed. NULL: of charl_inference_create */
    const charl_data_schema *schema;
    charl_dtype x_dtype; /* of a row */
    charl_shape x_shape;
    int64_t n_outputs; /* of a row, as the loss reads them: logits for classes */
    int64_t max_rows;
} charl_inference_info;

/** Open a checkpoint or a .safetensors file that has a schema, build the model for max_rows rows, load the
 *  weights and compile its kernels. Owned: close it.
 *
 *  Blocks. Local.
 *  Errors: ERR_CHECKPOINT  damaged, without a schema, or not of the model that the configuration describes
 *          ERR_CONFIG      safetensors without config_text; a model of tokens (charl/generate.h)
 *          ERR_INVALID     max_rows
 *          ERR_DEVICE, ERR_KERNEL, ERR_NOMEM */
charl_status charl_inference_open(const char *path, const charl_inference_options *options,
                                  charl_inference **out) CHARL_MUST_CHECK;

/** A model of a program. The builder is all that it must set, and what a row is.
 *
 *      static charl_var *build(void *ctx, charl_graph *g, charl_var *x)
 *      {
 *          struct net *net = ctx;
 *
 *          x = charl_scale(g, charl_cast(g, x, CHARL_F32), 1.0F / 255, 0);
 *          return charl_model_build(net->model, g, net->params, x);
 *      }
 *
 *  device     of the graphs, borrowed. While the object exists, the threads that run the model take the device over
 *             (charl_device_adopt), so it must not be in use elsewhere then
 *  x_dtype    element type of a row
 *  x_shape    shape of a row
 *  precision  of the graphs (charl_graph_set_precision)
 *  build      appends the model to g, reading x [rows, x_shape] BATCHED, and returns its outputs [rows, ...] BATCHED.
 *             It is called once for each size of a batch, by charl_inference_create or charl_inference_run
 *  ctx        passed to build */
typedef struct charl_inference_model {
    size_t struct_size; /* sizeof(charl_inference_model) */
    charl_device *device;
    charl_dtype x_dtype;
    charl_shape x_shape;
    charl_dtype precision;
    charl_var *(*build)(void *ctx, charl_graph *g, charl_var *x);
    void *ctx;
} charl_inference_model;

/** Build and compile a model of a program for max_rows rows, in inference mode. Its parameters keep their values; a set
 *  that no graph has used yet gets its memory here, and its values from charl_params_load or charl_params_initialize
 *  afterwards. Whenever they change, later answers do. Of options only max_rows is used; NULL: 64 rows. Owned:
 *  charl_inference_close, before the parameters are destroyed.
 *
 *  Blocks. Local.
 *  Errors: ERR_INVALID  max_rows, or `build` returned nothing
 *          ERR_CONFIG   the output has not a row for each row
 *          ERR_SHAPE, ERR_DTYPE, ERR_DEVICE, ERR_KERNEL, ERR_NOMEM */
charl_status charl_inference_create(const charl_inference_model *model, const charl_inference_options *options,
                                    charl_inference **out) CHARL_MUST_CHECK;

/** When no thread runs the model any more. NULL is a no-op. Local. */
void charl_inference_close(charl_inference *m);

/** Local. */
charl_inference_info charl_inference_get_info(const charl_inference *m);

/** outputs[i] = model(x[i]), i < n. The outputs of a row do not depend on the other rows.
 *
 *  x        [n, x_shape]    x_dtype  read
 *  outputs  [n, n_outputs]  f32      written
 *
 *  Blocks. Local. Thread-safe. Deterministic. Errors: ERR_INVALID  n is not in 0..max_rows; ERR_DEVICE, ERR_KERNEL,
 *  ERR_NOMEM; if a batch fails, so do all calls whose rows are in it. Cost: a batch is padded to the smallest of
 *  max_rows, half as many, and so on down to 1, that holds it. The first batch of a size also builds its graph; later
 *  ones allocate nothing. Run a batch of each size beforehand if no answer may be late. */
charl_status charl_inference_run(charl_inference *m, const void *x, int64_t n, float *outputs) CHARL_MUST_CHECK;

/** What outputs of charl_inference_run mean, as `charl predict` writes it: probabilities of classes (softmax) and of
 *  labels (sigmoid), or the numbers themselves. Of a model with named outputs: for a class its number and its
 *  probability, for tokens and pixels the class of each.
 *
 *  outputs  [n, n_outputs]  f32  read
 *  answers  [n, charl_inference_get_answer_count]  f64  written
 *
 *  Blocks. Local. Thread-safe. Errors: ERR_INVALID  a model of charl_inference_create, which has no loss */
charl_status charl_inference_answer(const charl_inference *m, const float *outputs, int64_t n,
                                    double *answers) CHARL_MUST_CHECK;

/** Number of answers for a row; 0 for a model of charl_inference_create. Local. */
int64_t charl_inference_get_answer_count(const charl_inference *m);

CHARL_END_DECLS

#endif
