#ifndef CHARL_REPORT_RUN_LOG_H
#define CHARL_REPORT_RUN_LOG_H
/** The contents of a run directory: metrics.jsonl, config.ini, env.json, eval.json, train.log and the names of checkpoints.
 *
 *  Only metrics.jsonl is required. The run may still be in progress: an incomplete line is skipped.
 */
#include <stdbool.h>
#include <stdint.h>

#include "charl/status.h"

/** A metric over all rows of an event; NaN if a row has none, or one that is not finite. */
typedef struct charl__run_series {
    char *name;
    double *value; /* [rows] */
} charl__run_series;

/** The rows of an event, in ascending order of their steps. */
typedef struct charl__run_rows {
    int64_t n;
    double *step, *time; /* [n]; time: seconds of training, over all parts of a run that was resumed */
    double *before;      /* [n] seconds trained before the start that wrote the row */
    charl__run_series *series;
    int n_series;
} charl__run_rows;

typedef enum charl__run_event { CHARL__RUN_TRAIN, CHARL__RUN_VAL, CHARL__RUN_EVENTS } charl__run_event;

/** "train" or "val". */
const char *charl__run_event_name(charl__run_event event);

/** A key of config.ini, as "section.key". */
typedef struct charl__run_setting {
    char *key, *value;
} charl__run_setting;

typedef struct charl__run_file {
    char name[64];
    int64_t step, bytes;
    double time; /* of its last change, since 1970 */
    bool is_last, is_best;
} charl__run_file;

typedef struct charl__run_log {
    char *path; /* of the directory, as given */
    char *name; /* run.name, or the directory's own name */
    charl__run_rows rows[CHARL__RUN_EVENTS];
    int64_t nonfinite; /* rows with a loss or gradient norm that is not finite */
    charl__run_setting *config;
    int n_config;
    char *env;                   /* text of env.json; "" without it */
    char *eval;                  /* text of eval.json, the output of `charl eval --report=json` */
    charl__run_file *checkpoint; /* [n_checkpoints] ascending */
    int n_checkpoints;
    const char *state; /* "done", "stopped" or "not finished" */
    int ranks;         /* of the last start; 0: unknown */
    int devices;       /* that they have; 0: unknown */
} charl__run_log;

/** Read the run directory `path`. Call charl__run_log_fini for `log` on every path. Errors: ERR_DATA if it has no metrics.jsonl, ERR_NOMEM. */
charl_status charl__run_log_read(const char *path, charl__run_log *log) CHARL_MUST_CHECK;
void charl__run_log_fini(charl__run_log *log);

/** Read n of them: *out [n] is owned by the caller, for charl__run_logs_free. Runs of the same name get their paths as names. Errors: as above. */
charl_status charl__run_logs_read(const char *const *path, int n, charl__run_log **out) CHARL_MUST_CHECK;
void charl__run_logs_free(charl__run_log *log, int n); /* NULL is a no-op */

/** The value of a key, or NULL. */
const char *charl__run_setting_find(const charl__run_log *log, const char *key);
/** The series of a metric, or NULL. */
const charl__run_series *charl__run_series_find(const charl__run_rows *rows, const char *name);
/** The last value of a series that is a number, or NaN; series may be NULL. */
double charl__run_series_last(const charl__run_rows *rows, const charl__run_series *series);

/** The best value of the metric that the run monitors. */
typedef struct charl__run_best {
    const char *monitor; /* such as val/loss */
    bool max;            /* higher is better */
    double value;        /* NaN: none */
    int64_t step;
} charl__run_best;
charl__run_best charl__run_log_best(const charl__run_log *log);

/** The same of any metric: "val/accuracy" or "train/loss"; without a slash one of the evaluations. `metric` is borrowed. */
charl__run_best charl__run_log_best_of(const charl__run_log *log, const char *metric);
/** Its last value; NaN: none. */
double charl__run_log_last_of(const charl__run_log *log, const char *metric);

/** Milliseconds of a step, as means over all rows but the first, which includes warm-up. */
typedef struct charl__run_times {
    double step_ms; /* NaN: no rows */
    double data_ms; /* part of it in which the device waited for data */
    double comm_ms; /* part of it in which the device waited for other ranks */
    double samples_per_s;
} charl__run_times;
charl__run_times charl__run_log_times(const charl__run_log *log);

/** What the run has cost, up to its last row and over all of its starts. */
typedef struct charl__run_expense {
    double kwh;       /* NaN: unknown */
    bool is_measured; /* by the devices; false: run.power and the time */
    double cost;      /* by run.price and the time; NaN: unknown */
} charl__run_expense;
charl__run_expense charl__run_log_expense(const charl__run_log *log);

/** The last step of a run and the seconds that it has trained; 0 without rows. */
void charl__run_log_end(const charl__run_log *log, double *step, double *time);

#endif
