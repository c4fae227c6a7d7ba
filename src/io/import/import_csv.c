/* CSV to a dataset. The first pass counts the rows and collects the classes; the second parses
 * numbers and writes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/numeric/hash.h"
#include "base/text/text.h"
#include "charl/dataset.h"
#include "io/dataset/dataset_write.h"
#include "io/import/import_csv.h"
#include "io/import/import_table.h"
#include "io/import/importer.h"

enum { MAX_CLASSES = 100000, SLOTS = 1 << 18, MAX_ID = 100000, BLOCK_ROWS = 256 };

typedef struct csv_import {
    const char *path;
    charl__table table;
    bool regression;
    int *label; /* [n_labels] columns of the targets */
    int n_labels;
    bool named;     /* a label was found by its name, not by its index */
    bool *is_label; /* [n_columns] */
    int64_t rows;
    bool ids;       /* every class is an integer from 0: the label itself */
    int n_classes;  /* distinct class names */
    char **names;   /* [n_classes]; after the first pass sorted by their bytes: class i is names[i] */
    int32_t *slots; /* [SLOTS] hash table of names: index + 1 */
} csv_import;

static bool parse_index(const char *text, long *out)
{
    char *end;

    errno = 0;
    *out = strtol(text, &end, 10);
    return text[0] && *end == '\0' && errno == 0;
}

/* Keep the name of a class once. */
static charl_status add_class(csv_import *c, const char *name)
{
    uint64_t slot = charl__fnv1a64_string(name) % SLOTS;
    const char *why = charl__name_fault(name);

    for (; c->slots[slot]; slot = (slot + 1) % SLOTS) {
        if (strcmp(c->names[c->slots[slot] - 1], name) == 0) {
            return CHARL_OK;
        }
    }
    CHARL_REQUIRE(c->n_classes < MAX_CLASSES, CHARL_ERR_DATA,
                  "%s: the labels in column %s have more than %d different values, too many for "
                  "classes; HINT a target that is a number needs --regression",
                  charl__table_place(&c->table), charl__table_column(&c->table, c->label[0]), MAX_CLASSES);
    CHARL_REQUIRE(!why, CHARL_ERR_DATA, "%s: a class name %s", charl__table_place(&c->table), why);
    CHARL_TRY(charl__strdup(name, &c->names[c->n_classes]));
    c->slots[slot] = ++c->n_classes;
    return CHARL_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static charl_status find_class(const csv_import *c, const char *name, int32_t *id)
{
    char *const *found = bsearch(&name, c->names, (size_t)c->n_classes, sizeof *c->names, by_name);

    CHARL_REQUIRE(found, CHARL_ERR_DATA, "%s: the file changed while it was being read", c->path);
    *id = (int32_t)(found - c->names);
    return CHARL_OK;
}

/* Which column `wanted` means, given the first record. */
static charl_status find_label(csv_import *c, const char *wanted, int *column)
{
    const int n = c->table.n_columns;
    long index = -1;

    *column = -1;
    for (int i = 0; wanted && i < n; i++) {
        if (strcmp(charl__table_field(&c->table, i), wanted) == 0) {
            *column = i;
            c->named = c->named || !charl__is_number(wanted);
            return CHARL_OK;
        }
    }
    CHARL_REQUIRE(!wanted || parse_index(wanted, &index), CHARL_ERR_CONFIG, "%s: there is no column \"%s\"", c->path,
                  wanted);
    index = index < 0 ? index + n : index;
    CHARL_REQUIRE(index >= 0 && index < n, CHARL_ERR_CONFIG, "%s: column %s of %d columns", c->path,
                  wanted ? wanted : "-1", n);
    *column = (int)index;
    return CHARL_OK;
}

static charl_status add_label(csv_import *c, const char *name)
{
    int column;

    CHARL_TRY(find_label(c, name, &column));
    CHARL_REQUIRE(!c->is_label[column], CHARL_ERR_CONFIG, "%s: column %s is a target twice", c->path, name);
    c->is_label[column] = true;
    c->label[c->n_labels++] = column;
    return CHARL_OK;
}

/* The columns of the targets. A name with a comma in it is one column where there is such a one. */
static charl_status find_labels(csv_import *c, const char *wanted)
{
    charl_status st = CHARL_OK;
    const int n = c->table.n_columns;
    bool one = !wanted || !strchr(wanted, ',');
    char *copy = NULL;

    CHARL_TRY_CLEANUP(charl__alloc_array(n, sizeof *c->label, &c->label));
    CHARL_TRY_CLEANUP(charl__alloc_array(n, sizeof *c->is_label, &c->is_label));
    for (int i = 0; wanted && i < n; i++) {
        one = one || strcmp(charl__table_field(&c->table, i), wanted) == 0;
    }
    if (one) {
        CHARL_TRY_CLEANUP(add_label(c, wanted));
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(charl__strdup(wanted, &copy));
    for (char *name = copy, *next; name; name = next) {
        next = strchr(name, ',');
        if (next) {
            *next++ = '\0';
        }
        CHARL_TRY_CLEANUP(add_label(c, name));
    }
    CHARL_REQUIRE_CLEANUP(c->n_labels < n, CHARL_ERR_CONFIG,
                          "%s: every column is a target, and nothing is left to tell it from", c->path);
cleanup:
    charl_free(copy);
    return st;
}

/* Names are not numbers. A line with some of each may be a header or a row with a typing error:
 * a guess would lose a row, or take names for data. */
static charl_status has_header(const csv_import *c, charl_csv_header asked, bool *header)
{
    int number = -1, text = -1; /* the first column with such a field */

    for (int i = c->table.n_columns - 1; i >= 0; i--) {
        const char *field = charl__table_field(&c->table, i);

        if (field[0] && charl__is_number(field)) {
            number = i;
        } else if (field[0] && !c->is_label[i]) {
            text = i;
        }
    }
    *header = asked == CHARL_CSV_HEADER_YES || c->named || text >= 0;
    if (asked == CHARL_CSV_HEADER_NO) {
        *header = false;
    } else if (asked == CHARL_CSV_HEADER_AUTO && !c->named && text >= 0) {
        CHARL_REQUIRE(number < 0, CHARL_ERR_DATA,
                      "%s: \"%.40s\" in column %d is not a number, but \"%.40s\" in column %d is: "
                      "this line may be a header or a row; HINT correct the value, or say which it "
                      "is: --header yes or --header no",
                      charl__table_place(&c->table), charl__table_field(&c->table, text), text,
                      charl__table_field(&c->table, number), number);
    }
    return CHARL_OK;
}

static charl_status read_first(csv_import *c, const charl_csv_options *csv)
{
    bool header;

    CHARL_REQUIRE(c->table.n_columns >= 2, CHARL_ERR_DATA,
                  "%s: %d column; a table needs a target and at least one more", c->path, c->table.n_columns);
    CHARL_TRY(find_labels(c, csv->label));
    CHARL_TRY(has_header(c, csv->header, &header));
    if (header) {
        CHARL_TRY(charl__table_take_header(&c->table));
    }
    return CHARL_OK;
}

static charl_status note_row(csv_import *c)
{
    const char *label = charl__table_field(&c->table, c->label[0]);
    long id = 0;

    c->rows++;
    if (c->regression || c->n_labels > 1) {
        return CHARL_OK;
    }
    CHARL_REQUIRE(label[0], CHARL_ERR_DATA, "%s: the label is missing", charl__table_place(&c->table));
    c->ids = c->ids && parse_index(label, &id) && id >= 0 && id < MAX_ID;
    CHARL_TRY(add_class(c, label));
    return CHARL_OK;
}

static charl_status first_pass(csv_import *c, const charl_csv_options *csv)
{
    bool more;

    c->ids = true;
    CHARL_TRY(read_first(c, csv));
    for (;;) {
        CHARL_TRY(charl__table_next(&c->table, &more));
        if (!more) {
            break;
        }
        CHARL_TRY(note_row(c));
    }
    CHARL_REQUIRE(c->rows > 0, CHARL_ERR_DATA, "%s: a header but no rows", c->path);
    if (c->n_classes > 0) {
        qsort(c->names, (size_t)c->n_classes, sizeof *c->names, by_name);
    }
    return CHARL_OK;
}

static charl_status parse_class(csv_import *c, int32_t *y)
{
    const char *label = charl__table_field(&c->table, c->label[0]);
    long id = 0;

    if (c->ids && parse_index(label, &id)) {
        *y = (int32_t)id;
    } else {
        CHARL_TRY(find_class(c, label, y));
    }
    return CHARL_OK;
}

/* One of several labels: yes or no. */
static charl_status parse_flag(const csv_import *c, int column, int32_t *y)
{
    const char *field = charl__table_field(&c->table, column);

    CHARL_REQUIRE(strcmp(field, "0") == 0 || strcmp(field, "1") == 0, CHARL_ERR_DATA,
                  "%s: column %s: \"%.40s\" is neither 0 nor 1, as each of several labels must "
                  "be; HINT targets that are numbers need --regression",
                  charl__table_place(&c->table), charl__table_column(&c->table, column), field);
    *y = field[0] - '0';
    return CHARL_OK;
}

/* The current row. y is i32 or f32 [n_labels]. */
static charl_status parse_row(csv_import *c, float *x, uint32_t *y)
{
    for (int i = 0; i < c->table.n_columns; i++) {
        if (!c->is_label[i]) {
            CHARL_TRY(charl__table_number(&c->table, i, x++));
        }
    }
    for (int i = 0; i < c->n_labels; i++) {
        void *at = &y[i];

        if (c->regression) {
            CHARL_TRY(charl__table_number(&c->table, c->label[i], at));
        } else if (c->n_labels > 1) {
            CHARL_TRY(parse_flag(c, c->label[i], at));
        } else {
            CHARL_TRY(parse_class(c, at));
        }
    }
    return CHARL_OK;
}

static charl_status second_pass(csv_import *c, charl__writer *w)
{
    charl_status st = CHARL_OK;
    const int k = c->table.n_columns - c->n_labels, m = c->n_labels;
    float *x = NULL;
    uint32_t *y = NULL; /* i32 or f32 */
    int filled = 0;
    bool more;

    CHARL_TRY_CLEANUP(charl__alloc_array((int64_t)k * BLOCK_ROWS, sizeof *x, &x));
    CHARL_TRY_CLEANUP(charl__alloc_array((int64_t)m * BLOCK_ROWS, sizeof *y, &y));
    CHARL_TRY_CLEANUP(charl__table_rewind(&c->table));
    for (;;) {
        CHARL_TRY_CLEANUP(charl__table_next(&c->table, &more));
        if (!more) {
            break;
        }
        CHARL_TRY_CLEANUP(parse_row(c, x + (ptrdiff_t)k * filled, y + (ptrdiff_t)m * filled));
        if (++filled == BLOCK_ROWS) {
            CHARL_TRY_CLEANUP(charl__writer_put(w, x, y, filled));
            filled = 0;
        }
    }
    CHARL_TRY_CLEANUP(charl__writer_put(w, x, y, filled));
cleanup:
    charl_free(y);
    charl_free(x);
    return st;
}

/* Names as a list, one per line. */
static charl_status write_list(charl__writer *w, const char *name, char *const *names, int n)
{
    charl_status st = CHARL_OK;
    charl__text list = {0};

    for (int i = 0; i < n; i++) {
        CHARL_TRY_CLEANUP(charl__text_printf(&list, "%s%s", i ? "\n" : "", names[i]));
    }
    CHARL_TRY_CLEANUP(charl__writer_text(w, name, charl__text_string(&list)));
cleanup:
    charl__text_fini(&list);
    return st;
}

static charl_status write_names(const csv_import *c, charl__writer *w)
{
    charl_status st = CHARL_OK;
    char **names = NULL;
    int n = 0;

    if (c->table.names) {
        CHARL_TRY_CLEANUP(charl__alloc_array(c->table.n_columns, sizeof *names, &names));
        for (int i = 0; i < c->table.n_columns; i++) {
            if (!c->is_label[i]) {
                names[n++] = c->table.names[i];
            }
        }
        CHARL_TRY_CLEANUP(write_list(w, "columns", names, n));
        for (int i = 0; i < c->n_labels; i++) {
            names[i] = c->table.names[c->label[i]];
        }
        CHARL_TRY_CLEANUP(write_list(w, "targets", names, c->n_labels));
    }
    if (!c->regression && c->n_labels == 1 && !c->ids) {
        CHARL_TRY_CLEANUP(write_list(w, "class_names", c->names, c->n_classes));
    }
cleanup:
    charl_free(names);
    return st;
}

static void close_import(csv_import *c)
{
    charl__table_close(&c->table);
    for (int i = 0; i < c->n_classes; i++) {
        charl_free(c->names[i]);
    }
    charl_free(c->names);
    charl_free(c->slots);
    charl_free(c->label);
    charl_free(c->is_label);
}

charl_status charl_import_csv(const char *path, const charl_csv_options *csv, const char *out,
                              const charl_import_options *opt)
{
    charl_status st = CHARL_OK;
    const charl_csv_options none = {0};
    csv_import c = {.path = path};
    charl__writer_spec spec = {.x_dtype = CHARL_F32};
    charl__writer *w = NULL;

    csv = csv ? csv : &none;
    c.regression = csv->regression;
    CHARL_TRY_CLEANUP(charl__alloc_array(MAX_CLASSES, sizeof *c.names, &c.names));
    CHARL_TRY_CLEANUP(charl__alloc_array(SLOTS, sizeof *c.slots, &c.slots));
    CHARL_TRY_CLEANUP(charl__table_open(&c.table, path, csv->separator));
    CHARL_TRY_CLEANUP(first_pass(&c, csv));
    spec.kind = c.regression ? CHARL_DATASET_REGRESSION : CHARL_DATASET_TABLE;
    spec.values = c.regression;
    spec.x_item = (charl_shape){1, {c.table.n_columns - c.n_labels}};
    spec.y_item = (charl_shape){c.regression || c.n_labels > 1, {c.n_labels}};
    spec.classes = c.n_labels > 1 && !c.regression ? 2 : 0;
    spec.rows = c.rows;
    CHARL_TRY_CLEANUP(charl__writer_create(out, &spec, opt, &w));
    CHARL_TRY_CLEANUP(write_names(&c, w));
    CHARL_TRY_CLEANUP(second_pass(&c, w));
    CHARL_TRY_CLEANUP(charl__writer_finish(w));
cleanup:
    charl__writer_destroy(w);
    close_import(&c);
    return st;
}

typedef struct csv_settings {
    charl_csv_options csv;
    const char *separator;
} csv_settings;

static bool check_settings(const void *settings, const char **key, char *reason)
{
    char separator;

    *key = "separator";
    snprintf(reason, CHARL_REASON_BYTES, CHARL_CSV_SEPARATOR);
    return charl_csv_separator(((const csv_settings *)settings)->separator, &separator);
}

static charl_status run_csv(const void *settings, const char *const *files, int n, const char *out,
                            const charl_import_options *opt)
{
    const csv_settings *s = settings;
    charl_csv_options csv = s->csv;

    (void)n;
    CHARL_REQUIRE(charl_csv_separator(s->separator, &csv.separator), CHARL_ERR_CONFIG,
                  "separator: " CHARL_CSV_SEPARATOR);
    return charl_import_csv(files[0], &csv, out, opt);
}

static const charl_key keys[] = {
    {"label", CHARL_KEY_TEXT, offsetof(csv_settings, csv.label), NULL, false,
     "target column, by name or index from 0 (default: the last); A,B,C: several binary targets "
     "or, "
     "with --regression, several numbers",
     NULL},
    {"regression", CHARL_KEY_BOOL, offsetof(csv_settings, csv.regression), NULL, false,
     "the target is a number instead of a class", NULL},
    {"separator", CHARL_KEY_TEXT, offsetof(csv_settings, separator), NULL, false,
     "field separator (default: comma); tab for tabs", NULL},
    {"header", CHARL_KEY_CHOICE, offsetof(csv_settings, csv.header), NULL, false,
     "whether the first line names the columns (default: auto, yes if it contains no numbers)", "auto|yes|no"},
};
static const csv_settings defaults = {.separator = ","};

const charl_importer charl__importer_csv = {
    .row.name = "csv",
    .row.help = "a table, one sample per row",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .row.check = check_settings,
    .files = "FILE",
    .group = 1,
    .most = 1,
    .run = run_csv,
};
