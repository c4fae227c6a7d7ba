/* Schemas as JSON, for the metadata of other programs' files. */
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "io/checkpoint/checkpoint_format.h"
#include "io/dataset/schema/data_schema.h"
#include "io/schema.h"
#include "io/tokenizer.h"

/* Tokens of the largest tokenizer that is written out. */
enum { MOST_TOKENS = 8192 };

static charl_status put_shape(charl__text *t, const char *key, const charl_shape *shape)
{
    CHARL_TRY(charl__text_printf(t, ",\"%s\":[", key));
    for (int i = 0; i < shape->ndim; i++) {
        CHARL_TRY(charl__text_printf(t, "%s%lld", i ? "," : "", (long long)shape->dim[i]));
    }
    CHARL_TRY(charl__text_printf(t, "]"));
    return CHARL_OK;
}

static charl_status put_text(charl__text *t, const char *key, const char *text)
{
    CHARL_TRY(charl__text_printf(t, ",\"%s\":", key));
    CHARL_TRY(charl__text_json(t, text));
    return CHARL_OK;
}

static charl_status put_names(charl__text *t, const char *key, const char *names)
{
    const int64_t n = charl_names_count(names);
    CHARL_SCOPED(charl__text_fini) charl__text name = {0};

    CHARL_TRY(charl__text_printf(t, ",\"%s\":[", key));
    for (int64_t i = 0; i < n; i++) {
        const size_t length = strcspn(names, "\n");

        charl__text_clear(&name);
        CHARL_TRY(charl__text_append(&name, names, length));
        CHARL_TRY(charl__text_printf(t, "%s", i ? "," : ""));
        CHARL_TRY(charl__text_json(t, charl__text_string(&name)));
        names += length + (names[length] == '\n');
    }
    CHARL_TRY(charl__text_printf(t, "]"));
    return CHARL_OK;
}

static charl_status put_floats(charl__text *t, const char *key, const float *values, int64_t n)
{
    CHARL_TRY(charl__text_printf(t, ",\"%s\":[", key));
    for (int64_t i = 0; i < n; i++) {
        CHARL_TRY(charl__text_printf(t, "%s%.9g", i ? "," : "", (double)values[i]));
    }
    CHARL_TRY(charl__text_printf(t, "]"));
    return CHARL_OK;
}

static charl_status put_tokenizer(charl__text *t, const charl_data_schema *s)
{
    const charl_tokenizer *own = s->tokenizer;

    CHARL_TRY(put_text(t, "tokenizer", s->tokenizer_kind));
    if (!own) {
        return CHARL_OK;
    }
    if ((own->vocab ? own->vocab : own->n) > MOST_TOKENS) {
        CHARL_TRY(put_text(t, "tokenizer_note",
                           "too large to be repeated here: it is in the charl checkpoint, under "
                           "/schema/tokenizer, and in the data set, under /tokenizer"));
        return CHARL_OK;
    }
    CHARL_TRY(charl__text_printf(t, ",\"tokenizer_learnt\":["));
    for (int64_t i = 0; i < own->n; i++) {
        CHARL_TRY(charl__text_printf(t, "%s%u", i ? "," : "",
                                     own->layout->dtype == CHARL_U8 ? ((const unsigned char *)own->state)[i]
                                                                    : ((const uint32_t *)own->state)[i]));
    }
    CHARL_TRY(charl__text_printf(t, "]"));
    return CHARL_OK;
}

charl_status charl_data_schema_print(const charl_data_schema *s, char **out)
{
    CHARL_GIVEN(s, out);
    CHARL_SCOPED(charl__text_fini) charl__text t = {0};

    *out = NULL;
    CHARL_TRY(charl__text_printf(&t, "{\"kind\":\"%s\",\"x_dtype\":\"%s\",\"y_dtype\":\"%s\"",
                                 charl_dataset_kind_name(s->kind), charl_dtype_name(s->x_dtype),
                                 charl_dtype_name(s->y_dtype)));
    CHARL_TRY(put_shape(&t, "x_shape", &s->x_shape));
    CHARL_TRY(put_shape(&t, "y_shape", &s->y_shape));
    CHARL_TRY(charl__text_printf(&t, ",\"classes\":%lld", (long long)s->classes));
    CHARL_TRY(put_names(&t, "class_names", s->class_names));
    CHARL_TRY(put_names(&t, "columns", s->columns));
    CHARL_TRY(put_names(&t, "targets", s->targets));
    if (s->recipe[0]) {
        CHARL_TRY(put_text(&t, "recipe", s->recipe));
    }
    if (s->fields[0]) {
        CHARL_TRY(put_names(&t, "fields", s->fields));
    }
    CHARL_TRY(put_text(&t, "layout", s->layout));
    CHARL_TRY(put_text(&t, "fit", s->fit));
    CHARL_TRY(put_floats(&t, "mean", s->mean, s->n_stats));
    CHARL_TRY(put_floats(&t, "std", s->std, s->n_stats));
    if (s->n_target_stats > 0) {
        CHARL_TRY(put_floats(&t, "target_mean", s->target_mean, s->n_target_stats));
        CHARL_TRY(put_floats(&t, "target_std", s->target_std, s->n_target_stats));
    }
    CHARL_TRY(put_tokenizer(&t, s));
    CHARL_TRY(charl__text_printf(&t, "}"));
    *out = charl__text_steal(&t);
    return CHARL_OK;
}

/* The object, and the name of its source. */
typedef struct source {
    const char *path;
    json_t *root;
} source;

static charl_status bad(const source *o, const char *key)
{
    return charl_error_set(CHARL_ERR_CHECKPOINT, __FILE__, __LINE__, __func__,
                           "%s: charl.schema: %s is missing or malformed", o->path, key);
}

static charl_status get_text(const source *o, const char *key, char **out)
{
    const char *text = json_string_value(json_object_get(o->root, key));

    return text ? charl__schema_set(out, text) : bad(o, key);
}

static charl_status get_names(const source *o, const char *key, char **out)
{
    json_t *list = json_object_get(o->root, key);
    CHARL_SCOPED(charl__text_fini) charl__text t = {0};

    if (!json_is_array(list)) {
        return bad(o, key);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));

        if (!name || strchr(name, '\n')) {
            return bad(o, key);
        }
        CHARL_TRY(charl__text_printf(&t, "%s%s", i ? "\n" : "", name));
    }
    CHARL_TRY(charl__schema_set(out, charl__text_string(&t)));
    return CHARL_OK;
}

static charl_status get_dtype(const source *o, const char *key, charl_dtype *out)
{
    const char *name = json_string_value(json_object_get(o->root, key));

    return name && charl__ckpt_dtype_parse(name, out) ? CHARL_OK : bad(o, key);
}

static charl_status get_shape(const source *o, const char *key, charl_shape *out)
{
    const json_t *list = json_object_get(o->root, key);

    if (!json_is_array(list) || json_array_size(list) > CHARL_MAX_DIMS) {
        return bad(o, key);
    }
    out->ndim = (int)json_array_size(list);
    for (int i = 0; i < out->ndim; i++) {
        const json_t *extent = json_array_get(list, (size_t)i);

        if (!json_is_integer(extent) || json_integer_value(extent) < 0) {
            return bad(o, key);
        }
        out->dim[i] = json_integer_value(extent);
    }
    return CHARL_OK;
}

static charl_status get_floats(const source *o, const char *key, float **out, int64_t *n)
{
    const json_t *list = json_object_get(o->root, key);

    if (!json_is_array(list)) {
        return bad(o, key);
    }
    *n = (int64_t)json_array_size(list);
    CHARL_TRY(charl__alloc_array(*n, sizeof **out, out));
    for (int64_t i = 0; i < *n; i++) {
        const json_t *value = json_array_get(list, (size_t)i);

        if (!json_is_number(value)) {
            return bad(o, key);
        }
        (*out)[i] = (float)json_number_value(value);
    }
    return CHARL_OK;
}

static charl_status get_tokenizer(const source *o, charl_data_schema *s)
{
    charl_status st;
    const json_t *list = json_object_get(o->root, "tokenizer_learnt");
    const charl__tokenizer_layout *layout = charl__tokenizer_layout_find(s->tokenizer_kind);
    void *state = NULL;
    const size_t n = json_array_size(list);

    if (!list) {
        return CHARL_OK;
    }
    if (!layout) {
        return bad(o, "tokenizer");
    }
    CHARL_TRY(charl__alloc_array((int64_t)n, charl_dtype_size(layout->dtype), &state));
    for (size_t i = 0; i < n; i++) {
        const json_int_t v = json_integer_value(json_array_get(list, i));

        if (layout->dtype == CHARL_U8) {
            ((unsigned char *)state)[i] = v >= 0 && v <= UINT8_MAX ? (unsigned char)v : UINT8_MAX;
        } else {
            ((uint32_t *)state)[i] = v >= 0 && v <= UINT32_MAX ? (uint32_t)v : UINT32_MAX;
        }
    }
    st = charl__tokenizer_create(layout, state, (int64_t)n, &s->tokenizer);
    if (st == CHARL_ERR_DATA) {
        st = bad(o, "tokenizer_learnt");
    }
    return st;
}

static charl_status read_object(const source *o, charl_data_schema *s)
{
    const char *kind = json_string_value(json_object_get(o->root, "kind"));
    const json_t *classes = json_object_get(o->root, "classes");
    int64_t n = 0;

    if (!kind || !json_is_integer(classes)) {
        return bad(o, kind ? "classes" : "kind");
    }
    s->kind = charl__dataset_kind_of(kind);
    s->classes = json_integer_value(classes);
    CHARL_TRY(get_dtype(o, "x_dtype", &s->x_dtype));
    CHARL_TRY(get_dtype(o, "y_dtype", &s->y_dtype));
    CHARL_TRY(get_shape(o, "x_shape", &s->x_shape));
    CHARL_TRY(get_shape(o, "y_shape", &s->y_shape));
    CHARL_TRY(get_names(o, "class_names", &s->class_names));
    CHARL_TRY(get_names(o, "columns", &s->columns));
    CHARL_TRY(get_names(o, "targets", &s->targets));
    if (json_object_get(o->root, "recipe")) {
        CHARL_TRY(get_text(o, "recipe", &s->recipe));
    }
    if (json_object_get(o->root, "fields")) {
        CHARL_TRY(get_names(o, "fields", &s->fields));
    }
    CHARL_TRY(get_text(o, "layout", &s->layout));
    CHARL_TRY(get_text(o, "fit", &s->fit));
    CHARL_TRY(get_text(o, "tokenizer", &s->tokenizer_kind));
    CHARL_TRY(get_floats(o, "mean", &s->mean, &s->n_stats));
    CHARL_TRY(get_floats(o, "std", &s->std, &n));
    if (n != s->n_stats) {
        return bad(o, "std");
    }
    if (json_object_get(o->root, "target_mean")) {
        CHARL_TRY(get_floats(o, "target_mean", &s->target_mean, &s->n_target_stats));
        CHARL_TRY(get_floats(o, "target_std", &s->target_std, &n));
        if (n != s->n_target_stats) {
            return bad(o, "target_std");
        }
    }
    CHARL_TRY(get_tokenizer(o, s));
    CHARL_TRY(charl__schema_check(s, o->path, CHARL_ERR_CHECKPOINT));
    return CHARL_OK;
}

charl_status charl__data_schema_parse(const char *path, const char *json, charl_data_schema **out)
{
    CHARL_GIVEN(path, json, out);
    charl_status st = CHARL_OK;
    json_error_t error;
    const source o = {path, json_loads(json, JSON_REJECT_DUPLICATES, &error)};
    charl_data_schema *s = NULL;

    *out = NULL;
    CHARL_REQUIRE_CLEANUP(json_is_object(o.root), CHARL_ERR_CHECKPOINT, "%s: charl.schema is not a JSON object", path);
    CHARL_TRY_CLEANUP(charl__schema_new(&s));
    CHARL_TRY_CLEANUP(read_object(&o, s));
    *out = s;
    s = NULL;
cleanup:
    charl_data_schema_destroy(s);
    json_decref(o.root);
    return st;
}
