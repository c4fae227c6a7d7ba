/* Converts sections to layers: expands blocks and repetitions, and resolves the inputs of each layer.
 *
 *      [block pair]              [layer stage]         stage.0.conv  reads what stage reads
 *      channels =                type = pair           stage.0.out   reads stage.0.conv, and the same again
 *      [block pair.conv]         channels = 16    ->   stage.1.conv  reads stage.0.out
 *      [block pair.out]          repeat = 2            stage.1.out   reads stage.1.conv, and stage.0.out
 *      input = conv, input
 *
 * A scope is the list of layers of the model or of one use of a block. Names are paths: a layer of a block is USE.NAME, and parameters
 * are named after it. Inside a scope a layer is known by its own name; the first input of the scope is `input`, the others are input2, ...
 */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/registry/key.h"
#include "config/config_private.h"
#include "config/config_rows.h"
#include "config/layers.h"
#include "config/text/ini.h"
#include "nn/layer.h"

enum { MAX_LAYERS = 10000, MAX_DEPTH = 8, MAX_REPEAT = 1000 };

/* A name and its meaning. */
typedef struct pair {
    char *name, *value;
} pair;

typedef struct pairs {
    pair *items;
    int count;
} pairs;

typedef struct scope {
    const struct scope *outer; /* NULL: the model */
    const char *block;         /* name of the block; NULL: the model */
    const char *prefix;        /* prefix of names: "" or "stage.0." */
    char *const *inputs;
    int n_inputs;
    unsigned *read;          /* bit i: a layer reads inputs[i] */
    const pairs *parameters; /* NULL: the model has none */
    int depth;
} scope;

typedef struct expander {
    charl__config_detail *d;
    charl__mistakes *mistakes;
    pairs
        outputs; /* path of a layer or a use of a block: the layer that provides its output; first the model's named inputs */
    int n_inputs; /* of these */
} expander;

static void pairs_fini(pairs *p)
{
    for (int i = 0; i < p->count; i++) {
        charl_free(p->items[i].name);
        charl_free(p->items[i].value);
    }
    charl_free(p->items);
    *p = (pairs){0};
}

static charl_status pairs_add(pairs *p, const char *name, const char *value)
{
    CHARL_TRY(charl__grow(p->count, sizeof *p->items, &p->items));
    p->items[p->count] = (pair){NULL, NULL};
    p->count++;
    CHARL_TRY(charl__strdup(name, &p->items[p->count - 1].name));
    CHARL_TRY(charl__strdup(value, &p->items[p->count - 1].value));
    return CHARL_OK;
}

static const char *pairs_find(const pairs *p, const char *name, size_t length)
{
    for (int i = 0; i < p->count; i++) {
        if (strlen(p->items[i].name) == length && strncmp(p->items[i].name, name, length) == 0) {
            return p->items[i].value;
        }
    }
    return NULL;
}

static charl_status refuse(expander *e, const charl__section *s, const charl__layer_key *k, const char *why)
{
    return charl__mistake_add(e->mistakes, k ? k->origin : s->origin, s->header, k ? k->key : NULL, why);
}

/* The name of a section's layer in its scope: of [layer NAME] the name, of [block BLOCK.NAME] what follows the block. NULL if it is in
 * another scope. */
static const char *local_name(const charl__section *s, const char *block)
{
    const size_t n = block ? strlen(block) : 0;

    if (!block) {
        return strncmp(s->header, "layer ", 6) == 0 ? s->header + 6 : NULL;
    }
    return strncmp(s->header, "block ", 6) == 0 && strncmp(s->header + 6, block, n) == 0 && s->header[6 + n] == '.'
               ? s->header + 7 + n
               : NULL;
}

static const charl__section *find_section(const charl__config_detail *d, const char *block, const char *name)
{
    for (int i = 0; i < d->n_sections; i++) {
        const char *local = local_name(&d->sections[i], block);

        if (local && strcmp(local, name) == 0) {
            return &d->sections[i];
        }
    }
    return NULL;
}

/* The section [block NAME] with its parameters, if there is one. */
static const charl__section *find_head(const charl__config_detail *d, const char *block)
{
    for (int i = 0; i < d->n_sections; i++) {
        if (strncmp(d->sections[i].header, "block ", 6) == 0 && strcmp(d->sections[i].header + 6, block) == 0) {
            return &d->sections[i];
        }
    }
    return NULL;
}

static bool has_block(const charl__config_detail *d, const char *name)
{
    for (int i = 0; i < d->n_sections; i++) {
        if (local_name(&d->sections[i], name)) {
            return true;
        }
    }
    return find_head(d, name) != NULL;
}

static const charl__layer_key *find_key(const charl__section *s, const char *name)
{
    for (int i = 0; s && i < s->n_keys; i++) {
        if (strcmp(s->keys[i].key, name) == 0) {
            return &s->keys[i];
        }
    }
    return NULL;
}

/* The end of an integer at s, or NULL. */
static const char *integer(const char *s, int64_t *out)
{
    char *end;

    *out = strtoll(s, &end, 10);
    return end != s && *out > -1000000000000 && *out < 1000000000000 ? end + strspn(end, " ") : NULL;
}

/* "2 * 64" -> "128": products and quotients of integers, from left to right. Other texts do not change. False: a quotient is not an integer. */
static bool evaluate(char *text, size_t size)
{
    int64_t value, next;
    const char *p = integer(text + strspn(text, " "), &value);

    if (!p || (*p != '*' && *p != '/')) {
        return true;
    }
    while (*p == '*' || *p == '/') {
        const bool divides = *p == '/';

        p = integer(p + 1 + strspn(p + 1, " "), &next);
        if (!p || (!divides && (value > INT32_MAX || next > INT32_MAX))) {
            return true;
        }
        if (divides && (next == 0 || value % next != 0)) {
            return false;
        }
        value = divides ? value / next : value * next;
    }
    if (*p == '\0') {
        snprintf(text, size, "%lld", (long long)value);
    }
    return true;
}

/* Append `text` with the parameters $NAME replaced; the reason of a mistake is in why. */
static charl_status substitute(const pairs *parameters, const char *text, charl__text *out, char *why)
{
    for (const char *p = text; *p != '\0';) {
        size_t n = strcspn(p, "$");

        if (n == 0) {
            const size_t length = strspn(p + 1, "abcdefghijklmnopqrstuvwxyz0123456789_");
            const char *value = length ? pairs_find(parameters, p + 1, length) : "$";

            if (!value) {
                snprintf(why, CHARL__WHY, "$%.*s: the block has no such parameter; [block NAME] lists them",
                         (int)(length < 60 ? length : 60), p + 1);
                return CHARL_OK;
            }
            CHARL_TRY(charl__text_printf(out, "%s", value));
            p += 1 + length;
        } else {
            CHARL_TRY(charl__text_append(out, p, n));
            p += n;
        }
    }
    return CHARL_OK;
}

/* The value of a key in a scope. The elements of a list are computed separately. *out is owned by the caller; NULL after a mistake. */
static charl_status value_of(expander *e, const scope *sc, const charl__section *s, const charl__layer_key *k,
                             char **out)
{
    CHARL_SCOPED(charl__text_fini) charl__text text = {0}, list = {0};
    char why[CHARL__WHY] = "", part[256];
    const char *cursor;

    *out = NULL;
    if (!sc->parameters || !strchr(k->value, '$')) {
        return charl__strdup(k->value, out);
    }
    CHARL_TRY(substitute(sc->parameters, k->value, &text, why));
    cursor = charl__text_string(&text);
    while (why[0] == '\0' && cursor) {
        const size_t n = strcspn(cursor, ",");

        snprintf(part, sizeof part, "%.*s", (int)(n < sizeof part ? n : sizeof part - 1), cursor);
        if (!evaluate(part, sizeof part)) {
            snprintf(why, sizeof why, "%.100s is not a whole number", part);
        }
        CHARL_TRY(charl__text_printf(&list, "%s%s", part, cursor[n] ? "," : ""));
        cursor = cursor[n] ? cursor + n + 1 : NULL;
    }
    if (why[0] != '\0') {
        CHARL_TRY(refuse(e, s, k, why));
    } else {
        CHARL_TRY(charl__strdup(charl__text_string(&list), out));
    }
    return CHARL_OK;
}

/* "input" is 0, "input2" is 1; other names -1. */
static int input_index(const char *name)
{
    char *end;
    long n;

    if (strncmp(name, "input", 5) != 0) {
        return -1;
    }
    n = name[5] ? strtol(name + 5, &end, 10) : 1;
    return !name[5] || (isdigit((unsigned char)name[5]) && *end == '\0' && n >= 2 && n < INT_MAX) ? (int)n - 1 : -1;
}

/* Why section s cannot read a layer called `word`. */
static void explain(const expander *e, const scope *sc, const charl__section *s, const char *word, char *why)
{
    const char *near = NULL;
    int best = INT_MAX;

    if (input_index(word) >= 0 && sc->block) {
        snprintf(why, CHARL__WHY, "%.60s: %s%s reads %d layer%s where it is used as %.*s", word, "block ", sc->block,
                 sc->n_inputs, sc->n_inputs == 1 ? "" : "s", (int)strlen(sc->prefix) - 1, sc->prefix);
        return;
    }
    if (input_index(word) >= 0) {
        snprintf(why, CHARL__WHY, "%.60s: %s", word,
                 e->n_inputs > 0 ? "the model's inputs have the names that data.x gives them"
                                 : "the model reads one value, which is named input");
        return;
    }
    if (find_section(e->d, sc->block, word) == s) {
        snprintf(why, CHARL__WHY, "%.60s: a layer cannot read itself", word);
        return;
    }
    if (find_section(e->d, sc->block, word)) {
        snprintf(why, CHARL__WHY,
                 "layer %.60s comes later, on line %d; a layer reads layers above it, so that there are no cycles",
                 word, find_section(e->d, sc->block, word)->origin.line);
        return;
    }
    for (int i = 0; i < e->n_inputs && !sc->block; i++) {
        near = charl_text_closer(word, e->outputs.items[i].name, &best) ? e->outputs.items[i].name : near;
    }
    for (int i = 0; i < e->d->n_sections && &e->d->sections[i] != s; i++) {
        const char *local = local_name(&e->d->sections[i], sc->block);

        if (local && charl_text_closer(word, local, &best)) {
            near = local;
        }
    }
    if (strchr(word, ' ')) {
        snprintf(why, CHARL__WHY, "there is no layer \"%.60s\"; names are separated by commas", word);
        return;
    }
    snprintf(why, CHARL__WHY, "there is no layer %.60s%s%s%s", word, sc->block ? " in block " : "",
             sc->block ? sc->block : "", charl__did_you_mean(near));
}

/* The layer that a word of the key `input` names; *out is owned by the caller, NULL after a mistake. */
static charl_status resolve(expander *e, const scope *sc, const charl__section *s, const charl__layer_key *k,
                            const char *word, char **out)
{
    const int input = input_index(word);
    CHARL_SCOPED(charl__text_fini) charl__text path = {0};
    const char *found = NULL;
    char why[CHARL__WHY];

    *out = NULL;
    if (input >= 0 && input < sc->n_inputs) {
        *sc->read |= 1U << input;
        found = sc->inputs[input];
    } else if (input < 0) {
        CHARL_TRY(charl__text_printf(&path, "%s%s", sc->prefix, word));
        found = pairs_find(&e->outputs, charl__text_string(&path), path.length);
    }
    if (found) {
        CHARL_TRY(charl__strdup(found, out));
    } else {
        explain(e, sc, s, word, why);
        CHARL_TRY(refuse(e, s, k, why));
    }
    return CHARL_OK;
}

typedef struct inputs {
    char *names[CHARL_LAYER_MAX_INPUTS];
    int count;
} inputs;

static void inputs_fini(inputs *in)
{
    for (int i = 0; i < in->count; i++) {
        charl_free(in->names[i]);
    }
    *in = (inputs){0};
}

/* The inputs of section s: its key `input`, or the layer before it, or for the first layer of a scope the scope's input. in->count is 0 after a
 * mistake. */
static charl_status read_inputs(expander *e, const scope *sc, const charl__section *s, const char *before, inputs *in)
{
    const charl__layer_key *k = find_key(s, "input");
    const char *cursor = k ? k->value : NULL;
    char word[256];

    *in = (inputs){0};
    if (!k) {
        *sc->read |= before ? 0U : 1U;
        CHARL_TRY(charl__strdup(before ? before : sc->inputs[0], &in->names[0]));
        in->count = 1;
        return CHARL_OK;
    }
    while (charl__text_element(&cursor, word, sizeof word)) {
        if (in->count == CHARL_LAYER_MAX_INPUTS) {
            inputs_fini(in);
            return refuse(e, s, k, "a layer reads at most 8 others");
        }
        CHARL_TRY(resolve(e, sc, s, k, word, &in->names[in->count]));
        if (!in->names[in->count]) {
            inputs_fini(in);
            return CHARL_OK;
        }
        in->count++;
    }
    return in->count > 0 ? CHARL_OK : refuse(e, s, k, "names no layer; leave it out to read the layer above");
}

/* A key that names a layer, such as tie, names one of the scope if it exists there. */
static charl_status qualify(const expander *e, const scope *sc, const charl_layer_type *type, const char *key,
                            char **value)
{
    CHARL_SCOPED(charl__text_fini) charl__text path = {0};

    for (int i = 0; type && i < type->row.n_keys; i++) {
        if (type->row.keys[i].kind == CHARL_KEY_LAYER && strcmp(type->row.keys[i].name, key) == 0) {
            CHARL_TRY(charl__text_printf(&path, "%s%s", sc->prefix, *value));
            if (pairs_find(&e->outputs, charl__text_string(&path), path.length)) {
                charl_free(*value);
                *value = charl__text_steal(&path);
            }
            break;
        }
    }
    return CHARL_OK;
}

static bool is_ours(const char *key)
{
    return strcmp(key, "type") == 0 || strcmp(key, "input") == 0 || strcmp(key, "repeat") == 0;
}

/* Append the layer of a section. */
static charl_status add_layer(expander *e, const scope *sc, const charl__section *s, const char *type, const char *path,
                              const inputs *in)
{
    charl__config_detail *d = e->d;
    charl__config_layer *l;

    if (d->n_layers == MAX_LAYERS) {
        return e->mistakes->count ? CHARL_OK : refuse(e, s, NULL, "the blocks make more than 10000 layers");
    }
    CHARL_TRY(charl__grow(d->n_layers, sizeof *d->layers, &d->layers));
    l = &d->layers[d->n_layers++];
    *l = (charl__config_layer){.header = s->header, .origin = s->origin};
    CHARL_TRY(charl__strdup(path, &l->name));
    CHARL_TRY(charl__strdup(type, &l->type));
    for (int i = 0; i < in->count; i++) {
        CHARL_TRY(charl__strdup(in->names[i], &l->inputs[i]));
        l->n_inputs++;
    }
    for (int i = 0; i < s->n_keys; i++) {
        const charl__layer_key *k = &s->keys[i];
        charl__layer_key *own;

        if (is_ours(k->key)) {
            continue;
        }
        CHARL_TRY(charl__grow(l->n_keys, sizeof *l->keys, &l->keys));
        own = &l->keys[l->n_keys++];
        *own = (charl__layer_key){.origin = k->origin};
        CHARL_TRY(charl__strdup(k->key, &own->key));
        CHARL_TRY(value_of(e, sc, s, k, &own->value));
        if (own->value) { /* otherwise an error has been reported, and the layer is not used */
            CHARL_TRY(qualify(e, sc, charl__layer_type_find(type), k->key, &own->value));
        }
    }
    return CHARL_OK;
}

/* Values of the parameters of a block that section s uses in scope sc. */
static charl_status read_parameters(expander *e, const scope *sc, const charl__section *s, const char *block,
                                    pairs *out)
{
    const charl__section *head = find_head(e->d, block);
    const scope defaults = {.parameters = out}; /* a default may use the parameters above it */
    CHARL_SCOPED_FREE char *value = NULL;
    char why[CHARL__WHY];

    for (int i = 0; head && i < head->n_keys; i++) {
        const charl__layer_key *given = find_key(s, head->keys[i].key);

        if (is_ours(head->keys[i].key)) {
            continue; /* reported elsewhere */
        }
        if (!given && head->keys[i].value[0] == '\0') {
            snprintf(why, sizeof why, "%.60s is missing: block %.60s needs it", head->keys[i].key, block);
            CHARL_TRY(refuse(e, s, NULL, why));
        }
        CHARL_TRY(given ? value_of(e, sc, s, given, &value) : value_of(e, &defaults, head, &head->keys[i], &value));
        CHARL_TRY(pairs_add(out, head->keys[i].key, value ? value : ""));
        charl_free(value);
        value = NULL;
    }
    for (int i = 0; i < s->n_keys; i++) {
        const char *near = NULL;
        int best = INT_MAX;

        if (is_ours(s->keys[i].key) || find_key(head, s->keys[i].key)) {
            continue;
        }
        for (int k = 0; head && k < head->n_keys; k++) {
            if (charl_text_closer(s->keys[i].key, head->keys[k].key, &best)) {
                near = head->keys[k].key;
            }
        }
        snprintf(why, sizeof why, "block %.60s has no such parameter%s", block, charl__did_you_mean(near));
        CHARL_TRY(refuse(e, s, &s->keys[i], why));
    }
    return CHARL_OK;
}

static charl_status expand(expander *e, const scope *sc, char **last);

/* The layers of one use of a block. */
static charl_status expand_block(expander *e, const scope *sc, const charl__section *s, const char *block,
                                 const char *path, const inputs *in, char **last)
{
    CHARL_SCOPED(charl__text_fini) charl__text prefix = {0};
    CHARL_SCOPED(pairs_fini) pairs parameters = {0};
    unsigned read = 0;
    char why[CHARL__WHY];
    scope inside = {.outer = sc,
                    .block = block,
                    .inputs = in->names,
                    .n_inputs = in->count,
                    .read = &read,
                    .parameters = &parameters,
                    .depth = sc->depth + 1};

    for (const scope *o = sc; o; o = o->outer) {
        if (o->block && strcmp(o->block, block) == 0) {
            snprintf(why, sizeof why, "block %.60s contains itself", block);
            return refuse(e, s, find_key(s, "type"), why);
        }
    }
    if (inside.depth > MAX_DEPTH) {
        return refuse(e, s, NULL, "blocks inside blocks, more than 8 deep");
    }
    CHARL_TRY(read_parameters(e, sc, s, block, &parameters));
    CHARL_TRY(charl__text_printf(&prefix, "%s.", path));
    inside.prefix = charl__text_string(&prefix);
    CHARL_TRY(expand(e, &inside, last));
    for (int i = 0; i < in->count && e->mistakes->count == 0; i++) {
        if (!(read & 1U << i)) {
            snprintf(why, sizeof why, "block %.60s does not read input %d of %d, %.100s", block, i + 1, in->count,
                     in->names[i]);
            CHARL_TRY(refuse(e, s, find_key(s, "input"), why));
        }
    }
    return CHARL_OK;
}

/* The copies of a layer or block, as many as `repeat` says; *last becomes the layer with the output. */
static charl_status expand_section(expander *e, const scope *sc, const charl__section *s, const char *name,
                                   const char *type, int64_t copies, inputs *in, char **last)
{
    CHARL_SCOPED(charl__text_fini) charl__text path = {0}, whole = {0};
    CHARL_SCOPED_FREE char *out = NULL;

    CHARL_TRY(charl__text_printf(&whole, "%s%s", sc->prefix, name));
    for (int64_t i = 0; i < (copies ? copies : 1) && (i == 0 || e->mistakes->count == 0); i++) {
        charl__text_clear(&path);
        CHARL_TRY(charl__text_printf(&path, "%s", charl__text_string(&whole)));
        if (copies) {
            CHARL_TRY(charl__text_printf(&path, ".%lld", (long long)i));
        }
        if (has_block(e->d, type)) {
            CHARL_TRY(expand_block(e, sc, s, type, charl__text_string(&path), in, &out));
        } else {
            CHARL_TRY(add_layer(e, sc, s, type, charl__text_string(&path), in));
            CHARL_TRY(charl__strdup(charl__text_string(&path), &out));
        }
        if (!out) {
            break; /* after a mistake */
        }
        CHARL_TRY(pairs_add(&e->outputs, charl__text_string(&path), out));
        charl_free(in->names[0]); /* the next copy reads this one */
        in->names[0] = out;
        out = NULL;
    }
    if (copies) {
        CHARL_TRY(pairs_add(&e->outputs, charl__text_string(&whole), in->names[0]));
    }
    charl_free(*last);
    *last = in->names[0];
    in->names[0] = NULL;
    return CHARL_OK;
}

/* The value of `repeat`, 0 if it is not given; -1 after a mistake. */
static charl_status read_repeat(expander *e, const scope *sc, const charl__section *s, int64_t *out)
{
    charl_status st = CHARL_OK;
    const charl__layer_key *k = find_key(s, "repeat");
    char *value = NULL;
    char why[CHARL__WHY];

    *out = 0;
    if (!k) {
        return CHARL_OK;
    }
    CHARL_TRY(value_of(e, sc, s, k, &value));
    if (!value || !charl__value_int(&(charl__number){.range = CHARL__REPEAT_RANGE}, value, out, why)) {
        *out = -1;
    }
    if (value && *out < 0) {
        st = refuse(e, s, k, why);
    }
    charl_free(value);
    return st;
}

static bool is_input(const expander *e, const char *name)
{
    for (int i = 0; i < e->n_inputs; i++) {
        if (strcmp(e->outputs.items[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* All layers of a scope. *last becomes the layer with its output, NULL if there is none. */
static charl_status expand(expander *e, const scope *sc, char **last)
{
    charl_status st = CHARL_OK;
    char *before = NULL, *type = NULL;
    inputs in = {0};
    int64_t copies;

    for (int i = 0; i < e->d->n_sections; i++) {
        const charl__section *s = &e->d->sections[i];
        const char *name = local_name(s, sc->block);
        const charl__layer_key *k = find_key(s, "type");

        if (!name) {
            continue;
        }
        e->d->sections[i].used = true;
        if (input_index(name) >= 0) {
            CHARL_TRY_CLEANUP(
                refuse(e, s, NULL, "a layer cannot be named input, input2, ...: these stand for what is read"));
            continue;
        }
        if (!sc->block && is_input(e, name)) {
            CHARL_TRY_CLEANUP(refuse(e, s, NULL, "data.x gives this name to an input; give the layer another name"));
            continue;
        }
        if (!k) {
            CHARL_TRY_CLEANUP(charl__mistake_add(e->mistakes, s->origin, s->header, "type", "is missing"));
            continue;
        }
        CHARL_TRY_CLEANUP(value_of(e, sc, s, k, &type));
        CHARL_TRY_CLEANUP(read_repeat(e, sc, s, &copies));
        CHARL_TRY_CLEANUP(read_inputs(e, sc, s, before, &in));
        if (type && copies >= 0 && in.count > 0) {
            CHARL_TRY_CLEANUP(expand_section(e, sc, s, name, type, copies, &in, &before));
        } else { /* reading this layer is not another mistake */
            charl__text path = {0};

            st = charl__text_printf(&path, "%s%s", sc->prefix, name);
            st = st == CHARL_OK ? pairs_add(&e->outputs, charl__text_string(&path), "") : st;
            charl__text_fini(&path);
            CHARL_TRY_CLEANUP(st);
        }
        inputs_fini(&in);
        charl_free(type);
        type = NULL;
    }
    *last = before;
    before = NULL;
cleanup:
    inputs_fini(&in);
    charl_free(type);
    charl_free(before);
    return st;
}

/* Mistakes of the blocks themselves, whether or not they are used. */
static charl_status check_blocks(expander *e)
{
    char name[2 * CHARL__INI_NAME], why[CHARL__WHY];

    for (int i = 0; i < e->d->n_sections; i++) {
        const charl__section *s = &e->d->sections[i];
        const bool is_head = strncmp(s->header, "block ", 6) == 0 && !strchr(s->header, '.');

        if (strncmp(s->header, "block ", 6) != 0) {
            continue;
        }
        snprintf(name, sizeof name, "%.*s", (int)strcspn(s->header + 6, "."), s->header + 6);
        if (charl__layer_type_find(name)) {
            snprintf(why, sizeof why, "there is a layer type %s; give the block another name", name);
            CHARL_TRY(refuse(e, s, NULL, why));
        }
        for (int k = 0; is_head && k < s->n_keys; k++) {
            if (is_ours(s->keys[k].key)) {
                CHARL_TRY(
                    refuse(e, s, &s->keys[k],
                           "a parameter of a block cannot have this name; layers of the block are [block NAME.LAYER]"));
            }
        }
        if (is_head) {
            bool any = false;

            for (int k = 0; k < e->d->n_sections; k++) {
                any = any || local_name(&e->d->sections[k], name);
            }
            if (!any) {
                snprintf(why, sizeof why, "has no layers; they are sections [block %s.LAYER]", name);
                CHARL_TRY(refuse(e, s, NULL, why));
            }
        }
    }
    return CHARL_OK;
}

/* A notice for each block that no layer uses: its contents have no effect, and are not checked. */
static charl_status note_unused(charl__config_detail *d)
{
    for (int i = 0; i < d->n_sections; i++) {
        const charl__section *s = &d->sections[i], *head;
        const char *dot = strchr(s->header, '.'), *kept;
        char block[2 * CHARL__INI_NAME], note[512];
        int first = 0;

        if (strncmp(s->header, "block ", 6) != 0 || !dot || s->used) {
            continue;
        }
        snprintf(block, sizeof block, "%.*s", (int)(dot - s->header - 6), s->header + 6);
        while (!local_name(&d->sections[first], block)) {
            first++;
        }
        head = find_head(d, block) ? find_head(d, block) : s;
        if (first == i) {
            snprintf(note, sizeof note, "%.220s: [block %s]: no layer uses it", charl__origin_text(head->origin),
                     block);
            CHARL_TRY(charl__config_keep(&d->notices, note, &kept));
        }
    }
    return CHARL_OK;
}

const char *charl__config_nearest_block(const charl_config *cfg, const char *name, int *best)
{
    const char *near = NULL;

    for (int i = 0; i < cfg->detail->n_sections; i++) {
        const char *header = cfg->detail->sections[i].header;

        if (strncmp(header, "block ", 6) == 0 && !strchr(header, '.') && charl_text_closer(name, header + 6, best)) {
            near = header + 6;
        }
    }
    return near;
}

/* Names of data.x are those of the model's inputs. */
static charl_status add_inputs(expander *e, const charl_config *cfg)
{
    charl__field_spec specs[CHARL__MAX_FIELDS];
    char why[CHARL__WHY];
    const int n = charl__field_specs(cfg->data.x, specs, why, sizeof why);

    for (int i = 0; i < n && specs[0].name[0]; i++) {
        CHARL_TRY(pairs_add(&e->outputs, specs[i].name, specs[i].name));
        e->n_inputs++;
    }
    return CHARL_OK;
}

/* A charl__find_layer. */
static const char *find_output(void *ctx, const char *name, const char **near)
{
    const expander *e = ctx;
    int best = INT_MAX;

    for (int i = e->n_inputs; i < e->outputs.count; i++) {
        if (strcmp(e->outputs.items[i].name, name) == 0) {
            return e->outputs.items[i].value;
        }
        *near = charl_text_closer(name, e->outputs.items[i].name, &best) ? e->outputs.items[i].name : *near;
    }
    return NULL;
}

charl_status charl__config_expand_layers(charl_config *cfg, charl__mistakes *mistakes)
{
    charl_status st = CHARL_OK;
    expander e = {.d = cfg->detail, .mistakes = mistakes};
    char model_input[] = CHARL_MODEL_INPUT;
    char *const in[] = {model_input};
    unsigned read = 0;
    const scope model = {.prefix = "", .inputs = in, .n_inputs = 1, .read = &read};
    char *last = NULL;

    CHARL_TRY_CLEANUP(add_inputs(&e, cfg));
    CHARL_TRY_CLEANUP(check_blocks(&e));
    CHARL_TRY_CLEANUP(expand(&e, &model, &last));
    CHARL_TRY_CLEANUP(charl__config_read_outputs(cfg, mistakes, find_output, &e));
    CHARL_TRY_CLEANUP(mistakes->count == 0 ? note_unused(cfg->detail) : CHARL_OK);
cleanup:
    charl_free(last);
    pairs_fini(&e.outputs);
    return st;
}
