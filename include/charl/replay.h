#ifndef CHARL_REPLAY_H
#define CHARL_REPLAY_H
/** What a step of a training saw: its samples, from the configuration alone.
 *
 *      charl_config_load("config.ini", NULL, 0, &config);
 *      charl_step_rows_create(config, 120, &rows);
 *      for (int64_t i = 0; i < rows->n; i++) {
 *          printf("%" PRId64 "\n", rows->sample[i].row);
 *      }
 *      charl_step_rows_destroy(rows);
 *
 *  Steps are counted from 1, as in the log: step N turns the weights after N - 1 steps into those after N.
 */
#include <stdbool.h>
#include <stdint.h>

#include "charl/config.h"

CHARL_BEGIN_DECLS

/** A sample of a step. */
typedef struct charl_step_sample {
    int64_t position; /* in the training stream, which is one epoch after another */
    int64_t epoch;    /* from 0; of data.mix: epoch of all sets together */
    int set;          /* of data.mix, from 0; else 0 */
    int64_t row;      /* of the training split of that set; of tokens the first token of the window */
    int64_t partner;  /* data.mixup: index in `sample` of the one that is mixed in; else the sample's own index */
    float share;      /* of the sample itself, the partner has the rest; 1 without data.mixup */
} charl_step_sample;

/** The samples of a step, in the order of the global batch: slice s of `slices` has [s * n / slices, (s + 1) * n / slices).
 *  Neither the number of ranks nor train.grad_accum_steps changes them. */
typedef struct charl_step_rows {
    int64_t step;
    int64_t n; /* train.batch_size */
    int slices;
    int64_t train_rows;        /* samples of an epoch */
    int64_t window;            /* tokens of a sample; 0: the samples are no tokens */
    charl_step_sample *sample; /* [n] */
} charl_step_rows;

/** Which samples step `step` >= 1 of a training with this configuration takes. Opens the data, but reads no sample. Owned by the caller:
 *  charl_step_rows_destroy; *out is NULL on failure.
 *
 *  Blocks. Local. Deterministic: integer arithmetic of (run.seed, step); the same on every machine.
 *  Errors: ERR_CONFIG  data.path is missing, the batch has more samples than the training split, or step is below 1 or beyond
 *                      counting
 *          ERR_DATA, ERR_IO of charl_dataset_open, ERR_NOMEM
 *  Cost: opening the data; some 100 ns per sample. */
charl_status charl_step_rows_create(const charl_config *config, int64_t step, charl_step_rows **out) CHARL_MUST_CHECK;
/** NULL is a no-op. */
void charl_step_rows_destroy(charl_step_rows *rows);

CHARL_END_DECLS

#endif
