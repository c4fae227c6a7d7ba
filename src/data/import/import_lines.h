#ifndef CHARL_DATA_IMPORT_IMPORT_LINES_H
#define CHARL_DATA_IMPORT_IMPORT_LINES_H
/** A text file as lines, plain or gzip, for readers of JSON lines. Blank lines are skipped.
 *
 *      charl__lines_open(&l, path, json);
 *      while (charl__lines_next(&l, &more), more) use(l.line.data, l.line.length);
 *
 *  or charl__lines_each(path, json, use, ctx).
 */
#include "base/text/text.h"
#include "data/import/import_source.h"

struct json_t;

typedef struct charl__lines {
    charl__text line; /* current line, without its end */
    int64_t number;   /* its number, from 1 */
    /* Private. */
    charl__source *source;
    unsigned char *block;
    size_t at, got;
    int64_t next;
    struct json_t *object;
} charl__lines;

/** Whether the name is one of a file of JSON lines: it ends in .jsonl or .jsonl.gz. */
bool charl__lines_are_json(const char *path);

/** Open a UTF-8 text. json: it must consist of lines of JSON. Needs close on every path. Errors: as charl__source_open_text. */
charl_status charl__lines_open(charl__lines *l, const char *path, bool json) CHARL_MUST_CHECK;
void charl__lines_close(charl__lines *l);

/** The next line; *more is false at the end. Errors: ERR_DATA for a line of more than 1 GiB; as charl__source_some. */
charl_status charl__lines_next(charl__lines *l, bool *more) CHARL_MUST_CHECK;

/** Call `visit` for every line of a file. Errors: as charl__lines_open and charl__lines_next; errors of `visit`. */
charl_status charl__lines_each(const char *path, bool json, charl_status (*visit)(void *ctx, charl__lines *l),
                               void *ctx) CHARL_MUST_CHECK;

/** The JSON object of the current line, borrowed until the next line. Errors: ERR_DATA for another line;
 *  ERR_NOMEM. */
charl_status charl__lines_object(charl__lines *l, struct json_t **out) CHARL_MUST_CHECK;

/** "FILE:LINE" of the current line. Borrowed until the next call on this thread. */
const char *charl__lines_place(const charl__lines *l);

#endif
