#ifndef CHARL_INFER_ENSEMBLE_H
#define CHARL_INFER_ENSEMBLE_H
/** Further models of an ensemble, beside the one whose schema converts the rows. */
#include "infer/inference.h"
#include "nn/loss.h"

typedef struct charl__ensemble_member {
    const char *checkpoint; /* borrowed */
    charl__session session;
    charl_inference *model;
} charl__ensemble_member;

typedef struct charl__ensemble {
    int n;                          /* members; 0: there is no ensemble */
    charl__ensemble_member *member; /* [n] */
    const charl__answer *answer;    /* of all models */
    int64_t rows, n_outputs;
    float *outputs;             /* [rows, n_outputs] of one model */
    double *answers;            /* [1 + n, rows, n_outputs] of all models, the first one first */
    double *means, *deviations; /* [n_outputs] of one row */
} charl__ensemble;

/** Open n checkpoints with the overrides of the first model's configuration. `first` is its session, with schema and configuration. Start from
 *  {0}; needs fini on every path.
 *  Errors: ERR_CONFIG  a model that is not of the same data and outputs, or that cannot be in an ensemble   ERR_CHECKPOINT, ERR_IO, ERR_NOMEM */
charl_status charl__ensemble_open(const char *const *checkpoints, int n, const charl_config_override *overrides,
                                  int n_overrides, const charl__session *first, charl__ensemble *e) CHARL_MUST_CHECK;

/** Warn of members whose validation rows differ from those of `first`: they may have been trained on the rows that are predicted. */
void charl__ensemble_warn_rows(const charl__ensemble *e, const charl__session *first);

/** Compile and load the members for batches of up to `rows` rows, as `first` is. Errors: as charl__inference_create. */
charl_status charl__ensemble_build(charl__ensemble *e, int64_t rows, const charl_device_request *request,
                                   charl_ema_choice ema, const charl_inference *first) CHARL_MUST_CHECK;

/** Run the members on n rows, after the first model, which has given `outputs` [n, n_outputs]. Errors: ERR_NONFINITE, and of charl_inference_run. */
charl_status charl__ensemble_run(charl__ensemble *e, const charl_inference *first, const void *x, int64_t n,
                                 const float *outputs) CHARL_MUST_CHECK;

/** Means and deviations (n - 1) of row i of the batch, in e->means and e->deviations, and outputs [n_outputs] that have the means as answers. */
void charl__ensemble_row(charl__ensemble *e, int64_t i, float *outputs);

void charl__ensemble_fini(charl__ensemble *e); /* {0} is a no-op */

#endif
