/* Mean absolute error. */
#include <math.h>

#include "nn/loss.h"

static charl_var *build(charl_graph *g, const void *config, charl_var *outputs, charl_var *targets)
{
    (void)config;
    return charl_l1(g, outputs, targets);
}

static double reference(const void *config, const charl__eval_row *row)
{
    double sum = 0.0;

    (void)config;
    for (int64_t i = 0; i < row->n; i++) {
        sum += fabs((double)row->outputs[i] - charl__eval_target(row, i));
    }
    return sum / (double)row->n;
}

const charl__loss charl__loss_l1 = {
    .row.name = "l1",
    .row.help = "absolute error, mean over the targets of a sample",
    .targets = CHARL_TARGET_NUMBERS,
    .build = build,
    .reference = reference,
    .answer = &charl__answer_identity,
};
