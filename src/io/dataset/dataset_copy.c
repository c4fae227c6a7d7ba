/* New files from the rows of a data set: all of them, some, or each row in one of several files. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/options.h"
#include "io/commit.h"
#include "io/dataset/dataset_private.h"
#include "io/dataset/dataset_read.h"
#include "io/dataset/dataset_write.h"
#include "io/dataset/order/split.h"
#include "io/tokenizer.h"

enum { PART_BYTES = 4 << 20, MOST_PARTS = 255 };

/* The rows of each split of a new file: rows[s] of split from[s]. */
typedef struct choice {
    charl_split from[CHARL_SPLIT_COUNT];
    int64_t *rows[CHARL_SPLIT_COUNT]; /* [n[s]] ascending */
    int64_t n[CHARL_SPLIT_COUNT];
} choice;

static void choice_fini(choice *c)
{
    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        charl_free(c->rows[s]);
    }
    *c = (choice){0};
}

/* Split s takes the rows of split `from` to which part_of assigns `part`; NULL: all. */
static charl_status choose(choice *c, charl_split s, const charl_dataset_info *info, charl_split from,
                           const uint8_t *part_of, int part)
{
    c->from[s] = from;
    CHARL_TRY(charl__alloc_array(info->rows[from] + 1, sizeof(int64_t), &c->rows[s]));
    for (int64_t r = 0; r < info->rows[from]; r++) {
        if (!part_of || part_of[r] == part) {
            c->rows[s][c->n[s]++] = r;
        }
    }
    return CHARL_OK;
}

static charl_status copy_rows(charl_dataset *ds, const charl_dataset_info *info, const choice *c, charl__writer *w)
{
    const int64_t x_bytes = charl_shape_count(&info->x_shape) * (int64_t)charl_dtype_size(info->x_dtype);
    const int64_t y_bytes = charl_shape_count(&info->y_shape) * (int64_t)charl_dtype_size(info->y_dtype);
    const int64_t row_bytes = x_bytes + y_bytes, most = row_bytes < PART_BYTES ? PART_BYTES / row_bytes : 1;
    CHARL_SCOPED_FREE void *x = NULL, *y = NULL;

    CHARL_TRY(charl__alloc_array(most, (size_t)x_bytes, &x));
    CHARL_TRY(charl__alloc_array(most, (size_t)y_bytes, &y));
    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        for (int64_t first = 0; first < c->n[s]; first += most) {
            const int64_t n = c->n[s] - first < most ? c->n[s] - first : most;

            CHARL_TRY(charl_dataset_read(ds, c->from[s], c->rows[s] + first, n, x, y));
            CHARL_TRY(charl__writer_put(w, x, y, n));
        }
    }
    return CHARL_OK;
}

static charl_status copy_weights(charl_dataset *ds, const choice *c, charl__writer *w)
{
    CHARL_SCOPED_FREE float *weights = NULL;
    char name[32];

    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        if (c->n[s] > 0 && ds->views[c->from[s]].w) {
            charl_free(weights);
            CHARL_TRY(charl__alloc_array(c->n[s], sizeof *weights, &weights));
            CHARL_TRY(charl__dataset_read_weights(ds, c->from[s], c->rows[s], c->n[s], weights));
            snprintf(name, sizeof name, "/%s/weights", charl_split_name((charl_split)s));
            CHARL_TRY(charl__writer_array(w, name, CHARL_F32, &(charl_shape){0}, c->n[s], weights));
        }
    }
    return CHARL_OK;
}

/* Rows of tokens are useless without their tokenizer. */
static charl_status copy_tokenizer(const charl_dataset *ds, const charl_dataset_info *info, charl__writer *w)
{
    CHARL_SCOPED(charl__tokenizer_left) charl_tokenizer *t = NULL;

    if (info->kind != CHARL_DATASET_SEQUENCES || !info->tokenizer[0]) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__dataset_tokenizer(ds, &t));
    CHARL_TRY(charl__writer_number(w, "vocab", t->vocab));
    CHARL_TRY(charl__tokenizer_store(t, w));
    return CHARL_OK;
}

static charl_status write_file(charl_dataset *ds, const charl_dataset_info *info, const choice *c, const char *out,
                               const charl_import_options *opt)
{
    charl_import_options whole = *opt;
    CHARL_SCOPED(charl__writer_left) charl__writer *w = NULL;
    charl__writer_spec spec = {.kind = info->kind,
                               .x_dtype = info->x_dtype,
                               .x_item = info->x_shape,
                               .values = ds->values,
                               .y_item = info->y_shape,
                               .rows = c->n[CHARL_SPLIT_TRAIN],
                               .more = c->n[CHARL_SPLIT_VAL],
                               .test = c->n[CHARL_SPLIT_TEST],
                               .scales = info->n_target_stats > 0,
                               .classes = info->classes};

    if (spec.values && spec.y_item.ndim == 0) {
        spec.y_item = (charl_shape){1, {1}}; /* the shape of a network's single output */
    }
    whole.val_split = 0;
    CHARL_TRY(charl__writer_create(out, &spec, &whole, &w));
    CHARL_TRY(charl__writer_text(w, "fit", info->fit));
    CHARL_TRY(charl__writer_text(w, "class_names", info->class_names));
    CHARL_TRY(charl__writer_text(w, "columns", info->columns));
    CHARL_TRY(charl__writer_text(w, "targets", info->targets));
    CHARL_TRY(charl__writer_text(w, "recipe", info->recipe));
    CHARL_TRY(copy_tokenizer(ds, info, w));
    CHARL_TRY(copy_rows(ds, info, c, w));
    CHARL_TRY(copy_weights(ds, c, w));
    CHARL_TRY(charl__writer_finish(w));
    return CHARL_OK;
}

/* The class of each row of a split plus one: 0 for labels that do not count. *out stays NULL if rows have no class. */
static charl_status read_strata(charl_dataset *ds, const charl_dataset_info *info, charl_split split, int32_t **out)
{
    CHARL_SCOPED_FREE int64_t *rows = NULL;
    const int64_t n = info->rows[split];

    *out = NULL;
    if (ds->values || info->y_shape.ndim > 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__alloc_array(n, sizeof *rows, &rows));
    CHARL_TRY(charl__alloc_array(n, sizeof **out, out));
    for (int64_t r = 0; r < n; r++) {
        rows[r] = r;
    }
    CHARL_TRY(charl_dataset_read(ds, split, rows, n, NULL, *out));
    for (int64_t r = 0; r < n; r++) {
        (*out)[r] = charl__label_is_ignored(info->kind, &info->y_shape, (*out)[r]) ? 0 : (*out)[r] + 1;
    }
    return CHARL_OK;
}

/* Move n of the rows whose part_of is `of` to `to`. */
static charl_status give(const int32_t *strata, int64_t rows, const charl_import_options *opt, uint8_t of, uint8_t to,
                         int64_t n, uint8_t *part_of)
{
    CHARL_SCOPED_FREE int32_t *class_of = NULL;
    CHARL_SCOPED_FREE uint8_t *chosen = NULL;
    int64_t k = 0;

    if (n == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__alloc_array(rows, sizeof *class_of, &class_of));
    for (int64_t r = 0; r < rows; r++) {
        if (part_of[r] == of) {
            class_of[k++] = strata ? strata[r] : 0;
        }
    }
    if (!opt->in_order) {
        CHARL_TRY(charl__split_rows(class_of, k, n, opt->seed, &chosen));
    }
    k = 0;
    for (int64_t r = 0; r < rows; r++) {
        if (part_of[r] == of) {
            part_of[r] = (chosen ? chosen[k] : k < n) ? to : of;
            k++;
        }
    }
    return CHARL_OK;
}

static charl_status check_kind(const charl_dataset_info *info)
{
    CHARL_REQUIRE(
        info->kind != CHARL_DATASET_TOKENS, CHARL_ERR_DATA,
        "%s holds tokens, which are divided and merged when they are imported; HINT set the option val-split of the "
        "import; several sets of tokens can be trained on as a mix",
        info->path);
    return CHARL_OK;
}

/* An output file must not be one of the inputs. */
static charl_status check_output(const charl_dataset *ds, const char *out)
{
    for (int i = 0; i < ds->n_joined; i++) {
        CHARL_TRY(check_output(ds->joined[i], out));
    }
    CHARL_TRY(charl__commit_check_inputs(out, (const char *const[]){ds->file.path}, 1));
    return CHARL_OK;
}

charl_status charl_dataset_sample(charl_dataset *ds, int64_t n, const char *out, const charl_import_options *opt)
{
    CHARL_GIVEN(ds, out);
    CHARL__OPTIONS(charl_import_options, opt);
    enum { TRAIN, LEFT_OUT, VAL };
    const charl_import_options none = {sizeof none};
    charl_dataset_info info;
    CHARL_SCOPED(choice_fini) choice c = {0};
    CHARL_SCOPED_FREE int32_t *strata = NULL;
    CHARL_SCOPED_FREE uint8_t *part_of = NULL;
    int64_t rows, val;

    opt = opt ? opt : &none;
    charl_dataset_get_info(ds, &info);
    CHARL_TRY(check_kind(&info));
    CHARL_TRY(check_output(ds, out));
    rows = info.rows[CHARL_SPLIT_TRAIN];
    n = n > 0 ? n : rows;
    CHARL_REQUIRE(n <= rows, CHARL_ERR_CONFIG, "%s has %lld training samples, not %lld", info.path, (long long)rows,
                  (long long)n);
    CHARL_TRY(charl__val_split_count(info.path, "samples", n, opt->val_split, &val));
    CHARL_REQUIRE(opt->val_split == 0 || info.rows[CHARL_SPLIT_VAL] == 0, CHARL_ERR_CONFIG,
                  "%s has a validation set; --val-split is for sets without one", info.path);
    CHARL_TRY(charl__alloc_array(rows, 1, &part_of));
    if (!opt->in_order && (n < rows || val > 0)) {
        CHARL_TRY(read_strata(ds, &info, CHARL_SPLIT_TRAIN, &strata));
    }
    for (int64_t r = 0; r < rows; r++) {
        part_of[r] = LEFT_OUT;
    }
    CHARL_TRY(give(strata, rows, opt, LEFT_OUT, VAL, n, part_of));
    CHARL_TRY(give(strata, rows, opt, VAL, TRAIN, n - val, part_of));
    CHARL_TRY(choose(&c, CHARL_SPLIT_TRAIN, &info, CHARL_SPLIT_TRAIN, part_of, TRAIN));
    CHARL_TRY(choose(&c, CHARL_SPLIT_VAL, &info, val > 0 ? CHARL_SPLIT_TRAIN : CHARL_SPLIT_VAL,
                     val > 0 ? part_of : NULL, VAL));
    CHARL_TRY(choose(&c, CHARL_SPLIT_TEST, &info, CHARL_SPLIT_TEST, NULL, 0));
    CHARL_TRY(write_file(ds, &info, &c, out, opt));
    return CHARL_OK;
}

/* The part that each row of a split is assigned to. */
static charl_status assign(charl_dataset *ds, const charl_dataset_info *info, charl_split split,
                           const double *fractions, int parts, const charl_import_options *opt, uint8_t *part_of)
{
    const int64_t rows = info->rows[split];
    CHARL_SCOPED_FREE int32_t *strata = NULL;
    double sum = 0;

    if (!opt->in_order && rows > 0) {
        CHARL_TRY(read_strata(ds, info, split, &strata));
    }
    for (int64_t r = 0; r < rows; r++) {
        part_of[r] = (uint8_t)(parts - 1);
    }
    for (int p = 0; p < parts - 1; p++) {
        const int64_t begin = (int64_t)((double)rows * sum + 0.5);

        sum += fractions[p];
        CHARL_TRY(give(strata, rows, opt, (uint8_t)(parts - 1), (uint8_t)p, (int64_t)((double)rows * sum + 0.5) - begin,
                       part_of));
    }
    return CHARL_OK;
}

static charl_status check_fractions(const double *fractions, int parts)
{
    double sum = 0;

    CHARL_REQUIRE(parts >= 2 && parts <= MOST_PARTS, CHARL_ERR_CONFIG,
                  "a data set is divided into 2 to %d files, not %d", MOST_PARTS, parts);
    for (int p = 0; p < parts; p++) {
        CHARL_REQUIRE(fractions[p] > 0, CHARL_ERR_CONFIG, "fractions must be larger than 0, not %g", fractions[p]);
        sum += fractions[p];
    }
    CHARL_REQUIRE(fabs(sum - 1) < 1e-6, CHARL_ERR_CONFIG, "the fractions must sum to 1, not %g", sum);
    return CHARL_OK;
}

/* Whether two names of files that need not exist refer to the same file: same folder and name. */
static bool is_same_file(const char *a, const char *b)
{
    const char *name_a = strrchr(a, '/'), *name_b = strrchr(b, '/');
    char folder_a[PATH_MAX], folder_b[PATH_MAX];
    struct stat sa, sb;

    name_a = name_a ? name_a + 1 : a;
    name_b = name_b ? name_b + 1 : b;
    snprintf(folder_a, sizeof folder_a, "%.*s.", (int)(name_a - a), a);
    snprintf(folder_b, sizeof folder_b, "%.*s.", (int)(name_b - b), b);
    return strcmp(name_a, name_b) == 0 &&
           (strcmp(folder_a, folder_b) == 0 ||
            (stat(folder_a, &sa) == 0 && stat(folder_b, &sb) == 0 && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino));
}

/* Before the first file is written: each has a unique name and training samples, and may be written. */
static charl_status check_outs(const char *const *outs, int parts, const double *fractions, const uint8_t *part_of,
                               const charl_dataset_info *info, bool overwrite)
{
    const int64_t rows = info->rows[CHARL_SPLIT_TRAIN];

    for (int p = 0; p < parts; p++) {
        for (int q = 0; q < p; q++) {
            CHARL_REQUIRE(!is_same_file(outs[p], outs[q]), CHARL_ERR_CONFIG, "%s is named twice as a file to write",
                          outs[p]);
        }
        CHARL_REQUIRE(memchr(part_of, p, (size_t)rows), CHARL_ERR_CONFIG,
                      "%s: %g of %lld training samples rounds to no sample", outs[p], fractions[p], (long long)rows);
        CHARL_TRY(charl__writer_may_create(outs[p], overwrite));
    }
    return CHARL_OK;
}

charl_status charl_dataset_divide(charl_dataset *ds, const double *fractions, const char *const *outs, int parts,
                                  const charl_import_options *opt)
{
    CHARL_GIVEN(ds, fractions || parts == 0, outs || parts == 0);
    CHARL__OPTIONS(charl_import_options, opt);
    charl_status st = CHARL_OK;
    const charl_import_options none = {sizeof none};
    charl_dataset_info info;
    choice c = {0};
    uint8_t *part_of[CHARL_SPLIT_COUNT] = {NULL};

    opt = opt ? opt : &none;
    charl_dataset_get_info(ds, &info);
    CHARL_TRY_CLEANUP(check_kind(&info));
    CHARL_TRY_CLEANUP(check_fractions(fractions, parts));
    for (int p = 0; p < parts; p++) {
        CHARL_TRY_CLEANUP(check_output(ds, outs[p]));
    }
    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        CHARL_TRY_CLEANUP(charl__alloc_array(info.rows[s] + 1, 1, &part_of[s]));
        CHARL_TRY_CLEANUP(assign(ds, &info, (charl_split)s, fractions, parts, opt, part_of[s]));
    }
    CHARL_TRY_CLEANUP(check_outs(outs, parts, fractions, part_of[CHARL_SPLIT_TRAIN], &info, opt->overwrite));
    for (int p = 0; p < parts; p++) {
        for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
            CHARL_TRY_CLEANUP(choose(&c, (charl_split)s, &info, (charl_split)s, part_of[s], p));
        }
        CHARL_TRY_CLEANUP(write_file(ds, &info, &c, outs[p], opt));
        choice_fini(&c);
    }
cleanup:
    for (int s = 0; s < CHARL_SPLIT_COUNT; s++) {
        charl_free(part_of[s]);
    }
    choice_fini(&c);
    return st;
}
