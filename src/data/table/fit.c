#include "data/table/fit.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/dataset/dataset_write.h"

charl_status charl__fit_begin(charl__fit *f, charl__recipe *recipe, charl__look *look)
{
    *f = (charl__fit){.recipe = recipe, .look = look};
    CHARL_TRY(charl__alloc_array(recipe->n, sizeof *f->column, &f->column));
    for (int i = 0; i < recipe->n; i++) {
        if (recipe->column[i].kind == CHARL__COLUMN_WORDS) {
            f->column[i].n_seen = look[i].set.n;
            CHARL_TRY(charl__alloc_array(look[i].set.n, sizeof(bool), &f->column[i].seen));
        }
    }
    return CHARL_OK;
}

void charl__fit_fini(charl__fit *f)
{
    for (int i = 0; f->column && i < f->recipe->n; i++) {
        charl_free(f->column[i].value);
        charl_free(f->column[i].seen);
    }
    charl_free(f->column);
    *f = (charl__fit){0};
}

static charl_status add_numbers(charl__fit_column *f, const charl__recipe_column *c, const double *values)
{
    const int64_t parts = charl__recipe_numbers(c);

    for (int64_t k = 0; k < parts; k++) {
        f->sum[k] += values[k];
        if (c->missing == CHARL__MISSING_MEDIAN) {
            CHARL_TRY(charl__grow(f->n * parts + k, sizeof *f->value, &f->value));
            f->value[f->n * parts + k] = values[k];
        }
    }
    f->n++;
    return CHARL_OK;
}

static charl_status add_field(charl__fit *f, const charl__table *t, int i)
{
    const charl__recipe_column *c = &f->recipe->column[i];
    const char *field = charl__table_field(t, i);
    double values[CHARL__DATE_PARTS];
    int64_t index;

    if (charl__table_is_missing(t, field)) {
        f->column[i].missing++;
    } else if (c->kind == CHARL__COLUMN_WORDS) {
        CHARL_TRY(charl__name_set_add(&f->look[i].set, field, &index));
        CHARL_REQUIRE(index < f->column[i].n_seen, CHARL_ERR_DATA, "%s: the file changed while it was being read",
                      charl__table_place(t));
        f->column[i].seen[index] = true;
        f->column[i].n++;
    } else if (charl__recipe_convert(f->recipe, c, field, values)) {
        CHARL_TRY(add_numbers(&f->column[i], c, values));
    }
    return CHARL_OK; /* a field that is not a date is reported when the row is converted */
}

charl_status charl__fit_add(charl__fit *f, const charl__table *t)
{
    for (int i = 0; i < f->recipe->n; i++) {
        if (f->recipe->column[i].kind <= CHARL__COLUMN_WORDS) {
            CHARL_TRY(add_field(f, t, i));
        }
    }
    return CHARL_OK;
}

static charl_status set_words(charl__fit *f, int i, const char *path, const char *name)
{
    const charl__name_set *set = &f->look[i].set;
    charl__recipe_column *c = &f->recipe->column[i];
    CHARL_SCOPED_FREE int64_t *order = NULL;

    CHARL_TRY(charl__name_set_sort(set, &order));
    for (int64_t k = 0; k < set->n; k++) {
        const char *word = set->names[order[k]], *why = charl__name_fault(word);

        if (!f->column[i].seen[order[k]]) {
            continue;
        }
        CHARL_REQUIRE(!why, CHARL_ERR_DATA, "%s:%lld: column %s: a category %s%s", path,
                      (long long)f->look[i].first_fault.line, name, f->look[i].fault,
                      strstr(f->look[i].fault, "HINT") ? "" : "; HINT correct it, or --drop leaves the column out");
        CHARL_TRY(charl__grow(c->n_words, sizeof *c->words, &c->words));
        CHARL_TRY(charl__strdup(word, &c->words[c->n_words]));
        c->n_words++;
    }
    return CHARL_OK;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Of every parts-th value from k on. */
static charl_status median(const charl__fit_column *f, int64_t parts, int64_t k, double *out)
{
    double *sorted = NULL;

    CHARL_TRY(charl__alloc_array(f->n, sizeof *sorted, &sorted));
    for (int64_t i = 0; i < f->n; i++) {
        sorted[i] = f->value[i * parts + k];
    }
    qsort(sorted, (size_t)f->n, sizeof *sorted, by_value);
    *out = 0.5 * (sorted[(f->n - 1) / 2] + sorted[f->n / 2]);
    charl_free(sorted);
    return CHARL_OK;
}

charl_status charl__fit_end(charl__fit *f, const charl__table *t)
{
    for (int i = 0; i < f->recipe->n; i++) {
        charl__recipe_column *c = &f->recipe->column[i];
        const charl__fit_column *own = &f->column[i];
        const char *path = charl__source_path(t->source), *name = charl__table_column(t, i);

        if (c->kind > CHARL__COLUMN_WORDS) {
            continue;
        }
        CHARL_REQUIRE(own->n > 0, CHARL_ERR_DATA,
                      "%s: column %s has no values in the training rows; HINT leave it out with --drop", path, name);
        if (c->kind == CHARL__COLUMN_WORDS) {
            CHARL_TRY(set_words(f, i, path, name));
            c->flagged = c->missing > CHARL__MISSING_DROP && own->missing > 0;
            continue;
        }
        c->flagged = c->missing == CHARL__MISSING_FLAG && own->missing > 0;
        for (int64_t k = 0; k < charl__recipe_numbers(c); k++) {
            c->fill[k] = own->sum[k] / (double)own->n;
            if (c->missing == CHARL__MISSING_MEDIAN) {
                CHARL_TRY(median(own, charl__recipe_numbers(c), k, &c->fill[k]));
            }
        }
    }
    return CHARL_OK;
}
