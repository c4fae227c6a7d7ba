/* Tables in CSV files. */
#include "io/import/import_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/dataset/dataset_write.h"

enum { PLACE_BYTES = 4400, SHOWN = 60 };

charl_status charl__table_open(charl__table *t, const char *path, char separator)
{
    *t = (charl__table){.separator = separator ? separator : ',', .first = true};
    CHARL_REQUIRE(!strchr("\"\r\n", t->separator), CHARL_ERR_CONFIG, "%s: unusable separator", path);
    CHARL_TRY(charl__source_open(path, &t->source));
    CHARL_TRY(charl__csv_create(t->source, t->separator, &t->csv));
    CHARL_TRY(charl__csv_next(t->csv, &t->n_columns));
    CHARL_REQUIRE(t->n_columns > 0, CHARL_ERR_DATA, "%s: there are no lines in this file", path);
    return CHARL_OK;
}

void charl__table_close(charl__table *t)
{
    for (int i = 0; t->names && i < t->n_columns; i++) {
        charl_free(t->names[i]);
    }
    charl_free(t->names);
    charl__csv_destroy(t->csv);
    charl__source_close(t->source);
    *t = (charl__table){.separator = 0};
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Columns are found by name, so each needs one of its own. */
static charl_status check_unique(const charl__table *t)
{
    charl_status st = CHARL_OK;
    char **sorted = NULL;

    CHARL_TRY_CLEANUP(charl__alloc_array(t->n_columns, sizeof *sorted, &sorted));
    memcpy(sorted, t->names, (size_t)t->n_columns * sizeof *sorted);
    qsort(sorted, (size_t)t->n_columns, sizeof *sorted, by_name);
    for (int i = 1; i < t->n_columns; i++) {
        CHARL_REQUIRE_CLEANUP(strcmp(sorted[i - 1], sorted[i]) != 0, CHARL_ERR_DATA,
                              "%s: two columns have the name \"%.*s\"; HINT rename or remove one",
                              charl__table_place(t), SHOWN, sorted[i]);
    }
cleanup:
    charl_free(sorted);
    return st;
}

charl_status charl__table_take_header(charl__table *t)
{
    CHARL_TRY(charl__alloc_array(t->n_columns, sizeof *t->names, &t->names));
    for (int i = 0; i < t->n_columns; i++) {
        const char *name = charl__csv_field(t->csv, i), *why = charl__name_fault(name);

        CHARL_REQUIRE(!why, CHARL_ERR_DATA, "%s: the name of a column %s", charl__table_place(t), why);
        CHARL_REQUIRE(name[0], CHARL_ERR_DATA,
                      "%s: column %d has no name; HINT name it in the header, or remove it (from "
                      "pandas: to_csv(..., index=False))",
                      charl__table_place(t), i);
        CHARL_TRY(charl__strdup(name, &t->names[i]));
    }
    CHARL_TRY(check_unique(t));
    t->first = false;
    return CHARL_OK;
}

charl_status charl__table_next(charl__table *t, bool *more)
{
    int n = t->n_columns;

    if (!t->first) {
        CHARL_TRY(charl__csv_next(t->csv, &n));
    }
    t->first = false;
    *more = n > 0;
    CHARL_REQUIRE(n == 0 || n == t->n_columns, CHARL_ERR_DATA, "%s: %d fields, the first line has %d",
                  charl__table_place(t), n, t->n_columns);
    return CHARL_OK;
}

charl_status charl__table_rewind(charl__table *t)
{
    int n;

    charl__csv_destroy(t->csv);
    t->csv = NULL;
    CHARL_TRY(charl__source_rewind(t->source));
    CHARL_TRY(charl__csv_create(t->source, t->separator, &t->csv));
    CHARL_TRY(charl__csv_next(t->csv, &n));
    CHARL_REQUIRE(n == t->n_columns, CHARL_ERR_DATA, "%s: the file changed while it was being read",
                  charl__source_path(t->source));
    t->first = !t->names;
    return CHARL_OK;
}

const char *charl__table_field(const charl__table *t, int column)
{
    return charl__csv_field(t->csv, column);
}

const char *charl__table_place(const charl__table *t)
{
    static _Thread_local char text[PLACE_BYTES];

    snprintf(text, sizeof text, "%s:%lld", charl__source_path(t->source), (long long)charl__csv_line(t->csv));
    return text;
}

const char *charl__table_column(const charl__table *t, int column)
{
    static _Thread_local char text[SHOWN + 8];

    if (t->names) {
        snprintf(text, sizeof text, "\"%.*s\"", SHOWN, t->names[column]);
    } else {
        snprintf(text, sizeof text, "%d", column);
    }
    return text;
}

/* strtod alone would take hexadecimal, infinities and NaN. */
static bool parse_number(const char *text, double *out)
{
    char *end;

    if (!text[0] || strspn(text, "0123456789+-.eE") != strlen(text)) {
        return false;
    }
    *out = strtod(text, &end);
    return *end == '\0';
}

bool charl__is_number(const char *text)
{
    double ignored;

    return parse_number(text, &ignored);
}

charl_status charl__table_number(const charl__table *t, int column, float *out)
{
    const char *field = charl__csv_field(t->csv, column);
    double value = 0;

    CHARL_REQUIRE(field[0], CHARL_ERR_DATA, "%s: column %s is missing", charl__table_place(t),
                  charl__table_column(t, column));
    CHARL_REQUIRE(parse_number(field, &value), CHARL_ERR_DATA, "%s: column %s: \"%.40s\" is not a number",
                  charl__table_place(t), charl__table_column(t, column), field);
    *out = (float)value;
    CHARL_REQUIRE(isfinite(*out), CHARL_ERR_DATA, "%s: column %s: %s is too large for f32", charl__table_place(t),
                  charl__table_column(t, column), field);
    return CHARL_OK;
}
