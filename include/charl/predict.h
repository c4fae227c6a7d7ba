#ifndef CHARL_PREDICT_H
#define CHARL_PREDICT_H
/** Predictions of a trained model for new samples.
 *
 *  A checkpoint is all that is needed: it contains the configuration, the weights, and the schema of the training data
 *  (charl/data_schema.h). New data are converted by the schema: columns and classes are matched by name, images are
 *  resized, numbers are normalized with the mean and standard deviation of the training data.
 *
 *      static charl_status show(void *ctx, const charl_prediction *p) { ... p->outputs[0] ... }
 *
 *      const char *paths[] = {"new.csv"};
 *      charl_predict("best.h5", &(charl_predict_options){sizeof(charl_predict_options), .paths = paths, .n_paths = 1,
 *                                                        .predicted = show}, &result);
 */
#include <stdio.h>

#include "charl/checkpoint.h"
#include "charl/config.h"
#include "charl/data_schema.h"
#include "charl/device.h"
#include "charl/image.h"
#include "charl/metric.h"

CHARL_BEGIN_DECLS

/** What all predictions have in common. Borrowed for the duration of the callback. */
typedef struct charl_predict_info {
    const charl_data_schema *schema; /* of the model: names of classes and targets */
    charl_target_kind targets;       /* CLASS: the model chooses one of n_outputs classes */
    const char *answer;              /* the kind of the numbers in `answers`: "probability" or "prediction" */
    const char *subject;             /* a short name of the data: "val", "images", "new.csv" */
    int64_t step;                    /* of the checkpoint */
    int64_t n_rows;                  /* -1: not yet known */
    int64_t n_outputs;               /* 0 before the first row */
    int64_t n_targets;
    bool has_targets;               /* the data have targets */
    bool has_names;                 /* rows have names */
    const charl_image_files *files; /* if each row is a file; else NULL */
    const char *answer_names;       /* a model with named outputs: the names of `answers`, a list; else NULL or "" */
    int n_models;                   /* of the ensemble; 1: one model */
    const char *const *inputs;      /* [n_inputs] paths that are read: the checkpoint, its base, the data */
    int64_t n_inputs;
} charl_predict_info;

/** The prediction for one sample. */
typedef struct charl_prediction {
    const charl_predict_info *info;
    int64_t row;          /* from 0 */
    const char *name;     /* path of an image, or field of the id column; else NULL */
    const float *outputs; /* [n_outputs] as the loss reads them: logits of classes and labels */
    /* [n_outputs] probabilities, or the outputs themselves. Named outputs: one number for each of `answer_names`, which
     * are a class and its probability, the class of each token or pixel, or what a single output has */
    const double *answers;
    const double *deviations; /* [n_outputs] of an ensemble: those of its models' answers (n - 1); else NULL */
    int64_t predicted;        /* CLASS: the class with the largest output; else -1 */
    const int32_t *map;       /* [n_targets] MAPS: the class with the largest output at each pixel; else NULL */
    const int32_t *labels;    /* [n_targets] classes or flags, -1 where one is missing; or NULL */
    const float *targets;     /* [n_targets] numbers, NaN where one is missing; or NULL */
} charl_prediction;

/** Metrics over the labelled rows; NaN if there are none. */
typedef struct charl_predict_result {
    int64_t rows, labelled;                        /* labelled: rows whose targets are all known */
    int64_t skipped;                               /* images that could not be read: a warning names each */
    double loss;                                   /* mean over the labelled rows */
    charl_metric_value metrics[CHARL_MAX_METRICS]; /* [n_metrics] the metrics of the training (eval.metrics) */
    int n_metrics;
} charl_predict_result;

/** What to predict and how. Everything is borrowed for the call. */
typedef struct charl_predict_options {
    size_t struct_size;                     /* sizeof(charl_predict_options) */
    const char *const *paths;               /* a CSV file, a .npy array, a dataset, or image files and folders */
    int64_t n_paths;                        /* 0: the data that the configuration of the checkpoint names */
    const char *split;                      /* of a dataset: "train", "val" or "test"; NULL: val, and of a data
                                 set among the paths that has none: train */
    const char *x, *y;                      /* arrays in an HDF5 file that is not in charl's layout; y NULL:
                                 without targets. x NULL: data.x and data.y of the overrides, else
                                 of the checkpoint's configuration where the file has them */
    char separator;                         /* of a CSV file; 0: detected */
    char decimal;                           /* of numbers in a CSV file, '.' or ','; 0: as in the training data */
    const char *id;                         /* column of a CSV file that names the rows; NULL: none */
    const char *trained_on;                 /* the dataset that a checkpoint of version 1, which has no schema, was
                               trained on; NULL: the one its configuration names */
    const charl_config_override *overrides; /* of the checkpoint's configuration */
    int n_overrides;
    charl_ema_choice ema;
    /* [n_members] more checkpoints, of models of the same data and outputs: an ensemble. Its answers are the means of
     * the models' answers, and its outputs those that have these answers */
    const char *const *members;
    int n_members;
    bool counts; /* count the rows first, so that info.n_rows is known: reads a CSV file twice */

    void *ctx; /* of the callbacks */
    /* Called before the first row, after checkpoint and data have been opened; may be NULL. */
    charl_status (*started)(void *ctx, const charl_predict_info *info);
    charl_status (*predicted)(void *ctx, const charl_prediction *prediction);
    /* Messages for the user: what may make predictions wrong, and what was left out. May be NULL. */
    void (*warned)(void *ctx, const char *text);
    void (*noted)(void *ctx, const char *text);
    charl_compiling compiling; /* as in charl_device_request; NULL: none */
} charl_predict_options;

/** Predict every sample with the weights of `checkpoint`, and call `predicted` once for each, in order. If a callback
 *  returns a status other than CHARL_OK, charl_predict stops and returns it. Predictions do not depend on
 *  train.batch_size. Memory does not grow with the number of rows, except for metrics that keep the scores of all rows
 *  (auc).
 *
 *  Blocks. Local. Deterministic.
 *  Errors: ERR_CHECKPOINT  damaged, or of version 1 and without the data it was trained on
 *          ERR_CONFIG      invalid overrides; incompatible paths or options; a model of tokens
 *          ERR_DATA        the data do not fit the model; the message names what is missing. Images that cannot be read
 *                          are skipped and counted, unless none can be read
 *          ERR_NONFINITE   an output is not finite; the message names the row
 *          ERR_IO, ERR_NOMEM, ERR_DEVICE, ERR_KERNEL */
charl_status charl_predict(const char *checkpoint, const charl_predict_options *options,
                           charl_predict_result *result) CHARL_MUST_CHECK;

/** Writes predictions to a file, in the formats of `charl predict`.
 *
 *      started    const charl_prediction_writer_options o = {sizeof o, .path = "out.csv"};
 *                 charl_prediction_writer_create(&o, info, &writer)
 *      predicted  charl_prediction_writer_put(writer, prediction)
 *      afterwards charl_prediction_writer_finish(writer), then in any case charl_prediction_writer_destroy(writer)
 *
 *  A CSV file has a header; a JSON lines file has one object per row. The columns depend on the kind of target:
 *
 *      a class            label, predicted class, its probability
 *      labels             targets, probabilities
 *      classes of pixels  targets, predicted classes
 *      numbers            targets, predictions
 *      named outputs      all targets, then all answers, by their names
 *      an ensemble        also the deviation of each answer over the models
 *
 *  Labels and targets are written if the data have them. Numbers have enough digits to be read back exactly as floats.
 *  An HDF5 file has
 *
 *      /output       f32 [n, outputs]    probabilities of classes or labels, or values
 *      /deviation    f32 [n, outputs]    of an ensemble
 *      /predicted    i32 [n(, pixels)]   for classes: the predicted class
 *      /label        i32 [n(, targets)]  or /target f32 [n, targets]: if the data have them; -1 or NaN if missing
 *      /file         strings [n]         if the samples are files
 *      /class_names, /targets  strings   names of classes or targets, if they have names */
typedef struct charl_prediction_writer charl_prediction_writer;

typedef enum charl_prediction_format {
    CHARL_PREDICTION_CSV,
    CHARL_PREDICTION_JSONL,
    CHARL_PREDICTION_HDF5
} charl_prediction_format;

typedef struct charl_prediction_writer_options {
    size_t struct_size; /* sizeof(charl_prediction_writer_options) */
    /* replaced atomically by charl_prediction_writer_finish; a device or pipe is written directly. Borrowed. NULL:
     * `stream` */
    const char *path;
    FILE *stream; /* borrowed; not for HDF5 */
    charl_prediction_format format;
    bool all; /* also the probabilities of all classes */
} charl_prediction_writer_options;

/** Begin a file, in the callback `started`. Blocks. Local. Owned: destroy with charl_prediction_writer_destroy.
 *  Errors: ERR_CONFIG  `all` without classes; path is one of the inputs   ERR_DISK  path cannot be written
 *                      ERR_INVALID  HDF5 without a path   ERR_NOMEM */
charl_status charl_prediction_writer_create(const charl_prediction_writer_options *options,
                                            const charl_predict_info *info,
                                            charl_prediction_writer **out) CHARL_MUST_CHECK;

/** Append a row, in the callback `predicted`. Blocks. Local. Errors: ERR_DISK, ERR_NOMEM. */
charl_status charl_prediction_writer_put(charl_prediction_writer *w,
                                         const charl_prediction *prediction) CHARL_MUST_CHECK;

/** Complete the file and move it to its path. No rows can be appended afterwards. Blocks. Local. Errors: ERR_DISK. */
charl_status charl_prediction_writer_finish(charl_prediction_writer *w) CHARL_MUST_CHECK;

/** Release the writer. A file that was not finished is discarded. NULL is a no-op. Local. */
void charl_prediction_writer_destroy(charl_prediction_writer *w);

CHARL_END_DECLS

#endif
