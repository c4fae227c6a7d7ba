/* Reading safetensors: everything but the values is checked. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/regular.h"
#include "io/tensors/safetensors.h"

static charl_status read_header(const charl__tensor_file_source *s, char **json, int64_t *length)
{
    uint64_t bytes = 0; /* memory is little-endian, like the file */

    CHARL_REQUIRE(charl__regular_read(s->fd, &bytes, 8, 0) == 8, CHARL_ERR_CHECKPOINT,
                  "%s: is too short for a safetensors file", s->path);
    CHARL_REQUIRE(bytes >= 2 && bytes <= CHARL__SAFETENSORS_HEADER && (int64_t)bytes <= s->bytes - 8,
                  CHARL_ERR_CHECKPOINT, "%s: is not a safetensors file: a header of %llu bytes in a file of %lld",
                  s->path, (unsigned long long)bytes, (long long)s->bytes);
    *length = (int64_t)bytes;
    CHARL_TRY(charl__alloc((size_t)bytes, json));
    CHARL_REQUIRE(charl__regular_read(s->fd, *json, *length, 8) == *length, CHARL_ERR_CHECKPOINT,
                  "%s: the header cannot be read", s->path);
    CHARL_REQUIRE((*json)[0] == '{', CHARL_ERR_CHECKPOINT,
                  "%s: is not a safetensors file: the header does not begin with {", s->path);
    return CHARL_OK;
}

static int by_offset(const void *a, const void *b)
{
    const charl__tensor_file_entry *x = a, *y = b;

    if (x->begin != y->begin) {
        return x->begin < y->begin ? -1 : 1;
    }
    if (x->end != y->end) {
        return x->end < y->end ? -1 : 1;
    }
    return strcmp(x->tensor.name, y->tensor.name);
}

/* The tensors must fill the rest of the file after the header: no overlap, no gap, nothing beyond its end. */
static charl_status check_extents(const charl__tensor_file_source *s, int64_t begin,
                                  const charl__tensor_file_entry *all, int64_t n)
{
    int64_t at = begin;

    for (int64_t i = 0; i < n; i++) {
        const charl__tensor_file_entry *e = &all[i];

        CHARL_REQUIRE(e->begin == at, CHARL_ERR_CHECKPOINT, "%s: %s %s", s->path, e->tensor.name,
                      e->begin < at ? "overlaps another tensor" : "comes after a hole");
        at = e->end;
    }
    CHARL_REQUIRE(at == s->bytes, CHARL_ERR_CHECKPOINT, "%s: %lld bytes after the last tensor", s->path,
                  (long long)(s->bytes - at));
    return CHARL_OK;
}

charl_status charl__tensor_file_safetensors(const charl__tensor_file_source *s, charl__tensor_file_entry **entries,
                                            int64_t *n, charl_data_schema **schema)
{
    charl_status st = CHARL_OK;
    charl__tensor_file_entry *all = NULL;
    char *json = NULL;
    int64_t length = 0, count = 0;

    *entries = NULL;
    *n = 0;
    *schema = NULL;
    CHARL_TRY_CLEANUP(read_header(s, &json, &length));
    CHARL_TRY_CLEANUP(charl__safetensors_parse(s->path, json, (size_t)length, &all, &count, schema));
    for (int64_t i = 0; i < count; i++) {
        CHARL_REQUIRE_CLEANUP(all[i].end <= s->bytes - 8 - length, CHARL_ERR_CHECKPOINT,
                              "%s: %s ends at byte %lld of %lld: the file is cut short or damaged", s->path,
                              all[i].tensor.name, (long long)all[i].end, (long long)(s->bytes - 8 - length));
        all[i].begin += 8 + length;
        all[i].end += 8 + length;
    }
    if (count > 0) {
        qsort(all, (size_t)count, sizeof *all, by_offset);
    }
    CHARL_TRY_CLEANUP(check_extents(s, 8 + length, all, count));
    *entries = all;
    *n = count;
    all = NULL;
cleanup:
    if (st != CHARL_OK) {
        charl_data_schema_destroy(*schema);
        *schema = NULL;
    }
    charl__tensor_file_free(all, count);
    charl_free(json);
    return st;
}
