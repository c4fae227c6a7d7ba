/* Permutation importance: evaluations in which a group of columns comes from other rows. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "data/table/recipe.h"
#include "io/dataset/fields.h"
#include "train/replica.h"

typedef struct group {
    char name[256];
    int64_t first, count; /* elements of a sample */
} group;

typedef struct groups {
    group *at; /* [n] */
    int64_t n;
} groups;

static void add(groups *g, const char *name, size_t length, int64_t count)
{
    group *new = &g->at[g->n];

    new->first = g->n > 0 ? new[-1].first + new[-1].count : 0;
    new->count = count;
    if (length > 0) {
        snprintf(new->name, sizeof new->name, "%.*s", (int)length, name);
    } else {
        snprintf(new->name, sizeof new->name, "%lld", (long long)new->first);
    }
    g->n += count > 0;
}

/* The columns of the file that the table was made of. */
static charl_status add_columns(const charl_data_schema *s, const char *path, groups *g)
{
    charl_status st = CHARL_OK;
    charl__recipe recipe = {.n = 0};

    CHARL_TRY_CLEANUP(charl__recipe_parse(path, s->recipe, &recipe));
    CHARL_TRY_CLEANUP(charl__alloc_array(recipe.n + 1, sizeof *g->at, &g->at));
    for (int i = 0; i < recipe.n; i++) {
        const charl__recipe_column *c = &recipe.column[i];

        add(g, c->name, strlen(c->name), charl__recipe_column_width(c));
    }
cleanup:
    charl__recipe_fini(&recipe);
    return st;
}

static charl_status find_groups(const charl__replica *r, groups *g)
{
    const charl_data_schema *s = r->session->schema;
    const int64_t width = charl_shape_count(&s->x_shape);
    charl__field f[2 * CHARL__MAX_FIELDS];
    const int n = charl__fields_parse(s->fields, f);

    if (n > 0) {
        CHARL_TRY(charl__alloc_array(n, sizeof *g->at, &g->at));
        for (int k = 0; k < n && !f[k].target; k++) {
            add(g, f[k].name, strlen(f[k].name), f[k].count);
        }
        return CHARL_OK;
    }
    CHARL_REQUIRE((s->kind == CHARL_DATASET_TABLE || s->kind == CHARL_DATASET_REGRESSION) && s->x_shape.ndim == 1,
                  CHARL_ERR_CONFIG,
                  "%s holds %s, which have no columns; HINT the importance is measured of columns of tables and of "
                  "named inputs (data.x)",
                  r->session->data.path, charl_dataset_kind_name(s->kind));
    if (s->recipe[0]) {
        return add_columns(s, r->session->data.path, g);
    }
    CHARL_TRY(charl__alloc_array(width, sizeof *g->at, &g->at));
    for (int64_t i = 0; i < width; i++) {
        size_t length = 0;
        const char *name = charl_names_get(s->columns, i, &length);

        add(g, name, name ? length : 0, 1);
    }
    return CHARL_OK;
}

/* Mean and deviation of n values. */
static void summarize(const double *v, int n, double *mean, double *deviation)
{
    double sum = 0.0, squares = 0.0;

    for (int i = 0; i < n; i++) {
        sum += v[i];
    }
    *mean = sum / n;
    for (int i = 0; i < n; i++) {
        squares += (v[i] - *mean) * (v[i] - *mean);
    }
    *deviation = n > 1 ? sqrt(squares / (n - 1)) : (double)NAN;
}

/* changes: [1 + CHARL_MAX_METRICS, repeats] of the loss, then of the metrics */
static charl_status measure(charl__replica *r, const group *g, const charl_val_row *whole, int repeats, double *changes,
                            charl_importance *out)
{
    *out = (charl_importance){.name = g->name, .columns = g->count, .n_metrics = whole->n_metrics};
    for (int k = 0; k < repeats; k++) {
        charl_val_row row;
        charl_status st;

        st = charl_dataset_permute(r->session->ds, r->eval_split, g->first, g->count, (uint64_t)k + 1);
        CHARL_TRY(charl_comm_agree(r->comm, st));
        CHARL_TRY(charl__replica_evaluate(r, 0, &row, NULL));
        changes[k] = row.loss - whole->loss;
        for (int i = 0; i < whole->n_metrics; i++) {
            changes[(1 + i) * repeats + k] = row.metrics[i].value - whole->metrics[i].value;
        }
    }
    summarize(changes, repeats, &out->loss, &out->loss_deviation);
    for (int i = 0; i < whole->n_metrics; i++) {
        out->metrics[i] = whole->metrics[i];
        summarize(changes + (1 + i) * repeats, repeats, &out->metrics[i].value, &out->deviations[i]);
    }
    return CHARL_OK;
}

charl_status charl__replica_importance(charl__replica *r, const charl_val_row *whole, int repeats,
                                       charl_status (*measured)(void *ctx, const charl_importance *importance),
                                       void *ctx)
{
    charl_status st = CHARL_OK;
    groups g = {0};
    double *changes = NULL;

    st = find_groups(r, &g);
    st =
        st == CHARL_OK ? charl__alloc_array((1 + CHARL_MAX_METRICS) * (int64_t)repeats, sizeof *changes, &changes) : st;
    CHARL_TRY_CLEANUP(charl_comm_agree(r->comm, st));
    for (int64_t i = 0; i < g.n; i++) {
        charl_importance importance;

        CHARL_TRY_CLEANUP(measure(r, &g.at[i], whole, repeats, changes, &importance));
        CHARL_TRY_CLEANUP(charl_comm_agree(r->comm, measured(ctx, &importance)));
    }
cleanup:
    charl_free(g.at);
    charl_free(changes);
    return st;
}
