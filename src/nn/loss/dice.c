/* Soft Dice loss of masks: the overlap of predicted probabilities with the truth, of each sample and channel by itself. */
#include <math.h>

#include "nn/loss.h"

typedef struct settings {
    double smooth;
} settings;
static const settings defaults = {.smooth = 1.0};
static const charl_key keys[] = {
    {"dice_smooth", CHARL_KEY_FLOAT, offsetof(settings, smooth), "(0,inf)", false,
     "added to both sides of the fraction, so that an empty mask has a loss", NULL},
};

/* [B, classes, pixels]: the channels of an image or volume are classes; other labels are the pixels of one. */
static charl_var *by_class(charl_graph *g, charl_var *x)
{
    const charl_shape s = x ? charl_var_get_type(x).shape : (charl_shape){2, {1, 1}};
    const int64_t row = s.dim[0] > 0 ? charl_shape_count(&s) / s.dim[0] : 1;
    const int64_t classes = s.ndim > 3 && s.dim[1] < row ? s.dim[1] : 1;

    return charl_reshape(g, x, (charl_shape){3, {s.dim[0], classes, row / classes}});
}

static charl_var *build(charl_graph *g, const void *config, charl_var *outputs, charl_var *targets)
{
    const float smooth = (float)((const settings *)config)->smooth;
    charl_var *p = by_class(g, charl_sigmoid(g, outputs)), *t = by_class(g, targets), *both, *sizes;

    both = charl_sum(g, charl_mul(g, p, t), 2, false);
    sizes = charl_sum(g, charl_add(g, p, t), 2, false);
    both = charl_div(g, charl_scale(g, both, 2.0F, smooth), charl_scale(g, sizes, 1.0F, smooth));
    return charl_scale(g, charl_mean(g, both, 1, false), -1.0F, 1.0F);
}

static double reference(const void *config, const charl__eval_row *row)
{
    const double smooth = ((const settings *)config)->smooth;
    const int64_t classes = row->classes < row->n ? row->classes : 1, pixels = row->n / classes;
    double total = 0.0;

    for (int64_t c = 0; c < classes; c++) {
        double both = 0.0, sizes = 0.0;

        for (int64_t i = c * pixels; i < (c + 1) * pixels; i++) {
            const double p = 1.0 / (1.0 + exp(-(double)row->outputs[i])), t = charl__eval_target(row, i);

            both += p * t;
            sizes += p + t;
        }
        total += 1.0 - (2.0 * both + smooth) / (sizes + smooth);
    }
    return total / (double)classes;
}

const charl__loss charl__loss_dice = {
    .row.name = "dice",
    .row.help = "1 - soft Dice coefficient of each channel of a sample's masks, mean over the channels; the outputs "
                "are logits",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .targets = CHARL_TARGET_FLAGS,
    .build = build,
    .reference = reference,
    .answer = &charl__answer_sigmoid,
};
