#ifndef CHARL_NN_METRIC_H
#define CHARL_NN_METRIC_H
/** The registry of metrics: what an evaluation measures besides the loss.
 *
 *  A metric is computed in one of three ways:
 *
 *      build, reference   it is the mean over the rows of a value that the device computes for each; `reference` is the definition, and what
 *                         counts where outputs are in host memory anyway
 *      size, add          it follows from sums over the rows: integers, doubles added without rounding, or values kept of each row. Outputs
 *                         and targets are read to host memory. Ranks add up their sums and join what they keep, so that the result does not
 *                         depend on their number
 *      neither            it follows from the loss
 *
 *  and `finish` turns means and sums into its value. */
#include "base/numeric/exact_sum.h"
#include "charl/metric.h"
#include "nn/loss.h"

/** What is evaluated, known before the first row. */
typedef struct charl__metric_data {
    charl_target_kind targets;
    int64_t outputs; /* values per row: classes, labels or numbers; TOKENS: size of the vocabulary */
    int64_t classes; /* outputs; MAPS, and FLAGS that are masks, images or volumes [channels, ...]: their channels */
    const int32_t *token_bytes; /* TOKENS: [outputs] bytes of text that each token stands for; NULL: unknown */
} charl__metric_data;

/** How much a metric collects. */
typedef struct charl__metric_size {
    int64_t counts; /* integers */
    int64_t sums;   /* exact sums of doubles */
    int64_t kept;   /* doubles of each row */
} charl__metric_size;

/** What has been collected, of all ranks when `finish` is called. */
typedef struct charl__metric_state {
    double loss;     /* mean over the rows */
    double mean;     /* of `build` */
    int64_t *counts; /* [size.counts] */
    int64_t *sums;   /* [size.sums][CHARL__EXACT_LIMBS] */
    double *kept;    /* [n_kept][size.kept] */
    int64_t n_kept;
} charl__metric_state;

/** Details of a metric for each output, besides its value. */
typedef enum charl__metric_detail {
    CHARL__DETAIL_NONE,
    CHARL__DETAIL_EACH,  /* one number for each of data.classes */
    CHARL__DETAIL_PAIRS, /* one for each pair of them */
    CHARL__DETAIL_WORST  /* CHARL__WORST_NUMBERS for each of up to CHARL_MAX_WORST samples, then NaN */
} charl__metric_detail;

/** Numbers of a sample, doubles: its row, class and predicted class, and the probabilities of these two. */
enum { CHARL__WORST_NUMBERS = 5 };

/** Which rows of a batch are read to host memory, bits. */
enum { CHARL__READS_OUTPUTS = 1, CHARL__READS_TARGETS = 2 };

typedef struct charl__metric {
    charl_row row;      /* no keys */
    bool higher;        /* is better */
    bool fraction;      /* lies between 0 and 1: shown to people as a percentage */
    bool compares;      /* samples of different classes: where all are of one, it is not defined */
    bool report_only;   /* it has details but no value: eval.metrics and checkpoint.monitor do not take it */
    unsigned targets;   /* kinds of target that it is defined for */
    unsigned automatic; /* of them, those that eval.metrics = auto measures it for */
    unsigned
        on_request; /* of them, those for which a report holds it only if eval.metrics names it: it takes much memory */
    unsigned reads; /* CHARL__READS_... bits, of a metric that has `add` */
    charl__metric_detail detail;
    /** f32 [rows] or [rows, window]; operands as charl__loss.build */
    charl_var *(*build)(charl_graph *g, charl_target_kind kind, charl_var *outputs, charl_var *targets);
    double (*reference)(charl_target_kind kind, const charl__eval_row *row);
    void (*size)(const charl__metric_data *d, charl__metric_size *out);
    void (*add)(const charl__metric_data *d, const charl__eval_row *row, charl__metric_state *s);
    /** The value, NaN where it is not defined, and the details if they are wanted. Errors: ERR_NOMEM. */
    charl_status (*finish)(const charl__metric_data *d, const charl__metric_state *s, double *value, double *details);
} charl__metric;

/** All of them, charl__metric_NAME in a file of src/nn/metric, and NULL. Made by CMake. */
extern const void *const charl__metrics[];
extern const charl__metric charl__metric_loss, charl__metric_worst;

/** Metric i = 0, 1, ...; NULL past the last. By name; NULL if unknown. */
const charl__metric *charl__metric_at(int i);
const charl__metric *charl__metric_find(const char *name);
/** Whether a higher value of metric `name` is better; false for an unknown name. */
bool charl__metric_is_higher_better(const char *name);

/** One line about metric i of charl_metric_name; NULL past the last. */
const char *charl__metric_help(int i);

/** `finish` of a mean: the mean itself. */
charl_status charl__metric_mean(const charl__metric_data *d, const charl__metric_state *s, double *value,
                                double *details);

#endif
