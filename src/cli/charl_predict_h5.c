/* Predictions as an HDF5 file. */
#include "base/alloc.h"
#include "cli/charl_predict.h"

static charl_status create(charl__predict_rows *o, const charl_prediction *p)
{
    charl_status st = CHARL_OK;
    const charl__prediction_spec spec = {.rows = p->n_rows,
                                         .outputs = p->n_outputs,
                                         .targets = p->labels || p->targets ? p->n_targets : 0,
                                         .classes = o->loss == CHARL_LOSS_CROSS_ENTROPY,
                                         .labels = p->labels,
                                         .step = p->step,
                                         .files = p->file ? o->files : NULL};

    CHARL_TRY(charl_alloc_array(p->n_outputs, sizeof *o->values, &o->values));
    CHARL_TRY(charl__prediction_file_create(o->h5_path, &spec, &o->h5));
cleanup:
    return st;
}

charl_status charl__predict_h5_write(charl__predict_rows *o, const charl_prediction *p)
{
    charl_status st = CHARL_OK;
    int64_t best = 0;

    if (!o->h5) {
        CHARL_TRY(create(o, p));
    }
    if (o->loss == CHARL_LOSS_CROSS_ENTROPY) {
        best = charl__predict_classes(p, o->probability);
        o->correct += p->labels && best == p->labels[0];
    }
    for (int64_t i = 0; i < p->n_outputs; i++) {
        o->values[i] =
            (float)(o->loss == CHARL_LOSS_CROSS_ENTROPY ? o->probability[i]
                                                        : charl__predict_value(o, p, true, i));
    }
    CHARL_TRY(charl__prediction_file_put(o->h5, o->values, (int32_t)best,
                                         p->labels ? (const void *)p->labels : p->targets));
cleanup:
    return st;
}
