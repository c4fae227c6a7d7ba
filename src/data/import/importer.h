#ifndef CHARL_DATA_IMPORT_IMPORTER_H
#define CHARL_DATA_IMPORT_IMPORTER_H
/** The list of importers (charl/import.h). */
#include "base/registry/registry.h"
#include "charl/dataset.h"
#include "charl/import.h"
#include "io/paths.h"

/** All of them, charl__importer_NAME in a file of this folder, and NULL. Made by CMake. */
extern const void *const charl__importers[];

/** Tell the user one line, at most 1023 bytes, through opt->noted. Does nothing if opt or opt->noted is NULL. */
void charl__import_note(const charl_import_options *opt, const char *fmt, ...) CHARL_PRINTF(2, 3);

/** The files that an import takes for training, and those to validate on, which val_file, if not NULL, stands for: neither may be the output,
 *  and val_file goes without a val_split. Errors: also ERR_CONFIG. */
charl_status charl__import_paths(charl__paths paths[2], const char *const *names, int n, const char *val_file,
                                 double val_split, const char *endings, const char *output) CHARL_MUST_CHECK;

#endif
