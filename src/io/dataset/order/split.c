/* Each class provides its share of the validation rows; the remainder of rounding goes to the classes with the largest fractions. */
#include "io/dataset/order/split.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

typedef struct share {
    int64_t rows, val;
    double rest; /* that rounding down has left */
    int32_t class;
} share;

static int by_rest(const void *a, const void *b)
{
    const share *x = a, *y = b;

    return x->rest > y->rest ? -1 : x->rest < y->rest ? 1 : (x->class > y->class) - (x->class < y->class);
}

static int by_class(const void *a, const void *b)
{
    const share *x = a, *y = b;

    return (x->class > y->class) - (x->class < y->class);
}

/* Number of rows from each class. */
static void allot(share *s, int64_t classes, int64_t rows, int64_t n)
{
    int64_t left = n;

    for (int64_t c = 0; c < classes; c++) {
        const double exact = (double)s[c].rows * ((double)n / (double)rows);

        s[c].val = (int64_t)exact < s[c].rows - 1 ? (int64_t)exact : s[c].rows > 0 ? s[c].rows - 1 : 0;
        s[c].rest = exact - (double)s[c].val;
        left -= s[c].val;
    }
    qsort(s, (size_t)classes, sizeof *s, by_rest);
    for (int must = 1; must >= 0; must--) { /* the last row of a class only if there are no others */
        for (bool gave = true; left > 0 && gave;) {
            gave = false;
            for (int64_t c = 0; c < classes && left > 0; c++) {
                if (s[c].val < s[c].rows - must) {
                    s[c].val++;
                    left--;
                    gave = true;
                }
            }
        }
    }
    qsort(s, (size_t)classes, sizeof *s, by_class);
}

static int by_label(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* The classes in ascending order, without rows so far: all up to the largest label, or only those that occur, if that is more classes than
 * rows: labels may be any numbers. *s: new, charl_free. */
static charl_status find_classes(const int32_t *labels, int64_t rows, share **s, int64_t *classes)
{
    CHARL_SCOPED_FREE int32_t *sorted = NULL;
    int64_t n = 1;

    for (int64_t r = 0; labels && r < rows; r++) {
        n = labels[r] >= n ? (int64_t)labels[r] + 1 : n;
    }
    if (labels && n > rows) {
        CHARL_TRY(charl__alloc_array(rows, sizeof *sorted, &sorted));
        memcpy(sorted, labels, (size_t)rows * sizeof *sorted);
        qsort(sorted, (size_t)rows, sizeof *sorted, by_label);
        n = 0;
        for (int64_t r = 0; r < rows; r++) {
            if (n == 0 || sorted[r] != sorted[n - 1]) {
                sorted[n++] = sorted[r];
            }
        }
    }
    CHARL_TRY(charl__alloc_array(n, sizeof **s, s));
    for (int64_t c = 0; c < n; c++) {
        (*s)[c].class = sorted ? sorted[c] : (int32_t)c;
    }
    *classes = n;
    return CHARL_OK;
}

/* Index in s of the class of row r. */
static int64_t find_class(const share *s, int64_t classes, const int32_t *labels, int64_t r)
{
    const share key = {.class = labels ? labels[r] : 0};

    if (s[classes - 1].class == classes - 1) { /* none is missing */
        return key.class;
    }
    return (const share *)bsearch(&key, s, (size_t)classes, sizeof *s, by_class) - s;
}

/* The classes with their numbers of rows, and the rows sorted by class. *s and *row_of: new, charl_free, even after a failure. */
static charl_status group_rows(const int32_t *labels, int64_t rows, share **s, int64_t *classes, int64_t **row_of)
{
    CHARL_SCOPED_FREE int64_t *first = NULL;

    CHARL_TRY(find_classes(labels, rows, s, classes));
    CHARL_TRY(charl__alloc_array(*classes + 1, sizeof *first, &first));
    CHARL_TRY(charl__alloc_array(rows, sizeof **row_of, row_of));
    for (int64_t r = 0; r < rows; r++) {
        (*s)[find_class(*s, *classes, labels, r)].rows++;
    }
    for (int64_t c = 0; c < *classes; c++) {
        first[c + 1] = first[c] + (*s)[c].rows;
    }
    for (int64_t r = 0; r < rows; r++) {
        (*row_of)[first[find_class(*s, *classes, labels, r)]++] = r;
    }
    return CHARL_OK;
}

charl_status charl__split_rows(const int32_t *labels, int64_t rows, int64_t n, uint64_t seed, uint8_t **chosen)
{
    charl_status st = CHARL_OK;
    int64_t classes, *row_of = NULL;
    share *s = NULL;

    *chosen = NULL;
    CHARL_TRY_CLEANUP(charl__alloc_array(rows, 1, chosen));
    CHARL_TRY_CLEANUP(group_rows(labels, rows, &s, &classes, &row_of));
    allot(s, classes, rows, n);
    for (int64_t c = 0, at = 0; c < classes; at += s[c].rows, c++) {
        for (int64_t i = 0; i < s[c].val; i++) {
            (*chosen)[row_of[at + charl_order_row(seed + (uint64_t)s[c].class, s[c].rows, true, i)]] = 1;
        }
    }
cleanup:
    if (st != CHARL_OK) {
        charl_free(*chosen);
        *chosen = NULL;
    }
    charl_free(s);
    charl_free(row_of);
    return st;
}

charl_status charl__split_fold(const int32_t *labels, int64_t rows, int64_t fold, int64_t folds, uint8_t **chosen)
{
    CHARL_SCOPED_FREE share *s = NULL;
    CHARL_SCOPED_FREE int64_t *row_of = NULL;
    int64_t classes;

    *chosen = NULL;
    CHARL_TRY(group_rows(labels, rows, &s, &classes, &row_of));
    CHARL_TRY(charl__alloc_array(rows, 1, chosen));
    for (int64_t c = 0, at = 0; c < classes; at += s[c].rows, c++) {
        for (int64_t i = 0; i < s[c].rows; i++) { /* dealt one after another, from class to class */
            const int64_t row = row_of[at + charl_order_row((uint64_t)s[c].class, s[c].rows, true, i)];

            (*chosen)[row] = (at + i) % folds == fold - 1;
        }
    }
    return CHARL_OK;
}

charl_status charl__val_split_check(double fraction)
{
    CHARL_REQUIRE(fraction >= 0 && fraction < 1, CHARL_ERR_CONFIG,
                  "val_split must be at least 0 and less than 1, not %g", fraction);
    return CHARL_OK;
}

charl_status charl__val_split_count(const char *path, const char *what, int64_t rows, double val_split, int64_t *n)
{
    CHARL_TRY(charl__val_split_check(val_split));
    *n = (int64_t)((double)rows * val_split + 0.5);
    CHARL_REQUIRE(val_split == 0 || (*n >= 1 && *n < rows), CHARL_ERR_CONFIG,
                  "%s: val_split %g of %lld %s leaves nothing to %s", path, val_split, (long long)rows, what,
                  *n < 1 ? "validate on" : "train on");
    return CHARL_OK;
}

charl_status charl__split_choose(const char *path, const int32_t *labels, int64_t rows, const charl_import_options *opt,
                                 uint8_t **val)
{
    int64_t n;

    *val = NULL;
    if (opt->val_split == 0 || opt->in_order) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__val_split_count(path, "samples", rows, opt->val_split, &n));
    return charl__split_rows(labels, rows, n, opt->seed, val);
}
