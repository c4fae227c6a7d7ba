/* Area under the receiver operating characteristic: the probability that a sample of a class has a larger score than one of another class;
 * equal scores count half.
 *
 * Scores of every sample, or of every pixel that has a class, are kept: 8 bytes each on every rank. Two classes: the difference of the two
 * outputs; more: the probability of each class against all others; labels: the output of each. Pairs are counted as integers, so the order of
 * samples does not matter. */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "nn/metric.h"

typedef struct scored {
    double score;
    bool positive;
} scored;

/* Kept per row: CLASS the label, then a score for each class, or one if there are two; MAPS the same for each pixel, with a label of -1 if it
 * does not count; FLAGS target and score of each label. */
static int64_t kept_of_label(const charl__metric_data *d)
{
    return d->targets == CHARL_TARGET_FLAGS ? 2 : d->classes == 2 ? 2 : 1 + d->classes;
}

/* CLASS has one pixel. */
static int64_t pixels_of(const charl__metric_data *d)
{
    return d->outputs / d->classes;
}

static void size_scores(const charl__metric_data *d, charl__metric_size *out)
{
    out->kept = kept_of_label(d) * (d->targets == CHARL_TARGET_FLAGS ? d->outputs : pixels_of(d));
}

static void softmax(double *v, int64_t n)
{
    double most = v[0], sum = 0.0;

    for (int64_t i = 1; i < n; i++) {
        most = v[i] > most ? v[i] : most;
    }
    for (int64_t i = 0; i < n; i++) {
        v[i] = exp(v[i] - most);
        sum += v[i];
    }
    for (int64_t i = 0; i < n; i++) {
        v[i] /= sum;
    }
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
    for (int64_t p = 0; p < pixels_of(d); p++, kept += kept_of_label(d)) {
        kept[0] = charl__eval_weight(row, p) > 0.0 ? (double)row->labels[p] : -1.0;
        if (d->classes == 2) {
            kept[1] = (double)row->outputs[pixels_of(d) + p] - (double)row->outputs[p];
        } else {
            for (int64_t c = 0; c < d->classes; c++) {
                kept[1 + c] = (double)row->outputs[c * pixels_of(d) + p];
            }
            softmax(kept + 1, d->classes);
        }
    }
}

static int by_score(const void *a, const void *b)
{
    const double x = ((const scored *)a)->score, y = ((const scored *)b)->score;

    return (x > y) - (x < y);
}

static bool has_nan(const scored *v, int64_t n)
{
    while (n > 0 && !isnan(v[n - 1].score)) {
        n--;
    }
    return n > 0;
}

/* For scores without NaN, which cannot be ordered. NaN unless some are positive and some are not. */
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

/* The samples for class or label i; for masks the pixels of channel i, for classes of pixels those that count. Returns their number. */
static int64_t pick(const charl__metric_data *d, const charl__metric_state *s, int64_t i, scored *out)
{
    const int64_t pixels = pixels_of(d), step = kept_of_label(d);
    charl__metric_size size = {0};
    int64_t n = 0;

    size_scores(d, &size);
    for (int64_t k = 0; k < s->n_kept; k++) {
        const double *at = s->kept + k * size.kept + (d->targets == CHARL_TARGET_FLAGS ? step * i * pixels : 0);

        for (int64_t p = 0; p < pixels; p++, at += step) {
            if (d->targets == CHARL_TARGET_FLAGS) {
                out[n++] = (scored){at[1], at[0] > 0.5};
            } else if (at[0] >= 0.0) {
                out[n++] = (scored){d->classes > 2 ? at[1 + i] : i == 1 ? at[1] : -at[1], (int64_t)at[0] == i};
            }
        }
    }
    return n;
}

static charl_status finish_auc(const charl__metric_data *d, const charl__metric_state *s, double *value,
                               double *details)
{
    double total = 0.0;
    int64_t defined = 0;
    bool any_broken = false;
    scored *v = NULL;

    CHARL_TRY(charl__alloc_array(s->n_kept * pixels_of(d), sizeof *v, &v));
    for (int64_t i = 0; i < d->classes; i++) {
        const int64_t n = pick(d, s, i, v);
        const bool broken = has_nan(v, n);
        const double auc = broken ? (double)NAN : area(v, n);

        any_broken = any_broken || broken;
        total += isnan(auc) ? 0.0 : auc;
        defined += !isnan(auc);
        if (details) {
            details[i] = auc;
        }
    }
    *value = defined > 0 && !any_broken ? total / (double)defined : (double)NAN;
    charl_free(v);
    return CHARL_OK;
}

const charl__metric charl__metric_auc = {
    .row.name = "auc",
    .row.help = "area under the ROC curve; mean over the classes, each against the others, or over "
                "the labels; of pixels if these have classes",
    .higher = true,
    .fraction = true,
    .compares = true,
    .targets = CHARL_TARGET_CLASS | CHARL_TARGET_MAPS | CHARL_TARGET_FLAGS,
    .on_request = CHARL_TARGET_MAPS,
    .reads = CHARL__READS_OUTPUTS | CHARL__READS_TARGETS,
    .detail = CHARL__DETAIL_EACH,
    .size = size_scores,
    .add = add_scores,
    .finish = finish_auc,
};
