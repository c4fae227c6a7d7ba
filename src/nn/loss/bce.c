/* Binary cross entropy of logits, one per label. */
#include <math.h>

#include "nn/loss.h"

static charl_var *build(charl_graph *g, const void *config, charl_var *outputs, charl_var *targets)
{
    (void)config;
    return charl_bce_with_logits(g, outputs, targets);
}

/* softplus(x) - x * t, without overflow */
static double reference(const void *config, const charl__eval_row *row)
{
    double sum = 0.0;

    (void)config;
    for (int64_t i = 0; i < row->n; i++) {
        const double x = (double)row->outputs[i];

        sum += (x > 0 ? x : 0) + log1p(exp(-fabs(x))) - x * charl__eval_target(row, i);
    }
    return sum / (double)row->n;
}

const charl__loss charl__loss_bce = {
    .row.name = "bce",
    .row.help = "binary cross entropy of each label, mean over the labels; the outputs are logits",
    .targets = CHARL_TARGET_FLAGS,
    .build = build,
    .reference = reference,
    .answer = &charl__answer_sigmoid,
};
