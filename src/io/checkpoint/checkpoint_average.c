/* The mean of several checkpoints' weights: sums in double in the order given, one rounding at the
 * end. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "charl/checkpoint.h"
#include "io/commit.h"
#include "io/dataset/schema/data_schema.h"

typedef struct average {
    const char *const *path;
    int n;
    charl_checkpoint_reader **reader;
    charl_checkpoint_tensor *tensor; /* of the result, data owned */
    int64_t count, capacity;
    double *sum;
    float *value;
} average;

static bool is_weight(const charl_checkpoint_tensor *t)
{
    return strcmp(t->group, "model") == 0;
}

static int64_t count_weights(const charl_checkpoint_reader *r)
{
    int64_t n = 0;

    for (int64_t i = 0; i < charl_checkpoint_get_info(r).n_tensors; i++) {
        n += is_weight(charl_checkpoint_get_tensor(r, i));
    }
    return n;
}

/* File k must have the same weights as the first file, by name and shape. */
static charl_status check_same(const average *a, int k, int64_t weights)
{
    char first[CHARL_SHAPE_TEXT], other[CHARL_SHAPE_TEXT];

    for (int64_t i = 0; i < charl_checkpoint_get_info(a->reader[k]).n_tensors; i++) {
        const charl_checkpoint_tensor *t = charl_checkpoint_get_tensor(a->reader[k], i), *same;

        if (!is_weight(t)) {
            continue;
        }
        same = charl_checkpoint_find(a->reader[0], "model", t->name);
        CHARL_REQUIRE(same, CHARL_ERR_CHECKPOINT,
                      "%s has /model/%s, which %s does not have: they are of different models", a->path[k], t->name,
                      a->path[0]);
        CHARL_REQUIRE(t->dtype == CHARL_F32, CHARL_ERR_CHECKPOINT, "%s: /model/%s is %s; only f32 is averaged",
                      a->path[k], t->name, charl_dtype_name(t->dtype));
        CHARL_REQUIRE(charl_shape_equal(&t->shape, &same->shape), CHARL_ERR_CHECKPOINT,
                      "%s: /model/%s is %s, in %s it is %s: they are of different models", a->path[k], t->name,
                      charl_shape_format(&t->shape, other), a->path[0], charl_shape_format(&same->shape, first));
        CHARL_REQUIRE(charl_checkpoint_is_in_base(a->reader[k], t) == charl_checkpoint_is_in_base(a->reader[0], same) &&
                          (!charl_checkpoint_is_in_base(a->reader[k], t) || t->crc32c == same->crc32c),
                      CHARL_ERR_CHECKPOINT,
                      "%s and %s do not leave /model/%s to the same base: they are of different runs", a->path[k],
                      a->path[0], t->name);
        weights--;
    }
    CHARL_REQUIRE(weights == 0, CHARL_ERR_CHECKPOINT, "%s lacks weights that %s has: they are of different models",
                  a->path[k], a->path[0]);
    return CHARL_OK;
}

/* Weights for other classes, columns or units have no mean. Files of version 1 do not tell. */
static charl_status check_schema(const average *a, int k)
{
    const charl_data_schema *first = charl_checkpoint_get_info(a->reader[0]).schema;
    const charl_data_schema *other = charl_checkpoint_get_info(a->reader[k]).schema;
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};

    if (first && other) {
        CHARL_TRY(charl__schema_diff(first, other, &text));
    }
    CHARL_REQUIRE(text.length == 0, CHARL_ERR_CHECKPOINT,
                  "%s and %s were trained on data with other classes, columns or normalization:\n%s", a->path[0],
                  a->path[k], charl__text_string(&text));
    return CHARL_OK;
}

static charl_status open_all(average *a)
{
    CHARL_TRY(charl__alloc_array(a->n, sizeof(charl_checkpoint_reader *), &a->reader));
    for (int k = 0; k < a->n; k++) {
        CHARL_TRY(charl_checkpoint_open(a->path[k], &a->reader[k]));
    }
    a->capacity = count_weights(a->reader[0]);
    for (int k = 0; k < a->n; k++) {
        CHARL_TRY(check_same(a, k, a->capacity));
        CHARL_TRY(check_schema(a, k));
    }
    return CHARL_OK;
}

static charl_status add_mean(average *a, const charl_checkpoint_tensor *first)
{
    const int64_t n = charl_shape_count(&first->shape);
    float *mean = NULL;

    CHARL_TRY(charl__realloc(((size_t)n + 1) * sizeof *a->sum, &a->sum));
    CHARL_TRY(charl__realloc(((size_t)n + 1) * sizeof *a->value, &a->value));
    CHARL_TRY(charl__alloc_array(n + 1, sizeof *mean, &mean));
    a->tensor[a->count] = *first;
    a->tensor[a->count++].data = mean;
    memset(a->sum, 0, (size_t)n * sizeof *a->sum);
    for (int k = 0; k < a->n; k++) {
        CHARL_TRY(
            charl_checkpoint_read(a->reader[k], charl_checkpoint_find(a->reader[k], "model", first->name), a->value));
        for (int64_t i = 0; i < n; i++) {
            a->sum[i] += (double)a->value[i];
        }
    }
    for (int64_t i = 0; i < n; i++) {
        mean[i] = (float)(a->sum[i] / a->n);
    }
    return CHARL_OK;
}

static charl_status add_all(average *a)
{
    CHARL_TRY(charl__alloc_array(a->capacity, sizeof *a->tensor, &a->tensor));
    for (int64_t i = 0; i < charl_checkpoint_get_info(a->reader[0]).n_tensors; i++) {
        const charl_checkpoint_tensor *t = charl_checkpoint_get_tensor(a->reader[0], i);

        if (is_weight(t) && charl_checkpoint_is_in_base(a->reader[0], t)) {
            a->tensor[a->count] = *t;
            a->tensor[a->count++].group = CHARL_CHECKPOINT_BASE;
        } else if (is_weight(t)) {
            CHARL_TRY(add_mean(a, t));
        }
    }
    return CHARL_OK;
}

/* State and configuration are taken from the checkpoint with the most steps. */
static charl_status save(const average *a, const char *out)
{
    const charl_checkpoint_reader *newest = a->reader[0];
    charl_checkpoint c = {.tensors = a->tensor, .n_tensors = a->count};

    for (int k = 1; k < a->n; k++) {
        if (charl_checkpoint_get_info(a->reader[k]).state->step > charl_checkpoint_get_info(newest).state->step) {
            newest = a->reader[k];
        }
    }
    c.state = *charl_checkpoint_get_info(newest).state;
    c.state.writer = NULL;
    c.state.best_metric = (double)NAN;
    c.state.best_step = 0;
    c.state.stale_evals = 0;
    c.state.audited_step = 0;
    c.state.optim_kind = CHARL_CHECKPOINT_NO_OPTIMIZER;
    c.state.optim_t = 0;
    c.config_text = charl_checkpoint_get_info(newest).config_text;
    c.config_resolved = charl_checkpoint_get_info(newest).config_resolved;
    c.schema = charl_checkpoint_get_info(newest).schema;
    CHARL_TRY(charl_checkpoint_save(out, &c));
    return CHARL_OK;
}

static void average_fini(average *a)
{
    for (int k = 0; a->reader && k < a->n; k++) {
        charl_checkpoint_close(a->reader[k]);
    }
    for (int64_t i = 0; i < a->count; i++) {
        void *data;

        memcpy(&data, &a->tensor[i].data, sizeof data); /* owned, though const to writers */
        charl_free(data);
    }
    charl_free(a->reader);
    charl_free(a->tensor);
    charl_free(a->sum);
    charl_free(a->value);
}

charl_status charl_checkpoint_average(const char *const *paths, int n, const char *out)
{
    CHARL_GIVEN(paths || n == 0, out);
    CHARL_SCOPED(average_fini) average a = {.path = paths, .n = n};

    CHARL_REQUIRE(n >= 1, CHARL_ERR_INVALID, "a mean of %d checkpoints", n);
    CHARL_TRY(charl__commit_check_inputs(out, paths, n));
    CHARL_TRY(open_all(&a));
    CHARL_TRY(add_all(&a));
    CHARL_TRY(save(&a, out));
    return CHARL_OK;
}
