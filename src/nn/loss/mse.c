/* Mean squared error. */
#include "nn/loss.h"

static charl_var *build(charl_graph *g, const void *config, charl_var *outputs, charl_var *targets)
{
    (void)config;
    return charl_mse(g, outputs, targets);
}

static double reference(const void *config, const charl__eval_row *row)
{
    double sum = 0.0;

    (void)config;
    for (int64_t i = 0; i < row->n; i++) {
        const double error = (double)row->outputs[i] - charl__eval_target(row, i);

        sum += error * error;
    }
    return sum / (double)row->n;
}

const charl__loss charl__loss_mse = {
    .row.name = "mse",
    .row.help = "squared error, mean over the targets of a sample",
    .targets = CHARL_TARGET_NUMBERS,
    .build = build,
    .reference = reference,
    .answer = &charl__answer_identity,
};
