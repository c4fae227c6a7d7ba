#ifndef CHARL_METRICS_H
#define CHARL_METRICS_H
/** Metrics files of a run directory: one row per event, flushed at once.
 *
 *      charl_metrics_open("runs/mnist", CHARL_LOG_JSONL | CHARL_LOG_TENSORBOARD, 0, NULL, &m);
 *      charl_metrics_train(m, &row);
 *      charl_metrics_close(m);
 *
 *  CHARL_LOG_JSONL writes metrics.jsonl, CHARL_LOG_CSV metrics.csv, and CHARL_LOG_TENSORBOARD event files in the folder
 *  tb. Losses are written with all digits of an f32. When a run resumes, rows after the resumed step are dropped, so
 *  the files read as if it had never stopped.
 *
 *  Open the files on rank 0 only. Several threads may write rows in turn, with a lock around each call: a call during
 *  another is ERR_INVALID.
 */
#include "charl/config.h"
#include "charl/params.h"
#include "charl/train.h"

CHARL_BEGIN_DECLS

typedef struct charl_metrics charl_metrics;

/** Open the files of `formats` (CHARL_LOG_... bits) in the existing directory `dir` for appending. Rows with a step
 *  above keep_step are dropped first; with keep_step 0 the files start empty. config is written to event files as text
 *  and as hyperparameters; it may be NULL, and is borrowed for the call. *out: owned by the caller. Blocks. Local.
 *  Errors: ERR_DISK, ERR_NOMEM. */
charl_status charl_metrics_open(const charl_config *config, const char *dir, unsigned formats, int64_t keep_step,
                                charl_metrics **out) CHARL_MUST_CHECK;

/** Close the files; NULL is a no-op. Local. */
void charl_metrics_close(charl_metrics *m);

/** Append a row and flush it. Rows must be in the order of their steps. Blocks. Local.
 *  Errors: ERR_INVALID  another call is in progress; ERR_DISK, ERR_NOMEM. */
charl_status charl_metrics_train(charl_metrics *m, const charl_train_row *row) CHARL_MUST_CHECK;
charl_status charl_metrics_val(charl_metrics *m, const charl_val_row *row) CHARL_MUST_CHECK;

/** Append histograms of all parameters and of their gradients after a step, to event files only. gradient_scale: the
 *  loss scale of that step, 1 without one. Values that are not finite are left out. Blocks. Local.
 *  Errors: ERR_INVALID  another call is in progress; ERR_DISK, ERR_NOMEM, ERR_DEVICE. */
charl_status charl_metrics_histograms(charl_metrics *m, int64_t step, const charl_params *params,
                                      float gradient_scale) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
