/* Smooth L1: Huber's loss divided by its delta, so that its slope is 1 far from 0 (PyTorch's smooth_l1_loss). */
#include <math.h>

#include "nn/loss.h"

typedef struct settings {
    double beta;
} settings;
static const settings defaults = {.beta = 1.0};
static const charl_key keys[] = {
    {"smooth_l1_beta", CHARL_KEY_FLOAT, offsetof(settings, beta), "(0,inf)", false,
     "error at which the loss changes from squared to absolute", NULL},
};

static charl_var *build(charl_graph *g, const void *config, charl_var *outputs, charl_var *targets)
{
    const float beta = (float)((const settings *)config)->beta;

    return charl_scale(g, charl_huber(g, outputs, targets, beta), 1.0F / beta, 0.0F);
}

static double reference(const void *config, const charl__eval_row *row)
{
    const double beta = ((const settings *)config)->beta;
    double sum = 0.0;

    for (int64_t i = 0; i < row->n; i++) {
        const double error = fabs((double)row->outputs[i] - charl__eval_target(row, i));

        sum += error <= beta ? 0.5 * error * error / beta : error - 0.5 * beta;
    }
    return sum / (double)row->n;
}

const charl__loss charl__loss_smooth_l1 = {
    .row.name = "smooth_l1",
    .row.help = "half the squared error / smooth_l1_beta up to smooth_l1_beta, the absolute error "
                "- beta / 2 beyond; mean over the targets",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .targets = CHARL_TARGET_NUMBERS,
    .build = build,
    .reference = reference,
    .answer = &charl__answer_identity,
};
