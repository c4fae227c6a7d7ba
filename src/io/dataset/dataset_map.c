/* Other data for a model: labels, columns and targets are matched by name, once, and every read
 * delivers them in the model's order. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "io/dataset/schema/data_schema.h"
#include "io/dataset/dataset_private.h"
#include "io/schema.h"
#include "io/tokenizer.h"

typedef struct mapping {
    charl_dataset *ds;
    const charl_data_schema *s;
    const char *model;
    bool all;
    charl__text notes;
} mapping;

static CHARL_PRINTF(2, 3) charl_status note(mapping *m, const char *fmt, ...)
{
    char line[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    CHARL_TRY(charl__text_printf(&m->notes, "%s%s", m->notes.length ? "\n" : "", line));
    return CHARL_OK;
}

/* Whether two lists of names must be matched: if both exist and differ. */
static charl_status is_named(mapping *m, const char *what, const char *how, const char *own, const char *model,
                             bool *out)
{
    const char *path = m->ds->file.path;

    *out = own[0] && model[0] && strcmp(own, model) != 0;
    if (!own[0] != !model[0]) {
        CHARL_TRY(note(m,
                       "%s names no %s, %s does: they are matched by %s, which is right only if "
                       "the order is that of the training data",
                       own[0] ? m->model : path, what, own[0] ? path : m->model, how));
    }
    return CHARL_OK;
}

/* charl__names_match, where the message says which list has a duplicate name. */
static charl_status match(const char *of, const char *in, const char *in_path, const char *what, int64_t **index,
                          char **missing)
{
    return charl__error_in(charl__names_match(of, in, index, missing), CHARL_ERR_DATA, "%s: %s: ", in_path, what);
}

static charl_status check_shape(const mapping *m)
{
    charl_dataset_info own;
    char have[CHARL_SHAPE_TEXT], want[CHARL_SHAPE_TEXT];

    charl_dataset_get_info(m->ds, &own);
    CHARL_REQUIRE(charl_shape_equal(&own.x_shape, &m->s->x_shape), CHARL_ERR_DATA,
                  "samples of %s are %s, %s was trained on %s%s", own.path, charl_shape_format(&own.x_shape, have),
                  m->model, charl_shape_format(&m->s->x_shape, want),
                  m->s->kind == CHARL_DATASET_IMAGES && own.x_shape.ndim == 3
                      ? "; HINT import the images again with the --size and --channels of the model"
                      : "");
    return CHARL_OK;
}

/* The named inputs, and the targets if there are any, must be the model's; fewer classes and tokens may occur. */
static charl_status check_fields(const mapping *m)
{
    charl__field own[2 * CHARL__MAX_FIELDS], model[2 * CHARL__MAX_FIELDS];
    const int n_own = charl__fields_parse(m->ds->stored->fields, own), n = charl__fields_parse(m->s->fields, model);
    char have[CHARL_SHAPE_TEXT], want[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE((n > 0) == (n_own > 0), CHARL_ERR_DATA,
                  "%s %s named inputs, and %s was trained %s them; HINT data.x and data.y name them: NAME:/ARRAY, ...",
                  m->ds->file.path, n_own > 0 ? "has" : "has no", m->model, n > 0 ? "with" : "without");
    for (int i = 0; i < n && (!model[i].target || m->ds->views[CHARL_SPLIT_TRAIN].y); i++) {
        CHARL_REQUIRE(i < n_own && strcmp(own[i].name, model[i].name) == 0 && own[i].target == model[i].target,
                      CHARL_ERR_DATA, "%s has %s as %s %d of data.%s, %s was trained with %s there", m->ds->file.path,
                      i < n_own ? own[i].name : "nothing", model[i].target ? "target" : "input", i + 1,
                      model[i].target ? "y, counted with the inputs" : "x", m->model, model[i].name);
        CHARL_REQUIRE(own[i].kind == model[i].kind, CHARL_ERR_DATA,
                      "%s holds %s as %s, %s was trained on %s; HINT %s:/ARRAY:%s in data.%s says what they are",
                      m->ds->file.path, own[i].name, charl__field_kinds[own[i].kind], m->model,
                      charl__field_kinds[model[i].kind], model[i].name, charl__field_kinds[model[i].kind],
                      model[i].target ? "y" : "x");
        CHARL_REQUIRE(charl_shape_equal(&own[i].shape, &model[i].shape), CHARL_ERR_DATA,
                      "%s: samples of %s are %s, %s was trained on %s", m->ds->file.path, own[i].name,
                      charl_shape_format(&own[i].shape, have), m->model, charl_shape_format(&model[i].shape, want));
        CHARL_REQUIRE(
            own[i].target || own[i].least >= model[i].least, CHARL_ERR_DATA,
            "%s: %s has sequences that end in -1, %s was trained on whole ones; HINT train on data that have some",
            m->ds->file.path, own[i].name, m->model);
        CHARL_REQUIRE(own[i].classes <= model[i].classes, CHARL_ERR_DATA,
                      "%s: %s holds numbers up to %lld, %s was trained on numbers up to %lld", m->ds->file.path,
                      own[i].name, (long long)own[i].classes - 1, m->model, (long long)model[i].classes - 1);
    }
    return CHARL_OK;
}

static charl_status check_samples(mapping *m)
{
    charl_dataset_info own;
    const bool tokens = m->s->kind == CHARL_DATASET_TOKENS;

    charl_dataset_get_info(m->ds, &own);
    CHARL_REQUIRE((own.kind == CHARL_DATASET_TOKENS) == tokens &&
                      (own.kind == CHARL_DATASET_SEQUENCES) == (m->s->kind == CHARL_DATASET_SEQUENCES),
                  CHARL_ERR_DATA, "%s holds %s, %s was trained on %s", own.path, charl_dataset_kind_name(own.kind),
                  m->model, charl_dataset_kind_name(m->s->kind));
    if (tokens) {
        return CHARL_OK; /* of any window */
    }
    if (own.kind == CHARL_DATASET_SEQUENCES || !own.columns[0] || !m->s->columns[0]) { /* otherwise names say more */
        CHARL_TRY(check_shape(m));
    }
    CHARL_REQUIRE(own.kind != CHARL_DATASET_SEQUENCES || own.x_dtype == m->s->x_dtype, CHARL_ERR_DATA,
                  "tokens of %s are %s, those that %s was trained on %s", own.path, charl_dtype_name(own.x_dtype),
                  m->model, charl_dtype_name(m->s->x_dtype));
    if (own.x_dtype != m->s->x_dtype) {
        CHARL_TRY(note(m,
                       "samples of %s are %s, those that %s was trained on %s: right only if "
                       "they are in the same units",
                       own.path, charl_dtype_name(own.x_dtype), m->model, charl_dtype_name(m->s->x_dtype)));
    }
    if (own.fit[0] && m->s->fit[0] && strcmp(own.fit, m->s->fit) != 0) {
        CHARL_TRY(note(m, "images of %s were imported with --fit %s, %s was trained with --fit %s", own.path, own.fit,
                       m->model, m->s->fit));
    }
    return CHARL_OK;
}

/* The index in the file of every name that the model has; nothing else may be there. *from stays
 * NULL if the order is the model's. */
static charl_status map_places(mapping *m, const char *what, const char *own, const char *model, int64_t places,
                               int64_t **from)
{
    const char *path = m->ds->file.path;
    CHARL_SCOPED_FREE int64_t *unused = NULL;
    CHARL_SCOPED_FREE char *missing = NULL;
    bool named;

    CHARL_TRY(is_named(m, what, "position", own, model, &named));
    if (!named) {
        return CHARL_OK;
    }
    CHARL_REQUIRE(charl_names_count(own) == places, CHARL_ERR_DATA, "%s has %lld names for %lld %s", path,
                  (long long)charl_names_count(own), (long long)places, what);
    CHARL_TRY(match(model, own, path, what, from, &missing));
    CHARL_REQUIRE(!missing, CHARL_ERR_DATA, "%s has no %s %s, which %s was trained on", path, what, missing, m->model);
    CHARL_TRY(match(own, model, m->model, what, &unused, &missing));
    CHARL_REQUIRE(!missing, CHARL_ERR_DATA,
                  "%s has %s that %s was not trained on: %s; HINT import it again without them", path, what, m->model,
                  missing);
    return CHARL_OK;
}

static charl_status map_columns(mapping *m)
{
    const charl__array *x = m->ds->views[CHARL_SPLIT_TRAIN].x;

    return x->item.ndim != 1
               ? CHARL_OK
               : map_places(m, "columns", m->ds->stored->columns, m->s->columns, x->item.dim[0], &m->ds->column_map);
}

/* The name of a single label's column does not matter. */
static charl_status map_targets(mapping *m)
{
    const charl__array *y = m->ds->views[CHARL_SPLIT_TRAIN].y;
    char have[CHARL_SHAPE_TEXT], want[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(charl_shape_count(&y->item) == charl_shape_count(&m->s->y_shape), CHARL_ERR_DATA,
                  "targets of %s are %s, %s was trained on %s", m->ds->file.path, charl_shape_format(&y->item, have),
                  m->model, charl_shape_format(&m->s->y_shape, want));
    if (y->item.ndim == 1) {
        CHARL_TRY(map_places(m, "targets", m->ds->stored->targets, m->s->targets, y->item.dim[0], &m->ds->target_map));
    }
    return CHARL_OK;
}

static charl_status check_class_count(const mapping *m)
{
    const charl_dataset *ds = m->ds;

    CHARL_REQUIRE(m->all || ds->stored_classes <= m->s->classes, CHARL_ERR_DATA,
                  "%s has %lld classes, %s was trained on %lld", ds->file.path, (long long)ds->stored_classes, m->model,
                  (long long)m->s->classes);
    CHARL_REQUIRE(!m->all || ds->stored_classes == m->s->classes, CHARL_ERR_DATA,
                  "%s has %lld classes, %s was trained on %lld; HINT for other classes start the output "
                  "layer afresh: skip = LAYER.*",
                  ds->file.path, (long long)ds->stored_classes, m->model, (long long)m->s->classes);
    return CHARL_OK;
}

static charl_status map_classes(mapping *m)
{
    charl_dataset *ds = m->ds;
    CHARL_SCOPED(charl__text_fini) charl__text labels = {0};
    CHARL_SCOPED_FREE int64_t *unused = NULL;
    CHARL_SCOPED_FREE char *missing = NULL;
    bool named;

    if (ds->labels) { /* integers, which may be the numbers of classes or their names */
        CHARL_TRY(charl__labels_list(ds->labels, &labels));
        CHARL_TRY(charl__names_match(charl__text_string(&labels), m->s->class_names, &unused, &missing));
        if (ds->labels->are_names ? !m->s->class_names[0] : !missing) {
            CHARL_TRY(charl__dataset_name_labels(ds, !ds->labels->are_names));
        }
        charl_free(unused);
        charl_free(missing);
        unused = NULL;
        missing = NULL;
    }
    CHARL_TRY(is_named(m, "classes", "number", ds->stored->class_names, m->s->class_names, &named));
    if (!named) {
        CHARL_TRY(check_class_count(m));
        return CHARL_OK;
    }
    CHARL_REQUIRE(charl_names_count(ds->stored->class_names) == ds->stored_classes, CHARL_ERR_DATA,
                  "%s has %lld names for %lld classes", ds->file.path,
                  (long long)charl_names_count(ds->stored->class_names), (long long)ds->stored_classes);
    CHARL_TRY(match(ds->stored->class_names, m->s->class_names, m->model, "classes", &ds->class_map, &missing));
    CHARL_REQUIRE(!missing, CHARL_ERR_DATA, "%s has classes that %s was not trained on: %s; HINT remove their rows%s",
                  ds->file.path, m->model, missing, m->all ? ", or start the output layer afresh: skip = LAYER.*" : "");
    CHARL_TRY(match(m->s->class_names, ds->stored->class_names, ds->file.path, "classes", &unused, &missing));
    CHARL_REQUIRE(!missing || !m->all, CHARL_ERR_DATA,
                  "%s has no rows of classes that %s was trained on: %s; HINT add some, or start the output "
                  "layer afresh: skip = LAYER.*",
                  ds->file.path, m->model, missing);
    return CHARL_OK;
}

static charl_status check_tokenizer(mapping *m)
{
    const char *path = m->ds->file.path;
    CHARL_SCOPED(charl__tokenizer_left) charl_tokenizer *own = NULL;
    bool named;

    CHARL_REQUIRE(m->s->kind != CHARL_DATASET_TOKENS || m->ds->stored_classes <= m->s->classes, CHARL_ERR_DATA,
                  "%s has a vocabulary of %lld tokens, %s was trained on %lld", path, (long long)m->ds->stored_classes,
                  m->model, (long long)m->s->classes);
    CHARL_TRY(is_named(m, "tokenizer", "number", m->ds->stored->tokenizer_kind, m->s->tokenizer_kind, &named));
    CHARL_REQUIRE(!named, CHARL_ERR_DATA,
                  "%s holds tokens of a %s tokenizer, %s was trained on those of a %s tokenizer", path,
                  m->ds->stored->tokenizer_kind, m->model, m->s->tokenizer_kind);
    if (m->ds->stored->tokenizer_kind[0] && m->s->tokenizer) {
        CHARL_TRY(charl__dataset_tokenizer(m->ds, &own));
        CHARL_REQUIRE(charl__tokenizer_equal(own, m->s->tokenizer), CHARL_ERR_DATA,
                      "%s holds tokens of another %s tokenizer than that of %s; HINT import the "
                      "texts for training and evaluation together, with --val-split",
                      path, m->ds->stored->tokenizer_kind, m->model);
    }
    return CHARL_OK;
}

static charl_status map_all(mapping *m)
{
    charl_dataset *ds = m->ds;

    CHARL_TRY(check_fields(m));
    CHARL_TRY(check_samples(m));
    if (charl__kind_has_tokens(ds->kind)) {
        CHARL_TRY(check_tokenizer(m));
    } else {
        CHARL_TRY(map_columns(m));
        CHARL_TRY(check_shape(m)); /* even if columns have the same names */
    }
    if (ds->kind != CHARL_DATASET_TOKENS && ds->views[CHARL_SPLIT_TRAIN].y) {
        CHARL_TRY(map_targets(m));
    }
    if (ds->views[CHARL_SPLIT_TRAIN].y && !ds->values && m->s->y_dtype == CHARL_I32) {
        CHARL_TRY(map_classes(m));
    }
    if (!ds->values) {
        ds->classes = m->s->classes > ds->classes ? m->s->classes : ds->classes;
    }
    for (int i = 0; i < 3; i++) { /* names of classes, columns and targets, for which the model's take precedence */
        const char *names = *charl__schema_text_of(m->s, i);

        CHARL_TRY(names[0] ? charl__schema_set(charl__schema_text_of(ds->stored, i), names) : CHARL_OK);
    }
    return charl__schema_set(&ds->stored->fields, m->s->fields); /* its classes count */
}

charl_status charl__dataset_map(charl_dataset *ds, const charl_data_schema *s, const char *model, bool all,
                                char **notes)
{
    CHARL_GIVEN(ds, s, notes);
    charl_status st = CHARL_OK;
    mapping m = {.ds = ds, .s = s, .model = model, .all = all};

    *notes = NULL;
    CHARL_TRY_CLEANUP(map_all(&m));
    *notes = charl__text_steal(&m.notes);
cleanup:
    charl__text_fini(&m.notes);
    return st;
}
