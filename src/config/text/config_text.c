/* Strings, paths and mistakes of a configuration. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/text/utf8.h"
#include "config/config_private.h"

charl_status charl__config_keep(charl__config_strings *list, const char *text, const char **out)
{
    *out = "";
    CHARL_TRY(charl__grow(list->count, sizeof *list->items, &list->items));
    CHARL_TRY(charl__strdup(text, &list->items[list->count]));
    *out = list->items[list->count++];
    return CHARL_OK;
}

void charl__config_strings_fini(charl__config_strings *list)
{
    for (int i = 0; i < list->count; i++) {
        charl_free(list->items[i]);
    }
    charl_free(list->items);
    *list = (charl__config_strings){0};
}

const char *charl__origin_text(charl__origin origin)
{
    static _Thread_local char text[4200];
    char line[16] = "";

    if (origin.line > 0) {
        snprintf(line, sizeof line, ":%d", origin.line);
    }
    snprintf(text, sizeof text, "%s%s", origin.label, line);
    return text;
}

static const char *known_section(const char *section)
{
    if (section && (strncmp(section, "layer ", 6) == 0 || strncmp(section, "block ", 6) == 0 ||
                    strncmp(section, "output ", 7) == 0)) {
        return "layer";
    }
    for (int i = 0; section && i < charl__section_key_count; i++) {
        if (strcmp(charl__section_keys[i].section, section) == 0) {
            return charl__section_keys[i].section;
        }
    }
    return NULL;
}

charl_status charl__mistake_add_text(charl__mistakes *list, charl__origin origin, const char *section, const char *text)
{
    char *copy;

    for (int i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].text, text) == 0) {
            return CHARL_OK;
        }
    }
    CHARL_TRY(charl__grow(list->count, sizeof *list->items, &list->items));
    CHARL_TRY(charl__strdup(text, &copy));
    list->items[list->count] = (charl__mistake){origin, known_section(section), list->count, copy};
    list->count++;
    return CHARL_OK;
}

charl_status charl__mistake_add(charl__mistakes *list, charl__origin origin, const char *section, const char *key,
                                const char *reason)
{
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};

    CHARL_TRY(charl__text_printf(&text, "%s", charl__origin_text(origin)));
    if (section) {
        CHARL_TRY(charl__text_printf(&text, ": [%s]%s%s", section, key ? " " : "", key ? key : ""));
    }
    CHARL_TRY(charl__text_printf(&text, ": %s", reason));
    CHARL_TRY(charl__mistake_add_text(list, origin, section, charl__text_string(&text)));
    return CHARL_OK;
}

bool charl__mistakes_in(const charl__mistakes *list, int n, const char *section)
{
    for (int i = 0; i < n; i++) {
        const char *s = list->items[i].section;

        if (s && section ? strcmp(s, section) == 0 : s == section) {
            return true;
        }
    }
    return false;
}

static int compare_mistakes(const void *a, const void *b)
{
    const charl__mistake *x = a;
    const charl__mistake *y = b;
    const int line_x = x->origin.line > 0 ? x->origin.line : 1 << 30; /* command line last */
    const int line_y = y->origin.line > 0 ? y->origin.line : 1 << 30;

    return line_x != line_y ? line_x - line_y : x->order - y->order;
}

charl_status charl__mistakes_report(charl__mistakes *list)
{
    enum { ROOM = 1900 }; /* an error message has at most 2047 bytes */
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};
    int shown = 0;

    if (list->count == 0) {
        return CHARL_OK;
    }
    qsort(list->items, (size_t)list->count, sizeof *list->items, compare_mistakes);
    for (; shown < list->count; shown++) {
        const char *line = list->items[shown].text;

        if (shown > 0 && text.length + strlen(line) > ROOM) {
            break;
        }
        CHARL_TRY(charl__text_printf(&text, "%s%s", shown > 0 ? "\n" : "", line));
    }
    if (shown < list->count) {
        CHARL_TRY(charl__text_printf(&text, "\nand %d more", list->count - shown));
    }
    CHARL_FAIL(CHARL_ERR_CONFIG, "%s", charl__text_string(&text));
}

void charl__mistakes_fini(charl__mistakes *list)
{
    for (int i = 0; i < list->count; i++) {
        charl_free(list->items[i].text);
    }
    charl_free(list->items);
    *list = (charl__mistakes){0};
}

/* The variable at "${NAME}", *length bytes long; NULL with a reason if it cannot be expanded. */
static const char *variable(const char *at, const char *name, size_t *length, char *why)
{
    const char *close = strchr(at, '}');
    char word[64];
    const char *value = NULL;
    uint32_t point;

    if (!close || close - at > 60) {
        snprintf(why, CHARL__WHY, "\"${\" without \"}\": write $${ for the characters themselves");
        return NULL;
    }
    *length = (size_t)(close - at) + 1;
    snprintf(word, sizeof word, "%.*s", (int)(close - at - 2), at + 2);
    if (strcmp(word, "name") == 0) {
        value = name;
        if (!value) {
            snprintf(why, CHARL__WHY, "${name} stands for this value itself");
        }
    } else {
        value = getenv(word);
        if (!value) {
            snprintf(why, CHARL__WHY, "environment variable %s is not set", word);
        } else if (charl__utf8_find_hidden(value, strlen(value), &point)) {
            snprintf(why, CHARL__WHY, "environment variable %s holds the control or invisible character U+%04X", word,
                     point);
            value = NULL;
        }
    }
    return value;
}

charl_status charl__config_expand(const char *text, const char *name, char **out, char *why)
{
    CHARL_SCOPED(charl__text_fini) charl__text t = {0};

    *out = NULL;
    why[0] = '\0';
    CHARL_TRY(charl__text_append(&t, "", 0));
    for (const char *p = text; *p != '\0';) {
        size_t n = strcspn(p, "$");

        if (n > 0) {
            CHARL_TRY(charl__text_append(&t, p, n));
        } else if (p[1] == '{') {
            const char *value = variable(p, name, &n, why);

            if (!value) {
                break;
            }
            CHARL_TRY(charl__text_append(&t, value, strlen(value)));
        } else {
            CHARL_TRY(charl__text_append(&t, "$", 1));
            n = p[1] == '$' ? 2 : 1;
        }
        p += n;
    }
    CHARL_TRY(charl__strdup(charl__text_string(&t), out));
    return CHARL_OK;
}

/* Whether the last name of a path was a folder, which is then removed. Of a link, ".." is not the folder where the link is. */
static bool drop_last(charl__text *path)
{
    const char *text = charl__text_string(path), *slash = strrchr(text, '/'), *name = slash ? slash + 1 : text;
    struct stat s;

    if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || lstat(text, &s) != 0 ||
        !S_ISDIR(s.st_mode)) {
        return false;
    }
    path->length = slash == text ? 1 : slash ? (size_t)(slash - text) : 0;
    path->data[path->length] = '\0';
    return true;
}

charl_status charl__config_path(const char *directory, const char *path, char **out)
{
    CHARL_SCOPED(charl__text_fini) charl__text t = {0};
    const char *home = getenv("HOME");

    *out = NULL;
    if (path[0] == '~' && path[1] == '/' && home) {
        CHARL_TRY(charl__text_printf(&t, "%s%s", home, path + 1));
    } else if (strcmp(path, ".") == 0 && directory[0] != '\0') {
        CHARL_TRY(charl__text_printf(&t, "%s", directory));
    } else if (path[0] == '/' || path[0] == '\0' || directory[0] == '\0') {
        CHARL_TRY(charl__text_printf(&t, "%s", path));
    } else {
        CHARL_TRY(charl__text_printf(&t, "%s", directory));
        while (strncmp(path, "../", 3) == 0 && path[3] && path[3] != '/' && drop_last(&t)) {
            path += 3;
        }
        CHARL_TRY(charl__text_printf(&t, "%s%s",
                                     t.length == 0 || charl__text_string(&t)[t.length - 1] == '/' ? "" : "/", path));
    }
    CHARL_TRY(charl__strdup(charl__text_string(&t), out));
    return CHARL_OK;
}

charl_status charl__config_quote(const char *value, charl__text *out)
{
    const size_t n = strlen(value);
    const bool quoted = n > 0 && (strpbrk(value, "\"#;\\") || value[0] == ' ' || value[n - 1] == ' ' ||
                                  value[0] == '\t' || value[n - 1] == '\t');

    if (quoted) {
        CHARL_TRY(charl__text_append(out, "\"", 1));
    }
    for (const char *p = value; *p != '\0'; p++) {
        if (quoted && (*p == '"' || *p == '\\')) {
            CHARL_TRY(charl__text_append(out, "\\", 1));
        }
        if (*p == '$' && (p[1] == '{' || p[1] == '$')) {
            CHARL_TRY(charl__text_append(out, "$", 1));
        }
        CHARL_TRY(charl__text_append(out, p, 1));
    }
    if (quoted) {
        CHARL_TRY(charl__text_append(out, "\"", 1));
    }
    return CHARL_OK;
}

charl_status charl_config_quote(const char *value, char **out)
{
    CHARL_GIVEN(value, out);
    CHARL_SCOPED(charl__text_fini) charl__text t = {0};

    *out = NULL;
    CHARL_TRY(charl__config_quote(value, &t));
    return charl__strdup(charl__text_string(&t), out);
}
