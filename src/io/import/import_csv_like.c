/* Rows of a CSV file to a dataset, by a recipe: that of an earlier import, or the one that was just decided. They go the way of rows to predict
 * (io/rows), so that a model reads a file as its training read it. A second file is read twice: for the number of rows and their classes, and to
 * write them. */
#include "io/import/import_csv_like.h"

#include <string.h>

#include "base/alloc.h"
#include "charl/data_schema.h"
#include "io/dataset/dataset_write.h"
#include "io/dataset/order/split.h"
#include "io/import/importer.h"
#include "io/rows/rows.h"

enum { BLOCK_ROWS = 256 };

typedef struct like_import {
    const char *path, *like;
    const charl_import_options *common;
    charl_dataset *ds;
    charl_data_schema *schema;
    charl__rows_options options;
    int64_t n;         /* rows in all */
    int32_t *class_of; /* [n] of one label */
    uint8_t *val;
    int64_t *places;    /* of targets; not used */
    char *target_names; /* for a message */
} like_import;

/* What the other dataset has decided already. */
static charl_status refuse_decided(const charl_csv_options *csv)
{
    const struct {
        const char *name;
        bool given;
    } decided[] = {{"label", csv->label != NULL},
                   {"regression", csv->regression},
                   {"columns", csv->columns != NULL},
                   {"drop", csv->drop != NULL},
                   {"words", csv->words != NULL},
                   {"missing", csv->missing != NULL},
                   {"na", csv->na != NULL},
                   {"values", csv->values != NULL},
                   {"skip", csv->skip != 0},
                   {"dates", csv->dates != CHARL_CSV_DATES_AUTO},
                   {"header", csv->header != CHARL_CSV_HEADER_AUTO}};

    for (size_t i = 0; i < sizeof decided / sizeof *decided; i++) {
        CHARL_REQUIRE(!decided[i].given, CHARL_ERR_CONFIG, "--%s cannot be used with --like: %s already defines it",
                      decided[i].name, csv->like);
    }
    return CHARL_OK;
}

static void pass_notes(const like_import *c, charl__rows *rows)
{
    for (int warnings = 0; warnings < 2; warnings++) {
        char *text = charl__rows_take_notes(rows, warnings);

        for (char *line = text, *end; line && *line; line = end) {
            end = line + strcspn(line, "\n");
            charl__import_note(c->common, "%.*s", (int)(end - line), line);
            end += *end == '\n';
        }
        charl_free(text);
    }
}

/* All rows: `n` to the writer or, where that is NULL, those of a second file to be counted. */
static charl_status pass(const charl__rows_options *o, charl__writer *w, int64_t n, like_import *c)
{
    charl_status st = CHARL_OK;
    const charl_data_schema *s = o->schema;
    const bool is_class = s->kind == CHARL_DATASET_TABLE && s->y_shape.ndim == 0;
    charl__rows *rows = NULL;
    char *x = NULL;
    void *y = NULL; /* i32 or f32 */
    int64_t row = 0, got;

    CHARL_TRY_CLEANUP(
        charl__alloc_array(BLOCK_ROWS * charl_shape_count(&s->x_shape), charl_dtype_size(s->x_dtype), &x));
    CHARL_TRY_CLEANUP(
        charl__alloc_array(BLOCK_ROWS * charl_shape_count(&s->y_shape), charl_dtype_size(s->y_dtype), &y));
    CHARL_TRY_CLEANUP(charl__rows_open(o, &rows));
    CHARL_REQUIRE_CLEANUP(charl__rows_has_targets(rows), CHARL_ERR_DATA, "%s has not all targets of %s: %s",
                          o->paths[0], o->model, c ? c->target_names : "");
    for (;; row += got) {
        CHARL_TRY_CLEANUP(charl__rows_next(rows, BLOCK_ROWS, x, y, &got));
        if (got == 0) {
            break;
        }
        for (int64_t i = 0; c && is_class && i < got; i++) {
            CHARL_TRY_CLEANUP(charl__grow(row + i, sizeof *c->class_of, &c->class_of));
            c->class_of[row + i] = ((const int32_t *)y)[i];
        }
        CHARL_REQUIRE_CLEANUP(!w || row + got <= n, CHARL_ERR_DATA, "%s: the file changed while it was being read",
                              o->paths[0]);
        CHARL_TRY_CLEANUP(w ? charl__writer_put(w, x, y, got) : CHARL_OK);
    }
    if (c) {
        c->n = row;
        pass_notes(c, rows);
    }
cleanup:
    charl__rows_close(rows);
    charl_free(x);
    charl_free(y);
    return st;
}

charl_status charl__import_csv_rows(const charl__rows_options *options, int64_t n, const uint8_t *val, bool plain,
                                    const char *out, const charl_import_options *opt)
{
    charl_status st = CHARL_OK;
    const charl_data_schema *s = options->schema;
    const bool values = s->y_dtype == CHARL_F32;
    const charl__writer_spec spec = {.kind = s->kind,
                                     .x_dtype = s->x_dtype,
                                     .x_item = s->x_shape,
                                     .values = values,
                                     .scales = values,
                                     .y_item = s->y_shape,
                                     .classes = options->places && s->y_shape.ndim == 0 ? 0 : s->classes,
                                     .rows = n,
                                     .val = val};
    charl__writer *w = NULL;

    CHARL_TRY_CLEANUP(charl__writer_create(out, &spec, opt, &w));
    CHARL_TRY_CLEANUP(charl__writer_text(w, "columns", s->columns));
    CHARL_TRY_CLEANUP(charl__writer_text(w, "targets", s->targets));
    CHARL_TRY_CLEANUP(charl__writer_text(w, "class_names", s->class_names));
    CHARL_TRY_CLEANUP(charl__writer_text(w, "recipe", plain ? "" : s->recipe));
    CHARL_TRY_CLEANUP(pass(options, w, n, NULL));
    CHARL_TRY_CLEANUP(charl__writer_finish(w));
cleanup:
    charl__writer_destroy(w);
    return st;
}

static charl_status open_like(like_import *c, const charl_csv_options *csv)
{
    charl_dataset_info info;

    CHARL_TRY(refuse_decided(csv));
    CHARL_TRY(charl_dataset_open(c->like, NULL, &c->ds));
    charl_dataset_get_info(c->ds, &info);
    CHARL_REQUIRE((info.kind == CHARL_DATASET_TABLE || info.kind == CHARL_DATASET_REGRESSION) && info.labelled &&
                      info.n_stats > 0,
                  CHARL_ERR_CONFIG, "--like %s: not a table written by charl data import csv", c->like);
    CHARL_REQUIRE(info.targets[0], CHARL_ERR_CONFIG,
                  "--like %s: its target has no name by which another file could have it; HINT import it from a file "
                  "whose first line "
                  "has names",
                  c->like);
    CHARL_TRY(charl_names_match(info.targets, "", &c->places, &c->target_names));
    CHARL_TRY(charl_data_schema_create(c->ds, info.n_stats, info.mean, info.std, &c->schema));
    c->options = (charl__rows_options){.schema = c->schema,
                                       .imports = true,
                                       .model = c->like,
                                       .paths = &c->path,
                                       .n_paths = 1,
                                       .separator = csv->separator,
                                       .decimal = csv->decimal == CHARL_CSV_DECIMAL_AUTO    ? '\0'
                                                  : csv->decimal == CHARL_CSV_DECIMAL_COMMA ? ','
                                                                                            : '.'};
    return CHARL_OK;
}

charl_status charl__import_csv_like(const char *path, const charl_csv_options *csv, const char *out,
                                    const charl_import_options *opt)
{
    charl_status st = CHARL_OK;
    const charl_import_options no_options = {0};
    like_import c = {.path = path, .like = csv->like, .common = opt ? opt : &no_options};

    CHARL_TRY_CLEANUP(open_like(&c, csv));
    CHARL_TRY_CLEANUP(pass(&c.options, NULL, 0, &c));
    CHARL_REQUIRE_CLEANUP(c.n > 0, CHARL_ERR_DATA, "%s: a header but no rows", path);
    CHARL_TRY_CLEANUP(charl__split_choose(path, c.class_of, c.n, c.common, &c.val));
    CHARL_TRY_CLEANUP(charl__import_csv_rows(&c.options, c.n, c.val, false, out, opt));
cleanup:
    charl_data_schema_destroy(c.schema);
    charl_dataset_close(c.ds);
    charl_free(c.class_of);
    charl_free(c.val);
    charl_free(c.places);
    charl_free(c.target_names);
    return st;
}
