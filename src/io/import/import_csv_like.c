/* CSV to a dataset by the recipe of another one: its schema says which columns, words, fills and classes there are, and the rows go the way of
 * rows to predict (io/rows). The file is read twice: for the number of rows and their classes, and to write them. */
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
    charl__rows *rows;
    char *x;           /* [BLOCK_ROWS, x_shape] */
    void *y;           /* [BLOCK_ROWS, y_shape] i32 or f32 */
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

static void pass_notes(like_import *c)
{
    for (int warnings = 0; warnings < 2; warnings++) {
        char *text = charl__rows_take_notes(c->rows, warnings);

        for (char *line = text, *end; line && *line; line = end) {
            end = line + strcspn(line, "\n");
            charl__import_note(c->common, "%.*s", (int)(end - line), line);
            end += *end == '\n';
        }
        charl_free(text);
    }
}

/* Every row, to the writer or, where it is NULL, to be counted. */
static charl_status pass(like_import *c, charl__writer *w)
{
    const bool is_class = c->schema->kind == CHARL_DATASET_TABLE && c->schema->y_shape.ndim == 0;
    int64_t row = 0, n;

    CHARL_TRY(charl__rows_open(&c->options, &c->rows));
    CHARL_REQUIRE(charl__rows_has_targets(c->rows), CHARL_ERR_DATA, "%s has not all targets of %s: %s", c->path,
                  c->like, c->target_names);
    for (;;) {
        CHARL_TRY(charl__rows_next(c->rows, BLOCK_ROWS, c->x, c->y, &n));
        if (n == 0) {
            break;
        }
        for (int64_t i = 0; !w && is_class && i < n; i++) {
            CHARL_TRY(charl__grow(row + i, sizeof *c->class_of, &c->class_of));
            c->class_of[row + i] = ((const int32_t *)c->y)[i];
        }
        row += n;
        CHARL_REQUIRE(!w || row <= c->n, CHARL_ERR_DATA, "%s: the file changed while it was being read", c->path);
        CHARL_TRY(w ? charl__writer_put(w, c->x, c->y, n) : CHARL_OK);
    }
    if (!w) {
        pass_notes(c);
    }
    CHARL_REQUIRE(row > 0, CHARL_ERR_DATA, "%s: a header but no rows", c->path);
    c->n = row;
    charl__rows_close(c->rows);
    c->rows = NULL;
    return CHARL_OK;
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
    CHARL_TRY(charl__alloc_array(BLOCK_ROWS * charl_shape_count(&c->schema->x_shape),
                                 charl_dtype_size(c->schema->x_dtype), &c->x));
    CHARL_TRY(charl__alloc_array(BLOCK_ROWS * charl_shape_count(&c->schema->y_shape),
                                 charl_dtype_size(c->schema->y_dtype), &c->y));
    return CHARL_OK;
}

charl_status charl__import_csv_like(const char *path, const charl_csv_options *csv, const char *out,
                                    const charl_import_options *opt)
{
    charl_status st = CHARL_OK;
    const charl_import_options no_options = {0};
    like_import c = {.path = path, .like = csv->like, .common = opt ? opt : &no_options};
    charl__writer_spec spec = {0};
    charl__writer *w = NULL;

    CHARL_TRY_CLEANUP(open_like(&c, csv));
    CHARL_TRY_CLEANUP(pass(&c, NULL));
    CHARL_TRY_CLEANUP(charl__split_choose(path, c.class_of, c.n, c.common, &c.val));
    spec = (charl__writer_spec){.kind = c.schema->kind,
                                .x_dtype = c.schema->x_dtype,
                                .x_item = c.schema->x_shape,
                                .values = c.schema->y_dtype == CHARL_F32,
                                .scales = c.schema->y_dtype == CHARL_F32,
                                .y_item = c.schema->y_shape,
                                .classes = c.schema->classes,
                                .rows = c.n,
                                .val = c.val};
    CHARL_TRY_CLEANUP(charl__writer_create(out, &spec, opt, &w));
    CHARL_TRY_CLEANUP(charl__writer_text(w, "columns", c.schema->columns));
    CHARL_TRY_CLEANUP(charl__writer_text(w, "targets", c.schema->targets));
    CHARL_TRY_CLEANUP(charl__writer_text(w, "class_names", c.schema->class_names));
    CHARL_TRY_CLEANUP(charl__writer_text(w, "recipe", c.schema->recipe));
    CHARL_TRY_CLEANUP(pass(&c, w));
    CHARL_TRY_CLEANUP(charl__writer_finish(w));
cleanup:
    charl__writer_destroy(w);
    charl__rows_close(c.rows);
    charl_data_schema_destroy(c.schema);
    charl_dataset_close(c.ds);
    charl_free(c.x);
    charl_free(c.y);
    charl_free(c.class_of);
    charl_free(c.val);
    charl_free(c.places);
    charl_free(c.target_names);
    return st;
}
