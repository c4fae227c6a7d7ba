#ifndef CHARL_TASK_AUGMENT_H
#define CHARL_TASK_AUGMENT_H
/** Random changes of training samples (data.augment).
 *
 *  Everything is a function of the seed, the step and the row of the global batch, so neither the
 *  number of ranks nor a stop and a resume shows. Images are changed on the device
 *  (charl_augment2d). Mixup mixes the sample in row i of a global batch of B with the one in row B -
 *  1 - i, changed as it is changed there, and mixes their losses or targets alike. The share of a
 *  row's own sample is drawn from Beta(alpha, alpha).
 */
#include "autograd/graph.h"
#include "charl/config.h"
#include "charl/dataset.h"

/** Whether the settings fit the data. Errors: ERR_CONFIG. */
charl_status charl__augment_check(const charl_augment *a, const charl_dataset_info *data) CHARL_MUST_CHECK;

/** x f32 [rows, C, H, W] changed as the settings say. shift and scale normalised it.
 *  reversed_rows: 0, or the rows of the global batch for samples in the opposite order. */
charl_var *charl__augment_images(const charl_augment *a, charl_graph *g, charl_var *x, charl_var *shift,
                                 charl_var *scale, int64_t reversed_rows);

/** Share of the sample in row `row` of a global batch, in [0, 1]. */
float charl__mixup_share(double alpha, uint64_t seed, int64_t step, int64_t row);

/** x = share * own + (1 - share) * partner, row by row. own, partner [rows, ...]  share [rows]. */
charl_var *charl__mixup(charl_graph *g, charl_var *own, charl_var *partner, charl_var *share);

#endif
