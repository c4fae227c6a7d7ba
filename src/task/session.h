#ifndef CHARL_TASK_SESSION_H
#define CHARL_TASK_SESSION_H
/** A model with its data and weights on a device: common to training, evaluation, prediction, generation
 *  and export. Ranks and run directories are unknown at this level.
 *
 *  Initialize with {.config = ..., .infers = ..., .origin = ...}, or with {.infers = true} to take config
 *  and origin from a checkpoint. Then call the functions you need, in this order:
 *
 *      function                          sets
 *      charl__session_open_checkpoint    origin, reader
 *      charl__session_read_config        config, own_config: from the checkpoint
 *      charl__session_read_schema        schema of origin, if it has one
 *      charl__session_open_data          ds, data; config where train.loss = auto
 *      charl__session_match_data         ds delivers rows as the schema describes; schema, if it was NULL
 *      charl__session_weigh_classes      weights of the training targets: train.class_weights
 *      charl__session_schema_of_data     schema of a version 1 checkpoint, from its data set
 *      charl__session_open_device        dev
 *      charl__session_create_model       model, params
 *      charl__session_forget_rows        weights of the training targets: data.forget
 *      charl__session_load_weights       values of params; a compiled graph must have laid them out
 *      charl__session_start_weights      the same, as [init] says
 *      charl__session_fini               always call it, even after a failure
 *
 *  All functions are local. A session belongs to one thread.
 */
#include "charl/checkpoint.h"
#include "config/values.h"
#include "charl/dataset.h"
#include "charl/device.h"
#include "charl/nn.h"
#include "task/device_loader.h"

typedef struct charl__session {
    const charl_config *config; /* borrowed, or own_config */
    bool infers;                /* no training: a training split is not required */
    const char *origin; /* borrowed: source of the weights, a checkpoint or the file named by init.from; or NULL */
    bool starts;        /* a new run: only the weights of origin are used, by the rules of [init] */
    void (*warned)(void *ctx, const char *text); /* may be NULL */
    void *warned_ctx;

    charl_checkpoint_reader *reader; /* of charl__session_open_checkpoint, else NULL */
    charl_config *own_config;
    charl_config *
        chosen; /* config with what the data determine: the loss, if train.loss is auto, and lengths in tokens as steps */
    charl_data_schema *schema; /* of the model; defines how rows are matched and normalized */
    int64_t classes;           /* without a schema: minimum, even if the data have fewer */
    int64_t image_size; /* data.image_size that the weights were trained with, of an inference session; 0: auto */
    double masked;      /* data.masked, likewise */
    charl_dataset *ds;
    charl_dataset_info data;
    double chance;      /* fraction of the training samples in the most frequent class; 0: no such classes */
    int64_t *forgotten; /* [n_forgotten] ascending: the rows of data.forget, which ds borrows */
    int64_t n_forgotten;
    charl_device *dev;
    charl_model *model;
    charl_params *params;
} charl__session;

/** Open the checkpoint at `path` (borrowed) and set it as origin. Errors: ERR_CHECKPOINT, ERR_NOMEM. */
charl_status charl__session_open_checkpoint(charl__session *s, const char *path) CHARL_MUST_CHECK;

/** How a training, or an evaluation, reads `split`: all that the configuration decides. The caller sets its rows, where they are kept
 *  and `steps`. Borrows from s, whose device is open and whose data are matched. Local. */
charl__device_loader_options charl__session_loader(const charl__session *s, charl_split split, bool training);

/** Set config to the resolved configuration of the checkpoint, with `overrides` applied. Errors: ERR_CONFIG,
 *  ERR_NOMEM. */
charl_status charl__session_read_config(charl__session *s, const charl_config_override *overrides,
                                        int n_overrides) CHARL_MUST_CHECK;

/** Read the schema of origin. If origin has none, schema stays NULL; an inference session then takes `classes`
 *  from the weights. For training, mean and std in the configuration replace those of the schema. No-op
 *  without origin. Errors: ERR_CHECKPOINT, ERR_CONFIG, ERR_NOMEM. */
charl_status charl__session_read_schema(charl__session *s) CHARL_MUST_CHECK;

/** Open [data] path, and let the data determine train.loss = auto. Inference requires rows in `split`, training requires training rows.
 *  Errors: ERR_CONFIG, ERR_DATA, ERR_IO, ERR_NOMEM. */
charl_status charl__session_open_data(charl__session *s, charl_split split) CHARL_MUST_CHECK;

/** Set `chance`: the accuracy of always predicting the most frequent class. Reads the training targets, unless there are very many. Errors: those of
 *  charl_dataset_read; ERR_NOMEM. */
charl_status charl__session_measure_chance(charl__session *s) CHARL_MUST_CHECK;

/** n elements of targets, i32 or f32 as the data have them. *stop ends the scan. */
typedef void charl__target_visitor(void *user, const void *y, int64_t n, bool *stop);

/** Read all targets of a split, in blocks of whole rows. Errors: those of charl_dataset_read; ERR_NOMEM. */
charl_status charl__session_scan_targets(charl__session *s, charl_split split, charl__target_visitor *visit,
                                         void *user) CHARL_MUST_CHECK;

/** Whether each training target is several numbers, one of them 1 and the others 0. Reads up to the first that is not. Errors: those of
 *  charl_dataset_read. */
charl_status charl__session_is_one_hot(charl__session *s, bool *out) CHARL_MUST_CHECK;
/** The values of targets that are single numbers, "0, 1", if they are few integers, so that they may be classes, and the import has not declared them
 *  to be numbers; else "". */
charl_status charl__session_find_few(charl__session *s, char *text, size_t size) CHARL_MUST_CHECK;

/** Match the data with the schema by name; if schema is NULL, create it from the data. Warns about columns
 *  and classes that do not match exactly, and about checkpoints too old to have a schema. Errors: ERR_DATA
 *  if the data cannot be matched, ERR_NOMEM. */
charl_status charl__session_match_data(charl__session *s) CHARL_MUST_CHECK;

/** Weight the training targets by train.class_weights. Reads all training labels for `balanced`. Errors: ERR_CONFIG if the data
 *  have no classes, or another number of them; ERR_DATA, ERR_IO, ERR_NOMEM. */
charl_status charl__session_weigh_classes(charl__session *s) CHARL_MUST_CHECK;

/** Let the training rows of data.forget weigh nothing. Errors: ERR_CONFIG if there are no such rows, or if the data or the settings let them have an
 *  effect all the same; ERR_NOMEM. */
charl_status charl__session_forget_rows(charl__session *s) CHARL_MUST_CHECK;
/** Errors: ERR_CONFIG if the model, whose parameters exist, lets them have an effect. */
charl_status charl__session_check_forgotten(const charl__session *s) CHARL_MUST_CHECK;

/** Samples of each class, or pixels, in a split of labelled data: count [data.classes]. Reads all labels. Errors: ERR_DATA, ERR_IO,
 *  ERR_NOMEM. */
charl_status charl__session_count_classes(charl__session *s, charl_split split, int64_t *count) CHARL_MUST_CHECK;

/** Create the schema for `reader`, a checkpoint of version 1, which stores none, from the data set that the
 *  model was trained on: `path`, or data.path of `config` if NULL. The contents must be identical to the
 *  training data. Error messages end with `hint`, which says how to name the file. Always warns. Errors: ERR_CHECKPOINT, ERR_NOMEM. */
charl_status charl__session_schema_of_data(charl__session *s, const charl_config *config, const char *path,
                                           const char *hint) CHARL_MUST_CHECK;

/** The tokenizer of a text model whose checkpoint is open: the one that it contains, or the one of the file `named`; NULL if there is
 *  neither. *classes: number of tokens in training, without a schema those of `named`. Owned: destroy *out, even after a failure.
 *  Errors: ERR_DATA  it was not trained on a text, or the file has more tokens; ERR_CONFIG  the checkpoint contains one, and `named` is set;
 *  those of charl_tokenizer_load. */
charl_status charl__session_find_tokenizer(const charl__session *s, const char *named, charl_tokenizer **out,
                                           int64_t *classes) CHARL_MUST_CHECK;

/** Open dev. Errors: as charl_device_open. */
charl_status charl__session_open_device(charl__session *s, const charl_device_request *request) CHARL_MUST_CHECK;

/** Create the model described by the configuration and `data`, and an empty set of parameters. Errors:
 *  ERR_CONFIG, ERR_NOMEM. */
charl_status charl__session_create_model(charl__session *s) CHARL_MUST_CHECK;

/** Load the weights, or their moving average (`ema` is a charl_ema_choice), from `reader` if it is open,
 *  otherwise from the checkpoint `path`. Blocks. Errors: ERR_CHECKPOINT if it belongs to another model. */
charl_status charl__session_load_weights(charl__session *s, const char *path, charl_ema_choice ema) CHARL_MUST_CHECK;

/** Load the initial weights of a new run: origin, with init.skip and init.rename. Parameters that are skipped keep their
 *  values; each is named in a warning. Blocks. Errors: as charl_params_load. */
charl_status charl__session_start_weights(charl__session *s) CHARL_MUST_CHECK;

/** Pass `text` to `warned`; NULL and "" are ignored. */
void charl__session_warn(const charl__session *s, const char *text);
/** Warn if mean and std in the configuration differ from those in the schema. The schema's are used. */
void charl__session_warn_normalize(const charl__session *s);
/** Issue one warning per line. */
void charl__session_warn_lines(const charl__session *s, const char *lines);

/** Release everything except borrowed members; {0} is a no-op. */
void charl__session_fini(charl__session *s);

#endif
