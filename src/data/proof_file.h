#ifndef CHARL_DATA_PROOF_FILE_H
#define CHARL_DATA_PROOF_FILE_H
/** The file of a proof (charl/verify.h): files of a run and parts of its data in one HDF5 file.
 *
 *      /            charl_format = "proof", charl_version = 1
 *      /manifest    u8: lines of text, attribute sha256
 *      /files/0 ... u8: the bytes that the proof has of a file, one part of the file after another
 *
 *  The manifest:
 *
 *      device NAME                      where the proof was made
 *      driver NAME
 *      init NAME                        the file or folder of [init] from among the files; without it there is none
 *      segment FROM UNTIL               steps; one line for each
 *      file NAME BYTES SHA256           of what the proof has of it; in the order of /files
 *      part FIRST COUNT                 of the file above it: the bytes that the proof has; ascending, with gaps, which read as zeros
 *
 *  Names of files are "run.lock" or, in a folder, "data/0.h5".
 */
#include <stdint.h>

#include "base/error.h"
#include "charl/dataset.h"

enum { CHARL__PROOF_TEXT = 128, CHARL__PROOF_NAME = 160 };

/** A part of a training: from the state after step `from`, 0 being the beginning, to the one after step `until`. */
typedef struct charl__proof_segment {
    int64_t from, until;
} charl__proof_segment;

typedef struct charl__proof_file {
    char name[CHARL__PROOF_NAME];
    char *path;              /* to write: the file itself; to unpack: NULL */
    charl_byte_range *parts; /* [n_parts] ascending: what the proof has */
    int64_t n_parts;
    int64_t bytes; /* of the file */
    char sha256[65];
} charl__proof_file;

/** Start from {0}; charl__proof_fini releases all of it. */
typedef struct charl__proof {
    char device[CHARL__PROOF_TEXT], driver[CHARL__PROOF_TEXT];
    char init[CHARL__PROOF_NAME];   /* "": none */
    charl__proof_segment *segments; /* [n_segments] */
    int64_t n_segments;
    charl__proof_file *files; /* [n_files] */
    int64_t n_files;
} charl__proof;

void charl__proof_fini(charl__proof *p);

/** Add the file at `path` as `name`, all but the n ranges `left_out`, which ascend. Errors: ERR_CHECKPOINT, ERR_NOMEM. */
charl_status charl__proof_add(charl__proof *p, const char *name, const char *path, const charl_byte_range *left_out,
                              int64_t n) CHARL_MUST_CHECK;
/** Add a segment. Errors: ERR_NOMEM. */
charl_status charl__proof_add_segment(charl__proof *p, int64_t from, int64_t until) CHARL_MUST_CHECK;

/** Write a proof to `path`, replacing it, after `verify` has seen the file under a temporary name (charl__commit_end). *bytes: its size. Blocks.
 *  Errors: ERR_DISK; ERR_CHECKPOINT  a file cannot be read; those of verify; ERR_NOMEM. */
charl_status charl__proof_write(const char *path, charl__proof *p, charl_status (*verify)(const char *temp, void *user),
                                void *user, int64_t *bytes) CHARL_MUST_CHECK;

/** Add to *p what a manifest says, which is modified. `path` is for messages. Errors: ERR_CHECKPOINT  it is not one that charl writes; ERR_NOMEM. */
charl_status charl__proof_parse(const char *path, char *manifest, charl__proof *p) CHARL_MUST_CHECK;

/** Write the files of the proof `path` to the folder `dir`, which is empty, and describe them in *p, {0}. Bytes that the proof lacks become holes.
 *  Blocks. Errors: ERR_CHECKPOINT  damaged, naming the file in it, or not a proof; ERR_DISK; ERR_NOMEM. */
charl_status charl__proof_unpack(const char *path, const char *dir, charl__proof *p) CHARL_MUST_CHECK;

#endif
