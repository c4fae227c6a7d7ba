/* Kullback-Leibler divergence of the predicted probabilities from the data's. */
#include <math.h>

#include "nn/loss.h"

/* Added to a target: makes 0 log 0 = 0 and changes no other value. */
static charl_var *build(charl_graph *g, const void *config, charl_var *outputs, charl_var *targets)
{
    charl_var *t = charl_flatten(g, targets), *known = charl_log(g, charl_scale(g, t, 1.0F, 1e-30F));
    charl_var *apart = charl_sub(g, known, charl_log_softmax(g, charl_flatten(g, outputs)));

    (void)config;
    return charl_sum(g, charl_mul(g, t, apart), 1, false);
}

static double reference(const void *config, const charl__eval_row *row)
{
    const double most = (double)row->outputs[charl__largest(row->outputs, row->n, 1)];
    double total = 0.0, sum = 0.0;

    (void)config;
    for (int64_t i = 0; i < row->n; i++) {
        total += exp((double)row->outputs[i] - most);
    }
    for (int64_t i = 0; i < row->n; i++) {
        const double t = charl__eval_target(row, i);

        sum += t > 0 ? t * (log(t) - ((double)row->outputs[i] - most - log(total))) : 0.0;
    }
    return sum;
}

const charl__loss charl__loss_kl = {
    .row.name = "kl",
    .row.help = "sum of t log(t / p): t the probabilities that are the targets of a sample, p the softmax of the "
                "outputs",
    .targets = CHARL_TARGET_PROBABILITIES,
    .build = build,
    .reference = reference,
    .answer = &charl__answer_softmax,
};
