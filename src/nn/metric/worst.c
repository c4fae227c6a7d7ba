/* The samples whose class has the lowest predicted probability: difficult ones, and wrong labels.
 *
 * Five numbers of every sample are kept, 40 bytes each on every rank, so that the selection does not depend on the number of ranks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "nn/metric.h"

enum { ROW, ACTUAL, PREDICTED, ACTUAL_PROBABILITY, PREDICTED_PROBABILITY };

static void size_worst(const charl__metric_data *d, charl__metric_size *out)
{
    (void)d;
    out->kept = CHARL__WORST_NUMBERS;
}

static void add_worst(const charl__metric_data *d, const charl__eval_row *row, charl__metric_state *s)
{
    const double most = (double)row->outputs[row->predicted];
    double sum = 0.0;

    (void)d;
    for (int64_t i = 0; i < row->n; i++) {
        sum += exp((double)row->outputs[i] - most);
    }
    s->kept[ROW] = (double)row->index;
    s->kept[ACTUAL] = (double)row->labels[0];
    s->kept[PREDICTED] = (double)row->predicted;
    s->kept[ACTUAL_PROBABILITY] = exp((double)row->outputs[row->labels[0]] - most) / sum;
    s->kept[PREDICTED_PROBABILITY] = 1.0 / sum;
}

/* The lowest probability first, and values that are not finite before all others. */
static int by_probability(const void *a, const void *b)
{
    const double *x = a, *y = b;
    const double p = isnan(x[ACTUAL_PROBABILITY]) ? -1.0 : x[ACTUAL_PROBABILITY];
    const double q = isnan(y[ACTUAL_PROBABILITY]) ? -1.0 : y[ACTUAL_PROBABILITY];

    return p != q ? (p > q) - (p < q) : (x[ROW] > y[ROW]) - (x[ROW] < y[ROW]);
}

static charl_status finish_worst(const charl__metric_data *d, const charl__metric_state *s, double *value,
                                 double *details)
{
    const size_t one = CHARL__WORST_NUMBERS * sizeof(double);
    double *sorted = NULL;

    (void)d;
    *value = (double)NAN;
    if (!details) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__alloc_array(s->n_kept, one, &sorted));
    if (s->n_kept > 0) {
        memcpy(sorted, s->kept, (size_t)s->n_kept * one);
        qsort(sorted, (size_t)s->n_kept, one, by_probability);
    }
    for (int64_t i = 0; i < CHARL_MAX_WORST * CHARL__WORST_NUMBERS; i++) {
        details[i] = i < s->n_kept * CHARL__WORST_NUMBERS ? sorted[i] : (double)NAN;
    }
    charl_free(sorted);
    return CHARL_OK;
}

const charl__metric charl__metric_worst = {
    .row.name = "worst",
    .row.help = "the samples whose class is the least probable",
    .report_only = true,
    .targets = CHARL_TARGET_CLASS,
    .reads = CHARL__READS_OUTPUTS | CHARL__READS_TARGETS,
    .detail = CHARL__DETAIL_WORST,
    .size = size_worst,
    .add = add_worst,
    .finish = finish_worst,
};
