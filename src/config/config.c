/* Loading a configuration: lines become items, items are expanded and checked against the key
 * table. Loading continues after a mistake. Names are expanded after the last item is known,
 * because an override may change run.name.
 */
#include "config/values.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "config/model/config_from.h"
#include "config/config_private.h"
#include "config/config_rows.h"
#include "config/text/ini.h"
#include "files/run_path.h"
#include "io/commit.h"

enum { MAX_SECTIONS = 1000, MAX_LAYER_KEYS = 64 };

typedef struct item {
    const charl__key *key; /* NULL: a key of section `layer` of layers */
    int layer;
    const char *name; /* as written */
    const char *value;
    charl__origin origin;
} item;

typedef struct loader {
    charl_config *cfg;
    charl__mistakes mistakes;
    charl__config_strings scratch; /* names and raw values of the items */
    item *items;
    int n_items;
    int n_from_model; /* the first of them: from the folder of model.from */
    const char *label;
    const char *directory;                 /* of the file; "" for the current one */
    bool is_in_rundir;                     /* the file is config.ini of a run directory */
    char section[2 * CHARL__INI_NAME + 4]; /* current section; "" when its keys are to be ignored */
    bool in_section;
    int layer; /* current section, an index of detail->sections, or -1 */
    const charl__schema *schema;
    int *first_lines;   /* [schema->count], of the item in the file; 0: none */
    int *section_lines; /* [schema->count], at the first key of each section */
    const char *name;   /* run.name, expanded */
} loader;

static charl_status add_mistake(loader *l, charl__origin origin, const char *section, const char *key,
                                const char *reason)
{
    return charl__mistake_add(&l->mistakes, origin, section, key, reason);
}

static charl_status add_notice(loader *l, charl__origin origin, const char *text)
{
    CHARL_SCOPED(charl__text_fini) charl__text t = {0};
    const char *kept;

    CHARL_TRY(charl__text_printf(&t, "%s: %s", charl__origin_text(origin), text));
    CHARL_TRY(charl__config_keep(&l->cfg->detail->notices, charl__text_string(&t), &kept));
    return CHARL_OK;
}

static charl_status add_item(loader *l, item it)
{
    CHARL_TRY(charl__grow(l->n_items, sizeof *l->items, &l->items));
    l->items[l->n_items++] = it;
    return CHARL_OK;
}

static bool is_layers(const char *section)
{
    return strncmp(section, "layer ", 6) == 0 || strncmp(section, "block ", 6) == 0 ||
           strncmp(section, "output ", 7) == 0;
}

static int find_layer(const charl__config_detail *d, const char *header)
{
    for (int i = 0; i < d->n_sections; i++) {
        if (strcmp(d->sections[i].header, header) == 0) {
            return i;
        }
    }
    return -1;
}

static charl_status add_layer(loader *l, const char *header, charl__origin origin)
{
    charl__config_detail *d = l->cfg->detail;
    const int known = find_layer(d, header);
    char why[CHARL__WHY];

    l->layer = -1;
    if (known >= 0) {
        snprintf(why, sizeof why, "section given twice (first on line %d)", d->sections[known].origin.line);
        CHARL_TRY(add_mistake(l, origin, header, NULL, why));
        return CHARL_OK;
    }
    if (d->n_sections == MAX_SECTIONS) {
        CHARL_TRY(add_mistake(l, origin, header, NULL, "more than 1000 sections; use repeat or a block"));
        return CHARL_OK;
    }
    CHARL_TRY(charl__grow(d->n_sections, sizeof *d->sections, &d->sections));
    d->sections[d->n_sections] = (charl__section){.origin = origin};
    CHARL_TRY(charl__strdup(header, &d->sections[d->n_sections].header));
    l->layer = d->n_sections++;
    return CHARL_OK;
}

static int first_key_of(const loader *l, const char *section)
{
    int i = 0;

    while (strcmp(l->schema->keys[i].section, section) != 0) {
        i++;
    }
    return i;
}

/* The section that may be meant: "trian" is [train], "layr a" is [layer a]. */
static void say_unknown(const char *section, char *why)
{
    static const char *const named[] = {"layer", "block", "output"};
    const char *near = charl__key_nearest_section(section), *rest = section + strcspn(section, " ");
    char word[16];
    int best = INT_MAX;

    if (*rest) {
        snprintf(word, sizeof word, "%.*s", (int)(rest - section), section);
        for (int i = 0; i < 3; i++) {
            near = charl_text_closer(word, named[i], &best) ? named[i] : near;
        }
    }
    snprintf(why, CHARL__WHY, "unknown section%s%s%.80s%s", near ? " (did you mean [" : "", near ? near : "",
             near && best < INT_MAX ? rest : "", near ? "]?)" : "");
}

static charl_status on_section(void *ctx, const char *section, int line)
{
    loader *l = ctx;
    const charl__origin origin = {l->label, line};
    char why[CHARL__WHY];
    int *first;

    l->section[0] = '\0';
    l->in_section = true;
    l->layer = -1;
    if (!section) {
        return CHARL_OK;
    }
    if (is_layers(section)) {
        CHARL_TRY(add_layer(l, section, origin));
        if (l->layer >= 0) {
            snprintf(l->section, sizeof l->section, "%s", section);
        }
        return CHARL_OK;
    }
    if (!charl__key_section_known(section)) {
        say_unknown(section, why);
        if (strcmp(section, "layer") == 0 || strcmp(section, "block") == 0 || strcmp(section, "output") == 0) {
            snprintf(why, sizeof why, "expected [%s NAME]", section);
        }
        CHARL_TRY(add_mistake(l, origin, section, NULL, why));
        return CHARL_OK;
    }
    first = &l->section_lines[first_key_of(l, section)];
    if (*first != 0) {
        snprintf(why, sizeof why, "section given twice (first on line %d)", *first);
        CHARL_TRY(add_mistake(l, origin, section, NULL, why));
    } else {
        *first = line;
    }
    snprintf(l->section, sizeof l->section, "%s", section);
    return CHARL_OK;
}

/* The key of `section` called `name`, or NULL after a mistake that names the nearest one. */
static charl_status look_up(loader *l, const char *section, const char *name, charl__origin origin,
                            const charl__key **out)
{
    bool alias = false;
    char why[CHARL__WHY];

    *out = charl__key_find(section, name, &alias);
    if (!*out) {
        const charl__key *other = charl__key_elsewhere(name);
        const char *near = charl__key_nearest(section, name);

        if (!other && !near) {
            other = charl__key_nearest_elsewhere(name);
        }
        if (other) {
            snprintf(why, sizeof why, "unknown key (did you mean %s in [%s]?)", other->name, other->section);
        } else {
            snprintf(why, sizeof why, "unknown key%s", charl__did_you_mean(near));
        }
        CHARL_TRY(add_mistake(l, origin, section, name, why));
    } else if (alias) {
        snprintf(why, sizeof why, "[%s] %s is read as %s", section, name, (*out)->name);
        CHARL_TRY(add_notice(l, origin, why));
    }
    return CHARL_OK;
}

static charl_status on_item(void *ctx, const char *name, const char *value, int line)
{
    loader *l = ctx;
    item it = {.layer = l->layer, .origin = {l->label, line}};
    char why[CHARL__WHY];

    if (!l->in_section) {
        CHARL_TRY(add_mistake(l, it.origin, NULL, NULL, "a key must stand below a [section]"));
        return CHARL_OK;
    }
    if (l->section[0] == '\0') {
        return CHARL_OK; /* the mistake of the section is enough */
    }
    if (l->layer >= 0 && name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] != '\0') {
        CHARL_TRY(add_mistake(l, it.origin, l->section, name, "keys have lower-case letters, digits and underscores"));
        return CHARL_OK;
    }
    if (l->layer < 0) {
        CHARL_TRY(look_up(l, l->section, name, it.origin, &it.key));
        if (!it.key) {
            return CHARL_OK;
        }
        int *first = &l->first_lines[it.key - l->schema->keys];

        if (*first != 0) {
            snprintf(why, sizeof why, "given twice (first on line %d)", *first);
            CHARL_TRY(add_mistake(l, it.origin, l->section, name, why));
            return CHARL_OK;
        }
        *first = line;
    }
    CHARL_TRY(charl__config_keep(&l->scratch, name, &it.name));
    CHARL_TRY(charl__config_keep(&l->scratch, value, &it.value));
    CHARL_TRY(add_item(l, it));
    return CHARL_OK;
}

static charl_status on_mistake(void *ctx, int line, const char *reason)
{
    loader *l = ctx;

    return add_mistake(l, (charl__origin){l->label, line}, NULL, NULL, reason);
}

static charl_status refuse_override(loader *l, charl__origin origin, const char *text, char *name)
{
    char why[CHARL__WHY], key[96];
    bool is_near;

    name[strcspn(name, "=")] = '\0';
    is_near = charl_config_nearest_key(name, true, key, sizeof key);
    snprintf(why, sizeof why, "\"%.200s\" is not SECTION.KEY=VALUE%s", text, charl__did_you_mean(is_near ? key : NULL));
    return add_mistake(l, origin, NULL, NULL, why);
}

/* Find the key of an override `section`.`name`; it->key NULL and it->layer negative after a
 * mistake. */
static charl_status look_up_override(loader *l, char *section, const char *name, item *it)
{
    char why[CHARL__WHY];

    if (strncmp(section, "layer.", 6) == 0 || strncmp(section, "block.", 6) == 0 ||
        strncmp(section, "output.", 7) == 0) {
        *strchr(section, '.') = ' ';
    }
    if (is_layers(section)) {
        it->layer = find_layer(l->cfg->detail, section);
        if (it->layer < 0) {
            snprintf(why, sizeof why, "the file has no such %.*s", (int)strcspn(section, " "), section);
            CHARL_TRY(add_mistake(l, it->origin, section, NULL, why));
        }
    } else if (!charl__key_section_known(section)) {
        say_unknown(section, why);
        CHARL_TRY(add_mistake(l, it->origin, section, NULL, why));
    } else {
        CHARL_TRY(look_up(l, section, name, it->origin, &it->key));
    }
    return CHARL_OK;
}

/* "section.key=value" -> an item. The section ends at the last dot before '=': layer names may contain
 * dots. */
static charl_status add_override(loader *l, const charl_config_override *o)
{
    item it = {.layer = -1};
    CHARL_SCOPED_FREE char *copy = NULL;
    char *equals;
    char *dot;

    CHARL_TRY(charl__config_keep(&l->cfg->detail->strings, o->origin ? o->origin : "command line", &it.origin.label));
    CHARL_TRY(charl__strdup(o->text ? o->text : "", &copy));
    equals = strchr(copy, '=');
    if (equals) {
        *equals = '\0';
    }
    dot = strrchr(copy, '.');
    if (!equals || !dot || dot == copy || dot[1] == '\0') {
        CHARL_TRY(refuse_override(l, it.origin, o->text, copy));
        return CHARL_OK;
    }
    *dot = '\0';
    CHARL_TRY(look_up_override(l, copy, dot + 1, &it));
    if (it.key || it.layer >= 0) {
        CHARL_TRY(charl__config_keep(&l->scratch, dot + 1, &it.name));
        CHARL_TRY(charl__config_keep(&l->scratch, equals + 1, &it.value));
        CHARL_TRY(add_item(l, it));
    }
    return CHARL_OK;
}

static void join_lines(char *s, char with)
{
    for (; *s != '\0'; s++) {
        if (*s == '\n') {
            *s = with;
        }
    }
}

/* The run directory of a config.ini in a run directory is its own directory, wherever that was copied or moved. */
static charl_status own_directory(loader *l, const char *value, charl__origin origin)
{
    const char *here = l->directory[0] ? l->directory : ".";
    struct stat named, own;
    char text[CHARL__WHY];

    if (origin.line > 0 && (stat(value, &named) != 0 || stat(here, &own) != 0 || named.st_dev != own.st_dev ||
                            named.st_ino != own.st_ino)) {
        snprintf(text, sizeof text, "[run] output_dir: %.150s is read as %.150s, the run directory of this file", value,
                 here);
        CHARL_TRY(add_notice(l, origin, text));
    }
    return CHARL_OK;
}

/* Set one row of the table; for an invalid value the reason is in why. */
static charl_status set(loader *l, const charl__key *key, const char *value, charl__origin origin, char *why)
{
    const char *directory = origin.label && origin.line == 0 ? "" : l->directory;
    CHARL_SCOPED_FREE char *path = NULL;
    char *file = NULL;

    why[0] = '\0';
    if (charl__value_was_default(key, value)) {
        return CHARL_OK;
    }
    if (key->type == CHARL__KEY_MIX) {
        CHARL_TRY(charl__config_mix_set(value, directory, &l->cfg->detail->strings,
                                        (charl__mix *)(void *)((char *)l->cfg + key->offset), why));
    } else {
        if (key->type == CHARL__KEY_PATH && charl__key_choice_index(key, value) < 0) {
            if (strncmp(value, "~/", 2) == 0 && !getenv("HOME")) {
                snprintf(why, CHARL__WHY, "%.100s: HOME is not set, so ~ is no folder", value);
                return CHARL_OK;
            }
            CHARL_TRY(charl__config_path(directory, value, &path));
        }
        if (path && key->effect == CHARL__KEY_START) { /* a run's links change their targets as it trains */
            CHARL_TRY(charl__run_resolve(path, &file));
            charl_free(path);
            path = file;
        }
        if (l->is_in_rundir && key->offset == offsetof(charl_config, run.output_dir) && directory == l->directory) {
            CHARL_TRY(own_directory(l, path, origin));
            charl_free(path);
            path = NULL;
            CHARL_TRY(charl__config_path(directory, ".", &path));
        }
        CHARL_TRY(charl__config_value_set(key, path ? path : value, &l->cfg->detail->strings,
                                          (char *)l->cfg + key->offset, why));
    }
    l->cfg->detail->origins[key - l->schema->keys] = origin;
    return CHARL_OK;
}

/* A key's text: expanded, then set for every type of the section that has a key of that name. If it is invalid, the reason comes from the selected
 * type, else from the first. */
static charl_status apply(loader *l, const charl__key *key, const char *raw, charl__origin origin)
{
    const bool list = key->type == CHARL__KEY_INTS || key->type == CHARL__KEY_FLOATS || key->type == CHARL__KEY_SET ||
                      key->type == CHARL__KEY_NORMALIZE || key->type == CHARL__KEY_AUGMENT ||
                      key->type == CHARL__KEY_MIX;
    CHARL_SCOPED_FREE char *value = NULL;
    char why[CHARL__WHY], reason[CHARL__WHY];
    bool chosen = false;

    CHARL_TRY(charl__config_expand(raw, l->name, &value, reason));
    if (reason[0] == '\0') {
        if (!list) {
            join_lines(value, ' ');
        }
        for (int i = (int)(key - l->schema->keys); i < l->schema->count; i++) {
            const charl__key *k = &l->schema->keys[i];

            if (strcmp(k->section, key->section) == 0 && strcmp(k->name, key->name) == 0) {
                CHARL_TRY(set(l, k, value, origin, why));
                if (!chosen && (k == key || charl__config_uses(l->cfg, k))) {
                    snprintf(reason, sizeof reason, "%s", why);
                    chosen = charl__config_uses(l->cfg, k);
                }
            }
        }
    }
    if (reason[0] != '\0') {
        CHARL_TRY(add_mistake(l, origin, key->section, key->name, reason));
    }
    return CHARL_OK;
}

static charl__layer_key *find_layer_key(const charl__section *layer, const char *name)
{
    for (int i = 0; i < layer->n_keys; i++) {
        if (strcmp(layer->keys[i].key, name) == 0) {
            return &layer->keys[i];
        }
    }
    return NULL;
}

/* A new key of a layer; NULL after a mistake. */
static charl_status add_layer_key(loader *l, charl__section *layer, const item *it, charl__layer_key **out)
{
    charl__layer_key *k;

    *out = NULL;
    if (layer->n_keys == MAX_LAYER_KEYS) {
        CHARL_TRY(add_mistake(l, it->origin, layer->header, it->name, "more than 64 keys"));
        return CHARL_OK;
    }
    CHARL_TRY(charl__realloc(sizeof *layer->keys * (size_t)(layer->n_keys + 1), &layer->keys));
    k = &layer->keys[layer->n_keys];
    *k = (charl__layer_key){0};
    CHARL_TRY(charl__strdup(it->name, &k->key));
    layer->n_keys++;
    *out = k;
    return CHARL_OK;
}

/* Set a layer's key. The command line may replace, the file may not. */
static charl_status apply_layer(loader *l, const item *it)
{
    charl__section *layer = &l->cfg->detail->sections[it->layer];
    charl__layer_key *k = find_layer_key(layer, it->name);
    char why[CHARL__WHY];
    CHARL_SCOPED_FREE char *value = NULL;

    CHARL_TRY(charl__config_expand(it->value, l->name, &value, why));
    if (why[0] == '\0' && k && it->origin.line > 0) {
        snprintf(why, sizeof why, "given twice (first on line %d)", k->origin.line);
    }
    if (why[0] != '\0') {
        CHARL_TRY(add_mistake(l, it->origin, layer->header, it->name, why));
        return CHARL_OK;
    }
    if (!k) {
        CHARL_TRY(add_layer_key(l, layer, it, &k));
    }
    if (k) {
        join_lines(value, ' ');
        charl_free(k->value);
        k->value = value;
        k->origin = it->origin;
        value = NULL;
    }
    return CHARL_OK;
}

/* ${name} is the value of run.name, so that is expanded first; "" means the file's name without its
 * extension. */
static charl_status resolve_name(loader *l)
{
    bool alias;
    const charl__key *key = charl__key_find("run", "name", &alias);
    char stem[256];
    item last = {.value = "", .origin = {NULL, 0}};
    char *dot;

    snprintf(stem, sizeof stem, "%s", charl__base_name(l->label));
    dot = strrchr(stem, '.');
    if (dot && dot != stem) {
        *dot = '\0';
    }
    for (int i = 0; i < l->n_items; i++) {
        if (l->items[i].key == key) {
            last = l->items[i];
        }
    }
    l->name = NULL;
    CHARL_TRY(apply(l, key, last.value, last.origin));
    if (!l->cfg->run.name || l->cfg->run.name[0] == '\0') {
        CHARL_TRY(charl__config_keep(&l->cfg->detail->strings, stem, &l->cfg->run.name));
    }
    if (strchr(l->cfg->run.name, '/') || strcmp(l->cfg->run.name, "..") == 0) {
        CHARL_TRY(add_mistake(l, last.origin.label ? last.origin : (charl__origin){l->label, 0}, "run", "name",
                              "a name has no / and is not .."));
    }
    l->name = l->cfg->run.name;
    return CHARL_OK;
}

/* Point to the settings of the selected types. */
static void resolve_settings(charl_config *cfg)
{
    const charl__chooser *c;

    for (int i = 0; (c = charl__chooser_at(i)) != NULL; i++) {
        const charl__type *t = charl__type_chosen(cfg, c->section, c->key);
        const void *settings = t && t->row->settings_size > 0 ? (const char *)cfg + t->offset : NULL;

        memcpy((char *)cfg + c->settings, &settings, sizeof settings);
    }
}

charl_status charl__config_choose_loss(const charl_config *cfg, const char *loss, charl_config **out, char **notes)
{
    CHARL_SCOPED_FREE charl_config *chosen = NULL;
    CHARL_SCOPED(charl__mistakes_fini) charl__mistakes mistakes = {0};
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};

    *out = NULL;
    *notes = NULL;
    CHARL_TRY(charl__alloc(charl__config_schema()->bytes, &chosen));
    memcpy(chosen, cfg, charl__config_schema()->bytes);
    chosen->train.loss = loss;
    resolve_settings(chosen);
    CHARL_TRY(charl__config_check_loss(chosen, &mistakes, &text));
    CHARL_TRY(charl__mistakes_report(&mistakes));
    CHARL_TRY(charl__strdup(charl__text_string(&text), notes));
    *out = chosen;
    chosen = NULL;
    return CHARL_OK;
}

/* The number of a value in tokens; NULL: it is in another unit. */
static int64_t *tokens_in(const charl__key *key, charl_config *cfg)
{
    void *field = (char *)cfg + key->offset;
    charl__interval *interval = field;

    if (key->type == CHARL__KEY_INTERVAL) {
        return interval->unit == CHARL__INTERVAL_TOKENS ? &interval->count : NULL;
    }
    return key->type == CHARL__KEY_STEPS && *(int64_t *)field >= CHARL__TOKENS ? field : NULL;
}

bool charl__config_counts_tokens(charl_config *cfg)
{
    const charl__schema *schema = charl__config_schema();

    for (int i = 0; i < schema->count; i++) {
        if (charl__config_uses(cfg, &schema->keys[i]) && tokens_in(&schema->keys[i], cfg)) {
            return true;
        }
    }
    return false;
}

charl_status charl__config_in_steps(const charl_config *cfg, const charl_dataset_info *data, charl_config **out)
{
    const charl__schema *schema = charl__config_schema();
    const int64_t window = data->kind == CHARL_DATASET_TOKENS ? data->x_shape.dim[0] : 0;
    CHARL_SCOPED_FREE charl_config *c = NULL;
    int found = 0;

    *out = NULL;
    CHARL_TRY(charl__alloc(schema->bytes, &c));
    memcpy(c, cfg, schema->bytes);
    resolve_settings(c);
    for (int i = 0; i < schema->count; i++) {
        const charl__key *key = &schema->keys[i];
        int64_t *n = charl__config_uses(cfg, key) ? tokens_in(key, c) : NULL;

        if (!n) {
            continue;
        }
        CHARL_REQUIRE(window > 0, CHARL_ERR_CONFIG,
                      "[%s] %s is in tokens, which %s does not have; HINT give it in steps", key->section, key->name,
                      data->path);
        *n = (*n % CHARL__TOKENS - 1) / (window * cfg->train.batch_size) + 1;
        CHARL_REQUIRE(*n <= CHARL__LONGEST, CHARL_ERR_CONFIG, "[%s] %s: so many tokens are more than 1e12 steps",
                      key->section, key->name);
        if (key->type == CHARL__KEY_INTERVAL) {
            ((charl__interval *)(void *)((char *)c + key->offset))->unit = CHARL__INTERVAL_STEPS;
        }
        found++;
    }
    *out = found > 0 ? c : NULL;
    c = found > 0 ? NULL : c;
    return CHARL_OK;
}

static bool chooses(const charl__key *key)
{
    const charl__chooser *c;

    for (int i = 0; (c = charl__chooser_at(i)) != NULL; i++) {
        if (strcmp(c->section, key->section) == 0 && strcmp(c->key, key->name) == 0) {
            return true;
        }
    }
    return false;
}

/* A setting of config.json, treated as if it preceded the file: the file overrides it. */
static charl_status on_setting(void *ctx, const char *name, const char *value, const char *label)
{
    loader *l = ctx;
    bool alias;
    item it = {.layer = -1, .key = charl__key_find("model", name, &alias)};

    CHARL_REQUIRE(it.key, CHARL_ERR_CONFIG, "%s: the model has no key %s", label, name);
    for (int i = l->n_from_model; i < l->n_items && strcmp(name, "type") == 0; i++) {
        CHARL_REQUIRE(l->items[i].key != it.key || strcmp(l->items[i].value, value) == 0, CHARL_ERR_CONFIG,
                      "%s is of type = %s, not %s", label, value, l->items[i].value);
    }
    CHARL_TRY(charl__config_keep(&l->cfg->detail->strings, label, &it.origin.label));
    CHARL_TRY(charl__config_keep(&l->scratch, name, &it.name));
    CHARL_TRY(charl__config_keep(&l->scratch, value, &it.value));
    CHARL_TRY(add_item(l, it));
    memmove(l->items + 1 + l->n_from_model, l->items + l->n_from_model,
            (size_t)(l->n_items - 1 - l->n_from_model) * sizeof *l->items);
    l->items[l->n_from_model++] = it;
    return CHARL_OK;
}

/* The settings named by model.from precede all others. */
static charl_status read_model_from(loader *l)
{
    charl_status st = CHARL_OK;
    bool alias;
    const charl__key *key = charl__key_find("model", "from", &alias);
    charl__origin origin = {NULL, 0};
    const char *path = "none";
    char text[CHARL__WHY];

    for (int i = 0; i < l->n_items; i++) {
        if (l->items[i].key == key) {
            CHARL_TRY(apply(l, key, l->items[i].value, l->items[i].origin));
            origin = l->items[i].origin;
        }
    }
    path = l->cfg->model.from;
    if (strcmp(path, "none") == 0) {
        return CHARL_OK;
    }
    st = charl__config_read_model(path, on_setting, l);
    if (st == CHARL_ERR_CONFIG) {
        snprintf(text, sizeof text, "%s", charl_error_message());
        st = add_mistake(l, origin, "model", "from", text);
    }
    return st;
}

static charl_status apply_all(loader *l)
{
    const charl__origin by_default = {NULL, 0};
    bool alias;
    const charl__key *name = charl__key_find("run", "name", &alias);

    CHARL_TRY(resolve_name(l));
    for (int i = 0; i < l->schema->count; i++) {
        const charl__key *key = &l->schema->keys[i];

        if (key != name && key->fallback) {
            CHARL_TRY(apply(l, key, key->fallback, by_default));
        }
    }
    for (int i = 0; i < l->schema->n_types; i++) {
        const charl__type *t = &l->schema->types[i];

        if (t->row->settings_size > 0) {
            memcpy((char *)l->cfg + t->offset, t->row->defaults, t->row->settings_size);
        }
    }
    CHARL_TRY(read_model_from(l));
    for (int types = 1; types >= 0; types--) { /* types first: they determine which reasons count */
        for (int i = 0; i < l->n_items; i++) {
            const charl__key *key = l->items[i].key;

            if (key && key != name && chooses(key) == (types != 0)) {
                CHARL_TRY(apply(l, key, l->items[i].value, l->items[i].origin));
            } else if (!key && !types) {
                CHARL_TRY(apply_layer(l, &l->items[i]));
            }
        }
    }
    resolve_settings(l->cfg);
    CHARL_TRY(charl__config_check(l->cfg, &l->mistakes));
    if (!charl__mistakes_in(&l->mistakes, l->mistakes.count, "layer")) {
        CHARL_TRY(charl__config_expand_layers(l->cfg, &l->mistakes));
    }
    return CHARL_OK;
}

static charl_status read_source(loader *l, const char *text, size_t length)
{
    const charl__ini_events events = {.ctx = l, .section = on_section, .item = on_item, .mistake = on_mistake};

    return charl__error_in(charl__ini_parse(text, length, &events), CHARL_ERR_CONFIG, "%s: ", l->label);
}

static charl_status prepare(loader *l, const char *label, const char *text, size_t length)
{
    const char *slash = strrchr(label, '/');
    charl__config_detail *d;
    CHARL_SCOPED_FREE char *directory = NULL, *id = NULL;

    l->schema = charl__config_schema();
    CHARL_REQUIRE(!l->schema->problem[0], CHARL_ERR_INVALID, "%s", l->schema->problem);
    CHARL_TRY(charl__alloc(l->schema->bytes, &l->cfg));
    CHARL_TRY(charl__alloc(sizeof *d, &l->cfg->detail));
    d = l->cfg->detail;
    CHARL_TRY(charl__alloc_array(l->schema->count, sizeof *d->origins, &d->origins));
    CHARL_TRY(charl__alloc_array(l->schema->count, sizeof(int), &l->first_lines));
    CHARL_TRY(charl__alloc_array(l->schema->count, sizeof(int), &l->section_lines));
    CHARL_TRY(charl__alloc(length + 1, &d->source));
    memcpy(d->source, text, length);
    d->source_length = length;
    CHARL_TRY(charl__config_keep(&d->strings, label, &l->label));
    CHARL_TRY(charl__strdup(label, &directory));
    directory[slash ? (slash == label ? 1 : slash - label) : 0] = '\0';
    CHARL_TRY(charl__config_keep(&d->strings, directory, &l->directory));
    CHARL_TRY(charl__config_path(directory, "run_id", &id));
    l->is_in_rundir = strcmp(charl__base_name(label), "config.ini") == 0 && access(id, F_OK) == 0;
    return CHARL_OK;
}

charl_status charl_config_parse(const char *label, const char *text, size_t length,
                                const charl_config_override *overrides, int n_overrides, charl_config **out)
{
    CHARL_GIVEN(label, text, overrides || n_overrides == 0, out);
    charl_status st = CHARL_OK;
    loader l = {.layer = -1};

    *out = NULL;
    CHARL_REQUIRE_CLEANUP(length <= CHARL__CONFIG_SOURCE, CHARL_ERR_CONFIG,
                          "%s: larger than 1 MiB: not a configuration", label);
    CHARL_TRY_CLEANUP(prepare(&l, label, text, length));
    CHARL_TRY_CLEANUP(read_source(&l, l.cfg->detail->source, length));
    for (int i = 0; i < n_overrides; i++) {
        CHARL_TRY_CLEANUP(add_override(&l, &overrides[i]));
    }
    CHARL_TRY_CLEANUP(apply_all(&l));
    CHARL_TRY_CLEANUP(charl__mistakes_report(&l.mistakes));
    CHARL_TRY_CLEANUP(charl__config_keep_words(l.cfg));
    *out = l.cfg;
    l.cfg = NULL;
cleanup:
    charl_config_destroy(l.cfg);
    charl__mistakes_fini(&l.mistakes);
    charl__config_strings_fini(&l.scratch);
    charl_free(l.items);
    charl_free(l.first_lines);
    charl_free(l.section_lines);
    return st;
}
