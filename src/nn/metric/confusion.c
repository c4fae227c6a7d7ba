/* Precision, recall, F1 and overlap of classes or of labels that are 0 or 1, and the confusion matrix.
 *
 *     precision = right / predicted      f1 = dice = 2 right / (predicted + actual)
 *     recall = right / actual            iou = right / (predicted + actual - right)
 *
 * each 0 for 0 / 0. macro is the mean over the classes, except those that are neither predicted nor actual,
 * or over the labels; micro adds up right, predicted and actual first. */
#include <math.h>

#include "nn/metric.h"

/* counts of output i: [i] predicted and actual, [n + i] predicted, [2 n + i] actual */
enum { PARTS = 3 };

typedef enum ratio { PRECISION, RECALL, F1, IOU } ratio;

static void size_parts(const charl__metric_data *d, charl__metric_size *out)
{
    out->counts = PARTS * d->classes;
}

static void count(charl__metric_state *s, int64_t n, int64_t i, bool predicted, bool actual)
{
    s->counts[i] += predicted && actual;
    s->counts[n + i] += predicted;
    s->counts[2 * n + i] += actual;
}

static void add_parts(const charl__metric_data *d, const charl__eval_row *row, charl__metric_state *s)
{
    const int64_t n = d->classes;

    if (d->targets != CHARL_TARGET_FLAGS) {
        for (int64_t i = 0; i < charl__eval_pixels(row); i++) {
            const int64_t predicted = charl__eval_predicted(row, i);

            if (!(charl__eval_weight(row, i) > 0.0)) {
                continue;
            }
            count(s, n, predicted, true, predicted == row->labels[i]);
            if (predicted != row->labels[i]) {
                count(s, n, row->labels[i], false, true);
            }
        }
        return;
    }
    for (int64_t i = 0; i < row->n; i++) {
        count(s, n, i / (row->n / n), row->outputs[i] > 0.0F, charl__eval_target(row, i) > 0.5);
    }
}

static double ratio_of(ratio what, int64_t right, int64_t predicted, int64_t actual)
{
    const int64_t up = what == F1 ? 2 * right : right;
    const int64_t down = what == PRECISION ? predicted
                         : what == RECALL  ? actual
                         : what == F1      ? predicted + actual
                                           : predicted + actual - right;

    return down > 0 ? (double)up / (double)down : 0.0;
}

static charl_status finish_macro(ratio what, const charl__metric_data *d, const charl__metric_state *s, double *value,
                                 double *details)
{
    const int64_t n = d->classes, *c = s->counts;
    double total = 0.0;
    int64_t used = 0;

    for (int64_t i = 0; i < n; i++) {
        const bool is_used = d->targets == CHARL_TARGET_FLAGS || c[n + i] > 0 || c[2 * n + i] > 0;
        const double v = ratio_of(what, c[i], c[n + i], c[2 * n + i]);

        total += is_used ? v : 0.0;
        used += is_used;
        if (details) {
            details[i] = v;
        }
    }
    *value = used > 0 ? total / (double)used : (double)NAN;
    return CHARL_OK;
}

static charl_status finish_micro(ratio what, const charl__metric_data *d, const charl__metric_state *s, double *value)
{
    int64_t sum[PARTS] = {0};

    for (int64_t i = 0; i < PARTS * d->classes; i++) {
        sum[i / d->classes] += s->counts[i];
    }
    *value = ratio_of(what, sum[0], sum[1], sum[2]);
    return CHARL_OK;
}

#define RATIO(id, word)                                                                                                \
    static charl_status finish_##id(const charl__metric_data *d, const charl__metric_state *s, double *value,          \
                                    double *details)                                                                   \
    {                                                                                                                  \
        return finish_macro(word, d, s, value, details);                                                               \
    }                                                                                                                  \
    static charl_status finish_##id##_micro(const charl__metric_data *d, const charl__metric_state *s, double *value,  \
                                            double *details)                                                           \
    {                                                                                                                  \
        (void)details;                                                                                                 \
        return finish_micro(word, d, s, value);                                                                        \
    }

#define RATIO_ROW(id, text, details)                                                                                   \
    {                                                                                                                  \
        .row.name = #id, .row.help = (text), .higher = true, .fraction = true,                                         \
        .targets = CHARL_TARGET_CLASS | CHARL_TARGET_MAPS | CHARL_TARGET_FLAGS,                                        \
        .reads = CHARL__READS_OUTPUTS | CHARL__READS_TARGETS, .detail = (details), .size = size_parts,                 \
        .add = add_parts, .finish = finish_##id,                                                                       \
    }
#define MACRO(id, text) RATIO_ROW(id, text "; mean over the classes or labels", CHARL__DETAIL_EACH)
#define MICRO(id, text) RATIO_ROW(id##_micro, text "; counted over all classes or labels together", CHARL__DETAIL_NONE)

#define PRECISION_HELP "fraction of the predictions of a class that are correct"
#define RECALL_HELP "fraction of a class that is predicted as it"
#define F1_HELP "harmonic mean of precision and recall"
#define IOU_HELP "intersection of prediction and truth over their union"
#define DICE_HELP "twice the intersection of prediction and truth over the sum of their sizes, which is f1"

RATIO(precision, PRECISION)
RATIO(recall, RECALL)
RATIO(f1, F1)
RATIO(iou, IOU)
RATIO(dice, F1)

const charl__metric charl__metric_precision = MACRO(precision, PRECISION_HELP);
const charl__metric charl__metric_recall = MACRO(recall, RECALL_HELP);
const charl__metric charl__metric_f1 = MACRO(f1, F1_HELP);
const charl__metric charl__metric_precision_micro = MICRO(precision, PRECISION_HELP);
const charl__metric charl__metric_recall_micro = MICRO(recall, RECALL_HELP);
const charl__metric charl__metric_f1_micro = MICRO(f1, F1_HELP);
const charl__metric charl__metric_iou = MACRO(iou, IOU_HELP);
const charl__metric charl__metric_iou_micro = MICRO(iou, IOU_HELP);
const charl__metric charl__metric_dice = MACRO(dice, DICE_HELP);
const charl__metric charl__metric_dice_micro = MICRO(dice, DICE_HELP);

static charl_status finish_support(const charl__metric_data *d, const charl__metric_state *s, double *value,
                                   double *details)
{
    *value = (double)NAN;
    for (int64_t i = 0; details && i < d->classes; i++) {
        details[i] = (double)s->counts[2 * d->classes + i];
    }
    return CHARL_OK;
}

const charl__metric charl__metric_support = {
    .row.name = "support",
    .row.help = "number of samples of each class or label; of pixels where these have classes",
    .report_only = true,
    .targets = CHARL_TARGET_CLASS | CHARL_TARGET_MAPS | CHARL_TARGET_FLAGS,
    .reads = CHARL__READS_OUTPUTS | CHARL__READS_TARGETS,
    .detail = CHARL__DETAIL_EACH,
    .size = size_parts,
    .add = add_parts,
    .finish = finish_support,
};

static void size_pairs(const charl__metric_data *d, charl__metric_size *out)
{
    out->counts = d->classes * d->classes;
}

static void add_pair(const charl__metric_data *d, const charl__eval_row *row, charl__metric_state *s)
{
    for (int64_t i = 0; i < charl__eval_pixels(row); i++) {
        if (charl__eval_weight(row, i) > 0.0) {
            s->counts[row->labels[i] * d->classes + charl__eval_predicted(row, i)]++;
        }
    }
}

static charl_status finish_pairs(const charl__metric_data *d, const charl__metric_state *s, double *value,
                                 double *details)
{
    *value = (double)NAN;
    for (int64_t i = 0; details && i < d->classes * d->classes; i++) {
        details[i] = (double)s->counts[i];
    }
    return CHARL_OK;
}

const charl__metric charl__metric_confusion = {
    .row.name = "confusion",
    .row.help = "number of samples or pixels of each class (row) that were predicted to be of each class (column)",
    .report_only = true,
    .targets = CHARL_TARGET_CLASS | CHARL_TARGET_MAPS,
    .reads = CHARL__READS_OUTPUTS | CHARL__READS_TARGETS,
    .detail = CHARL__DETAIL_PAIRS,
    .size = size_pairs,
    .add = add_pair,
    .finish = finish_pairs,
};
