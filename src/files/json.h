#ifndef CHARL_FILES_JSON_H
#define CHARL_FILES_JSON_H
/** Single values of a JSON file, as text. */
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/text/text.h"

typedef struct charl__json charl__json;

/** Read the file at `path`, an object. Owned: close it. Blocks. Errors: ERR_CONFIG  it cannot be read, is not JSON or no object. */
charl_status charl__json_open(const char *path, charl__json **out) CHARL_MUST_CHECK;
/** NULL is a no-op. */
void charl__json_close(charl__json *j);

/** The member named by the first `length` bytes of `name`, names of nested objects with dots between: a string unchanged, a number so that it
 *  reads back, yes or no, "an object", or the values of a list with ", " between. *found: it exists and is not null; else *out is "null", or empty if there is no such member.
 *  Errors: ERR_NOMEM. */
charl_status charl__json_get(const charl__json *j, const char *name, size_t length, charl__text *out,
                             bool *found) CHARL_MUST_CHECK;

/** For CHARL_SCOPED. */
CHARL_SCOPED_POINTER(charl__json_left, charl__json, charl__json_close)

#endif
