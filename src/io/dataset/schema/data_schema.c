/* Schemas: created from a data set, copied, checked, compared. */
#include "io/dataset/schema/data_schema.h"
#include "io/dataset/dataset_private.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/utf8.h"
#include "io/schema.h"
#include "io/scoped.h"
#include "io/tokenizer.h"

const charl__schema_text charl__schema_texts[CHARL__SCHEMA_TEXTS] = {
    {"names of classes", "class names", offsetof(charl_data_schema, class_names)},
    {"names of columns", "columns", offsetof(charl_data_schema, columns)},
    {"names of targets", "targets", offsetof(charl_data_schema, targets)},
    {"recipe", "recipe", offsetof(charl_data_schema, recipe)},
    {"layout", "layout", offsetof(charl_data_schema, layout)},
    {"fit", "fit", offsetof(charl_data_schema, fit)},
    {"tokenizer", "tokenizer", offsetof(charl_data_schema, tokenizer_kind)},
    {"names of inputs and targets", "fields", offsetof(charl_data_schema, fields)},
};

charl_status charl__schema_new(charl_data_schema **out)
{
    CHARL_SCOPED(charl__schema_left) charl_data_schema *s = NULL;

    *out = NULL;
    CHARL_TRY(charl__alloc(sizeof *s, &s));
    for (int i = 0; i < CHARL__SCHEMA_TEXTS; i++) {
        CHARL_TRY(charl__strdup("", charl__schema_text_of(s, i)));
    }
    *out = s;
    s = NULL;
    return CHARL_OK;
}

void charl_data_schema_destroy(charl_data_schema *s)
{
    if (!s) {
        return;
    }
    for (int i = 0; i < CHARL__SCHEMA_TEXTS; i++) {
        charl_free(*charl__schema_text_of(s, i));
    }
    charl_free(s->mean);
    charl_free(s->std);
    charl_free(s->target_mean);
    charl_free(s->target_std);
    charl__tokenizer_release(s->tokenizer);
    charl_free(s);
}

charl_status charl__schema_set(char **text, const char *to)
{
    char *copy = NULL;

    CHARL_TRY(charl__strdup(to, &copy));
    charl_free(*text);
    *text = copy;
    return CHARL_OK;
}

/* Replace means and deviations by n others. */
static charl_status set_stats(int64_t n, const float *mean, const float *std, int64_t *own_n, float **own_mean,
                              float **own_std)
{
    charl_free(*own_mean);
    charl_free(*own_std);
    *own_mean = *own_std = NULL;
    *own_n = 0;
    if (n > 0) {
        CHARL_TRY(charl__alloc_array(n, sizeof *mean, own_mean));
        CHARL_TRY(charl__alloc_array(n, sizeof *std, own_std));
        memcpy(*own_mean, mean, (size_t)n * sizeof *mean);
        memcpy(*own_std, std, (size_t)n * sizeof *std);
        *own_n = n;
    }
    return CHARL_OK;
}

static charl_status set_target_stats(charl_data_schema *s, int64_t n, const float *mean, const float *std)
{
    return set_stats(n, mean, std, &s->n_target_stats, &s->target_mean, &s->target_std);
}

void charl__schema_drop_target_stats(charl_data_schema *s)
{
    (void)!set_target_stats(s, 0, NULL, NULL);
}

/* A copy of texts and targets' scales, with other means and deviations of the samples; the rest is not set. */
static charl_status copy_stored(const charl_data_schema *s, int64_t n_stats, const float *mean, const float *std,
                                charl_data_schema **out)
{
    CHARL_TRY(charl__schema_new(out));
    for (int i = 0; i < CHARL__SCHEMA_TEXTS; i++) {
        CHARL_TRY(charl__schema_set(charl__schema_text_of(*out, i), *charl__schema_text_of(s, i)));
    }
    CHARL_TRY(set_stats(n_stats, mean, std, &(*out)->n_stats, &(*out)->mean, &(*out)->std));
    return set_target_stats(*out, s->n_target_stats, s->target_mean, s->target_std);
}

charl_status charl_data_schema_create(const charl_dataset *ds, int64_t n_stats, const float *mean, const float *std,
                                      charl_data_schema **out)
{
    CHARL_GIVEN(ds, mean || n_stats == 0, std || n_stats == 0, out);
    CHARL_SCOPED(charl__schema_left) charl_data_schema *s = NULL;
    charl_dataset_info info;

    *out = NULL;
    charl_dataset_get_info(ds, &info);
    CHARL_TRY(copy_stored(ds->n_parts > 0 ? ds->part[0]->stored : ds->stored, n_stats, mean, std, &s));
    s->kind = info.kind;
    s->x_dtype = info.x_dtype;
    s->x_shape = info.x_shape;
    s->y_dtype = info.y_dtype;
    s->y_shape = info.y_shape;
    s->classes = info.classes;
    CHARL_TRY(charl__schema_set(&s->tokenizer_kind, info.tokenizer)); /* of a mix */
    if (charl__kind_has_tokens(info.kind) && info.tokenizer[0]) {
        CHARL_TRY(charl__dataset_tokenizer(ds, &s->tokenizer));
    }
    CHARL_TRY(charl__schema_check(s, info.path, CHARL_ERR_DATA));
    *out = s;
    s = NULL;
    return CHARL_OK;
}

charl_status charl__schema_use_outputs(charl_data_schema *s, const charl_dataset *ds)
{
    static const float zero = 0.0F, one = 1.0F; /* any numbers: mean and std of s stay */
    CHARL_SCOPED(charl__schema_left) charl_data_schema *own = NULL;

    CHARL_TRY(charl_data_schema_create(ds, s->n_stats > 0, &zero, &one, &own));
    if (charl__kind_has_tokens(s->kind) && charl__kind_has_tokens(own->kind)) {
        s->kind = own->kind; /* a language model becomes a classifier of texts */
        s->x_dtype = own->x_dtype;
        s->x_shape = own->x_shape;
    }
    s->y_dtype = own->y_dtype;
    s->y_shape = own->y_shape;
    s->classes = own->classes;
    CHARL_TRY(charl__schema_set(&s->class_names, own->class_names));
    CHARL_TRY(charl__schema_set(&s->targets, own->targets));
    CHARL_TRY(charl__schema_set(&s->fields, own->fields));
    CHARL_TRY(set_target_stats(s, own->n_target_stats, own->target_mean, own->target_std));
    CHARL_TRY(charl__schema_set(&s->tokenizer_kind, own->tokenizer_kind));
    charl__tokenizer_release(s->tokenizer);
    s->tokenizer = own->tokenizer;
    own->tokenizer = NULL;
    return CHARL_OK;
}

charl_status charl__data_schema_normalized(const charl_data_schema *s, int64_t n_stats, const float *mean,
                                           const float *std, charl_data_schema **out)
{
    CHARL_GIVEN(s, mean || n_stats == 0, std || n_stats == 0, out);
    CHARL_SCOPED(charl__schema_left) charl_data_schema *c = NULL;

    *out = NULL;
    CHARL_TRY(copy_stored(s, n_stats, mean, std, &c));
    c->kind = s->kind;
    c->x_dtype = s->x_dtype;
    c->x_shape = s->x_shape;
    c->y_dtype = s->y_dtype;
    c->y_shape = s->y_shape;
    c->classes = s->classes;
    if (s->tokenizer) {
        c->tokenizer = charl__tokenizer_retain(s->tokenizer);
    }
    *out = c;
    c = NULL;
    return CHARL_OK;
}

charl_status charl__data_schema_copy(const charl_data_schema *s, charl_data_schema **out)
{
    CHARL_GIVEN(s, out);
    return charl__data_schema_normalized(s, s->n_stats, s->mean, s->std, out);
}

void charl__data_schema_get_info(const charl_data_schema *s, const char *path, charl_dataset_info *out)
{
    if (!out) {
        return;
    }
    *out = (charl_dataset_info){0};
    if (!s) {
        return;
    }
    *out = (charl_dataset_info){.kind = s->kind,
                                .path = path,
                                .x_dtype = s->x_dtype,
                                .x_shape = s->x_shape,
                                .stored_dtype = s->x_dtype,
                                .labelled = true,
                                .y_dtype = s->y_dtype,
                                .y_shape = s->y_shape,
                                .classes = s->classes,
                                .n_stats = (int)s->n_stats,
                                .mean = s->mean,
                                .n_target_stats = (int)s->n_target_stats,
                                .target_mean = s->target_mean,
                                .target_std = s->target_std,
                                .std = s->std,
                                .layout = s->layout,
                                .fit = s->fit,
                                .class_names = s->class_names,
                                .columns = s->columns,
                                .targets = s->targets,
                                .recipe = s->recipe,
                                .fields = s->fields,
                                .tokenizer = s->tokenizer_kind,
                                .note = ""};
}

charl_dataset_kind charl__dataset_kind_of(const char *name)
{
    int kind = 0;

    while (kind < CHARL_DATASET_KIND_COUNT && strcmp(name, charl_dataset_kind_name((charl_dataset_kind)kind)) != 0) {
        kind++;
    }
    return (charl_dataset_kind)kind;
}

/* The named inputs and targets fill the rows of x and y. */
static charl_status check_fields(const charl_data_schema *s, const char *path, charl_status code)
{
    charl__field f[2 * CHARL__MAX_FIELDS];
    const int n = charl__fields_parse(s->fields, f);
    int64_t count[2] = {0, 0};

    for (int i = 0; i < n; i++) {
        count[f[i].target] = f[i].first + f[i].count;
    }
    CHARL_REQUIRE(
        n == 0 ||
            (n > 0 && s->x_dtype == CHARL_F32 && s->x_shape.ndim == 1 && s->x_shape.dim[0] == count[0] &&
             (count[1] == 0 || (s->y_dtype == CHARL_F32 && s->y_shape.ndim == 1 && s->y_shape.dim[0] == count[1]))),
        code, "%s: schema: the named inputs and targets do not fit the samples", path);
    return CHARL_OK;
}

charl_status charl__schema_check(const charl_data_schema *s, const char *path, charl_status code)
{
    const bool tokens = charl__kind_has_tokens(s->kind);
    const int64_t channels = s->x_shape.ndim > 0 ? s->x_shape.dim[0] : 1;

    CHARL_REQUIRE(s->kind < CHARL_DATASET_KIND_COUNT, code, "%s: schema: unknown kind of data", path);
    CHARL_REQUIRE(s->classes >= 0 && s->classes <= INT32_MAX, code, "%s: schema: %lld classes", path,
                  (long long)s->classes);
    CHARL_REQUIRE(s->n_stats == (tokens ? 0 : 1) || (!tokens && s->n_stats == channels), code,
                  "%s: schema: %lld means do not fit samples with %lld channels or columns", path,
                  (long long)s->n_stats, (long long)channels);
    for (int64_t i = 0; i < s->n_stats; i++) {
        CHARL_REQUIRE(isfinite(s->mean[i]) && isfinite(s->std[i]) && s->std[i] > 0, code,
                      "%s: schema: mean %g and std %g of channel %lld cannot be used", path, (double)s->mean[i],
                      (double)s->std[i], (long long)i);
    }
    CHARL_REQUIRE(s->n_target_stats == 0 ||
                      (s->y_dtype == CHARL_F32 && s->y_shape.ndim == 1 && s->n_target_stats == s->y_shape.dim[0]),
                  code, "%s: schema: %lld means do not fit the targets", path, (long long)s->n_target_stats);
    for (int64_t i = 0; i < s->n_target_stats; i++) {
        CHARL_REQUIRE(isfinite(s->target_mean[i]) && isfinite(s->target_std[i]) && s->target_std[i] > 0, code,
                      "%s: schema: mean %g and std %g of target %lld cannot be used", path, (double)s->target_mean[i],
                      (double)s->target_std[i], (long long)i);
    }
    for (int i = 0; i < CHARL__SCHEMA_TEXTS; i++) {
        const char *text = *charl__schema_text_of(s, i);

        CHARL_REQUIRE(charl__utf8_valid(text, strlen(text)) == strlen(text), code, "%s: the %s are not UTF-8", path,
                      charl__schema_texts[i].plain);
    }
    CHARL_REQUIRE(!s->tokenizer || s->kind == CHARL_DATASET_SEQUENCES || (tokens && s->tokenizer->vocab <= s->classes),
                  code, "%s: schema: the tokenizer does not fit the data", path);
    return check_fields(s, path, code);
}

static bool same_floats(const float *a, const float *b, int64_t n)
{
    return n == 0 || memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

charl_status charl__schema_diff(const charl_data_schema *a, const charl_data_schema *b, charl__text *out)
{
    if (!a || !b) {
        if (a || b) {
            CHARL_TRY(charl__text_printf(out, "schema: only in the %s\n", a ? "first" : "second"));
        }
        return CHARL_OK;
    }
    if (a->kind != b->kind || a->x_dtype != b->x_dtype || a->y_dtype != b->y_dtype ||
        !charl_shape_equal(&a->x_shape, &b->x_shape) || !charl_shape_equal(&a->y_shape, &b->y_shape)) {
        CHARL_TRY(charl__text_printf(out, "schema: kind, type or shape of the samples differs\n"));
    }
    if (a->classes != b->classes) {
        CHARL_TRY(
            charl__text_printf(out, "schema: classes: %lld, %lld\n", (long long)a->classes, (long long)b->classes));
    }
    for (int i = 0; i < CHARL__SCHEMA_TEXTS; i++) {
        if (strcmp(*charl__schema_text_of(a, i), *charl__schema_text_of(b, i)) != 0) {
            CHARL_TRY(charl__text_printf(out, "schema: %s: other text\n", charl__schema_texts[i].plain));
        }
    }
    if (a->n_stats != b->n_stats || !same_floats(a->mean, b->mean, a->n_stats) ||
        !same_floats(a->std, b->std, a->n_stats)) {
        CHARL_TRY(charl__text_printf(out, "schema: mean or std differs\n"));
    }
    if (a->n_target_stats != b->n_target_stats || !same_floats(a->target_mean, b->target_mean, a->n_target_stats) ||
        !same_floats(a->target_std, b->target_std, a->n_target_stats)) {
        CHARL_TRY(charl__text_printf(out, "schema: mean or std of the targets differs\n"));
    }
    if (!charl__tokenizer_equal(a->tokenizer, b->tokenizer)) {
        CHARL_TRY(charl__text_printf(out, "schema: the tokenizer differs\n"));
    }
    return CHARL_OK;
}
