#ifndef CHARL_DATA_IMPORT_IMPORT_ROWS_H
#define CHARL_DATA_IMPORT_IMPORT_ROWS_H
/** The second half of every import of a format that predictions read too. An importer inspects its input and decides what a sample is and which
 *  classes exist. The result is a schema; the rows are then read as `charl predict` reads them (data/rows), so that a model reads a file in the
 *  same way as its training. */
#include "charl/dataset.h"
#include "io/dataset/dataset_write.h"
#include "data/rows/rows.h"

typedef struct charl__import_plan {
    const charl_data_schema *schema; /* names, recipe, fit and tokenizer are stored */
    charl__rows_options
        source[2]; /* `imports` and schema are set; the second is for validation, or a test; n_paths 0: there is none */
    int64_t rows[2];       /* of each */
    const int32_t *labels; /* [rows] classes that the import has found; NULL: targets come with the rows */
    const uint8_t *val;    /* as in charl__writer_spec, */
    int64_t classes;       /* and these too */
    bool linked, scales;
    bool plain; /* the recipe contains no more than the names: it is not stored */
    /* Receives every block of rows after it is written, and the writer before its end. NULL: not needed. */
    charl_status (*written)(void *ctx, int source, const charl__rows *rows, const void *x, int64_t n);
    charl_status (*end)(void *ctx, charl__writer *w);
    void *ctx;
} charl__import_plan;

/** A schema of samples of this kind, without texts. */
charl_data_schema charl__import_schema(charl_dataset_kind kind);

/** Write the rows of the plan to `out`. Reports the sources' messages. Errors: ERR_DATA, ERR_IO, ERR_DISK, ERR_CONFIG, ERR_NOMEM. */
charl_status charl__import_rows(const charl__import_plan *plan, const char *out,
                                const charl_import_options *opt) CHARL_MUST_CHECK;

/** Results of a pass. */
typedef struct charl__import_count {
    int64_t rows, skipped; /* skipped: images that cannot be read, */
    char first[512];       /* and the reason for the first of them */
} charl__import_count;

/** Read all rows of a source; `visit`, which may be NULL, receives every block, y NULL if it has no targets. Reports the source's
 *  messages. Errors: as charl__rows_open and charl__rows_next; errors of `visit`. */
charl_status charl__import_pass(const charl__rows_options *source, const charl_import_options *opt,
                                charl_status (*visit)(void *ctx, const charl__rows *rows, const void *x, const void *y,
                                                      int64_t n),
                                void *ctx, charl__import_count *count) CHARL_MUST_CHECK;

#endif
