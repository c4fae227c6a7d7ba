#ifndef CHARL_TASK_SESSION_H
#define CHARL_TASK_SESSION_H
/** A model with its data and weights on a device: what training, evaluation, prediction, generation
 * and export have in common. It knows no ranks and no run directory.
 *
 *  Start from {.config = ..., .infers = ..., .origin = ...}, or from {.infers = true}, and
 *  call what is needed, in this order:
 *
 *      charl__session_open_checkpoint    origin, reader
 *      charl__session_read_config        config, from the checkpoint
 *      charl__session_read_schema        schema of origin, if it has one
 *      charl__session_open_data          ds, data
 *      charl__session_match_data         ds delivers rows as the schema says; there is a schema
 *      charl__session_schema_of_data     the schema of a version 1 checkpoint, from its data set
 *      charl__session_open_device        dev
 *      charl__session_create_model       model, params
 *      charl__session_load_weights       values of params, once a graph has laid them out
 *      charl__session_fini               in any case
 *
 *  All of it is local. A session belongs to one thread.
 */
#include "charl/checkpoint.h"
#include "charl/config.h"
#include "charl/dataset.h"
#include "charl/device.h"
#include "charl/nn.h"

typedef struct charl__session {
    const charl_config *config; /* borrowed, or own_config */
    bool infers;                /* nothing is trained: the data need not suffice for it */
    const char *origin; /* borrowed: checkpoint or safetensors file of the weights, or NULL */
    void (*warned)(void *ctx, const char *text); /* may be NULL */
    void *warned_ctx;

    charl_checkpoint_reader *reader; /* of charl__session_open_checkpoint, else NULL */
    charl_config *own_config;
    charl_data_schema *schema; /* of the model: rows are matched and normalised as it says */
    int64_t classes; /* of a model without schema: at least so many, whatever the data say */
    charl_dataset *ds;
    charl_dataset_info data;
    charl_device *dev;
    charl_model *model;
    charl_params *params;
} charl__session;

/** Open the checkpoint at `path`, borrowed, as origin. Errors: ERR_CHECKPOINT, ERR_NOMEM. */
charl_status charl__session_open_checkpoint(charl__session *s, const char *path) CHARL_MUST_CHECK;

/** Take the resolved configuration of the checkpoint, with these overrides. Errors: ERR_CONFIG,
 *  ERR_NOMEM. */
charl_status charl__session_read_config(charl__session *s, const charl_config_override *overrides,
                                        int n_overrides) CHARL_MUST_CHECK;

/** Set schema from origin. Where origin has none it stays NULL, with `classes` from the weights where
 *  the session infers. A training continues the schema with the mean and std that its configuration
 *  gives. Errors: ERR_CHECKPOINT, ERR_CONFIG, ERR_NOMEM. */
charl_status charl__session_read_schema(charl__session *s) CHARL_MUST_CHECK;

/** Open [data] path; a session that infers needs rows in `split`, a training rows to train on.
 *  Errors: ERR_CONFIG, ERR_DATA, ERR_IO, ERR_NOMEM. */
charl_status charl__session_open_data(charl__session *s, charl_split split) CHARL_MUST_CHECK;

/** Match the data with the schema by name, or make the schema of the data. Warns of columns and
 *  classes that do not fit exactly and of files too old to have a schema. Errors: ERR_DATA where
 *  they cannot be matched, ERR_NOMEM. */
charl_status charl__session_match_data(charl__session *s) CHARL_MUST_CHECK;

/** The schema of `reader`, a checkpoint of version 1, which stores none: that of the data set it was
 *  trained on, `path`, or NULL for the configuration's data.path, which must be the same by content.
 *  `hint` tells how to name it. Warns. Errors: ERR_CHECKPOINT, ERR_NOMEM. */
charl_status charl__session_schema_of_data(charl__session *s, const charl_config *config,
                                           const char *path, const char *hint) CHARL_MUST_CHECK;

/** Errors: as charl_device_open. */
charl_status charl__session_open_device(charl__session *s,
                                        const charl_device_request *request) CHARL_MUST_CHECK;

/** The model that the configuration and `data` ask for, and an empty set of parameters. Errors:
 *  ERR_CONFIG, ERR_NOMEM. */
charl_status charl__session_create_model(charl__session *s) CHARL_MUST_CHECK;

/** Weights, or by a charl_ema_choice their moving average, from the checkpoint `path`: `reader`, if
 *  that is open. Blocks. Errors: ERR_CHECKPOINT when it is another model's. */
charl_status charl__session_load_weights(charl__session *s, const char *path,
                                         int ema) CHARL_MUST_CHECK;

/** Hand a text to `warned`; NULL and "" are left out. */
void charl__session_warn(const charl__session *s, const char *text);
/** Warn where the configuration asks for another mean and std than the schema has, which is what counts. */
void charl__session_warn_normalize(const charl__session *s);
/** One warning per line. */
void charl__session_warn_lines(const charl__session *s, const char *lines);

/** Release all of it but what is borrowed; {0} is a no-op. */
void charl__session_fini(charl__session *s);

#endif
