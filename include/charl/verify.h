#ifndef CHARL_VERIFY_H
#define CHARL_VERIFY_H
/** Verification of a run: compares run.lock with the files of the run, and replays random parts of the training. A
 *  proof is a file with which others can do the same for some parts, without the run and its data.
 *
 *      charl_verify_result result;
 *
 *      const charl_verify_options o = {sizeof o, .segments = 3, .wrong = print};
 *      CHARL_TRY(charl_verify("runs/digits", &o, &result));
 *      if (result.wrong == 0) { ... }
 *
 *  run.lock has a line for every start and every checkpoint of a run, chained by SHA-256: docs/exactness.md.
 */
#include <stdint.h>

#include "charl/config.h"
#include "charl/device.h"

CHARL_BEGIN_DECLS

typedef enum charl_verify_outcome {
    CHARL_VERIFY_SAME,    /* the replay computed the tensors of every recorded checkpoint up to `until` */
    CHARL_VERIFY_DIFFERS, /* the replay computed different tensors */
    CHARL_VERIFY_UNKNOWN  /* the segment cannot be replayed, or was trained with unknown settings */
} charl_verify_outcome;

/** A part of the training, from a kept checkpoint or the beginning to the next kept checkpoint. Borrowed for the
 *  duration of the callback. */
typedef struct charl_verify_segment {
    int64_t from, until;
    int64_t compared; /* recorded checkpoints that the replay was compared with, also deleted ones */
    const char *device;
    charl_verify_outcome outcome;
    /* SAME: ""; DIFFERS: the first step and, if its checkpoint is kept, the first tensor; UNKNOWN: why */
    const char *text;
} charl_verify_segment;

/** What to verify. Zero is the default of all members. */
typedef struct charl_verify_options {
    size_t struct_size; /* sizeof(charl_verify_options) */
    int64_t segments;   /* how many to replay, drawn at random; 0: none; of a proof all */
    uint64_t seed;      /* of the random choice of segments */
    const char *hash;   /* published hash that the last line of run.lock must have; NULL: do not check */
    const char *device; /* `select` of charl_device_request; NULL: device.select of the run */
    const charl_config_override *overrides; /* [n_overrides] of the configuration, such as data.path */
    int n_overrides;
    void *ctx;
    void (*wrong)(void *ctx, const char *text);    /* a difference from the record, as a sentence */
    void (*recorded)(void *ctx, const char *text); /* what agrees with the record: "config.ini", "3 checkpoints" */
    void (*noted)(void *ctx, const char *text);    /* something that run.lock does not cover, as a sentence */
    /* Steps that no replay has proven, in ascending order: not selected, not replayable, or different */
    void (*unproven)(void *ctx, int64_t first, int64_t last);
    void (*replayed)(void *ctx, const charl_verify_segment *segment);
    void (*warned)(void *ctx, const char *text);
    charl_compiling compiling;
} charl_verify_options;

typedef struct charl_verify_result {
    int64_t lines;    /* of run.lock */
    int64_t recorded; /* checkpoints of the run */
    int64_t kept;     /* recorded checkpoints that still exist with the recorded tensors */
    int64_t segments; /* number of segments */
    int64_t replayed, same;
    int64_t wrong;   /* differences from the record, including segments that differ */
    int64_t unknown; /* segments that could not be replayed */
    /* why the data could not be opened; they were then not compared, and nothing was replayed. "": they were opened */
    char no_data[1200];
    char hash[65]; /* of the last line */
} charl_verify_result;

/** Verify the run in directory `run`, or the proof in file `run`.
 *
 *  Checks the chain of run.lock and that each line continues those before it. Compares config.ini, the data, every
 *  checkpoint that is kept (tensors, state, configuration, data, run), metrics.jsonl, last.h5, best.h5 and the exports
 *  of checkpoint.export with what it records, and checks that it records every checkpoint. Then replays segments
 *  (charl/replay.h), drawn without repetition. Writes nothing to the run; an export is written again to a temporary
 *  folder and compared. If the run is still going, a checkpoint may have been saved after run.lock was read: verify
 *  again. Links and exports that a crash left at the previous checkpoint are a note, not a difference.
 *
 *  Anyone who can write to the directory can also write a new, consistent run.lock. To detect that, keep the hash of
 *  the last line elsewhere and pass it as options->hash, and replay. The hash of an earlier line is not enough where
 *  steps were trained after it.
 *
 *  Blocks. Local: one rank, without MPI. *result is set on every path. CHARL_OK does not mean that the run is as
 *  recorded: check the result.
 *  Errors: ERR_CHECKPOINT  there is no run.lock
 *          ERR_NOMEM, ERR_DEVICE
 *  Cost: reads run.lock, metrics.jsonl, the data and every checkpoint once; writes and reads each export; each segment
 *  as charl_replay. */
charl_status charl_verify(const char *run, const charl_verify_options *options,
                          charl_verify_result *result) CHARL_MUST_CHECK;

/** What to prove. Zero is the default of all members. */
typedef struct charl_prove_options {
    size_t struct_size;                     /* sizeof(charl_prove_options) */
    int64_t segments;                       /* how many, drawn at random; 0: one */
    uint64_t seed;                          /* of the random choice of segments */
    const char *device;                     /* `select` of charl_device_request; NULL: device.select of the run */
    const charl_config_override *overrides; /* [n_overrides] of the configuration, such as data.path */
    int n_overrides;
    void *ctx;
    void (*replayed)(void *ctx, const charl_verify_segment *segment); /* from the proof */
    void (*warned)(void *ctx, const char *text);
    charl_compiling compiling;
} charl_prove_options;

typedef struct charl_prove_result {
    int64_t segments; /* in the proof */
    int64_t provable; /* of the run: those that a proof can hold */
    int64_t bytes;    /* of the file */
    char hash[65];    /* of the last line of run.lock */
} charl_prove_result;

/** Write a proof of segments of the run in directory `run` to the file `path`, which charl_verify takes anywhere.
 *
 *  It has run.lock, config.ini, the checkpoints that the segments begin with, the blocks of the data that hold their
 *  rows, and the file or folder of [init] from if they need it. Compares the run with run.lock first, as charl_verify,
 *  and replays the segments from the file before it gets its name.
 *
 *  A proof can hold a segment if the run had the settings and data of its last start then, and if the checkpoint that
 *  it begins with is kept, or is the beginning of the run.
 *
 *  Blocks. Local: one rank, without MPI. *result is set on every path.
 *  Errors: ERR_CHECKPOINT  the run is not as run.lock records it, a replay differs, or there is no segment that a
 *                          proof can hold
 *          ERR_CONFIG      rows of the data, or files of init.from, are in places that a proof cannot hold
 *          ERR_DATA        the data cannot be opened
 *          ERR_DISK, ERR_NOMEM, ERR_DEVICE
 *  Cost: reads run.lock and every checkpoint; each segment as charl_replay. The file has the size of the checkpoints
 *  and of the blocks of 1 MiB of the data that hold rows of the segments; data without checksums are held whole. */
charl_status charl_prove(const char *run, const char *path, const charl_prove_options *options,
                         charl_prove_result *result) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
