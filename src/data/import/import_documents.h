#ifndef CHARL_DATA_IMPORT_IMPORT_DOCUMENTS_H
#define CHARL_DATA_IMPORT_IMPORT_DOCUMENTS_H
/** Files of text, plain or gzip, as a stream of documents: every line of a file that ends in .jsonl is one, any other file is one as a
 *  whole. Documents without a byte are left out. */
#include <stdbool.h>
#include <stddef.h>

#include "io/paths.h"

typedef struct charl__documents {
    const charl__paths *paths;
    const char *field; /* of the JSON objects: the one that holds the text */
    bool binary;       /* plain files hold bytes of any kind; false: a file that is not text in UTF-8 is refused */
    bool no_nul;       /* refuse a text with the character NUL */
} charl__documents;

/** Gets the text of a document in pieces of any length, then its end. */
typedef struct charl__document_sink {
    charl_status (*text)(void *ctx, const unsigned char *bytes, size_t n);
    charl_status (*end)(void *ctx); /* NULL: not of interest */
    void *ctx;
} charl__document_sink;

/** Read all documents in order.
 *  Errors: ERR_DATA, naming the file and the byte or line, for a file that cannot be read, is truncated, is not UTF-8 where it must be,
 *  or a line that is not a JSON object with a text in the field; ERR_NOMEM;
 *  what the sink returns.
 *  Memory: 1 MiB, and the longest line of JSON twice. */
charl_status charl__documents_read(const charl__documents *d, const charl__document_sink *sink) CHARL_MUST_CHECK;

/** Whether any of the files holds JSON. */
bool charl__documents_have_json(const charl__documents *d);

#endif
