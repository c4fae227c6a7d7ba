#ifndef CHARL_DATA_ROWS_ROWS_PRIVATE_H
#define CHARL_DATA_ROWS_ROWS_PRIVATE_H
/** The kinds of sources. */
#include "base/error.h"
#include "data/rows/rows.h"

typedef struct charl__rows_kind charl__rows_kind;

/** The functions of a kind of source; rows.h documents each. */
struct charl__rows_kind {
    charl_status (*open)(charl__rows *r); /* sets r->self, count, has_targets, subject */
    charl_status (*next)(charl__rows *r, int64_t most, void *x, void *y, int64_t *n);
    charl_status (*count)(charl__rows *r, int64_t *n);    /* NULL: r->rows is known */
    const char *(*name)(const charl__rows *r, int64_t i); /* NULL: no names */
    int64_t (*file)(const charl__rows *r, int64_t i);     /* NULL: rows are not files */
    void (*close)(charl__rows *r);                        /* even after a failed open */
};

extern const charl__rows_kind charl__rows_csv, charl__rows_npy, charl__rows_images, charl__rows_dataset,
    charl__rows_texts;

/** A class of the schema by its name, or by its number if classes have no names; -1: there is none. */
int32_t charl__rows_class(const charl__rows *r, const char *text);

/** Append a line to r->warnings or r->notes. Errors: ERR_NOMEM. */
charl_status charl__rows_warn(charl__rows *r, const char *fmt, ...) CHARL_PRINTF(2, 3) CHARL_MUST_CHECK;
charl_status charl__rows_note(charl__rows *r, const char *fmt, ...) CHARL_PRINTF(2, 3) CHARL_MUST_CHECK;

/** Skip a row whose reading has just failed: its message becomes a warning. Errors: ERR_NOMEM. */
charl_status charl__rows_skip(charl__rows *r) CHARL_MUST_CHECK;

/** "u8 [1, 28, 28]": samples of the schema, for messages. Borrowed until the next call on this
 *  thread. */
const char *charl__rows_sample_text(const charl_data_schema *s);

#endif
