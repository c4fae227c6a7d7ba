#ifndef CHARL_IO_DATASET_WEIGHTS_H
#define CHARL_IO_DATASET_WEIGHTS_H
/** What targets weigh in the loss, and which do not count: what is not in charl/dataset.h. */
#include "charl/dataset.h"

/** Whether a label, one of `item` for a sample, says that its sample or pixel does not count, as PyTorch and others write it. */
static inline bool charl__label_is_ignored(charl_dataset_kind kind, const charl_shape *item, int64_t label)
{
    return (item->ndim == 0 || kind == CHARL_DATASET_IMAGES) && (label == -1 || label == -100);
}

/** Make labels that do not count, of n samples, 0: whatever they were, their weight is 0. */
void charl__clear_ignored(const charl_dataset_info *info, void *y, int64_t n);

/** What the pixels of samples weigh: 0 where a pixel does not count, else the weight of its sample times that of its class.
 *
 *  rows  [n]            row numbers
 *  y     [n, y_shape]   their targets, as charl_dataset_read delivers them
 *  out   [n, y_shape]   written
 *
 *  Thread-safe. Errors: as charl__dataset_read_weights. */
charl_status charl__dataset_weigh_pixels(charl_dataset *ds, charl_split split, const int64_t *rows, int64_t n,
                                         const int32_t *y, float *out) CHARL_MUST_CHECK;

/** out[i] = what token first + i of a split weighs as a target, for i < n. Thread-safe. Errors: as charl__dataset_read_weights. */
charl_status charl__dataset_token_weights(charl_dataset *ds, charl_split split, int64_t first, int64_t n,
                                          float *out) CHARL_MUST_CHECK;
/** Where the documents of a split begin, of a mix set after set: *out, owned by the caller, i32 [*n], ascending, the first 0. Errors: ERR_NOMEM; ERR_DATA for more tokens than an i32 counts. */
charl_status charl__dataset_starts(const charl_dataset *ds, charl_split split, int32_t **out,
                                   int64_t *n) CHARL_MUST_CHECK;
/** out[i] = where in a window from token `first` on the document of its token i begins, as charl__document_starts, for i < n. */
void charl__dataset_window_starts(const charl_dataset *ds, charl_split split, int64_t first, int64_t n, int32_t *out);
/** u8 if all weights of a data set of tokens are integers, else f32. */
charl_dtype charl__dataset_weights_dtype(const charl_dataset *ds);

/** Let training targets of class i weigh weights[i] times as much: [info.classes], copied. Errors: ERR_NOMEM. */
charl_status charl__dataset_weigh_classes(charl_dataset *ds, const float *weights) CHARL_MUST_CHECK;

/** Whether targets of the split do not count alike. Local. */
bool charl__dataset_is_weighted(const charl_dataset *ds, charl_split split);

#endif
