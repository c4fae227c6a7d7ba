/* Tables in CSV files. */
#include "data/table/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "io/dataset/dataset_write.h"
#include "io/kind.h"

enum { PLACE_BYTES = 4400, SHOWN = 60 };

/* How well a separator splits the first records. */
typedef struct division {
    int records;
    int alike;   /* records with as many fields as the first */
    int numbers; /* percentage of their bytes */
    int fields;
} division;

static bool is_better(const division *a, const division *b)
{
    return a->alike != b->alike       ? a->alike > b->alike
           : a->numbers != b->numbers ? a->numbers > b->numbers
                                      : a->fields > b->fields;
}

/* Reads from the line after `skip` lines. */
static charl_status begin(charl__source *source, char separator, int64_t skip, charl__csv **csv)
{
    char head[2];
    bool more;

    CHARL_TRY(charl__source_rewind(source));
    CHARL_TRY(charl__csv_create(source, separator, csv));
    for (int64_t i = 0; i < skip; i++) {
        CHARL_TRY(charl__csv_skip_line(*csv, head, sizeof head, &more));
    }
    return CHARL_OK;
}

static charl_status divide(charl__source *source, char separator, int64_t skip, division *d)
{
    enum { RECORDS = 20 };
    CHARL_SCOPED(charl__csv_left) charl__csv *csv = NULL;
    int n = 0;
    int64_t all = 0, numbers = 0;

    *d = (division){0};
    CHARL_TRY(begin(source, separator, skip, &csv));
    for (int i = 0; i < RECORDS; i++) {
        CHARL_TRY(charl__csv_next(csv, &n));
        if (n == 0) {
            break;
        }
        d->records++;
        d->fields =
            i == 0 || (i == 1 && separator == ' ' && n > 2 && n == d->fields + 1) ? n : d->fields; /* row_names */
        d->alike += n == d->fields;
        for (int k = 0; k < n; k++) {
            const char *field = charl__csv_field(csv, k);

            const int64_t length = (int64_t)strlen(field);

            all += length;
            if (charl__parse_number(field, '.', NULL) || (separator != ',' && charl__parse_number(field, ',', NULL))) {
                numbers += length;
            }
        }
    }
    d->numbers = all > 0 ? (int)(100 * numbers / all) : 0;
    return CHARL_OK;
}

/* The first of the best; a comma if no separator splits the first line. Unclosed quotes are reported by the actual reading. */
static charl_status find_separator(charl__source *source, int64_t skip, char *separator)
{
    static const char candidates[] = ",;\t| ";
    division best = {0};

    *separator = ',';
    for (int i = 0; candidates[i]; i++) {
        const bool blank = candidates[i] == ' ';
        division d;
        const charl_status st = divide(source, candidates[i], skip, &d);

        if (st != CHARL_ERR_DATA) {
            CHARL_TRY(st);
        }
        if (st == CHARL_OK && d.fields > 1 &&
            (blank ? d.records > 1 && d.alike == d.records && (best.fields == 0 || d.numbers > best.numbers)
                   : is_better(&d, &best))) {
            best = d;
            *separator = candidates[i];
        }
    }
    return CHARL_OK;
}

/* Excel writes and reads sep=; as the first line. */
static bool is_separator_line(const char *line, char *separator)
{
    const char *at = line + (line[0] == '"');

    if (strncasecmp(at, "sep=", 4) != 0 || !at[4] || strchr("\"\r\n", at[4]) ||
        strcmp(at + 5, line[0] == '"' ? "\"" : "") != 0) {
        return false;
    }
    *separator = at[4];
    return true;
}

/* Fields of the record after `skip` lines; 0 where it is malformed. */
static charl_status count_fields(charl__source *source, char separator, int64_t skip, int *n)
{
    charl__csv *csv = NULL;
    charl_status st = begin(source, separator, skip, &csv);

    *n = 0;
    st = st == CHARL_OK ? charl__csv_next(csv, n) : st;
    charl__csv_destroy(csv);
    return st == CHARL_ERR_DATA ? CHARL_OK : st;
}

/* Lines before the table. The last line that begins with # is a header if it has as many fields as the next. */
static charl_status skip_preamble(charl__table *t, int64_t skip)
{
    CHARL_SCOPED(charl__csv_left) charl__csv *csv = NULL;
    char head[16], own = t->separator, named = 0;
    int fields[2] = {0, 0};
    bool more = true;

    CHARL_TRY(begin(t->source, ',', 0, &csv));
    while (t->skipped < skip && more) {
        CHARL_TRY(charl__csv_skip_line(csv, head, sizeof head, &more));
        t->skipped += more;
    }
    CHARL_REQUIRE(t->skipped == skip, CHARL_ERR_CONFIG, "%s: --skip %lld: the file has only %lld lines",
                  charl__source_path(t->source), (long long)skip, (long long)t->skipped);
    CHARL_TRY(charl__csv_skip_line(csv, head, sizeof head, &more));
    if (is_separator_line(head, &named)) {
        t->skipped++;
        t->separator = own ? own : named;
        CHARL_TRY(charl__csv_skip_line(csv, head, sizeof head, &more));
    }
    for (; more && head[0] == '#'; t->comments++) {
        CHARL_TRY(charl__csv_skip_line(csv, head, sizeof head, &more));
    }
    t->comments = more ? t->comments : 0;
    if (!t->separator) {
        CHARL_TRY(find_separator(t->source, t->skipped + t->comments, &t->separator));
    }
    for (int i = 0; t->comments > 0 && i < 2; i++) {
        CHARL_TRY(count_fields(t->source, t->separator, t->skipped + t->comments - i, &fields[i]));
    }
    t->comments -= t->comments > 0 && fields[0] > 1 && fields[0] == fields[1];
    t->skipped += t->comments;
    return CHARL_OK;
}

static charl_status find_row_names(charl__table *t)
{
    charl__csv *csv = NULL;
    charl_status st = begin(t->source, t->separator, t->skipped, &csv);
    int n[2] = {0, 0};

    for (int i = 0; st == CHARL_OK && i < 2; i++) {
        st = charl__csv_next(csv, &n[i]);
    }
    if (st == CHARL_OK && n[0] > 1 && n[1] == n[0] + 1 && charl__csv_field(csv, n[0])[0]) {
        for (int k = 1; k < n[1]; k++) { /* a number: the lines above are no title, and this is no header */
            const char *field = charl__csv_field(csv, k);

            t->row_names =
                t->row_names || charl__parse_number(field, '.', NULL) || charl__parse_number(field, ',', NULL);
        }
    }
    charl__csv_destroy(csv);
    return st == CHARL_ERR_DATA ? CHARL_OK : st;
}

charl_status charl__table_open(charl__table *t, const char *path, char separator, int64_t skip)
{
    *t = (charl__table){.separator = separator, .format.decimal = '.', .missing = "", .values = "", .first = true};
    CHARL_REQUIRE(!separator || !strchr("\"\r\n", separator), CHARL_ERR_CONFIG, "%s: unusable separator", path);
    CHARL_TRY(charl__kind_expect(path, CHARL__KIND_TABLE, "a CSV file", CHARL_ERR_DATA));
    CHARL_TRY(charl__source_open(path, &t->source));
    CHARL_TRY(charl__csv_create(t->source, separator, &t->csv));
    t->parquet = charl__csv_parquet(t->csv);
    t->separator = t->parquet ? ',' : separator;
    CHARL_REQUIRE(!t->parquet || skip == 0, CHARL_ERR_CONFIG,
                  "%s: --skip %lld: there are no lines above a Parquet table", path, (long long)skip);
    if (!t->parquet) {
        charl__csv_destroy(t->csv);
        t->csv = NULL;
        CHARL_TRY(skip_preamble(t, skip));
        CHARL_TRY(find_row_names(t));
        CHARL_TRY(begin(t->source, t->separator, t->skipped, &t->csv));
    }
    CHARL_TRY(charl__csv_next(t->csv, &t->n_columns));
    CHARL_REQUIRE(t->n_columns > 0, CHARL_ERR_DATA, "%s: there are no lines in this file", path);
    t->n_columns += t->row_names;
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

/* Columns are found by name, so names must be unique. */
static charl_status check_unique(const charl__table *t)
{
    CHARL_SCOPED_FREE char **sorted = NULL;

    CHARL_TRY(charl__alloc_array(t->n_columns, sizeof *sorted, &sorted));
    memcpy(sorted, t->names, (size_t)t->n_columns * sizeof *sorted);
    qsort(sorted, (size_t)t->n_columns, sizeof *sorted, charl__by_text);
    for (int i = 1; i < t->n_columns; i++) {
        CHARL_REQUIRE(!sorted[i][0] || strcmp(sorted[i - 1], sorted[i]) != 0, CHARL_ERR_DATA,
                      "%s: two columns have the name \"%.*s\"; HINT rename or remove one", charl__table_place(t), SHOWN,
                      sorted[i]);
    }
    return CHARL_OK;
}

charl_status charl__table_use_header(charl__table *t)
{
    CHARL_TRY(charl__alloc_array(t->n_columns, sizeof *t->names, &t->names));
    for (int i = 0; i < t->n_columns; i++) {
        const char *name = charl__table_field(t, i), *why = charl__name_fault(name);

        CHARL_REQUIRE(!why, CHARL_ERR_DATA, "%s: the name of a column %s", charl__table_place(t), why);
        CHARL_TRY(charl__strdup(name, &t->names[i]));
    }
    CHARL_TRY(check_unique(t));
    t->first = false;
    return CHARL_OK;
}

static const char *name_of(const charl__table *t, int i)
{
    return t->names ? t->names[i] : charl__table_field(t, i);
}

int charl__table_find(const charl__table *t, const char *name)
{
    for (int i = 0; i < t->n_columns; i++) {
        if (strcmp(name_of(t, i), name) == 0) {
            return i;
        }
    }
    return -1;
}

static const char *quoted_name(const void *ctx, int i, char *copy)
{
    const charl__table *t = ctx;

    if (i >= t->n_columns) {
        return NULL;
    }
    snprintf(copy, 64, "\"%.60s\"", name_of(t, i));
    return copy;
}

charl_status charl__table_no_column(const charl__table *t, const char *name, charl_status code)
{
    char quoted[64], names[512];

    snprintf(quoted, sizeof quoted, "\"%.60s\"", name);
    CHARL_FAIL(code, "%s: there is no column \"%s\" among %s", charl__source_path(t->source), name,
               charl__text_names(quoted, quoted_name, t, names, sizeof names));
}

charl_status charl__table_next(charl__table *t, bool *more)
{
    int n = t->n_columns;

    CHARL_REQUIRE(
        !t->first || !t->row_names, CHARL_ERR_DATA,
        "%s: %d fields, and the next line has %d; a first line that has one less holds the names of the columns",
        charl__table_place(t), t->n_columns - 1, t->n_columns);
    if (!t->first) {
        CHARL_TRY(charl__csv_next(t->csv, &n));
    }
    t->first = false;
    *more = n > 0;
    CHARL_REQUIRE(n == 0 || n == t->n_columns, CHARL_ERR_DATA, "%s: %d field%s, but the first line has %d%s",
                  charl__table_place(t), n, n == 1 ? "" : "s", t->n_columns,
                  t->can_skip && n > t->n_columns ? "; HINT lines above the table are left out by --skip N" : "");
    return CHARL_OK;
}

charl_status charl__table_rewind(charl__table *t)
{
    int n;

    charl__csv_destroy(t->csv);
    t->csv = NULL;
    CHARL_TRY(begin(t->source, t->separator, t->skipped, &t->csv));
    t->parquet = charl__csv_parquet(t->csv);
    CHARL_TRY(charl__csv_next(t->csv, &n));
    CHARL_REQUIRE(n + t->row_names == t->n_columns, CHARL_ERR_DATA, "%s: the file changed while it was being read",
                  charl__source_path(t->source));
    t->first = !t->names;
    return CHARL_OK;
}

const char *charl__table_field(const charl__table *t, int column)
{
    const bool shifted = t->row_names && t->first;

    return shifted && column == 0 ? "" : charl__csv_field(t->csv, column - shifted);
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

    if (t->names && t->names[column][0]) {
        snprintf(text, sizeof text, "\"%.*s\"", SHOWN, t->names[column]);
    } else {
        snprintf(text, sizeof text, "%d", column);
    }
    return text;
}

/* strtod alone would accept hexadecimal, infinities and NaN, and no decimal comma. */
bool charl__parse_number(const char *text, char decimal, double *out)
{
    enum { LONGEST = 64 };
    char copy[LONGEST], *end, *comma;
    double value;

    if (!text[0] || strspn(text, decimal == ',' ? "0123456789+-,eE" : "0123456789+-.eE") != strlen(text)) {
        return false;
    }
    if (decimal == ',' && strchr(text, ',')) {
        if (strlen(text) >= LONGEST) {
            return false;
        }
        memcpy(copy, text, strlen(text) + 1);
        comma = strchr(copy, ',');
        *comma = '.';
        text = copy;
    }
    value = strtod(text, &end);
    if (out) {
        *out = value;
    }
    return *end == '\0';
}

/* [+-]?[1-9]d{0,2}(Gddd)+(Dd+)? where G is the sign other than D; the number without G in `plain`. */
static bool parse_grouped(const char *text, char decimal, double *out)
{
    enum { LONGEST = 64 };
    static const char digits[] = "0123456789";
    const char group = decimal == '.' ? ',' : '.';
    char plain[LONGEST];
    size_t length = text[0] == '+' || text[0] == '-', n = strspn(text + length, digits);
    const char *at = text + length + n;
    int groups = 0;

    if (n < 1 || n > 3 || text[length] == '0' || strlen(text) >= LONGEST) {
        return false;
    }
    length += n;
    memcpy(plain, text, length);
    for (; *at == group; at += 4, groups++) {
        if (strspn(at + 1, digits) < 3) {
            return false;
        }
        memcpy(plain + length, at + 1, 3);
        length += 3;
    }
    n = *at == decimal ? 1 + strspn(at + 1, digits) : 0;
    if (groups == 0 || n == 1 || at[n]) {
        return false;
    }
    memcpy(plain + length, at, n + 1);
    return charl__parse_number(plain, decimal, out);
}

bool charl__parse_formatted(const char *text, charl__number_format f, double *out)
{
    return charl__parse_number(text, f.decimal, out) || (f.grouped && parse_grouped(text, f.decimal, out));
}

charl__number_form charl__number_form_of(const char *text)
{
    if (charl__parse_number(text, '.', NULL)) {
        return !strchr(text, '.')               ? CHARL__NUMBER_INTEGER
               : parse_grouped(text, ',', NULL) ? CHARL__NUMBER_POINT_OR_GROUP
                                                : CHARL__NUMBER_POINT;
    }
    if (charl__parse_number(text, ',', NULL)) {
        return parse_grouped(text, '.', NULL) ? CHARL__NUMBER_COMMA_OR_GROUP : CHARL__NUMBER_COMMA;
    }
    return parse_grouped(text, '.', NULL)   ? CHARL__NUMBER_POINT_GROUPED
           : parse_grouped(text, ',', NULL) ? CHARL__NUMBER_COMMA_GROUPED
                                            : CHARL__NUMBER_NONE;
}

int charl__table_counts_columns(const charl__table *t)
{
    const int begin = charl__table_field(t, 0)[0] == '\0';
    char text[16];

    for (int i = begin; i < t->n_columns; i++) {
        snprintf(text, sizeof text, "%d", i - begin);
        if (strcmp(charl__table_field(t, i), text) != 0) {
            return 0;
        }
    }
    return t->n_columns - begin;
}

static bool is_in(const char *list, const char *field)
{
    const size_t length = strlen(field);

    for (const char *name = list; *name;) {
        const size_t own = strcspn(name, "\n");

        if (own == length && memcmp(name, field, own) == 0) {
            return true;
        }
        name += own + (name[own] == '\n');
    }
    return false;
}

bool charl__table_is_missing(const charl__table *t, const char *field)
{
    static const char *const usual[] = {"",     "#N/A",   "#N/A N/A", "#NA",  "-1.#IND", "-1.#QNAN", "-NaN",
                                        "-nan", "1.#IND", "1.#QNAN",  "<NA>", "N/A",     "NA",       "NULL",
                                        "NaN",  "None",   "n/a",      "nan",  "null"};
    const bool plausible = !field[0] || strpbrk(field, "#<Nn"); /* fast test for numbers */

    for (size_t i = 0; plausible && i < sizeof usual / sizeof *usual; i++) {
        if (strcmp(field, usual[i]) == 0) {
            return !is_in(t->values, field);
        }
    }
    return is_in(t->missing, field);
}

/* The digits decide, because a double would also round an integer beyond 2^53. */
bool charl__table_rounds(const charl__table *t, int column)
{
    const char *field = charl__csv_field(t->csv, column), *digits = field + strspn(field, "+-");
    char exact[48]; /* f32 ends at 39 digits */

    digits += strspn(digits, "0");
    if (strlen(digits) < 8 || strlen(digits) > 39 || strspn(digits, "0123456789") != strlen(digits)) {
        return false;
    }
    snprintf(exact, sizeof exact, "%.0f", (double)strtof(digits, NULL));
    return strcmp(digits, exact) != 0;
}

charl_status charl__table_number(const charl__table *t, int column, float *out)
{
    const char *field = charl__csv_field(t->csv, column);
    double value = 0;

    CHARL_REQUIRE(!charl__table_is_missing(t, field), CHARL_ERR_DATA, "%s: column %s is missing", charl__table_place(t),
                  charl__table_column(t, column));
    CHARL_REQUIRE(charl__parse_formatted(field, t->format, &value), CHARL_ERR_DATA,
                  "%s: column %s: \"%.40s\" is not a number", charl__table_place(t), charl__table_column(t, column),
                  field);
    *out = (float)value;
    CHARL_REQUIRE(isfinite(*out), CHARL_ERR_DATA, "%s: column %s: %s is too large for f32", charl__table_place(t),
                  charl__table_column(t, column), field);
    return CHARL_OK;
}
