/* Learning-rate schedules: plain functions of the step. */
#include "optim/schedule.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/registry/key.h"
#include "base/registry/registry.h"
#include "base/text/text.h"

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

    while (passed < s->milestones.count && step >= s->milestones.values[passed]) {
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
    return left <= 0 ? s->min_lr : s->min_lr + (s->base_lr - s->min_lr) * (double)left / (double)s->decay_steps;
}

/* Smith's range test: from min_lr to base_lr, times the same factor in each step. */
static double range_test(const charl_schedule *s, int64_t step)
{
    return s->min_lr * pow(s->base_lr / s->min_lr, progress(s, step));
}

static bool check_milestones(const void *settings, const char **key, char *reason)
{
    const charl_int_list *m = &((const charl_schedule *)settings)->milestones;

    *key = "milestones";
    if (m->count == 0) {
        snprintf(reason, CHARL_REASON_BYTES, "multistep needs at least one");
        return false;
    }
    for (int i = 1; i < m->count; i++) {
        if (m->values[i] <= m->values[i - 1]) {
            snprintf(reason, CHARL_REASON_BYTES, "must ascend: %lld follows %lld", (long long)m->values[i],
                     (long long)m->values[i - 1]);
            return false;
        }
    }
    return true;
}

#define KEY(...) CHARL__KEY(charl_schedule, __VA_ARGS__)
#define MIN_LR KEY(min_lr, FLOAT, "[0,inf)", false, "learning rate at the end of the decay")
#define GAMMA(help) KEY(gamma, FLOAT, "(0,1]", false, help)

static const charl_key decay_keys[] = {MIN_LR};
static const charl_key step_keys[] = {
    KEY(step_size, STEPS, "[1,1e12]", false, "multiply the learning rate by gamma every this many steps, or tokens"),
    GAMMA("factor applied to the learning rate every step_size steps"),
};
static const charl_key multistep_keys[] = {
    KEY(milestones, INTS, "[1,1e12]", false,
        "steps at which the learning rate is multiplied by gamma, in ascending order"),
    GAMMA("factor applied to the learning rate at every milestone"),
};
static const charl_key poly_keys[] = {
    KEY(power, FLOAT, "(0,inf)", false, "exponent of the polynomial decay"),
    MIN_LR,
};
static const charl_key wsd_keys[] = {
    KEY(decay_steps, STEPS, "[1,1e12]", false,
        "length of the final decay, in steps or tokens; auto: a tenth of all steps", "auto"),
    MIN_LR,
};
static const charl_key range_keys[] = {KEY(min_lr, FLOAT, "(0,inf)", true, "learning rate of the first step")};
static const charl_schedule defaults = {.step_size = 1000, .gamma = 0.1, .power = 1.0};

/* A type is its function and its row here. */
#define TYPE(title, function, text) .row.name = title, .row.help = text, CHARL_DEFAULTS(defaults), .lr = function
static const charl__schedule_type constant_type = {
    TYPE("constant", constant, "the learning rate stays as it is after the warm-up")};
static const charl__schedule_type linear_type = {TYPE("linear", linear, "a straight line to min_lr"),
                                                 CHARL_KEYS(decay_keys)};
static const charl__schedule_type cosine_type = {TYPE("cosine", cosine, "half a period of a cosine to min_lr"),
                                                 CHARL_KEYS(decay_keys)};
static const charl__schedule_type step_type = {TYPE("step", stepwise, "times gamma every step_size steps"),
                                               CHARL_KEYS(step_keys)};
static const charl__schedule_type multistep_type = {TYPE("multistep", multistep, "times gamma at each milestone"),
                                                    CHARL_KEYS(multistep_keys), .row.check = check_milestones};
static const charl__schedule_type poly_type = {TYPE("poly", poly, "a polynomial of the steps left to min_lr"),
                                               CHARL_KEYS(poly_keys)};
static const charl__schedule_type wsd_type = {
    TYPE("wsd", wsd, "warm-up, stable, decay: constant, then a straight line to min_lr"), CHARL_KEYS(wsd_keys)};
static const charl__schedule_type range_type = {
    TYPE("range_test", range_test,
         "from min_lr up, times the same factor in each step: see charl tune --learning-rate"),
    CHARL_KEYS(range_keys)};

static const void *const built_in[] = {&constant_type, &linear_type, &cosine_type, &step_type, &multistep_type,
                                       &poly_type,     &wsd_type,    &range_type,  NULL};
static const charl__registry schedules = {.what = "scheduler", .built_in = built_in};

const charl__schedule_type *charl__schedule_at(int i)
{
    return charl__registry_at(&schedules, i);
}

const charl__schedule_type *charl__schedule_find(const char *name)
{
    return charl__registry_find(&schedules, name);
}

const char *charl_schedule_name(int i)
{
    const charl__schedule_type *t = charl__schedule_at(i);

    return t ? t->row.name : NULL;
}

charl_schedule charl_schedule_defaults(const char *type)
{
    const charl__schedule_type *t = charl__schedule_find(type);
    charl_schedule s = defaults;

    s.type = t ? t->row.name : type;
    return s;
}

charl_status charl_schedule_check(const charl_schedule *s)
{
    CHARL_GIVEN(s);
    const charl__schedule_type *t = charl__schedule_find(s->type);
    char names[256];

    CHARL_REQUIRE(t, CHARL_ERR_CONFIG, "type is %s; it can be %s", s->type ? s->type : "missing",
                  charl__text_list(s->type, charl_schedule_name, names, sizeof names));
    CHARL_TRY(charl__range_check(CHARL_ERR_CONFIG, "base_lr", s->base_lr, "[0,inf)"));
    CHARL_TRY(charl__range_check(CHARL_ERR_CONFIG, "min_lr", s->min_lr, "[0,inf)"));
    CHARL_TRY(charl__range_check(CHARL_ERR_CONFIG, "warmup_steps", (double)s->warmup_steps, "[0,inf)"));
    CHARL_REQUIRE(s->decay_steps <= s->total_steps, CHARL_ERR_CONFIG,
                  "decay_steps = %lld is more than the %lld steps of the run", (long long)s->decay_steps,
                  (long long)s->total_steps);
    CHARL_REQUIRE(t->lr != wsd || s->warmup_steps >= s->total_steps ||
                      s->warmup_steps + s->decay_steps <= s->total_steps,
                  CHARL_ERR_CONFIG, "warmup_steps = %lld and decay_steps = %lld overlap: the run has %lld steps",
                  (long long)s->warmup_steps, (long long)s->decay_steps, (long long)s->total_steps);
    CHARL_TRY(charl__settings_check(&t->row, s));
    return CHARL_OK;
}

double charl_schedule_lr(const charl_schedule *s, int64_t step)
{
    if (charl_schedule_check(s) != CHARL_OK || step < 0) {
        return (double)NAN;
    }
    if (step < s->warmup_steps) {
        return s->base_lr * (double)(step + 1) / (double)(s->warmup_steps + 1);
    }
    return charl__schedule_find(s->type)->lr(s, step);
}
