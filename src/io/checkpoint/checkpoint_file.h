#ifndef CHARL_IO_CHECKPOINT_CHECKPOINT_FILE_H
#define CHARL_IO_CHECKPOINT_CHECKPOINT_FILE_H
/** A file of a checkpoint, or of a part of one, open with HDF5 for reading, and the checks of what is in it. Paths of objects are without the
 *  first '/'. Errors of all: ERR_CHECKPOINT, naming file and object; ERR_NOMEM. */
#include "base/numeric/hash.h"
#include "io/checkpoint/checkpoint_format.h"
#include "io/h5.h"
#include "io/h5_driver.h"

typedef struct charl__ckpt_file {
    const char *path; /* for messages */
    charl__h5_site site;
    charl__h5_io io;
    hid_t file;
    int64_t bytes;
} charl__ckpt_file;

/** Open the file at descriptor `fd`, which stays the caller's and has `bytes` bytes. Call charl__ckpt_file_close in any case. */
charl_status charl__ckpt_file_open(charl__ckpt_file *f, const char *path, int fd, int64_t bytes) CHARL_MUST_CHECK;
/** Returns st, the status of what was read, unless memory was short. */
charl_status charl__ckpt_file_close(charl__ckpt_file *f, charl_status st) CHARL_MUST_CHECK;

/** The attributes of the root: `format`, a version in [lowest, CHARL_CHECKPOINT_VERSION], complete. */
charl_status charl__ckpt_check_root(charl__ckpt_file *f, const char *format, int64_t lowest,
                                    int64_t *version) CHARL_MUST_CHECK;
/** `path` is a link of the file itself; whether it exists at all is *exists, or an error when that is NULL. */
charl_status charl__ckpt_check_link(charl__ckpt_file *f, const char *path, bool *exists) CHARL_MUST_CHECK;
/** `path` is a group with exactly `count` links. */
charl_status charl__ckpt_check_group(charl__ckpt_file *f, const char *path, int64_t count) CHARL_MUST_CHECK;
/** Open dataset `path` and check everything but shape and attributes. */
charl_status charl__ckpt_open_dataset(charl__ckpt_file *f, const char *path, charl_dtype dtype,
                                      hid_t *out) CHARL_MUST_CHECK;
charl_status charl__ckpt_get_shape(charl__ckpt_file *f, hid_t dataset, const char *path,
                                   charl_shape *out) CHARL_MUST_CHECK;
/** Where the `bytes` bytes of `dataset` begin, which all lie in the file; 0 bytes: 0. */
charl_status charl__ckpt_locate(charl__ckpt_file *f, hid_t dataset, const char *path, int64_t bytes,
                                int64_t *offset) CHARL_MUST_CHECK;
/** Read dataset `path` of lines of text, which has at most CHARL__CKPT_MANIFEST bytes, and compare its attribute sha256. *text has a NUL behind
 *  it and is the caller's, on failure too. */
charl_status charl__ckpt_read_lines(charl__ckpt_file *f, const char *path, char **text, size_t *length,
                                    char sha256[CHARL__SHA256_TEXT]) CHARL_MUST_CHECK;

/** The last line of a checkpoint in parts, behind what HDF5 knows of: "charl-sha256 HEX\n" of the bytes before it. It covers also the mappings of
 *  virtual datasets, which HDF5 reads without a check. */
enum { CHARL__CKPT_SEAL = 79 }; /* with its NUL */
charl_status charl__ckpt_seal(const char *path, int fd, int64_t bytes, char out[CHARL__CKPT_SEAL]) CHARL_MUST_CHECK;
charl_status charl__ckpt_check_seal(charl__ckpt_file *f) CHARL_MUST_CHECK;

#endif
