#ifndef CHARL_TRAIN_METRICS_METRICS_H
#define CHARL_TRAIN_METRICS_METRICS_H
/** Formats of metrics files (charl/metrics.h), and files that are written whole.
 *
 *  To add a format: a file with its row, the row's name in metrics.c, and the bit and the name of log.formats.
 */
#include "base/numeric/hash.h"
#include "charl/metrics.h"

/** What a format is opened with. */
typedef struct charl__metrics_place {
    const char *dir;
    int64_t keep_step;          /* rows after it are dropped; 0: all of them */
    const charl_config *config; /* or NULL */
} charl__metrics_place;

/** A format. Each function appends one row and flushes it; a format without a function has no such rows. */
typedef struct charl__metrics_format {
    const char *name; /* in log.formats */
    unsigned bit;     /* CHARL_LOG_... */
    charl_status (*open)(const charl__metrics_place *place, void **out);
    charl_status (*train)(void *file, const charl_train_row *row);
    charl_status (*val)(void *file, const charl_val_row *row);
    charl_status (*balance)(void *file, const charl_balance_row *row);
    charl_status (*histograms)(void *file, int64_t step, const charl_params *params, float gradient_scale);
    const charl__sha256 *(*digest)(const void *file); /* charl__metrics_digest */
    void (*close)(void *file);                        /* NULL is a no-op */
} charl__metrics_format;

extern const charl__metrics_format charl__metrics_jsonl, charl__metrics_csv, charl__metrics_tensorboard;

/** A number of a row, as metrics.jsonl and TensorBoard name it. */
typedef struct charl__metrics_value {
    const char *name;
    double value;
    enum {
        CHARL__METRICS_EXACT,
        CHARL__METRICS_ROUNDED,
        CHARL__METRICS_MS,
        CHARL__METRICS_SECONDS,
        CHARL__METRICS_COUNT
    } kind;
} charl__metrics_value;

enum { CHARL__METRICS_VALUES = 8 + CHARL_MAX_METRICS };

/** The numbers that a row has, in their order in metrics.jsonl; those that do not apply are left out. Returns how many. */
int charl__metrics_train_values(const charl_train_row *row, charl__metrics_value out[CHARL__METRICS_VALUES]);
int charl__metrics_val_values(const charl_val_row *row, charl__metrics_value out[CHARL__METRICS_VALUES]);

/** Tells the files whether the row now was lost. Returns whether to warn: rows begin to be lost, for the first time, the second, the fourth
 *  and so on, as a disk that is nearly full may take every other row. */
bool charl__metrics_loses_rows(charl_metrics *m, bool now);

#define CHARL__METRICS_JSONL "metrics.jsonl"

/** Bytes of a line of metrics.jsonl that do not depend on time, machine or number of ranks: of a training or validation row what stands before
 *  its times. 0: the line is no such row. *step: of the row. */
size_t charl__metrics_recorded(const char *line, int64_t *step);

/** SHA-256 of these parts of the rows that metrics.jsonl got since it was opened, each followed by a line end: what run.lock records.
 *  false: that file is not written. */
bool charl__metrics_digest(const charl_metrics *m, char hash[CHARL__SHA256_TEXT]);

/** The same of the rows of DIR/metrics.jsonl after step `from` up to step `to`; zeros: there is no such file. Errors: ERR_NOMEM. */
charl_status charl__metrics_digest_file(const char *dir, int64_t from, int64_t to,
                                        char hash[CHARL__SHA256_TEXT]) CHARL_MUST_CHECK;

/** Write `text` to dir/name whole or not at all. Errors: ERR_DISK. */
charl_status charl__metrics_write_file(const char *dir, const char *name, const char *text) CHARL_MUST_CHECK;

/** charl_metrics_train of a new division of the batch; metrics.jsonl only. */
charl_status charl__metrics_balance(charl_metrics *m, const charl_balance_row *row) CHARL_MUST_CHECK;

#endif
