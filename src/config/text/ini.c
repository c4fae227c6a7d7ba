/* Each line is a section, a key, the continuation of a value, or empty. */
#include "config/text/ini.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "base/text/utf8.h"

typedef enum key_state { KEY_NONE, KEY_OPEN, KEY_BAD } key_state;

typedef struct reader {
    const charl__ini_events *events;
    charl_status st; /* of the first failed event or allocation */
    const char *at;
    const char *end;
    int line;
    char *buffer;  /* [CHARL__INI_LINE + 1], the line */
    key_state key; /* what an indented line continues */
    char key_name[CHARL__INI_NAME + 1];
    int key_line;
    charl__text value; /* the current key */
} reader;

static void keep(reader *r, charl_status st)
{
    if (r->st == CHARL_OK) {
        r->st = st;
    }
}

static void mistake(reader *r, const char *reason)
{
    keep(r, r->events->mistake(r->events->ctx, r->line, reason));
}

/* Report the key whose value is complete. */
static void flush(reader *r)
{
    if (r->key == KEY_OPEN && r->st == CHARL_OK) {
        keep(r, r->events->item(r->events->ctx, r->key_name, charl__text_string(&r->value), r->key_line));
    }
    r->key = KEY_NONE;
    charl__text_clear(&r->value);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Batch-Size is accepted here: the lookup rejects it and suggests the nearest name. */
static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-';
}

static char *trim(char *s)
{
    size_t n;

    while (is_blank(*s)) {
        s++;
    }
    n = strlen(s);
    while (n > 0 && is_blank(s[n - 1])) {
        s[--n] = '\0';
    }
    return s;
}

/* Values are printed, and the file may come from anywhere. */
static void refuse_hidden(reader *r, size_t length)
{
    uint32_t point;

    if (charl__utf8_find_hidden(r->buffer, length, &point)) {
        char text[64];

        snprintf(text, sizeof text, "control or invisible character U+%04X", point);
        mistake(r, text);
        r->buffer[0] = '\0';
    }
}

/* Copy the next line into r->buffer without its line end; false at the end of the text. Invalid
 * lines become empty, with a mistake. */
static bool next_line(reader *r)
{
    const char *newline;
    size_t n;

    if (r->at == r->end) {
        return false;
    }
    newline = memchr(r->at, '\n', (size_t)(r->end - r->at));
    n = (size_t)((newline ? newline : r->end) - r->at);
    r->line++;
    r->buffer[0] = '\0';
    if (n > CHARL__INI_LINE) {
        mistake(r, "line is longer than 8000 bytes: continue it on indented lines");
    } else {
        memcpy(r->buffer, r->at, n);
        while (n > 0 && r->buffer[n - 1] == '\r') {
            n--;
        }
        r->buffer[n] = '\0';
        refuse_hidden(r, n);
    }
    r->at += (newline ? 1 : 0) + (newline ? newline - r->at : r->end - r->at);
    return true;
}

static void cut_comment(char *s)
{
    for (char *p = s; *p != '\0'; p++) {
        if ((*p == '#' || *p == ';') && (p == s || is_blank(p[-1]))) {
            *p = '\0';
            return;
        }
    }
}

/* Append a value, or one line of it, without comment and quotes; false after a mistake. */
static bool parse_value(reader *r, char *value)
{
    char *out = value;
    char *p;

    if (*value != '"') {
        cut_comment(value);
        value = trim(value);
        keep(r, charl__text_append(&r->value, value, strlen(value)));
        return true;
    }
    for (p = value + 1; *p != '"'; p++) {
        if (p[0] == '\\' && (p[1] == '"' || p[1] == '\\')) {
            p++;
        }
        if (*p == '\0') {
            mistake(r, "closing quote is missing");
            return false;
        }
        *out++ = *p;
    }
    p = trim(p + 1);
    if (*p != '\0' && *p != '#' && *p != ';') {
        mistake(r, "text after the closing quote");
        return false;
    }
    keep(r, charl__text_append(&r->value, value, (size_t)(out - value)));
    return true;
}

static void bad_section(reader *r, const char *reason)
{
    mistake(r, reason);
    if (r->st == CHARL_OK) {
        keep(r, r->events->section(r->events->ctx, NULL, r->line));
    }
}

/* "[ layer   conv1 ]" -> "layer conv1", or a mistake. */
static void parse_section(reader *r, char *s)
{
    char *close = strchr(s, ']');
    char *name;
    char *space;
    char *layer = NULL;

    flush(r);
    r->key = KEY_BAD; /* until the section is known to be valid, ignore indented lines */
    if (!close) {
        bad_section(r, "section without ]");
        return;
    }
    *close = '\0';
    close = trim(close + 1);
    if (*close != '\0' && *close != '#' && *close != ';') {
        bad_section(r, "text after ]");
        return;
    }
    name = trim(s + 1);
    space = strpbrk(name, " \t");
    if (space) {
        *space = '\0';
        layer = trim(space + 1);
    }
    for (const char *p = layer ? layer : name; *p != '\0'; p++) {
        if (!is_name_char(*p) || strlen(name) + (layer ? strlen(layer) : 0) > CHARL__INI_NAME) {
            bad_section(r, "section names have at most 40 letters, digits and underscores");
            return;
        }
    }
    r->key = KEY_NONE;
    if (r->st == CHARL_OK) {
        char full[2 * CHARL__INI_NAME + 4];

        snprintf(full, sizeof full, "%s%s%s", name, layer ? " " : "", layer ? layer : "");
        keep(r, r->events->section(r->events->ctx, full, r->line));
    }
}

static void parse_key(reader *r, char *s)
{
    char *equals = strchr(s, '=');
    char *name;

    flush(r);
    r->key = KEY_BAD;
    if (!equals) {
        mistake(r, "expected KEY = VALUE or [SECTION]");
        return;
    }
    *equals = '\0';
    name = trim(s);
    if (*name == '\0' || strlen(name) > CHARL__INI_NAME) {
        mistake(r, *name == '\0' ? "key without a name" : "key longer than 40 characters");
        return;
    }
    for (const char *p = name; *p != '\0'; p++) {
        if (!is_name_char(*p)) {
            mistake(r, "keys have letters, digits and underscores");
            return;
        }
    }
    if (!parse_value(r, trim(equals + 1))) {
        return;
    }
    snprintf(r->key_name, sizeof r->key_name, "%s", name);
    r->key = KEY_OPEN;
    r->key_line = r->line;
}

static bool looks_like_key(const char *s)
{
    const size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_");

    return n > 0 && s[n + strspn(s + n, " \t")] == '=';
}

static void parse_continuation(reader *r, char *s)
{
    if (r->key == KEY_BAD) {
        return;
    }
    if (looks_like_key(s)) {
        mistake(r, "an indented line continues the value above: write keys at the start of the line");
        return;
    }
    if (r->value.length > 0) {
        keep(r, charl__text_append(&r->value, "\n", 1));
    }
    parse_value(r, s);
}

static void parse_line(reader *r)
{
    char *s = trim(r->buffer);

    if (*s == '\0' || *s == '#' || *s == ';') {
        return;
    }
    if (*s == '[') {
        parse_section(r, s);
    } else if (s > r->buffer && r->key != KEY_NONE) {
        parse_continuation(r, s);
    } else {
        parse_key(r, s);
    }
}

charl_status charl__ini_parse(const char *text, size_t length, const charl__ini_events *events)
{
    charl_status st = CHARL_OK;
    reader r = {.events = events, .at = text, .end = text + length};

    CHARL_REQUIRE_CLEANUP(length == 0 || !memchr(text, '\0', length), CHARL_ERR_CONFIG, "not a text file");
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        r.at += 3;
    }
    CHARL_TRY_CLEANUP(charl__alloc(CHARL__INI_LINE + 1, &r.buffer));
    while (r.st == CHARL_OK && next_line(&r)) {
        parse_line(&r);
    }
    flush(&r);
    CHARL_TRY_CLEANUP(r.st);
cleanup:
    charl__text_fini(&r.value);
    charl_free(r.buffer);
    return st;
}
