#ifndef CHARL_METRIC_H
#define CHARL_METRIC_H
/** Metrics of evaluations. eval.metrics selects them by name; checkpoint.monitor names the one that decides which
 *  checkpoint is the best. docs/training.md defines them. Values do not depend on the number of ranks.
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

enum { CHARL_MAX_METRICS = 32, CHARL_METRIC_NAME = 80 };

/** Name of metric i = 0, 1, ..., as eval.metrics takes it; NULL past the last. The first is "loss". Local. */
const char *charl_metric_name(int i);

/** A metric that was measured. */
typedef struct charl_metric_value {
    char name[CHARL_METRIC_NAME]; /* of an output of several "OUTPUT.METRIC" */
    double value;                 /* NaN: undefined for these data */
    bool fraction;                /* always between 0 and 1 */
} charl_metric_value;

/** The value called `name`; NaN if it is not among them. Local. */
double charl_metric_get(const charl_metric_value *values, int n, const char *name);

/** A metric per class, label or target, or per pair of classes. */
typedef struct charl_metric_table {
    const char *name; /* "precision", ..., "support" (number of samples), "confusion" */
    bool fraction;    /* always between 0 and 1 */
    bool pairs;       /* values [n, n]: row = actual class, column = predicted class, up to 4096 classes; else [n] */
    double *values;   /* NaN: undefined */
} charl_metric_table;

enum { CHARL_MAX_DIAGRAMS = 4, CHARL_DIAGRAM_COLUMNS = 3 };

/** A metric as points of a diagram. "calibration": a point for each bin of confidence, the probability of the predicted
 *  class; with the mean confidence, the fraction that is right, and the number of samples. "residuals": target by
 *  number, its actual and its predicted value, for up to 1000 samples that lie evenly among those of the split, of the
 *  first 8 targets. */
typedef struct charl_metric_diagram {
    const char *name;
    const char *columns[CHARL_DIAGRAM_COLUMNS]; /* names */
    int64_t n;                                  /* points */
    double *values;                             /* [n, CHARL_DIAGRAM_COLUMNS] */
} charl_metric_diagram;

enum { CHARL_MAX_WORST = 64 };

/** A sample whose class the model considers improbable. */
typedef struct charl_worst_sample {
    int64_t row; /* in the split */
    char *file;  /* of an imported image; NULL: unknown */
    int64_t actual, predicted;
    double actual_probability, predicted_probability;
    /* The image as a PNG file of at most 128 pixels on a side; NULL: the sample is not an image, or this build has no
     * PNG support */
    unsigned char *png;
    size_t png_bytes;
    int64_t height, width;
} charl_worst_sample;

/** The tables of an evaluation. */
typedef struct charl_eval_report {
    charl_target_kind targets;
    int64_t n;   /* classes, labels or targets; 0 for tokens, which have no tables */
    char *names; /* their names, a list as in charl/data_schema.h; "": none */
    int n_tables;
    charl_metric_table tables[CHARL_MAX_METRICS];
    int n_diagrams;
    charl_metric_diagram diagrams[CHARL_MAX_DIAGRAMS];
    int n_worst; /* for classes only; in ascending order of the probability of the actual class */
    charl_worst_sample worst[CHARL_MAX_WORST];
} charl_eval_report;

/** Free a report and what it contains. NULL is a no-op. Local. */
void charl_eval_report_destroy(charl_eval_report *report);

CHARL_END_DECLS

#endif
