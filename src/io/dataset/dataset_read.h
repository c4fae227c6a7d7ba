#ifndef CHARL_IO_DATASET_DATASET_READ_H
#define CHARL_IO_DATASET_DATASET_READ_H
/** Internal reading functions, for the loaders. */
#include "charl/dataset.h"

/** Windows of tokens at any positions: x[i] = tokens[starts[i], + window), y[i] the same shifted by one
 *  token.
 *
 *  Blocks. Local. Thread-safe. Deterministic. Errors: as charl_dataset_read; ERR_INVALID if not
 *  tokens.
 */
charl_status charl__dataset_read_at(charl_dataset *ds, charl_split split, const int64_t *starts, int64_t n, void *x,
                                    void *y) CHARL_MUST_CHECK;

/** w[i] = weight of the targets of sample i in the loss: 0 for a label that does not count, and for the first
 *  token of a document if documents are separate, else its stored weight, else 1. If pixels have classes, it is the
 *  weight of the sample.
 *
 *  places  [n]                read; row numbers, of tokens the first tokens of windows
 *  w       [n] or [n, window] written
 *
 *  Blocks. Local. Thread-safe. Deterministic. Errors: as charl_dataset_read; ERR_DATA for a weight that is negative or
 *  not finite.
 *  Cost: as charl_dataset_read of the targets. */
charl_status charl__dataset_read_weights(charl_dataset *ds, charl_split split, const int64_t *places, int64_t n,
                                         float *w) CHARL_MUST_CHECK;

/** Check that the file still is the one that was opened, by size and times of the open file. If
 *  they have changed, blocks that have been read since the second to last check are compared with their
 *  checksums at once, all others when they are next read; so a file of which only the times have changed
 *  can still be read. Every read does the same, at most once a second; call it before relying on
 *  what was read so far, for example before a checkpoint.
 *
 *  Blocks. Local. Thread-safe. Errors: ERR_DATA  the file was cut or holds other data, or it was
 *  written to and has no checksums of all its blocks; ERR_IO. Cost: one fstat; after a change the
 *  blocks read lately. */
charl_status charl__dataset_check(charl_dataset *ds) CHARL_MUST_CHECK;
/** The file that an image of a data set comes from, as named by the import: a path, new (charl_free, even after a failure); NULL: it is
 *  unknown. Blocks. Local. Errors: as charl_dataset_read. */
charl_status charl__dataset_file_of(charl_dataset *ds, charl_split split, int64_t row, char **out) CHARL_MUST_CHECK;

/** Notes about the file from opening it; "" if there are none. Local. */
const char *charl__dataset_note(const charl_dataset *ds);

/** Open the rows of all files named by `paths` as one set. Errors: as charl_dataset_open; ERR_DATA if they contain different kinds of data. */
charl_status charl__dataset_open_joined(const char *pattern, char *const *paths, int n,
                                        const charl_dataset_options *opt, charl_dataset **out) CHARL_MUST_CHECK;

#endif
