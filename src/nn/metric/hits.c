/* Accuracy: fraction of predictions that are correct. */
#include "nn/metric.h"

/* Fraction of pixels, or 0 or 1 for a class, for which at most k outputs, including the label's, are not below it: a tie counts against the
 * label. */
static double is_among(const charl__eval_row *row, int k)
{
    const int64_t pixels = charl__eval_pixels(row);
    double right = 0.0;

    for (int64_t p = 0; p < pixels; p++) {
        const float own = row->outputs[row->labels[p] * pixels + p];
        int64_t n = 0;

        for (int64_t i = p; i < row->n; i += pixels) {
            n += !(row->outputs[i] < own);
        }
        right += n <= k ? charl__eval_weight(row, p) : 0.0;
    }
    return right / charl__eval_weights(row);
}

static charl_var *build_accuracy(charl_graph *g, charl_target_kind kind, charl_var *outputs, charl_var *targets)
{
    return kind == CHARL_TARGET_FLAGS ? charl_binary_accuracy(g, outputs, targets)
                                      : charl_top_k_correct(g, outputs, targets, 1);
}

static double accuracy_of(charl_target_kind kind, const charl__eval_row *row)
{
    double right = 0.0;

    if (kind != CHARL_TARGET_FLAGS) {
        return is_among(row, 1);
    }
    for (int64_t i = 0; i < row->n; i++) {
        right += (row->outputs[i] > 0.0F) == (charl__eval_target(row, i) > 0.5);
    }
    return right / (double)row->n;
}

const charl__metric charl__metric_accuracy = {
    .row.name = "accuracy",
    .row.help = "fraction of predictions that are correct; bce: of the single labels",
    .higher = true,
    .fraction = true,
    .targets = CHARL_TARGET_CLASS | CHARL_TARGET_MAPS | CHARL_TARGET_FLAGS | CHARL_TARGET_TOKENS,
    .automatic = CHARL_TARGET_CLASS | CHARL_TARGET_MAPS | CHARL_TARGET_FLAGS | CHARL_TARGET_TOKENS,
    .build = build_accuracy,
    .reference = accuracy_of,
    .finish = charl__metric_mean,
};

#define TOP_K(k)                                                                                                       \
    static charl_var *build_top##k(charl_graph *g, charl_target_kind kind, charl_var *outputs, charl_var *targets)     \
    {                                                                                                                  \
        (void)kind;                                                                                                    \
        return charl_top_k_correct(g, outputs, targets, k);                                                            \
    }                                                                                                                  \
    static double top##k##_of(charl_target_kind kind, const charl__eval_row *row)                                      \
    {                                                                                                                  \
        (void)kind;                                                                                                    \
        return is_among(row, k);                                                                                       \
    }

#define TOP_K_ROW(k)                                                                                                   \
    {                                                                                                                  \
        .row.name = "top" #k, .row.help = "fraction of labels that are among the " #k " largest outputs",              \
        .higher = true, .fraction = true, .targets = CHARL_TARGET_CLASS | CHARL_TARGET_MAPS | CHARL_TARGET_TOKENS,     \
        .build = build_top##k, .reference = top##k##_of, .finish = charl__metric_mean,                                 \
    }

TOP_K(2)
TOP_K(3)
TOP_K(5)
TOP_K(10)

const charl__metric charl__metric_top2 = TOP_K_ROW(2);
const charl__metric charl__metric_top3 = TOP_K_ROW(3);
const charl__metric charl__metric_top5 = TOP_K_ROW(5);
const charl__metric charl__metric_top10 = TOP_K_ROW(10);
