#ifndef CHARL_TESTS_IMPORTS_H
#define CHARL_TESTS_IMPORTS_H
/** Imports as tests write them:
 *
 *      charl_import("csv", WITH("label=kind", given("missing", missing)), FILES(path), 1, out, &replace)
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include <charl/image.h>
#include <charl/import.h>

/** Settings of an importer; those that are NULL are left out. */
#define WITH(...)                                                                                                      \
    settings_of((const char *[]){__VA_ARGS__, NULL}, sizeof(const char *[]){__VA_ARGS__, NULL} / sizeof(char *))
#define FILES(...) ((const char *const[]){__VA_ARGS__})

static inline const char *const *settings_of(const char **list, size_t n)
{
    size_t k = 0;

    for (size_t i = 0; i < n; i++) {
        if (list[i]) {
            list[k++] = list[i];
        }
    }
    list[k] = NULL;
    return list;
}

/** "KEY=VALUE"; the last sixteen stay. NULL where the value is NULL. */
static inline const char *given(const char *key, const char *value)
{
    static char text[16][4200];
    static int last;

    if (!value) {
        return NULL;
    }
    last = (last + 1) % 16;
    snprintf(text[last], sizeof text[last], "%s=%s", key, value);
    return text[last];
}

/** The same of a number, NULL where it is 0. */
static inline const char *number(const char *key, int64_t value)
{
    char digits[32];

    snprintf(digits, sizeof digits, "%" PRId64, value);
    return value ? given(key, digits) : NULL;
}

/** Folders of images, of which the second may be NULL. extra: one more setting, or NULL. */
static inline charl_status import_images(const char *const folders[2], const charl_image_format *f, const char *extra,
                                         const char *out, const charl_import_options *opt)
{
    char size[64];

    snprintf(size, sizeof size, "%" PRId64 "x%" PRId64, f->height, f->width);
    return charl_import(
        "images",
        WITH(given("size", size), number("channels", f->channels), given("fit", charl_image_fit_name(f->fit)), extra),
        folders, folders[1] ? 2 : 1, out, opt);
}

/** A pair of IDX files, and another one unless images[1] is NULL. */
static inline charl_status import_idx(const char *const images[2], const char *const labels[2], const char *out,
                                      const charl_import_options *opt)
{
    return charl_import("idx", NULL, FILES(images[0], labels[0], images[1], labels[1]), images[1] ? 4 : 2, out, opt);
}

#endif
