#ifndef CHARL_TRAIN_METRICS_H
#define CHARL_TRAIN_METRICS_H
/** metrics.jsonl and metrics.csv of a run directory: one row per event, flushed, with losses that
 * read back to the exact float.
 *
 *  When a run resumes, rows past the resumed step are dropped, so the files read as if it had never
 * stopped.
 */
#include "charl/train.h"

typedef struct charl__metrics charl__metrics;

/** Open for appending the files that `formats` (CHARL_LOG_... bits) asks for in `dir`. Rows with a
 * step above keep_step are dropped first; keep_step 0 starts afresh. Owned. Errors: ERR_DISK,
 * ERR_NOMEM. */
charl_status charl__metrics_open(const char *dir, unsigned formats, int64_t keep_step,
                                 charl__metrics **out) CHARL_MUST_CHECK;
void charl__metrics_close(charl__metrics *m); /* NULL is a no-op */

/** Append a row and flush it. Errors: ERR_DISK. */
charl_status charl__metrics_train(charl__metrics *m, const charl_train_row *row) CHARL_MUST_CHECK;
charl_status charl__metrics_val(charl__metrics *m, const charl_val_row *row) CHARL_MUST_CHECK;
/** To metrics.jsonl only. */
charl_status charl__metrics_balance(charl__metrics *m, const charl_balance_row *row) CHARL_MUST_CHECK;

/** Write `text` to dir/name whole or not at all. Errors: ERR_DISK. */
charl_status charl__metrics_write_file(const char *dir, const char *name, const char *text) CHARL_MUST_CHECK;

#endif
