/* JSON files of settings. */
#include "files/json.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/error.h"

enum { NAME_BYTES = 64 };

charl_status charl__json_open(const char *path, charl__json **out)
{
    json_error_t error;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);

    *out = NULL;
    CHARL_REQUIRE(root || json_error_code(&error) != json_error_cannot_open_file, CHARL_ERR_CONFIG,
                  "%s: cannot be opened: %s", path, strerror(errno));
    CHARL_REQUIRE(root, CHARL_ERR_CONFIG, "%s: line %d: %s", path, error.line, error.text);
    if (!json_is_object(root)) {
        json_decref(root);
        CHARL_FAIL(CHARL_ERR_CONFIG, "%s is not a JSON object", path);
    }
    *out = (charl__json *)root;
    return CHARL_OK;
}

void charl__json_close(charl__json *j)
{
    json_decref((json_t *)j);
}

static const json_t *member(const json_t *at, const char *name, size_t length)
{
    const char *end = name + length;

    while (at && name < end) {
        const char *dot = memchr(name, '.', (size_t)(end - name));
        const size_t n = dot ? (size_t)(dot - name) : (size_t)(end - name);
        char key[NAME_BYTES];

        if (n >= sizeof key) {
            return NULL;
        }
        memcpy(key, name, n);
        key[n] = '\0';
        at = json_object_get(at, key);
        name += n + (dot != NULL);
    }
    return at;
}

static charl_status put(const json_t *v, charl__text *out)
{
    if (json_is_null(v)) {
        return charl__text_printf(out, "null");
    }
    if (json_is_string(v)) {
        return charl__text_printf(out, "%s", json_string_value(v));
    }
    if (json_is_boolean(v)) {
        return charl__text_printf(out, "%s", json_is_true(v) ? "yes" : "no");
    }
    if (json_is_integer(v)) {
        return charl__text_printf(out, "%lld", (long long)json_integer_value(v));
    }
    if (json_is_real(v)) {
        return charl__text_json_number(out, json_real_value(v));
    }
    if (json_is_object(v)) {
        return charl__text_printf(out, "an object");
    }
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *item = json_array_get(v, i);

        CHARL_TRY(charl__text_printf(out, "%s", i > 0 ? ", " : ""));
        CHARL_TRY(json_is_array(item) ? charl__text_printf(out, "a list") : put(item, out));
    }
    return json_array_size(v) > 0 ? CHARL_OK : charl__text_printf(out, "an empty list");
}

charl_status charl__json_get(const charl__json *j, const char *name, size_t length, charl__text *out, bool *found)
{
    const json_t *v = member((const json_t *)j, name, length);

    charl__text_clear(out);
    *found = v && !json_is_null(v);
    return v ? put(v, out) : CHARL_OK;
}
