/* Settings that have no effect, or an unexpected one, in a run of so many steps on these data: one line for each.
 *
 * Only settings that are given and differ from their default are reported: config.ini in a run directory has all of them. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "charl/optim.h"
#include "config/config_private.h"
#include "config/config_rows.h"
#include "config/config_run.h"

typedef struct notes {
    const charl_config *cfg;
    const charl__run_facts *facts;
    charl__text *text;
    charl_status st;
} notes;

static void note(notes *n, const char *fmt, ...) CHARL_PRINTF(2, 3);

static void note(notes *n, const char *fmt, ...)
{
    char line[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (n->st == CHARL_OK) {
        n->st = charl__text_printf(n->text, "%s%s", n->text->length > 0 ? "\n" : "", line);
    }
}

/* The key, if it is given, belongs to the selected types and differs from its default; else NULL. */
static const charl__key *find_chosen(notes *n, const char *section, const char *name)
{
    const charl__schema *schema = charl__config_schema();
    charl__text value = {0};

    for (int i = 0; i < schema->count; i++) {
        const charl__key *key = &schema->keys[i];
        bool is_default;

        if (strcmp(key->section, section) != 0 || strcmp(key->name, name) != 0 || !charl__config_uses(n->cfg, key) ||
            !n->cfg->detail->origins[i].label) {
            continue;
        }
        n->st = n->st == CHARL_OK ? charl__config_value_print(key, (const char *)n->cfg + key->offset, &value) : n->st;
        is_default = key->fallback && strcmp(charl__text_string(&value), key->fallback) == 0;
        charl__text_fini(&value);
        return is_default ? NULL : key;
    }
    return NULL;
}

static bool is_chosen(notes *n, const char *section, const char *name)
{
    return find_chosen(n, section, name) != NULL;
}

/* Report that a key has no effect, and why, if it applies. */
static void useless(notes *n, const char *section, const char *name, const char *why)
{
    const charl__key *key = find_chosen(n, section, name);
    charl__text value = {0};

    if (key && n->st == CHARL_OK) {
        n->st = charl__config_value_print(key, (const char *)n->cfg + key->offset, &value);
        note(n, "%s.%s = %.64s has no effect: %s", section, name, charl__text_string(&value), why);
        charl__text_fini(&value);
    }
}

/* Steps of an interval; 0: it is off, or in seconds. */
static double steps_of(const notes *n, charl__interval i)
{
    return i.unit == CHARL__INTERVAL_STEPS ? (double)i.count
           : i.unit == CHARL__INTERVAL_EPOCHS
               ? ceil((double)i.count * (double)n->facts->train_rows / (double)n->facts->batch)
               : 0;
}

static void check_intervals(notes *n)
{
    const charl_config *c = n->cfg;
    const double steps = (double)n->facts->steps, eval = steps_of(n, c->eval.interval);
    const int64_t patience = c->train.early_stopping_patience;

    if (n->facts->val_rows > 0 && eval > steps && is_chosen(n, "eval", "interval")) {
        note(n, "eval.interval is longer than the run of %" PRId64 " steps: it is evaluated once, at the end",
             n->facts->steps);
    }
    if (steps_of(n, c->checkpoint.interval) > steps && is_chosen(n, "checkpoint", "interval") &&
        !(c->checkpoint.interval.unit == CHARL__INTERVAL_EPOCHS && c->checkpoint.interval.count == 1)) {
        note(n, "checkpoint.interval is longer than the run of %" PRId64 " steps: one checkpoint is saved, at the end",
             n->facts->steps);
    }
    if (patience > 0 && eval > 0 && ceil(steps / eval) <= (double)patience) {
        note(n,
             "train.early_stopping_patience = %" PRId64
             " cannot stop this run, which is evaluated %.0f times in %" PRId64 " steps",
             patience, ceil(steps / eval), n->facts->steps);
    }
    if (c->log.histogram_interval > n->facts->steps) {
        note(n,
             "log.histogram_interval = %" PRId64 " is longer than the run of %" PRId64
             " steps: there are no histograms",
             c->log.histogram_interval, n->facts->steps);
    }
}

static void check_schedule(notes *n)
{
    const charl_config *c = n->cfg;
    const charl_schedule *s = c->scheduler.settings;
    const int64_t steps = n->facts->steps, warmup = c->scheduler.warmup_steps;
    const double lr = c->optimizer.learning_rate;
    int beyond = 0;

    if (warmup >= steps && warmup > 0) {
        note(n,
             "scheduler.warmup_steps = %" PRId64 " is not shorter than the run of %" PRId64
             " steps: the learning rate only "
             "reaches %.3g of %.3g",
             warmup, steps, lr * (double)steps / (double)(warmup + 1), lr);
        return;
    }
    if (strcmp(c->scheduler.type, "step") == 0 && warmup + s->step_size >= steps) {
        note(n,
             "scheduler.step_size = %" PRId64 " is not shorter than the rest of the run of %" PRId64
             " steps: the learning rate never falls",
             s->step_size, steps);
    }
    for (int i = 0; strcmp(c->scheduler.type, "multistep") == 0 && i < s->milestones.count; i++) {
        beyond += s->milestones.values[i] >= steps;
    }
    if (beyond > 0) {
        note(n, "scheduler.milestones: %d of %d are not before the end of the run, at step %" PRId64, beyond,
             s->milestones.count, steps);
    }
}

static void check_rules(notes *n)
{
    const charl_config *c = n->cfg;
    const double left = pow(c->train.ema_decay, (double)n->facts->steps);

    if (c->train.ema_decay > 0 && left > 0.5) {
        note(n,
             "train.ema_decay = %g: after the %" PRId64
             " steps of the run the average, which is evaluated and kept as the best, "
             "still has %.0f %% of the initial weights",
             c->train.ema_decay, n->facts->steps, 100 * left);
    }
    if (c->train.on_spike == CHARL_SPIKE_OFF) {
        useless(n, "train", "spike_window", "train.on_spike is off");
        useless(n, "train", "spike_threshold", "train.on_spike is off");
    } else if (c->train.spike_window >= n->facts->steps) {
        note(n,
             "train.spike_window = %" PRId64 " is not shorter than the run of %" PRId64
             " steps: no step can be a spike",
             c->train.spike_window, n->facts->steps);
    }
    if (!charl__config_init_from(c) && c->lora.rank > 0) {
        note(n, "lora.rank without init.from: the weights under the adapters stay random");
    } else if (!charl__config_init_from(c) && is_chosen(n, "train", "freeze")) {
        note(n, "train.freeze without init.from: the frozen weights stay random");
    }
    for (int i = 0; n->facts->batch == 1 && i < c->detail->n_outputs; i++) {
        const charl__config_output *o = &c->detail->outputs[i];

        if (o->loss && o->loss->targets == CHARL_TARGET_NOTHING) {
            note(n,
                 "train.batch_size = 1: the loss %s of the output %s compares the rows of a batch, so it is 0 and "
                 "nothing is learned",
                 o->loss->row.name, o->name);
        }
    }
    if (c->train.on_nonfinite == CHARL__NONFINITE_STOP) {
        useless(n, "train", "max_nonfinite_steps", "train.on_nonfinite is stop");
    }
}

static void check_model(notes *n)
{
    static const struct {
        const char *name, *scalings; /* those that read it */
    } of_scaling[] = {{"rope_factor", "linear|llama3|yarn|dynamic"},
                      {"rope_low", "llama3|yarn"},
                      {"rope_high", "llama3|yarn"},
                      {"rope_original", "llama3|yarn|dynamic"}};
    const charl__key *key = find_chosen(n, "model", "rope_scaling");
    CHARL_SCOPED(charl__text_fini) charl__text scaling = {0};
    char why[64];

    if (n->st == CHARL_OK) {
        n->st = key ? charl__config_value_print(key, (const char *)n->cfg + key->offset, &scaling)
                    : charl__text_printf(&scaling, "none");
    }
    snprintf(why, sizeof why, "model.rope_scaling is %.32s", charl__text_string(&scaling));
    for (size_t i = 0; n->st == CHARL_OK && i < sizeof of_scaling / sizeof *of_scaling; i++) {
        if (charl__choice_index(of_scaling[i].scalings, charl__text_string(&scaling)) < 0) {
            useless(n, "model", of_scaling[i].name, why);
        }
    }
}

static void check_data(notes *n)
{
    static const char *const of_evaluations[][2] = {
        {"eval", "interval"}, {"eval", "max_batches"}, {"eval", "metrics"}, {"log", "images"}, {"checkpoint", "mode"}};
    const charl_config *c = n->cfg;

    for (size_t i = 0; n->facts->val_rows == 0 && i < sizeof of_evaluations / sizeof *of_evaluations; i++) {
        useless(n, of_evaluations[i][0], of_evaluations[i][1], "there are no validation rows");
    }
    if (c->eval.interval.unit == CHARL__INTERVAL_OFF) {
        useless(n, "checkpoint", "monitor", "eval.interval is 0, so nothing is evaluated");
    }
    if (n->facts->val_rows > 0 && !n->facts->val_is_cut && c->data.mix.count == 0) {
        useless(n, "data", "val_split", "the data have a validation set");
    }
    if (c->dist.shard == CHARL__SHARD_NONE) {
        useless(n, "dist", "shard_group", "dist.shard is none");
    }
    if (c->data.shuffle != CHARL_SHUFFLE_BLOCKS) {
        useless(n, "data", "shuffle_window", "data.shuffle is not blocks");
    }
    if (!c->eval.sample_prompt[0]) {
        useless(n, "eval", "sample_tokens", "there is no eval.sample_prompt");
        useless(n, "eval", "sample_temperature", "there is no eval.sample_prompt");
    }
}

charl_status charl__config_check_run(const charl_config *cfg, const charl__run_facts *facts, charl__text *out)
{
    notes n = {.cfg = cfg, .facts = facts, .text = out};

    check_intervals(&n);
    check_schedule(&n);
    check_rules(&n);
    check_model(&n);
    check_data(&n);
    return n.st;
}
