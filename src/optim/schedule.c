/* Learning-rate schedules: plain functions of the step. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "charl/optim.h"

static const double pi = 3.14159265358979323846;

/* Progress after the warm-up, in [0, 1]. */
static double progress(const charl_schedule *s, int64_t step)
{
    const int64_t length = s->total_steps - s->warmup_steps;
    const int64_t done = step - s->warmup_steps;

    return length <= 0 || done >= length ? 1.0 : (double)done / (double)length;
}

static double constant(const charl_schedule *s, int64_t step)
{
    (void)step;
    return s->base_lr;
}

static double linear(const charl_schedule *s, int64_t step)
{
    return s->base_lr + (s->min_lr - s->base_lr) * progress(s, step);
}

static double cosine(const charl_schedule *s, int64_t step)
{
    return s->min_lr + (s->base_lr - s->min_lr) * 0.5 * (1.0 + cos(pi * progress(s, step)));
}

static double poly(const charl_schedule *s, int64_t step)
{
    return s->min_lr + (s->base_lr - s->min_lr) * pow(1.0 - progress(s, step), s->power);
}

static double stepwise(const charl_schedule *s, int64_t step)
{
    return s->base_lr * pow(s->gamma, (double)((step - s->warmup_steps) / s->step_size));
}

static double multistep(const charl_schedule *s, int64_t step)
{
    int passed = 0;

    while (passed < s->n_milestones && step >= s->milestones[passed]) {
        passed++;
    }
    return s->base_lr * pow(s->gamma, passed);
}

/* Warm-up, stable, decay: constant until decay_steps before the end, then linear to min_lr. */
static double wsd(const charl_schedule *s, int64_t step)
{
    const int64_t left = s->total_steps - step;

    if (left >= s->decay_steps) {
        return s->base_lr;
    }
    return left <= 0 ? s->min_lr
                     : s->min_lr + (s->base_lr - s->min_lr) * (double)left / (double)s->decay_steps;
}

static const struct schedule_type {
    const char *name;
    double (*lr)(const charl_schedule *s, int64_t step);
} types[] = {
    {"constant", constant},   {"linear", linear}, {"cosine", cosine}, {"step", stepwise},
    {"multistep", multistep}, {"poly", poly},     {"wsd", wsd},
};

static const struct schedule_type *find(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(types[i].name, name) == 0) {
            return &types[i];
        }
    }
    return NULL;
}

const char *charl_schedule_name(int i)
{
    return i >= 0 && i < (int)(sizeof types / sizeof types[0]) ? types[i].name : NULL;
}

charl_status charl_schedule_check(const charl_schedule *s)
{
    char names[256];

    CHARL_REQUIRE(s->type && find(s->type), CHARL_ERR_CONFIG, "scheduler.type is %s; it can be %s",
                  s->type ? s->type : "missing",
                  charl__text_names(charl_schedule_name, names, sizeof names));
    CHARL_REQUIRE(s->base_lr >= 0 && isfinite(s->base_lr) && s->min_lr >= 0 && isfinite(s->min_lr),
                  CHARL_ERR_CONFIG, "learning rates are finite and not negative");
    CHARL_REQUIRE(s->warmup_steps >= 0, CHARL_ERR_CONFIG, "scheduler.warmup_steps is negative");
    CHARL_REQUIRE(isfinite(s->gamma) && s->gamma >= 0 && isfinite(s->power) && s->power >= 0,
                  CHARL_ERR_CONFIG,
                  "scheduler.gamma and scheduler.power are finite and not negative: %g and %g",
                  s->gamma, s->power);
    CHARL_REQUIRE(strcmp(s->type, "step") != 0 || s->step_size > 0, CHARL_ERR_CONFIG,
                  "scheduler.step_size must be positive for type step");
    CHARL_REQUIRE(
        strcmp(s->type, "wsd") != 0 || (s->decay_steps >= 0 && s->decay_steps <= s->total_steps),
        CHARL_ERR_CONFIG, "scheduler.decay_steps must lie between 0 and the %lld steps of the run",
        (long long)s->total_steps);
    for (int i = 1; i < s->n_milestones; i++) {
        CHARL_REQUIRE(s->milestones[i] > s->milestones[i - 1], CHARL_ERR_CONFIG,
                      "scheduler.milestones must ascend: %lld follows %lld",
                      (long long)s->milestones[i], (long long)s->milestones[i - 1]);
    }
    return CHARL_OK;
}

double charl_schedule_lr(const charl_schedule *s, int64_t step)
{
    const struct schedule_type *type = find(s->type);

    CHARL_INVARIANT(type);
    if (step < s->warmup_steps) {
        return s->base_lr * (double)(step + 1) / (double)(s->warmup_steps + 1);
    }
    return type->lr(s, step);
}
