#ifndef CHARL_IMPORT_H
#define CHARL_IMPORT_H
/** Importers by name: what `charl data import FORMAT` offers, as rows. charl/dataset.h has a function for each of them
 *  too.
 *
 *      const charl_importer *t = charl_importer_find("csv");
 *      void *settings = calloc(1, t->row.settings_size);
 *      memcpy(settings, t->row.defaults, t->row.settings_size);
 *      charl_key_parse(&t->row.keys[0], "species", settings, reason);        for each option that the user gives
 *      t->run(settings, files, n, "data.h5", &(charl_import_options){sizeof(charl_import_options), .val_split = 0.1});
 */
#include "charl/dataset.h"
#include "charl/key.h"

CHARL_BEGIN_DECLS

/** A row. Its keys are the options of the importer: key val_file is --val-file. They are of the kinds that
 *  charl_key_parse reads. */
typedef struct charl_importer {
    charl_row row;
    const char *files; /* operands, for people: "IMAGES LABELS [IMAGES LABELS]" */
    int group, most;   /* operands come in groups of so many, and are at most so many; 0: no limit */
    bool shuffles;     /* validation rows are chosen by seed and class, unless in_order */
    const char *note;  /* shown below the options in --help; NULL: none */
    /** Import the n files; settings are as the keys describe, checked. Errors: as charl_import_idx. */
    charl_status (*run)(const void *settings, const char *const *files, int n, const char *out,
                        const charl_import_options *opt);
} charl_importer;

/** Importer i = 0, 1, ..., NULL past the last; that of a name, NULL if unknown; the name of importer i, NULL past the
 *  last. Static. Local. Thread-safe. */
const charl_importer *charl_importer_get(int i);
const charl_importer *charl_importer_find(const char *name);
const char *charl_importer_name(int i);

CHARL_END_DECLS

#endif
