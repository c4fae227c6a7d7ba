#ifndef CHARL_VERIFY_H
#define CHARL_VERIFY_H
/** Whether a run is what it says: run.lock against the files of the run, and random parts of the training computed again.
 *
 *      charl_verify_result result;
 *
 *      CHARL_TRY(charl_verify("runs/digits", &(charl_verify_options){.segments = 3, .wrong = print}, &result));
 *      if (result.wrong == 0) { ... }
 *
 *  run.lock has a line for every start and every checkpoint of a run, chained by SHA-256: docs/exactness.md.
 */
#include <stdint.h>

#include "charl/config.h"
#include "charl/device.h"

CHARL_BEGIN_DECLS

typedef enum charl_verify_outcome {
    CHARL_VERIFY_SAME,    /* the replay has the tensors of every recorded checkpoint up to `until` */
    CHARL_VERIFY_DIFFERS, /* it has others */
    CHARL_VERIFY_UNKNOWN  /* it cannot be replayed, or was trained with settings that are lost */
} charl_verify_outcome;

/** A part of the training, from a checkpoint that is kept, or from the beginning, to the next that is kept. Borrowed for the call. */
typedef struct charl_verify_segment {
    int64_t from, until;
    int64_t compared; /* checkpoints that the replay was compared with, whether or not they are kept */
    const char *device;
    charl_verify_outcome outcome;
    const char
        *text; /* SAME: ""; DIFFERS: the first step and, if its checkpoint is kept, the first tensor; UNKNOWN: why */
} charl_verify_segment;

/** What to verify. Zero is the default of all members. */
typedef struct charl_verify_options {
    int64_t segments; /* how many to replay, drawn at random; 0: none */
    uint64_t seed;    /* of that choice */
    const char
        *hash; /* of a line that run.lock must have, such as `charl.lock` in the metadata of an export; NULL: none */
    const char *device;                     /* `select` of charl_device_request; NULL: device.select of the run */
    const charl_config_override *overrides; /* [n_overrides] of the configuration, such as data.path */
    int n_overrides;
    void *ctx;
    void (*wrong)(void *ctx, const char *text); /* something that is not as recorded, in a sentence */
    void (*replayed)(void *ctx, const charl_verify_segment *segment);
    void (*warned)(void *ctx, const char *text);
    charl_compiling compiling;
} charl_verify_options;

typedef struct charl_verify_result {
    int64_t lines;    /* of run.lock */
    int64_t recorded; /* checkpoints of the run */
    int64_t kept;     /* of those, that are still there with the recorded tensors */
    int64_t segments; /* between them, or between them and the beginning */
    int64_t replayed, same;
    int64_t wrong;   /* facts that are not as recorded, segments that differ included */
    int64_t unknown; /* segments that could not be replayed */
    char hash[65];   /* of the last line */
} charl_verify_result;

/** Verify the run in directory `run`.
 *
 *  Checks the chain of run.lock, compares config.ini, the data and every kept checkpoint (configuration and tensors) with what it records,
 *  and checks that it records every checkpoint. Then replays segments (charl/replay.h), drawn without repetition. Writes nothing. If the run
 *  is still going, a checkpoint may have been saved after run.lock was read: verify again.
 *
 *  Anyone who can write to the directory can also write a new, consistent run.lock. To detect that, keep the hash of the last line elsewhere
 *  and pass it as options->hash, and replay.
 *
 *  Blocks. Local: one rank, without MPI. *result is set on every path. CHARL_OK says nothing of what was found: look at the result.
 *  Errors: ERR_CHECKPOINT  there is no run.lock
 *          ERR_NOMEM, ERR_DEVICE
 *  Cost: reads run.lock, the data and every checkpoint once; each segment as charl_replay. */
charl_status charl_verify(const char *run, const charl_verify_options *options,
                          charl_verify_result *result) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
