#include "data/import/import_lines.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "io/kind.h"

static void drop_object(charl__lines *l)
{
    if (l->object) {
        json_decref(l->object);
        l->object = NULL;
        charl__drop();
    }
}

charl_status charl__lines_object(charl__lines *l, struct json_t **out)
{
    json_error_t error;

    drop_object(l);
    CHARL_TRY(charl__acquire("JSON"));
    *out = l->object = json_loadb(l->line.data, l->line.length, JSON_ALLOW_NUL, &error);
    if (!l->object) {
        charl__drop();
        CHARL_FAIL(CHARL_ERR_DATA, "%s: not JSON at byte %d of the line: %s", charl__lines_place(l), error.position,
                   error.text);
    }
    CHARL_REQUIRE(json_is_object(l->object), CHARL_ERR_DATA, "%s: not a JSON object, as in {\"text\": \"...\"}",
                  charl__lines_place(l));
    return CHARL_OK;
}

enum { BLOCK_BYTES = 1 << 16, MOST_LINE_BYTES = 1 << 30 };

bool charl__lines_are_json(const char *path)
{
    return charl__ends_in(path, ".jsonl") || charl__ends_in(path, ".jsonl.gz");
}

charl_status charl__lines_open(charl__lines *l, const char *path, bool json)
{
    *l = (charl__lines){0};
    if (json) {
        CHARL_TRY(charl__kind_expect(path, CHARL__KIND_JSON_LINES, "lines of JSON", CHARL_ERR_DATA));
    }
    CHARL_TRY(charl__source_open_text(path, &l->source, NULL));
    CHARL_TRY(charl__alloc(BLOCK_BYTES, &l->block));
    return CHARL_OK;
}

void charl__lines_close(charl__lines *l)
{
    drop_object(l);
    charl__source_close(l->source);
    charl_free(l->block);
    charl__text_fini(&l->line);
    *l = (charl__lines){0};
}

charl_status charl__lines_next(charl__lines *l, bool *more)
{
    const unsigned char *end;

    do {
        charl__text_clear(&l->line);
        l->number = ++l->next;
        do {
            size_t n;

            if (l->at == l->got) {
                l->at = 0;
                CHARL_TRY(charl__source_some(l->source, l->block, BLOCK_BYTES, &l->got));
            }
            end = l->got > 0 ? memchr(l->block + l->at, '\n', l->got - l->at) : NULL;
            n = end ? (size_t)(end - l->block) - l->at : l->got - l->at;
            CHARL_REQUIRE(l->line.length + n <= MOST_LINE_BYTES, CHARL_ERR_DATA, "%s: a line of more than 1 GiB",
                          charl__lines_place(l));
            CHARL_TRY(charl__text_append(&l->line, l->block + l->at, n));
            l->at += n + (end != NULL);
        } while (!end && l->got > 0);
        if (l->line.length > 0 && l->line.data[l->line.length - 1] == '\r') {
            l->line.data[--l->line.length] = '\0';
        }
        *more = l->line.length > 0 && strspn(l->line.data, " \t\r") < l->line.length;
    } while (!*more && l->got > 0);
    return CHARL_OK;
}

const char *charl__lines_place(const charl__lines *l)
{
    static _Thread_local char text[1100];

    snprintf(text, sizeof text, "%.1000s:%lld", charl__source_path(l->source), (long long)l->number);
    return text;
}

charl_status charl__lines_each(const char *path, bool json, charl_status (*visit)(void *ctx, charl__lines *l),
                               void *ctx)
{
    CHARL_SCOPED(charl__lines_close) charl__lines l = {0};
    bool more;

    CHARL_TRY(charl__lines_open(&l, path, json));
    for (;;) {
        CHARL_TRY(charl__lines_next(&l, &more));
        if (!more) {
            break;
        }
        CHARL_TRY(visit(ctx, &l));
    }
    return CHARL_OK;
}
