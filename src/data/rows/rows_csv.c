/* Rows of a CSV file. Columns are matched by the names in its header, and converted by the model's recipe (data/table/recipe.h); a
 * column with the name of a target provides targets, where it has values. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "io/h5_element.h"
#include "io/schema.h"
#include "data/table/table.h"
#include "data/table/recipe.h"
#include "io/kind.h"
#include "data/rows/rows_private.h"

typedef struct csv_rows {
    charl__table table;
    charl__recipe recipe; /* of the model; if it has none, a number for each of its columns */
    int64_t n_columns;    /* columns of a file that the recipe uses */
    int *in_recipe;       /* [n_columns] their numbers in the recipe */
    int64_t *column;      /* [n_columns] their positions in the file */
    double *wide;         /* [x_shape] of a row */
    int64_t strange;      /* words that are not in the recipe */
    charl__text first_strange;
    int64_t n_targets; /* 0: the file has none */
    int64_t *target;   /* [n_targets] their positions */
    int id;            /* column, or -1 */
    charl__text ids;   /* of the batch, each with its NUL */
    size_t *id_at;     /* [id_capacity] */
    int64_t id_capacity;
    int64_t unknown;  /* targets that could not be read */
    int64_t left_out; /* rows with a gap in a column of --missing drop */
    charl__text first_unknown;
} csv_rows;

/* The names of the header as a list. */
static charl_status list_names(const charl__table *t, charl__text *out)
{
    for (int i = 0; t->names && i < t->n_columns; i++) {
        CHARL_TRY(charl__text_printf(out, "%s%s", i ? "\n" : "", t->names[i]));
    }
    return CHARL_OK;
}

static bool has_field(const charl__table *t, const char *name, size_t length)
{
    for (int i = 0; i < t->n_columns; i++) {
        const char *field = charl__table_field(t, i);

        if (strlen(field) == length && memcmp(field, name, length) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether the recipe matches its columns by name. */
static bool has_names(const csv_rows *c)
{
    return c->recipe.column[c->in_recipe[0]].name[0];
}

/* Whether the recipe has names, and the first line contains those that it uses. */
static bool has_columns(const charl__recipe *recipe, const charl__table *t)
{
    bool named = false;

    for (int i = 0; i < recipe->n; i++) {
        const charl__recipe_column *c = &recipe->column[i];

        if (c->kind > CHARL__COLUMN_WORDS) {
            continue;
        }
        if (!has_field(t, c->name, strlen(c->name))) {
            return false;
        }
        named = c->name[0];
    }
    return named;
}

/* Whether the first line contains names: none is a number, the model's columns are among them, or they count from 0. */
static bool is_header(const charl__recipe *recipe, const charl__table *t)
{
    bool numbers = false;

    for (int i = 0; i < t->n_columns; i++) {
        const char *field = charl__table_field(t, i);

        numbers = numbers || charl__parse_number(field, '.', NULL) || charl__parse_number(field, ',', NULL);
    }
    return t->parquet || !numbers || has_columns(recipe, t) || charl__table_counts_columns(t) >= 3;
}

/* The table begins with the model's names. Lines above it, such as a title, are not part of it. */
static charl_status open_table(charl__rows *r, csv_rows *c)
{
    enum { MOST_LINES = 20 };

    CHARL_TRY(charl__table_open(&c->table, r->path, r->o.separator, r->o.places ? r->o.places->skip : 0));
    for (int skip = 1;
         !c->table.parquet && !r->o.places && has_names(c) && !has_columns(&c->recipe, &c->table) && skip <= MOST_LINES;
         skip++) {
        charl__table other;
        const charl_status st = charl__table_open(&other, r->path, r->o.separator, skip);
        const bool found = st == CHARL_OK && has_columns(&c->recipe, &other);

        if (found) {
            charl__table_close(&c->table);
            c->table = other;
            CHARL_TRY(charl__rows_note(r, "%s: the names of the columns are in line %lld, the lines above are left out",
                                       r->path, (long long)charl__csv_line(other.csv)));
            break;
        }
        charl__table_close(&other);
        if (st == CHARL_ERR_CONFIG) { /* the file has fewer lines */
            break;
        }
        if (st != CHARL_ERR_DATA) {
            CHARL_TRY(st);
        }
    }
    if (r->o.decimal) {
        c->recipe.format = (charl__number_format){r->o.decimal, true};
    }
    c->table.format = c->table.parquet ? (charl__number_format){.decimal = '.'} : c->recipe.format;
    c->table.missing = c->recipe.missing;
    c->table.values = c->recipe.values;
    return CHARL_OK;
}

static charl_status find_targets(charl__rows *r, csv_rows *c, const char *header)
{
    CHARL_SCOPED_FREE char *missing = NULL;

    if (!header[0] || !r->s->targets[0]) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__names_match(r->s->targets, header, &c->target, &missing));
    c->n_targets = missing ? 0 : charl_names_count(r->s->targets);
    if (missing && c->n_targets < charl_names_count(r->s->targets)) {
        bool some = false;

        for (int64_t i = 0; i < charl_names_count(r->s->targets); i++) {
            some = some || c->target[i] >= 0;
        }
        if (some) {
            CHARL_TRY(charl__rows_note(r, "%s has only some of the targets: no %s", r->path, missing));
        }
    }
    r->has_targets = c->n_targets > 0;
    return CHARL_OK;
}

/* Report the columns of the file that are neither inputs nor targets. */
static charl_status note_ignored(charl__rows *r, const csv_rows *c)
{
    enum { SHOWN = 8 };
    CHARL_SCOPED(charl__text_fini) charl__text names = {0};
    CHARL_SCOPED_FREE bool *used = NULL;
    int n = 0;

    CHARL_TRY(charl__alloc_array(c->table.n_columns, sizeof *used, &used));
    for (int64_t i = 0; i < c->n_columns; i++) {
        used[c->column[i]] = true;
    }
    for (int64_t i = 0; i < c->n_targets; i++) {
        used[c->target[i]] = true;
    }
    if (c->id >= 0) {
        used[c->id] = true;
    }
    for (int i = 0; i < c->recipe.n; i++) { /* columns that training ignored too are not reported */
        for (int k = 0; c->recipe.column[i].kind == CHARL__COLUMN_DROPPED && k < c->table.n_columns; k++) {
            used[k] = used[k] || strcmp(c->table.names[k], c->recipe.column[i].name) == 0;
        }
    }
    for (int i = 0; i < c->table.n_columns; i++) {
        if (!used[i] && n++ < SHOWN) {
            CHARL_TRY(charl__text_printf(&names, "%s%s", n > 1 ? ", " : "", c->table.names[i]));
        }
    }
    if (n > SHOWN) {
        CHARL_TRY(charl__text_printf(&names, " and %d others", n - SHOWN));
    }
    if (n > 0) {
        CHARL_TRY(charl__rows_note(r, "%s: %s does not take these columns, they are ignored: %s", r->path, r->o.model,
                                   charl__text_string(&names)));
    }
    return CHARL_OK;
}

/* Names on both sides: any order, and additional columns. */
static charl_status find_by_name(charl__rows *r, csv_rows *c, const char *header)
{
    CHARL_SCOPED(charl__text_fini) charl__text names = {0};
    CHARL_SCOPED_FREE char *missing = NULL;
    int64_t lacking = 0;

    for (int64_t i = 0; i < c->n_columns; i++) {
        CHARL_TRY(charl__text_printf(&names, "%s%s", i ? "\n" : "", c->recipe.column[c->in_recipe[i]].name));
    }
    CHARL_TRY(charl__names_match(charl__text_string(&names), header, &c->column, &missing));
    for (int64_t i = 0; i < c->n_columns; i++) {
        lacking += c->column[i] < 0;
    }
    CHARL_REQUIRE(!missing, CHARL_ERR_DATA, "%s has no column%s %s, which %s needs; HINT %s", r->path,
                  lacking == 1 ? "" : "s", missing, r->o.model,
                  c->table.n_columns == 1 && c->n_columns > 1
                      ? "it has a single column: which separator has it? --separator"
                      : "its first line must hold the names of the columns, in any order");
    CHARL_TRY(note_ignored(r, c));
    return CHARL_OK;
}

/* Which columns of the file correspond to the recipe's: all of them, all except the targets, or those that it uses. */
static bool stands_in(const charl__recipe_column *c, charl__column_kind last)
{
    return c->kind <= last;
}

static int64_t count_columns(const charl__recipe *r, charl__column_kind last)
{
    int64_t n = 0;

    for (int i = 0; i < r->n; i++) {
        n += stands_in(&r->column[i], last);
    }
    return n;
}

/* By position: the columns of the training file in its order, with or without its targets and ignored columns. */
static charl_status find_by_place(charl__rows *r, csv_rows *c)
{
    static const charl__column_kind lasts[] = {CHARL__COLUMN_WORDS, CHARL__COLUMN_DROPPED, CHARL__COLUMN_TARGET};
    enum { LASTS = sizeof lasts / sizeof *lasts };
    const int64_t have = c->table.n_columns - c->n_targets - (c->id >= 0);
    int64_t n = 0;
    int which = 0, at = 0;

    while (which < LASTS && count_columns(&c->recipe, lasts[which]) != have) {
        which++;
    }
    CHARL_REQUIRE(which < LASTS, CHARL_ERR_DATA, "%s has %lld columns, %s takes %lld; HINT %s", r->path,
                  (long long)have, r->o.model, (long long)c->n_columns,
                  r->s->columns[0] ? "with a first line of names the columns are found by name, and "
                                     "others are left out"
                                   : "its training data had no names, so the columns must be those, "
                                     "in that order, without the target");
    CHARL_TRY(charl__alloc_array(c->n_columns, sizeof *c->column, &c->column));
    for (int i = 0; i < c->table.n_columns; i++) {
        bool in_recipe = i == c->id;

        for (int64_t k = 0; k < c->n_targets; k++) {
            in_recipe = in_recipe || c->target[k] == i;
        }
        if (in_recipe) {
            continue;
        }
        while (!stands_in(&c->recipe.column[at], lasts[which])) {
            at++;
        }
        if (c->recipe.column[at++].kind <= CHARL__COLUMN_WORDS) {
            c->column[n++] = i;
        }
    }
    if (c->table.names || has_names(c)) {
        CHARL_TRY(charl__rows_warn(
            r,
            "%s has no column names, but %s does; columns are matched by position, which is correct only if "
            "they are in the order of the training data",
            c->table.names ? r->o.model : r->path, c->table.names ? r->path : r->o.model));
    }
    return CHARL_OK;
}

/* As the import of this file has found them. */
static charl_status use_places(charl__rows *r, csv_rows *c)
{
    const charl__rows_places *p = r->o.places;

    CHARL_REQUIRE(c->table.n_columns == c->recipe.n, CHARL_ERR_DATA, "%s: the file changed while it was being read",
                  r->path);
    CHARL_TRY(charl__alloc_array(c->n_columns, sizeof *c->column, &c->column));
    CHARL_TRY(charl__alloc_array(p->n_targets, sizeof *c->target, &c->target));
    for (int64_t i = 0; i < c->n_columns; i++) {
        c->column[i] = c->in_recipe[i];
    }
    for (; c->n_targets < p->n_targets; c->n_targets++) {
        c->target[c->n_targets] = p->target[c->n_targets];
    }
    r->has_targets = c->n_targets > 0;
    return CHARL_OK;
}

static charl_status find_id(charl__rows *r, csv_rows *c)
{
    c->id = r->o.id && c->table.names ? charl__table_find(&c->table, r->o.id) : -1;
    return r->o.id && c->id < 0 ? charl__table_no_column(&c->table, r->o.id, CHARL_ERR_CONFIG) : CHARL_OK;
}

/* The schema's recipe, or a number for each column. */
static charl_status read_recipe(charl__rows *r, csv_rows *c)
{
    const char *name = r->s->columns;
    const int64_t width = r->s->x_shape.dim[0];

    if (r->s->recipe[0]) {
        CHARL_TRY(charl__recipe_parse(r->o.model, r->s->recipe, &c->recipe));
    } else {
        CHARL_REQUIRE(!name[0] || charl_names_count(name) == width, CHARL_ERR_DATA,
                      "%s has %lld names for %lld columns", r->o.model, (long long)charl_names_count(name),
                      (long long)width);
        CHARL_TRY(charl__recipe_init(&c->recipe, (int)width));
        for (int i = 0; name[0] && i < c->recipe.n; i++) {
            const size_t length = strcspn(name, "\n");
            charl__text one = {0};
            const charl_status st = charl__text_printf(&one, "%.*s", (int)length, name);

            charl_free(c->recipe.column[i].name);
            c->recipe.column[i].name = charl__text_steal(&one);
            CHARL_TRY(st);
            name += length + (name[length] == '\n');
        }
    }
    CHARL_REQUIRE(charl__recipe_width(&c->recipe) == width, CHARL_ERR_DATA,
                  "%s takes %lld columns, and its recipe gives %lld", r->o.model, (long long)width,
                  (long long)charl__recipe_width(&c->recipe));
    CHARL_TRY(charl__alloc_array(c->recipe.n, sizeof *c->in_recipe, &c->in_recipe));
    CHARL_TRY(charl__alloc_array(width, sizeof *c->wide, &c->wide));
    for (int i = 0; i < c->recipe.n; i++) {
        if (c->recipe.column[i].kind <= CHARL__COLUMN_WORDS) {
            c->in_recipe[c->n_columns++] = i;
        }
    }
    CHARL_REQUIRE(c->n_columns > 0, CHARL_ERR_DATA, "%s: its recipe takes no column", r->o.model);
    return CHARL_OK;
}

static charl_status open_csv(charl__rows *r)
{
    csv_rows *c = NULL;
    CHARL_SCOPED(charl__text_fini) charl__text header = {0};

    if (r->s->x_shape.ndim != 1) {
        CHARL_TRY(charl__kind_expect(
            r->path, CHARL__KIND_TABLE,
            r->s->kind == CHARL_DATASET_IMAGES ? "a PNG or JPEG file" : "an array (.npy or HDF5)", CHARL_ERR_DATA));
    }
    CHARL_REQUIRE(r->s->x_shape.ndim == 1, CHARL_ERR_DATA,
                  "%s is read as a CSV file, and %s takes samples of %s; HINT %s", r->path, r->o.model,
                  charl__rows_sample_text(r->s),
                  r->s->kind == CHARL_DATASET_IMAGES ? "give it PNG or JPEG files, folders of them, or a .npy array"
                                                     : "give it a .npy array or an HDF5 file");
    CHARL_TRY(charl__alloc(sizeof *c, &c));
    r->self = c;
    CHARL_TRY(read_recipe(r, c));
    CHARL_TRY(open_table(r, c));
    if (r->o.places ? r->o.places->header : is_header(&c->recipe, &c->table)) {
        CHARL_TRY(charl__table_use_header(&c->table));
    }
    CHARL_TRY(list_names(&c->table, &header));
    CHARL_TRY(find_id(r, c));
    if (r->o.places) {
        CHARL_TRY(use_places(r, c));
        return CHARL_OK;
    }
    CHARL_TRY(find_targets(r, c, charl__text_string(&header)));
    if (c->table.names && has_names(c)) {
        CHARL_TRY(find_by_name(r, c, charl__text_string(&header)));
    } else {
        CHARL_TRY(find_by_place(r, c));
    }
    return CHARL_OK;
}

static charl_status count_csv(charl__rows *r, int64_t *n)
{
    csv_rows *c = r->self;
    bool more;

    *n = 0;
    for (;;) {
        CHARL_TRY(charl__table_next(&c->table, &more));
        if (!more) {
            break;
        }
        (*n)++;
    }
    CHARL_TRY(charl__table_rewind(&c->table));
    return CHARL_OK;
}

static charl_status read_columns(const charl__rows *r, csv_rows *c, void *x, int64_t row)
{
    const int64_t width = r->s->x_shape.dim[0];
    int64_t at = 0;
    bool known;

    for (int64_t i = 0; i < c->n_columns; i++) {
        const int column = (int)c->column[i];

        CHARL_TRY(charl__recipe_read(&c->recipe, c->in_recipe[i], &c->table, column, c->wide + at, &known));
        if (!known && c->strange++ == 0) {
            CHARL_TRY(charl__text_printf(&c->first_strange, "%s: column %s: \"%.40s\"", charl__table_place(&c->table),
                                         charl__table_column(&c->table, column),
                                         charl__table_field(&c->table, column)));
        }
        for (const int64_t end = at + charl__recipe_column_width(&c->recipe.column[c->in_recipe[i]]); at < end; at++) {
            CHARL_REQUIRE(charl__put_number(r->s->x_dtype,
                                            r->s->x_dtype == CHARL_F32 ? (double)(float)c->wide[at] : c->wide[at], x,
                                            row * width + at),
                          CHARL_ERR_DATA, "%s: column %s: %s is no %s, which %s takes", charl__table_place(&c->table),
                          charl__table_column(&c->table, column), charl__table_field(&c->table, column),
                          charl_dtype_name(r->s->x_dtype), r->o.model);
        }
    }
    return CHARL_OK;
}

/* Targets are optional: one that is missing or unknown to the model is ignored. */
static charl_status read_targets(charl__rows *r, csv_rows *c, void *y, int64_t row)
{
    const bool values = r->s->y_dtype == CHARL_F32;

    for (int64_t i = 0; i < c->n_targets; i++) {
        const char *field = charl__table_field(&c->table, (int)c->target[i]);
        const int64_t at = row * c->n_targets + i;
        float v = NAN;
        int32_t class = -1;

        const bool given = !charl__table_is_missing(&c->table, field);
        double number = 0;

        if (values && r->o.imports) {
            CHARL_TRY(charl__table_number(&c->table, (int)c->target[i], &v));
        } else if (!given) {
            ;
        } else if (values) {
            v = charl__parse_formatted(field, c->table.format, &number) ? (float)number : NAN;
        } else {
            class = charl__rows_class(r, field);
        }
        if (values) {
            ((float *)y)[at] = isfinite(v) ? v : NAN;
        } else {
            ((int32_t *)y)[at] = class;
        }
        CHARL_REQUIRE(!r->o.imports || (values ? isfinite(v) : class >= 0), CHARL_ERR_DATA,
                      "%s: the target is missing, or none that %s has", charl__table_place(&c->table), r->o.model);
        if (given && (values ? !isfinite(v) : class < 0) && c->unknown++ == 0) {
            CHARL_TRY(charl__text_printf(&c->first_unknown, "%s: \"%.40s\"", charl__table_place(&c->table), field));
        }
    }
    return CHARL_OK;
}

static charl_status keep_id(csv_rows *c, int64_t row)
{
    const char *field;

    if (c->id < 0) {
        return CHARL_OK;
    }
    if (row == 0) {
        charl__text_clear(&c->ids);
    }
    if (row >= c->id_capacity) {
        const int64_t capacity = row < 64 ? 64 : 2 * row;

        CHARL_TRY(charl__realloc((size_t)capacity * sizeof *c->id_at, &c->id_at));
        c->id_capacity = capacity;
    }
    field = charl__table_field(&c->table, c->id);
    c->id_at[row] = c->ids.length;
    CHARL_TRY(charl__text_append(&c->ids, field, strlen(field) + 1));
    return CHARL_OK;
}

/* Whether the current row has a gap for which the import of the training data omitted rows. */
static bool is_left_out(const charl__rows *r, const csv_rows *c)
{
    for (int64_t i = 0; r->o.places && i < c->n_targets; i++) {
        if (charl__table_is_missing(&c->table, charl__table_field(&c->table, (int)c->target[i]))) {
            return true;
        }
    }
    for (int64_t i = 0; r->o.imports && i < c->n_columns; i++) {
        if (c->recipe.column[c->in_recipe[i]].missing == CHARL__MISSING_DROP &&
            charl__table_is_missing(&c->table, charl__table_field(&c->table, (int)c->column[i]))) {
            return true;
        }
    }
    return false;
}

static charl_status next_csv(charl__rows *r, int64_t most, void *x, void *y, int64_t *n)
{
    csv_rows *c = r->self;
    bool more = true;

    while (*n < most) {
        CHARL_TRY(charl__table_next(&c->table, &more));
        if (!more) {
            break;
        }
        if (is_left_out(r, c)) {
            c->left_out++;
            continue;
        }
        CHARL_TRY(read_columns(r, c, x, *n));
        CHARL_TRY(read_targets(r, c, y, *n));
        CHARL_TRY(keep_id(c, *n));
        (*n)++;
    }
    if (!more && c->left_out > 0 && !r->o.places) { /* otherwise the import has reported them */
        CHARL_TRY(charl__rows_note(r, "%lld row%s with a gap in a column of --missing drop left out",
                                   (long long)c->left_out, c->left_out == 1 ? "" : "s"));
        c->left_out = 0;
    }
    if (!more && c->unknown > 0) {
        if (r->s->y_dtype == CHARL_F32) {
            CHARL_TRY(charl__rows_warn(r, "%lld target%s not counted; the first: %s", (long long)c->unknown,
                                       c->unknown == 1 ? " is no number and is" : "s are no numbers and are",
                                       charl__text_string(&c->first_unknown)));
        } else {
            CHARL_TRY(charl__rows_warn(r, "%s does not know %lld label%s not counted; the first: %s", r->o.model,
                                       (long long)c->unknown, c->unknown == 1 ? ", which is" : "s, which are",
                                       charl__text_string(&c->first_unknown)));
        }
        c->unknown = 0;
    }
    if (!more && c->strange > 0) {
        CHARL_TRY(charl__rows_warn(
            r, "%lld word%s not occur in the training data of %s and %s treated as unknown; the first: %s",
            (long long)c->strange, c->strange == 1 ? " does" : "s do", r->o.model, c->strange == 1 ? "is" : "are",
            charl__text_string(&c->first_strange)));
        c->strange = 0;
    }
    return CHARL_OK;
}

static const char *name_csv(const charl__rows *r, int64_t i)
{
    const csv_rows *c = r->self;

    return c->id < 0 ? NULL : c->ids.data + c->id_at[i];
}

static void close_csv(charl__rows *r)
{
    csv_rows *c = r->self;

    if (c) {
        charl__table_close(&c->table);
        charl__recipe_fini(&c->recipe);
        charl_free(c->in_recipe);
        charl_free(c->wide);
        charl__text_fini(&c->first_strange);
        charl_free(c->column);
        charl_free(c->target);
        charl_free(c->id_at);
        charl__text_fini(&c->ids);
        charl__text_fini(&c->first_unknown);
    }
}

const charl__rows_kind charl__rows_csv = {
    .open = open_csv, .next = next_csv, .count = count_csv, .name = name_csv, .close = close_csv};
