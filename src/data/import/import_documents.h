#ifndef CHARL_DATA_IMPORT_IMPORT_DOCUMENTS_H
#define CHARL_DATA_IMPORT_IMPORT_DOCUMENTS_H
/** Files of text, plain or gzip, as a stream of documents: in a file that ends in .jsonl every line is a document, in a Parquet file
 *  every row; any other file is a single one. Empty documents are skipped. */
#include <stdbool.h>
#include <stddef.h>

#include "io/paths.h"

typedef struct charl__documents {
    const charl__paths *paths;
    const char *field; /* field of the JSON objects, or column, with the text */
    bool binary;       /* plain files may hold any bytes; false: a file that is not UTF-8 text is rejected */
    bool no_nul;       /* reject a text with the character NUL */
} charl__documents;

/** Receives the text of a document in pieces of any length, then its end. */
typedef struct charl__document_sink {
    charl_status (*text)(void *ctx, const unsigned char *bytes, size_t n);
    charl_status (*end)(void *ctx); /* NULL: not needed */
    void *ctx;
} charl__document_sink;

/** Read all documents in order.
 *  Errors: ERR_DATA, naming the file and the byte or line, for a file that cannot be read, is truncated, is not UTF-8 where required,
 *  or a line that is not a JSON object with a text in the field; ERR_NOMEM;
 *  errors of the sink.
 *  Memory: 1 MiB, and twice the longest line of JSON. */
charl_status charl__documents_read(const charl__documents *d, const charl__document_sink *sink) CHARL_MUST_CHECK;

/** Whether the documents of any of the files are fields. */
bool charl__documents_have_fields(const charl__documents *d);

#endif
