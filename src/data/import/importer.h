#ifndef CHARL_DATA_IMPORT_IMPORTER_H
#define CHARL_DATA_IMPORT_IMPORTER_H
/** The list of importers (charl/import.h). */
#include "base/registry/registry.h"
#include "charl/dataset.h"
#include "charl/import.h"

/** All of them, charl__importer_NAME in a file of this folder, and NULL. Made by CMake. */
extern const void *const charl__importers[];

/** Tell the user one line, at most 1023 bytes, through opt->noted. Does nothing if opt or opt->noted is NULL. */
void charl__import_note(const charl_import_options *opt, const char *fmt, ...) CHARL_PRINTF(2, 3);

#endif
