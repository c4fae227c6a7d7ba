/* Whether probabilities can be believed: expected calibration error and reliability diagram (Guo et al. 2017).
 *
 * The confidence of a prediction is the probability of the predicted class. Bin b of B holds the confidences in (b / B, (b + 1) / B]; with their
 * mean, and the fraction of its predictions that are right,
 *
 *     ece = sum over the bins of samples / all samples * |right - confidence| */
#include <math.h>

#include "nn/metric.h"

enum { BINS = 15 };

/* counts: samples of each bin, and those that are right; sums: of the confidences */

static void size_bins(const charl__metric_data *d, charl__metric_size *out)
{
    (void)d;
    out->counts = 2 * BINS;
    out->sums = BINS;
}

static void add_bins(const charl__metric_data *d, const charl__eval_row *row, charl__metric_state *s)
{
    (void)d;
    for (int64_t i = 0; i < charl__eval_pixels(row); i++) {
        const int64_t predicted = charl__eval_predicted(row, i);
        const double confidence = exp(-charl__eval_cross_entropy(row, i, predicted));
        const double place = ceil(confidence * BINS);
        const int bin = place >= BINS ? BINS - 1 : place > 1.0 ? (int)place - 1 : 0;

        if (charl__eval_weight(row, i) > 0.0 && !isnan(confidence)) {
            s->counts[bin]++;
            s->counts[BINS + bin] += predicted == row->labels[i];
            charl__exact_add(s->sums + bin * CHARL__EXACT_LIMBS, confidence);
        }
    }
}

static charl_status finish_bins(const charl__metric_data *d, const charl__metric_state *s, double *value,
                                double *details)
{
    double off = 0.0;
    int64_t all = 0;

    (void)d;
    for (int b = 0; b < BINS; b++) {
        const double n = (double)s->counts[b], right = (double)s->counts[BINS + b];
        const double confidence = charl__exact_value(s->sums + b * CHARL__EXACT_LIMBS);

        all += s->counts[b];
        off += fabs(right - confidence);
        if (details && n > 0) { /* a bin without samples is no point */
            *details++ = confidence / n;
            *details++ = right / n;
            *details++ = n;
        }
    }
    *value = all > 0 ? off / (double)all : (double)NAN;
    return CHARL_OK;
}

const charl__metric charl__metric_ece = {
    .row.name = "ece",
    .row.help = "expected calibration error: mean difference of confidence and accuracy, in 15 bins of confidence",
    .fraction = true,
    .targets = CHARL_TARGET_CLASS | CHARL_TARGET_MAPS,
    .reads = CHARL__READS_OUTPUTS | CHARL__READS_TARGETS,
    .detail = CHARL__DETAIL_POINTS,
    .diagram = {"calibration", {"confidence", "accuracy", "samples"}},
    .size = size_bins,
    .add = add_bins,
    .finish = finish_bins,
};
