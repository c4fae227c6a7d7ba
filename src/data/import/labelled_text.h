#ifndef CHARL_DATA_IMPORT_LABELLED_TEXT_H
#define CHARL_DATA_IMPORT_LABELLED_TEXT_H
/** Texts with one label each, from a CSV file with a header or from lines of JSON, and as padded rows of tokens. The importer and
 *  predictions share this code, so both tokenize in the same way. */
#include "base/text/text.h"
#include "charl/shape.h"
#include "data/import/import_lines.h"
#include "data/table/table.h"
#include "data/tokenizer/tokenizer_private.h"

typedef struct charl__labelled_text {
    const char *path, *text_field, *label_field; /* borrowed */
    /* Of the current row; borrowed until the next. label NULL: the row has none, or in a CSV
     * file a text for a missing value. */
    const char *text, *label;
    size_t bytes;
    /* Private. */
    bool is_json;
    charl__table table; /* CSV */
    int text_column, label_column;
    charl__lines lines; /* JSON */
    charl__text own_label;
} charl__labelled_text;

/** Open `path`: lines of JSON if it ends in .jsonl or .jsonl.gz, else CSV. separator: of CSV; 0: detected. Needs close on every path.
 *  Errors: ERR_DATA  no such file, or a CSV file without the column of texts; ERR_IO, ERR_NOMEM. */
charl_status charl__labelled_text_open(charl__labelled_text *t, const char *path, const char *text_field,
                                       const char *label_field, char separator) CHARL_MUST_CHECK;
void charl__labelled_text_close(charl__labelled_text *t);

/** The next row; *more is false at the end. Errors: ERR_DATA, naming the line. */
charl_status charl__labelled_text_next(charl__labelled_text *t, bool *more) CHARL_MUST_CHECK;

/** "FILE:LINE" of the current row. Borrowed until the next call on this thread. */
const char *charl__labelled_text_place(const charl__labelled_text *t);

/** The first `length` tokens of the current text, u8, u16 or u32, and padding after them: the largest number of the type. `row` may be
 *  NULL. *tokens: the number of tokens of the whole text. Errors: as charl_tokenizer_encode, naming the line. */
charl_status charl__labelled_text_encode(const charl__labelled_text *t, charl__encoder *encoder, charl_dtype dtype,
                                         int64_t length, void *row, int64_t *tokens) CHARL_MUST_CHECK;

#endif
