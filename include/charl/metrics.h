#ifndef CHARL_METRICS_H
#define CHARL_METRICS_H
/** Metrics files of a run directory: one row per event, flushed at once.
 *
 *      charl_metrics_open("runs/mnist", CHARL_LOG_JSONL | CHARL_LOG_TENSORBOARD, 0, NULL, &m);
 *      charl_metrics_train(m, &row);
 *      charl_metrics_close(m);
 *
 *  CHARL_LOG_JSONL writes metrics.jsonl, CHARL_LOG_CSV metrics.csv, and CHARL_LOG_TENSORBOARD event files in the folder
 *  tb. Losses read back to the exact f32. When a run resumes, rows past the resumed step are dropped, so the files read
 *  as if it had never stopped.
 *
 *  One rank writes: open the files on rank 0 only. Rows may be written by several threads in turn: a call during
 *  another is ERR_INVALID.
 */
#include "charl/config.h"
#include "charl/params.h"
#include "charl/train.h"

CHARL_BEGIN_DECLS

typedef struct charl_metrics charl_metrics;

/** Open for appending the files that `formats` (CHARL_LOG_... bits) asks for in `dir`, which exists. Rows with a step
 *  above keep_step are dropped first; with keep_step 0 the files start afresh. config: written to event files as text
 *  and as hyperparameters; may be NULL. Borrowed for the call. *out: owned by the caller. Blocks. Local. Errors:
 *  ERR_DISK, ERR_NOMEM. */
charl_status charl_metrics_open(const char *dir, unsigned formats, int64_t keep_step, const charl_config *config,
                                charl_metrics **out) CHARL_MUST_CHECK;

/** Close the files; NULL is a no-op. Local. */
void charl_metrics_close(charl_metrics *m);

/** Append a row and flush it. Rows come in order of their steps. Blocks. Local. Errors: ERR_DISK, ERR_NOMEM. */
charl_status charl_metrics_train(charl_metrics *m, const charl_train_row *row) CHARL_MUST_CHECK;
charl_status charl_metrics_val(charl_metrics *m, const charl_val_row *row) CHARL_MUST_CHECK;

/** Histograms of all parameters and of their gradients after a step; event files only. gradient_scale: the loss scale
 *  of that step, 1 without one. Values that are not finite are left out. Blocks. Local. Errors: ERR_DISK, ERR_NOMEM,
 *  ERR_DEVICE. */
charl_status charl_metrics_histograms(charl_metrics *m, int64_t step, const charl_params *params,
                                      float gradient_scale) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
