/* Recipes: printing, parsing, applying. fit.c determines them. */
#include "data/table/recipe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "charl/import.h"

static const char *const kinds[] = {"number", "date", "words", "dropped", "target"};
static const char *const methods[] = {"error", "drop", "mean", "median", "flag"};
static const char *const orders[] = {"auto", "dmy", "mdy", "ymd"};
static const char *const date_parts[CHARL__DATE_PARTS] = {"days", "month", "weekday", "hour"};

static int find(const char *const *names, int n, const char *name)
{
    int i = 0;

    while (i < n && strcmp(names[i], name) != 0) {
        i++;
    }
    return i;
}

charl__missing charl__missing_of(const char *name)
{
    return (charl__missing)find(methods, CHARL__MISSING_METHODS, name);
}

charl_status charl__recipe_init(charl__recipe *r, int n)
{
    *r = (charl__recipe){.format.decimal = '.'};
    CHARL_TRY(charl__strdup("", &r->missing));
    CHARL_TRY(charl__strdup("", &r->values));
    CHARL_TRY(charl__alloc_array(n, sizeof *r->column, &r->column));
    for (; r->n < n; r->n++) {
        CHARL_TRY(charl__strdup("", &r->column[r->n].name));
    }
    return CHARL_OK;
}

void charl__recipe_fini(charl__recipe *r)
{
    for (int i = 0; i < r->n; i++) {
        charl__recipe_column *c = &r->column[i];

        for (int64_t k = 0; k < c->n_words; k++) {
            charl_free(c->words[k]);
        }
        charl_free(c->words);
        charl_free(c->unit[0]);
        charl_free(c->unit[1]);
        charl_free(c->name);
    }
    charl_free(r->column);
    charl_free(r->missing);
    charl_free(r->values);
    *r = (charl__recipe){.format.decimal = '.'};
}

int64_t charl__recipe_numbers(const charl__recipe_column *c)
{
    switch (c->kind) {
    case CHARL__COLUMN_NUMBER:
        return 1;
    case CHARL__COLUMN_DATE:
        return c->clock ? CHARL__DATE_PARTS : CHARL__DATE_PARTS - 1;
    case CHARL__COLUMN_WORDS:
        return c->n_words;
    default:
        return 0;
    }
}

int64_t charl__recipe_column_width(const charl__recipe_column *c)
{
    return charl__recipe_numbers(c) + c->flagged;
}

int64_t charl__recipe_width(const charl__recipe *r)
{
    int64_t width = 0;

    for (int i = 0; i < r->n; i++) {
        width += charl__recipe_column_width(&r->column[i]);
    }
    return width;
}

bool charl__recipe_is_plain(const charl__recipe *r)
{
    bool plain = r->format.decimal == '.' && !r->format.grouped && !r->missing[0] && !r->values[0];

    for (int i = 0; i < r->n; i++) {
        const charl__recipe_column *c = &r->column[i];

        plain = plain && (c->kind == CHARL__COLUMN_TARGET ||
                          (c->kind == CHARL__COLUMN_NUMBER && !c->unit[0] && c->missing == CHARL__MISSING_ERROR));
    }
    return plain;
}

/* "NAME_part", "NAME=word" or NAME. */
static charl_status put_name(charl__text *out, int i, const charl__recipe_column *c, const char *joint,
                             const char *part)
{
    CHARL_TRY(charl__text_append(out, "\n", out->length > 0));
    if (c->name[0]) {
        CHARL_TRY(charl__text_printf(out, "%s", c->name));
    } else {
        CHARL_TRY(charl__text_printf(out, "%d", i));
    }
    CHARL_TRY(charl__text_printf(out, "%s%s", joint, part));
    return CHARL_OK;
}

charl_status charl__recipe_names(const charl__recipe *r, charl__text *out)
{
    for (int i = 0; i < r->n; i++) {
        const charl__recipe_column *c = &r->column[i];

        for (int64_t k = 0; k < charl__recipe_numbers(c); k++) {
            if (c->kind == CHARL__COLUMN_NUMBER) {
                CHARL_TRY(put_name(out, i, c, "", ""));
            } else if (c->kind == CHARL__COLUMN_DATE) {
                CHARL_TRY(put_name(out, i, c, "_", date_parts[k]));
            } else {
                CHARL_TRY(put_name(out, i, c, "=", c->words[k]));
            }
        }
        if (c->flagged) {
            CHARL_TRY(put_name(out, i, c, "_", "missing"));
        }
    }
    return CHARL_OK;
}

static charl_status print_column(const charl__recipe_column *c, charl__text *out)
{
    CHARL_TRY(charl__text_printf(out, "%s\t%s", c->unit[0] ? "unit" : kinds[c->kind], c->name));
    if (c->kind > CHARL__COLUMN_WORDS) {
        return charl__text_printf(out, "\n");
    }
    CHARL_TRY(charl__text_printf(out, "\t%s\t%d", methods[c->missing], c->flagged));
    if (c->kind == CHARL__COLUMN_DATE) {
        CHARL_TRY(charl__text_printf(out, "\t%s\t%d", orders[c->order], c->clock));
    }
    for (int64_t k = 0; k < charl__recipe_numbers(c); k++) {
        if (c->kind == CHARL__COLUMN_WORDS) {
            CHARL_TRY(charl__text_printf(out, "\t%s", c->words[k]));
        } else {
            CHARL_TRY(charl__text_printf(out, "\t%.17g", c->fill[k]));
        }
    }
    if (c->unit[0]) {
        CHARL_TRY(charl__text_printf(out, "\t%s\t%s", c->unit[0], c->unit[1]));
    }
    return charl__text_printf(out, "\n");
}

static charl_status print_list(const char *list, charl__text *out)
{
    for (const char *name = list; *name;) {
        const size_t length = strcspn(name, "\n");

        CHARL_TRY(charl__text_printf(out, "\t%.*s", (int)length, name));
        name += length + (name[length] == '\n');
    }
    return charl__text_printf(out, "\n");
}

charl_status charl__recipe_print(const charl__recipe *r, charl__text *out)
{
    CHARL_TRY(
        charl__text_printf(out, "decimal\t%c%s\nmissing", r->format.decimal, r->format.grouped ? "\tgrouped" : ""));
    CHARL_TRY(print_list(r->missing, out));
    if (r->values[0]) {
        CHARL_TRY(charl__text_printf(out, "values"));
        CHARL_TRY(print_list(r->values, out));
    }
    for (int i = 0; i < r->n; i++) {
        CHARL_TRY(print_column(&r->column[i], out));
    }
    return CHARL_OK;
}

/* The field at *at, which is advanced past the tab; NULL at the end of the line. */
static char *next_field(char **at)
{
    char *field = *at, *tab;

    if (!field) {
        return NULL;
    }
    tab = strchr(field, '\t');
    if (tab) {
        *tab = '\0';
    }
    *at = tab ? tab + 1 : NULL;
    return field;
}

static bool parse_one_of(char **at, const char *const *names, int n, int *out)
{
    const char *field = next_field(at);

    *out = field ? find(names, n, field) : n;
    return *out < n;
}

static bool parse_bool(char **at, bool *out)
{
    static const char *const names[] = {"0", "1"};
    int i = 0;
    const bool good = parse_one_of(at, names, 2, &i);

    *out = i == 1;
    return good;
}

static bool parse_number(char **at, double *out)
{
    const char *field = next_field(at);

    return field && charl__parse_number(field, '.', out) && isfinite(*out);
}

static charl_status parse_words(char **at, charl__recipe_column *c)
{
    for (const char *word; (word = next_field(at)) != NULL; c->n_words++) {
        CHARL_TRY(charl__grow(c->n_words, sizeof *c->words, &c->words));
        CHARL_TRY(charl__strdup(word, &c->words[c->n_words]));
    }
    return CHARL_OK;
}

/* Binary search for a word. */
static bool are_sorted(const charl__recipe_column *c)
{
    for (int64_t i = 1; i < c->n_words; i++) {
        if (strcmp(c->words[i - 1], c->words[i]) >= 0) {
            return false;
        }
    }
    return true;
}

static charl_status parse_column(char *line, charl__recipe_column *c, bool *good)
{
    static const char *const written[] = {"number", "date", "words", "dropped", "target", "unit"};
    bool unit;
    int kind = 0, method = CHARL__MISSING_ERROR, order = 0;
    char *at = line;
    const char *name = NULL;

    *good = parse_one_of(&at, written, CHARL__COLUMN_KINDS + 1, &kind) && (name = next_field(&at)) != NULL;
    if (!*good) {
        return CHARL_OK;
    }
    unit = kind == CHARL__COLUMN_KINDS;
    kind = unit ? CHARL__COLUMN_NUMBER : kind;
    c->kind = (charl__column_kind)kind;
    CHARL_TRY(charl__strdup(name, &c->name));
    if (kind > CHARL__COLUMN_WORDS) {
        *good = !at;
        return CHARL_OK;
    }
    *good = parse_one_of(&at, methods, CHARL__MISSING_METHODS, &method) && parse_bool(&at, &c->flagged);
    c->missing = (charl__missing)method;
    if (kind == CHARL__COLUMN_WORDS) {
        CHARL_TRY(parse_words(&at, c));
        *good = *good && are_sorted(c);
        return CHARL_OK;
    }
    if (kind == CHARL__COLUMN_DATE) {
        *good = *good && parse_one_of(&at, orders, 4, &order) && parse_bool(&at, &c->clock);
        c->order = (charl__dates)order;
    }
    for (int64_t k = 0; *good && k < charl__recipe_numbers(c); k++) {
        *good = parse_number(&at, &c->fill[k]);
    }
    for (int i = 0; *good && unit && i < 2; i++) {
        const char *text = next_field(&at);

        *good = text;
        CHARL_TRY(text ? charl__strdup(text, &c->unit[i]) : CHARL_OK);
    }
    *good = *good && !at;
    return CHARL_OK;
}

/* A list of the texts of a line. */
static charl_status parse_list(char **at, char **out)
{
    CHARL_SCOPED(charl__text_fini) charl__text list = {0};

    CHARL_TRY(charl__text_printf(&list, "%s", ""));
    for (const char *value; (value = next_field(at)) != NULL;) {
        if (value[0]) { /* an empty cell is always missing */
            CHARL_TRY(charl__text_printf(&list, "%s%s", list.length ? "\n" : "", value));
        }
    }
    charl_free(*out);
    *out = charl__text_steal(&list);
    return CHARL_OK;
}

/* The lines before the columns. *head is false at the first that is none. */
static charl_status parse_head(charl__recipe *r, int number, char *line, bool *head, bool *good)
{
    char *at = line;
    const char *key, *value;

    if (number > 1 && strncmp(line, "values\t", 7) != 0) {
        *head = false;
        return CHARL_OK;
    }
    key = next_field(&at);
    if (number == 0) {
        value = next_field(&at);
        *good = strcmp(key, "decimal") == 0 && value && (strcmp(value, ".") == 0 || strcmp(value, ",") == 0);
        r->format.decimal = *good ? value[0] : '.';
        value = next_field(&at);
        r->format.grouped = value;
        *good = *good && !at && (!value || strcmp(value, "grouped") == 0);
        return CHARL_OK;
    }
    *good = number > 1 || strcmp(key, "missing") == 0;
    return *good ? parse_list(&at, number == 1 ? &r->missing : &r->values) : CHARL_OK;
}

charl_status charl__recipe_parse(const char *path, const char *text, charl__recipe *r)
{
    CHARL_SCOPED_FREE char *copy = NULL;
    int number = 0;

    CHARL_TRY(charl__recipe_init(r, 0));
    CHARL_TRY(charl__strdup(text, &copy));
    for (char *line = copy, *end; *line; line = end + 1, number++) {
        bool good = true, head = number < 3 && r->n == 0;

        end = strchr(line, '\n');
        CHARL_REQUIRE(end, CHARL_ERR_DATA, "%s: the recipe of the table ends within a line", path);
        *end = '\0';
        if (head) {
            CHARL_TRY(parse_head(r, number, line, &head, &good));
        }
        if (!head) {
            CHARL_TRY(charl__grow(r->n, sizeof *r->column, &r->column));
            r->column[r->n++] = (charl__recipe_column){.name = NULL};
            CHARL_TRY(parse_column(line, &r->column[r->n - 1], &good));
        }
        CHARL_REQUIRE(good, CHARL_ERR_DATA, "%s: line %d of the recipe of the table is malformed", path, number + 1);
    }
    CHARL_REQUIRE(number >= 2, CHARL_ERR_DATA, "%s: the recipe of the table is cut", path);
    return CHARL_OK;
}

/* The number between the texts of its unit. */
static bool convert_unit(const charl__recipe *r, const charl__recipe_column *c, const char *field, double *out)
{
    enum { LONGEST = 64 };
    const size_t before = strlen(c->unit[0]), after = strlen(c->unit[1]), length = strlen(field);
    char text[LONGEST];

    if (length <= before + after || length - before - after >= LONGEST || strncmp(field, c->unit[0], before) != 0 ||
        strcmp(field + length - after, c->unit[1]) != 0) {
        return false;
    }
    memcpy(text, field + before, length - before - after);
    text[length - before - after] = '\0';
    return charl__parse_formatted(text, r->format, out);
}

bool charl__recipe_convert(const charl__recipe *r, const charl__recipe_column *c, const char *field, double *out)
{
    int64_t days;
    double hours;
    int month, weekday;
    charl__date date;
    char *const *found;

    switch (c->kind) {
    case CHARL__COLUMN_NUMBER:
        return c->unit[0] ? convert_unit(r, c, field, out) : charl__parse_formatted(field, r->format, out);
    case CHARL__COLUMN_DATE:
        date = charl__date_parse(field);
        if (!charl__date_resolve(&date, c->order, &days, &month, &weekday, &hours)) {
            return false;
        }
        out[0] = (double)days;
        out[1] = month;
        out[2] = weekday;
        if (c->clock) {
            out[3] = hours;
        }
        return true;
    default:
        memset(out, 0, (size_t)c->n_words * sizeof *out);
        found = c->n_words ? bsearch(&field, c->words, (size_t)c->n_words, sizeof *c->words, charl__by_text) : NULL;
        if (found) {
            out[found - c->words] = 1.0;
        }
        return found;
    }
}

/* The field is missing. */
static charl_status put_missing(const charl__recipe_column *c, const charl__table *t, int column, double *out)
{
    const int64_t n = charl__recipe_numbers(c);

    CHARL_REQUIRE(c->missing > CHARL__MISSING_DROP, CHARL_ERR_DATA, "%s: column %s is missing%s", charl__table_place(t),
                  charl__table_column(t, column),
                  c->missing == CHARL__MISSING_DROP ? ", and the training data left such rows out; HINT remove the "
                                                      "row, or train on data that were imported with "
                                                      "--missing mean, median or flag"
                                                    : "");
    for (int64_t k = 0; k < n; k++) {
        out[k] = c->kind == CHARL__COLUMN_WORDS ? 0.0 : c->fill[k];
    }
    if (c->flagged) {
        out[n] = 1.0;
    }
    return CHARL_OK;
}

charl_status charl__recipe_read(const charl__recipe *r, int i, const charl__table *t, int column, double *out,
                                bool *known)
{
    const charl__recipe_column *c = &r->column[i];
    const char *field = charl__table_field(t, column);

    *known = true;
    if (charl__table_is_missing(t, field)) {
        return put_missing(c, t, column, out);
    }
    *known = charl__recipe_convert(r, c, field, out);
    CHARL_REQUIRE(*known || c->kind != CHARL__COLUMN_NUMBER, CHARL_ERR_DATA,
                  "%s: column %s: \"%.40s\" is not a number%s%.40s%s%.40s", charl__table_place(t),
                  charl__table_column(t, column), field, c->unit[0] ? " such as " : "", c->unit[0] ? c->unit[0] : "",
                  c->unit[0] ? "12" : "", c->unit[0] ? c->unit[1] : "");
    CHARL_REQUIRE(*known || c->kind != CHARL__COLUMN_DATE, CHARL_ERR_DATA, "%s: column %s: \"%.40s\" is not a date",
                  charl__table_place(t), charl__table_column(t, column), field);
    for (int64_t k = 0; k < charl__recipe_numbers(c); k++) {
        CHARL_REQUIRE(isfinite((float)out[k]), CHARL_ERR_DATA, "%s: column %s: %s is too large for f32",
                      charl__table_place(t), charl__table_column(t, column), field);
    }
    if (c->flagged) {
        out[charl__recipe_numbers(c)] = 0.0;
    }
    return CHARL_OK;
}
