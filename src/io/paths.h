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
 *      a folder             the files in it and in its sub-folders whose names end in one of `endings` or in it and .gz, without
 *                           hidden ones, in the order of the bytes of their paths
 *      a pattern (* ? [])   what matches it, as a shell would expand it, in the order of the bytes of the names
 *
 *  endings  ".txt|.jsonl"
 *
 *  Errors: ERR_DATA when a folder or pattern has no such file, or a folder cannot be read; ERR_NOMEM. A file that does not exist is
 *  appended: opening it fails. */
charl_status charl__paths_add(charl__paths *p, const char *name, const char *endings) CHARL_MUST_CHECK;
void charl__paths_fini(charl__paths *p);

#endif
