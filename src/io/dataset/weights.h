#ifndef CHARL_IO_DATASET_WEIGHTS_H
#define CHARL_IO_DATASET_WEIGHTS_H
/** Weights of targets in the loss, and which do not count: the internal functions besides charl/dataset.h. */
#include "charl/dataset.h"

/** Whether a label, one of `item` per sample, marks a sample or pixel that does not count, as in PyTorch and others. */
static inline bool charl__label_is_ignored(charl_dataset_kind kind, const charl_shape *item, int64_t label)
{
    return (item->ndim == 0 || kind == CHARL_DATASET_IMAGES) && (label == -1 || label == -100);
}

/** Set labels of n samples that do not count to 0: whatever they were, their weight is 0. */
void charl__clear_ignored(const charl_dataset_info *info, void *y, int64_t n);

/** Weights of the pixels of samples: 0 if a pixel does not count, else the weight of its sample times the weight of its class.
 *
 *  rows  [n]            row numbers
 *  y     [n, y_shape]   their targets, as charl_dataset_read delivers them
 *  out   [n, y_shape]   written
 *
 *  Thread-safe. Errors: as charl__dataset_read_weights. */
charl_status charl__dataset_weigh_pixels(charl_dataset *ds, charl_split split, const int64_t *rows, int64_t n,
                                         const int32_t *y, float *out) CHARL_MUST_CHECK;

/** out[i] = weight of token first + i of a split as a target, for i < n. Thread-safe. Errors: as charl__dataset_read_weights. */
charl_status charl__dataset_token_weights(charl_dataset *ds, charl_split split, int64_t first, int64_t n,
                                          float *out) CHARL_MUST_CHECK;
/** Beginnings of the documents of a split, or a mix set after set: *out, owned by the caller, i32 [*n], ascending, the first 0. Errors: ERR_NOMEM; ERR_DATA for more tokens than an i32 counts. */
charl_status charl__dataset_starts(const charl_dataset *ds, charl_split split, int32_t **out,
                                   int64_t *n) CHARL_MUST_CHECK;
/** out[i] = where in a window from token `first` on the document of its token i begins, as charl__document_starts, for i < n. */
void charl__dataset_window_starts(const charl_dataset *ds, charl_split split, int64_t first, int64_t n, int32_t *out);
/** u8 if all weights of a data set of tokens are integers, else f32. */
charl_dtype charl__dataset_weights_dtype(const charl_dataset *ds);

/** Multiply the weight of training targets of class i by weights[i], [info.classes], copied, unless NULL; and let n training rows, ascending and
 *  borrowed, weigh nothing, unless `rows` is NULL. Errors: ERR_NOMEM. */
charl_status charl__dataset_weigh(charl_dataset *ds, const float *weights, const int64_t *rows,
                                  int64_t n) CHARL_MUST_CHECK;
/** Whether `row` is one of n ascending rows. */
static inline bool charl__rows_have(const int64_t *rows, int64_t n, int64_t row)
{
    int64_t first = 0;

    while (first < n) {
        const int64_t middle = first + (n - first) / 2;

        if (rows[middle] == row) {
            return true;
        }
        first = rows[middle] < row ? middle + 1 : first;
        n = rows[middle] < row ? n : middle;
    }
    return false;
}
/** Whether targets of the split have different weights. Local. */
bool charl__dataset_is_weighted(const charl_dataset *ds, charl_split split);

#endif
