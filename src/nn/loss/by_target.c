/* Losses that are the mean over the targets of a sample of f(x, t), x the output for target t: bce, huber, l1, mse and smooth_l1. */
#include <math.h>

#include "nn/loss.h"

typedef struct settings {
    double at; /* error at which huber and smooth_l1 change from squared to absolute */
} settings;

static double at_of(const void *config)
{
    return ((const settings *)config)->at;
}

static double mean(const void *config, const charl__eval_row *row, double (*f)(const void *config, double x, double t))
{
    double sum = 0.0;

    for (int64_t i = 0; i < row->n; i++) {
        sum += f(config, (double)row->outputs[i], charl__eval_target(row, i));
    }
    return sum / (double)row->n;
}

/* f, and the loss of each row from operators. */
#define DEFINITION(loss, value, operators)                                                                             \
    static double loss##_at(const void *config, double x, double t)                                                    \
    {                                                                                                                  \
        (void)config;                                                                                                  \
        return value;                                                                                                  \
    }                                                                                                                  \
    static double loss##_reference(const void *config, const charl__eval_row *row)                                     \
    {                                                                                                                  \
        return mean(config, row, loss##_at);                                                                           \
    }                                                                                                                  \
    static charl_var *loss##_build(charl_graph *g, const void *config, charl_var *outputs, charl_var *targets)         \
    {                                                                                                                  \
        (void)config;                                                                                                  \
        return operators;                                                                                              \
    }

static double huber(double error, double delta)
{
    return error <= delta ? 0.5 * error * error : delta * (error - 0.5 * delta);
}

static double smooth_l1(double error, double beta)
{
    return error <= beta ? 0.5 * error * error / beta : error - 0.5 * beta;
}

DEFINITION(bce, (x > 0 ? x : 0) + log1p(exp(-fabs(x))) - x * t, /* softplus(x) - x * t, without overflow */
           charl_bce_with_logits(g, outputs, targets))
DEFINITION(huber, huber(fabs(x - t), at_of(config)), charl_huber(g, outputs, targets, (float)at_of(config)))
DEFINITION(l1, fabs(x - t), charl_l1(g, outputs, targets))
DEFINITION(mse, (x - t) * (x - t), charl_mse(g, outputs, targets))
/* huber divided by its delta, so that its slope is 1 far from 0 (PyTorch's smooth_l1_loss) */
DEFINITION(smooth_l1, smooth_l1(fabs(x - t), at_of(config)),
           charl_scale(g, charl_huber(g, outputs, targets, (float)at_of(config)), 1.0F / (float)at_of(config), 0.0F))

static const settings defaults = {.at = 1.0};
static const charl_key huber_keys[] = {
    {"huber_delta", CHARL_KEY_FLOAT, offsetof(settings, at), "(0,inf)", false,
     "error at which the loss changes from squared to absolute"},
};
static const charl_key smooth_l1_keys[] = {
    {"smooth_l1_beta", CHARL_KEY_FLOAT, offsetof(settings, at), "(0,inf)", false,
     "error at which the loss changes from squared to absolute"},
};

#define LOSS(loss, kind, read, ...)                                                                                    \
    {                                                                                                                  \
        .row.name = #loss, .targets = CHARL_TARGET_##kind, .answer = &charl__answer_##read, .build = loss##_build,     \
        .reference = loss##_reference, .row.help = __VA_ARGS__                                                         \
    }

const charl__loss charl__loss_bce =
    LOSS(bce, FLAGS, sigmoid, "binary cross entropy of each label, mean over the labels; the outputs are logits");
const charl__loss charl__loss_huber =
    LOSS(huber, NUMBERS, identity, "half the squared error up to huber_delta, linear beyond; mean over the targets",
         CHARL_KEYS(huber_keys), CHARL_DEFAULTS(defaults));
const charl__loss charl__loss_l1 = LOSS(l1, NUMBERS, identity, "absolute error, mean over the targets of a sample");
const charl__loss charl__loss_mse = LOSS(mse, NUMBERS, identity, "squared error, mean over the targets of a sample");
const charl__loss charl__loss_smooth_l1 =
    LOSS(smooth_l1, NUMBERS, identity,
         "half the squared error / smooth_l1_beta up to smooth_l1_beta, the absolute error - beta / 2 beyond; mean "
         "over the targets",
         CHARL_KEYS(smooth_l1_keys), CHARL_DEFAULTS(defaults));
