#ifndef CHARL_LOADER_H
#define CHARL_LOADER_H
/** Delivers the rows of each training step, reading ahead while earlier steps compute.
 *
 *      charl_loader_options order = {
 *          .struct_size = sizeof order, .batch_size = 128, .shuffle = CHARL_SHUFFLE_ROWS, .seed = 1};
 *      charl_loader *loader = NULL;
 *      charl_loader_batch batch;
 *
 *      check(charl_loader_create(data, &mine, &order, &loader));
 *      for (int64_t step = 0; step < 1000; step++) {
 *          check(charl_loader_next(loader, &batch));
 *          check(charl_tensor_write(x, batch.x, batch.x_bytes));
 *          check(charl_tensor_write(y, batch.y, batch.y_bytes));
 *      }
 *      charl_loader_destroy(loader);
 *
 *  Step s takes positions [s * batch_size, (s + 1) * batch_size) of the training stream, which is the
 *  concatenation of all epochs, each shuffled by (seed, epoch): see charl_order_row. A rank gets the rows of its
 *  slices (charl/slices.h), so the rows of a step do not depend on the number of ranks, and a run resumed at
 *  first_step sees the same rows as one that never stopped. The stream is endless: a step at the end of an epoch
 *  is filled with rows of the next epoch.
 *
 *  Each loader reads in one background thread. A loader belongs to the thread that calls
 *  charl_loader_next first, and another gets ERR_INVALID; the dataset must outlive it.
 */
#include "charl/dataset.h"
#include "charl/slices.h"

CHARL_BEGIN_DECLS

typedef struct charl_loader charl_loader;

/** For a new run only batch_size must be set; zero is the default of all other members. */
typedef struct charl_loader_options {
    size_t struct_size; /* sizeof(charl_loader_options) */
    charl_split split;
    int64_t batch_size; /* rows of a step over all ranks, a multiple of the slices; required */
    charl_shuffle shuffle;
    uint64_t seed;      /* of the shuffling */
    int64_t first_step; /* first step to deliver */
    int64_t end_step;   /* one past the last step; 0: no limit */
    int prefetch;       /* steps read ahead, at most CHARL_LOADER_MAX_PREFETCH; 0: 2 */
} charl_loader_options;

enum { CHARL_LOADER_MAX_PREFETCH = 63 };

/** This rank's rows of a step. x and y are borrowed until the next call of charl_loader_next. */
typedef struct charl_loader_batch {
    int64_t step;
    int64_t rows;
    const void *x; /* [rows, x_shape] of x_dtype, as in charl_dataset_info */
    const void *y; /* [rows, y_shape] of y_dtype; NULL: the data have no targets */
    size_t x_bytes, y_bytes;
} charl_loader_batch;

/** Create a loader and start reading. `mine` is this rank's part of the batch (copied); NULL: the whole batch.
 *  Owned: destroy with charl_loader_destroy.
 *
 *  Async. Local.
 *  Errors: ERR_INVALID  the split does not exist, batch_size is not a multiple of the slices, `mine` has no slice, or a
 *                       step or prefetch is out of range
 *          ERR_NOMEM
 *  Cost: memory for prefetch + 1 steps of this rank's rows. */
charl_status charl_loader_create(charl_dataset *ds, const charl_slices *mine, const charl_loader_options *options,
                                 charl_loader **out) CHARL_MUST_CHECK;

/** Get the next step, in order. Blocks until it has been read. Local.
 *  Errors: those of charl_dataset_read, which every later call returns too; ERR_INVALID from end_step on. */
charl_status charl_loader_next(charl_loader *l, charl_loader_batch *out) CHARL_MUST_CHECK;

/** Stop reading and release the loader. NULL is a no-op. Blocks. Local. */
void charl_loader_destroy(charl_loader *l);

CHARL_END_DECLS

#endif
