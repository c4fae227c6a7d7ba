/* Properties of the training targets, found by reading them: how often each class occurs, whether several labels are one class in one-hot form, and
 * whether numbers may be classes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "task/session.h"

enum { BLOCK = 1 << 20 };

charl_status charl__session_scan_targets(charl__session *s, charl_split split, charl__target_visitor *visit, void *user)
{
    const int64_t n = s->data.rows[split], per_row = charl_shape_count(&s->data.y_shape);
    const int64_t block = per_row < BLOCK ? BLOCK / per_row : 1, room = block < n ? block : n;
    CHARL_SCOPED_FREE int64_t *rows = NULL;
    CHARL_SCOPED_FREE int32_t *y = NULL; /* or f32 */
    bool stop = false;

    CHARL_TRY(charl__alloc_array(room, sizeof *rows, &rows));
    CHARL_TRY(charl__alloc_array(room * per_row, sizeof *y, &y));
    for (int64_t first = 0; first < n && !stop; first += block) {
        const int64_t m = n - first < block ? n - first : block;

        for (int64_t i = 0; i < m; i++) {
            rows[i] = first + i;
        }
        CHARL_TRY(charl_dataset_read(s->ds, split, rows, m, NULL, y));
        visit(user, y, m * per_row, &stop);
    }
    return CHARL_OK;
}

charl_status charl__session_measure_chance(charl__session *s)
{
    enum { MOST_ROWS = 1 << 24 };
    CHARL_SCOPED_FREE int64_t *classes = NULL;
    int64_t largest = 0, all = 0;

    if (!s->data.labelled || s->data.y_dtype != CHARL_I32 || s->data.y_shape.ndim > 0 ||
        s->data.rows[CHARL_SPLIT_TRAIN] > MOST_ROWS) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__alloc_array(s->data.classes, sizeof *classes, &classes));
    CHARL_TRY(charl__session_count_classes(s, CHARL_SPLIT_TRAIN, classes));
    for (int64_t c = 0; c < s->data.classes; c++) {
        largest = classes[c] > largest ? classes[c] : largest;
        all += classes[c];
    }
    s->chance = all > 0 ? (double)largest / (double)all : 0.0;
    return CHARL_OK;
}

typedef struct one_hot {
    int64_t classes;
    bool is_float, is_one_hot;
} one_hot;

static void check_one_hot(void *user, const void *y, int64_t n, bool *stop)
{
    one_hot *o = user;

    for (int64_t i = 0; i < n && o->is_one_hot; i += o->classes) {
        int64_t ones = 0, zeros = 0;

        for (int64_t k = i; k < i + o->classes; k++) {
            const float v = o->is_float ? ((const float *)y)[k] : (float)((const int32_t *)y)[k];

            ones += v == 1.0F;
            zeros += v == 0.0F;
        }
        o->is_one_hot = ones == 1 && ones + zeros == o->classes;
    }
    *stop = !o->is_one_hot;
}

charl_status charl__session_is_one_hot(charl__session *s, bool *out)
{
    one_hot o = {charl_shape_count(&s->data.y_shape), s->data.y_dtype == CHARL_F32, true};

    *out = false;
    if (s->data.labelled && s->data.y_shape.ndim == 1 && o.classes > 1) {
        CHARL_TRY(charl__session_scan_targets(s, CHARL_SPLIT_TRAIN, check_one_hot, &o));
        *out = o.is_one_hot;
    }
    return CHARL_OK;
}

/* Integers that occur, in ascending order, while they are few. */
enum { FEW = 10 };

typedef struct few {
    float value[FEW];
    int n;
    bool are_few;
} few;

static void note_values(void *user, const void *y, int64_t n, bool *stop)
{
    few *f = user;

    for (int64_t i = 0; i < n && f->are_few; i++) {
        const float v = ((const float *)y)[i];
        int at = 0;

        while (at < f->n && f->value[at] < v) {
            at++;
        }
        if (at < f->n && f->value[at] == v) {
            continue;
        }
        f->are_few = f->n < FEW && v == floorf(v);
        if (f->are_few) {
            memmove(&f->value[at + 1], &f->value[at], (size_t)(f->n - at) * sizeof *f->value);
            f->value[at] = v;
            f->n++;
        }
    }
    *stop = !f->are_few;
}

charl_status charl__session_find_few(charl__session *s, char *text, size_t size)
{
    const charl_dataset_info *d = &s->data;
    few f = {.are_few = true};
    size_t used = 0;

    text[0] = '\0';
    if (!d->labelled || d->y_dtype != CHARL_F32 || charl_shape_count(&d->y_shape) != 1 || d->n_target_stats > 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__session_scan_targets(s, CHARL_SPLIT_TRAIN, note_values, &f));
    if (f.are_few && f.n > 1 && d->rows[CHARL_SPLIT_TRAIN] >= 4 * (int64_t)f.n) {
        for (int i = 0; i < f.n && used < size; i++) {
            used += (size_t)snprintf(text + used, size - used, "%s%.9g", i > 0 ? ", " : "", (double)f.value[i]);
        }
    }
    return CHARL_OK;
}
