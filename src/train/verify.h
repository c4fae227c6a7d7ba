#ifndef CHARL_TRAIN_VERIFY_H
#define CHARL_TRAIN_VERIFY_H
/** Verification for proofs: of a run directory that holds parts of a run only, and with something else than a replay of the segments. */
#include "charl/verify.h"
#include "data/proof_file.h"

/** What to do otherwise than charl_verify: metrics.jsonl, links, exports and the contents of the data are left out. */
typedef struct charl__verify_request {
    const charl__proof *proof; /* the directory is this proof, unpacked: its segments are replayed; NULL: a run */
    const char *shown;         /* name of the directory in texts; NULL: its own */
    /* called with each segment that is chosen, instead of a replay: one that a proof can hold. NULL: replay */
    charl_status (*chosen)(void *ctx, const charl__proof_segment *segment);
    void *ctx;
} charl__verify_request;

/** charl_verify of a run directory. request NULL: all of it. */
charl_status charl__verify_run(const char *run, const charl_verify_options *options,
                               const charl__verify_request *request, charl_verify_result *result) CHARL_MUST_CHECK;

/** charl_verify of a proof. */
charl_status charl__verify_proof(const char *path, const charl_verify_options *options,
                                 charl_verify_result *result) CHARL_MUST_CHECK;

#endif
