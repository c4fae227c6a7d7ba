/* Focal loss (Lin et al. 2017) of classes: cross entropy, reduced for predictions that are already correct. */
#include <math.h>

#include "nn/loss.h"

typedef struct settings {
    double gamma, alpha;
} settings;
static const settings defaults = {.gamma = 2.0, .alpha = 1.0};
static const charl_key keys[] = {
    {"focal_gamma", CHARL_KEY_FLOAT, offsetof(settings, gamma), "[0,100]", false,
     "exponent of 1 - probability of the class: how much less easy samples count; 0 is cross entropy", NULL},
    {"focal_alpha", CHARL_KEY_FLOAT, offsetof(settings, alpha), "(0,inf)", false,
     "factor of the loss; factors of single classes are train.class_weights", NULL},
};

/* (1 - p)^gamma by exp and log. The term added to 1 - p is far below its rounding error and keeps the logarithm finite; rounding may have made p
 * larger than 1. */
static charl_var *build(charl_graph *g, const void *config, charl_var *outputs, charl_var *targets)
{
    const settings *s = config;
    charl_var *loss = charl_cross_entropy(g, outputs, targets, NULL, NULL);
    charl_var *p = charl_exp(g, charl_scale(g, loss, -1.0F, 0.0F));
    charl_var *rest = charl_scale(g, charl_relu(g, charl_scale(g, p, -1.0F, 1.0F)), 1.0F, 1e-12F);
    charl_var *factor = charl_exp(g, charl_scale(g, charl_log(g, rest), (float)s->gamma, 0.0F));

    return charl_scale(g, charl_mul(g, factor, loss), (float)s->alpha, 0.0F);
}

static double reference(const void *config, const charl__eval_row *row)
{
    const settings *s = config;
    const int64_t pixels = charl__eval_pixels(row);
    double sum = 0.0;

    for (int64_t i = 0; i < pixels; i++) {
        const double loss = charl__eval_cross_entropy(row, i, row->labels[i]);

        sum += charl__eval_weight(row, i) * s->alpha * pow(1.0 - exp(-loss), s->gamma) * loss;
    }
    return sum / charl__eval_weights(row);
}

const charl__loss charl__loss_focal = {
    .row.name = "focal",
    .row.help = "cross entropy times focal_alpha (1 - probability of the class)^focal_gamma",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .targets = CHARL_TARGET_CLASS | CHARL_TARGET_MAPS,
    .build = build,
    .reference = reference,
    .answer = &charl__answer_softmax,
};
