/* Lists of patterns over names of weights. */
#include "weights/weights_names.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text/text.h"

static const char arrow[] = "->";

/* Strip spaces off both ends of a string that ends at `end`. */
static char *trim(char *s, char *end)
{
    while (s < end && strchr(" \t\n", *s)) {
        s++;
    }
    while (end > s && strchr(" \t\n", end[-1])) {
        end--;
    }
    *end = '\0';
    return s;
}

static charl_status parse(const char *key, const char *text, bool renames, charl__weights_names *out)
{
    int64_t most = 1;
    char *next;

    *out = (charl__weights_names){.key = key};
    for (const char *p = text; p && *p; p++) {
        most += *p == ',' || *p == '\n';
    }
    CHARL_TRY(charl__strdup(text ? text : "", &out->text));
    CHARL_TRY(charl__alloc_array(most, sizeof *out->item, &out->item));
    for (char *p = out->text; p; p = next) {
        char *end = p + strcspn(p, ",\n"), *split;

        next = *end ? end + 1 : NULL;
        p = trim(p, end);
        if (*p == '\0') {
            continue;
        }
        split = renames ? strstr(p, arrow) : NULL;
        CHARL_REQUIRE(!renames || split, CHARL_ERR_CONFIG, "%s: \"%.100s\" is not OLD -> NEW", key, p);
        out->item[out->n] = (charl__weights_name){.pattern = p};
        if (split) {
            out->item[out->n].to = trim(split + strlen(arrow), p + strlen(p));
            out->item[out->n].pattern = trim(p, split);
            CHARL_REQUIRE(strchr(out->item[out->n].pattern, '*') == strrchr(out->item[out->n].pattern, '*') &&
                              strchr(out->item[out->n].to, '*') == strrchr(out->item[out->n].to, '*') &&
                              (strchr(out->item[out->n].pattern, '*') || !strchr(out->item[out->n].to, '*')),
                          CHARL_ERR_CONFIG,
                          "%s: %.100s -> %.100s: a name has one * at most, and the new one only if the old "
                          "one has",
                          key, out->item[out->n].pattern, out->item[out->n].to);
        }
        out->n++;
    }
    return CHARL_OK;
}

charl_status charl__weights_renames_parse(const char *key, const char *text, charl__weights_names *out)
{
    return parse(key, text, true, out);
}

charl_status charl__weights_skips_parse(const char *key, const char *text, charl__weights_names *out)
{
    return parse(key, text, false, out);
}

void charl__weights_names_fini(charl__weights_names *n)
{
    charl_free(n->item);
    charl_free(n->text);
    *n = (charl__weights_names){0};
}

/* The part of `name` that matches *; false: `name` does not match. */
static bool capture(const char *pattern, const char *name, const char **star, size_t *length)
{
    const char *s = strchr(pattern, '*');
    const size_t before = s ? (size_t)(s - pattern) : strlen(pattern);
    const size_t after = s ? strlen(s + 1) : 0, all = strlen(name);

    *star = name + before;
    *length = 0;
    if (!s) {
        return strcmp(pattern, name) == 0;
    }
    if (all < before + after || strncmp(pattern, name, before) != 0 || strcmp(name + all - after, s + 1) != 0) {
        return false;
    }
    *length = all - before - after;
    return true;
}

charl_status charl__weights_rename(charl__weights_names *n, const char *name, char **out)
{
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};
    const char *star;
    size_t length;

    *out = NULL;
    for (int i = 0; i < n->n; i++) {
        charl__weights_name *r = &n->item[i];
        const char *hole = strchr(r->to, '*');

        if (!capture(r->pattern, name, &star, &length)) {
            continue;
        }
        r->used = true;
        CHARL_TRY(charl__text_append(&text, r->to, hole ? (size_t)(hole - r->to) : strlen(r->to)));
        if (hole) {
            CHARL_TRY(charl__text_append(&text, star, length));
            CHARL_TRY(charl__text_append(&text, hole + 1, strlen(hole + 1)));
        }
        CHARL_REQUIRE(text.length > 0, CHARL_ERR_CONFIG, "%s: the new name of %s is empty", n->key, name);
        *out = charl__text_steal(&text);
        return CHARL_OK;
    }
    CHARL_TRY(charl__strdup(name, out));
    return CHARL_OK;
}

bool charl__weights_skipped(charl__weights_names *n, const char *name)
{
    bool skipped = false;

    for (int i = 0; i < n->n; i++) {
        if (charl__text_matches(n->item[i].pattern, name)) {
            n->item[i].used = skipped = true;
        }
    }
    return skipped;
}

charl_status charl__weights_names_check(const charl__weights_names *n, const char *path)
{
    for (int i = 0; i < n->n; i++) {
        CHARL_REQUIRE(n->item[i].used, CHARL_ERR_CONFIG, "%s: %s matches nothing in the model or %s", n->key,
                      n->item[i].pattern, path);
    }
    return CHARL_OK;
}
