#ifndef CHARL_DATA_IMPORT_IMPORT_SOURCE_H
#define CHARL_DATA_IMPORT_IMPORT_SOURCE_H
/** A file to import from, plain or gzip, read from front to back. Every failure is ERR_DATA or
 *  ERR_IO and names the file and the byte (of the unpacked contents). */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "io/zip.h"

typedef struct charl__source charl__source;

charl_status charl__source_open(const char *path, charl__source **out) CHARL_MUST_CHECK;
/** The same for a text: a byte order mark (UTF-8) that some programs put first is skipped. *bytes, which may be NULL: 3 if there is one, else 0. */
charl_status charl__source_open_text(const char *path, charl__source **out, int64_t *bytes) CHARL_MUST_CHECK;
/** A file in a zip archive. Errors: also ERR_DATA when it does not become as long as the archive says. */
charl_status charl__source_open_member(const char *path, const charl__zip_member *member,
                                       charl__source **out) CHARL_MUST_CHECK;
void charl__source_close(charl__source *s);

const char *charl__source_path(const charl__source *s);
/** Size of the file, packed or not. */
int64_t charl__source_file_bytes(const charl__source *s);

/** The next bytes, at most `cap`; *got is 0 only at the end. */
charl_status charl__source_some(charl__source *s, void *dst, size_t cap, size_t *got) CHARL_MUST_CHECK;
/** Exactly the next `bytes` bytes; the end before is an error that says what was expected. */
charl_status charl__source_exact(charl__source *s, void *dst, size_t bytes, const char *what) CHARL_MUST_CHECK;
/** Refuse a file that is too small to hold `bytes` more bytes, before anything is made for them: a damaged header may announce any number. A
 *  compressed file is taken to be as small as deflate can make it. charl__source_exact finds the rest. */
charl_status charl__source_holds(charl__source *s, int64_t bytes, const char *what) CHARL_MUST_CHECK;
/** Nothing may follow. */
charl_status charl__source_end(charl__source *s) CHARL_MUST_CHECK;
charl_status charl__source_rewind(charl__source *s) CHARL_MUST_CHECK;

/** For CHARL_SCOPED. */
CHARL_SCOPED_POINTER(charl__source_left, charl__source, charl__source_close)

#endif
