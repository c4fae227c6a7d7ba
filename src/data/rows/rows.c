/* Sources of rows: detects the kind of a path; code shared by all kinds. */
#include "data/rows/rows.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "data/image/image_files.h"
#include "io/commit.h"
#include "io/kind.h"
#include "data/rows/rows_private.h"
#include "data/table/table.h"
#include "io/dataset/labels.h"

/* The kind according to its contents; text is a table, or texts. */
static charl_status find_kind(const charl__rows *r, const char *path, const charl__rows_kind **out)
{
    const charl__kind *kind;
    struct stat s;

    *out = &charl__rows_images;
    if (r->o.imports && (charl__is_image_name(path) ||
                         charl__is_foreign_image_name(path))) { /* a missing one is reported like unreadable ones */
        return CHARL_OK;
    }
    CHARL_REQUIRE(stat(path, &s) == 0, CHARL_ERR_DATA, "%s: cannot be opened: %s", path, strerror(errno));
    if (S_ISDIR(s.st_mode) || charl__is_image_name(path)) {
        return CHARL_OK;
    }
    kind = charl__kind_of(path);
    *out = r->s->kind == CHARL_DATASET_SEQUENCES ? &charl__rows_texts : &charl__rows_csv;
    if (kind && kind->as != ~0U) { /* otherwise empty, or a device, which the reader reports */
        *out = kind->as & CHARL__KIND_IMAGE                                       ? &charl__rows_images
               : kind->as & (CHARL__KIND_NPY | CHARL__KIND_NPZ | CHARL__KIND_IDX) ? &charl__rows_npy
               : kind->as & CHARL__KIND_OF_HDF5                                   ? &charl__rows_dataset
                                                                                  : *out;
    }
    return CHARL_OK;
}

static charl_status find_kinds(charl__rows *r)
{
    for (int64_t i = 0; i < r->o.n_paths; i++) {
        const charl__rows_kind *kind;

        CHARL_TRY(find_kind(r, r->o.paths[i], &kind));
        r->kind = i == 0 ? kind : r->kind;
        CHARL_REQUIRE(r->kind == kind && (i == 0 || kind == &charl__rows_images || kind == &charl__rows_texts),
                      CHARL_ERR_CONFIG,
                      "%s and %s: several files are predicted at once only where all are images or texts",
                      r->o.paths[0], r->o.paths[i]);
    }
    CHARL_REQUIRE(!r->o.split || r->kind == &charl__rows_dataset, CHARL_ERR_CONFIG,
                  "--split %s: only data sets have splits; %s is not a data set", r->o.split, r->path);
    CHARL_REQUIRE(!r->o.id || r->kind == &charl__rows_csv, CHARL_ERR_CONFIG,
                  "--id %s: only the rows of a table (CSV) are named by a column, %s is none", r->o.id, r->path);
    CHARL_REQUIRE(!r->o.separator || r->kind == &charl__rows_csv || r->kind == &charl__rows_texts, CHARL_ERR_CONFIG,
                  "--separator is for CSV files, %s is none", r->path);
    return CHARL_OK;
}

static charl_status list_classes(charl__rows *r)
{
    CHARL_SCOPED(charl__text_fini) charl__text name = {0};
    int64_t index, n = 0;

    for (const char *at = r->s->class_names, *end; *at; at = end + (*end == '\n')) {
        end = at + strcspn(at, "\n");
        charl__text_clear(&name);
        CHARL_TRY(charl__text_append(&name, at, (size_t)(end - at)));
        CHARL_TRY(charl__name_set_add(&r->classes, name.data, &index));
        CHARL_REQUIRE(index == n++, CHARL_ERR_DATA, "%s has two classes with the name \"%s\"", r->o.model, name.data);
    }
    return CHARL_OK;
}

int32_t charl__rows_class(const charl__rows *r, const char *text)
{
    return r->classes.n > 0 ? (int32_t)charl__name_set_find(&r->classes, text)
                            : charl__parse_class(text, (int32_t)r->s->classes);
}

charl_status charl__rows_open(const charl__rows_options *o, charl__rows **out)
{
    CHARL_SCOPED(charl__rows_left) charl__rows *r = NULL;

    *out = NULL;
    CHARL_TRY(charl__alloc(sizeof *r, &r));
    r->o = *o;
    r->s = o->schema;
    r->path = o->paths[0];
    r->rows = -1;
    CHARL_REQUIRE(r->s->kind != CHARL_DATASET_TOKENS, CHARL_ERR_CONFIG,
                  "%s is a language model, which charl predict does not support; HINT charl "
                  "eval measures it, charl generate continues a text",
                  o->model);
    if (o->places) {
        r->kind = &charl__rows_csv;
    } else {
        CHARL_TRY(find_kinds(r));
    }
    r->subject = charl__base_name(r->path);
    CHARL_TRY(list_classes(r));
    CHARL_TRY(r->kind->open(r));
    *out = r;
    r = NULL;
    return CHARL_OK;
}

void charl__rows_close(charl__rows *r)
{
    if (!r) {
        return;
    }
    if (r->kind) {
        r->kind->close(r);
    }
    charl_free(r->self);
    charl_image_files_fini(&r->files);
    charl__name_set_fini(&r->classes);
    charl__text_fini(&r->first_skipped);
    charl__text_fini(&r->warnings);
    charl__text_fini(&r->notes);
    charl_free(r);
}

charl_status charl__rows_next(charl__rows *r, int64_t most, void *x, void *y, int64_t *n)
{
    *n = 0;
    CHARL_TRY(r->kind->next(r, most, x, y, n));
    r->begin = r->done;
    r->done += *n;
    return CHARL_OK;
}

charl_status charl__rows_count(charl__rows *r, int64_t *n)
{
    if (r->rows < 0) {
        CHARL_TRY(r->kind->count(r, &r->rows));
    }
    *n = r->rows;
    return CHARL_OK;
}

const char *charl__rows_name(const charl__rows *r, int64_t i)
{
    return r->kind->name ? r->kind->name(r, i) : NULL;
}

int64_t charl__rows_file(const charl__rows *r, int64_t i)
{
    return r->kind->file(r, i);
}

static charl_status append_line(charl__text *t, const char *fmt, va_list ap)
{
    char line[2048];

    vsnprintf(line, sizeof line, fmt, ap);
    CHARL_TRY(charl__text_printf(t, "%s%s", t->length > 0 ? "\n" : "", line));
    return CHARL_OK;
}

charl_status charl__rows_warn(charl__rows *r, const char *fmt, ...)
{
    charl_status st;
    va_list ap;

    va_start(ap, fmt);
    st = append_line(&r->warnings, fmt, ap);
    va_end(ap);
    return st;
}

charl_status charl__rows_note(charl__rows *r, const char *fmt, ...)
{
    charl_status st;
    va_list ap;

    va_start(ap, fmt);
    st = append_line(&r->notes, fmt, ap);
    va_end(ap);
    return st;
}

charl_status charl__rows_skip(charl__rows *r)
{
    char why[2048];

    snprintf(why, sizeof why, "%s", charl_error_message());
    charl_error_clear();
    if (r->skipped++ == 0) {
        CHARL_TRY(charl__text_printf(&r->first_skipped, "%s", why));
    }
    return charl__rows_warn(r, "%s", why);
}

char *charl__rows_drain_notes(charl__rows *r, bool warnings)
{
    return charl__text_steal(warnings ? &r->warnings : &r->notes);
}

const char *charl__rows_sample_text(const charl_data_schema *s)
{
    static _Thread_local char text[CHARL_SHAPE_TEXT + 16];
    char shape[CHARL_SHAPE_TEXT];

    snprintf(text, sizeof text, "%s %s", charl_dtype_name(s->x_dtype), charl_shape_format(&s->x_shape, shape));
    return text;
}
