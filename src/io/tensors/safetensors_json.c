/* The header of a safetensors file. jansson rejects invalid JSON, nesting beyond its limit, duplicate keys and
 * integers beyond 64 bits. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "io/checkpoint/checkpoint_format.h"
#include "io/regular.h"
#include "io/tensors/safetensors.h"
#include "io/schema.h"

void charl__safetensors_places_free(charl__safetensors_place *places, int64_t n)
{
    for (int64_t i = 0; places && i < n; i++) {
        charl_free(places[i].name);
        charl_free(places[i].file);
    }
    charl_free(places);
}

/* Describes a tensor, for messages. */
typedef struct place {
    const char *path, *name;
} place;

/* A list of counts: *n is their number, of which at most `most` are stored. */
static charl_status parse_counts(const place *at, const char *key, const json_t *v, int64_t *out, int most, int *n)
{
    CHARL_REQUIRE(json_is_array(v) && json_array_size(v) <= (size_t)most, CHARL_ERR_CHECKPOINT,
                  "%s: %s: %s must be a list of at most %d integers", at->path, at->name, key, most);
    *n = (int)json_array_size(v);
    for (int i = 0; i < *n; i++) {
        const json_t *item = json_array_get(v, (size_t)i);

        CHARL_REQUIRE(json_is_integer(item) && json_integer_value(item) >= 0, CHARL_ERR_CHECKPOINT,
                      "%s: %s: %s must hold integers that are not negative", at->path, at->name, key);
        out[i] = json_integer_value(item);
    }
    return CHARL_OK;
}

static charl_status parse_entry(const place *at, const json_t *v, charl__tensor_file_entry *e)
{
    charl_checkpoint_tensor *t = &e->tensor;
    int64_t offsets[2], bytes;
    const char *type = json_string_value(json_object_get(v, "dtype"));
    int n = 0;
    char shape[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(json_is_object(v) && json_object_size(v) == 3 && json_object_get(v, "dtype") &&
                      json_object_get(v, "shape") && json_object_get(v, "data_offsets"),
                  CHARL_ERR_CHECKPOINT, "%s: %s must have dtype, shape and data_offsets and nothing else", at->path,
                  at->name);
    CHARL_REQUIRE(type, CHARL_ERR_CHECKPOINT, "%s: %s: dtype must be a string", at->path, at->name);
    CHARL_REQUIRE(charl__tensor_file_set_type(e, type), CHARL_ERR_CHECKPOINT, "%s: %s: element type %.16s is not known",
                  at->path, at->name, type);
    CHARL_TRY(parse_counts(at, "shape", json_object_get(v, "shape"), t->shape.dim, CHARL_MAX_DIMS, &t->shape.ndim));
    CHARL_TRY(parse_counts(at, "data_offsets", json_object_get(v, "data_offsets"), offsets, 2, &n));
    bytes = charl__tensor_file_bytes(e);
    CHARL_REQUIRE(n == 2 && offsets[0] <= offsets[1] && offsets[1] - offsets[0] == bytes, CHARL_ERR_CHECKPOINT,
                  "%s: %s: data_offsets do not hold %s of %s", at->path, at->name, charl_shape_format(&t->shape, shape),
                  e->type);
    e->begin = offsets[0];
    e->end = offsets[1];
    return CHARL_OK;
}

static charl_status read_metadata(const char *path, const json_t *v, charl_data_schema **schema)
{
    const char *key, *text;
    json_t *value, *root = (json_t *)(uintptr_t)v; /* jansson's loop is not const-correct */

    CHARL_REQUIRE(json_is_object(v), CHARL_ERR_CHECKPOINT, "%s: __metadata__ must be an object", path);
    json_object_foreach(root, key, value)
    {
        CHARL_REQUIRE(json_is_string(value), CHARL_ERR_CHECKPOINT, "%s: __metadata__: %.80s must be a string", path,
                      key);
    }
    text = json_string_value(json_object_get(v, CHARL__SAFETENSORS_SCHEMA));
    if (text) {
        CHARL_TRY(charl__data_schema_parse(path, text, schema));
    }
    return CHARL_OK;
}

static charl_status parse_root(const char *path, json_t *root, charl__tensor_file_entry *entries, int64_t *n,
                               charl_data_schema **schema)
{
    const char *key;
    json_t *value;

    json_object_foreach(root, key, value)
    {
        char *name = NULL;

        if (strcmp(key, "__metadata__") == 0) {
            CHARL_TRY(read_metadata(path, value, schema));
            continue;
        }
        CHARL_TRY(charl__strdup(key, &name));
        entries[*n].tensor.name = name;
        (*n)++; /* from here on the name is released with the entries */
        CHARL_TRY(parse_entry(&(place){path, name}, value, &entries[*n - 1]));
    }
    return CHARL_OK;
}

charl_status charl__safetensors_parse(const char *path, const char *json, size_t bytes, charl__tensor_file_entry **out,
                                      int64_t *n, charl_data_schema **schema)
{
    charl_status st = CHARL_OK;
    charl__tensor_file_entry *entries = NULL;
    json_error_t error;
    json_t *root = json_loadb(json, bytes, JSON_REJECT_DUPLICATES, &error);

    *out = NULL;
    *n = 0;
    *schema = NULL;
    CHARL_REQUIRE_CLEANUP(root, CHARL_ERR_CHECKPOINT, "%s: the header is not JSON: byte %d: %s", path, error.position,
                          error.text);
    CHARL_REQUIRE_CLEANUP(json_is_object(root), CHARL_ERR_CHECKPOINT, "%s: the header is not an object", path);
    CHARL_TRY_CLEANUP(charl__alloc_array((int64_t)json_object_size(root), sizeof *entries, &entries));
    CHARL_TRY_CLEANUP(parse_root(path, root, entries, n, schema));
    *out = entries;
    entries = NULL;
cleanup:
    if (entries) {
        charl__tensor_file_free(entries, *n);
        *n = 0;
        charl_data_schema_destroy(*schema);
        *schema = NULL;
    }
    json_decref(root);
    return st;
}

static charl_status read_places(const char *path, json_t *map, charl__safetensors_place *places, int64_t *n)
{
    const char *name;
    json_t *file;

    json_object_foreach(map, name, file)
    {
        CHARL_REQUIRE(json_is_string(file), CHARL_ERR_CHECKPOINT, "%s: weight_map: %.100s must be the name of a file",
                      path, name);
        (*n)++; /* from here on both names are released with the places */
        CHARL_TRY(charl__strdup(name, &places[*n - 1].name));
        CHARL_TRY(charl__strdup(json_string_value(file), &places[*n - 1].file));
    }
    return CHARL_OK;
}

charl_status charl__safetensors_index(const char *path, charl__safetensors_place **out, int64_t *n)
{
    charl_status st = CHARL_OK;
    charl__safetensors_place *places = NULL;
    int64_t bytes = 0, count = 0;
    json_t *root = NULL, *map;
    json_error_t error;
    char *text = NULL;
    int fd = -1;

    *out = NULL;
    *n = 0;
    CHARL_TRY_CLEANUP(charl__regular_open(path, &fd, &bytes));
    CHARL_REQUIRE_CLEANUP(bytes <= CHARL__SAFETENSORS_HEADER, CHARL_ERR_CHECKPOINT, "%s: is too large for an index",
                          path);
    CHARL_TRY_CLEANUP(charl__alloc((size_t)bytes, &text));
    CHARL_REQUIRE_CLEANUP(charl__regular_read(fd, text, bytes, 0) == bytes, CHARL_ERR_CHECKPOINT, "%s: cannot be read",
                          path);
    root = json_loadb(text, (size_t)bytes, JSON_REJECT_DUPLICATES, &error);
    CHARL_REQUIRE_CLEANUP(root, CHARL_ERR_CHECKPOINT, "%s: is not JSON: line %d: %s", path, error.line, error.text);
    map = json_object_get(root, "weight_map");
    CHARL_REQUIRE_CLEANUP(json_is_object(map), CHARL_ERR_CHECKPOINT, "%s: has no weight_map", path);
    CHARL_TRY_CLEANUP(charl__alloc_array((int64_t)json_object_size(map) + 1, sizeof *places, &places));
    CHARL_TRY_CLEANUP(read_places(path, map, places, &count));
    *out = places;
    *n = count;
    places = NULL;
cleanup:
    charl__safetensors_places_free(places, count);
    charl_free(text);
    charl__regular_close(&fd);
    json_decref(root);
    return st;
}
