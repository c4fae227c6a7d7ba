/* Locations of values in configuration files. */
#include "config/config_place.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "config/config_private.h"

/* Whether a comment follows the value on its line of the file. */
static bool has_comment(const charl__config_detail *d, int line)
{
    const char *at = d->source, *end = d->source + d->source_length;
    bool has_value = false;

    for (int i = 1; i < line && at && at < end; i++) {
        at = memchr(at, '\n', (size_t)(end - at));
        at = at ? at + 1 : NULL;
    }
    for (; at && at + 1 < end && *at != '\n' && *at != '"'; at++) {
        has_value = has_value || *at == '=';
        if (has_value && (at[0] == ' ' || at[0] == '\t') && (at[1] == '#' || at[1] == ';')) {
            return true;
        }
    }
    return false;
}

static void put_place(const charl__origin *o, const char *text)
{
    char line[16] = "";

    if (o->line > 0) {
        snprintf(line, sizeof line, ":%d", o->line);
    }
    charl__error_prefix("%s%s: %s", o->label, line, text);
}

void charl__config_blame(const charl_config *cfg, const char *section, const char *key)
{
    const charl__schema *schema = charl__config_schema();
    const charl__config_detail *d = cfg->detail;

    for (int i = 0; i < schema->count; i++) {
        const charl__key *k = &schema->keys[i];

        if (strcmp(k->section, section) == 0 && strcmp(k->name, key) == 0 && d->origins[i].label) {
            const charl__origin *o = &d->origins[i];
            char name[128];

            if (o->line > 0 && has_comment(d, o->line) && !strstr(charl_error_message(), "HINT")) {
                charl__error_append("; HINT the value ends where a comment begins: quote it if # or ; belongs to it");
            }
            snprintf(name, sizeof name, "[%s] %s: ", section, key);
            put_place(o, name);
            return;
        }
    }
}

/* Whether the text begins with the name of a key, "train.epochs" or "[train] epochs", and not with a longer one. */
static bool begins_with(const char *text, const charl__key *k)
{
    const bool brackets = text[0] == '[';
    char name[128];
    const size_t n = (size_t)snprintf(name, sizeof name, "%s%s%s%s", brackets ? "[" : "", k->section,
                                      brackets ? "] " : ".", k->name);

    return strncmp(text, name, n) == 0 && strspn(text + n, "abcdefghijklmnopqrstuvwxyz0123456789_") == 0;
}

void charl__config_locate(const charl_config *cfg)
{
    const charl__schema *schema = charl__config_schema();
    const charl__config_detail *d = cfg->detail;
    const char *message = charl_error_message();

    for (int i = 0; i < schema->count; i++) {
        if (d->origins[i].label && begins_with(message, &schema->keys[i])) {
            put_place(&d->origins[i], "");
            return;
        }
    }
}

charl_status charl__config_name_option(charl_status st, const char *section)
{
    char name[64];

    snprintf(name, sizeof name, "%.*s", (int)strspn(charl_error_message(), "abcdefghijklmnopqrstuvwxyz0123456789_"),
             charl_error_message());
    if (st != CHARL_OK && charl__key_find(section, name, NULL)) {
        charl__error_prefix("%s.", section);
    }
    return st;
}
