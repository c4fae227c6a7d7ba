/* CSV to a table. The first pass finds the header, the rows and the classes; the second parses
 * numbers and writes. */
#include "io/import/import_csv.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/text.h"
#include "charl/dataset.h"
#include "io/dataset/dataset_write.h"

enum { MAX_CLASSES = 10000, SLOTS = 32768, MAX_ID = 100000, BLOCK_ROWS = 256 };

typedef struct csv_import {
    const char *path;
    charl__source *source;
    charl__csv *csv;
    bool regression;
    int n_columns;
    int *label; /* [n_labels] columns of the targets */
    int n_labels;
    bool *is_label; /* [n_columns] */
    bool header;
    int64_t rows;
    bool ids;       /* every class is an integer from 0: the label itself */
    int n_classes;  /* distinct class names */
    char **names;   /* [n_classes] */
    int16_t *slots; /* [SLOTS] hash table of names: index + 1 */
    charl__text columns;
} csv_import;

/* A decimal number and nothing else; strtod alone would take hexadecimal, infinities and NaN. */
static bool parse_number(const char *text, double *out)
{
    char *end;

    if (!text[0] || strspn(text, "0123456789+-.eE") != strlen(text)) {
        return false;
    }
    *out = strtod(text, &end);
    return *end == '\0';
}

static bool parse_index(const char *text, long *out)
{
    char *end;

    errno = 0;
    *out = strtol(text, &end, 10);
    return text[0] && *end == '\0' && errno == 0;
}

static charl_status find_class(csv_import *c, const char *name, bool add, int *id)
{
    charl_status st = CHARL_OK;
    uint64_t slot = charl__fnv1a64_string(name) % SLOTS;
    const char *why;

    while (c->slots[slot]) {
        *id = c->slots[slot] - 1;
        if (strcmp(c->names[*id], name) == 0) {
            goto cleanup;
        }
        slot = (slot + 1) % SLOTS;
    }
    CHARL_REQUIRE(add, CHARL_ERR_DATA, "%s: the file changed while it was being read", c->path);
    CHARL_REQUIRE(
        c->n_classes < MAX_CLASSES, CHARL_ERR_DATA,
        "%s:%lld: more than %d classes; HINT a target that is a number needs --regression", c->path,
        (long long)charl__csv_line(c->csv), MAX_CLASSES);
    why = charl__name_fault(name);
    CHARL_REQUIRE(!why, CHARL_ERR_DATA, "%s:%lld: a class name %s", c->path,
                  (long long)charl__csv_line(c->csv), why);
    CHARL_TRY(charl_strdup(name, &c->names[c->n_classes]));
    *id = c->n_classes++;
    c->slots[slot] = (int16_t)(*id + 1);
cleanup:
    return st;
}

/* Which column `wanted` means, given the first record. */
static charl_status find_label(csv_import *c, const char *wanted, int *column)
{
    charl_status st = CHARL_OK;
    long index = -1;

    *column = -1;
    for (int i = 0; wanted && i < c->n_columns; i++) {
        if (strcmp(charl__csv_field(c->csv, i), wanted) == 0) {
            *column = i;
            goto cleanup;
        }
    }
    CHARL_REQUIRE(!wanted || parse_index(wanted, &index), CHARL_ERR_CONFIG,
                  "%s: there is no column \"%s\"", c->path, wanted);
    index = index < 0 ? index + c->n_columns : index;
    CHARL_REQUIRE(index >= 0 && index < c->n_columns, CHARL_ERR_CONFIG,
                  "%s: column %s of %d columns", c->path, wanted ? wanted : "-1", c->n_columns);
    *column = (int)index;
cleanup:
    return st;
}

static charl_status add_label(csv_import *c, const char *name)
{
    charl_status st = CHARL_OK;
    int column;

    CHARL_TRY(find_label(c, name, &column));
    CHARL_REQUIRE(!c->is_label[column], CHARL_ERR_CONFIG, "%s: column %s is a target twice",
                  c->path, name);
    c->is_label[column] = true;
    c->label[c->n_labels++] = column;
cleanup:
    return st;
}

/* The columns of the targets. A name with a comma in it is one column where there is such a one. */
static charl_status find_labels(csv_import *c, const char *wanted)
{
    charl_status st = CHARL_OK;
    bool one = !wanted || !strchr(wanted, ',');
    char *copy = NULL;

    CHARL_TRY(charl_alloc_array(c->n_columns, sizeof *c->label, &c->label));
    CHARL_TRY(charl_alloc_array(c->n_columns, sizeof *c->is_label, &c->is_label));
    for (int i = 0; wanted && i < c->n_columns; i++) {
        one = one || strcmp(charl__csv_field(c->csv, i), wanted) == 0;
    }
    if (one) {
        CHARL_TRY(add_label(c, wanted));
        goto cleanup;
    }
    CHARL_TRY(charl_strdup(wanted, &copy));
    for (char *name = copy, *next; name; name = next) {
        next = strchr(name, ',');
        if (next) {
            *next++ = '\0';
        }
        CHARL_TRY(add_label(c, name));
    }
    CHARL_REQUIRE(c->n_labels < c->n_columns, CHARL_ERR_CONFIG,
                  "%s: every column is a target, and nothing is left to tell it from", c->path);
cleanup:
    charl_free(copy);
    return st;
}

static charl_status read_first(csv_import *c, const charl_csv_options *csv)
{
    charl_status st = CHARL_OK;
    double ignored;

    CHARL_TRY(charl__csv_next(c->csv, &c->n_columns));
    CHARL_REQUIRE(c->n_columns >= 2, CHARL_ERR_DATA,
                  "%s: %d column; a table needs a target and at least one more", c->path,
                  c->n_columns);
    CHARL_TRY(find_labels(c, csv->label));
    for (int i = 0; i < c->n_columns; i++) {
        const char *field = charl__csv_field(c->csv, i);

        if (!c->is_label[i] && field[0] && !parse_number(field, &ignored)) {
            c->header = true;
        }
    }
    for (int i = 0; c->header && i < c->n_columns; i++) {
        const char *field = charl__csv_field(c->csv, i), *why = charl__name_fault(field);

        if (!c->is_label[i]) {
            CHARL_REQUIRE(!why, CHARL_ERR_DATA, "%s:%lld: the name of a column %s", c->path,
                          (long long)charl__csv_line(c->csv), why);
            CHARL_TRY(
                charl__text_printf(&c->columns, "%s%s", c->columns.length ? "\n" : "", field));
        }
    }
cleanup:
    return st;
}

static charl_status check_width(const csv_import *c, int n)
{
    charl_status st = CHARL_OK;

    CHARL_REQUIRE(n == c->n_columns, CHARL_ERR_DATA, "%s:%lld: %d fields, the first line has %d",
                  c->path, (long long)charl__csv_line(c->csv), n, c->n_columns);
cleanup:
    return st;
}

static charl_status note_record(csv_import *c)
{
    charl_status st = CHARL_OK;
    const char *label = charl__csv_field(c->csv, c->label[0]);
    long id = 0;
    int index;

    c->rows++;
    if (c->regression || c->n_labels > 1) {
        goto cleanup;
    }
    CHARL_REQUIRE(label[0], CHARL_ERR_DATA, "%s:%lld: the label is missing", c->path,
                  (long long)charl__csv_line(c->csv));
    c->ids = c->ids && parse_index(label, &id) && id >= 0 && id < MAX_ID;
    CHARL_TRY(find_class(c, label, true, &index));
cleanup:
    return st;
}

static charl_status first_pass(csv_import *c, const charl_csv_options *csv)
{
    charl_status st = CHARL_OK;
    int n;

    c->ids = true;
    CHARL_TRY(read_first(c, csv));
    n = c->n_columns;
    if (c->header) {
        CHARL_TRY(charl__csv_next(c->csv, &n));
    }
    while (n > 0) {
        CHARL_TRY(check_width(c, n));
        CHARL_TRY(note_record(c));
        CHARL_TRY(charl__csv_next(c->csv, &n));
    }
    CHARL_REQUIRE(c->rows > 0, CHARL_ERR_DATA, "%s: a header but no rows", c->path);
cleanup:
    return st;
}

static charl_status parse_field(const csv_import *c, int column, float *out)
{
    charl_status st = CHARL_OK;
    const char *field = charl__csv_field(c->csv, column);
    double value = 0;

    CHARL_REQUIRE(field[0], CHARL_ERR_DATA, "%s:%lld: column %d is missing", c->path,
                  (long long)charl__csv_line(c->csv), column);
    CHARL_REQUIRE(parse_number(field, &value), CHARL_ERR_DATA,
                  "%s:%lld: column %d: \"%.40s\" is not a number", c->path,
                  (long long)charl__csv_line(c->csv), column, field);
    *out = (float)value;
    CHARL_REQUIRE(isfinite(*out), CHARL_ERR_DATA, "%s:%lld: column %d: %s is too large for f32",
                  c->path, (long long)charl__csv_line(c->csv), column, field);
cleanup:
    return st;
}

static charl_status parse_class(csv_import *c, int32_t *y)
{
    charl_status st = CHARL_OK;
    const char *label = charl__csv_field(c->csv, c->label[0]);
    long id = 0;
    int index = 0;

    CHARL_TRY(find_class(c, label, false, &index));
    *y = c->ids && parse_index(label, &id) ? (int32_t)id : index;
cleanup:
    return st;
}

/* One of several labels: yes or no. */
static charl_status parse_flag(const csv_import *c, int column, int32_t *y)
{
    charl_status st = CHARL_OK;
    const char *field = charl__csv_field(c->csv, column);

    CHARL_REQUIRE(
        strcmp(field, "0") == 0 || strcmp(field, "1") == 0, CHARL_ERR_DATA,
        "%s:%lld: column %d: \"%.40s\" is neither 0 nor 1, as each of several labels must "
        "be; HINT targets that are numbers need --regression",
        c->path, (long long)charl__csv_line(c->csv), column, field);
    *y = field[0] - '0';
cleanup:
    return st;
}

/* The current record as one row. y is i32 or f32 [n_labels]. */
static charl_status parse_record(csv_import *c, float *x, uint32_t *y)
{
    charl_status st = CHARL_OK;

    for (int i = 0; i < c->n_columns; i++) {
        if (!c->is_label[i]) {
            CHARL_TRY(parse_field(c, i, x++));
        }
    }
    for (int i = 0; i < c->n_labels; i++) {
        void *at = &y[i];

        if (c->regression) {
            CHARL_TRY(parse_field(c, c->label[i], at));
        } else if (c->n_labels > 1) {
            CHARL_TRY(parse_flag(c, c->label[i], at));
        } else {
            CHARL_TRY(parse_class(c, at));
        }
    }
cleanup:
    return st;
}

static charl_status second_pass(csv_import *c, charl__writer *w)
{
    charl_status st = CHARL_OK;
    const int k = c->n_columns - c->n_labels, m = c->n_labels;
    float *x = NULL;
    uint32_t *y = NULL; /* i32 or f32 */
    int filled = 0;
    int n;

    CHARL_TRY(charl_alloc_array((int64_t)k * BLOCK_ROWS, sizeof *x, &x));
    CHARL_TRY(charl_alloc_array((int64_t)m * BLOCK_ROWS, sizeof *y, &y));
    CHARL_TRY(charl__csv_next(c->csv, &n));
    if (c->header) {
        CHARL_TRY(charl__csv_next(c->csv, &n));
    }
    while (n > 0) {
        CHARL_TRY(check_width(c, n));
        CHARL_TRY(parse_record(c, x + (ptrdiff_t)k * filled, y + (ptrdiff_t)m * filled));
        if (++filled == BLOCK_ROWS) {
            CHARL_TRY(charl__writer_put(w, x, y, filled));
            filled = 0;
        }
        CHARL_TRY(charl__csv_next(c->csv, &n));
    }
    CHARL_TRY(charl__writer_put(w, x, y, filled));
cleanup:
    charl_free(y);
    charl_free(x);
    return st;
}

static charl_status write_names(const csv_import *c, charl__writer *w)
{
    charl_status st = CHARL_OK;
    charl__text names = {0};

    if (c->header) {
        CHARL_TRY(charl__writer_text(w, "columns", charl__text_string(&c->columns)));
    }
    if (c->regression || c->n_labels > 1 || c->ids) {
        goto cleanup;
    }
    for (int i = 0; i < c->n_classes; i++) {
        CHARL_TRY(charl__text_printf(&names, "%s%s", i ? "\n" : "", c->names[i]));
    }
    CHARL_TRY(charl__writer_text(w, "class_names", charl__text_string(&names)));
cleanup:
    charl__text_fini(&names);
    return st;
}

static void close_import(csv_import *c)
{
    charl__csv_destroy(c->csv);
    charl__source_close(c->source);
    for (int i = 0; i < c->n_classes; i++) {
        charl_free(c->names[i]);
    }
    charl_free(c->names);
    charl_free(c->slots);
    charl_free(c->label);
    charl_free(c->is_label);
    charl__text_fini(&c->columns);
}

charl_status charl_import_csv(const char *path, const charl_csv_options *csv, const char *out,
                              const charl_import_options *opt)
{
    charl_status st = CHARL_OK;
    const charl_csv_options none = {0};
    csv_import c = {.path = path};
    charl__writer_spec spec = {.x_dtype = CHARL_F32};
    charl__writer *w = NULL;
    char separator;

    csv = csv ? csv : &none;
    c.regression = csv->regression;
    separator = csv->separator ? csv->separator : ',';
    CHARL_REQUIRE(!strchr("\"\r\n", separator), CHARL_ERR_CONFIG, "%s: unusable separator", path);
    CHARL_TRY(charl_alloc_array(MAX_CLASSES, sizeof *c.names, &c.names));
    CHARL_TRY(charl_alloc_array(SLOTS, sizeof *c.slots, &c.slots));
    CHARL_TRY(charl__source_open(path, &c.source));
    CHARL_TRY(charl__csv_create(c.source, separator, &c.csv));
    CHARL_TRY(first_pass(&c, csv));
    spec.kind = c.regression ? CHARL_DATASET_REGRESSION : CHARL_DATASET_TABLE;
    spec.values = c.regression;
    spec.x_item = (charl_shape){1, {c.n_columns - c.n_labels}};
    spec.y_item = (charl_shape){c.regression || c.n_labels > 1, {c.n_labels}};
    spec.classes = c.n_labels > 1 && !c.regression ? 2 : 0;
    spec.rows = c.rows;
    CHARL_TRY(charl__writer_create(out, &spec, opt, &w));
    CHARL_TRY(write_names(&c, w));
    charl__csv_destroy(c.csv);
    c.csv = NULL;
    CHARL_TRY(charl__source_rewind(c.source));
    CHARL_TRY(charl__csv_create(c.source, separator, &c.csv));
    CHARL_TRY(second_pass(&c, w));
    CHARL_TRY(charl__writer_finish(w));
cleanup:
    charl__writer_destroy(w);
    close_import(&c);
    return st;
}
