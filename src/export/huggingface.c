/* Models in the form that Hugging Face transformers loads: a folder with config.json, the weights as safetensors, in one file or, if they are larger
 * than a shard, in several with an index, and the tokenizer from the checkpoint.
 *
 * Names, parts and settings come from the layout (nn/weights_layout.h) that supports the model's settings. Shards are written one after
 * another, so that only one of them is in memory.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/handles.h"
#include "base/options.h"
#include "base/text/text.h"
#include "charl/export.h"
#include "charl/tokenizer.h"
#include "config/config_rows.h"
#include "export/export.h"
#include "export/folder.h"
#include "io/commit.h"
#include "io/tensors/safetensors.h"
#include "nn/layer.h"
#include "nn/weights_layout.h"
#include "task/task.h"
#include "task/weights/weights.h"

enum { VALUE = 64, REASON = 256, SHARD_NAME = 64 };

/* The weights of a model and the files in which they are stored. */
typedef struct folder {
    charl__folder f;
    charl__folder_weight *weights;
    int64_t n, *shard; /* [n] of each weight */
    int64_t shards, bytes;
    charl__text map; /* weight_map of the index */
} folder;

/* Word i of "a|b" into word[VALUE]. */
static void choice_word(const char *choices, int i, char *word)
{
    for (; i > 0; i--) {
        choices += strcspn(choices, "|");
        choices += *choices == '|';
    }
    snprintf(word, VALUE, "%.*s", (int)strcspn(choices, "|"), choices);
}

/* The value of a key as text, in the notation of a configuration. */
static void value_of(const charl_key *k, const void *settings, char *text)
{
    const void *at = (const char *)settings + k->offset;

    switch (k->kind) {
    case CHARL_KEY_INT:
    case CHARL_KEY_SIZE:
    case CHARL_KEY_STEPS:
        snprintf(text, VALUE, "%" PRId64, *(const int64_t *)at);
        break;
    case CHARL_KEY_BOOL:
        snprintf(text, VALUE, "%s", *(const bool *)at ? "yes" : "no");
        break;
    case CHARL_KEY_CHOICE:
        choice_word(k->choices, *(const int *)at, text);
        break;
    case CHARL_KEY_FLOAT:
        for (int digits = 6; digits <= 17; digits++) {
            double back = 0;

            snprintf(text, VALUE, "%.*g", digits, *(const double *)at);
            if (sscanf(text, "%lf", &back) == 1 && memcmp(&back, at, sizeof back) == 0) {
                break;
            }
        }
        if (!strpbrk(text, ".e")) { /* 10000 is an integer in JSON */
            snprintf(text + strlen(text), VALUE - strlen(text), ".0");
        }
        break;
    default: /* no setting of a layout is a list or a name */
        text[0] = '\0';
    }
}

/* The value that auto has in this model. */
static bool is_auto_value(const charl__folder *f, const charl_model_type *type, const charl_key *k)
{
    bool same = false;
    void *other = NULL;

    if (charl__alloc(type->row.settings_size, &other) == CHARL_OK) {
        memcpy(other, f->settings, type->row.settings_size);
        *(int64_t *)(void *)((char *)other + k->offset) = 0;
        type->resolve(other, 0);
        same = memcmp((const char *)other + k->offset, (const char *)f->settings + k->offset, sizeof(int64_t)) == 0;
    }
    charl_free(other);
    return same;
}

/* The file's word for `own` by "THEIRS=OWN|...", into word[VALUE]; false: there is none. */
static bool translate(const char *values, const char *own, char *word)
{
    for (const char *p = values; *p;) {
        const size_t n = strcspn(p, "|"), theirs = strcspn(p, "=|");
        const size_t skip = p[theirs] == '=' ? theirs + 1 : 0;

        if (strlen(own) == n - skip && strncmp(p + skip, own, n - skip) == 0) {
            snprintf(word, VALUE, "%.*s", (int)theirs, p);
            return true;
        }
        p += n + (p[n] == '|');
    }
    return false;
}

/* Whether a row is about the same setting of the file as the one before it. */
static bool is_repeated(const charl__weights_setting *s)
{
    return s->theirs && s[-1].theirs && strcmp(s->theirs, s[-1].theirs) == 0;
}

/* Whether the keys that the layout does not list have their defaults, or change nothing in a trained model. */
static bool others_are_default(const charl__folder *f, const charl__weights_layout *layout, char *reason)
{
    static const char neutral[] = "dropout|stochastic_depth|vocab_multiple|family";
    const charl_row *type = &layout->model->row;
    char value[VALUE], usual[VALUE];

    for (int k = 0; k < type->n_keys; k++) {
        bool listed = charl__choice_index(neutral, type->keys[k].name) >= 0;

        for (int i = 0; i < layout->n_settings && !listed; i++) {
            listed = layout->settings[i].own && strcmp(layout->settings[i].own, type->keys[k].name) == 0;
        }
        value_of(&type->keys[k], f->settings, value);
        value_of(&type->keys[k], type->defaults, usual);
        if (!listed && strcmp(value, usual) != 0) {
            snprintf(reason, REASON, "%s has no %s = %s", layout->row.name, type->keys[k].name, value);
            return false;
        }
    }
    return true;
}

/* Whether the layout can express the model's settings; if not, reason[REASON] names the first that it cannot. */
static bool settings_fit(const charl__folder *f, const charl__weights_layout *layout, char *reason)
{
    for (int i = 0; i < layout->n_settings; i++) {
        const charl__weights_setting *s = &layout->settings[i];
        const charl_key *k = s->own ? charl__layout_key(layout->model, s->own) : NULL;
        char value[VALUE], word[VALUE];
        bool fits = true;

        if (!k || (!s->theirs && !s->absent)) {
            continue;
        }
        value_of(k, f->settings, value);
        if (!s->theirs) {
            fits = strcmp(s->absent, "auto") == 0 ? is_auto_value(f, layout->model, k) : strcmp(s->absent, value) == 0;
            fits = fits || (s->values && translate(s->values, value, word));
        } else if (s->values) {
            fits = translate(s->values, value, word);
        } else if (i > 0 && is_repeated(s)) {
            value_of(charl__layout_key(layout->model, s[-1].own), f->settings, word);
            fits = strcmp(value, word) == 0;
        }
        if (!fits) {
            snprintf(reason, REASON, "%s has no %s = %s", layout->row.name, k->name, value);
            return false;
        }
    }
    return others_are_default(f, layout, reason);
}

static charl_status choose_layout(charl__folder *f)
{
    const charl_model_type *type = charl__config_model(f->config);
    const charl__weights_layout *layout, *chosen = charl__layout_chosen(type, f->settings);
    CHARL_SCOPED(charl__text_fini) charl__text reasons = {0};
    char reason[REASON];

    for (int i = 0; (layout = charl__layout_at(i)) != NULL && !f->layout; i++) {
        if (layout->model != type || !layout->model_type || (chosen && layout != chosen)) {
            continue;
        }
        if (settings_fit(f, layout, reason)) {
            f->layout = layout;
        } else {
            CHARL_TRY(charl__text_printf(&reasons, "%s%s", reasons.length ? "; " : "", reason));
        }
    }
    CHARL_REQUIRE(f->layout || reasons.length > 0, CHARL_ERR_CONFIG,
                  "Hugging Face's layout is known for gpt, bert and vit only, %s is of type %s", f->e.checkpoint,
                  type->row.name);
    CHARL_REQUIRE(f->layout, CHARL_ERR_CONFIG, "%s has settings that no model of Hugging Face has together: %s",
                  f->e.checkpoint, charl__text_string(&reasons));
    return CHARL_OK;
}

static charl_status read_settings(charl__folder *f)
{
    const char *text = charl_checkpoint_get_info(f->e.r).config_resolved;
    const charl_model_type *type;
    int64_t outputs = 0;

    CHARL_TRY(charl_config_parse("/config/resolved", text, strlen(text), NULL, 0, &f->config));
    type = charl__config_model(f->config);
    CHARL_REQUIRE(type->resolve && type->row.settings_size > 0, CHARL_ERR_CONFIG,
                  "Hugging Face's layout is known for gpt, bert and vit only, %s is of type %s", f->e.checkpoint,
                  type->row.name);
    CHARL_TRY(charl__alloc(type->row.settings_size, &f->settings));
    memcpy(f->settings, f->config->model.settings, type->row.settings_size);
    CHARL_TRY(charl__weights_outputs(f->config, f->e.r, &outputs));
    type->resolve(f->settings, outputs);
    return CHARL_OK;
}

/* The path of a file in the folder; records it as written. */
static charl_status begin_file(charl__folder *f, const char *name, char **path)
{
    CHARL_TRY(charl__commit_join(f->e.path, name, path));
    CHARL_TRY(charl__text_append(&f->written, *path, strlen(*path) + 1));
    return CHARL_OK;
}

charl_status charl__folder_write(charl__folder *f, const char *name, const charl__text *text)
{
    CHARL_SCOPED_FREE char *path = NULL;

    CHARL_TRY(begin_file(f, name, &path));
    CHARL_TRY(charl__commit_bytes(path, text->data, text->length));
    return CHARL_OK;
}

charl_status charl__folder_save(charl__folder *f, const char *name, const charl_checkpoint_tensor *tensors, int64_t n,
                                const charl_data_schema *schema)
{
    CHARL_SCOPED_FREE char *path = NULL;

    CHARL_TRY(begin_file(f, name, &path));
    CHARL_TRY(charl__safetensors_save(path, tensors, n, schema, f->e.lock));
    return CHARL_OK;
}

void charl__folder_undo(charl__folder *f)
{
    for (size_t at = 0; at < f->written.length; at += strlen(f->written.data + at) + 1) {
        unlink(f->written.data + at);
    }
    if (f->is_new) {
        rmdir(f->e.path);
    }
}

static charl_status add_weight(const charl__folder *f, const charl_checkpoint_tensor *t, const char *name,
                               const charl_shape *shape, charl__folder_weight *w)
{
    *w = (charl__folder_weight){.t = t, .shape = *shape};
    w->rule = charl__layout_rule(f->layout, name, &w->block);
    CHARL_REQUIRE(w->rule, CHARL_ERR_CONFIG, "%s: layout %s has no weight like %s", f->e.checkpoint,
                  f->layout->row.name, name);
    CHARL_REQUIRE(strlen(name) < sizeof w->own, CHARL_ERR_CONFIG, "the name of %.100s is too long", name);
    memcpy(w->own, name, strlen(name) + 1);
    return CHARL_OK;
}

/* A tensor that the layout has and the model lacks: a bias of zeros. */
static charl_status add_zeros(const charl__folder *f, const charl_checkpoint_tensor *t, charl__folder_weight *w,
                              int64_t *n)
{
    static const char weight_end[] = ".weight";
    const int layer = (int)(strlen(t->name) - strlen(weight_end));
    char bias[CHARL__LAYOUT_NAME];
    const charl__weights_rule *rule;
    int64_t block;

    if (!charl__ends_in(t->name, weight_end) ||
        snprintf(bias, sizeof bias, "%.*s.bias", layer, t->name) >= (int)sizeof bias ||
        charl_checkpoint_find(f->e.r, "model", bias)) {
        return CHARL_OK;
    }
    rule = charl__layout_rule(f->layout, bias, &block);
    if (rule && rule->zeros) {
        CHARL_TRY(add_weight(f, NULL, bias, &(charl_shape){1, {t->shape.dim[0]}}, &w[(*n)++]));
    }
    return CHARL_OK;
}

charl_status charl__folder_weights(const charl__folder *f, charl__folder_weight **out, int64_t *n)
{
    const int64_t most = charl_checkpoint_get_info(f->e.r).n_tensors;
    CHARL_SCOPED_FREE charl__folder_weight *w = NULL;

    *out = NULL;
    *n = 0;
    CHARL_TRY(charl__alloc_array(2 * most + 1, sizeof *w, &w));
    for (int64_t i = 0; i < most; i++) {
        const charl_checkpoint_tensor *t = charl_checkpoint_get_tensor(f->e.r, i);

        if (strcmp(t->group, "model") == 0 && !charl__is_adapter(t->name)) { /* these are added to their weights */
            const charl_checkpoint_tensor *chosen = charl_checkpoint_find(f->e.r, f->e.group, t->name);

            CHARL_TRY(add_weight(f, chosen ? chosen : t, t->name, &t->shape, &w[(*n)++]));
            CHARL_TRY(add_zeros(f, t, w, n));
        }
    }
    *out = w;
    w = NULL;
    return CHARL_OK;
}

static charl_status divide(folder *f, int64_t shard_bytes)
{
    int64_t used = 0;

    CHARL_TRY(charl__alloc_array(f->n + 1, sizeof *f->shard, &f->shard));
    f->shards = 1;
    for (int64_t i = 0; i < f->n; i++) {
        const int64_t bytes = charl_shape_count(&f->weights[i].shape) * (int64_t)sizeof(float);

        if (used > 0 && used + bytes > shard_bytes) {
            f->shards++;
            used = 0;
        }
        f->shard[i] = f->shards - 1;
        used += bytes;
        f->bytes += bytes;
    }
    return CHARL_OK;
}

charl_status charl__folder_read(const charl__folder *f, const charl__folder_weight *w, bool transposes, float **out)
{
    const int64_t n = charl_shape_count(&w->shape);
    CHARL_SCOPED_FREE float *value = NULL, *turned = NULL;

    CHARL_TRY(charl__alloc_array(n + 1, sizeof *value, &value));
    memset(value, 0, (size_t)n * sizeof *value);
    if (w->t) {
        CHARL_TRY(charl__export_read(&f->e, w->t, value));
    }
    if (transposes && w->rule->transposed && w->shape.ndim == 2) {
        const int64_t rows = w->shape.dim[0], columns = w->shape.dim[1];

        CHARL_TRY(charl__alloc_array(n + 1, sizeof *turned, &turned));
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t c = 0; c < columns; c++) {
                turned[c * rows + r] = value[r * columns + c];
            }
        }
    }
    if (w->rule->row) {
        CHARL_TRY(charl__alloc_array(n + 1, sizeof *turned, &turned));
        charl__layout_order(w->rule, f->settings, w->shape.dim[0], n / w->shape.dim[0], value, true, turned);
    }
    *out = turned ? turned : value;
    for (int64_t i = 0; i < n && charl__layout_less_one(f->layout, w->rule, w->shape.ndim); i++) {
        (*out)[i] -= 1.0F;
    }
    charl_free(turned ? value : NULL);
    value = turned = NULL;
    return CHARL_OK;
}

static void shard_name(const folder *f, int64_t shard, char name[SHARD_NAME])
{
    if (f->shards == 1) {
        snprintf(name, SHARD_NAME, "model.safetensors");
    } else {
        snprintf(name, SHARD_NAME, "model-%05" PRId64 "-of-%05" PRId64 ".safetensors", shard + 1, f->shards);
    }
}

static charl_status write_shard(folder *f, int64_t shard)
{
    charl_status st = CHARL_OK;
    char(*names)[CHARL__LAYOUT_NAME] = NULL;
    charl_checkpoint_tensor *tensors = NULL;
    float **values = NULL;
    char file[SHARD_NAME];
    int64_t n = 0, read = 0;

    shard_name(f, shard, file);
    CHARL_TRY_CLEANUP(charl__alloc_array(CHARL__WEIGHTS_PARTS * f->n, sizeof *names, &names));
    CHARL_TRY_CLEANUP(charl__alloc_array(CHARL__WEIGHTS_PARTS * f->n, sizeof *tensors, &tensors));
    CHARL_TRY_CLEANUP(charl__alloc_array(f->n, sizeof *values, &values));
    for (int64_t i = 0; i < f->n; i++) {
        const charl__folder_weight *w = &f->weights[i];
        const float *at;

        if (f->shard[i] != shard) {
            continue;
        }
        CHARL_TRY_CLEANUP(charl__folder_read(&f->f, w, true, &values[read]));
        at = values[read++];
        for (int k = 0; k < charl__layout_parts(w->rule); k++, n++) {
            const charl_shape shape = charl__layout_part_shape(w->rule, f->f.settings, &w->shape, k);

            CHARL_REQUIRE_CLEANUP(charl__layout_expand(w->rule->theirs[k], w->block, names[n]), CHARL_ERR_CONFIG,
                                  "the name of %.100s is too long", w->own);
            tensors[n] = (charl_checkpoint_tensor){.name = names[n], .dtype = CHARL_F32, .shape = shape, .data = at};
            at += charl_shape_count(&shape);
            CHARL_TRY_CLEANUP(charl__text_printf(&f->map, "%s\n    ", f->map.length ? "," : ""));
            CHARL_TRY_CLEANUP(charl__text_json(&f->map, names[n]));
            CHARL_TRY_CLEANUP(charl__text_printf(&f->map, ": \"%s\"", file));
        }
    }
    CHARL_TRY_CLEANUP(
        charl__folder_save(&f->f, file, tensors, n, shard == 0 ? charl_checkpoint_get_info(f->f.e.r).schema : NULL));
cleanup:
    for (int64_t i = 0; i < read; i++) {
        charl_free(values[i]);
    }
    charl_free(values);
    charl_free(tensors);
    charl_free(names);
    return st;
}

static charl_status write_index(folder *f)
{
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};

    CHARL_TRY(charl__text_printf(&text,
                                 "{\n  \"metadata\": {\"total_size\": %" PRId64 "},\n  \"weight_map\": {%s\n  }\n}\n",
                                 f->bytes, charl__text_string(&f->map)));
    CHARL_TRY(charl__folder_write(&f->f, "model.safetensors.index.json", &text));
    return CHARL_OK;
}

/* "NAME": [a value for each block] of a setting with `every`. */
static charl_status put_list(const charl__folder *f, const charl__weights_setting *s, const char *n, charl__text *out)
{
    const int64_t every = strtoll(n, NULL, 10);
    const char *const quote = strspn(s->every, "0123456789") > 0 ? "" : "\"";
    char layers[VALUE], word[VALUE];

    value_of(charl__layout_key(f->layout->model, "n_layer"), f->settings, layers);
    CHARL_TRY(charl__text_printf(out, "\"%.*s\": [", (int)strcspn(s->theirs, "|"), s->theirs));
    for (int64_t i = 1, last = strtoll(layers, NULL, 10); i <= last; i++) {
        choice_word(s->every, every > 0 && i % every == 0, word);
        CHARL_TRY(charl__text_printf(out, "%s%s%s%s", quote, word, quote, i < last ? ", " : "]"));
    }
    return CHARL_OK;
}

/* Whether a value of a layout is a text in JSON, neither a number nor one of JSON's words. */
static bool is_word(const char *value)
{
    return charl__choice_index("yes|no|null", value) < 0 && strspn(value, "0123456789") == 0;
}

/* A setting as a member of an object in config.json. */
static charl_status put_member(const charl__folder *f, const charl__weights_setting *s, charl__text *out)
{
    const charl_key *k = s->own ? charl__layout_key(f->layout->model, s->own) : NULL;
    const char *name = s->theirs, *dot = memchr(name, '.', strcspn(name, "|"));
    char value[VALUE], word[VALUE];
    bool quoted;

    name = dot ? dot + 1 : name;
    if (k) {
        value_of(k, f->settings, value);
    } else {
        choice_word(s->values, 0, value);
    }
    if (s->every) {
        return put_list(f, s, value, out);
    }
    quoted = k ? k->kind == CHARL_KEY_CHOICE : is_word(value);
    if (s->null && strcmp(value, s->null) == 0) {
        return charl__text_printf(out, "\"%.*s\": null", (int)strcspn(name, "|"), name);
    }
    if (k && s->values && translate(s->values, value, word)) {
        memcpy(value, word, sizeof value);
    }
    return charl__text_printf(out, "\"%.*s\": %s%s%s", (int)strcspn(name, "|"), name, quoted ? "\"" : "",
                              strcmp(value, "yes") == 0  ? "true"
                              : strcmp(value, "no") == 0 ? "false"
                                                         : value,
                              quoted ? "\"" : "");
}

/* Whether the model has one of these values, "a|b", of a setting. */
static bool has_value(const charl__folder *f, const charl__weights_setting *s, const char *wanted)
{
    char value[VALUE];

    value_of(charl__layout_key(f->layout->model, s->own), f->settings, value);
    return charl__choice_index(wanted, value) >= 0;
}

/* The settings of an object are contiguous; the first one determines whether the object is written. */
static charl_status put_settings(const charl__folder *f, charl__text *out)
{
    const charl__weights_setting *s = f->layout->settings, *end = s + f->layout->n_settings;

    while (s < end) {
        const size_t object = charl__layout_object(s);
        const charl__weights_setting *const first = s, *next = s + 1;

        while (object && next < end && charl__layout_object(next) == object &&
               strncmp(next->theirs, s->theirs, object) == 0) {
            next++;
        }
        if (!s->theirs || (object && (!s->own || has_value(f, s, s->absent))) ||
            (s > f->layout->settings && is_repeated(s))) {
            s = next;
            continue;
        }
        CHARL_TRY(charl__text_printf(out, "  "));
        if (object) {
            CHARL_TRY(charl__text_printf(out, "\"%.*s\": {", (int)object - 1, s->theirs));
        }
        for (; s < next; s++) {
            if (!s->only || has_value(f, first, s->only)) {
                CHARL_TRY(charl__text_printf(out, s > first ? ", " : ""));
                CHARL_TRY(put_member(f, s, out));
            }
        }
        CHARL_TRY(charl__text_printf(out, object ? "},\n" : ",\n"));
    }
    return CHARL_OK;
}

static charl_status put_token(const char *key, int64_t token, charl__text *out)
{
    return token >= 0 ? charl__text_printf(out, "  \"%s\": %" PRId64 ",\n", key, token)
                      : charl__text_printf(out, "  \"%s\": null,\n", key);
}

static bool has_setting(const charl__weights_layout *layout, const char *theirs)
{
    for (int i = 0; i < layout->n_settings; i++) {
        if (layout->settings[i].theirs && strcmp(layout->settings[i].theirs, theirs) == 0) {
            return true;
        }
    }
    return false;
}

static charl_status write_config(charl__folder *f)
{
    const charl_data_schema *schema = charl_checkpoint_get_info(f->e.r).schema;
    const int64_t end = schema && schema->tokenizer ? charl_tokenizer_get_end_of_text(schema->tokenizer) : -1;
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};

    CHARL_TRY(charl__text_printf(&text, "{\n  \"architectures\": [\"%s\"],\n", f->layout->architecture));
    CHARL_TRY(put_settings(f, &text));
    CHARL_TRY(put_token("bos_token_id", end, &text));
    CHARL_TRY(put_token("eos_token_id", end, &text));
    if (!has_setting(f->layout,
                     "pad_token_id")) { /* the classes have defaults, which may be outside of the vocabulary */
        CHARL_TRY(put_token("pad_token_id", -1, &text));
    }
    CHARL_TRY(charl__text_printf(&text, "  \"model_type\": \"%s\",\n  \"torch_dtype\": \"float32\"\n}\n",
                                 f->layout->model_type));
    CHARL_TRY(charl__folder_write(f, "config.json", &text));
    return CHARL_OK;
}

/* The tokenizer, if the checkpoint has one. Texts are as long as the model's window. */
static charl_status write_tokenizer(charl__folder *f)
{
    const charl_data_schema *schema = charl_checkpoint_get_info(f->e.r).schema;
    const charl_tokenizer *t = schema ? schema->tokenizer : NULL;
    const charl_key *window = charl__layout_key(f->layout->model, "block_size");
    const int64_t end = t ? charl_tokenizer_get_end_of_text(t) : -1;
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};
    CHARL_SCOPED_FREE char *json = NULL;
    char value[VALUE];
    size_t bytes;

    if (!t) {
        return CHARL_OK;
    }
    CHARL_TRY(charl_tokenizer_print_json(t, &json));
    CHARL_TRY(charl__text_append(&text, json, strlen(json)));
    CHARL_TRY(charl__folder_write(f, "tokenizer.json", &text));
    charl__text_clear(&text);
    CHARL_TRY(charl__text_printf(
        &text,
        "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n  \"clean_up_tokenization_spaces\": false,\n"
        "  \"model_input_names\": [\"input_ids\", \"attention_mask\"]")); /* not token_type_ids, which gpt2 would add to its input */
    if (window) {
        value_of(window, f->settings, value);
        CHARL_TRY(charl__text_printf(&text, ",\n  \"model_max_length\": %s", value));
    }
    for (int i = 0; i < 2 && end >= 0; i++) {
        const char *special = charl_tokenizer_get_token(t, end, &bytes);

        CHARL_TRY(charl__text_printf(&text, ",\n  \"%s_token\": \"%.*s\"", i == 0 ? "bos" : "eos", (int)bytes,
                                     special)); /* one of five texts, without quotes */
    }
    CHARL_TRY(charl__text_printf(&text, "\n}\n"));
    CHARL_TRY(charl__folder_write(f, "tokenizer_config.json", &text));
    return CHARL_OK;
}

/* Files of an earlier export would be loaded together with this one. */
charl_status charl__folder_make(charl__folder *f)
{
    const char *path = f->e.path;
    const struct dirent *d;
    bool empty = true;
    CHARL_SCOPED(charl__directory_left) DIR *dir = NULL;

    f->is_new = mkdir(path, 0777) == 0;
    if (f->is_new) {
        return CHARL_OK;
    }
    CHARL_REQUIRE(errno == EEXIST, CHARL_ERR_DISK, "%s: cannot be made: %s", path, strerror(errno));
    CHARL_TRY(charl__directory_open(path, &dir));
    CHARL_REQUIRE(dir, CHARL_ERR_DISK, "%s: is not a folder", path);
    while ((d = readdir(dir)) != NULL) {
        empty = empty && (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0);
    }
    CHARL_REQUIRE(empty, CHARL_ERR_DISK, "%s: is not empty; HINT name a new folder", path);
    return CHARL_OK;
}

charl_status charl__folder_open(charl__folder *f, const char *base, charl_ema_choice ema)
{
    CHARL_TRY(charl__export_open(&f->e, base, ema));
    return charl__folder_choose(f);
}

charl_status charl__folder_choose(charl__folder *f)
{
    CHARL_TRY(read_settings(f));
    return choose_layout(f);
}

void charl__folder_fini(charl__folder *f)
{
    charl_free(f->settings);
    charl__text_fini(&f->written);
    charl_config_destroy(f->config);
    charl_checkpoint_close(f->e.r);
}

charl_status charl_export_huggingface(const char *checkpoint, const charl_export_options *options, const char *path)
{
    CHARL_GIVEN(checkpoint, path);
    CHARL__OPTIONS(charl_export_options, options);
    charl_status st = CHARL_OK;
    const charl_export_options o =
        options ? *options : (charl_export_options){sizeof(charl_export_options), .base = NULL};
    folder f = {.f.e = {.checkpoint = checkpoint, .path = path}};

    CHARL_REQUIRE_CLEANUP(o.shard_bytes >= 0, CHARL_ERR_INVALID, "shard_bytes is %lld; it is 0 or more",
                          (long long)o.shard_bytes);
    CHARL_TRY_CLEANUP(charl__folder_open(&f.f, o.base, (int)o.ema));
    CHARL_TRY_CLEANUP(charl__folder_weights(&f.f, &f.weights, &f.n));
    CHARL_TRY_CLEANUP(divide(&f, o.shard_bytes ? o.shard_bytes : CHARL_EXPORT_SHARD_BYTES));
    CHARL_TRY_CLEANUP(charl__folder_make(&f.f));
    for (int64_t i = 0; i < f.shards; i++) {
        CHARL_TRY_CLEANUP(write_shard(&f, i));
    }
    if (f.shards > 1) {
        CHARL_TRY_CLEANUP(write_index(&f));
    }
    CHARL_TRY_CLEANUP(write_tokenizer(&f.f));
    CHARL_TRY_CLEANUP(write_config(&f.f));
cleanup:
    if (st != CHARL_OK) {
        charl__folder_undo(&f.f);
    }
    charl__text_fini(&f.map);
    charl_free(f.weights);
    charl_free(f.shard);
    charl__folder_fini(&f.f);
    return st;
}
