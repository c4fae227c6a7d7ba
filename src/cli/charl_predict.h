#ifndef CHARL_CLI_CHARL_PREDICT_H
#define CHARL_CLI_CHARL_PREDICT_H
/** Predictions as rows of a CSV or JSON lines file, or as an HDF5 file. */
#include <stdio.h>

#include "base/text.h"
#include "charl/predict.h"
#include "io/prediction_file.h"

typedef struct charl__predict_rows {
    FILE *file; /* borrowed */
    bool jsonl;
    const char *h5_path;            /* of an HDF5 file in place of `file`, or NULL */
    const charl_image_files *files; /* borrowed: the names of samples that are files */
    charl__prediction_file *h5;
    float *values; /* [n_outputs], owned */
    bool all;      /* the probabilities of all classes; cross_entropy only */
    int loss;      /* charl_loss_type */
    charl__text line;
    double *probability; /* [n_outputs], owned */
    int64_t rows, correct, step;
} charl__predict_rows;

/** Write one row, and before the first of a CSV file its header. What a row holds follows from the
 * loss: cross_entropy label, predicted and probability; bce target and probability; others target
 * and prediction. Errors: ERR_DISK, ERR_NOMEM. */
charl_status charl__predict_rows_write(charl__predict_rows *o,
                                       const charl_prediction *p) CHARL_MUST_CHECK;

/** Gives back memory, not `file`; an HDF5 file that is not finished goes. */
void charl__predict_rows_fini(charl__predict_rows *o);

/** One row of the HDF5 file. */
charl_status charl__predict_h5_write(charl__predict_rows *o,
                                     const charl_prediction *p) CHARL_MUST_CHECK;
/** Softmax of the outputs into out [n_outputs]; returns the first of the largest. */
int64_t charl__predict_classes(const charl_prediction *p, double *out);
/** Output or target i as a number; with bce outputs are probabilities. */
double charl__predict_value(const charl__predict_rows *o, const charl_prediction *p, bool output,
                            int64_t i);

#endif
