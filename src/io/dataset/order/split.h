#ifndef CHARL_IO_DATASET_ORDER_SPLIT_H
#define CHARL_IO_DATASET_ORDER_SPLIT_H
/** Random selection of rows, stratified by class. */
#include "charl/dataset.h"

/** Choose n of `rows` rows by the seed, from each class as close to its share as whole rows allow, and not all of any class if n allows it.
 *  The same on every machine.
 *
 *  labels  [rows] classes from 0, or NULL: there are none
 *  chosen  [rows] new, charl_free: 1 for a row that is chosen
 *
 *  Errors: ERR_NOMEM. */
charl_status charl__split_rows(const int32_t *labels, int64_t rows, int64_t n, uint64_t seed,
                               uint8_t **chosen) CHARL_MUST_CHECK;

/** The rows of fold 1 to `folds`: each row is in one of them, and the sizes of two folds, in all and of any class, differ by at most one row. The same
 *  on every machine. labels, chosen: as in charl__split_rows. Errors: ERR_NOMEM. */
charl_status charl__split_fold(const int32_t *labels, int64_t rows, int64_t fold, int64_t folds,
                               uint8_t **chosen) CHARL_MUST_CHECK;

/** Errors: ERR_CONFIG unless `fraction` is in [0,1). */
charl_status charl__val_split_check(double fraction) CHARL_MUST_CHECK;

/** How many of `rows` rows, called `what`, are for validation: *n = round(rows * val_split). `path` and `what` are for messages.
 *  Errors: ERR_CONFIG  val_split is not in [0,1), or leaves a part without rows. */
charl_status charl__val_split_count(const char *path, const char *what, int64_t rows, double val_split,
                                    int64_t *n) CHARL_MUST_CHECK;

/** The validation rows of an import: charl__val_split_count rows chosen by charl__split_rows with opt->seed.
 *
 *  val     [rows] new, charl_free: 1 for a validation row; NULL if opt->val_split is 0 or opt->in_order
 *
 *  `path` is for messages. Errors: ERR_CONFIG  val_split, which is in [0,1), leaves a part without rows; ERR_NOMEM. */
charl_status charl__split_choose(const char *path, const int32_t *labels, int64_t rows, const charl_import_options *opt,
                                 uint8_t **val) CHARL_MUST_CHECK;

#endif
