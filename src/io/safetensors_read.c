/* Reading safetensors: everything is checked when a file is opened, tensors are read with pread. A model of several files is opened by
 * its index, or by the folder that holds it. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "io/commit.h"
#include "io/kind.h"
#include "io/regular.h"
#include "io/safetensors.h"
#include "io/scoped.h"

static const char index_name[] = "model.safetensors.index.json", file_name[] = "model.safetensors";

/* One file. */
typedef struct shard {
    char *path;
    int fd;
    int64_t data; /* where the tensors begin */
    charl__safetensors_entry *entries;
    int64_t n;
} shard;

typedef struct found {
    const charl__safetensors_entry *entry;
    const shard *shard;
} found;

struct charl_safetensors {
    char *path;
    shard *shards;
    int64_t n_shards;
    int64_t n;                      /* of all shards */
    charl__safetensors_entry **all; /* [n] in order */
    found *sorted;                  /* [n] by name */
    charl_data_schema *schema;      /* or NULL */
};

static charl_status read_header(const shard *s, int64_t file_bytes, char **json, int64_t *length)
{
    uint64_t bytes = 0; /* memory is little-endian, as the file */

    CHARL_REQUIRE(charl__regular_read(s->fd, &bytes, 8, 0) == 8, CHARL_ERR_CHECKPOINT,
                  "%s: is too short for a safetensors file", s->path);
    CHARL_REQUIRE(bytes >= 2 && bytes <= CHARL__SAFETENSORS_HEADER && (int64_t)bytes <= file_bytes - 8,
                  CHARL_ERR_CHECKPOINT, "%s: is not a safetensors file: a header of %llu bytes in a file of %lld",
                  s->path, (unsigned long long)bytes, (long long)file_bytes);
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
static charl_status check_extents(const shard *s, int64_t bytes)
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

/* The path of the shard is set. *schema: that of the file, or as it was. */
static charl_status shard_open(shard *s, charl_data_schema **schema)
{
    CHARL_SCOPED_FREE char *json = NULL;
    int64_t file_bytes = 0, length = 0;
    CHARL_SCOPED(charl__schema_left) charl_data_schema *own = NULL;

    s->fd = -1;
    CHARL_TRY(charl__regular_open(s->path, &s->fd, &file_bytes));
    CHARL_TRY(read_header(s, file_bytes, &json, &length));
    CHARL_TRY(charl__safetensors_parse(s->path, json, (size_t)length, &s->entries, &s->n, &own));
    if (s->n > 0) {
        qsort(s->entries, (size_t)s->n, sizeof *s->entries, by_offset);
    }
    s->data = 8 + length;
    CHARL_TRY(check_extents(s, file_bytes - s->data));
    if (!*schema) {
        *schema = own;
        own = NULL;
    }
    return CHARL_OK;
}

/* The name of a shard: a file beside the index. */
static charl_status check_name(const char *index, const char *name)
{
    CHARL_REQUIRE(name[0] && !strchr(name, '/'), CHARL_ERR_CHECKPOINT,
                  "%s: \"%.100s\" is not the name of a file in the same folder", index, name);
    return CHARL_OK;
}

static charl_status add_shard(charl_safetensors *s, const char *dir, const char *name)
{
    s->shards[s->n_shards].fd = -1;
    CHARL_TRY(charl__commit_join(dir, name, &s->shards[s->n_shards].path));
    s->n_shards++;
    return CHARL_OK;
}

static int by_file(const void *a, const void *b)
{
    const charl__safetensors_place *x = *(const charl__safetensors_place *const *)a,
                                   *y = *(const charl__safetensors_place *const *)b;
    const int order = strcmp(x->file, y->file);

    return order ? order : (x > y) - (x < y);
}

/* The files of an index, each once, in the order in which they are first named; of[i] is that of place i. */
static charl_status add_shards(charl_safetensors *s, const char *dir, const charl__safetensors_place *places, int64_t n,
                               int64_t *of)
{
    CHARL_SCOPED_FREE const charl__safetensors_place **sorted = NULL;

    CHARL_TRY(charl__alloc_array(n, sizeof *sorted, &sorted));
    for (int64_t i = 0; i < n; i++) {
        CHARL_TRY(check_name(s->path, places[i].file));
        sorted[i] = &places[i];
    }
    qsort(sorted, (size_t)n, sizeof *sorted, by_file);
    for (int64_t i = 0, first = 0; i < n; i++) { /* the first place of each file, for now */
        if (strcmp(sorted[i]->file, sorted[first]->file) != 0) {
            first = i;
        }
        of[sorted[i] - places] = sorted[first] - places;
    }
    for (int64_t i = 0; i < n; i++) {
        if (of[i] == i) {
            of[i] = s->n_shards;
            CHARL_TRY(add_shard(s, dir, places[i].file));
        } else {
            of[i] = of[of[i]];
        }
    }
    return CHARL_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const found *)a)->entry->tensor.name, ((const found *)b)->entry->tensor.name);
}

/* List the tensors of all shards, in their order and by name. */
static charl_status list(charl_safetensors *s)
{
    int64_t at = 0;

    for (int64_t i = 0; i < s->n_shards; i++) {
        s->n += s->shards[i].n;
    }
    CHARL_TRY(charl__alloc_array(s->n, sizeof *s->all, &s->all));
    CHARL_TRY(charl__alloc_array(s->n, sizeof *s->sorted, &s->sorted));
    for (int64_t i = 0; i < s->n_shards; i++) {
        for (int64_t k = 0; k < s->shards[i].n; k++, at++) {
            s->all[at] = &s->shards[i].entries[k];
            s->sorted[at] = (found){s->all[at], &s->shards[i]};
        }
    }
    qsort(s->sorted, (size_t)s->n, sizeof *s->sorted, by_name);
    for (int64_t i = 1; i < s->n; i++) {
        const found *a = &s->sorted[i - 1], *b = &s->sorted[i];

        CHARL_REQUIRE(by_name(a, b) != 0, CHARL_ERR_CHECKPOINT, "%s: %s is in %s and in %s", s->path,
                      b->entry->tensor.name, a->shard < b->shard ? a->shard->path : b->shard->path,
                      a->shard < b->shard ? b->shard->path : a->shard->path);
    }
    return CHARL_OK;
}

static const found *find(const charl_safetensors *s, const char *name)
{
    const charl__safetensors_entry wanted = {.tensor.name = name};
    const found key = {&wanted, NULL};

    return s->n > 0 ? bsearch(&key, s->sorted, (size_t)s->n, sizeof *s->sorted, by_name) : NULL;
}

static charl_status open_index(charl_safetensors *s)
{
    charl_status st = CHARL_OK;
    charl__safetensors_place *places = NULL;
    int64_t n = 0, *of = NULL;
    char *dir = NULL;

    CHARL_TRY_CLEANUP(charl__safetensors_index(s->path, &places, &n));
    CHARL_REQUIRE_CLEANUP(n > 0, CHARL_ERR_CHECKPOINT, "%s: weight_map is empty", s->path);
    CHARL_TRY_CLEANUP(charl__commit_dir(s->path, &dir));
    CHARL_TRY_CLEANUP(charl__alloc_array(n, sizeof *s->shards, &s->shards));
    CHARL_TRY_CLEANUP(charl__alloc_array(n, sizeof *of, &of));
    CHARL_TRY_CLEANUP(add_shards(s, dir, places, n, of));
    for (int64_t i = 0; i < s->n_shards; i++) {
        CHARL_TRY_CLEANUP(
            charl__error_in(shard_open(&s->shards[i], &s->schema), CHARL_ERR_CHECKPOINT, "%s: ", s->path));
    }
    CHARL_TRY_CLEANUP(list(s));
    for (int64_t i = 0; i < n; i++) {
        const found *f = find(s, places[i].name);

        CHARL_REQUIRE_CLEANUP(f && f->shard == &s->shards[of[i]], CHARL_ERR_CHECKPOINT, "%s: %s is not in %s", s->path,
                              places[i].name, places[i].file);
    }
cleanup:
    charl__safetensors_places_free(places, n);
    charl_free(of);
    charl_free(dir);
    return st;
}

static bool exists(const char *path)
{
    struct stat s;

    return stat(path, &s) == 0;
}

/* A folder stands for the index or the file in it. */
static charl_status resolve(const char *path, char **out)
{
    struct stat s;
    CHARL_SCOPED_FREE char *other = NULL;

    *out = NULL;
    if (charl__ends_in(path, file_name + strlen("model")) || stat(path, &s) != 0 || !S_ISDIR(s.st_mode)) {
        return charl__strdup(path, out);
    }
    CHARL_TRY(charl__commit_join(path, file_name, out));
    if (exists(*out)) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__commit_join(path, index_name, &other));
    CHARL_REQUIRE(exists(other), CHARL_ERR_CHECKPOINT,
                  "%s has neither %s nor %s; HINT weights in other formats, such as "
                  "pytorch_model.bin, must be saved as safetensors first",
                  path, file_name, index_name);
    charl_free(*out);
    *out = other;
    other = NULL;
    return CHARL_OK;
}

charl_status charl_safetensors_open(const char *path, charl_safetensors **out)
{
    CHARL_GIVEN(path, out);
    charl_status st = CHARL_OK;
    charl_safetensors *s = NULL;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *s, &s));
    CHARL_TRY_CLEANUP(resolve(path, &s->path));
    if (charl__ends_in(s->path, ".index.json")) {
        CHARL_TRY_CLEANUP(open_index(s));
    } else {
        CHARL_TRY_CLEANUP(charl__alloc_array(1, sizeof *s->shards, &s->shards));
        s->shards[0].fd = -1;
        s->n_shards = 1;
        CHARL_TRY_CLEANUP(charl__strdup(s->path, &s->shards[0].path));
        CHARL_TRY_CLEANUP(shard_open(&s->shards[0], &s->schema));
        CHARL_TRY_CLEANUP(list(s));
    }
    *out = s;
    s = NULL;
cleanup:
    st = charl__kind_explain(st, path, CHARL__KIND_WEIGHTS, "weights in the safetensors format", CHARL_ERR_CHECKPOINT);
    charl_safetensors_close(s);
    return st;
}

void charl_safetensors_close(charl_safetensors *s)
{
    if (s) {
        for (int64_t i = 0; i < s->n_shards; i++) {
            charl__regular_close(&s->shards[i].fd);
            charl__safetensors_free(s->shards[i].entries, s->shards[i].n);
            charl_free(s->shards[i].path);
        }
        charl_free(s->shards);
        charl_free(s->all);
        charl_free(s->sorted);
        charl_data_schema_destroy(s->schema);
        charl_free(s->path);
        charl_free(s);
    }
}

int64_t charl_safetensors_get_count(const charl_safetensors *s)
{
    return s ? s->n : 0;
}

const charl_data_schema *charl_safetensors_get_schema(const charl_safetensors *s)
{
    return s ? s->schema : NULL;
}

const charl_checkpoint_tensor *charl_safetensors_get(const charl_safetensors *s, int64_t index)
{
    return s && index >= 0 && index < s->n ? &s->all[index]->tensor : NULL;
}

const charl_checkpoint_tensor *charl_safetensors_find(const charl_safetensors *s, const char *name)
{
    const found *f = s && name ? find(s, name) : NULL;

    return f ? &f->entry->tensor : NULL;
}

const char *charl__safetensors_type(const charl_checkpoint_tensor *t)
{
    return ((const charl__safetensors_entry *)(const void *)t)->type;
}

charl_status charl_safetensors_read(const charl_safetensors *s, const charl_checkpoint_tensor *t, void *dst)
{
    CHARL_GIVEN(s, t, dst);
    const found *f = t->name ? find(s, t->name) : NULL;
    int64_t bytes;

    CHARL_REQUIRE(f && &f->entry->tensor == t, CHARL_ERR_INVALID, "%s: the tensor is not of this file", s->path);
    CHARL_REQUIRE(t->dtype < CHARL_DTYPE_COUNT, CHARL_ERR_CHECKPOINT,
                  "%s: %s: element type %s cannot be read; there are F32, F16, BF16, U8, U16, U32, I32, I64",
                  f->shard->path, t->name, f->entry->type);
    bytes = f->entry->end - f->entry->begin;
    CHARL_REQUIRE(charl__regular_read(f->shard->fd, dst, bytes, f->shard->data + f->entry->begin) == bytes,
                  CHARL_ERR_CHECKPOINT, "%s: %s cannot be read", f->shard->path, t->name);
    return CHARL_OK;
}
