/* CSV to a dataset. The first pass inspects every field: it counts the rows, collects the classes, and finds the kind of each column. If
 * means, medians or categories must come from the training rows only, a second one fits the recipe; the last converts and writes.
 *
 *      open, header -> look (look.c) -> decide -> split -> fit (fit.c) -> write
 */
#include "data/table/csv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "charl/data_schema.h"
#include "io/commit.h"
#include "io/kind.h"
#include "io/dataset/labels.h"
#include "io/dataset/order/split.h"
#include "io/dataset/text_labels.h"
#include "data/import/import_rows.h"
#include "io/schema.h"
#include "data/table/fit.h"
#include "data/table/look.h"
#include "data/import/importer.h"
#include "data/table/recipe.h"
#include "io/scoped.h"

enum { MANY_WORDS = 256, FEW_ROWS = 32, COUNTING_ROWS = 10 };

/* As listed by the keys. */
enum { HEADER_AUTO, HEADER_YES, HEADER_NO };
enum { DECIMAL_AUTO, DECIMAL_POINT, DECIMAL_COMMA };

/* The settings; NULL: not given. */
typedef struct csv_settings {
    const char *label;
    bool regression;
    const char *separator;
    int64_t skip;
    const char *columns, *drop, *categorical; /* lists of names or indexes, with commas */
    const char *missing, *na, *values;
    int header, decimal;
    int dates; /* charl__dates */
    const char *like;
} csv_settings;

typedef struct csv_import {
    const char *path;
    const csv_settings *o;
    const charl_import_options *common;
    char separator; /* 0: found */
    charl__table table;
    int *label; /* [n_labels] columns of the targets */
    int n_labels;
    bool named;             /* a label was named by its name, not by its index */
    charl__recipe recipe;   /* of all columns of the file */
    charl__look *look;      /* [columns] */
    bool *is_asked;         /* [columns] --missing names the column */
    charl__missing missing; /* the method for columns that --missing does not name */
    int64_t rows, left_out; /* rows used, and rows omitted because of a missing value */
    bool has_classes;       /* --categorical names the target */
    charl__look_at
        first_label; /* the label of line 1 if it was read as a row and is not a number: a header of numbers? */
    int64_t later_numbers, later_words; /* labels of the other rows; only counted in that case */
    charl__text_labels labels;          /* column of names of rows, if there is one */
    charl__text class_names;
    uint8_t *val;             /* [rows] 1: a row of the validation set; NULL: none, or the last ones */
    charl_data_schema schema; /* of the result */
} csv_import;

static bool parse_index(const char *text, long *out)
{
    char *end;

    errno = 0;
    *out = strtol(text, &end, 10);
    return text[0] && *end == '\0' && errno == 0;
}

static bool is_target(const csv_import *c, int column)
{
    return c->recipe.column[column].kind == CHARL__COLUMN_TARGET;
}

/* Whether a column becomes part of x. */
static bool is_input(const csv_import *c, int column)
{
    return c->recipe.column[column].kind <= CHARL__COLUMN_WORDS;
}

/* Whether the target is one class. */
static bool is_class(const csv_import *c)
{
    return !c->o->regression && c->n_labels == 1;
}

/* The column that `wanted` means, given the first record. */
static charl_status find_column(csv_import *c, const char *wanted, int *column, bool *by_name)
{
    const int n = c->table.n_columns;
    long index = -1;

    *column = charl__table_find(&c->table, wanted);
    *by_name = *column >= 0 && !charl__parse_number(wanted, '.', NULL);
    if (*column >= 0) {
        return CHARL_OK;
    }
    if (!parse_index(wanted, &index)) {
        return charl__table_no_column(&c->table, wanted, CHARL_ERR_CONFIG);
    }
    index = index < 0 ? index + n : index;
    CHARL_REQUIRE(index >= 0 && index < n, CHARL_ERR_CONFIG, "%s: column %s of %d columns", c->path, wanted, n);
    *column = (int)index;
    return CHARL_OK;
}

/* The setting of an option for one column. */
typedef charl_status column_setter(csv_import *c, const char *text, int column);

/* Every column of a list. A text with a comma in it is one column if such a column exists. */
static charl_status for_columns(csv_import *c, const char *list, column_setter *set)
{
    CHARL_SCOPED_FREE char *copy = NULL;
    const bool one = charl__table_find(&c->table, list) >= 0;
    bool by_name;
    int column;

    CHARL_TRY(charl__strdup(list, &copy));
    for (char *name = copy, *next; name; name = next) {
        next = one ? NULL : strchr(name, ',');
        if (next) {
            *next++ = '\0';
        }
        CHARL_TRY(find_column(c, name, &column, &by_name));
        c->named = c->named || by_name;
        CHARL_TRY(set(c, name, column));
    }
    return CHARL_OK;
}

static charl_status add_label(csv_import *c, const char *text, int column)
{
    CHARL_REQUIRE(!is_target(c, column), CHARL_ERR_CONFIG, "%s: column %s is a target twice", c->path, text);
    c->recipe.column[column].kind = CHARL__COLUMN_TARGET;
    c->label[c->n_labels++] = column;
    return CHARL_OK;
}

static charl_status keep_column(csv_import *c, const char *text, int column)
{
    CHARL_REQUIRE(!is_target(c, column), CHARL_ERR_CONFIG, "%s: --columns %s: it is the target", c->path, text);
    c->recipe.column[column].kind = CHARL__COLUMN_NUMBER;
    return CHARL_OK;
}

static charl_status drop_column(csv_import *c, const char *text, int column)
{
    CHARL_REQUIRE(!is_target(c, column), CHARL_ERR_CONFIG, "%s: --drop %s: it is the target", c->path, text);
    c->recipe.column[column].kind = CHARL__COLUMN_DROPPED;
    return CHARL_OK;
}

static charl_status set_categorical(csv_import *c, const char *text, int column)
{
    if (is_target(c, column) && is_class(c)) {
        c->has_classes = true;
        return CHARL_OK;
    }
    CHARL_REQUIRE(is_input(c, column), CHARL_ERR_CONFIG, "%s: --categorical %s: it is %s", c->path, text,
                  is_target(c, column) ? "the target, a number or one of several labels" : "left out");
    c->recipe.column[column].kind = CHARL__COLUMN_WORDS;
    c->look[column].collects = true;
    return CHARL_OK;
}

/* "METHOD" or "COLUMN:METHOD". */
static charl_status set_missing(csv_import *c, char *entry)
{
    char *colon = strrchr(entry, ':');
    const char *name = colon ? colon + 1 : entry;
    const charl__missing method = charl__missing_of(name);
    bool by_name;
    int column;

    CHARL_REQUIRE(method != CHARL__MISSING_METHODS, CHARL_ERR_CONFIG,
                  "--missing %s: \"%s\" is none of drop, mean, median and flag; HINT --missing mean, or for single "
                  "columns --missing "
                  "age:median,town:flag",
                  entry, name);
    if (!colon) {
        c->missing = method;
        return CHARL_OK;
    }
    *colon = '\0';
    CHARL_TRY(find_column(c, entry, &column, &by_name));
    CHARL_REQUIRE(!is_target(c, column) || method == CHARL__MISSING_DROP, CHARL_ERR_CONFIG,
                  "--missing %s:%s: a missing target can only be dropped", entry, name);
    c->recipe.column[column].missing = method;
    c->is_asked[column] = true;
    return CHARL_OK;
}

static charl_status read_missing(csv_import *c)
{
    CHARL_SCOPED_FREE char *copy = NULL;

    CHARL_TRY(charl__strdup(c->o->missing, &copy));
    for (char *entry = copy, *next; entry; entry = next) {
        next = strchr(entry, ',');
        if (next) {
            *next++ = '\0';
        }
        CHARL_TRY(set_missing(c, entry));
    }
    for (int i = 0; i < c->recipe.n; i++) {
        if (!c->is_asked[i] && (!is_target(c, i) || c->missing == CHARL__MISSING_DROP)) {
            c->recipe.column[i].missing = c->missing;
        }
    }
    return CHARL_OK;
}

/* Resolve the options that name columns, given the first record. */
static charl_status read_columns(csv_import *c)
{
    const int n = c->table.n_columns;

    CHARL_TRY(charl__recipe_init(&c->recipe, n));
    CHARL_TRY(charl__alloc_array(n, sizeof *c->label, &c->label));
    CHARL_TRY(charl__alloc_array(n, sizeof *c->look, &c->look));
    CHARL_TRY(charl__alloc_array(n, sizeof *c->is_asked, &c->is_asked));
    for (int i = 0; c->o->columns && i < n; i++) {
        c->recipe.column[i].kind = CHARL__COLUMN_DROPPED;
    }
    if (c->o->label) {
        CHARL_TRY(for_columns(c, c->o->label, add_label));
    } else {
        CHARL_TRY(add_label(c, "the last", n - 1));
    }
    if (c->o->columns) {
        CHARL_TRY(for_columns(c, c->o->columns, keep_column));
    }
    if (c->o->drop) {
        CHARL_TRY(for_columns(c, c->o->drop, drop_column));
    }
    if (c->o->categorical) {
        CHARL_TRY(for_columns(c, c->o->categorical, set_categorical));
    }
    if (c->o->missing) {
        CHARL_TRY(read_missing(c));
    }
    CHARL_REQUIRE(c->n_labels < n, CHARL_ERR_CONFIG, "%s: every column is a target; there is no input column left",
                  c->path);
    return CHARL_OK;
}

/* Names are not numbers. A line with some of each may be a header or a row with a typing error:
 * guessing could lose a row, or treat names as data. Consecutive numbers as names mean a table without names. */
static charl_status has_header(const csv_import *c, int asked, bool *header)
{
    enum { COUNTED = 3 };
    const charl__table *t = &c->table;
    const bool index = !charl__table_field(t, 0)[0]; /* a column without a name comes first */
    const int counted = charl__table_counts_columns(t);
    int number = -1, text = -1; /* the first column with such a field */

    for (int i = t->n_columns - 1; i >= 0; i--) {
        const char *field = charl__table_field(t, i);

        if (field[0] && (charl__parse_number(field, '.', NULL) || charl__parse_number(field, ',', NULL))) {
            number = i;
        } else if (field[0] && (index || !is_target(c, i))) {
            text = i;
        }
    }
    *header = t->parquet || asked == HEADER_YES || c->named || text >= 0 || counted >= COUNTED;
    if (t->parquet) {
        return CHARL_OK;
    }
    if (asked == HEADER_NO) {
        *header = false;
    } else if (asked == HEADER_AUTO && !c->named) {
        CHARL_REQUIRE(text < 0 || number < 0, CHARL_ERR_DATA,
                      "%s: \"%.40s\" in column %d is not a number, but \"%.40s\" in column %d is: "
                      "this line may be a header or a row; HINT correct the value, or say which it "
                      "is: --header yes or --header no",
                      charl__table_place(t), charl__table_field(t, text), text, charl__table_field(t, number), number);
        CHARL_REQUIRE(
            !index || text >= 0 || number < 0 || counted >= COUNTED, CHARL_ERR_DATA,
            "%s: an empty field and numbers: this line may be a header, such as one of years, or a row; HINT say "
            "which it is: --header yes or --header no",
            charl__table_place(t));
        CHARL_REQUIRE(counted == 0 || counted >= COUNTED, CHARL_ERR_DATA,
                      "%s: this line counts the columns from 0: it may be a header or a row; HINT say which it is: "
                      "--header yes or --header no",
                      charl__table_place(t));
        if (counted > 0) {
            charl__import_note(c->common, "the first line counts the columns from 0 and is taken as their names");
        }
    }
    return CHARL_OK;
}

/* Line 1 was read as a row, but it may be a header: pandas numbers columns without names, so that only the target has one.
 * Remember a label that is not a number, to compare it with the labels of the other rows. */
static void note_first_label(csv_import *c)
{
    const char *label = charl__table_field(&c->table, c->label[0]);

    if (c->o->header == HEADER_AUTO && !charl__table_is_missing(&c->table, label) &&
        !charl__parse_number(label, '.', NULL)) {
        c->first_label.line = charl__csv_line(c->table.csv);
        snprintf(c->first_label.text, sizeof c->first_label.text, "%.40s", label);
    }
}

static void compare_label(csv_import *c, const char *label)
{
    if (c->first_label.line > 0 && c->rows + c->left_out > 0) {
        const bool number = charl__parse_number(label, '.', NULL);

        c->later_numbers += number;
        c->later_words += !number;
    }
}

static charl_status read_first(csv_import *c)
{
    bool header;

    CHARL_REQUIRE(!c->table.parquet || c->table.n_columns >= 2, CHARL_ERR_DATA,
                  "%s: there is only the column \"%.60s\"; a table needs a target and at least one column more",
                  c->path, charl__table_field(&c->table, 0));
    CHARL_REQUIRE(
        c->table.n_columns >= 2, CHARL_ERR_DATA,
        "%s: the first line has %d field; a table needs a target and at least one column more; HINT --separator "
        "says what separates fields, --skip N leaves out lines above the table",
        charl__table_place(&c->table), c->table.n_columns);
    CHARL_TRY(read_columns(c));
    CHARL_TRY(has_header(c, c->o->header, &header));
    if (header) {
        CHARL_TRY(charl__table_use_header(&c->table));
        for (int i = 0; i < c->recipe.n; i++) {
            charl_free(c->recipe.column[i].name);
            c->recipe.column[i].name = NULL;
            CHARL_TRY(charl__strdup(c->table.names[i], &c->recipe.column[i].name));
        }
    } else if (is_class(c)) {
        note_first_label(c);
    }
    return CHARL_OK;
}

/* Whether the current row has no missing value because of which rows are omitted. */
static bool is_kept(const csv_import *c)
{
    for (int i = 0; i < c->recipe.n; i++) {
        if (c->recipe.column[i].kind != CHARL__COLUMN_DROPPED && c->recipe.column[i].missing == CHARL__MISSING_DROP &&
            charl__table_is_missing(&c->table, charl__table_field(&c->table, i))) {
            return false;
        }
    }
    return true;
}

/* The next row that is used; *more is false at the end. */
static charl_status next_row(csv_import *c, bool *more)
{
    do {
        CHARL_TRY(charl__table_next(&c->table, more));
    } while (*more && !is_kept(c));
    return CHARL_OK;
}

static charl_status note_class(csv_import *c)
{
    const char *label = charl__table_field(&c->table, c->label[0]);
    charl_status st;

    CHARL_REQUIRE(label[0], CHARL_ERR_DATA, "%s: the label is missing; HINT --missing drop leaves such rows out",
                  charl__table_place(&c->table));
    CHARL_REQUIRE(
        !charl__table_is_missing(&c->table, label), CHARL_ERR_DATA,
        "%s: the label is missing: \"%.40s\" stands for a missing value; HINT --missing drop leaves such rows "
        "out; --values \"%.40s\" if it is a class",
        charl__table_place(&c->table), label, label);
    compare_label(c, label);
    st = charl__text_labels_add(&c->labels, label);
    return st == CHARL_ERR_DATA ? charl__error_in(st, st, "%s: ", charl__table_place(&c->table)) : st;
}

/* One of several labels: yes or no. */
static charl_status check_flag(const csv_import *c, int column)
{
    const char *field = charl__table_field(&c->table, column);

    CHARL_REQUIRE(strcmp(field, "0") == 0 || strcmp(field, "1") == 0 || charl__table_is_missing(&c->table, field),
                  CHARL_ERR_DATA,
                  "%s: column %s: \"%.40s\" is neither 0 nor 1, as each of several labels must "
                  "be; HINT targets that are numbers need --regression",
                  charl__table_place(&c->table), charl__table_column(&c->table, column), field);
    return CHARL_OK;
}

static bool is_nameless(const csv_import *c, int i)
{
    return c->table.names && !c->table.names[i][0];
}

/* Whether rows with a gap in a column are omitted unless all of the column is empty. */
static bool may_be_empty(const csv_import *c, int i)
{
    const charl__recipe_column *column = &c->recipe.column[i];

    return is_input(c, i) && column->missing == CHARL__MISSING_DROP && column->kind != CHARL__COLUMN_WORDS;
}

/* Empty columns, which decide_column would drop, must not cause rows to be omitted: it runs after the rows are chosen. */
static charl_status leave_out_empty(csv_import *c)
{
    CHARL_SCOPED_FREE bool *has_values = NULL;
    bool more = true;
    int empty = 0;

    for (int i = 0; i < c->recipe.n; i++) {
        empty += may_be_empty(c, i);
    }
    if (empty == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__alloc_array(c->recipe.n, sizeof *has_values, &has_values));
    while (empty > 0) { /* usually after a few rows each column has values */
        CHARL_TRY(charl__table_next(&c->table, &more));
        if (!more) {
            break;
        }
        for (int i = 0; i < c->recipe.n; i++) {
            if (!has_values[i] && !charl__table_is_missing(&c->table, charl__table_field(&c->table, i))) {
                has_values[i] = true;
                empty -= may_be_empty(c, i);
            }
        }
    }
    CHARL_TRY(charl__table_rewind(&c->table));
    for (int i = 0; i < c->recipe.n; i++) {
        charl__recipe_column *column = &c->recipe.column[i];

        if (!may_be_empty(c, i)) {
            continue;
        }
        if (is_nameless(c, i) && (i == 0 || !has_values[i]) && !c->is_asked[i] && !c->o->columns) {
            column->kind = CHARL__COLUMN_DROPPED;
            charl__import_note(c->common, "column %d has no name and is left out", i);
        } else if (!has_values[i] && !is_nameless(c, i)) {
            column->kind = CHARL__COLUMN_DROPPED;
            charl__import_note(c->common, "column %s has no values and is left out", charl__table_column(&c->table, i));
        }
    }
    return CHARL_OK;
}

static charl_status look(csv_import *c)
{
    bool more;

    CHARL_TRY(leave_out_empty(c));
    for (;;) {
        CHARL_TRY(charl__table_next(&c->table, &more));
        if (!more) {
            break;
        }
        if (!is_kept(c)) {
            c->left_out++;
            for (int i = 0; i < c->recipe.n; i++) {
                charl__look_count(&c->look[i], &c->table, i);
            }
            continue;
        }
        for (int i = 0; i < c->recipe.n; i++) {
            if (is_input(c, i) || (is_target(c, i) && !is_class(c))) {
                CHARL_TRY(charl__look_add(&c->look[i], &c->table, i));
            }
        }
        if (is_class(c)) {
            CHARL_TRY(note_class(c));
        }
        for (int i = 0; !c->o->regression && c->n_labels > 1 && i < c->n_labels; i++) {
            CHARL_TRY(check_flag(c, c->label[i]));
        }
        c->rows++;
    }
    CHARL_REQUIRE(c->rows > 0 || c->left_out == 0, CHARL_ERR_DATA,
                  "%s: every row has a missing value and is left out; HINT --missing mean, median or flag", c->path);
    CHARL_REQUIRE(c->rows > 0, CHARL_ERR_DATA, "%s: a header but no rows", c->path);
    CHARL_REQUIRE(
        c->first_label.line == 0 || c->later_numbers == 0 || c->later_words > 0, CHARL_ERR_DATA,
        "%s:%lld: \"%s\" in column %d is not a number, but all later values of this column are: this line may "
        "be a header or a row; HINT correct the value, or say which it is: --header yes or --header no",
        c->path, (long long)c->first_label.line, c->first_label.text, c->label[0]);
    if (c->left_out > 0) {
        charl__import_note(c->common, "%lld of %lld rows %s left out: values are missing", (long long)c->left_out,
                           (long long)(c->rows + c->left_out), c->left_out == 1 ? "is" : "are");
    }
    return CHARL_OK;
}

/* Whether a form of numbers is consistent with a decimal sign and the other sign as the separator of thousands. */
static bool is_readable(charl__number_form form, bool comma)
{
    return comma ? form != CHARL__NUMBER_POINT && form != CHARL__NUMBER_POINT_GROUPED
                 : form != CHARL__NUMBER_COMMA && form != CHARL__NUMBER_COMMA_GROUPED;
}

/* Whether it then has thousands separators. */
static bool is_grouped(charl__number_form form, bool comma)
{
    return comma ? form == CHARL__NUMBER_POINT_OR_GROUP || form == CHARL__NUMBER_COMMA_GROUPED
                 : form == CHARL__NUMBER_COMMA_OR_GROUP || form == CHARL__NUMBER_POINT_GROUPED;
}

/* The first column with numbers of each form, or -1. */
static void find_forms(const csv_import *c, int column[CHARL__NUMBER_FORMS])
{
    for (int f = 0; f < CHARL__NUMBER_FORMS; f++) {
        column[f] = -1;
        for (int i = c->recipe.n - 1; i >= 0; i--) {
            const charl__look *l = &c->look[i];

            if (l->first_form[f].line > 0 && l->words == 0 && c->recipe.column[i].kind != CHARL__COLUMN_WORDS) {
                column[f] = i;
            }
        }
    }
}

/* How options name a column. Borrowed until the next call on this thread. */
static const char *plain_name(const csv_import *c, int i)
{
    static _Thread_local char number[16];

    if (c->table.names && c->table.names[i][0]) {
        return c->table.names[i];
    }
    snprintf(number, sizeof number, "%d", i);
    return number;
}

/* A number that is ambiguous or cannot be read: the effect of each option. */
static charl_status fail_decimal(const csv_import *c, const int column[CHARL__NUMBER_FORMS], charl__number_form form)
{
    const int i = column[form];
    const charl__look_at *at = &c->look[i].first_form[form];
    const size_t skip = strcspn(at->text, "0123456789+-");
    const char *column_text = plain_name(c, i);
    char number[sizeof at->text], hint[2][120] = {"", ""};

    snprintf(number, sizeof number, "%.*s", (int)strspn(at->text + skip, "0123456789+-.,eE"), at->text + skip);
    for (int comma = 0; comma < 2; comma++) {
        bool readable = true;
        double value = 0;

        for (int f = 0; f < CHARL__NUMBER_FORMS; f++) {
            readable = readable && (column[f] < 0 || is_readable((charl__number_form)f, comma));
        }
        if (readable && charl__parse_formatted(number, (charl__number_format){comma ? ',' : '.', true}, &value)) {
            snprintf(hint[comma], sizeof hint[comma], "--decimal %s reads %.9g, ", comma ? "comma" : "point", value);
        }
    }
    CHARL_FAIL(
        CHARL_ERR_DATA,
        "%s:%lld: column %s: \"%s\" %s; HINT %s%s%s--categorical %s if the values are categories, --drop %s to leave "
        "the column out",
        c->path, (long long)at->line, charl__table_column(&c->table, i), at->text,
        form == CHARL__NUMBER_POINT   ? "has a decimal point, and other numbers of this file have a comma"
        : form == CHARL__NUMBER_COMMA ? "has a comma for a decimal sign"
        : hint[0][0] && hint[1][0]    ? "may have a decimal sign or a thousands separator"
                                      : "has thousands separators",
        hint[0], hint[1], hint[0][0] || hint[1][0] ? "" : "write all numbers with one decimal sign, ", column_text,
        column_text);
}

/* Point or comma: determined from all columns together. */
static charl_status decide_decimal(csv_import *c)
{
    const bool said = c->o->decimal != DECIMAL_AUTO;
    int column[CHARL__NUMBER_FORMS];
    bool comma, beside;

    find_forms(c, column);
    comma = said ? c->o->decimal == DECIMAL_COMMA
                 : column[CHARL__NUMBER_COMMA] >= 0 && column[CHARL__NUMBER_POINT] < 0 &&
                       column[CHARL__NUMBER_POINT_GROUPED] < 0 && c->table.separator != ',';
    if (comma && !said) {
        charl__import_note(c->common, "numbers have a decimal comma");
    }
    c->recipe.format.decimal = comma ? ',' : '.';
    for (int f = CHARL__NUMBER_POINT; f < CHARL__NUMBER_FORMS; f++) {
        const bool grouped = is_grouped((charl__number_form)f, comma);

        if (column[f] >= 0 && (!is_readable((charl__number_form)f, comma) || (grouped && !said))) {
            return fail_decimal(c, column, (charl__number_form)f);
        }
        c->recipe.format.grouped = c->recipe.format.grouped || (column[f] >= 0 && grouped);
    }
    /* 1.250 beside 980 and no 2.5: a program that writes three decimals would write 980.000. */
    if (!said && column[CHARL__NUMBER_POINT_OR_GROUP] >= 0 && column[CHARL__NUMBER_POINT] < 0) {
        beside = c->look[column[CHARL__NUMBER_POINT_OR_GROUP]].first_form[CHARL__NUMBER_INTEGER].line > 0;
        if (c->table.separator == ';' || (beside && c->table.separator != ',')) {
            return fail_decimal(c, column, CHARL__NUMBER_POINT_OR_GROUP);
        }
    }
    c->table.format = c->recipe.format;
    return CHARL_OK;
}

static charl_status decide_dates(csv_import *c, int i)
{
    const charl__look *l = &c->look[i];
    charl__recipe_column *column = &c->recipe.column[i];

    column->kind = CHARL__COLUMN_DATE;
    column->clock = l->clock;
    column->order = (charl__dates)c->o->dates;
    CHARL_REQUIRE(
        !l->has_short || column->order != CHARL__DATES_AUTO, CHARL_ERR_DATA,
        "%s:%lld: column %s: the order of day, month and year in \"%s\" is not known; HINT --dates dmy, --dates "
        "mdy or --dates ymd; --drop leaves the column out",
        c->path, (long long)l->first_word.line, charl__table_column(&c->table, i), l->first_word.text);
    CHARL_REQUIRE(
        l->first_zone.line == 0 || l->first_local.line == 0, CHARL_ERR_DATA,
        "%s: column %s: \"%s\" in line %lld has a time zone, \"%s\" in line %lld has none; HINT write all times "
        "in one way, or --drop leaves the column out",
        c->path, charl__table_column(&c->table, i), l->first_zone.text, (long long)l->first_zone.line,
        l->first_local.text, (long long)l->first_local.line);
    if (l->has_xxy && column->order == CHARL__DATES_AUTO) {
        CHARL_REQUIRE(
            l->first_dmy.line == 0 || l->first_mdy.line == 0, CHARL_ERR_DATA,
            "%s: column %s: %s in line %lld has the day first, %s in line %lld the month; HINT write all dates "
            "in one order",
            c->path, charl__table_column(&c->table, i), l->first_dmy.text, (long long)l->first_dmy.line,
            l->first_mdy.text, (long long)l->first_mdy.line);
        CHARL_REQUIRE(l->first_dmy.line > 0 || l->first_mdy.line > 0, CHARL_ERR_DATA,
                      "%s: column %s: dates such as \"%s\" do not tell whether the day or the month comes first; HINT "
                      "--dates dmy or "
                      "--dates mdy",
                      c->path, charl__table_column(&c->table, i), l->first_word.text);
        column->order = l->first_dmy.line > 0 ? CHARL__DATES_DMY : CHARL__DATES_MDY;
    }
    charl__import_note(c->common, "column %s holds dates: days since 1970-01-01, month, weekday%s%s",
                       charl__table_column(&c->table, i), l->clock ? ", hour" : "",
                       l->first_zone.line > 0 ? ", in UTC" : "");
    return CHARL_OK;
}

/* Too many categories to help a model: names, ticket numbers, texts. */
static bool are_too_many(const charl__look *l)
{
    return l->set.n > MANY_WORDS || (l->fields >= FEW_ROWS && l->set.n > l->fields / 2);
}

/* Whether the header has names for other columns, but none for this one. */
/* Findings about all columns that decide_column cannot decide. */
typedef struct undecided {
    charl__text too_many; /* names of columns with too many categories */
    charl__text edges;    /* of columns whose values nearly all begin or end with a number */
    int first_edge;
    charl__text marks; /* columns with words among numbers, */
    charl__text na;    /* and their words, for --na */
    int first_mark;
} undecided;

static charl_status list_column(const csv_import *c, charl__text *list, int i)
{
    const char *name = plain_name(c, i);

    return strchr(name, ',') ? charl__text_printf(list, "%s%d", list->length > 0 ? "," : "", i)
                             : charl__text_printf(list, "%s%s", list->length > 0 ? "," : "", name);
}

/* Words among numbers: typing errors, or texts for a missing value. */
static charl_status add_marks(const csv_import *c, int i, undecided *u)
{
    enum { SHOWN = 4 };
    const charl__name_set *set = &c->look[i].set;

    if (!u->marks.length) {
        u->first_mark = i;
    }
    CHARL_TRY(list_column(c, &u->marks, i));
    for (int64_t k = 0; k < set->n && set->n <= SHOWN;
         k++) { /* most values are words, so they do not mark missing values */
        bool known = false;
        const size_t length = strlen(set->names[k]);

        for (const char *at = charl__text_string(&u->na); *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
            known = known || (strcspn(at, ",") == length && memcmp(at, set->names[k], length) == 0);
        }
        if (!known) {
            CHARL_TRY(charl__text_printf(&u->na, "%s%.40s", u->na.length ? "," : "", set->names[k]));
        }
    }
    return CHARL_OK;
}

/* Decide the kind of a column of numbers. */
static charl_status decide_number(csv_import *c, int i)
{
    const charl__look *l = &c->look[i];
    charl__recipe_column *column = &c->recipe.column[i];
    const char *name = charl__table_column(&c->table, i);

    if (l->units > 0) {
        for (int k = 0; k < 2; k++) {
            CHARL_TRY(charl__strdup(l->unit[k], &column->unit[k]));
        }
        charl__import_note(c->common, "column %s holds numbers such as \"%s\": they are read without \"%s\"", name,
                           l->first_word.text, l->unit[0][0] ? l->unit[0] : l->unit[1] + strspn(l->unit[1], " "));
    } else if (charl__look_counts(l) && l->fields >= COUNTING_ROWS) {
        charl__import_note(c->common,
                           "column %s counts the rows, which tells nothing about new ones; --drop leaves it out", name);
    }
    return CHARL_OK;
}

/* Decide the kind of a column, from its fields. */
static charl_status decide_column(csv_import *c, int i, undecided *u)
{
    const charl__look *l = &c->look[i];
    charl__recipe_column *column = &c->recipe.column[i];
    const int64_t values = l->fields - l->missing;
    const char *name = charl__table_column(&c->table, i);

    if (is_nameless(c, i)) {
        CHARL_REQUIRE(
            (i == 0 || values == 0) && !c->is_asked[i] && column->kind != CHARL__COLUMN_WORDS && !c->o->columns,
            CHARL_ERR_DATA, "%s:%lld: column %d has no name; HINT name it in the header, or leave it out: --drop %d",
            c->path, (long long)c->table.skipped + 1, i, i);
        column->kind = CHARL__COLUMN_DROPPED;
        charl__import_note(c->common,
                           charl__look_counts(l) ? "column %d has no name and counts the rows: it is left out"
                           : values > 0
                               ? "column %d has no name, as the names of rows that R and pandas write: it is left out"
                               : "column %d has neither a name nor values and is left out",
                           i);
    } else if (column->kind == CHARL__COLUMN_WORDS) {
        CHARL_REQUIRE(!l->overflows, CHARL_ERR_DATA, "%s: column %s has more than %d categories", c->path, name,
                      CHARL__MOST_WORDS);
    } else if (values == 0) {
        column->kind = CHARL__COLUMN_DROPPED;
        charl__import_note(c->common, "column %s has no values and is left out", name);
    } else if (l->numbers > 0 && l->numbers < values) {
        return add_marks(c, i, u);
    } else if (l->numbers == values || (l->units == values && !l->units_differ)) {
        return decide_number(c, i);
    } else if (l->dates == values) {
        return decide_dates(c, i);
    } else if (10 * l->edges >= 9 * values) {
        u->first_edge = u->edges.length ? u->first_edge : i;
        return list_column(c, &u->edges, i);
    } else {
        column->kind = CHARL__COLUMN_WORDS;
        return are_too_many(l) ? list_column(c, &u->too_many, i) : CHARL_OK;
    }
    return CHARL_OK;
}

static charl_status fail_undecided(const csv_import *c, const undecided *u)
{
    if (u->marks.length) {
        const int i = u->first_mark;
        const charl__look *l = &c->look[i];
        const bool others = strchr(u->marks.data, ',');

        CHARL_FAIL(
            CHARL_ERR_DATA,
            "%s:%lld: column %s: \"%s\" is not a number, but \"%s\" in line %lld is%s%s; HINT correct it; or %s%s%s"
            "--categorical %s if the values are categories, --drop %s to leave %s out",
            c->path, (long long)l->first_word.line, charl__table_column(&c->table, i), l->first_word.text,
            l->first_number.text, (long long)l->first_number.line, others ? "; so it is in the columns " : "",
            others ? u->marks.data : "", u->na.length ? "--na \"" : "", charl__text_string(&u->na),
            u->na.length ? "\" if that stands for missing values, " : "", u->marks.data, u->marks.data,
            others ? "them" : "the column");
    }
    if (u->edges.length) {
        const int i = u->first_edge;
        const charl__look *l = &c->look[i];
        const charl__look_at *at = l->first_edge.line > 0 ? &l->first_edge : &l->first_word;
        const bool others = strchr(u->edges.data, ',');

        CHARL_FAIL(
            CHARL_ERR_DATA,
            "%s:%lld: column %s: \"%s\" begins or ends with a number, but is neither a number with the same unit as "
            "the others nor a date that charl reads%s%s; HINT --categorical %s if the values are categories, --drop %s "
            "to "
            "leave %s out, or write them as numbers or dates",
            c->path, (long long)at->line, charl__table_column(&c->table, i), at->text,
            others ? "; so it is in the columns " : "", others ? u->edges.data : "", u->edges.data, u->edges.data,
            others ? "them" : "the column");
    }
    CHARL_REQUIRE(
        !u->too_many.length, CHARL_ERR_DATA,
        "%s: these columns have too many different values to be categories: %s; HINT leave them out with --drop "
        "%s, or name them with --categorical",
        c->path, u->too_many.data, u->too_many.data);
    return CHARL_OK;
}

/* Report every column with missing values that no method handles. */
static charl_status check_missing(csv_import *c)
{
    CHARL_SCOPED(charl__text_fini) charl__text others = {0};
    const char *mark;
    int first = -1;

    for (int i = 0; i < c->recipe.n; i++) {
        const charl__recipe_column *column = &c->recipe.column[i];
        const bool words = column->kind == CHARL__COLUMN_WORDS;

        if (column->kind == CHARL__COLUMN_DROPPED || (is_target(c, i) && is_class(c))) {
            continue;
        }
        CHARL_REQUIRE(!words || !c->is_asked[i] ||
                          (column->missing != CHARL__MISSING_MEAN && column->missing != CHARL__MISSING_MEDIAN),
                      CHARL_ERR_CONFIG,
                      "%s: column %s is categorical, so it has no mean and no median; HINT --missing flag or drop",
                      c->path, charl__table_column(&c->table, i));
        if (c->look[i].missing == 0 || column->missing != CHARL__MISSING_ERROR) {
            continue;
        }
        if (first < 0 || c->look[i].first_missing.line < c->look[first].first_missing.line) {
            first = i;
        }
    }
    for (int i = 0; i < c->recipe.n; i++) {
        if (i != first && c->look[i].missing > 0 && c->recipe.column[i].missing == CHARL__MISSING_ERROR &&
            c->recipe.column[i].kind != CHARL__COLUMN_DROPPED) {
            CHARL_TRY(charl__text_printf(&others, "%s%s", others.length ? ", " : "; so are values of ",
                                         charl__table_column(&c->table, i)));
        }
    }
    CHARL_REQUIRE(first < 0 || !is_target(c, first), CHARL_ERR_DATA,
                  "%s:%lld: column %s is missing%s; HINT a row without a target is left out by --missing COLUMN:drop",
                  c->path, (long long)c->look[first].first_missing.line, charl__table_column(&c->table, first),
                  charl__text_string(&others));
    mark = first < 0 ? "" : c->look[first].first_missing.text;
    CHARL_REQUIRE(first < 0, CHARL_ERR_DATA,
                  "%s:%lld: column %s is missing%s%s%s%s; HINT --missing drop leaves such rows out, --missing "
                  "mean, median or flag "
                  "fills the gaps; --missing COLUMN:METHOD is for a single column%s%s%s",
                  c->path, (long long)c->look[first].first_missing.line, charl__table_column(&c->table, first),
                  mark[0] ? ": \"" : "", mark, mark[0] ? "\" stands for a missing value" : "",
                  charl__text_string(&others), mark[0] ? "; --values \"" : "", mark,
                  mark[0] ? "\" if it is a category" : "");
    return CHARL_OK;
}

/* f32 is precise enough for measurements, but identifiers and times in seconds may become equal. */
static void note_rounding(const csv_import *c)
{
    for (int i = 0; i < c->recipe.n; i++) {
        const charl__look_at *at = &c->look[i].first_rounded;
        const bool number = c->recipe.column[i].kind == CHARL__COLUMN_NUMBER || (is_target(c, i) && c->o->regression);

        if (number && at->line > 0) {
            charl__import_note(c->common,
                               "column %s holds integers that f32 rounds, such as %s; --drop leaves out identifiers",
                               charl__table_column(&c->table, i), at->text);
            break;
        }
    }
}

static charl_status decide(csv_import *c)
{
    charl_status st = CHARL_OK;
    undecided u = {.first_edge = -1};

    CHARL_TRY_CLEANUP(decide_decimal(c));
    for (int i = 0; i < c->recipe.n; i++) {
        if (is_input(c, i)) {
            CHARL_TRY_CLEANUP(decide_column(c, i, &u));
        }
    }
    CHARL_TRY_CLEANUP(fail_undecided(c, &u));
    CHARL_TRY_CLEANUP(check_missing(c));
    note_rounding(c);
    charl_free(c->recipe.missing);
    c->recipe.missing = NULL;
    CHARL_TRY_CLEANUP(charl__strdup(c->table.missing, &c->recipe.missing));
    charl_free(c->recipe.values);
    c->recipe.values = NULL;
    CHARL_TRY_CLEANUP(charl__strdup(c->table.values, &c->recipe.values));
cleanup:
    charl__text_fini(&u.too_many);
    charl__text_fini(&u.edges);
    charl__text_fini(&u.marks);
    charl__text_fini(&u.na);
    return st;
}

/* More distinct numbers than the maximum number of classes are measurements. */
static charl_status decide_classes(csv_import *c)
{
    const charl__name_set *labels = &c->labels.set;
    const char *column = charl__table_column(&c->table, c->label[0]);
    bool numbers = true;

    for (int64_t i = 0; i < labels->n && numbers; i++) {
        numbers = charl__number_form_of(labels->names[i]) != CHARL__NUMBER_NONE;
    }
    CHARL_REQUIRE(
        !numbers || labels->n <= CHARL__MOST_NUMERIC_CLASSES || c->has_classes, CHARL_ERR_DATA,
        "%s: the target, column %s, has %lld different numbers, such as %.20s; HINT --regression if the model is to "
        "predict a number, --categorical %s if they are classes",
        c->path, column, (long long)labels->n, labels->names[0], column);
    return charl__text_labels_decide(&c->labels, &c->class_names);
}

/* The schema of the data set, for later imports and models. For a table of numbers the names are sufficient. */
static charl_status describe(csv_import *c)
{
    CHARL_SCOPED(charl__text_fini) charl__text columns = {0}, targets = {0}, recipe = {0};
    charl_data_schema *s = &c->schema;
    CHARL_SCOPED_FREE int64_t *places = NULL;
    CHARL_SCOPED_FREE char *missing = NULL;

    *s = charl__import_schema(c->o->regression ? CHARL_DATASET_REGRESSION : CHARL_DATASET_TABLE);
    s->columns = s->targets = s->class_names = s->recipe = NULL; /* its own */
    s->x_dtype = CHARL_F32;
    s->x_shape = (charl_shape){1, {charl__recipe_width(&c->recipe)}};
    s->y_dtype = c->o->regression ? CHARL_F32 : CHARL_I32;
    s->y_shape = (charl_shape){!is_class(c), {c->n_labels}};
    s->classes = c->o->regression ? 0 : c->n_labels > 1 ? 2 : c->labels.are_ids ? CHARL__MOST_CLASSES : c->labels.set.n;
    CHARL_REQUIRE(s->x_shape.dim[0] > 0, CHARL_ERR_DATA, "%s: every column but the target is left out", c->path);
    CHARL_TRY(charl__text_printf(&columns, "%s", ""));
    if (c->table.names || !charl__recipe_is_plain(&c->recipe)) {
        CHARL_TRY(charl__recipe_names(&c->recipe, &columns));
        CHARL_TRY(charl__names_match(charl__text_string(&columns), charl__text_string(&columns), &places, &missing));
    }
    CHARL_TRY(charl__text_printf(&targets, "%s", ""));
    CHARL_TRY(charl__text_printf(&c->class_names, "%s", ""));
    for (int i = 0; c->table.names && i < c->n_labels; i++) {
        CHARL_TRY(charl__text_printf(&targets, "%s%s", i ? "\n" : "", c->table.names[c->label[i]]));
    }
    CHARL_TRY(charl__recipe_print(&c->recipe, &recipe));
    s->columns = charl__text_steal(&columns);
    s->targets = charl__text_steal(&targets);
    s->class_names = charl__text_steal(&c->class_names);
    s->recipe = charl__text_steal(&recipe);
    return CHARL_OK;
}

/* Convert the rows as new rows are converted, by the decisions. */
static charl_status write_rows(csv_import *c, const char *out)
{
    const charl__rows_places places = {c->o->skip, c->table.names, c->label, c->n_labels};
    const charl__import_plan plan = {.schema = &c->schema,
                                     .source = {{.schema = &c->schema,
                                                 .imports = true,
                                                 .model = c->path,
                                                 .paths = &c->path,
                                                 .n_paths = 1,
                                                 .separator = c->table.separator,
                                                 .places = &places}},
                                     .rows = {c->rows},
                                     .val = c->val,
                                     .classes = is_class(c) ? 0 : c->schema.classes,
                                     .scales = true,
                                     .plain = charl__recipe_is_plain(&c->recipe)};

    return charl__import_rows(&plan, out, c->common);
}

static void close_import(csv_import *c)
{
    for (int i = 0; c->look && i < c->recipe.n; i++) {
        charl__look_fini(&c->look[i]);
    }
    charl__table_close(&c->table);
    charl__recipe_fini(&c->recipe);
    charl__text_labels_fini(&c->labels);
    charl__text_fini(&c->class_names);
    charl_free(c->schema.columns);
    charl_free(c->schema.targets);
    charl_free(c->schema.class_names);
    charl_free(c->schema.recipe);
    charl_free(c->look);
    charl_free(c->is_asked);
    charl_free(c->label);
    charl_free(c->val);
}

/* "A,B" as a list. */
static charl_status make_list(const char *key, const char *text, char **list)
{
    if (text) {
        CHARL_TRY(charl__strdup(text, list));
        for (char *at = *list; *at; at++) {
            CHARL_REQUIRE(*at != '\n' && *at != '\t', CHARL_ERR_CONFIG, "--%s: a text with a tab or line end", key);
            *at = *at == ',' ? '\n' : *at;
        }
    }
    return CHARL_OK;
}

static charl_status open_table(csv_import *c, char *lists[2])
{
    charl__table *t = &c->table;
    const char *name, *why;

    CHARL_TRY(make_list("na", c->o->na, &lists[0]));
    CHARL_TRY(make_list("values", c->o->values, &lists[1]));
    CHARL_TRY(charl__table_open(t, c->path, c->separator, c->o->skip));
    t->can_skip = true;
    CHARL_REQUIRE(!t->parquet || c->o->decimal != DECIMAL_COMMA, CHARL_ERR_CONFIG,
                  "%s: --decimal comma: numbers in a Parquet file have a decimal point", c->path);
    for (int i = 0; t->parquet && (name = charl__parquet_left_out(t->parquet, i, &why)) != NULL; i++) {
        charl__import_note(c->common, "column \"%.60s\" %s and is left out", name, why);
    }
    t->missing = lists[0] ? lists[0] : "";
    t->values = lists[1] ? lists[1] : "";
    if (t->comments > 0) {
        charl__import_note(c->common, "%lld line%s that begin%s with # before the table %s left out",
                           (long long)t->comments, t->comments == 1 ? "" : "s", t->comments == 1 ? "s" : "",
                           t->comments == 1 ? "is" : "are");
    }
    if (!c->separator && t->separator != ',') {
        charl__import_note(c->common,
                           t->separator == '\t'  ? "fields are separated by tabs"
                           : t->separator == ' ' ? "fields are separated by blanks"
                                                 : "fields are separated by %c",
                           t->separator);
    }
    return CHARL_OK;
}

/* Whether the recipe depends on the training rows. */
static bool must_fit(const csv_import *c)
{
    for (int i = 0; i < c->recipe.n; i++) {
        if (c->recipe.column[i].kind == CHARL__COLUMN_WORDS ||
            (is_input(c, i) && c->recipe.column[i].missing > CHARL__MISSING_DROP)) {
            return true;
        }
    }
    return false;
}

static charl_status fit(csv_import *c)
{
    CHARL_SCOPED(charl__fit_fini) charl__fit f = {0};
    int64_t val;
    bool more;

    if (!must_fit(c)) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__val_split_count(c->path, "samples", c->rows, c->common->val_split, &val));
    CHARL_TRY(charl__fit_begin(&f, &c->recipe, c->look));
    CHARL_TRY(charl__table_rewind(&c->table));
    for (int64_t r = 0;; r++) {
        CHARL_TRY(next_row(c, &more));
        if (!more) {
            break;
        }
        if (c->val ? r < c->rows && !c->val[r] : r < c->rows - val) {
            CHARL_TRY(charl__fit_add(&f, &c->table));
        }
    }
    CHARL_TRY(charl__fit_end(&f, &c->table));
    for (int i = 0; i < c->recipe.n; i++) {
        const charl__recipe_column *column = &c->recipe.column[i];
        const char *name = charl__table_column(&c->table, i);

        if (column->kind == CHARL__COLUMN_WORDS) {
            charl__import_note(c->common, "column %s is categorical: one-hot encoded, %lld categories%s", name,
                               (long long)column->n_words, column->flagged ? ", and a column for missing values" : "");
        } else if (f.column[i].missing > 0 && column->kind == CHARL__COLUMN_NUMBER) {
            charl__import_note(c->common, "column %s: %lld missing, filled with %.6g%s", name,
                               (long long)f.column[i].missing, column->fill[0],
                               column->flagged ? " and flagged by another column" : "");
        } else if (f.column[i].missing > 0) {
            charl__import_note(c->common, "column %s: %lld missing, filled%s", name, (long long)f.column[i].missing,
                               column->flagged ? " and flagged by another column" : "");
        }
    }
    return CHARL_OK;
}

/* Take the decisions from the other dataset. */
static charl_status refuse_decided(const csv_settings *csv)
{
    const struct {
        const char *name;
        bool given;
    } decided[] = {{"label", csv->label != NULL},
                   {"regression", csv->regression},
                   {"columns", csv->columns != NULL},
                   {"drop", csv->drop != NULL},
                   {"categorical", csv->categorical != NULL},
                   {"missing", csv->missing != NULL},
                   {"na", csv->na != NULL},
                   {"values", csv->values != NULL},
                   {"skip", csv->skip != 0},
                   {"dates", csv->dates != CHARL__DATES_AUTO},
                   {"header", csv->header != HEADER_AUTO}};

    for (size_t i = 0; i < sizeof decided / sizeof *decided; i++) {
        CHARL_REQUIRE(!decided[i].given, CHARL_ERR_CONFIG, "--%s cannot be used with --like: %s already defines it",
                      decided[i].name, csv->like);
    }
    return CHARL_OK;
}

/* Targets of the rows of a second file, so that its validation rows can be chosen. */
static charl_status count_like(void *ctx, const charl__rows *rows, const void *x, const void *y, int64_t n)
{
    csv_import *c = ctx;

    (void)rows;
    (void)x;
    CHARL_REQUIRE(y, CHARL_ERR_DATA, "%s has not all targets of %s: %s", c->path, c->o->like,
                  charl__text_string(&c->class_names));
    for (int64_t i = 0; i < n; i++, c->rows++) {
        if (c->n_labels == 1) {
            CHARL_TRY(charl__grow(c->rows, sizeof *c->labels.label, &c->labels.label));
            c->labels.label[c->rows] = ((const int32_t *)y)[i];
        }
    }
    return CHARL_OK;
}

/* Import by the recipe of another dataset. The file is read twice: to count its rows and their classes, and to write them. */
static charl_status import_like(csv_import *c, const char *out)
{
    const char *like = c->o->like;
    CHARL_SCOPED_FREE char *names = NULL;
    CHARL_SCOPED_FREE int64_t *places = NULL;
    CHARL_SCOPED(charl__dataset_left) charl_dataset *ds = NULL;
    CHARL_SCOPED(charl__schema_left) charl_data_schema *schema = NULL;
    charl_dataset_info info;
    charl__import_count count;
    charl__import_plan plan = {.scales = true};

    CHARL_TRY(refuse_decided(c->o));
    CHARL_TRY(charl_dataset_open(like, NULL, &ds));
    charl_dataset_get_info(ds, &info);
    CHARL_REQUIRE((info.kind == CHARL_DATASET_TABLE || info.kind == CHARL_DATASET_REGRESSION) && info.labelled &&
                      info.n_stats > 0,
                  CHARL_ERR_CONFIG, "--like %s: not a table written by charl data import csv", like);
    CHARL_REQUIRE(
        info.targets[0], CHARL_ERR_CONFIG,
        "--like %s: its target has no name, so it cannot be found in another file; HINT import it from a file "
        "whose first line has names",
        like);
    CHARL_TRY(charl__names_match(info.targets, "", &places, &names));
    CHARL_TRY(charl__text_printf(&c->class_names, "%s", names));
    CHARL_TRY(charl_data_schema_create(ds, info.n_stats, info.mean, info.std, &schema));
    c->n_labels = schema->kind == CHARL_DATASET_TABLE && schema->y_shape.ndim == 0;
    plan.schema = schema;
    plan.classes = schema->classes;
    plan.source[0] = (charl__rows_options){.schema = schema,
                                           .imports = true,
                                           .model = like,
                                           .paths = &c->path,
                                           .n_paths = 1,
                                           .separator = c->separator,
                                           .decimal = c->o->decimal == DECIMAL_AUTO    ? '\0'
                                                      : c->o->decimal == DECIMAL_COMMA ? ','
                                                                                       : '.'};
    CHARL_TRY(charl__import_pass(&plan.source[0], NULL, count_like, c, &count));
    CHARL_REQUIRE(c->rows > 0, CHARL_ERR_DATA, "%s: a header but no rows", c->path);
    CHARL_TRY(charl__split_choose(c->path, c->labels.label, c->rows, c->common, &c->val));
    plan.rows[0] = c->rows;
    plan.val = c->val;
    CHARL_TRY(charl__import_rows(&plan, out, c->common));
    return CHARL_OK;
}

static charl_status run_csv(const void *settings, const char *const *files, int n, const char *out,
                            const charl_import_options *opt)
{
    charl_status st = CHARL_OK;
    const char *path = files[0];
    csv_import c = {.path = path, .o = settings, .common = opt, .labels.may_be_ids = true};
    char *lists[2] = {NULL, NULL};

    (void)n;
    CHARL_REQUIRE_CLEANUP(charl_csv_separator(c.o->separator, &c.separator), CHARL_ERR_CONFIG,
                          "separator: " CHARL_CSV_SEPARATOR);
    CHARL_TRY_CLEANUP(charl__commit_check_inputs(out, (const char *const[]){path, c.o->like}, 2));
    if (c.o->like) {
        CHARL_TRY_CLEANUP(import_like(&c, out));
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(open_table(&c, lists));
    CHARL_TRY_CLEANUP(read_first(&c));
    CHARL_TRY_CLEANUP(look(&c));
    CHARL_TRY_CLEANUP(decide(&c));
    if (is_class(&c)) {
        CHARL_TRY_CLEANUP(decide_classes(&c));
    }
    CHARL_TRY_CLEANUP(charl__split_choose(path, is_class(&c) ? c.labels.label : NULL, c.rows, c.common, &c.val));
    CHARL_TRY_CLEANUP(fit(&c));
    CHARL_TRY_CLEANUP(describe(&c));
    CHARL_TRY_CLEANUP(write_rows(&c, out));
cleanup:
    close_import(&c);
    charl_free(lists[0]);
    charl_free(lists[1]);
    return st;
}

static charl_status run_parquet(const void *settings, const char *const *files, int n, const char *out,
                                const charl_import_options *opt)
{
    CHARL_TRY(charl__kind_expect(files[0], CHARL__KIND_PARQUET, "a Parquet file", CHARL_ERR_DATA));
    return run_csv(settings, files, n, out, opt);
}

/* Suggestions: settings that answer what decide() would ask. */

enum { MOST_MARKS = 4, MOST_INTEGER_CLASSES = 20 };

typedef struct suggestion {
    charl__text drop, categorical, na;
    bool has_gaps;
    int kept; /* columns that are inputs */
} suggestion;

/* Distinct fields that are not numbers. */
static int64_t count_words(const charl__look *l)
{
    int64_t n = 0;

    for (int64_t k = 0; k < l->set.n; k++) {
        n += charl__number_form_of(l->set.names[k]) == CHARL__NUMBER_NONE;
    }
    return n;
}

/* Whether nearly all fields are numbers, and the few words among them mark missing values. */
static bool has_marks(const charl__look *l)
{
    const int64_t values = l->fields - l->missing, words = count_words(l);
    bool commas = false;

    for (int64_t k = 0; k < l->set.n; k++) {
        commas = commas ||
                 (charl__number_form_of(l->set.names[k]) == CHARL__NUMBER_NONE && strpbrk(l->set.names[k], ",\n\t"));
    }
    return l->numbers < values && 2 * l->numbers > values && words <= MOST_MARKS && !commas;
}

static bool is_number(const charl__look *l)
{
    const int64_t values = l->fields - l->missing;

    return values > 0 && (l->numbers == values || (l->units == values && !l->units_differ) || has_marks(l));
}

/* Whether a column can be the target: not the number of the row, a date, a text of its own in every row, or always the same. */
static bool can_be_target(const csv_import *c, int i)
{
    const charl__look *l = &c->look[i];
    const int64_t values = l->fields - l->missing;

    return values > 0 && !is_nameless(c, i) && l->set.n > 1 && l->dates < values &&
           (is_number(l) ? !charl__look_counts(l) : !are_too_many(l));
}

static charl_status list_marks(const charl__look *l, suggestion *s)
{
    for (int64_t k = 0; k < l->set.n; k++) {
        if (charl__number_form_of(l->set.names[k]) == CHARL__NUMBER_NONE) {
            CHARL_TRY(charl__text_printf(&s->na, "%s%s", s->na.length ? "," : "", l->set.names[k]));
        }
    }
    s->has_gaps = true;
    return CHARL_OK;
}

/* Suggest what becomes of an input. */
static charl_status suggest_column(const csv_import *c, int i, const charl_suggest_options *opt, suggestion *s)
{
    const charl__look *l = &c->look[i];
    const int64_t values = l->fields - l->missing;
    const char *name = charl__table_column(&c->table, i), *why = NULL;

    if (values == 0 || (is_nameless(c, i) && i == 0)) {
        return CHARL_OK; /* left out by itself */
    }
    if (is_nameless(c, i)) {
        why = "has no name";
    } else if (l->set.n == 1 && l->missing == 0) {
        why = "has the same value in every row";
    } else if (l->dates == values) {
    } else if (is_number(l)) {
        why = charl__look_counts(l) && l->fields >= COUNTING_ROWS ? "counts the rows" : NULL;
        if (!why && l->numbers < values && l->units < values) {
            charl__suggest_note(opt, "column %s: \"%s\" among numbers is taken as a missing value", name,
                                l->first_word.text);
            CHARL_TRY(list_marks(l, s));
        }
    } else if (are_too_many(l)) {
        why = "has too many different texts to be categories";
    } else if (l->numbers > 0 || 10 * l->edges >= 9 * values) {
        CHARL_TRY(list_column(c, &s->categorical, i));
    }
    if (why) {
        charl__suggest_note(opt, "column %s %s: it is left out", name, why);
        return list_column(c, &s->drop, i);
    }
    s->has_gaps = s->has_gaps || l->missing > 0;
    s->kept++;
    return CHARL_OK;
}

/* Suggest the target, and whether it is a class or a number. */
static charl_status suggest_target(const csv_import *c, int i, const charl_suggest_options *opt, suggestion *s,
                                   bool *regression)
{
    const charl__look *l = &c->look[i];
    const char *name = charl__table_column(&c->table, i);
    const bool integers = l->units == 0 && !has_marks(l) && l->first_form[CHARL__NUMBER_POINT].line == 0 &&
                          l->first_form[CHARL__NUMBER_COMMA].line == 0;

    CHARL_REQUIRE(l->set.n > 1, CHARL_ERR_DATA, "%s: the target, column %s, has %s; HINT --target names another column",
                  c->path, name, l->set.n == 1 ? "the same value in every row" : "no values");
    *regression = opt->choice == CHARL_TARGET_IS_NUMBER ||
                  (opt->choice == CHARL_TARGET_GUESSED && is_number(l) &&
                   (!integers || l->set.n > MOST_INTEGER_CLASSES || l->set.n > l->fields / 2));
    CHARL_REQUIRE(
        !*regression || is_number(l), CHARL_ERR_DATA,
        "%s:%lld: the target, column %s, has \"%s\", which is not a number; HINT --target names another column",
        c->path, (long long)l->first_word.line, name, l->first_word.text);
    CHARL_REQUIRE(
        *regression || is_number(l) || !are_too_many(l), CHARL_ERR_DATA,
        "%s: the target, column %s, has too many different texts to be classes, such as \"%s\"; HINT --target "
        "names another column",
        c->path, name, l->first_word.text);
    if (*regression) {
        charl__suggest_note(opt, "the target is column %s, a number", name);
    } else {
        charl__suggest_note(opt, "the target is column %s, %lld classes", name, (long long)l->set.n);
        if (is_number(l) && l->set.n > CHARL__MOST_NUMERIC_CLASSES) {
            CHARL_TRY(list_column(c, &s->categorical, i));
        }
    }
    if (*regression && has_marks(l)) {
        CHARL_TRY(list_marks(l, s));
    }
    return CHARL_OK;
}

/* The column called as targets usually are, or -1. A line with numbers may be a row. */
static int usual_target(const charl__table *t)
{
    static const char *const usual[] = {"target", "label", "labels", "class", "y", "outcome"};

    for (int i = 0; i < t->n_columns; i++) {
        if (charl__number_form_of(charl__table_field(t, i)) != CHARL__NUMBER_NONE) {
            return -1;
        }
    }
    for (size_t k = 0; k < sizeof usual / sizeof *usual; k++) {
        for (int i = 0; i < t->n_columns; i++) {
            if (strcasecmp(charl__table_field(t, i), usual[k]) == 0) {
                return i;
            }
        }
    }
    return -1;
}

static charl_status write_suggestion(const csv_import *c, int target, bool regression, const suggestion *s,
                                     charl__text *out)
{
    const bool drops = c->look[target].missing > 0 || (regression && has_marks(&c->look[target]));

    CHARL_TRY(charl__text_printf(out, "label=%s%s", plain_name(c, target), regression ? "\nregression=yes" : ""));
    if (s->drop.length) {
        CHARL_TRY(charl__text_printf(out, "\ndrop=%s", s->drop.data));
    }
    if (s->categorical.length) {
        CHARL_TRY(charl__text_printf(out, "\ncategorical=%s", s->categorical.data));
    }
    if (s->na.length) {
        CHARL_TRY(charl__text_printf(out, "\nna=%s", s->na.data));
    }
    if (s->has_gaps || drops) {
        CHARL_TRY(
            charl__text_printf(out, "\nmissing=%s%s", s->has_gaps ? "flag" : "", s->has_gaps && drops ? "," : ""));
    }
    if (drops) { /* a comma would separate two entries */
        CHARL_TRY(strchr(plain_name(c, target), ',') ? charl__text_printf(out, "%d:drop", target)
                                                     : charl__text_printf(out, "%s:drop", plain_name(c, target)));
    }
    return CHARL_OK;
}

static charl_status suggest_csv(const char *path, const charl_suggest_options *opt, char **out)
{
    charl_status st = CHARL_OK;
    csv_settings settings = {.label = opt->target, .regression = true, .separator = "auto"};
    csv_import c = {.path = path, .o = &settings};
    suggestion s = {.has_gaps = false};
    charl__text text = {0};
    char *lists[2] = {NULL, NULL}, *label = NULL;
    bool regression = false;
    int target;

    CHARL_TRY_CLEANUP(open_table(&c, lists));
    target = opt->target ? -1 : usual_target(&c.table);
    if (target >= 0) {
        CHARL_TRY_CLEANUP(charl__strdup(charl__table_field(&c.table, target), &label));
        settings.label = label;
    }
    CHARL_TRY_CLEANUP(read_first(&c));
    for (int i = 0; i < c.recipe.n; i++) {
        c.look[i].collects = true;
    }
    CHARL_TRY_CLEANUP(look(&c));
    CHARL_REQUIRE_CLEANUP(c.n_labels == 1, CHARL_ERR_CONFIG, "--target %s: one column is the target", opt->target);
    for (target = c.label[0]; !settings.label && target > 0 && !can_be_target(&c, target); target--) {
    }
    CHARL_REQUIRE_CLEANUP(settings.label || can_be_target(&c, target), CHARL_ERR_DATA,
                          "%s: which column is the target is not known; HINT --target names it", path);
    CHARL_TRY_CLEANUP(suggest_target(&c, target, opt, &s, &regression));
    for (int i = 0; i < c.recipe.n; i++) {
        if (i != target) {
            CHARL_TRY_CLEANUP(suggest_column(&c, i, opt, &s));
        }
    }
    CHARL_REQUIRE_CLEANUP(
        s.kept > 0, CHARL_ERR_DATA,
        "%s: no column but the target tells anything about new rows; HINT texts with a class each are "
        "imported with `charl data import text-classes`, and docs/models/bert.md has a model for them",
        path);
    CHARL_TRY_CLEANUP(write_suggestion(&c, target, regression, &s, &text));
    *out = charl__text_steal(&text);
cleanup:
    close_import(&c);
    charl__text_fini(&text);
    charl__text_fini(&s.drop);
    charl__text_fini(&s.categorical);
    charl__text_fini(&s.na);
    charl_free(label);
    charl_free(lists[0]);
    charl_free(lists[1]);
    return st;
}

static bool check_settings(const void *settings, const char **key, char *reason)
{
    char separator;

    *key = "separator";
    snprintf(reason, CHARL_REASON_BYTES, CHARL_CSV_SEPARATOR);
    return charl_csv_separator(((const csv_settings *)settings)->separator, &separator);
}

static const charl_key keys[] = {
    {"label", CHARL_KEY_TEXT, offsetof(csv_settings, label), NULL, false,
     "target column, by name or index from 0 (default: the last); A,B,C: several binary targets or, with --regression, "
     "several numbers",
     NULL},
    {"regression", CHARL_KEY_BOOL, offsetof(csv_settings, regression), NULL, false,
     "the target is a number instead of a class", NULL},
    {"columns", CHARL_KEY_TEXT, offsetof(csv_settings, columns), NULL, false,
     "use these columns alone, A,B,C by name or index (default: all but the target)", NULL},
    {"drop", CHARL_KEY_TEXT, offsetof(csv_settings, drop), NULL, false, "leave these columns out", NULL},
    {"categorical", CHARL_KEY_TEXT, offsetof(csv_settings, categorical), NULL, false,
     "treat these columns as categorical, even if their values are numbers", NULL},
    {"missing", CHARL_KEY_TEXT, offsetof(csv_settings, missing), NULL, false,
     "what becomes of missing values: drop (leave the row out), mean, median, or flag (the mean, and a column "
     "NAME_missing); of a single "
     "column COLUMN:METHOD, as in mean,town:flag (default: an error)",
     NULL},
    {"na", CHARL_KEY_TEXT, offsetof(csv_settings, na), NULL, false,
     "texts that stand for a missing value besides NA, NaN, null and the like, as in ?,-", NULL},
    {"values", CHARL_KEY_TEXT, offsetof(csv_settings, values), NULL, false,
     "texts that usually stand for a missing value and are values here, as in NA,None", NULL},
    {"dates", CHARL_KEY_CHOICE, offsetof(csv_settings, dates), NULL, false,
     "order of day, month and year in dates such as 05/06/2024 and 05.06.24 (default: auto, if they tell)",
     "auto|dmy|mdy|ymd"},
    {"like", CHARL_KEY_TEXT, offsetof(csv_settings, like), NULL, false,
     "treat columns, categories, missing values and classes as in this dataset, which an earlier import wrote", NULL},
    /* Of files of text. */
    {"separator", CHARL_KEY_TEXT, offsetof(csv_settings, separator), NULL, false,
     "field separator; tab for tabs, blank for runs of blanks (default: auto, found in the first lines)", NULL},
    {"skip", CHARL_KEY_INT, offsetof(csv_settings, skip), NULL, false, "leave out this many lines before the table",
     NULL},
    {"decimal", CHARL_KEY_CHOICE, offsetof(csv_settings, decimal), NULL, false,
     "decimal sign of numbers; the other sign may then separate thousands (default: auto)", "auto|point|comma"},
    {"header", CHARL_KEY_CHOICE, offsetof(csv_settings, header), NULL, false,
     "whether the first line names the columns (default: auto, yes if it contains no numbers)", "auto|yes|no"},
};
static const csv_settings defaults = {.separator = "auto"};
enum { OF_TEXT = 4 }; /* the last keys */

#define NOTE                                                                                                           \
    "Categorical values are one-hot encoded; dates become days since 1970, month and weekday. The model stores this "  \
    "recipe, and `charl predict` applies it to new rows."

const charl_importer charl__importer_csv = {
    .row.name = "csv",
    .row.help = "a table, one sample per row",
    CHARL_KEYS(keys),
    CHARL_DEFAULTS(defaults),
    .row.check = check_settings,
    .files = "FILE",
    .group = 1,
    .most = 1,
    .shuffles = true,
    .note = NOTE,
    .run = run_csv,
    .suggest = suggest_csv,
};

const charl_importer charl__importer_parquet = {
    .row.name = "parquet",
    .row.help = "a table in Parquet's format, one sample per row",
    .row.keys = keys,
    .row.n_keys = (int)(sizeof keys / sizeof *keys) - OF_TEXT,
    CHARL_DEFAULTS(defaults),
    .files = "FILE",
    .group = 1,
    .most = 1,
    .shuffles = true,
    .note = NOTE " Columns that hold lists, maps or structures are left out.",
    .run = run_parquet,
    .suggest = suggest_csv,
};
