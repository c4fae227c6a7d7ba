/* Documents from plain files, lines of JSON and columns of Parquet files. */
#include "data/import/import_documents.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "base/text/utf8.h"
#include "data/import/import_lines.h"
#include "data/import/import_source.h"
#include "data/parquet/parquet.h"
#include "io/kind.h"

enum { BLOCK_BYTES = 1 << 20 };

/* A document of a plain file, from byte `first` on. A character split between blocks waits for its rest. */
static charl_status read_plain(const charl__documents *d, charl__source *s, int64_t first, unsigned char *block,
                               const charl__document_sink *sink)
{
    const char *path = charl__source_path(s);
    size_t kept = 0, got;
    int64_t at = first; /* of block[0] in the file */

    do {
        size_t n, use;

        CHARL_TRY(charl__source_some(s, block + kept, BLOCK_BYTES - kept, &got));
        n = use = kept + got;
        if (!d->binary) {
            use = charl__utf8_valid(block, n);
            CHARL_REQUIRE(
                use == n || (got > 0 && n - use < 4), CHARL_ERR_DATA,
                "%s: byte %lld is not UTF-8; HINT if it is text in another encoding, convert it, for example with "
                "`iconv -f WINDOWS-1252 -t UTF-8`; --binary takes bytes of any kind",
                path, (long long)at + (long long)use);
        }
        if (use > 0) {
            const unsigned char *nul = d->no_nul ? memchr(block, 0, use) : NULL;

            CHARL_REQUIRE(!nul, CHARL_ERR_DATA, "%s: byte %lld is NUL, which ends a document", path,
                          (long long)at + (nul ? nul - block : 0));
            CHARL_TRY(sink->text(sink->ctx, block, use));
        }
        kept = n - use;
        memmove(block, block + use, kept);
        at += (int64_t)use;
    } while (got > 0);
    return at > first && sink->end ? sink->end(sink->ctx) : CHARL_OK;
}

/* Lines of JSON. */
typedef struct reading {
    const charl__documents *d;
    const charl__document_sink *sink;
} reading;

/* A hint that lists the fields with text. */
static const char *fields(json_t *object, char *hint, size_t size)
{
    const char *name;
    json_t *value;
    size_t used = 0;

    hint[0] = '\0';
    json_object_foreach(object, name, value)
    {
        if (json_is_string(value) && used < size) {
            used += (size_t)snprintf(hint + used, size - used, "%s%s",
                                     used ? ", " : "; HINT --field NAME; here, text is in: ", name);
        }
    }
    return hint;
}

static charl_status read_line(void *ctx, charl__lines *l)
{
    const reading *r = ctx;
    json_t *object = NULL;
    const json_t *value;
    char hint[256];

    CHARL_TRY(charl__lines_object(l, &object));
    value = json_object_get(object, r->d->field);
    CHARL_REQUIRE(value, CHARL_ERR_DATA, "%s: there is no field \"%s\"%s", charl__lines_place(l), r->d->field,
                  fields(object, hint, sizeof hint));
    CHARL_REQUIRE(json_is_string(value), CHARL_ERR_DATA, "%s: field \"%s\" is not a string%s", charl__lines_place(l),
                  r->d->field, fields(object, hint, sizeof hint));
    CHARL_REQUIRE(!r->d->no_nul || strlen(json_string_value(value)) == json_string_length(value), CHARL_ERR_DATA,
                  "%s: the text holds NUL, which ends a document", charl__lines_place(l));
    if (json_string_length(value) > 0) {
        CHARL_TRY(
            r->sink->text(r->sink->ctx, (const unsigned char *)json_string_value(value), json_string_length(value)));
        CHARL_TRY(r->sink->end ? r->sink->end(r->sink->ctx) : CHARL_OK);
    }
    return CHARL_OK;
}

static const char *column_name(const void *ctx, int i, char *copy)
{
    const charl__parquet *p = ctx;

    if (i >= charl__parquet_n_columns(p)) {
        return NULL;
    }
    snprintf(copy, 64, "\"%.60s\"", charl__parquet_name(p, i));
    return copy;
}

static charl_status find_field(const charl__parquet *p, const char *path, const char *field, int *column)
{
    char quoted[64], names[512];
    int i = 0;

    while (i < charl__parquet_n_columns(p) && strcmp(charl__parquet_name(p, i), field) != 0) {
        i++;
    }
    *column = i;
    snprintf(quoted, sizeof quoted, "\"%.60s\"", field);
    CHARL_REQUIRE(i < charl__parquet_n_columns(p), CHARL_ERR_DATA,
                  "%s: there is no column \"%s\" among %s; HINT --field NAME", path, field,
                  charl__text_names(quoted, column_name, p, names, sizeof names));
    return CHARL_OK;
}

/* Each row of a Parquet file is a document; one without a text is none. */
static charl_status read_rows(const charl__documents *d, const char *path, const charl__document_sink *sink)
{
    CHARL_SCOPED(charl__parquet_left) charl__parquet *p = NULL;
    const char *text;
    size_t n;
    int column = 0;
    bool more;

    CHARL_TRY(charl__parquet_open(path, &p));
    CHARL_REQUIRE(p, CHARL_ERR_DATA, "%s: the file changed while it was being read", path);
    CHARL_TRY(find_field(p, path, d->field, &column));
    charl__parquet_use(p, column);
    for (;;) {
        CHARL_TRY(charl__parquet_next(p, &more));
        if (!more) {
            return CHARL_OK;
        }
        CHARL_TRY(charl__parquet_field(p, column, &text, &n));
        if (n > 0) {
            const size_t valid = charl__utf8_valid((const unsigned char *)text, n);
            const long long row = (long long)charl__parquet_row(p);

            CHARL_REQUIRE(d->binary || valid == n, CHARL_ERR_DATA,
                          "%s:%lld: byte %lld of the text is not UTF-8; HINT --binary takes bytes of any kind", path,
                          row, (long long)valid);
            CHARL_REQUIRE(!d->no_nul || !memchr(text, 0, n), CHARL_ERR_DATA,
                          "%s:%lld: the text holds NUL, which ends a document", path, row);
            CHARL_TRY(sink->text(sink->ctx, (const unsigned char *)text, n));
            CHARL_TRY(sink->end ? sink->end(sink->ctx) : CHARL_OK);
        }
    }
}

static bool is_parquet(const char *path)
{
    const charl__kind *kind = charl__kind_of(path);

    return kind && kind->as & CHARL__KIND_PARQUET && !(kind->as & CHARL__KIND_TEXT);
}

bool charl__documents_have_fields(const charl__documents *d)
{
    for (int64_t i = 0; i < d->paths->n; i++) {
        if (charl__lines_are_json(d->paths->path[i]) || is_parquet(d->paths->path[i])) {
            return true;
        }
    }
    return false;
}

charl_status charl__documents_read(const charl__documents *d, const charl__document_sink *sink)
{
    CHARL_SCOPED_FREE unsigned char *block = NULL;
    CHARL_SCOPED(charl__source_left) charl__source *s = NULL;
    int64_t first;

    CHARL_TRY(charl__alloc(BLOCK_BYTES, &block));
    for (int64_t i = 0; i < d->paths->n; i++) {
        const char *path = d->paths->path[i];

        first = 0;
        if (charl__lines_are_json(path)) {
            CHARL_TRY(charl__lines_each(path, true, read_line, &(reading){d, sink}));
            continue;
        }
        if (is_parquet(path)) {
            CHARL_TRY(read_rows(d, path, sink));
            continue;
        }
        CHARL_TRY(d->binary ? charl__source_open(path, &s) : charl__source_open_text(path, &s, &first));
        CHARL_TRY(read_plain(d, s, first, block, sink));
        charl__source_close(s);
        s = NULL;
    }
    return CHARL_OK;
}
