#ifndef CHARL_IO_DATASET_LOADER_H
#define CHARL_IO_DATASET_LOADER_H
/** Reads the batches of later steps during the current one: the basis of charl/loader.h and the trainer's
 *  device loader.
 *
 *  A thread fills a ring of slots, memory lent by the caller, with this rank's rows of each
 *  step: positions [step * batch + row0, + rows) of the training stream (charl_order_row). The
 *  stream is endless, so the last batch of an evaluation is filled up with rows from the beginning,
 *  to which the caller must give no weight. Steps arrive in order. next and release belong to one thread;
 *  destroy may be called at any time by the same thread.
 *
 *  A read failure is reported by the call of next that would have returned the step, and by all later
 *  calls.
 */
#include "base/trace.h"
#include "charl/dataset.h"

typedef struct charl__loader charl__loader;

enum { CHARL__LOADER_MAX_SLOTS = 64 };

/** The contents of a batch. */
typedef enum charl__batch_part {
    CHARL__BATCH_X,       /* [rows, x_shape] */
    CHARL__BATCH_Y,       /* [rows, y_shape] */
    CHARL__BATCH_WEIGHTS, /* f32, of y; labels that do not count are then 0 */
    CHARL__BATCH_STARTS,  /* i32 [rows, window]: charl__dataset_window_starts */
    CHARL__BATCH_PARTS
} charl__batch_part;

typedef struct charl__loader_options {
    charl_dataset *ds; /* borrowed; outlives the loader */
    charl_split split;
    charl_shuffle shuffle;
    uint64_t seed;
    int64_t batch;                         /* rows of one step over all ranks */
    int64_t row0, rows;                    /* this rank's part of them */
    int64_t first_step;                    /* the cursor */
    int64_t end_step;                      /* first step not to read; negative: endless */
    int n_slots;                           /* 1..CHARL__LOADER_MAX_SLOTS */
    void *const *part[CHARL__BATCH_PARTS]; /* [n_slots] memory for each; NULL: not requested. x is required */
    bool weighs_pixels;                    /* weights are per pixel: charl__dataset_weigh_pixels */
    bool mirrored;       /* slots have room for 2 * rows: row i of the batch is followed, `rows` later,
                        by its mirror image, row batch - 1 - i */
    bool on_demand;      /* read a step only on request, not ahead */
    charl__trace *trace; /* borrowed; NULL, or receives a span per step read */
} charl__loader_options;

/** Check the options and start the thread. The slots are borrowed until destroy.
 *  Errors: ERR_INVALID  a part outside the batch, no such split
 *          ERR_NOMEM */
charl_status charl__loader_create(const charl__loader_options *opt, charl__loader **out) CHARL_MUST_CHECK;

/** Wait for the next step in order; its rows are in *slot until charl__loader_release.
 *  Blocks. Errors: what reading reported; ERR_INVALID past end_step, or if every slot is still
 *  held. */
charl_status charl__loader_next(charl__loader *l, int64_t *step, int *slot) CHARL_MUST_CHECK;

/** Return the oldest held slot to be filled again. */
void charl__loader_release(charl__loader *l, int slot);

/** Seconds that next has waited so far: time in which data were not ready. */
double charl__loader_waited_s(const charl__loader *l);

/** Stop, join, free. NULL is a no-op. */
void charl__loader_destroy(charl__loader *l);

#endif
