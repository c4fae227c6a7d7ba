#ifndef CHARL_CLI_CHARL_PREDICT_H
#define CHARL_CLI_CHARL_PREDICT_H
/** Predictions as rows of a CSV or JSON lines file, or as an HDF5 file. */
#include <stdio.h>

#include "base/text.h"
#include "charl/predict.h"
#include "io/prediction_file.h"

/** A list of names, to be looked up by number. */
typedef struct charl__name_list {
    int64_t n;       /* 0: no names */
    const char **at; /* [n] owned, into the list */
    size_t *length;
} charl__name_list;

typedef struct charl__predict_rows {
    FILE *file; /* borrowed */
    bool jsonl;
    const char *h5_path; /* of an HDF5 file in place of `file`, or NULL */
    bool all;            /* the probabilities of all classes; cross_entropy only */

    bool begun;
    charl__name_list classes, targets;
    charl__prediction_file *h5;
    float *values;       /* [n_outputs] */
    double *probability; /* [n_outputs] */
    charl__text line;
} charl__predict_rows;

/** Write one row, and before the first of a CSV file its header. What a row holds follows from the
 * loss: cross_entropy label, predicted and probability; bce target and probability; others target
 * and prediction; label and target where the data have them. Errors: ERR_DISK, ERR_NOMEM. */
charl_status charl__predict_rows_write(charl__predict_rows *o, const charl_prediction *p) CHARL_MUST_CHECK;

/** Gives back memory, not `file`; an HDF5 file that is not finished goes. */
void charl__predict_rows_fini(charl__predict_rows *o);

#endif
