#ifndef CHARL_DATA_IMPORT_IMPORT_ROWS_H
#define CHARL_DATA_IMPORT_IMPORT_ROWS_H
/** The second half of every import of a format that predictions read too. An importer looks at its input and decides: what a sample is, which
 *  classes there are. That is a schema; the rows then come as they come to `charl predict` (data/rows), so that a model reads a file as its
 *  training read it. */
#include "charl/dataset.h"
#include "io/dataset/dataset_write.h"
#include "data/rows/rows.h"

typedef struct charl__import_plan {
    const charl_data_schema *schema; /* names, recipe, fit and tokenizer are stored */
    charl__rows_options
        source[2];         /* `imports` and schema are set; the second validates, or tests; n_paths 0: there is none */
    int64_t rows[2];       /* of each */
    const int32_t *labels; /* [rows] classes that the import has found; NULL: targets come with the rows */
    const uint8_t *val;    /* as in charl__writer_spec, */
    int64_t classes;       /* and these too */
    bool linked, scales;
    bool plain; /* the recipe says no more than the names: it is not stored */
    /* Gets every block of rows once it is written, and the writer before its end. NULL: not of interest. */
    charl_status (*taken)(void *ctx, int source, const charl__rows *rows, const void *x, int64_t n);
    charl_status (*end)(void *ctx, charl__writer *w);
    void *ctx;
} charl__import_plan;

/** A schema of samples of this kind that has no texts yet. */
charl_data_schema charl__import_schema(charl_dataset_kind kind);

/** Write the rows of the plan to `out`. What the sources have to say is noted. Errors: ERR_DATA, ERR_IO, ERR_DISK, ERR_CONFIG, ERR_NOMEM. */
charl_status charl__import_rows(const charl__import_plan *plan, const char *out,
                                const charl_import_options *opt) CHARL_MUST_CHECK;

/** What a pass has met. */
typedef struct charl__import_count {
    int64_t rows, skipped; /* skipped: pictures that cannot be read, */
    char first[512];       /* and why the first of them cannot */
} charl__import_count;

/** Read all rows of a source; `take`, which may be NULL, gets every block, y NULL where it has no targets. Notes what the source has to
 *  say. Errors: as charl__rows_open and charl__rows_next; what `take` returns. */
charl_status charl__import_pass(const charl__rows_options *source, const charl_import_options *opt,
                                charl_status (*take)(void *ctx, const charl__rows *rows, const void *x, const void *y,
                                                     int64_t n),
                                void *ctx, charl__import_count *count) CHARL_MUST_CHECK;

#endif
