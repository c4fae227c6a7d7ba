#ifndef CHARL_DATA_IMPORT_IMPORT_SOURCE_H
#define CHARL_DATA_IMPORT_IMPORT_SOURCE_H
/** A file to import from, plain or gzip, read sequentially. Every failure is ERR_DATA or
 *  ERR_IO and names the file and the byte (of the uncompressed contents). */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "io/tensors/zip.h"

typedef struct charl__source charl__source;

charl_status charl__source_open(const char *path, charl__source **out) CHARL_MUST_CHECK;
/** The same for a text: skips a byte order mark (UTF-8). *bytes, which may be NULL: 3 if there is one, else 0. */
charl_status charl__source_open_text(const char *path, charl__source **out, int64_t *bytes) CHARL_MUST_CHECK;
/** A file in a zip archive. Errors: also ERR_DATA if its length differs from the one in the archive. */
charl_status charl__source_open_member(const char *path, const charl__zip_member *member,
                                       charl__source **out) CHARL_MUST_CHECK;
void charl__source_close(charl__source *s);

const char *charl__source_path(const charl__source *s);
/** Size of the file, compressed or not. */
int64_t charl__source_file_bytes(const charl__source *s);

/** The next bytes, at most `cap`; *got is 0 only at the end. */
charl_status charl__source_some(charl__source *s, void *dst, size_t cap, size_t *got) CHARL_MUST_CHECK;
/** Exactly the next `bytes` bytes; an earlier end is an error that says what was expected. */
charl_status charl__source_exact(charl__source *s, void *dst, size_t bytes, const char *what) CHARL_MUST_CHECK;
/** Reject a file that is too small to contain `bytes` more bytes, before memory for them is allocated: a damaged header may claim any number. A
 *  compressed file is assumed to have the maximum compression. charl__source_exact finds other errors. */
charl_status charl__source_holds(charl__source *s, int64_t bytes, const char *what) CHARL_MUST_CHECK;
/** Fail unless the file has ended. */
charl_status charl__source_end(charl__source *s) CHARL_MUST_CHECK;
charl_status charl__source_rewind(charl__source *s) CHARL_MUST_CHECK;

/** For CHARL_SCOPED. */
CHARL_SCOPED_POINTER(charl__source_left, charl__source, charl__source_close)

#endif
