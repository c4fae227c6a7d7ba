#ifndef CHARL_CLI_CHARL_PREDICT_H
#define CHARL_CLI_CHARL_PREDICT_H
/** Predictions as rows of a CSV or JSON lines file. */
#include <stdio.h>

#include "base/text.h"
#include "charl/train.h"

typedef struct charl__predict_rows {
    FILE *file; /* borrowed */
    bool jsonl;
    bool all; /* the probabilities of all classes; cross_entropy only */
    int loss; /* charl_loss_type */
    charl__text line;
    double *probability; /* [n_outputs], owned */
    int64_t rows, correct, step;
} charl__predict_rows;

/** Write one row, and before the first of a CSV file its header. What a row holds follows from the
 * loss: cross_entropy label, predicted and probability; bce target and probability; others target
 * and prediction. Errors: ERR_DISK, ERR_NOMEM. */
charl_status charl__predict_rows_write(charl__predict_rows *o,
                                       const charl_prediction *p) CHARL_MUST_CHECK;

/** Gives back memory, not the file. */
void charl__predict_rows_fini(charl__predict_rows *o);

#endif
