/* Reads config.json by the rows of nn/layout_*.c: which settings exist, their names here, and the values that charl supports. */
#include "config/model/config_from.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/registry/key.h"
#include "base/text/text.h"

#include "files/json.h"
#include "io/kind.h"
#include "nn/weights_layout.h"

enum { WORD = 64 };

typedef struct reader {
    const char *label;
    const charl__json *root;
    charl__config_setting set;
    void *ctx;
    const charl__weights_setting *first; /* the first setting of an object, and the value of its key */
    char kind[WORD];
} reader;

/* The first of "a|b.c" that exists, and *name, where it begins; *found: there is one. A value inside an object, such as b.c, takes precedence over
 * a value beside it, as in transformers. */
static charl_status first_member(const reader *r, const char *names, charl__text *out, const char **name, bool *found)
{
    *found = false;
    *name = names;
    for (int beside = 0; beside < 2; beside++) {
        for (const char *p = names; *p;) {
            const size_t n = strcspn(p, "|");

            if ((memchr(p, '.', n) == NULL) == beside) {
                CHARL_TRY(charl__json_get(r->root, p, n, out, found));
            }
            if (*found) {
                *name = p;
                return CHARL_OK;
            }
            p += n + (p[n] == '|');
        }
    }
    return CHARL_OK;
}

/* charl's word for `value` by "THEIRS=OWN|..."; false: there is none. */
static bool translate(const char *values, const char *value, char own[WORD])
{
    for (const char *p = values; *p;) {
        const size_t n = strcspn(p, "|"), theirs = strcspn(p, "=|");

        if (strlen(value) == theirs && strncmp(p, value, theirs) == 0) {
            const size_t skip = p[theirs] == '=' ? theirs + 1 : 0;

            if (n - skip >= WORD) {
                return false;
            }
            memcpy(own, p + skip, n - skip);
            own[n - skip] = '\0';
            return true;
        }
        p += n + (p[n] == '|');
    }
    return false;
}

/* "a, b": the values of "a=x|b=y" that a file may have. */
static charl_status list_values(const char *values, charl__text *out)
{
    for (const char *p = values; *p;) {
        const size_t n = strcspn(p, "|");

        CHARL_TRY(charl__text_printf(out, "%s%.*s", p == values ? "" : ", ", (int)strcspn(p, "=|"), p));
        p += n + (p[n] == '|');
    }
    return CHARL_OK;
}

/* The N of a list "u, u, o, u, u, o, ..." by "USUAL|OTHER", or `value` itself; -1: it is no such list. */
static int64_t period_of(const char *every, const char *value)
{
    const char *const other = strchr(every, '|') + 1;
    const size_t usual_bytes = (size_t)(other - 1 - every);
    int64_t i = 0, n = 0;

    if (!strchr(value, ',') && strspn(value, "0123456789") == strlen(value) && strlen(value) < 6 && *value) {
        return strtoll(value, NULL, 10);
    }
    while (*value) {
        const size_t length = strcspn(value, ",");
        const bool is_other = length == strlen(other) && strncmp(value, other, length) == 0;

        i++;
        n = is_other && n == 0 ? i : n;
        if ((!is_other && (length != usual_bytes || strncmp(value, every, length) != 0)) ||
            is_other != (n > 0 && i % n == 0)) {
            return -1;
        }
        value += length;
        value += strspn(value, ", ");
    }
    return n;
}

/* Whether the value of the object's first setting excludes s. */
static bool is_excluded(reader *r, const charl__weights_setting *s)
{
    const size_t object = charl__layout_object(s);

    if (!r->first || object != charl__layout_object(r->first) ||
        (object > 0 && strncmp(s->theirs, r->first->theirs, object) != 0)) {
        r->first = s;
        r->kind[0] = '\0';
    }
    return s->only && charl__choice_index(s->only, r->kind) < 0;
}

static charl_status read_setting(reader *r, const charl__weights_setting *s)
{
    CHARL_SCOPED(charl__text_fini) charl__text text = {0}, list = {0};
    char own[WORD];
    int64_t period;
    const char *value = s->absent, *name = s->theirs;
    bool found = false;

    if ((!s->theirs && !s->absent) || is_excluded(r, s)) {
        return CHARL_OK;
    }
    if (s->theirs) {
        CHARL_TRY(first_member(r, s->theirs, &text, &name, &found));
        value = found ? charl__text_string(&text) : s->null && text.length > 0 ? s->null : s->absent;
    }
    CHARL_REQUIRE(value, CHARL_ERR_CONFIG, "%s: %.*s is missing", r->label, (int)strcspn(name, "|"), name);
    if (s->values && (found || !s->own)) {
        if (!translate(s->values, value, own)) {
            CHARL_TRY(list_values(s->values, &list));
            CHARL_FAIL(CHARL_ERR_CONFIG, "%s: %.*s = %.60s is not supported; charl has %s", r->label,
                       (int)strcspn(name, "|"), name, value, charl__text_string(&list));
        }
        value = own;
    }
    if (s->every && found) {
        period = period_of(s->every, value);
        CHARL_REQUIRE(period >= 0, CHARL_ERR_CONFIG,
                      "%s: %.*s = %.200s is not supported; charl has a list of %.*s, with %s in every Nth place",
                      r->label, (int)strcspn(name, "|"), name, value, (int)strcspn(s->every, "|"), s->every,
                      strchr(s->every, '|') + 1);
        snprintf(own, sizeof own, "%lld", (long long)period);
        value = own;
    }
    if (r->first == s) {
        snprintf(r->kind, sizeof r->kind, "%s", value);
    }
    if (s->own) {
        CHARL_TRY(r->set(r->ctx, s->own, value, r->label));
    }
    return CHARL_OK;
}

static charl_status no_layout(const char *label, const char *type)
{
    const charl__weights_layout *layout;
    CHARL_SCOPED(charl__text_fini) charl__text list = {0};

    for (int i = 0; (layout = charl__layout_at(i)) != NULL; i++) {
        if (layout->model_type) {
            CHARL_TRY(charl__text_printf(&list, "%s%s", list.length ? ", " : "", layout->model_type));
        }
    }
    CHARL_FAIL(CHARL_ERR_CONFIG, "%s: model_type = %.60s is not supported; charl has %s", label, type,
               charl__text_string(&list));
}

static charl_status read_settings(reader *r, const char *type)
{
    static const charl__weights_setting of_all = {
        .theirs = "quantization_config.quant_method|quantization_config", .values = "none", .absent = "none"};
    const charl__weights_layout *layout;

    for (int i = 0; (layout = charl__layout_at(i)) != NULL; i++) {
        if (layout->model_type && strcmp(layout->model_type, type) == 0) {
            CHARL_TRY(r->set(r->ctx, "type", layout->model->row.name, r->label));
            CHARL_TRY(r->set(r->ctx, "family", layout->row.name, r->label));
            CHARL_TRY(read_setting(r, &of_all));
            for (int k = 0; k < layout->n_settings; k++) {
                CHARL_TRY(read_setting(r, &layout->settings[k]));
            }
            return CHARL_OK;
        }
    }
    return no_layout(r->label, type);
}

charl_status charl__config_read_model(const char *path, charl__config_setting set, void *ctx)
{
    static const char key[] = "model_type";
    CHARL_SCOPED(charl__text_fini) charl__text label = {0}, type = {0};
    CHARL_SCOPED(charl__json_left) charl__json *root = NULL;
    bool found;

    CHARL_TRY(charl__kind_expect(path, CHARL__KIND_MODEL | CHARL__KIND_FOLDER, "a published model", CHARL_ERR_CONFIG));
    CHARL_TRY(charl__text_printf(&label, charl__ends_in(path, ".json") ? "%s" : "%s/config.json", path));
    CHARL_TRY(charl__json_open(charl__text_string(&label), &root));
    CHARL_TRY(charl__json_get(root, key, strlen(key), &type, &found));
    CHARL_REQUIRE(found, CHARL_ERR_CONFIG, "%s: %s is missing", charl__text_string(&label), key);
    CHARL_TRY(read_settings(&(reader){.label = charl__text_string(&label), .root = root, .set = set, .ctx = ctx},
                            charl__text_string(&type)));
    return CHARL_OK;
}
