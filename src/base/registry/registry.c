/* Registries: short lists, searched linearly. */
#include "base/registry/registry.h"

#include <stdatomic.h>
#include <string.h>

#include "base/error.h"
#include "base/registry/key.h"

enum { NAME_BYTES = 40 };

static atomic_bool closed;

void charl__registry_close(void)
{
    atomic_store(&closed, true);
}

const void *charl__registry_at(const charl__registry *r, int i)
{
    int n = 0;

    if (i < 0) {
        return NULL;
    }
    for (; r->built_in[n]; n++) {
        if (n == i) {
            return r->built_in[n];
        }
    }
    return i - n < r->n_added ? r->added[i - n] : NULL;
}

const void *charl__registry_find(const charl__registry *r, const char *name)
{
    const charl_row *row;

    for (int i = 0; name && (row = charl__registry_at(r, i)) != NULL; i++) {
        if (strcmp(row->name, name) == 0) {
            return row;
        }
    }
    return NULL;
}

static bool is_name(const char *s)
{
    const size_t n = s ? strlen(s) : 0;

    return n > 0 && n <= NAME_BYTES && s[0] >= 'a' && s[0] <= 'z' &&
           strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

static size_t size_of(charl_key_kind kind)
{
    switch (kind) {
    case CHARL_KEY_INT:
    case CHARL_KEY_SIZE:
    case CHARL_KEY_STEPS:
        return sizeof(int64_t);
    case CHARL_KEY_PAIR:
        return 2 * sizeof(int64_t);
    case CHARL_KEY_TRIPLE:
        return 3 * sizeof(int64_t);
    case CHARL_KEY_INTS:
        return sizeof(charl_int_list);
    case CHARL_KEY_FLOATS:
        return sizeof(charl_float_list);
    case CHARL_KEY_FLOAT:
        return sizeof(double);
    case CHARL_KEY_BOOL:
        return sizeof(bool);
    case CHARL_KEY_CHOICE:
        return sizeof(int);
    case CHARL_KEY_TEXT:
    case CHARL_KEY_ACTIVATION:
    case CHARL_KEY_LAYER:
        return sizeof(const char *);
    }
    return 0;
}

static charl_status check_key(const char *what, const charl_row *row, int i)
{
    const charl_key *k = &row->keys[i];

    CHARL_REQUIRE(is_name(k->name) && strcmp(k->name, "type") != 0, CHARL_ERR_INVALID,
                  "%s %s: key %d is named \"%s\"; names have lower-case letters, digits and "
                  "underscores, and type is taken",
                  what, row->name, i, k->name ? k->name : "");
    CHARL_REQUIRE(k->help, CHARL_ERR_INVALID, "%s %s: key %s has no help", what, row->name, k->name);
    CHARL_REQUIRE(size_of(k->kind) > 0 && k->offset <= row->settings_size &&
                      size_of(k->kind) <= row->settings_size - k->offset,
                  CHARL_ERR_INVALID, "%s %s: key %s lies outside the settings of %zu bytes", what, row->name, k->name,
                  row->settings_size);
    CHARL_REQUIRE(k->kind != CHARL_KEY_CHOICE || k->choices, CHARL_ERR_INVALID, "%s %s: key %s has no choices", what,
                  row->name, k->name);
    for (int j = 0; j < i; j++) {
        CHARL_REQUIRE(strcmp(row->keys[j].name, k->name) != 0, CHARL_ERR_INVALID, "%s %s: two keys are named %s", what,
                      row->name, k->name);
    }
    return CHARL_OK;
}

charl_status charl__registry_add(charl__registry *r, const charl_row *row)
{
    CHARL_REQUIRE(!atomic_load(&closed), CHARL_ERR_INVALID, "%s %s: register it before the first configuration is read",
                  r->what, row->name ? row->name : "");
    CHARL_REQUIRE(is_name(row->name), CHARL_ERR_INVALID,
                  "an %s is named \"%s\"; names begin with a letter and have at most %d lower-case "
                  "letters, digits and underscores",
                  r->what, row->name ? row->name : "", NAME_BYTES);
    CHARL_REQUIRE(!charl__registry_find(r, row->name), CHARL_ERR_INVALID, "%s %s exists already", r->what, row->name);
    CHARL_REQUIRE(row->help, CHARL_ERR_INVALID, "%s %s has no help", r->what, row->name);
    CHARL_REQUIRE(row->n_keys == 0 || (row->keys && row->defaults), CHARL_ERR_INVALID, "%s %s has keys but no defaults",
                  r->what, row->name);
    for (int i = 0; i < row->n_keys; i++) {
        CHARL_TRY(check_key(r->what, row, i));
    }
    CHARL_REQUIRE(r->n_added < CHARL__REGISTRY_ADDED, CHARL_ERR_INVALID, "%s %s: at most %d can be registered", r->what,
                  row->name, CHARL__REGISTRY_ADDED);
    r->added[r->n_added++] = row;
    return CHARL_OK;
}
