#ifndef CHARL_IO_PATHS_H
#define CHARL_IO_PATHS_H
/** The files that a user means by names of files, folders and patterns. */
#include <stdint.h>

#include "base/error.h"

typedef struct charl__paths {
    char **path;
    int64_t n;
} charl__paths;

/** Append the files that `name` stands for:
 *
 *      a file               itself, whatever its name ends in
 *      a folder             the files in it and in its sub-folders whose names end in one of `endings`, optionally with .gz, except
 *                           hidden ones, in byte order of their paths
 *      a pattern (* ? [])   the files that match it, as a shell would expand it, in byte order of the names
 *
 *  endings  ".txt|.jsonl"
 *
 *  Errors: ERR_DATA if a folder or pattern has no such file, or a folder cannot be read; ERR_NOMEM. A file that does not exist is
 *  appended: opening it fails. */
charl_status charl__paths_add(charl__paths *p, const char *name, const char *endings) CHARL_MUST_CHECK;
void charl__paths_fini(charl__paths *p);

#endif
