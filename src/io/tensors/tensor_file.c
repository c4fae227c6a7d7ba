/* Files of tensors: what each format lists when it is opened is read with pread. A model of several files is opened by its index, or by the
 * folder that holds it. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "io/commit.h"
#include "io/kind.h"
#include "io/regular.h"
#include "io/tensors/safetensors.h"
#include "io/scoped.h"
#include "io/tensors/tensor_file.h"

/* What a folder may hold, the preferred first. */
static const char *const file_names[] = {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                                         "pytorch_model.bin.index.json"};

/* One file. */
typedef struct shard {
    char *path;
    int fd;
    charl__tensor_file_entry *entries;
    int64_t n;
} shard;

typedef struct found {
    const charl__tensor_file_entry *entry;
    const shard *shard;
} found;

struct charl_tensor_file {
    char *path;
    shard *shards;
    int64_t n_shards;
    int64_t n;                      /* of all shards */
    charl__tensor_file_entry **all; /* [n] in order */
    found *sorted;                  /* [n] by name */
    charl_data_schema *schema;      /* or NULL */
    charl__peft *peft;              /* the only shard is a folder of adapters; NULL: it is a file */
};

void charl__tensor_file_free(charl__tensor_file_entry *entries, int64_t n)
{
    for (int64_t i = 0; entries && i < n; i++) {
        char *name;

        memcpy(&name, &entries[i].tensor.name, sizeof name); /* owned, though const to readers */
        charl_free(name);
    }
    charl_free(entries);
}

/* Element types: those that charl has, then others, of `width` bytes. */
bool charl__tensor_file_set_type(charl__tensor_file_entry *e, const char *name)
{
    static const struct {
        const char *name;
        size_t width;
    } others[] = {{"BOOL", 1}, {"I8", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"I16", 2}, {"U64", 8}, {"F64", 8}};

    for (int i = 0; i < CHARL_DTYPE_COUNT; i++) {
        if (strcmp(name, charl__safetensors_dtype((charl_dtype)i)) == 0) {
            e->type = charl__safetensors_dtype((charl_dtype)i);
            e->tensor.dtype = (charl_dtype)i;
            e->width = charl_dtype_size((charl_dtype)i);
            return true;
        }
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strcmp(name, others[i].name) == 0) {
            e->type = others[i].name;
            e->tensor.dtype = CHARL_DTYPE_COUNT;
            e->width = others[i].width;
            return true;
        }
    }
    return false;
}

int64_t charl__tensor_file_bytes(const charl__tensor_file_entry *e)
{
    int64_t bytes = (int64_t)e->width;

    for (int i = 0; i < e->tensor.shape.ndim; i++) {
        if (e->tensor.shape.dim[i] < 0 || __builtin_mul_overflow(bytes, e->tensor.shape.dim[i], &bytes)) {
            return -1;
        }
    }
    return bytes;
}

/* The path of the shard is set. *schema: that of the file, or as it was. */
static charl_status shard_open(shard *s, charl_data_schema **schema)
{
    charl__tensor_file_source source = {.path = s->path};
    CHARL_SCOPED(charl__schema_left) charl_data_schema *own = NULL;
    const charl__kind *kind = charl__kind_of(s->path);
    unsigned char head[2] = {0};
    bool numpy, pytorch;

    s->fd = -1;
    CHARL_TRY(charl__regular_open(s->path, &s->fd, &source.bytes));
    source.fd = s->fd;
    CHARL_REQUIRE(charl__regular_read(s->fd, head, 2, 0) >= 0, CHARL_ERR_CHECKPOINT, "%s: cannot be read", s->path);
    pytorch = (head[0] == 'P' && head[1] == 'K') ||
              (head[0] == 0x80 && head[1] >= 2 && !charl__ends_in(s->path, ".safetensors"));
    numpy = kind && kind->as != ~0U && kind->as & (CHARL__KIND_NPY | CHARL__KIND_NPZ);
    CHARL_TRY((numpy     ? charl__tensor_file_numpy
               : pytorch ? charl__tensor_file_pytorch
                         : charl__tensor_file_safetensors)(&source, &s->entries, &s->n, &own));
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

static charl_status add_shard(charl_tensor_file *s, const char *dir, const char *name)
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
static charl_status add_shards(charl_tensor_file *s, const char *dir, const charl__safetensors_place *places, int64_t n,
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
static charl_status list(charl_tensor_file *s)
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

static const found *find(const charl_tensor_file *s, const char *name)
{
    const charl__tensor_file_entry wanted = {.tensor.name = name};
    const found key = {&wanted, NULL};

    return s->n > 0 ? bsearch(&key, s->sorted, (size_t)s->n, sizeof *s->sorted, by_name) : NULL;
}

static charl_status open_index(charl_tensor_file *s)
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

/* A folder stands for the file or the index in it. */
static charl_status resolve(const char *path, char **out)
{
    struct stat s;

    *out = NULL;
    if (stat(path, &s) != 0 || !S_ISDIR(s.st_mode)) {
        return charl__strdup(path, out);
    }
    CHARL_TRY(charl__commit_join(path, CHARL__PEFT_CONFIG, out));
    for (size_t i = 0; !exists(*out) && i < sizeof file_names / sizeof *file_names; i++) {
        charl_free(*out);
        *out = NULL;
        CHARL_TRY(charl__commit_join(path, file_names[i], out));
    }
    CHARL_REQUIRE(exists(*out), CHARL_ERR_CHECKPOINT, "%s has no weights: none of %s, %s, %s, %s", path, file_names[0],
                  file_names[1], file_names[2], file_names[3]);
    return CHARL_OK;
}

charl_status charl_tensor_file_open(const char *path, charl_tensor_file **out)
{
    CHARL_GIVEN(path, out);
    charl_status st = CHARL_OK;
    charl_tensor_file *s = NULL;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *s, &s));
    CHARL_TRY_CLEANUP(resolve(path, &s->path));
    if (charl__ends_in(s->path, ".index.json")) {
        CHARL_TRY_CLEANUP(open_index(s));
    } else if (charl__ends_in(s->path, "/" CHARL__PEFT_CONFIG)) {
        CHARL_TRY_CLEANUP(charl__alloc_array(1, sizeof *s->shards, &s->shards));
        s->shards[0].fd = -1;
        s->n_shards = 1;
        CHARL_TRY_CLEANUP(charl__commit_dir(s->path, &s->shards[0].path));
        CHARL_TRY_CLEANUP(charl__peft_open(s->shards[0].path, &s->shards[0].entries, &s->shards[0].n, &s->peft));
        CHARL_TRY_CLEANUP(list(s));
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
    st = charl__kind_explain(st, path, CHARL__KIND_WEIGHTS, "weights that charl reads", CHARL_ERR_CHECKPOINT);
    charl_tensor_file_close(s);
    return st;
}

void charl_tensor_file_close(charl_tensor_file *s)
{
    if (s) {
        for (int64_t i = 0; i < s->n_shards; i++) {
            charl__regular_close(&s->shards[i].fd);
            charl__tensor_file_free(s->shards[i].entries, s->shards[i].n);
            charl_free(s->shards[i].path);
        }
        charl_free(s->shards);
        charl_free(s->all);
        charl_free(s->sorted);
        charl_data_schema_destroy(s->schema);
        charl__peft_close(s->peft);
        charl_free(s->path);
        charl_free(s);
    }
}

int64_t charl_tensor_file_get_count(const charl_tensor_file *s)
{
    return s ? s->n : 0;
}

const charl_data_schema *charl_tensor_file_get_schema(const charl_tensor_file *s)
{
    return s ? s->schema : NULL;
}

const charl_checkpoint_tensor *charl_tensor_file_get(const charl_tensor_file *s, int64_t index)
{
    return s && index >= 0 && index < s->n ? &s->all[index]->tensor : NULL;
}

const charl_checkpoint_tensor *charl_tensor_file_find(const charl_tensor_file *s, const char *name)
{
    const found *f = s && name ? find(s, name) : NULL;

    return f ? &f->entry->tensor : NULL;
}

const char *charl__tensor_file_type(const charl_checkpoint_tensor *t)
{
    return ((const charl__tensor_file_entry *)(const void *)t)->type;
}

static charl_status read_bytes(const found *f, void *dst)
{
    const int64_t bytes = f->entry->end - f->entry->begin;

    CHARL_REQUIRE(charl__regular_read(f->shard->fd, dst, bytes, f->entry->begin) == bytes, CHARL_ERR_CHECKPOINT,
                  "%s: %s cannot be read", f->shard->path, f->entry->tensor.name);
    return CHARL_OK;
}

static charl_status read_strided(const found *f, void *dst)
{
    const charl__tensor_file_entry *e = f->entry;
    const charl_shape *shape = &e->tensor.shape;
    const int64_t n = charl_shape_count(shape);
    int64_t index[CHARL_MAX_DIMS] = {0}, at = 0;
    CHARL_SCOPED_FREE char *raw = NULL;

    CHARL_TRY(charl__alloc((size_t)(e->end - e->begin), &raw));
    CHARL_TRY(read_bytes(f, raw));
    for (int64_t i = 0; i < n; i++) {
        memcpy((char *)dst + (size_t)i * e->width, raw + (size_t)at * e->width, e->width);
        for (int k = shape->ndim - 1; k >= 0; k--) {
            at += e->stride[k];
            if (++index[k] < shape->dim[k]) {
                break;
            }
            at -= index[k] * e->stride[k];
            index[k] = 0;
        }
    }
    return CHARL_OK;
}

charl_status charl__tensor_file_read_raw(const charl_tensor_file *s, const charl_checkpoint_tensor *t, void *dst)
{
    const found *f = t->name ? find(s, t->name) : NULL;

    CHARL_REQUIRE(f && &f->entry->tensor == t, CHARL_ERR_INVALID, "%s: the tensor is not of this file", s->path);
    return s->peft             ? charl__peft_read(s->peft, f->entry - s->shards[0].entries, dst)
           : f->entry->strided ? read_strided(f, dst)
                               : read_bytes(f, dst);
}

charl_status charl_tensor_file_read(const charl_tensor_file *s, const charl_checkpoint_tensor *t, void *dst)
{
    CHARL_GIVEN(s, t, dst);
    CHARL_REQUIRE(t->dtype < CHARL_DTYPE_COUNT, CHARL_ERR_CHECKPOINT,
                  "%s: %s: element type %s cannot be read; there are F32, F16, BF16, U8, U16, U32, I32, I64", s->path,
                  t->name, charl__tensor_file_type(t));
    return charl__tensor_file_read_raw(s, t, dst);
}
