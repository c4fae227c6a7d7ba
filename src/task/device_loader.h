#ifndef CHARL_TASK_DEVICE_LOADER_H
#define CHARL_TASK_DEVICE_LOADER_H
/** Batches on the device: their source, and their inputs in a graph.
 *
 *  A device loader keeps rows in a source on the device, the whole split or a few slots that a loader thread
 *  fills, and gives a graph the row numbers of each step; the graph gathers and normalizes. So if the data
 *  fit on the device, a step transfers indices only.
 *
 *  A training loader may augment its samples (task/augment.h). With mixup each row has a
 *  partner, whose row number is delivered too.
 *
 *  If targets have different weights (charl_dataset_info.weighted), the graph gets the weights, and the
 *  loader computes their total for each step over all ranks, by which the loss is divided. Labels that do not
 *  count are delivered as 0, with weight 0. If pixels have classes, each pixel has its weight.
 *
 *  A row of tokens is a window: x the tokens from its start, y shifted by one token. The device holds
 *  the tokens as stored, and the numbers of a step are starts: multiples of the window, in training
 *  shifted by an amount that changes with the epoch (charl_order_shift).
 */
#include "autograd/graph.h"
#include "config/values.h"
#include "charl/data_schema.h"

typedef struct charl__device_loader charl__device_loader;

typedef struct charl__device_loader_options {
    charl_device *dev;
    charl_dataset *ds;               /* borrowed */
    const charl_data_schema *schema; /* borrowed: what rows look like, and their mean and std */
    const charl__augment *augment;   /* borrowed; NULL: none */
    int64_t image_size;              /* height and width for the model; 0: as in the data */
    charl_split split;
    charl_shuffle shuffle;
    bool endless; /* cyclic over epochs; otherwise rows past the end of the split have weight 0 */
    uint64_t seed;
    int64_t batch;      /* rows of a step over all ranks */
    int64_t row0, rows; /* this rank's part */
    int64_t pass_rows;  /* maximum part of it that one run of a graph reads; 0: all */
    bool on_device;     /* keep the whole split there */
    bool separate;      /* tokens: deliver the beginnings of documents */
    bool pixels;        /* targets are CHARL_TARGET_MAPS: weights are per pixel */
    bool whole;         /* the loss of a sample is a single number, with the weight of its heaviest pixel */
    bool fixed;         /* always the first batch */
    bool on_demand;     /* read a step only when the device has finished the previous one */
    charl_steps *steps; /* borrowed; NULL, or their records carry what this loader sends with every
                           step: then the caller of charl__device_loader_next must push one after it */
} charl__device_loader_options;

charl_status charl__device_loader_create(const charl__device_loader_options *o,
                                         charl__device_loader **out) CHARL_MUST_CHECK;
void charl__device_loader_destroy(charl__device_loader *f); /* NULL is a no-op */
/** Deliver another part of every batch from the next charl__device_loader_seek on; no graph may still be
 *  attached to f. Data on the device stay there. Blocks. Local. Errors: ERR_NOMEM. */
charl_status charl__device_loader_divide(charl__device_loader *f, int64_t row0, int64_t rows) CHARL_MUST_CHECK;
/** Set pass_rows; no graph may still be attached to f. Local. Errors: ERR_NOMEM, ERR_DEVICE. */
charl_status charl__device_loader_set_pass(charl__device_loader *f, int64_t pass_rows) CHARL_MUST_CHECK;

/** Inputs of a graph, borrowed from it. */
typedef struct charl__device_loader_vars {
    charl_var
        *x; /* f32 [rows, ...] normalized, or i32 [rows, T] tokens; for padded sequences: charl__graph_set_padded */
    charl_var *y;                        /* i32 or f32 [rows, ...] in units of the data */
    charl_var *scaled_y;                 /* y as input of the loss; y itself if targets are not scaled */
    charl_var *target_mean, *target_std; /* f32 [targets]; NULL: targets are not scaled */
    charl_var *weight;                   /* f32 [rows]: 1, or 0 for rows past the end of the split */
    charl_var *
        count; /* f32 [rows], for tokens [rows, T], for pixels [rows, y_shape]: the weight of each target; NULL: all equal */
    charl_var
        *partner_y;    /* mixup: the targets, as inputs of the loss, of the samples that are mixed into x; else NULL */
    charl_var *share;  /* mixup: f32 [rows], the weight of y; the partner has the rest */
    charl_var *starts; /* i32 [rows, T]: the beginning of each token's document; NULL: they are not separate */
} charl__device_loader_vars;
/** Let every run of g read the first `rows` rows of the last delivery. */
void charl__device_loader_attach(charl__device_loader *f, charl_graph *g, int64_t rows, charl__device_loader_vars *out);

/** The samples that step `step`, from 0, delivers to all ranks together: o.batch row numbers of the
 *  split; for tokens the numbers of the first tokens of the windows. Local. */
void charl__device_loader_samples(const charl__device_loader *f, int64_t step, int64_t *out);

/** Deliver steps from `step` on. */
charl_status charl__device_loader_seek(charl__device_loader *f, int64_t step) CHARL_MUST_CHECK;
/** The same; from then on deliver the rows from row0 of every batch on, the same number as before. */
charl_status charl__device_loader_move(charl__device_loader *f, int64_t row0, int64_t step) CHARL_MUST_CHECK;
/** Enqueue the inputs of the graph's next run: the first rows of the next step. Waits only if the loader is behind. */
charl_status charl__device_loader_next(charl__device_loader *f) CHARL_MUST_CHECK;
/** The same for another part of that step, from row `first` of this rank's on. */
charl_status charl__device_loader_pass(charl__device_loader *f, int64_t first) CHARL_MUST_CHECK;
/** The runs of that step have been enqueued. */
charl_status charl__device_loader_used(charl__device_loader *f) CHARL_MUST_CHECK;
/** Total weight of the targets of the last delivered step over all ranks; o.batch if all are equal. */
double charl__device_loader_step_weight(const charl__device_loader *f);
/** Seconds spent waiting for data so far. */
double charl__device_loader_waited_s(const charl__device_loader *f);

bool charl__device_loader_is_on_device(const charl__device_loader *f);
/** Rows of the split. */
int64_t charl__device_loader_rows(const charl__device_loader *f);

/** Bytes of one split on the device. */
int64_t charl__device_loader_split_bytes(const charl_dataset_info *info, charl_split split);

#endif
