/* Soft Dice loss of masks, or of pixels of several classes: the overlap of predicted probabilities with the truth, separately for each sample and
 * channel or class. */
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

/* [B, classes, pixels]: the channels of an image or volume are classes; other labels are the pixels of a single one. */
static charl_var *by_class(charl_graph *g, charl_var *x)
{
    const charl_shape s = x ? charl_var_get_type(x).shape : (charl_shape){2, {1, 1}};
    const int64_t row = s.dim[0] > 0 ? charl_shape_count(&s) / s.dim[0] : 1;
    const int64_t classes = s.ndim > 3 && s.dim[1] < row ? s.dim[1] : 1;

    return charl_reshape(g, x, (charl_shape){3, {s.dim[0], classes, row / classes}});
}

/* 1 at the class of each pixel, else 0, as p [B, pixels, classes]: relu(1 - (class - label)^2). */
static charl_var *one_hot(charl_graph *g, charl_var *p, charl_var *labels)
{
    const charl_shape s = p && labels ? charl_var_get_type(p).shape : (charl_shape){3, {1, 1, 1}};
    charl_var *each[8], *apart;
    int n = 0;

    for (int64_t c = 0; c < s.dim[2]; c++) {
        each[n++] = charl_reshape(g, charl_constant(g, (float)c), (charl_shape){1, {1}});
        if (n == 8 || c + 1 == s.dim[2]) {
            each[0] = charl_concat(g, each, n, 0);
            n = 1;
        }
    }
    labels = charl_reshape(g, charl_cast(g, labels, CHARL_F32), (charl_shape){3, {s.dim[0], s.dim[1], 1}});
    apart = charl_sub(g, charl_expand_like(g, p, each[0]), labels);
    return charl_relu(g, charl_scale(g, charl_mul(g, apart, apart), -1.0F, 1.0F));
}

static charl_var *build_counted(charl_graph *g, const void *config, charl_var *outputs, charl_var *targets,
                                charl_var *counted)
{
    const float smooth = (float)((const settings *)config)->smooth;
    const bool maps = targets && charl_var_get_type(targets).dtype == CHARL_I32;
    const int pixels = maps ? 1 : 2;
    charl_var *p = maps ? charl_softmax(g, outputs) : by_class(g, charl_sigmoid(g, outputs));
    charl_var *t = maps ? one_hot(g, p, targets) : by_class(g, targets), *both, *sizes;

    if (counted) {
        const charl_shape s = charl_var_get_type(counted).shape;

        counted = charl_reshape(g, counted, (charl_shape){3, {s.dim[0], s.dim[1], 1}});
        p = charl_mul(g, p, counted);
        t = charl_mul(g, t, counted);
    }
    both = charl_sum(g, charl_mul(g, p, t), pixels, false);
    sizes = charl_sum(g, charl_add(g, p, t), pixels, false);
    both = charl_div(g, charl_scale(g, both, 2.0F, smooth), charl_scale(g, sizes, 1.0F, smooth));
    return charl_scale(g, charl_mean(g, both, 1, false), -1.0F, 1.0F);
}

static charl_var *build(charl_graph *g, const void *config, charl_var *outputs, charl_var *targets)
{
    return build_counted(g, config, outputs, targets, NULL);
}

static double reference(const void *config, const charl__eval_row *row)
{
    const double smooth = ((const settings *)config)->smooth;
    const int64_t classes = row->classes < row->n ? row->classes : 1, pixels = row->n / classes;
    double total = 0.0;

    for (int64_t c = 0; c < classes; c++) {
        double both = 0.0, sizes = 0.0;

        for (int64_t i = 0; i < pixels; i++) {
            const int64_t at = c * pixels + i;
            const double counts = charl__eval_weight(row, i) > 0.0 ? 1.0 : 0.0;
            const double p =
                row->is_map ? exp(-charl__eval_cross_entropy(row, i, c)) : 1.0 / (1.0 + exp(-(double)row->outputs[at]));
            const double t = row->is_map ? (double)(row->labels[i] == c) : charl__eval_target(row, at);

            both += counts * p * t;
            sizes += counts * (p + t);
        }
        total += 1.0 - (2.0 * both + smooth) / (sizes + smooth);
    }
    return total / (double)classes;
}

const charl__loss charl__loss_dice = {
    .row.name = "dice",
    .row.help =
        "1 - soft Dice coefficient of each channel of a sample's masks, or of each class of its pixels, mean over "
        "these; the outputs are logits",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .targets = CHARL_TARGET_FLAGS | CHARL_TARGET_MAPS,
    .build = build,
    .build_counted = build_counted,
    .reference = reference,
    .answer = &charl__answer_sigmoid,
};
