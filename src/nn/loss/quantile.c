/* quantile: the pinball loss of several quantiles of each target (Koenker and Bassett 1978). */
#include <stdio.h>

#include "nn/loss.h"

static const charl_float_list defaults = {.count = 3, .values = {0.05, 0.5, 0.95}};
static const charl_key keys[] = {
    {"quantiles", CHARL_KEY_FLOATS, 0, "(0,1)", false,
     "the quantiles that the model predicts of each target, ascending; the first and the last are the ends of the "
     "interval, and the one nearest to 0.5 is the prediction"},
};

static bool check(const void *settings, const char **key, char *reason)
{
    const charl_float_list *q = settings;

    *key = "quantiles";
    if (q->count == 0) {
        snprintf(reason, CHARL_REASON_BYTES, "is empty; it needs numbers, as in 0.05, 0.5, 0.95");
        return false;
    }
    for (int i = 1; i < q->count; i++) {
        if (!(q->values[i] > q->values[i - 1])) {
            snprintf(reason, CHARL_REASON_BYTES, "has %g after %g; quantiles are written in ascending order",
                     q->values[i], q->values[i - 1]);
            return false;
        }
    }
    return true;
}

static const charl_float_list *quantiles(const void *settings)
{
    return settings;
}

/* outputs [rows, quantiles * targets], targets [rows, targets] */
static charl_var *build(charl_graph *g, const void *settings, charl_var *outputs, charl_var *targets)
{
    const charl_float_list *q = settings;
    charl_var *x = charl_flatten(g, outputs), *t = charl_flatten(g, targets), *sum = NULL;
    const int64_t n = t ? charl_var_get_type(t).shape.dim[1] : 1;

    for (int i = 0; i < q->count; i++) {
        charl_var *loss = charl_pinball(g, charl_slice(g, x, 1, i * n, n), t, (float)q->values[i]);

        sum = i > 0 ? charl_add(g, sum, loss) : loss;
    }
    return charl_scale(g, sum, 1.0F / (float)q->count, 0.0F);
}

static double reference(const void *settings, const charl__eval_row *row)
{
    const charl_float_list *q = settings;
    double sum = 0.0;

    for (int64_t i = 0; i < q->count * row->n; i++) {
        const double error = charl__eval_target(row, i % row->n) - (double)row->values[i];

        sum += error * (q->values[i / row->n] - (error < 0 ? 1.0 : 0.0));
    }
    return sum / (double)(q->count * row->n);
}

const charl__loss charl__loss_quantile = {
    .row.name = "quantile",
    .row.help = "pinball loss of several quantiles of each target, mean over them and over the targets of a sample",
    .row.check = check,
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .targets = CHARL_TARGET_NUMBERS | CHARL_TARGET_INTERVALS,
    .quantiles = quantiles,
    .build = build,
    .reference = reference,
    .answer = &charl__answer_identity,
};
