#ifndef CHARL_AUTOGRAD_LAUNCH_COLUMN_CHUNKS_H
#define CHARL_AUTOGRAD_LAUNCH_COLUMN_CHUNKS_H
/** Kernels that process rows in vectors of columns (kernels/shared/column_chunks.clh), each element
 *  separately. */
#include "autograd/op.h"

/** Launch l over `rows` rows of `columns` elements. l has file, entry, `n_args` arguments and optionally
 *  parameters. This function sets the rest: ACT from `act`, and rows, columns and span as the last
 *  arguments. Async.
 *  Errors: ERR_KERNEL, ERR_DEVICE. */
charl_status charl__column_chunks_launch(const charl__enqueue *e, const charl__launch *l, int n_args, int64_t rows,
                                         int64_t columns, charl_dtype act) CHARL_MUST_CHECK;

#endif
