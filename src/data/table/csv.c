/* A state machine over bytes. All fields of a record are in one buffer, each with its NUL, and are
 * found by their offsets. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "charl/dataset.h"
#include "charl/import.h"
#include "data/table/csv.h"

enum { INPUT = 1 << 16, MAX_RECORD = 1 << 24, END = -1 };

typedef enum state { FIELD_START, PLAIN, QUOTED, QUOTE_SEEN } state;

struct charl__csv {
    charl__source *source;
    char separator;
    unsigned char input[INPUT];
    size_t at, got;
    int64_t line; /* of the next byte */
    int64_t record_line;
    bool begun; /* past the byte order mark */
    char *text;
    size_t length, capacity;
    size_t *starts;
    size_t n_fields, max_fields;
    charl__parquet *parquet; /* instead of source */
    bool named;              /* its first record has been read */
};

bool charl_csv_separator(const char *text, char *out)
{
    if (!text || !out) {
        return false;
    }
    const bool tab = strcmp(text, "\\t") == 0 || strcmp(text, "tab") == 0, blank = strcmp(text, "blank") == 0;
    const bool found = strcmp(text, "auto") == 0;

    *out = tab ? '\t' : blank ? ' ' : found ? '\0' : text[0];
    return tab || blank || found || (text[0] && !text[1] && !strchr("\"\r\n", text[0]));
}

charl_status charl__csv_create(charl__source *s, char separator, charl__csv **out)
{
    CHARL_SCOPED(charl__csv_left) charl__csv *c = NULL;

    *out = NULL;
    CHARL_TRY(charl__alloc(sizeof *c, &c));
    c->source = s;
    c->separator = separator;
    c->line = 1;
    CHARL_TRY(charl__parquet_open(charl__source_path(s), &c->parquet));
    *out = c;
    c = NULL;
    return CHARL_OK;
}

void charl__csv_destroy(charl__csv *c)
{
    if (c) {
        charl__parquet_close(c->parquet);
        charl_free(c->text);
        charl_free(c->starts);
        charl_free(c);
    }
}

const char *charl__csv_field(const charl__csv *c, int i)
{
    return c->text + c->starts[i];
}

int64_t charl__csv_line(const charl__csv *c)
{
    return c->record_line;
}

const charl__parquet *charl__csv_parquet(const charl__csv *c)
{
    return c->parquet;
}

static charl_status next_byte(charl__csv *c, int *byte)
{
    if (c->at == c->got) {
        c->at = 0;
        CHARL_TRY(charl__source_some(c->source, c->input, sizeof c->input, &c->got));
        if (c->got == 0) {
            *byte = END;
            return CHARL_OK;
        }
    }
    *byte = c->input[c->at++];
    return CHARL_OK;
}

static charl_status push(charl__csv *c, char byte)
{
    CHARL_REQUIRE(c->length < MAX_RECORD, CHARL_ERR_DATA, "%s:%lld: a record of more than 16 MiB (an unclosed quote?)",
                  charl__source_path(c->source), (long long)c->record_line);
    if (c->length == c->capacity) {
        const size_t capacity = c->capacity ? 2 * c->capacity : 1024;

        CHARL_TRY(charl__realloc(capacity, &c->text));
        c->capacity = capacity;
    }
    c->text[c->length++] = byte;
    return CHARL_OK;
}

static charl_status begin_field(charl__csv *c)
{
    if (c->n_fields == c->max_fields) {
        const size_t most = c->max_fields ? 2 * c->max_fields : 64;

        CHARL_TRY(charl__realloc(most * sizeof *c->starts, &c->starts));
        c->max_fields = most;
    }
    c->starts[c->n_fields++] = c->length;
    return CHARL_OK;
}

static charl_status end_field(charl__csv *c, bool trim)
{
    while (trim && c->length > c->starts[c->n_fields - 1] &&
           (c->text[c->length - 1] == ' ' || c->text[c->length - 1] == '\t' || c->text[c->length - 1] == '\r')) {
        c->length--;
    }
    return push(c, '\0');
}

/* One byte inside a record; *done when the record ends. */
static charl_status step(charl__csv *c, int byte, state *s, bool *done)
{
    const char *path = charl__source_path(c->source);
    const bool ends_line = byte == '\n' || byte == END, in_runs = c->separator == ' ';

    if (*s == QUOTED) {
        CHARL_REQUIRE(byte != END, CHARL_ERR_DATA, "%s:%lld: a quote is not closed", path, (long long)c->record_line);
        if (byte == '"') {
            *s = QUOTE_SEEN;
        } else {
            CHARL_TRY(push(c, (char)byte));
        }
    } else if (*s == QUOTE_SEEN && byte == '"') {
        CHARL_TRY(push(c, '"'));
        *s = QUOTED;
    } else if (in_runs && *s == FIELD_START && (byte == ' ' || byte == '\t' || byte == '\r')) {
        ; /* the run continues */
    } else if (ends_line || byte == c->separator || (in_runs && byte == '\t')) {
        if (in_runs && *s == FIELD_START && c->n_fields > 1) { /* blanks before the end of the line */
            c->n_fields--;
        }
        CHARL_TRY(end_field(c, *s != QUOTE_SEEN));
        *done = ends_line;
        *s = FIELD_START;
        if (!ends_line) {
            CHARL_TRY(begin_field(c));
        }
    } else if (*s == QUOTE_SEEN) {
        CHARL_REQUIRE(byte == '\r' || byte == ' ' || byte == '\t', CHARL_ERR_DATA,
                      "%s:%lld: text after a closing quote%s", path, (long long)c->line,
                      byte == ';' || byte == '|' ? "; HINT is the separator no comma? --separator" : "");
    } else if (*s == FIELD_START && byte == '"') {
        *s = QUOTED;
    } else if (*s == FIELD_START && (byte == ' ' || byte == '\t')) {
        ; /* blanks before an unquoted field */
    } else {
        CHARL_REQUIRE(byte != '"' && byte != '\0', CHARL_ERR_DATA, "%s:%lld: stray %s", path, (long long)c->line,
                      byte ? "quote" : "NUL byte");
        CHARL_TRY(push(c, (char)byte));
        *s = PLAIN;
    }
    return CHARL_OK;
}

/* The first byte of a line, after any byte order mark. */
static charl_status first_byte(charl__csv *c, int *byte)
{
    const bool first = !c->begun;

    c->begun = true;
    CHARL_TRY(next_byte(c, byte));
    if (first && *byte == 0xef) {
        int mark[2];

        CHARL_TRY(next_byte(c, &mark[0]));
        CHARL_TRY(next_byte(c, &mark[1]));
        CHARL_REQUIRE(mark[0] == 0xbb && mark[1] == 0xbf, CHARL_ERR_DATA, "%s:1: not text in UTF-8",
                      charl__source_path(c->source));
        CHARL_TRY(next_byte(c, byte));
    }
    return CHARL_OK;
}

charl_status charl__csv_skip_line(charl__csv *c, char *head, size_t n, bool *more)
{
    size_t length = 0;
    int byte;

    CHARL_TRY(first_byte(c, &byte));
    *more = byte != END;
    for (; byte != '\n' && byte != END;) {
        if (length + 1 < n && byte != '\r') {
            head[length++] = (char)byte;
        }
        CHARL_TRY(next_byte(c, &byte));
    }
    head[length] = '\0';
    c->line += byte == '\n';
    return CHARL_OK;
}

/* Empty lines are not records; nor are blank lines if blanks separate fields. */
static charl_status skip_to_record(charl__csv *c, int *byte)
{
    const bool in_runs = c->separator == ' ';

    CHARL_TRY(first_byte(c, byte));
    while (*byte == '\n' || *byte == '\r' || (in_runs && (*byte == ' ' || *byte == '\t'))) {
        c->line += *byte == '\n';
        CHARL_TRY(next_byte(c, byte));
    }
    return CHARL_OK;
}

static charl_status put_field(charl__csv *c, const char *text, size_t n)
{
    const char *path = charl__source_path(c->source);
    const long long row = (long long)c->record_line;

    CHARL_REQUIRE(!memchr(text, 0, n), CHARL_ERR_DATA, "%s:%lld: a text with the character NUL", path, row);
    CHARL_REQUIRE(n < MAX_RECORD - c->length, CHARL_ERR_DATA, "%s:%lld: a row of more than 16 MiB", path, row);
    CHARL_TRY(begin_field(c));
    for (size_t i = 0; i < n; i++) {
        CHARL_TRY(push(c, text[i]));
    }
    return push(c, '\0');
}

/* The names of a Parquet file, then its rows. */
static charl_status next_row(charl__csv *c, bool *more)
{
    const char *text;
    size_t n;

    *more = true;
    c->record_line = charl__parquet_row(c->parquet) + c->named;
    if (c->named) {
        CHARL_TRY(charl__parquet_next(c->parquet, more));
    }
    for (int i = 0; *more && i < charl__parquet_n_columns(c->parquet); i++) {
        text = charl__parquet_name(c->parquet, i);
        n = strlen(text);
        if (c->named) {
            CHARL_TRY(charl__parquet_field(c->parquet, i, &text, &n));
        }
        CHARL_TRY(put_field(c, text ? text : "", n));
    }
    c->named = true;
    return CHARL_OK;
}

charl_status charl__csv_next(charl__csv *c, int *n_fields)
{
    state s = FIELD_START;
    bool done = false;
    int byte;

    *n_fields = 0;
    c->length = 0;
    c->n_fields = 0;
    if (c->parquet) {
        CHARL_TRY(next_row(c, &done));
        *n_fields = (int)c->n_fields;
        return CHARL_OK;
    }
    CHARL_TRY(skip_to_record(c, &byte));
    c->record_line = c->line;
    if (byte == END) {
        return CHARL_OK;
    }
    CHARL_TRY(begin_field(c));
    for (;;) {
        CHARL_TRY(step(c, byte, &s, &done));
        c->line += byte == '\n';
        if (done) {
            break;
        }
        CHARL_TRY(next_byte(c, &byte));
    }
    *n_fields = (int)c->n_fields;
    return CHARL_OK;
}
