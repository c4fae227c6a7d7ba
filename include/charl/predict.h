#ifndef CHARL_PREDICT_H
#define CHARL_PREDICT_H
/** What a trained model answers for new samples, one by one.
 *
 *  A checkpoint is all that is needed: it holds the configuration, the weights, and a schema of the
 * data it was trained on (charl/data_schema.h), by which new data are brought to the model: columns
 * and classes by name, pictures in its size, numbers with its mean and deviation.
 *
 *      static charl_status show(void *ctx, const charl_prediction *p) { ... p->outputs[0] ... }
 *
 *      const char *paths[] = {"new.csv"};
 *      charl_predict("best.h5", &(charl_predict_options){.paths = paths, .n_paths = 1,
 *                                                        .predicted = show}, &result);
 */
#include "charl/config.h"
#include "charl/data_schema.h"
#include "charl/device.h"
#include "charl/image.h"

CHARL_BEGIN_DECLS

/** What all answers have in common. Borrowed for the call that passes it. */
typedef struct charl_predict_info {
    const charl_data_schema *schema; /* of the model: names of classes and targets */
    int loss;                        /* charl_loss_type: how outputs are to be read */
    const char *subject;             /* what is predicted, in a word: "val", "images", "new.csv" */
    int64_t step;                    /* of the checkpoint */
    int64_t n_rows;                  /* -1: not known beforehand */
    int64_t n_outputs;               /* 0 before the first row */
    int64_t n_targets;
    bool has_targets;               /* the data say what is right */
    bool has_names;                 /* rows have names */
    const charl_image_files *files; /* where each row is a file; else NULL */
} charl_predict_info;

/** The answer for one sample. */
typedef struct charl_prediction {
    const charl_predict_info *info;
    int64_t row;           /* from 0 */
    const char *name;      /* path of an image, or field of the id column; else NULL */
    const float *outputs;  /* [n_outputs] as the loss reads them: logits for cross_entropy and bce */
    const int32_t *labels; /* [n_targets] classes or flags, -1 where one is missing; or NULL */
    const float *targets;  /* [n_targets] numbers, NaN where one is missing; or NULL */
} charl_prediction;

/** Sums over the rows. Without labels the metrics are NaN. */
typedef struct charl_predict_result {
    int64_t rows, labelled; /* labelled: their targets are all known */
    double loss;            /* mean over these */
    double accuracy;        /* cross_entropy, and bce: mean over labels; else NaN */
    double mae;             /* mse and huber: mean absolute error; else NaN */
} charl_predict_result;

/** What to predict and how. Everything is borrowed for the call. */
typedef struct charl_predict_options {
    const char *const *paths;               /* a CSV file, a .npy array, a data set, or image files and folders */
    int64_t n_paths;                        /* 0: the data that the configuration of the checkpoint names */
    const char *split;                      /* of a data set: "train", "val" or "test"; NULL: val, and of a data
                                 set among the paths that has none: train */
    const char *x, *y;                      /* arrays in an HDF5 file that is not in charl's layout; y NULL:
                                 without targets. x NULL: data.x and data.y of the overrides, else
                                 of the checkpoint's configuration where the file has them */
    char separator;                         /* of a CSV file; 0: comma */
    const char *id;                         /* column of a CSV file that names the rows; NULL: none */
    const char *trained_on;                 /* the data set that a checkpoint of version 1, which has no schema, was
                               trained on; NULL: the one its configuration names */
    const charl_config_override *overrides; /* of the checkpoint's configuration */
    int n_overrides;
    int ema;     /* charl_ema_choice */
    bool counts; /* info.n_rows is wanted: a CSV file is read once more */

    void *ctx; /* of the callbacks */
    /* Before the first row, when checkpoint and data have been opened; may be NULL. */
    charl_status (*started)(void *ctx, const charl_predict_info *info);
    charl_status (*predicted)(void *ctx, const charl_prediction *prediction);
    /* Lines that the user should read: what may make answers wrong, and what was left out. May be
     * NULL. */
    void (*warned)(void *ctx, const char *text);
    void (*noted)(void *ctx, const char *text);
    charl_compiling compiling; /* as in charl_device_request; NULL: none */
} charl_predict_options;

/** Call `predicted` for every sample, once and in order, with the weights of `checkpoint`. A status
 * of a callback other than CHARL_OK ends prediction with it. The answers do not depend on
 * train.batch_size. Memory does not grow with the number of rows.
 *
 *  Blocks. Local. Deterministic.
 *  Errors: ERR_CHECKPOINT  damaged, or of version 1 and without the data it was trained on
 *          ERR_CONFIG      overrides; paths or options that do not go together; a model of tokens
 *          ERR_DATA        data that do not have what the model takes; the message names it
 *          ERR_NONFINITE   an output is not finite; the message names the row
 *          ERR_IO, ERR_NOMEM, ERR_DEVICE, ERR_KERNEL */
charl_status charl_predict(const char *checkpoint, const charl_predict_options *options,
                           charl_predict_result *result) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
