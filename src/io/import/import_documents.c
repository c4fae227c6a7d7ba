/* Documents out of plain files and lines of JSON. */
#include "io/import/import_documents.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "base/text/utf8.h"
#include "io/import/import_source.h"
#include "io/kind.h"

enum { BLOCK_BYTES = 1 << 20, MOST_LINE_BYTES = 1 << 30 };

/* A document of a plain file, from byte `first` on. A character that a block cuts waits for its rest. */
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

#ifdef CHARL_HAVE_JANSSON

#include <jansson.h>

/* A hint with the fields that hold text. */
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

static charl_status read_line(const charl__documents *d, const char *path, int64_t line, const char *text, size_t n,
                              const charl__document_sink *sink)
{
    charl_status st = CHARL_OK;
    json_error_t error;
    json_t *object = NULL, *value;
    bool held = false;
    char hint[256];

    CHARL_TRY_CLEANUP(charl__acquire("JSON"));
    held = true;
    object = json_loadb(text, n, JSON_ALLOW_NUL, &error);
    CHARL_REQUIRE_CLEANUP(object, CHARL_ERR_DATA, "%s:%lld: not JSON at byte %d of the line: %s", path, (long long)line,
                          error.position, error.text);
    CHARL_REQUIRE_CLEANUP(json_is_object(object), CHARL_ERR_DATA, "%s:%lld: not a JSON object, as in {\"%s\": \"...\"}",
                          path, (long long)line, d->field);
    value = json_object_get(object, d->field);
    CHARL_REQUIRE_CLEANUP(value, CHARL_ERR_DATA, "%s:%lld: there is no field \"%s\"%s", path, (long long)line, d->field,
                          fields(object, hint, sizeof hint));
    CHARL_REQUIRE_CLEANUP(json_is_string(value), CHARL_ERR_DATA, "%s:%lld: field \"%s\" is not a string%s", path,
                          (long long)line, d->field, fields(object, hint, sizeof hint));
    CHARL_REQUIRE_CLEANUP(!d->no_nul || strlen(json_string_value(value)) == json_string_length(value), CHARL_ERR_DATA,
                          "%s:%lld: the text holds NUL, which ends a document", path, (long long)line);
    if (json_string_length(value) > 0) {
        CHARL_TRY_CLEANUP(
            sink->text(sink->ctx, (const unsigned char *)json_string_value(value), json_string_length(value)));
        if (sink->end) {
            CHARL_TRY_CLEANUP(sink->end(sink->ctx));
        }
    }
cleanup:
    json_decref(object);
    if (held) {
        charl__drop();
    }
    return st;
}

#else

static charl_status read_line(const charl__documents *d, const char *path, int64_t line, const char *text, size_t n,
                              const charl__document_sink *sink)
{
    (void)d;
    (void)line;
    (void)text;
    (void)n;
    (void)sink;
    CHARL_FAIL(CHARL_ERR_CONFIG, "%s: this charl was built without libjansson and reads no JSON", path);
}

#endif

static charl_status take_line(const charl__documents *d, const char *path, int64_t line, const charl__text *text,
                              const charl__document_sink *sink)
{
    if (text->length == 0 || strspn(text->data, " \t\r") == text->length) {
        return CHARL_OK;
    }
    return d->line ? d->line(sink->ctx, path, line, text->data, text->length)
                   : read_line(d, path, line, text->data, text->length, sink);
}

static charl_status read_json(const charl__documents *d, charl__source *s, unsigned char *block,
                              const charl__document_sink *sink)
{
    charl_status st = CHARL_OK;
    const char *path = charl__source_path(s);
    charl__text line = {0};
    int64_t number = 1;
    size_t got;

    do {
        CHARL_TRY_CLEANUP(charl__source_some(s, block, BLOCK_BYTES, &got));
        for (size_t at = 0; at < got;) {
            const unsigned char *newline = memchr(block + at, '\n', got - at);
            const size_t n = newline ? (size_t)(newline - block) - at : got - at;

            CHARL_REQUIRE_CLEANUP(line.length + n <= MOST_LINE_BYTES, CHARL_ERR_DATA,
                                  "%s:%lld: a line of more than 1 GiB", path, (long long)number);
            CHARL_TRY_CLEANUP(charl__text_append(&line, block + at, n));
            at += n;
            if (newline) {
                CHARL_TRY_CLEANUP(take_line(d, path, number, &line, sink));
                charl__text_clear(&line);
                number++;
                at++;
            }
        }
    } while (got > 0);
    if (line.length > 0) {
        CHARL_TRY_CLEANUP(take_line(d, path, number, &line, sink));
    }
cleanup:
    charl__text_fini(&line);
    return st;
}

static bool is_json(const char *path)
{
    return charl__ends_in(path, ".jsonl") || charl__ends_in(path, ".jsonl.gz");
}

bool charl__documents_have_json(const charl__documents *d)
{
    for (int64_t i = 0; i < d->paths->n; i++) {
        if (is_json(d->paths->path[i])) {
            return true;
        }
    }
    return false;
}

charl_status charl__documents_read(const charl__documents *d, const charl__document_sink *sink)
{
    charl_status st = CHARL_OK;
    charl__source *s = NULL;
    unsigned char *block = NULL;
    int64_t first;

    CHARL_TRY_CLEANUP(charl__alloc(BLOCK_BYTES, &block));
    for (int64_t i = 0; i < d->paths->n; i++) {
        first = 0;
        if (d->line || is_json(d->paths->path[i])) {
            CHARL_TRY_CLEANUP(
                charl__kind_expect(d->paths->path[i], CHARL__KIND_JSON_LINES, "lines of JSON", CHARL_ERR_DATA));
        }
        CHARL_TRY_CLEANUP(d->binary ? charl__source_open(d->paths->path[i], &s)
                                    : charl__source_open_text(d->paths->path[i], &s, &first));
        CHARL_TRY_CLEANUP(d->line || is_json(d->paths->path[i]) ? read_json(d, s, block, sink)
                                                                : read_plain(d, s, first, block, sink));
        charl__source_close(s);
        s = NULL;
    }
cleanup:
    charl__source_close(s);
    charl_free(block);
    return st;
}
