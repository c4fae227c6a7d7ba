#ifndef CHARL_REPORT_H
#define CHARL_REPORT_H
/** Reports that compare runs: a page with their curves, and tables.
 *
 *      const char *runs[] = {"runs/a", "runs/b"};
 *      charl_report_write(runs, 2, "report.html");
 *
 *  A run is a run directory of charl-train, of which only metrics.jsonl is required. It may still be training.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "charl/status.h"

CHARL_BEGIN_DECLS

/** Write a self-contained HTML page: curves, final and best values, step times, differences of configuration and
 *  system, checkpoints, machine. Long runs are reduced to means, minima and maxima of
 *  neighbouring rows, so that the page stays below 2 MB for up to 20 runs. The file appears whole or not at all. It
 *  replaces an earlier page or an empty file, but no other file.
 *
 *  Blocks. Local.
 *  Errors: ERR_DATA (a run has no metrics.jsonl), ERR_INVALID (no runs), ERR_CONFIG (path is another file), ERR_DISK,
 *  ERR_NOMEM. */
charl_status charl_report_write(const char *const *runs, int n_runs, const char *path) CHARL_MUST_CHECK;

/** What a run has done, in short. */
typedef struct charl_run_summary {
    const char *state; /* "done", "stopped" or "not finished": by its train.log */
    int64_t step;      /* of its last row; 0: none */
    double time_s;     /* of training, over all starts */
    char monitor[64];  /* checkpoint.monitor, such as val/loss */
    bool higher;       /* a higher value of it is better */
    double best;       /* its best value; NaN: none */
    int64_t best_step;
    double last;          /* its last value; NaN: none */
    double step_ms;       /* mean of a step; NaN: unknown, as those below */
    int64_t mem_bytes;    /* of the device of rank 0; 0: unknown */
    double energy_kwh;    /* of all devices and starts, up to the last row */
    bool energy_measured; /* by the devices; false: estimated with run.power */
    double cost;          /* by run.price */
} charl_run_summary;

/** Summarize the run in directory `run`. Blocks. Local. Errors: as charl_report_write. Cost: reads metrics.jsonl and
 *  train.log. */
charl_status charl_report_summarize(const char *run, charl_run_summary *out) CHARL_MUST_CHECK;

/** Whether another value of a key can change a result: charl_config_key_is_result (charl/config.h) knows. */
typedef bool (*charl_report_by_seed)(void *ctx, const char *key);

/** How to compare. Zero is the default of all members but struct_size. */
typedef struct charl_report_compare_options {
    size_t struct_size; /* sizeof(charl_report_compare_options) */
    charl_report_by_seed by_seed;
    void *ctx;
    /* with by_seed: "val/accuracy" or "train/loss", without a slash one of the evaluations; NULL: checkpoint.monitor */
    const char *metric;
    /* with by_seed: the configuration of this run, a directory or a name, is the one that the others are compared
     * with; NULL: that of the first run */
    const char *reference;
} charl_report_compare_options;

/** Compare runs as text: a table of final and best values, time and throughput, and the keys of the configuration that
 *  differ.
 *
 *  With options->by_seed, runs form a group if they differ only in run.seed and in keys that change no result. The mean
 *  and the standard deviation (n - 1) of the best and the last value of the metric are printed of every group, and each
 *  is compared with the reference: the differences between runs of equal seed, their mean and its 95 % confidence
 *  interval by Student's t, and beside it the interval that ignores the pairing (Welch). Runs of equal seed have the
 *  same initial values, order of samples and dropout if the models have the same parameters, so their differences vary
 *  less than the runs do.
 *
 *  options may be NULL. *out: owned by the caller (charl_free). Blocks. Local.
 *  Errors: as charl_report_write; with by_seed ERR_DATA also for a run without a value of the metric, or groups without
 *  a common seed; ERR_CONFIG  `reference` is none of the runs. */
charl_status charl_report_compare(const char *const *runs, int n_runs, const charl_report_compare_options *options,
                                  char **out) CHARL_MUST_CHECK;

/** The lower bound of the mean of b[i] - a[i] at a one-sided confidence: it is above 0 where b is larger on average,
 *  by a paired t test of level 1 - confidence. n > 1, 0.5 < confidence < 1. Blocks. Local. Errors: ERR_INVALID. */
charl_status charl_report_paired(const double *a, const double *b, int64_t n, double confidence,
                                 double *low) CHARL_MUST_CHECK;

/** Merge traces of charl_train_options.trace into one file, `path`, which may be one of them. Processes are numbered in
 *  the order of the files and named by their run; times are placed on a common clock by the clocks of the machines. The
 *  file appears whole or not at all.
 *
 *  Blocks. Local. Errors: ERR_DATA (a file cannot be read or is not a trace), ERR_INVALID (no files), ERR_DISK,
 *  ERR_NOMEM. */
charl_status charl_trace_merge(const char *const *files, int n_files, const char *path) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
