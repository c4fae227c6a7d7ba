#ifndef CHARL_INFERENCE_H
#define CHARL_INFERENCE_H
/** A trained model that answers: for servers. There is no trainer and no MPI; a file is opened once, and batches
 *  of any size up to a maximum are run as they come.
 *
 *      const charl_inference_options o = {sizeof o, .max_rows = 32};
 *      charl_inference_open("best.h5", &o, &model);
 *      info = charl_inference_get_info(model);
 *      for each request:
 *          charl_inference_run(model, rows, n, outputs);
 *
 *  Rows are given as the training data had them, before normalisation (info.x_dtype, info.x_shape). A file
 *  knows them by its schema (charl/data_schema.h). To predict files of data use charl/predict.h, for text
 *  charl/generate.h. Threads may run a model in turn, with a lock around each call; a call during another is
 *  ERR_INVALID. Several models may run in several threads at once, each with its own device.
 */
#include "charl/checkpoint.h"
#include "charl/device.h"
#include "charl/shape.h"

CHARL_BEGIN_DECLS

typedef struct charl_inference charl_inference;

/** All zero is right for a checkpoint. */
typedef struct charl_inference_options {
    size_t struct_size;      /* sizeof(charl_inference_options) */
    int64_t max_rows;        /* of a batch; 0: 64 */
    const char *device;      /* charl_device_request.select; NULL: CHARL_DEVICE, else the best */
    charl_ema_choice ema;    /* which weights of a checkpoint */
    const char *config_text; /* for safetensors, which hold no configuration: that of the training */
} charl_inference_options;

typedef struct charl_inference_info {
    const charl_data_schema *schema; /* names of classes, columns and targets; borrowed */
    charl_dtype x_dtype;             /* of a row */
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

/** NULL is a no-op. Local. */
void charl_inference_close(charl_inference *m);

/** Local. */
charl_inference_info charl_inference_get_info(const charl_inference *m);

/** outputs[i] = model(x[i]), i < n. The outputs of a row do not depend on the other rows.
 *
 *  x        [n, x_shape]    x_dtype  read
 *  outputs  [n, n_outputs]  f32      written
 *
 *  Blocks. Local. Deterministic. Allocates nothing. Errors: ERR_INVALID  n is not in 0..max_rows, or another
 *  thread is running the model; ERR_DEVICE. Cost: that of max_rows rows. */
charl_status charl_inference_run(charl_inference *m, const void *x, int64_t n, float *outputs) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
