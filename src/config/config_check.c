/* Mistakes in combinations of keys. */
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "charl/optim.h"
#include "nn/model.h"
#include "config/config_private.h"
#include "config/model/config_groups.h"
#include "config/config_rows.h"

typedef struct checker {
    const charl_config *cfg;
    charl__mistakes *mistakes;
    int n_before; /* mistakes of single keys */
    charl_status st;
} checker;

static const charl__origin *origin_of(const charl_config *cfg, const char *section, const char *key)
{
    return &cfg->detail->origins[charl__key_find(section, key, NULL) - charl__config_schema()->keys];
}

/* Report a mistake at the key; a default has no line, so name the file. A section that already has a
 * mistake is skipped: its values are not what the user means. */
static void wrong(checker *c, const char *section, const char *key, const char *reason)
{
    charl__origin origin = *origin_of(c->cfg, section, key);

    if (charl__mistakes_in(c->mistakes, c->n_before, section)) {
        return;
    }
    if (!origin.label) {
        origin = (charl__origin){c->cfg->detail->strings.items[0], 0}; /* the label comes first */
    }
    if (c->st == CHARL_OK) {
        c->st = charl__mistake_add(c->mistakes, origin, section, key, reason);
    }
}

/* If some line was not understood, nothing is reported as missing: that line may have set it. */
static void missing(checker *c, const char *section, const char *key, const char *reason)
{
    if (!charl__mistakes_in(c->mistakes, c->n_before, NULL)) {
        wrong(c, section, key, reason);
    }
}

static bool is_required(const charl__key *key)
{
    const charl_row *row = key->owner ? key->owner->row : NULL;

    for (int i = 0; row && i < row->n_keys; i++) {
        if (row->keys[i].name == key->name) {
            return row->keys[i].required;
        }
    }
    return !row && !key->fallback;
}

static void check_needed(checker *c)
{
    const charl__schema *schema = charl__config_schema();

    for (int i = 0; i < schema->count; i++) {
        const charl__key *key = &schema->keys[i];

        if (is_required(key) && charl__config_uses(c->cfg, key) && !c->cfg->detail->origins[i].label &&
            !(key->offset == offsetof(charl_config, data.path) && c->cfg->data.mix.count > 0)) {
            missing(c, key->section, key->name, "is missing and has no default");
        }
    }
}

/* Whether the settings of the selected types are consistent. */
static void check_types(checker *c)
{
    const charl__schema *schema = charl__config_schema();

    for (int i = 0; i < schema->n_types; i++) {
        const charl__type *t = &schema->types[i];
        const char *key = t->key;
        char why[CHARL_REASON_BYTES] = "";

        if (t->row->check && charl__type_chosen(c->cfg, t->section, t->key) == t &&
            !t->row->check((const char *)c->cfg + t->offset, &key, why)) {
            wrong(c, t->section, key, why);
        }
    }
}

static void check_batch(checker *c)
{
    const charl_config *cfg = c->cfg;
    char why[CHARL__WHY];

    if (cfg->train.slices > 0 && cfg->train.batch_size % cfg->train.slices != 0) {
        snprintf(why, sizeof why, "%" PRId64 " slices do not divide batch_size = %" PRId64, cfg->train.slices,
                 cfg->train.batch_size);
        wrong(c, "train", "slices", why);
    }
    if (cfg->train.max_steps == 0) {
        wrong(c, "train", "max_steps", "0 steps: use -1 for no limit, or --dry-run");
    }
}

const char *charl__config_inexact(const charl_config *cfg)
{
    if (cfg->train.precision != CHARL__PRECISION_F32 && cfg->train.products != CHARL__PRODUCTS_INTEGER) {
        return "train.precision = f32, or train.products = integer: devices add products of other types in different "
               "orders";
    }
    if (cfg->device.allow_tf32) {
        return "device.allow_tf32 = no: only some devices round to tf32";
    }
    return strcmp(cfg->dist.allreduce, "mpi") == 0
               ? "another dist.allreduce than mpi: that sums in an order that depends on the ranks"
               : NULL;
}

static void check_exact(checker *c)
{
    const char *needed = charl__config_inexact(c->cfg);
    char text[160];

    if (c->cfg->train.exact == CHARL__EXACT_ANYWHERE && needed) {
        snprintf(text, sizeof text, "anywhere needs %s", needed);
        wrong(c, "train", "exact", text);
    }
}

static void check_lora(checker *c)
{
    const charl_lora *lora = &c->cfg->lora;

    if (lora->base != CHARL_PACKING_F32 && lora->rank == 0) {
        wrong(c, "lora", "base", "only the weights under adapters are packed: set lora.rank");
    }
}

/* Whether ranks are to divide something; auto may leave it. */
static bool shards(const charl_config *cfg)
{
    return cfg->dist.shard >= CHARL__SHARD_OPTIMIZER && cfg->dist.shard <= CHARL__SHARD_PARAMETERS;
}

static void needs_parameters(checker *c, const char *section, const char *key, const char *what)
{
    char why[CHARL__WHY];

    if (c->cfg->dist.shard == CHARL__SHARD_PARAMETERS) {
        snprintf(why, sizeof why,
                 "%s needs all parameters on every rank, but [dist] shard = parameters divides them: use shard = "
                 "gradients",
                 what);
        wrong(c, section, key, why);
    }
}

static void check_optimizer(checker *c)
{
    const charl_config *cfg = c->cfg;
    charl__group group[CHARL__MAX_GROUPS];
    char why[CHARL__WHY];
    int n;

    charl__groups_parse(cfg->optimizer.groups, group, &n, why, sizeof why);
    if (why[0] != '\0') {
        wrong(c, "optimizer", "groups", why);
    }
    if (cfg->dist.audit > 0) {
        needs_parameters(c, "dist", "audit", "an audit");
    }
    if (cfg->dist.shard_group == CHARL__SHARD_GROUP_NODE && cfg->dist.shard == CHARL__SHARD_PARAMETERS) {
        wrong(c, "dist", "shard_group", "node does not work with [dist] shard = parameters: use shard = gradients");
    }
    if (cfg->dist.balance == CHARL__BALANCE_SPEED) {
        needs_parameters(c, "dist", "balance", "speed");
    }
    if (cfg->eval.sample_prompt[0]) {
        needs_parameters(c, "eval", "sample_prompt", "a sample");
    }
    if (cfg->dist.audit > 0 && cfg->dist.balance == CHARL__BALANCE_SPEED) {
        wrong(c, "dist", "audit", "needs the same number of slices on every rank: dist.balance = even");
    }
    if (((const charl_schedule *)cfg->scheduler.settings)->min_lr > cfg->optimizer.learning_rate) {
        wrong(c, "scheduler", "min_lr", "is larger than learning_rate");
    }
}

static void check_precision(checker *c)
{
    const charl_config *cfg = c->cfg;
    const int64_t scale = cfg->train.loss_scale;

    if (scale != 0 && cfg->train.precision != CHARL__PRECISION_F16) {
        wrong(c, "train", "loss_scale", "needs precision = f16");
    } else if ((scale & (scale - 1)) != 0) {
        wrong(c, "train", "loss_scale", "must be a power of two");
    }
    if (cfg->train.precision == CHARL__PRECISION_FP8 && cfg->lora.rank > 0) {
        wrong(c, "train", "precision", "fp8 does not train low-rank adapters: use bf16, or lora.rank = 0");
    }
    if (cfg->train.products == CHARL__PRODUCTS_INTEGER && cfg->train.precision == CHARL__PRECISION_FP8) {
        wrong(c, "train", "products", "integer needs precision = f32, bf16 or f16");
    }
}

static void check_model(checker *c)
{
    const charl_config *cfg = c->cfg;
    const charl__config_detail *d = cfg->detail;
    const charl_model_type *type = charl__model_type_find(cfg->model.type);

    bool any = false;

    for (int i = 0; i < d->n_sections; i++) {
        any = any || strncmp(d->sections[i].header, "layer ", 6) == 0;
    }
    if (!type->add && !any) {
        missing(c, "model", "type", "sequential needs at least one [layer NAME] section");
    }
    if (type->window && cfg->data.window > 0 && cfg->data.window != type->window(cfg->model.settings)) {
        char why[CHARL__WHY];

        snprintf(why, sizeof why, "is %" PRId64 " for model.type = %s", type->window(cfg->model.settings),
                 type->row.name);
        wrong(c, "data", "window", why);
    }
    for (int i = 0; i < d->n_sections && type->add && c->st == CHARL_OK; i++) {
        c->st = charl__mistake_add(c->mistakes, d->sections[i].origin, d->sections[i].header, NULL,
                                   "layers, blocks and outputs belong to model.type = sequential");
    }
}

static bool has_outputs(const charl__config_detail *d)
{
    bool any = false;

    for (int i = 0; i < d->n_sections; i++) {
        any = any || strncmp(d->sections[i].header, "output ", 7) == 0;
    }
    return any;
}

/* The loss must learn from a kind of target for which the metric is defined. */
static void check_metric(checker *c, const char *section, const char *key, const char *prefix, const charl__metric *m)
{
    char why[CHARL__WHY], names[256];

    if (has_outputs(c->cfg->detail)) { /* each output has its own kind of target, which the data decide */
        return;
    }
    if (!(m->targets & charl__config_targets(c->cfg))) {
        snprintf(why, sizeof why, "%s%s needs loss = %s", prefix, m->row.name,
                 charl__loss_names(m->targets, names, sizeof names));
        wrong(c, section, key, why);
    }
}

/* The monitored output must exist, and so must a metric's output. */
static void check_monitor(checker *c, const charl__metric *m)
{
    const charl__config_detail *d = c->cfg->detail;
    const char *name = charl__config_monitor_name(c->cfg), *dot = strrchr(name, '.'), *near = NULL;
    const size_t n = dot ? (size_t)(dot - name) : 0;
    int best = INT_MAX;
    char why[CHARL__WHY], names[256] = "", output[64];
    size_t used = 0;

    snprintf(output, sizeof output, "%.*s", (int)n, name);
    for (int i = 0; i < d->n_outputs; i++) {
        const char *own = d->outputs[i].name;

        if (dot && strcmp(own, output) == 0) {
            return;
        }
        near = charl_text_closer(output, own, &best) ? own : near;
        used +=
            used < sizeof names ? (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", own) : 0;
    }
    if (dot && d->n_outputs == 0) {
        snprintf(why, sizeof why, "there is no [output %s]; val/%s is the metric of the only output", output, dot + 1);
    } else if (dot) {
        snprintf(why, sizeof why, "there is no output %s%s; there are %s", output, charl__did_you_mean(near), names);
    } else if (d->n_outputs > 0 && m != &charl__metric_loss) {
        snprintf(why, sizeof why, "is measured for each output: val/NAME.%s, where NAME is one of %s", name, names);
    } else {
        return;
    }
    wrong(c, "checkpoint", "monitor", why);
}

/* Named inputs and targets are rows of numbers to whatever reads a sample as an image of a class. */
static void check_single(checker *c)
{
    const charl_config *cfg = c->cfg;
    CHARL_SCOPED(charl__text_fini) charl__text augment = {0};

    c->st = c->st == CHARL_OK ? charl__config_augment_print(&cfg->data.augment, &augment) : c->st;

    const struct {
        const char *section, *key;
        bool is_set;
    } single[] = {{"data", "augment", augment.length > 0},
                  {"data", "image_size", cfg->data.image_size > 0},
                  {"data", "sampling", cfg->data.sampling == CHARL_SAMPLING_BALANCED},
                  {"train", "class_weights", cfg->train.class_weights[0] != '\0'},
                  {"log", "images", cfg->log.images > 0}};

    for (size_t i = 0; i < sizeof single / sizeof *single; i++) {
        if (single[i].is_set) {
            wrong(c, single[i].section, single[i].key,
                  "is for one input and one target, without names in data.x and data.y");
        }
    }
}

/* Keys of a loss that none of the outputs has. */
static void check_loss_keys(checker *c)
{
    const charl__schema *schema = charl__config_schema();

    for (int i = 0; i < schema->count; i++) {
        const charl__key *k = &schema->keys[i];
        const charl__type *t = k->owner;

        if (t && strcmp(t->key, "loss") == 0 && c->cfg->detail->origins[i].label &&
            memcmp((const char *)c->cfg + t->offset, t->row->defaults, t->row->settings_size) != 0) {
            wrong(c, k->section, k->name, "is a key of a loss: set it in [output NAME], where loss names that loss");
        }
    }
}

static const charl__field_spec *find_spec(const charl__field_spec *specs, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(specs[i].name, name) == 0) {
            return &specs[i];
        }
    }
    return NULL;
}

/* The parts of a diffusion model among the names of the data. */
static void check_diffusion(checker *c, const charl__field_spec *x, int n_x, const charl__field_spec *y, int n_y)
{
    const charl_config *cfg = c->cfg;
    const charl__field_spec *image = find_spec(x, n_x, cfg->diffusion.input);
    const charl__field_spec *time = find_spec(x, n_x, cfg->diffusion.time);
    const charl__field_spec *target = find_spec(y, n_y, cfg->diffusion.target);
    char why[CHARL__WHY];

    if (cfg->diffusion.schedule == CHARL__NOISE_NONE) {
        return;
    }
    if (!image || image->zeros > 0 || strcmp(image->kind, "tokens") == 0) {
        snprintf(why, sizeof why, "data.x has no numbers %.40s; write data.x = %.40s:/ARRAY, %.40s:[1]",
                 cfg->diffusion.input, cfg->diffusion.input, cfg->diffusion.time);
        wrong(c, "diffusion", "input", why);
    } else if (!time || time->zeros != 1) {
        snprintf(why, sizeof why, "data.x has no %.40s:[1]; write data.x = %.40s:%.100s, %.40s:[1]",
                 cfg->diffusion.time, image->name, image->array, cfg->diffusion.time);
        wrong(c, "diffusion", "time", why);
    } else if (!target || strcmp(target->array, image->array) != 0 || strcmp(target->kind, "numbers") != 0) {
        snprintf(why, sizeof why,
                 "data.y has no numbers %.40s of the input's array; write data.y = %.40s:%.100s:numbers",
                 cfg->diffusion.target, cfg->diffusion.target, image->array);
        wrong(c, "diffusion", "target", why);
    }
}

/* What the outputs need of other sections. */
static void check_outputs(checker *c)
{
    const charl_config *cfg = c->cfg;
    charl__field_spec specs[2][CHARL__MAX_FIELDS];
    char why[CHARL__WHY];
    int n[2];
    const bool any = has_outputs(cfg->detail), has_auto = strcmp(cfg->train.loss, "auto") == 0;

    for (int t = 0; t < 2; t++) {
        n[t] = charl__field_specs(t == 0 ? cfg->data.x : cfg->data.y, specs[t], why, sizeof why);
        if (n[t] < 0) {
            wrong(c, "data", t == 0 ? "x" : "y", why);
        }
    }
    if (any && !has_auto) {
        wrong(c, "train", "loss", "each [output NAME] has a loss of its own; leave this one out");
    } else if (has_auto && (any || (n[1] > 0 && specs[1][0].name[0]))) {
        check_loss_keys(c);
    }
    if (n[0] > 0 && n[1] > 0 && !specs[0][0].name[0] != !specs[1][0].name[0]) {
        wrong(c, "data", specs[0][0].name[0] ? "y" : "x", "x and y have names, NAME:/ARRAY, or neither has");
    } else if (n[1] > 1 && !any) {
        wrong(c, "data", "y", "names several targets; a section [output NAME] for each says which layer learns it");
    }
    if (n[0] > 0 && specs[0][0].name[0]) {
        check_single(c);
    }
    if (n[0] > 0 && specs[0][0].name[0] && cfg->data.normalize.kind == CHARL__NORMALIZE_GIVEN) {
        wrong(c, "data", "normalize",
              "one mean and deviation do not fit several inputs: store mean and std as attributes of each array");
    }
    check_diffusion(c, specs[0], n[0], specs[1], n[1]);
}

static void check_split(checker *c)
{
    if (c->cfg->data.val_split > 0 && c->cfg->data.fold.n > 0) {
        wrong(c, "data", "fold", "takes rows for validation, and so does val_split: leave one of them out");
    }
}

static void check_metrics(checker *c)
{
    const charl_config *cfg = c->cfg;
    const charl__metric *m, *monitor = charl__config_monitor(cfg);
    const charl__monitor_mode better = monitor->higher ? CHARL__MONITOR_MAX : CHARL__MONITOR_MIN;
    char why[CHARL__WHY];

    for (int i = 0; (m = charl__metric_at(i)) != NULL; i++) {
        if (cfg->eval.metrics & (unsigned)CHARL__METRICS_AUTO << (i + 1)) {
            check_metric(c, "eval", "metrics", "", m);
        }
    }
    check_metric(c, "checkpoint", "monitor", "val/", monitor);
    if (cfg->checkpoint.mode != CHARL__MONITOR_AUTO && cfg->checkpoint.mode != better) {
        snprintf(why, sizeof why, "%s %s as it gets better: write mode = %s, or leave it out", cfg->checkpoint.monitor,
                 monitor->higher ? "grows" : "falls", monitor->higher ? "max" : "min");
        wrong(c, "checkpoint", "mode", why);
    }
    if (cfg->checkpoint.weights == CHARL__SAVED_TRAINED && !charl__config_init_from(cfg)) {
        wrong(c, "checkpoint", "weights",
              "= trained does not store frozen weights, so it needs [init] from, which is missing");
    }
    if (cfg->train.early_stopping_patience > 0 && cfg->eval.interval.unit == CHARL__INTERVAL_OFF) {
        wrong(c, "train", "early_stopping_patience", "needs evaluations: [eval] interval is 0");
    }
}

static void check_data(checker *c)
{
    const charl_config *cfg = c->cfg;

    if ((cfg->data.x[0] == '\0') != (cfg->data.y[0] == '\0')) {
        wrong(c, "data", cfg->data.x[0] == '\0' ? "x" : "y", "x and y are given together");
    }
    if (cfg->data.mix.count > 0 && cfg->data.path[0]) {
        wrong(c, "data", "mix", "path is given too: use one of them (`data.mix=` removes the mix)");
    }
    if (cfg->data.mix.count > 0 && cfg->data.x[0]) {
        wrong(c, "data", "x", "names an array of one file, not of a mix");
    }
    if (cfg->data.augment.magnitude > 0 && !(cfg->data.augment.randaugment > 0)) {
        wrong(c, "data", "augment", "magnitude applies to randaugment, which is missing");
    }
    if (cfg->data.masked > 0 && charl__config_model(cfg)->input == CHARL_MODEL_READS_TOKENS) {
        wrong(c, "data", "masked", "is for models in which every token sees all others: model.type = sequential");
    } else if (cfg->data.masked > 0 && cfg->data.documents == CHARL__DOCUMENTS_SEPARATE) {
        wrong(c, "data", "masked", "needs documents = cross");
    } else if (cfg->data.masked > 0 && cfg->eval.sample_prompt[0]) {
        wrong(c, "eval", "sample_prompt", "is continued by models of the next token: data.masked = 0");
    }
    if (cfg->data.sampling != CHARL_SAMPLING_ONCE && cfg->data.shuffle != CHARL_SHUFFLE_ROWS) {
        wrong(c, "data", "sampling", "draws samples in random order: shuffle must be yes");
    }
}

static void check_log(checker *c)
{
    const charl_config *cfg = c->cfg;

    if (cfg->log.histogram_interval > 0 && !(cfg->log.formats & CHARL_LOG_TENSORBOARD)) {
        wrong(c, "log", "histogram_interval", "needs tensorboard in formats");
    }
    if (cfg->log.images > 0 && !(cfg->log.formats & CHARL_LOG_TENSORBOARD)) {
        wrong(c, "log", "images", "needs tensorboard in formats");
    }
    if (cfg->log.histogram_interval > 0 && shards(cfg)) {
        wrong(c, "log", "histogram_interval",
              "needs whole gradients, which no rank has with [dist] shard = optimizer, gradients or parameters");
    }
}

/* Append a line for a key that is given but does not belong to the section's type. */
static charl_status note_unused(const charl_config *cfg, const charl__key *key, charl__text *notes)
{
    const charl__schema *schema = charl__config_schema();
    const charl__origin *origin = &cfg->detail->origins[key - schema->keys];
    const charl__type *chosen = key->owner ? charl__type_chosen(cfg, key->section, key->owner->key) : NULL;
    char line[32] = "";

    if (!key->owner || !origin->label) {
        return CHARL_OK;
    }
    for (int i = 0; i < schema->count; i++) {
        const charl__key *k = &schema->keys[i];

        if (strcmp(k->section, key->section) == 0 && strcmp(k->name, key->name) == 0 &&
            (k < key || charl__config_uses(cfg, k))) {
            return CHARL_OK; /* used, or already reported */
        }
    }
    if (origin->line > 0) {
        snprintf(line, sizeof line, ":%d", origin->line);
    }
    return charl__text_printf(notes, "%s%.200s%s: [%s] %s has no effect with %s = %s", notes->length > 0 ? "\n" : "",
                              origin->label, line, key->section, key->name, key->owner->key,
                              chosen ? chosen->row->name : "auto");
}

charl_status charl__config_check_monitor(const charl_config *cfg, charl__mistakes *mistakes)
{
    checker c = {.cfg = cfg, .mistakes = mistakes, .n_before = mistakes->count};

    check_monitor(&c, charl__config_monitor(cfg));
    return c.st;
}

charl_status charl__config_check_loss(const charl_config *cfg, charl__mistakes *mistakes, charl__text *notes)
{
    const charl__schema *schema = charl__config_schema();
    checker c = {.cfg = cfg, .mistakes = mistakes};

    check_metrics(&c);
    CHARL_TRY(c.st);
    for (int i = 0; i < schema->count; i++) {
        const charl__key *key = &schema->keys[i];

        if (key->owner && strcmp(key->owner->key, "loss") == 0) {
            CHARL_TRY(note_unused(cfg, key, notes));
        }
    }
    return CHARL_OK;
}

charl_status charl__config_check(charl_config *cfg, charl__mistakes *mistakes)
{
    const charl__schema *schema = charl__config_schema();
    checker c = {.cfg = cfg, .mistakes = mistakes, .n_before = mistakes->count};

    if (!cfg->data.path) {
        cfg->data.path = ""; /* there is a mix, or it is missing */
    }
    check_needed(&c);
    check_batch(&c);
    check_exact(&c);
    check_lora(&c);
    check_precision(&c);
    check_types(&c);
    check_optimizer(&c);
    check_model(&c);
    check_metrics(&c);
    check_data(&c);
    check_split(&c);
    check_outputs(&c);
    check_log(&c);
    CHARL_TRY(c.st);
    for (int i = 0; i < schema->count; i++) {
        charl__text note = {0};
        const char *kept;
        charl_status st = note_unused(cfg, &schema->keys[i], &note);

        if (st == CHARL_OK && note.length > 0) {
            st = charl__config_keep(&cfg->detail->notices, charl__text_string(&note), &kept);
        }
        charl__text_fini(&note);
        CHARL_TRY(st);
    }
    return CHARL_OK;
}
