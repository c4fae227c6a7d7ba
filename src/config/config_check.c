/* Mistakes that no single key shows. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "charl/optim.h"
#include "nn/layer.h"
#include "config/config_private.h"
#include "config/config_groups.h"

typedef struct checker {
    const charl_config *cfg;
    charl__mistakes *mistakes;
    int n_before; /* mistakes of single keys */
    charl_status st;
} checker;

static const charl__origin *origin_of(const charl_config *cfg, const char *section, const char *key)
{
    return &cfg->detail->origins[charl__key_find(section, key, NULL) - charl__keys];
}

/* Note a mistake at the key; a default stands nowhere, so name the file there. A section that has a
 * mistake already is left alone: its values are not what the user means. */
static void wrong(checker *c, const char *section, const char *key, const char *reason)
{
    charl__origin origin = *origin_of(c->cfg, section, key);

    if (charl__mistakes_in(c->mistakes, c->n_before, section)) {
        return;
    }
    if (!origin.label) {
        origin = (charl__origin){c->cfg->detail->strings.items[0], 0}; /* the label, kept first */
    }
    if (c->st == CHARL_OK) {
        c->st = charl__mistake_add(c->mistakes, origin, section, key, reason);
    }
}

/* Nothing is known to be missing while a line is that nobody understands. */
static void missing(checker *c, const char *section, const char *key, const char *reason)
{
    if (!charl__mistakes_in(c->mistakes, c->n_before, NULL)) {
        wrong(c, section, key, reason);
    }
}

static void check_needed(checker *c)
{
    for (int i = 0; i < charl__key_count; i++) {
        const charl__key *key = &charl__keys[i];

        if (!key->fallback && !c->cfg->detail->origins[i].label) {
            missing(c, key->section, key->name, "is missing and has no default");
        }
    }
}

static void check_batch(checker *c)
{
    const charl_config *cfg = c->cfg;
    char why[CHARL__WHY];

    if (cfg->train.slices > 0 && cfg->train.batch_size % cfg->train.slices != 0) {
        snprintf(why, sizeof why, "%" PRId64 " slices do not divide batch_size = %" PRId64,
                 cfg->train.slices, cfg->train.batch_size);
        wrong(c, "train", "slices", why);
    }
    if (cfg->train.max_steps == 0) {
        wrong(c, "train", "max_steps", "0 steps: use -1 for no limit, or --dry-run");
    }
    if (cfg->train.label_smoothing > 0 && cfg->train.loss != CHARL_LOSS_CROSS_ENTROPY) {
        wrong(c, "train", "label_smoothing", "only with loss = cross_entropy");
    }
}

static void check_optimizer(checker *c)
{
    const charl_config *cfg = c->cfg;
    charl__group group[CHARL__MAX_GROUPS];
    char why[CHARL__WHY];
    const char *name;
    int n;

    charl__groups_parse(cfg->optimizer.groups, group, &n, why, sizeof why);
    if (why[0] != '\0') {
        wrong(c, "optimizer", "groups", why);
    }
    if (cfg->optimizer.type == CHARL_OPTIMIZER_SGD && cfg->optimizer.nesterov &&
        cfg->optimizer.momentum == 0) {
        wrong(c, "optimizer", "nesterov", "needs momentum above 0");
    }
    name = charl_config_choice_name("optimizer", "type", cfg->optimizer.type);
    if (cfg->dist.shard_optimizer && !charl_optimizer_is_elementwise(name)) {
        snprintf(why, sizeof why, "%s updates whole tensors, which ranks cannot divide", name);
        wrong(c, "dist", "shard_optimizer", why);
    }
    if (cfg->scheduler.type == CHARL_SCHEDULER_MULTISTEP) {
        const charl_int_list *m = &cfg->scheduler.milestones;

        if (m->count == 0) {
            wrong(c, "scheduler", "milestones", "multistep needs at least one");
        }
        for (int i = 1; i < m->count; i++) {
            if (m->values[i] <= m->values[i - 1]) {
                wrong(c, "scheduler", "milestones", "must ascend");
                break;
            }
        }
    }
    if (cfg->scheduler.type != CHARL_SCHEDULER_CONSTANT &&
        cfg->scheduler.min_lr > cfg->optimizer.learning_rate) {
        wrong(c, "scheduler", "min_lr", "is larger than learning_rate");
    }
}

static void check_precision(checker *c)
{
    const charl_config *cfg = c->cfg;
    const int64_t scale = cfg->train.loss_scale;

    if (scale != 0 && cfg->train.precision != CHARL_PRECISION_F16) {
        wrong(c, "train", "loss_scale", "needs precision = f16");
    } else if ((scale & (scale - 1)) != 0) {
        wrong(c, "train", "loss_scale", "must be a power of two");
    }
}

static void check_gpt(checker *c)
{
    const charl_config *cfg = c->cfg;
    const int64_t kv = cfg->model.n_kv_head > 0 ? cfg->model.n_kv_head : cfg->model.n_head;
    char why[CHARL__WHY];

    if (cfg->model.type != CHARL_MODEL_GPT) {
        return;
    }
    if (cfg->model.n_embd % cfg->model.n_head != 0) {
        snprintf(why, sizeof why, "%" PRId64 " does not divide among n_head = %" PRId64 " heads",
                 cfg->model.n_embd, cfg->model.n_head);
        wrong(c, "model", "n_embd", why);
    } else if (cfg->model.positions == CHARL_GPT_ROTARY &&
               cfg->model.n_embd / cfg->model.n_head % 2 != 0) {
        wrong(c, "model", "n_embd", "rotary positions need an even width of each head");
    }
    if (cfg->model.n_head % kv != 0) {
        snprintf(why, sizeof why, "%" PRId64 " does not divide n_head = %" PRId64, kv,
                 cfg->model.n_head);
        wrong(c, "model", "n_kv_head", why);
    }
    if (cfg->data.window > 0 && cfg->data.window != cfg->model.block_size) {
        wrong(c, "data", "window", "is model.block_size for type = gpt");
    }
}

static void check_model(checker *c)
{
    const charl_config *cfg = c->cfg;
    const charl_config_detail *d = cfg->detail;

    if (cfg->model.type == CHARL_MODEL_SEQUENTIAL && d->n_layers == 0) {
        missing(c, "model", "type", "sequential needs at least one [layer NAME] section");
    }
    if (cfg->model.type == CHARL_MODEL_CNN && cfg->model.kernel % 2 == 0) {
        wrong(c, "model", "kernel", "must be odd");
    }
    if (cfg->model.type == CHARL_MODEL_RESNET && !charl__resnet_has_depth(cfg->model.depth)) {
        wrong(c, "model", "depth", "can be " CHARL_RESNET_DEPTHS);
    }
    for (int i = 0; i < d->n_layers && c->st == CHARL_OK; i++) {
        char section[64];

        snprintf(section, sizeof section, "layer %s", d->layers[i].name);
        if (cfg->model.type != CHARL_MODEL_SEQUENTIAL) {
            c->st = charl__mistake_add(c->mistakes, d->layers[i].origin, section, NULL,
                                       "layers belong to model.type = sequential");
        } else if (!d->layers[i].type) {
            c->st =
                charl__mistake_add(c->mistakes, d->layers[i].origin, section, "type", "is missing");
        }
    }
}

static void check_monitor(checker *c)
{
    const charl_config *cfg = c->cfg;

    if (cfg->train.early_stopping_patience > 0 && cfg->eval.interval.unit == CHARL_INTERVAL_OFF) {
        wrong(c, "train", "early_stopping_patience", "needs evaluations: [eval] interval is 0");
    }
    const bool accuracy = strcmp(cfg->checkpoint.monitor, "val/accuracy") == 0;
    const bool error = strcmp(cfg->checkpoint.monitor, "val/mae") == 0;
    const bool numbers = cfg->train.loss == CHARL_LOSS_MSE || cfg->train.loss == CHARL_LOSS_HUBER;

    if (accuracy != (cfg->checkpoint.mode == CHARL_MONITOR_MAX)) {
        wrong(c, "checkpoint", "mode",
              accuracy ? "val/accuracy grows as it gets better: write mode = max"
              : error  ? "val/mae falls as it gets better: write mode = min"
                       : "val/loss falls as it gets better: write mode = min");
    }
    if (accuracy && numbers) {
        wrong(c, "checkpoint", "monitor", "val/accuracy needs loss = cross_entropy or bce");
    }
    if (error && !numbers) {
        wrong(c, "checkpoint", "monitor", "val/mae needs loss = mse or huber");
    }
    if ((cfg->eval.metrics & CHARL_METRIC_MAE) && !numbers) {
        wrong(c, "eval", "metrics", "mae needs loss = mse or huber");
    }
    if (accuracy && !(cfg->eval.metrics & CHARL_METRIC_ACCURACY)) {
        wrong(c, "checkpoint", "monitor", "val/accuracy needs accuracy in [eval] metrics");
    }
    if ((cfg->eval.metrics & CHARL_METRIC_PERPLEXITY) &&
        cfg->train.loss != CHARL_LOSS_CROSS_ENTROPY) {
        wrong(c, "eval", "metrics", "perplexity needs loss = cross_entropy");
    }
    if ((cfg->data.x[0] == '\0') != (cfg->data.y[0] == '\0')) {
        wrong(c, "data", cfg->data.x[0] == '\0' ? "x" : "y", "x and y are given together");
    }
}

/* Keys written down that the section's type does not use. */
static charl_status note_unused(const charl_config *cfg, const charl__key *key)
{
    const charl__origin *origin = &cfg->detail->origins[key - charl__keys];
    const int type =
        *(const int *)((const char *)cfg + charl__key_find(key->section, "type", NULL)->offset);
    const char *name = charl_config_choice_name(key->section, "type", type);
    char text[CHARL__WHY];
    char line[32] = "";
    const char *kept;

    if (charl__choice_index(key->uses + strlen("type="), name) < 0) {
        if (origin->line > 0) {
            snprintf(line, sizeof line, ":%d", origin->line);
        }
        snprintf(text, sizeof text, "%.200s%s: [%s] %s has no effect with type = %s", origin->label,
                 line, key->section, key->name, name);
        CHARL_TRY(charl__config_keep(&cfg->detail->notices, text, &kept));
    }
    return CHARL_OK;
}

charl_status charl__config_check(charl_config *cfg, charl__mistakes *mistakes)
{
    charl_status st = CHARL_OK;
    checker c = {.cfg = cfg, .mistakes = mistakes, .n_before = mistakes->count};

    check_needed(&c);
    check_batch(&c);
    check_precision(&c);
    check_optimizer(&c);
    check_model(&c);
    check_gpt(&c);
    check_monitor(&c);
    CHARL_TRY(c.st);
    for (int i = 0; i < charl__key_count; i++) {
        if (charl__keys[i].uses && cfg->detail->origins[i].label) {
            CHARL_TRY(note_unused(cfg, &charl__keys[i]));
        }
    }
    return st;
}
