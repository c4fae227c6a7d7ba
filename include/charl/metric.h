#ifndef CHARL_METRIC_H
#define CHARL_METRIC_H
/** What evaluations measure. eval.metrics chooses metrics by name, checkpoint.monitor one that decides which checkpoint
 *  is the best; docs/training.md lists them with their definitions. They do not depend on the number of ranks.
 *
 *      charl_val_row row;
 *
 *      check(charl_train_evaluate(config, &options, "runs/config/best.h5", "val", &row, NULL)); // charl/train.h
 *      for (int i = 0; i < row.n_metrics; i++) {
 *          printf("%s %g\n", row.metrics[i].name, row.metrics[i].value);
 *      }
 *      printf("accuracy %g\n", charl_metric_get(row.metrics, row.n_metrics, "accuracy")); // NaN if not measured
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "charl/loss.h"

CHARL_BEGIN_DECLS

enum { CHARL_MAX_METRICS = 32 };

/** Name of metric i = 0, 1, ..., as eval.metrics takes it; NULL past the last. The first is "loss". Local. */
const char *charl_metric_name(int i);

/** Whether a higher value of metric `name` is better; false for an unknown name. Local. */
bool charl_metric_is_higher_better(const char *name);

/** A metric that was measured. */
typedef struct charl_metric_value {
    const char *name; /* static */
    double value;     /* NaN where it is not defined */
    bool fraction;    /* it lies between 0 and 1 */
} charl_metric_value;

/** The value called `name`; NaN if it is not among them. Local. */
double charl_metric_get(const charl_metric_value *values, int n, const char *name);

/** A metric of each class, label or target, or of pairs of classes. */
typedef struct charl_metric_table {
    const char *name; /* "precision", ..., "support" (number of samples), "confusion" */
    bool fraction;    /* numbers lie between 0 and 1 */
    bool pairs;       /* values [n, n]: row = actual class, column = predicted class, up to 4096 classes; else [n] */
    double *values;   /* NaN where not defined */
} charl_metric_table;

enum { CHARL_MAX_WORST = 64 };

/** A sample of a class that the model finds improbable. */
typedef struct charl_worst_sample {
    int64_t row; /* of the split */
    char *file;  /* of an imported image; NULL: not known */
    int64_t actual, predicted;
    double actual_probability, predicted_probability;
    /* A picture of it, as a PNG file of at most 128 pixels on a side; NULL: it is no image, or this charl was built
     * without PNG */
    unsigned char *png;
    size_t png_bytes;
    int64_t height, width;
} charl_worst_sample;

/** The tables of an evaluation. */
typedef struct charl_eval_report {
    charl_target_kind targets;
    int64_t n;   /* classes, labels or targets; 0 for tokens, which have no tables */
    char *names; /* of them, a list as in charl/data_schema.h; "" if they have none */
    int n_tables;
    charl_metric_table tables[CHARL_MAX_METRICS];
    int n_worst; /* of classes; the sample whose class is the least probable comes first */
    charl_worst_sample worst[CHARL_MAX_WORST];
} charl_eval_report;

/** Give back a report and what it holds. NULL is a no-op. Local. */
void charl_eval_report_destroy(charl_eval_report *report);

CHARL_END_DECLS

#endif
