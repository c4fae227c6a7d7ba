#ifndef CHARL_LOADER_H
#define CHARL_LOADER_H
/** The rows of each training step, read ahead while the step before computes.
 *
 *      charl_loader_create(data, &mine, &(charl_loader_options){.batch_size = 128, .shuffle = true, .seed = 1}, &loader);
 *      for each step:
 *          charl_loader_next(loader, &batch);
 *          charl_tensor_write(x, batch.x, batch.x_bytes);
 *          charl_tensor_write(y, batch.y, batch.y_bytes);
 *
 *  Step s takes positions [s * batch_size, (s + 1) * batch_size) of the training stream, the epochs one
 * after another, each shuffled by (seed, epoch): see charl_order_row. A rank gets the rows of its slices
 * (charl/slices.h), so the rows of a step do not depend on the number of ranks, and training that starts
 * again at first_step sees the same rows as one that never stopped. The stream has no end: a step at the end
 * of an epoch is filled up with rows of the next.
 *
 *  One thread per loader reads. An object belongs to one thread; the data set outlives it.
 */
#include "charl/dataset.h"
#include "charl/slices.h"

CHARL_BEGIN_DECLS

typedef struct charl_loader charl_loader;

/** All zero, but for batch_size, is right for a training that starts. */
typedef struct charl_loader_options {
    charl_split split;
    int64_t batch_size; /* rows of a step over all ranks, a multiple of the slices; required */
    bool shuffle;
    uint64_t seed;      /* of the order */
    int64_t first_step; /* where to start */
    int64_t end_step;   /* first step that is not read; 0: endless */
    int prefetch;       /* steps read ahead, at most CHARL_LOADER_MAX_PREFETCH; 0: 2 */
} charl_loader_options;

enum { CHARL_LOADER_MAX_PREFETCH = 63 };

/** This rank's rows of a step. Memory is borrowed until the next call of charl_loader_next. */
typedef struct charl_loader_batch {
    int64_t step;
    int64_t rows;
    const void *x; /* [rows, x_shape] of x_dtype, as charl_dataset_info has them */
    const void *y; /* [rows, y_shape] of y_dtype; NULL: the data have no targets */
    size_t x_bytes, y_bytes;
} charl_loader_batch;

/** Start reading. `mine` is this rank's part of the batch (copied); NULL: all of it. Owned: destroy with
 * charl_loader_destroy.
 *
 *  Async. Local. Errors: ERR_INVALID  no such split, a batch that does not divide into the slices, no slice, or
 * a step or prefetch out of range   ERR_NOMEM
 *  Cost: memory for prefetch + 1 times the rows of this rank. */
charl_status charl_loader_create(charl_dataset *ds, const charl_slices *mine,
                                 const charl_loader_options *options,
                                 charl_loader **out) CHARL_MUST_CHECK;

/** The next step in order. Blocks until it has been read. Local.
 *  Errors: those of charl_dataset_read, by this call and every later one; ERR_INVALID after end_step. */
charl_status charl_loader_next(charl_loader *l, charl_loader_batch *out) CHARL_MUST_CHECK;

/** Seconds that charl_loader_next has waited so far: time in which the data were not ready. Local. */
double charl_loader_waited_s(const charl_loader *l);

/** Stops reading. NULL is a no-op. Blocks. Local. */
void charl_loader_destroy(charl_loader *l);

CHARL_END_DECLS

#endif
