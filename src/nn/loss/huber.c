/* Huber's loss: squared near 0, absolute beyond delta. */
#include <math.h>

#include "nn/loss.h"

typedef struct settings {
    double delta;
} settings;
static const settings defaults = {.delta = 1.0};
static const charl_key keys[] = {
    {"huber_delta", CHARL_KEY_FLOAT, offsetof(settings, delta), "(0,inf)", false,
     "error at which the loss changes from squared to absolute", NULL},
};

static charl_var *build(charl_graph *g, const void *config, charl_var *outputs, charl_var *targets)
{
    return charl_huber(g, outputs, targets, (float)((const settings *)config)->delta);
}

static double reference(const void *config, const charl__eval_row *row)
{
    const double delta = ((const settings *)config)->delta;
    double sum = 0.0;

    for (int64_t i = 0; i < row->n; i++) {
        const double error = fabs((double)row->outputs[i] - charl__eval_target(row, i));

        sum += error <= delta ? 0.5 * error * error : delta * (error - 0.5 * delta);
    }
    return sum / (double)row->n;
}

const charl__loss charl__loss_huber = {
    .row.name = "huber",
    .row.help = "half the squared error up to huber_delta, linear beyond; mean over the targets",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .targets = CHARL_TARGET_NUMBERS,
    .build = build,
    .reference = reference,
    .answer = &charl__answer_identity,
};
