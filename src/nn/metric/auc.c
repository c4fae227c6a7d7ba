/* Area under the receiver operating characteristic: the probability that a sample of a class has a larger score than one that is not of it,
 * where equal scores count half.
 *
 * Scores are kept of every sample, 8 bytes each on every rank. Two classes: the difference of the two outputs; more: the probability of each
 * class against all others; labels: the output of each. Pairs are counted as integers, so the order of samples does not show. */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "nn/metric.h"

typedef struct scored {
    double score;
    bool positive;
} scored;

/* Kept of a row: CLASS the label, then a score for each class, or one if there are two; FLAGS target and score of each label. */
static int64_t scores_of(const charl__metric_data *d)
{
    return d->targets == CHARL_TARGET_CLASS && d->outputs == 2 ? 1 : d->outputs;
}

static void size_scores(const charl__metric_data *d, charl__metric_size *out)
{
    out->kept = d->targets == CHARL_TARGET_CLASS ? 1 + scores_of(d) : 2 * d->outputs;
}

static void add_scores(const charl__metric_data *d, const charl__eval_row *row, charl__metric_state *s)
{
    double *kept = s->kept;

    if (d->targets == CHARL_TARGET_FLAGS) {
        for (int64_t i = 0; i < row->n; i++) {
            kept[2 * i] = charl__eval_target(row, i);
            kept[2 * i + 1] = (double)row->outputs[i];
        }
        return;
    }
    kept[0] = (double)row->labels[0];
    if (row->n == 2) {
        kept[1] = (double)row->outputs[1] - (double)row->outputs[0];
    } else {
        charl__answer_softmax.compute(row->outputs, row->n, row->n, kept + 1);
    }
}

static int by_score(const void *a, const void *b)
{
    const double x = ((const scored *)a)->score, y = ((const scored *)b)->score;

    return (x > y) - (x < y);
}

/* NaN unless some are positive and some are not. */
static double area(scored *v, int64_t n)
{
    int64_t below = 0, positives = 0, twice = 0; /* twice the pairs that are in order */

    qsort(v, (size_t)n, sizeof *v, by_score);
    for (int64_t first = 0, last; first < n; first = last) {
        int64_t in[2] = {0, 0};

        for (last = first; last < n && v[last].score == v[first].score; last++) {
            in[v[last].positive]++;
        }
        twice += in[1] * (2 * below + in[0]);
        below += in[0];
        positives += in[1];
    }
    return positives > 0 && below > 0 ? (double)twice / 2.0 / ((double)positives * (double)below) : (double)NAN;
}

/* The samples as class or label i sees them; of masks the pixels of channel i. */
static void pick(const charl__metric_data *d, const charl__metric_state *s, int64_t i, scored *out)
{
    const int64_t pixels = d->outputs / d->classes;
    charl__metric_size size = {0};

    size_scores(d, &size);
    for (int64_t k = 0; k < s->n_kept; k++) {
        const double *kept = s->kept + k * size.kept;

        if (d->targets == CHARL_TARGET_FLAGS) {
            for (int64_t p = 0; p < pixels; p++) {
                const double *at = kept + 2 * (i * pixels + p);

                out[k * pixels + p] = (scored){at[1], at[0] > 0.5};
            }
        } else if (d->outputs == 2) {
            out[k] = (scored){i == 1 ? kept[1] : -kept[1], (int64_t)kept[0] == i};
        } else {
            out[k] = (scored){kept[1 + i], (int64_t)kept[0] == i};
        }
    }
}

static charl_status finish_auc(const charl__metric_data *d, const charl__metric_state *s, double *value,
                               double *details)
{
    const int64_t samples = s->n_kept * (d->outputs / d->classes);
    double total = 0.0;
    int64_t defined = 0;
    scored *v = NULL;

    CHARL_TRY(charl__alloc_array(samples, sizeof *v, &v));
    for (int64_t i = 0; i < d->classes; i++) {
        double auc;

        pick(d, s, i, v);
        auc = area(v, samples);
        total += isnan(auc) ? 0.0 : auc;
        defined += !isnan(auc);
        if (details) {
            details[i] = auc;
        }
    }
    *value = defined > 0 ? total / (double)defined : (double)NAN;
    charl_free(v);
    return CHARL_OK;
}

const charl__metric charl__metric_auc = {
    .row.name = "auc",
    .row.help = "area under the ROC curve; mean over the classes, each against the others, or over "
                "the labels",
    .higher = true,
    .fraction = true,
    .targets = CHARL_TARGET_CLASS | CHARL_TARGET_FLAGS,
    .reads = CHARL__READS_OUTPUTS | CHARL__READS_TARGETS,
    .detail = CHARL__DETAIL_EACH,
    .size = size_scores,
    .add = add_scores,
    .finish = finish_auc,
};
