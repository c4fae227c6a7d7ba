/* The registry of layouts, and names and shapes by their rows. */
#include "nn/weights_layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/registry/key.h"
#include "base/registry/registry.h"

static charl__registry layouts = {.what = "layout of weights", .built_in = charl__layouts};

const charl__weights_layout *charl__layout_at(int i)
{
    return charl__registry_at(&layouts, i);
}

const charl__weights_layout *charl__layout_chosen(const charl_model_type *type, const void *settings)
{
    const charl_key *k = charl__layout_key(type, "family");
    const char *choices = k ? k->choices : "";
    char name[64] = "";

    const charl__weights_layout *layout;

    for (int i = k ? *(const int *)(const void *)((const char *)settings + k->offset) : -1; i >= 0; i--) {
        charl__choice_next(&choices, name, sizeof name);
    }
    for (int i = 0; (layout = charl__layout_at(i)) != NULL; i++) {
        if (layout->model == type && strcmp(layout->family ? layout->family : layout->row.name, name) == 0) {
            return layout;
        }
    }
    return NULL; /* auto */
}

/* Whether `name` is `pattern` with a number instead of #. */
static bool matches(const char *pattern, const char *name, int64_t *block)
{
    const char *hash = strchr(pattern, '#');
    const size_t before = hash ? (size_t)(hash - pattern) : 0;
    size_t digits;

    *block = -1;
    if (!hash) {
        return strcmp(pattern, name) == 0;
    }
    if (strncmp(pattern, name, before) != 0) {
        return false;
    }
    digits = strspn(name + before, "0123456789");
    if (digits == 0 || digits > 9 || strcmp(hash + 1, name + before + digits) != 0) {
        return false;
    }
    *block = strtoll(name + before, NULL, 10);
    return true;
}

const charl__weights_rule *charl__layout_rule(const charl__weights_layout *layout, const char *name, int64_t *block)
{
    for (int i = 0; i < layout->n_rules; i++) {
        if (matches(layout->rules[i].own, name, block)) {
            return &layout->rules[i];
        }
    }
    *block = -1;
    return NULL;
}

bool charl__layout_expand(const char *pattern, int64_t block, char *text)
{
    const char *hash = strchr(pattern, '#');
    const int n =
        hash ? snprintf(text, CHARL__LAYOUT_NAME, "%.*s%" PRId64 "%s", (int)(hash - pattern), pattern, block, hash + 1)
             : snprintf(text, CHARL__LAYOUT_NAME, "%s", pattern);

    return n >= 0 && n < CHARL__LAYOUT_NAME;
}

charl_shape charl__layout_part_shape(const charl__weights_rule *rule, const void *settings, const charl_shape *shape,
                                     int part)
{
    charl_shape s = *shape;

    if (charl__layout_parts(rule) > 1 && s.ndim > 0) {
        s.dim[0] = rule->rows ? rule->rows(settings, shape->dim[0], part) : shape->dim[0] / charl__layout_parts(rule);
    }
    if (rule->transposed && s.ndim == 2) {
        const int64_t rows = s.dim[0];

        s.dim[0] = s.dim[1];
        s.dim[1] = rows;
    }
    for (int i = 0; i < rule->before + rule->after && s.ndim < CHARL_MAX_DIMS; i++) {
        const int at = i < rule->before ? 0 : s.ndim;

        memmove(&s.dim[at + 1], &s.dim[at], (size_t)(s.ndim - at) * sizeof s.dim[0]);
        s.dim[at] = 1;
        s.ndim++;
    }
    return s;
}

const char *charl__layout_strip(const charl__weights_layout *layout, const char *name)
{
    const size_t n = layout->prefix ? strlen(layout->prefix) : 0;

    return n > 0 && strncmp(name, layout->prefix, n) == 0 ? name + n : name;
}
