/* Lists of names: one text, with one name per line. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "charl/data_schema.h"
#include "io/schema.h"

enum { SHOWN = 8, SHOWN_BYTES = 60 };

typedef struct name {
    const char *text;
    size_t length;
    int64_t index;
} name;

/* The name at *at, which advances to the next one: NULL after the last. False if there is none. */
static bool next_name(const char **at, name *out)
{
    const char *text = *at;

    if (!text) {
        return false;
    }
    out->text = text;
    out->length = strcspn(text, "\n");
    *at = text[out->length] ? text + out->length + 1 : NULL;
    return true;
}

/* Start of a list; the empty text contains no name. */
static const char *first_name(const char *names)
{
    return names && names[0] ? names : NULL;
}

int64_t charl_names_count(const char *names)
{
    int64_t n = 0;
    name unused;

    for (const char *at = first_name(names); next_name(&at, &unused);) {
        n++;
    }
    return n;
}

const char *charl_names_get(const char *names, int64_t index, size_t *length)
{
    if (!length) {
        return NULL;
    }
    const char *at = first_name(names);
    name found = {0};

    *length = 0;
    for (int64_t i = 0; i <= index; i++) {
        if (!next_name(&at, &found)) {
            return NULL;
        }
    }
    *length = found.length;
    return found.text;
}

static int by_text(const void *a, const void *b)
{
    const name *x = a, *y = b;
    const size_t shorter = x->length < y->length ? x->length : y->length;
    const int order = memcmp(x->text, y->text, shorter);

    return order ? order : (x->length > y->length) - (x->length < y->length);
}

/* The names of a list in byte order. */
static charl_status sort_names(const char *list, name **out, int64_t *n)
{
    const char *at = first_name(list);
    name *sorted = NULL;

    *n = charl_names_count(list);
    CHARL_TRY(charl__alloc_array(*n + 1, sizeof *sorted, &sorted));
    for (int64_t i = 0; next_name(&at, &sorted[i]); i++) {
        sorted[i].index = i;
    }
    qsort(sorted, (size_t)*n, sizeof *sorted, by_text);
    *out = sorted;
    return CHARL_OK;
}

/* A name for a message, after `n` others. */
static charl_status add_missing(charl__text *text, const name *one, int64_t n)
{
    const int shown = one->length > SHOWN_BYTES ? SHOWN_BYTES : (int)one->length;

    if (n < SHOWN) {
        CHARL_TRY(charl__text_printf(text, "%s\"%.*s\"%s", n ? ", " : "", shown, one->text,
                                     one->length > SHOWN_BYTES ? "..." : ""));
    }
    return CHARL_OK;
}

charl_status charl__names_match(const char *of, const char *in, int64_t **index, char **missing)
{
    CHARL_GIVEN(of, in, index, missing);
    charl_status st = CHARL_OK;
    const char *at = first_name(of);
    charl__text text = {0};
    name *sorted = NULL, one = {0};
    int64_t n, lacking = 0;

    *index = NULL;
    *missing = NULL;
    CHARL_TRY_CLEANUP(sort_names(in, &sorted, &n));
    CHARL_TRY_CLEANUP(charl__alloc_array(charl_names_count(of) + 1, sizeof **index, index));
    for (int64_t i = 0; next_name(&at, &one); i++) {
        const name *found = bsearch(&one, sorted, (size_t)n, sizeof *sorted, by_text);

        (*index)[i] = found ? found->index : -1;
        if (!found) {
            CHARL_TRY_CLEANUP(add_missing(&text, &one, lacking++));
            continue;
        }
        CHARL_REQUIRE_CLEANUP((found == sorted || by_text(found - 1, found) != 0) &&
                                  (found == sorted + n - 1 || by_text(found + 1, found) != 0),
                              CHARL_ERR_DATA, "the name \"%.*s\" is in the list twice",
                              one.length > SHOWN_BYTES ? SHOWN_BYTES : (int)one.length, one.text);
    }
    if (lacking > SHOWN) {
        CHARL_TRY_CLEANUP(charl__text_printf(&text, " and %lld more", (long long)(lacking - SHOWN)));
    }
    *missing = charl__text_steal(&text);
cleanup:
    charl__text_fini(&text);
    charl_free(sorted);
    if (st != CHARL_OK) {
        charl_free(*index);
        *index = NULL;
    }
    return st;
}
