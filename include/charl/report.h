#ifndef CHARL_REPORT_H
#define CHARL_REPORT_H
/** Runs side by side: a page with their curves, and tables.
 *
 *      const char *runs[] = {"runs/a", "runs/b"};
 *      charl_report_write(runs, 2, "report.html");
 *
 *  A run is a run directory, as charl-train writes it; of its files only metrics.jsonl must be there. It may still be
 *  training.
 */
#include <stdbool.h>

#include "charl/status.h"

CHARL_BEGIN_DECLS

/** Write a self-contained page, HTML with everything that it needs: curves, final and best values, time of a step,
 *  differences of configuration and system, checkpoints, machine. Long runs are thinned to means, minima and maxima of
 *  neighbouring rows, so that the page stays below 2 MB for up to 20 runs. The file appears whole or not at all. It
 *  replaces an earlier page or an empty file, no other.
 *  Blocks. Local.
 *  Errors: ERR_DATA (a run has no metrics.jsonl), ERR_INVALID (no runs), ERR_CONFIG (path is another file), ERR_DISK,
 *  ERR_NOMEM. */
charl_status charl_report_write(const char *const *runs, int n_runs, const char *path) CHARL_MUST_CHECK;

/** The runs as text: a table of final and best values, time and throughput, and the keys of the configuration that
 *  differ.
 *
 *  by_seed  NULL, or whether a key changes a result: charl_config_key_is_result (charl/config.h). Runs that differ
 *           only in run.seed and in other keys are one group, and every group is compared with the first: the
 *           differences of the best monitored value between runs of equal seed, their mean and its 95 % confidence
 *           interval by Student's t, and for comparison the interval that ignores the pairing (Welch). Pairs have the
 *           same initial values, order of samples and dropout where the models have the same parameters, so their
 *           differences vary less than the runs do
 *
 *  *out: owned by the caller (charl_free). Blocks. Local.
 *  Errors: as charl_report_write; ERR_DATA also when by_seed finds fewer than two groups, or no seed in both of them.
 *  */
charl_status charl_report_compare(const char *const *runs, int n_runs, bool (*by_seed)(const char *key),
                                  char **out) CHARL_MUST_CHECK;

/** Merge traces that charl_train_options.trace wrote into one file, `path`, which may be one of them: the processes of
 *  each file after those of the file before, named by their run, and moved to where the clocks of the machines place
 *  them. The file appears whole or not at all.
 *  Blocks. Local. Errors: ERR_DATA (a file cannot be read or is no time line), ERR_INVALID (no files), ERR_DISK,
 *  ERR_NOMEM. */
charl_status charl_trace_merge(const char *const *files, int n_files, const char *path) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
