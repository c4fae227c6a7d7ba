#include "io/dataset/labels.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* The first place whose value is not below `label`. */
static int64_t lower_bound(const charl__labels *l, int64_t n, int64_t label)
{
    int64_t first = 0;

    while (first < n) {
        const int64_t half = first + (n - first) / 2;

        if (l->value[half] < label) {
            first = half + 1;
        } else {
            n = half;
        }
    }
    return first;
}

charl_status charl__labels_add(charl__labels *l, int64_t label)
{
    int64_t at;

    l->most = label >= l->most ? label + 1 : l->most;
    if (label < CHARL__LABELS_FEW) {
        unsigned char *byte = &l->few[label / 8];
        const unsigned char bit = (unsigned char)(1U << label % 8);

        l->n += (*byte & bit) == 0;
        *byte |= bit;
        return CHARL_OK;
    }
    at = lower_bound(l, l->n_large, label);
    if (at < l->n_large && l->value[at] == label) {
        return CHARL_OK;
    }
    if (l->n_large == CHARL__LABELS_MOST) {
        l->overflows = true;
        return CHARL_OK;
    }
    CHARL_TRY(charl__grow(l->n_large, sizeof *l->value, &l->value));
    memmove(l->value + at + 1, l->value + at, (size_t)(l->n_large - at) * sizeof *l->value);
    l->value[at] = label;
    l->n_large++;
    l->n++;
    return CHARL_OK;
}

charl_status charl__labels_decide(charl__labels *l)
{
    const int64_t few = l->n - l->n_large;
    int64_t *value = NULL, n = 0;

    CHARL_TRY(charl__alloc_array(l->n + 1, sizeof *value, &value));
    for (int64_t v = 0; v < CHARL__LABELS_FEW && n < few; v++) {
        if (l->few[v / 8] & 1U << v % 8) {
            value[n++] = v;
        }
    }
    if (l->n_large > 0) {
        memcpy(value + n, l->value, (size_t)l->n_large * sizeof *value);
    }
    charl_free(l->value);
    l->value = value;
    /* Among very many classes all small numbers occur. */
    l->are_names =
        l->n > 0 && (l->overflows ? few < CHARL__LABELS_FEW / 2 : value[0] > 1 || l->most > l->n + l->n / 2 + 1);
    return CHARL_OK;
}

charl_status charl__labels_check(const charl__labels *l, const char *path, const char *name)
{
    CHARL_REQUIRE(
        !l->are_names || l->n <= CHARL__MOST_NUMERIC_CLASSES, CHARL_ERR_DATA,
        "%s: %s has %" PRId64 "%s different labels from %" PRId64 " to %" PRId64 ", too many and too far apart for "
        "classes; HINT store numbers that a model is to predict as floats (y.astype('float32')), or number the "
        "classes from 0 on",
        path, name, l->n, l->overflows ? " or more" : "", l->value[0], l->most - 1);
    return CHARL_OK;
}

int64_t charl__labels_find(const charl__labels *l, int64_t label)
{
    const int64_t at = lower_bound(l, l->n, label);

    return at < l->n && l->value[at] == label ? at : -1;
}

charl_status charl__labels_list(const charl__labels *l, charl__text *out)
{
    for (int64_t i = 0; i < l->n; i++) {
        CHARL_TRY(charl__text_printf(out, "%s%" PRId64, i > 0 ? "\n" : "", l->value[i]));
    }
    return CHARL_OK;
}

void charl__labels_fini(charl__labels *l)
{
    charl_free(l->value);
    *l = (charl__labels){0};
}

int32_t charl__parse_class(const char *label, int32_t end)
{
    const size_t length = strlen(label);
    long class;

    if (length < 1 || length > 10 || strspn(label, "0123456789") != length || (label[0] == '0' && length > 1)) {
        return -1;
    }
    class = strtol(label, NULL, 10);
    return class < end ? (int32_t) class : -1;
}
