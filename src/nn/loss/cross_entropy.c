/* Cross entropy of classes, also of pixels and of tokens. */
#include "nn/loss.h"

typedef struct settings {
    double label_smoothing, z_loss;
} settings;
static const settings defaults = {0};
static const charl_key keys[] = {
    {"label_smoothing", CHARL_KEY_FLOAT, offsetof(settings, label_smoothing), "[0,1)", false,
     "label smoothing in training: probability spread evenly over all classes", NULL},
    {"z_loss", CHARL_KEY_FLOAT, offsetof(settings, z_loss), "[0,inf)", false,
     "z-loss in training: adds this factor times log(sum of exp(outputs))^2 to the loss of each prediction", NULL},
};

static charl_var *build(charl_graph *g, const void *config, charl_var *outputs, charl_var *targets)
{
    const settings *s = config;
    const charl_cross_entropy_args args = {.label_smoothing = (float)s->label_smoothing, .z_loss = (float)s->z_loss};

    return charl_cross_entropy(g, outputs, targets, NULL, charl_graph_is_training(g) ? &args : NULL);
}

static double reference(const void *config, const charl__eval_row *row)
{
    const int64_t pixels = charl__eval_pixels(row);
    double sum = 0.0;

    (void)config;
    for (int64_t i = 0; i < pixels; i++) {
        sum += charl__eval_weight(row, i) * charl__eval_cross_entropy(row, i, row->labels[i]);
    }
    return sum / charl__eval_weights(row);
}

const charl__loss charl__loss_cross_entropy = {
    .row.name = "cross_entropy",
    .row.help = "-log of the predicted probability of the class, of each pixel's class, or of the next token",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .targets = CHARL_TARGET_CLASS | CHARL_TARGET_MAPS | CHARL_TARGET_TOKENS,
    .build = build,
    .reference = reference,
    .answer = &charl__answer_softmax,
};
