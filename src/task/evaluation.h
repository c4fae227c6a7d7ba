#ifndef CHARL_TASK_EVALUATION_H
#define CHARL_TASK_EVALUATION_H
/** The metrics of an evaluation: their selection and the data collected so far.
 *
 *      charl__evaluation_open(...)               when the data are known
 *      charl__evaluation_begin(e, &shape)        before the first row
 *          charl__evaluation_add(e, ...)         rows of a batch in host memory, if e->reads says so
 *      ...                                       ranks add up e->exact, and concatenate the kept values
 *      charl__evaluation_finish(e, ...)          values, and a report
 *
 *  Local; it belongs to one thread. */
#include "config/outputs.h"
#include "config/values.h"
#include "charl/data_schema.h"
#include "nn/metric.h"

typedef struct charl__evaluation_item {
    const charl__metric *type;
    int output; /* of several; -1: of the only one */
    charl__metric_size size;
    charl__metric_state state; /* counts and sums are in `exact` */
    int64_t capacity;          /* capacity of state.kept in rows */
    double sum;                /* of `reference`, if rows are in host memory */
} charl__evaluation_item;

/** Whether the device computes the item's mean: that of `build`, or the loss of an output. */
bool charl__evaluation_builds(const charl__evaluation_item *item);

typedef struct charl__evaluation {
    const charl__loss *loss;
    const void *loss_settings; /* borrowed from the configuration */
    charl__metric_data data;
    charl__outputs outputs; /* n 0: one output without a name */
    charl__metric_data output_data[CHARL_MODEL_MAX_OUTPUTS];
    double output_weight[CHARL_MODEL_MAX_OUTPUTS]; /* on_host: rows whose targets count */
    charl__output_row room;
    const charl__answer *answer; /* interpretation of the outputs */
    const char *names;           /* of classes, labels or targets; borrowed from the schema */
    bool on_host;                /* all rows are passed to charl__evaluation_add, which computes loss and means too */
    unsigned reads;              /* CHARL__READS_... bits: what charl__evaluation_add needs */
    charl__evaluation_item item[CHARL_MAX_METRICS];
    int n;
    double weight; /* on_host: of the rows added so far, 1 each or the fraction of its pixels that count */
    int64_t
        first; /* row of the split at which the next charl__evaluation_add begins: set it before, or rows are consecutive */
    double loss_sum, loss_weight;
    int64_t *exact; /* [n_exact] counts and sums of all items: ranks add them up */
    int64_t n_exact;
    int32_t *token_bytes; /* owned */
    /* Outputs and targets arrive in units of the data, and the loss is computed of them scaled by these. NULL: unscaled. Borrowed. */
    const charl_data_schema *scaled_by;
    float *scaled; /* [quantiles + 1, targets] of a row: outputs, then targets */
} charl__evaluation;

/** The kind of targets for the loss, of these data, or as described by a schema. */
charl_target_kind charl__task_targets(const charl__loss *loss, const charl_dataset_info *data);
/** What the outputs of a model for such targets mean, and for output of shape [rows, ...] the classes of each pixel, or else the outputs of a row. */
const charl__answer *charl__task_answer(const charl__loss *loss, charl_target_kind targets);
int64_t charl__task_classes(charl_target_kind targets, const charl_shape *out);

/** Select the metrics: eval.metrics, checkpoint.monitor, and for a report all that the data allow. `schema` and `config` are borrowed.
 *  Start from {0}. Errors: ERR_CONFIG  a metric does not fit the data; ERR_NOMEM. */
charl_status charl__evaluation_open(const charl_config *config, const charl_data_schema *schema, bool on_host,
                                    bool report, charl__evaluation *e) CHARL_MUST_CHECK;

/** Clear the collected data. `out` is the shape of the model's output, [rows, ...]. Errors: ERR_NOMEM. */
charl_status charl__evaluation_begin(charl__evaluation *e, const charl_shape *out) CHARL_MUST_CHECK;

/** Add n rows. Rows of weight 0 are skipped, and so are tokens and pixels of weight 0.
 *
 *  outputs  [n, outputs] f32   NULL: not read
 *  targets  [n, per row] i32 or f32
 *  weight   [n, weights] f32   weights is 1, or the number of targets if these are tokens or pixels. NULL: all 1
 *
 *  Errors: ERR_NOMEM. */
charl_status charl__evaluation_add(charl__evaluation *e, int64_t n, const float *outputs, charl_dtype dtype,
                                   const void *targets, int64_t per_row, const float *weight,
                                   int64_t weights) CHARL_MUST_CHECK;

/** The values except the loss, in the order of the items. means [e->n]: of the items that have `build`; NULL: of the rows added.
 *  loss: mean of the loss. report: NULL, or the destination of a report, owned by the caller. Errors: ERR_NOMEM. */
charl_status charl__evaluation_finish(charl__evaluation *e, double loss, const double *means,
                                      charl_metric_value values[CHARL_MAX_METRICS], int *n,
                                      charl_eval_report **report) CHARL_MUST_CHECK;

/** Mean of the loss of the rows added; NaN if there are none. */
double charl__evaluation_loss(const charl__evaluation *e);

void charl__evaluation_fini(charl__evaluation *e); /* {0} is a no-op */

#endif
