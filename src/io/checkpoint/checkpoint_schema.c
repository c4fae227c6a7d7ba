/* A schema as datasets: what is short is a text of lines "key value", lists and numbers are arrays
 * of their own. */
#include "io/checkpoint/checkpoint_schema.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/dataset/schema/data_schema.h"
#include "io/scoped.h"
#include "io/tokenizer.h"

/* Lists of names, each a dataset. */
static const struct list {
    const char *name;
    size_t offset;
} lists[] = {{"class_names", offsetof(charl_data_schema, class_names)},
             {"columns", offsetof(charl_data_schema, columns)},
             {"targets", offsetof(charl_data_schema, targets)},
             {"recipe", offsetof(charl_data_schema, recipe)},
             {"fields", offsetof(charl_data_schema, fields)}};

enum { LISTS = sizeof lists / sizeof lists[0] };

static charl_status describe(const charl_data_schema *s, charl__text *out)
{
    CHARL_TRY(charl__text_printf(out, "kind %s\nx_dtype %s\nx_shape ", charl_dataset_kind_name(s->kind),
                                 charl_dtype_name(s->x_dtype)));
    CHARL_TRY(charl__ckpt_shape_format(out, &s->x_shape));
    CHARL_TRY(charl__text_printf(out, "\ny_dtype %s\ny_shape ", charl_dtype_name(s->y_dtype)));
    CHARL_TRY(charl__ckpt_shape_format(out, &s->y_shape));
    CHARL_TRY(charl__text_printf(out, "\nclasses %lld\nlayout %s\nfit %s\ntokenizer %s\n", (long long)s->classes,
                                 s->layout, s->fit, s->tokenizer_kind));
    return CHARL_OK;
}

static charl_checkpoint_tensor tensor(const char *name, charl_dtype dtype, int64_t n, const void *data)
{
    return (charl_checkpoint_tensor){
        .group = CHARL__CKPT_SCHEMA, .name = name, .dtype = dtype, .shape = {1, {n}}, .data = data};
}

charl_status charl__ckpt_schema_tensors(const charl_data_schema *s, charl__text *description,
                                        charl_checkpoint_tensor out[CHARL__CKPT_SCHEMA_MOST], int *n)
{
    *n = 0;
    CHARL_TRY(describe(s, description));
    out[(*n)++] = tensor("description", CHARL_U8, (int64_t)description->length, description->data);
    for (int i = 0; i < LISTS; i++) {
        const char *text = *(char *const *)(const void *)((const char *)s + lists[i].offset);

        if (text[0]) {
            out[(*n)++] = tensor(lists[i].name, CHARL_U8, (int64_t)strlen(text), text);
        }
    }
    if (s->n_stats > 0) {
        out[(*n)++] = tensor("mean", CHARL_F32, s->n_stats, s->mean);
        out[(*n)++] = tensor("std", CHARL_F32, s->n_stats, s->std);
    }
    if (s->n_target_stats > 0) {
        out[(*n)++] = tensor("target_mean", CHARL_F32, s->n_target_stats, s->target_mean);
        out[(*n)++] = tensor("target_std", CHARL_F32, s->n_target_stats, s->target_std);
    }
    if (s->tokenizer) {
        out[(*n)++] = tensor("tokenizer", s->tokenizer->layout->dtype, s->tokenizer->n, s->tokenizer->state);
    }
    return CHARL_OK;
}

/* The value of line "key value\n" at *at, which moves to the next line; NULL when there is no such
 * line. The line is cut off. */
static char *next_line(char **at, const char *key)
{
    const size_t length = strlen(key);
    char *line = *at, *end = strchr(line, '\n');

    if (!end || strncmp(line, key, length) != 0 || line[length] != ' ') {
        return NULL;
    }
    *end = '\0';
    *at = end + 1;
    return line + length + 1;
}

static charl_status parse_description(const char *path, char *text, charl_data_schema *s)
{
    static const char *const keys[] = {"kind",    "x_dtype", "x_shape", "y_dtype",  "y_shape",
                                       "classes", "layout",  "fit",     "tokenizer"};
    enum { KEYS = sizeof keys / sizeof keys[0] };
    char *value[KEYS], *end = NULL;

    for (int i = 0; i < KEYS; i++) {
        value[i] = next_line(&text, keys[i]);
        CHARL_REQUIRE(value[i], CHARL_ERR_CHECKPOINT, "%s: /schema/description lacks %s", path, keys[i]);
    }
    s->kind = charl__dataset_kind_of(value[0]);
    s->classes = strtoll(value[5], &end, 10);
    CHARL_REQUIRE(charl__ckpt_dtype_parse(value[1], &s->x_dtype) && charl__ckpt_shape_parse(value[2], &s->x_shape) &&
                      charl__ckpt_dtype_parse(value[3], &s->y_dtype) &&
                      charl__ckpt_shape_parse(value[4], &s->y_shape) && end != value[5] && !*end && !text[0],
                  CHARL_ERR_CHECKPOINT, "%s: /schema/description is malformed", path);
    CHARL_TRY(charl__schema_set(&s->layout, value[6]));
    CHARL_TRY(charl__schema_set(&s->fit, value[7]));
    return charl__schema_set(&s->tokenizer_kind, value[8]);
}

static charl_status load_list(const char *path, const charl_checkpoint_tensor *t, char **out)
{
    const char *text = t->data;

    CHARL_REQUIRE(t->dtype == CHARL_U8 && t->shape.ndim == 1 && strlen(text) == (size_t)t->shape.dim[0],
                  CHARL_ERR_CHECKPOINT, "%s: /schema/%s is not text", path, t->name);
    return charl__schema_set(out, text);
}

/* A mean or std; the other one may be there already. */
static charl_status load_stats(const char *path, const charl_checkpoint_tensor *t, const float *other, int64_t *n,
                               float **out)
{
    CHARL_REQUIRE(t->dtype == CHARL_F32 && t->shape.ndim == 1 && !*out && (!other || *n == t->shape.dim[0]),
                  CHARL_ERR_CHECKPOINT, "%s: /schema/%s is not a list of f32", path, t->name);
    *n = t->shape.dim[0];
    CHARL_TRY(charl__alloc_array(*n + 1, sizeof **out, out));
    memcpy(*out, t->data, (size_t)*n * sizeof **out);
    return CHARL_OK;
}

static charl_status load_tokenizer(const char *path, const charl_checkpoint_tensor *t, charl_data_schema *s)
{
    charl_status st = CHARL_OK;
    const charl__tokenizer_layout *layout = charl__tokenizer_layout_find(s->tokenizer_kind);

    CHARL_REQUIRE(layout && t->dtype == layout->dtype && t->shape.ndim == 1 && !s->tokenizer, CHARL_ERR_CHECKPOINT,
                  "%s: /schema/tokenizer is not one of type %s", path, s->tokenizer_kind);
    st = charl__tokenizer_restore(layout, t->data, t->shape.dim[0], &s->tokenizer);
    CHARL_REQUIRE(st != CHARL_ERR_DATA, CHARL_ERR_CHECKPOINT, "%s: /schema/tokenizer: %s", path, charl_error_message());
    CHARL_TRY(st);
    return CHARL_OK;
}

static charl_status load_one(const char *path, const charl_checkpoint_tensor *t, charl_data_schema *s)
{
    for (int i = 0; i < LISTS; i++) {
        if (strcmp(t->name, lists[i].name) == 0) {
            return load_list(path, t, (char **)(void *)((char *)s + lists[i].offset));
        }
    }
    if (strcmp(t->name, "mean") == 0) {
        return load_stats(path, t, s->std, &s->n_stats, &s->mean);
    }
    if (strcmp(t->name, "std") == 0) {
        return load_stats(path, t, s->mean, &s->n_stats, &s->std);
    }
    if (strcmp(t->name, "target_mean") == 0) {
        return load_stats(path, t, s->target_std, &s->n_target_stats, &s->target_mean);
    }
    if (strcmp(t->name, "target_std") == 0) {
        return load_stats(path, t, s->target_mean, &s->n_target_stats, &s->target_std);
    }
    if (strcmp(t->name, "tokenizer") == 0) {
        return load_tokenizer(path, t, s);
    }
    CHARL_FAIL(CHARL_ERR_CHECKPOINT, "%s: /schema/%s is not expected in a checkpoint", path, t->name);
    return CHARL_OK;
}

charl_status charl__ckpt_schema_load(const char *path, const charl_checkpoint_tensor *tensors, int n,
                                     charl_data_schema **out)
{
    CHARL_SCOPED(charl__schema_left) charl_data_schema *s = NULL;
    CHARL_SCOPED_FREE char *description = NULL;

    *out = NULL;
    CHARL_TRY(charl__schema_new(&s));
    CHARL_REQUIRE(strcmp(tensors[0].name, "description") == 0, CHARL_ERR_CHECKPOINT,
                  "%s: /schema does not begin with its description", path);
    CHARL_TRY(load_list(path, &tensors[0], &description));
    CHARL_TRY(parse_description(path, description, s));
    for (int i = 1; i < n; i++) {
        CHARL_TRY(load_one(path, &tensors[i], s));
    }
    CHARL_REQUIRE(!s->mean == !s->std && !s->target_mean == !s->target_std, CHARL_ERR_CHECKPOINT,
                  "%s: /schema has a mean or a std without the other", path);
    CHARL_TRY(charl__schema_check(s, path, CHARL_ERR_CHECKPOINT));
    *out = s;
    s = NULL;
    return CHARL_OK;
}
