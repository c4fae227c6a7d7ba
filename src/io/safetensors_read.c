/* Reading safetensors: everything is checked when the file is opened, tensors are read with pread.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/regular.h"
#include "io/safetensors.h"

struct charl_safetensors {
    char *path;
    int fd;
    int64_t data; /* where the tensors begin */
    charl__safetensors_entry *entries;
    int64_t n;
    charl_data_schema *schema; /* or NULL */
};

static charl_status read_header(charl_safetensors *s, int64_t file_bytes, char **json, int64_t *length)
{
    uint64_t bytes = 0; /* memory is little-endian, as the file */

    CHARL_REQUIRE(charl__regular_read(s->fd, &bytes, 8, 0) == 8, CHARL_ERR_CHECKPOINT,
                  "%s: is too short for a safetensors file", s->path);
    CHARL_REQUIRE(bytes >= 2 && bytes <= CHARL__SAFETENSORS_HEADER && (int64_t)bytes <= file_bytes - 8,
                  CHARL_ERR_CHECKPOINT, "%s: is not a safetensors file: a header of %llu bytes in a file of %lld",
                  s->path, (unsigned long long)bytes, (long long)file_bytes);
    *length = (int64_t)bytes;
    CHARL_TRY(charl_alloc((size_t)bytes, json));
    CHARL_REQUIRE(charl__regular_read(s->fd, *json, *length, 8) == *length, CHARL_ERR_CHECKPOINT,
                  "%s: the header cannot be read", s->path);
    CHARL_REQUIRE((*json)[0] == '{', CHARL_ERR_CHECKPOINT,
                  "%s: is not a safetensors file: the header does not begin with {", s->path);
    return CHARL_OK;
}

static int by_offset(const void *a, const void *b)
{
    const charl__safetensors_entry *x = a, *y = b;

    if (x->begin != y->begin) {
        return x->begin < y->begin ? -1 : 1;
    }
    if (x->end != y->end) {
        return x->end < y->end ? -1 : 1;
    }
    return strcmp(x->tensor.name, y->tensor.name);
}

/* The tensors fill what follows the header: no overlap, no hole, nothing beyond the file. */
static charl_status check_extents(const charl_safetensors *s, int64_t bytes)
{
    int64_t at = 0;

    for (int64_t i = 0; i < s->n; i++) {
        const charl__safetensors_entry *e = &s->entries[i];

        CHARL_REQUIRE(e->end <= bytes, CHARL_ERR_CHECKPOINT,
                      "%s: %s ends at byte %lld of %lld: the file is cut short or damaged", s->path, e->tensor.name,
                      (long long)e->end, (long long)bytes);
        CHARL_REQUIRE(e->begin == at, CHARL_ERR_CHECKPOINT, "%s: %s %s", s->path, e->tensor.name,
                      e->begin < at ? "overlaps another tensor" : "comes after a hole");
        at = e->end;
    }
    CHARL_REQUIRE(at == bytes, CHARL_ERR_CHECKPOINT, "%s: %lld bytes after the last tensor", s->path,
                  (long long)(bytes - at));
    return CHARL_OK;
}

charl_status charl_safetensors_open(const char *path, charl_safetensors **out)
{
    charl_status st = CHARL_OK;
    charl_safetensors *s = NULL;
    char *json = NULL;
    int64_t file_bytes = 0, length = 0;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl_alloc(sizeof *s, &s));
    s->fd = -1;
    CHARL_TRY_CLEANUP(charl_strdup(path, &s->path));
    CHARL_TRY_CLEANUP(charl__regular_open(path, &s->fd, &file_bytes));
    CHARL_TRY_CLEANUP(read_header(s, file_bytes, &json, &length));
    CHARL_TRY_CLEANUP(charl__safetensors_parse(path, json, (size_t)length, &s->entries, &s->n, &s->schema));
    if (s->n > 0) {
        qsort(s->entries, (size_t)s->n, sizeof *s->entries, by_offset);
    }
    s->data = 8 + length;
    CHARL_TRY_CLEANUP(check_extents(s, file_bytes - s->data));
    *out = s;
    s = NULL;
cleanup:
    charl_free(json);
    charl_safetensors_close(s);
    return st;
}

void charl_safetensors_close(charl_safetensors *s)
{
    if (s) {
        charl__regular_close(&s->fd);
        charl__safetensors_free(s->entries, s->n);
        charl_data_schema_destroy(s->schema);
        charl_free(s->path);
        charl_free(s);
    }
}

int64_t charl_safetensors_get_count(const charl_safetensors *s)
{
    return s->n;
}

const charl_data_schema *charl_safetensors_get_schema(const charl_safetensors *s)
{
    return s->schema;
}

const charl_checkpoint_tensor *charl_safetensors_get(const charl_safetensors *s, int64_t index)
{
    return index >= 0 && index < s->n ? &s->entries[index].tensor : NULL;
}

const charl_checkpoint_tensor *charl_safetensors_find(const charl_safetensors *s, const char *name)
{
    for (int64_t i = 0; i < s->n; i++) {
        if (strcmp(s->entries[i].tensor.name, name) == 0) {
            return &s->entries[i].tensor;
        }
    }
    return NULL;
}

charl_status charl_safetensors_read(const charl_safetensors *s, const charl_checkpoint_tensor *t, void *dst)
{
    const charl__safetensors_entry *e = NULL;

    for (int64_t i = 0; i < s->n; i++) {
        e = &s->entries[i].tensor == t ? &s->entries[i] : e;
    }
    CHARL_REQUIRE(e, CHARL_ERR_INVALID, "%s: the tensor is not of this file", s->path);
    CHARL_REQUIRE(charl__regular_read(s->fd, dst, e->end - e->begin, s->data + e->begin) == e->end - e->begin,
                  CHARL_ERR_CHECKPOINT, "%s: %s cannot be read", s->path, e->tensor.name);
    return CHARL_OK;
}
