/* Reading a checkpoint. HDF5 is needed only to find things: the layout (checkpoint_layout.c) says
 * where each tensor lies, HDF5 is closed, and tensors are read with pread on the descriptor that
 * was opened first.
 */
#include "io/checkpoint/checkpoint_read.h"

#include <string.h>

#include "base/alloc.h"
#include "base/numeric/hash.h"
#include "base/text/text.h"
#include "io/checkpoint/checkpoint_layout.h"
#include "io/checkpoint/checkpoint_schema.h"
#include "io/kind.h"
#include "io/regular.h"
#include "io/scoped.h"

struct charl_checkpoint_reader {
    char *path;
    int fd; /* -1: none */
    charl__ckpt_layout layout;
    char *config[2]; /* text, resolved */
    charl__checkpoint_base base;
    charl_data_schema *schema; /* NULL: none */
};

/* Piece i of an entry, of which the values in the file itself are the only one; where they are. */
static charl__ckpt_piece piece_of(const charl_checkpoint_reader *r, const charl__ckpt_entry *e, int64_t i,
                                  const char **path, int *fd)
{
    const bool in_parts = e->n_pieces > 0;
    const charl__ckpt_part *part = in_parts ? &r->layout.parts.part[e->piece[i].part] : NULL;

    *path = part ? part->path : r->path;
    *fd = part ? part->fd : r->fd;
    return in_parts ? e->piece[i]
                    : (charl__ckpt_piece){.count = charl_shape_count(&e->tensor.shape),
                                          .crc32c = e->tensor.crc32c,
                                          .offset = e->offset};
}

/* Read entry e in blocks, into dst or through block, and compare the checksums. */
static charl_status read_checked(const charl_checkpoint_reader *r, const charl__ckpt_entry *e, void *dst, void *block)
{
    const int64_t size = (int64_t)charl_dtype_size(e->tensor.dtype);

    for (int64_t i = 0; i == 0 || i < e->n_pieces; i++) {
        const char *path;
        int fd;
        const charl__ckpt_piece p = piece_of(r, e, i, &path, &fd);
        const int64_t bytes = p.count * size;
        uint32_t crc = 0;

        for (int64_t from = 0; from < bytes; from += CHARL__CKPT_BLOCK) {
            const int64_t n = bytes - from < CHARL__CKPT_BLOCK ? bytes - from : CHARL__CKPT_BLOCK;
            char *to = dst ? (char *)dst + p.from * size + from : block;

            CHARL_TRY(charl__ckpt_read_values(path, fd, &e->tensor, p.offset + from, n, to));
            crc = charl__crc32c(crc, to, (size_t)n);
        }
        CHARL_REQUIRE(crc == p.crc32c, CHARL_ERR_CHECKPOINT,
                      "%s: /%s/%s is damaged: its checksum is %08lx, should be %08lx", path, e->tensor.group,
                      e->tensor.name, (unsigned long)crc, (unsigned long)p.crc32c);
    }
    return CHARL_OK;
}

/* The configuration is small: read and checked at once, kept as a string. */
static charl_status load_config(charl_checkpoint_reader *r)
{
    for (int i = 0; i < 2; i++) {
        const charl__ckpt_entry *e = &r->layout.entries[i];

        CHARL_TRY(charl__alloc((size_t)e->bytes + 1, &r->config[i]));
        CHARL_TRY(read_checked(r, e, r->config[i], NULL));
        CHARL_REQUIRE(!memchr(r->config[i], '\0', (size_t)e->bytes), CHARL_ERR_CHECKPOINT, "%s: /%s/%s is not text",
                      r->path, e->tensor.group, e->tensor.name);
    }
    return CHARL_OK;
}

static charl_status load_schema(charl_checkpoint_reader *r)
{
    charl_status st = CHARL_OK;
    const int n = r->layout.n_schema;
    charl_checkpoint_tensor part[CHARL__CKPT_SCHEMA_MOST] = {{0}};
    void *data[CHARL__CKPT_SCHEMA_MOST] = {NULL};

    if (n == 0) {
        return CHARL_OK;
    }
    for (int i = 0; i < n; i++) {
        const charl__ckpt_entry *e = &r->layout.entries[CHARL__CKPT_FIRST_TENSOR + i];

        CHARL_TRY_CLEANUP(charl__alloc((size_t)e->bytes + 1, &data[i])); /* texts end with a NUL */
        CHARL_TRY_CLEANUP(read_checked(r, e, data[i], NULL));
        part[i] = e->tensor;
        part[i].data = data[i];
    }
    CHARL_TRY_CLEANUP(charl__ckpt_schema_load(r->path, part, n, &r->schema));
cleanup:
    for (int i = 0; i < n; i++) {
        charl_free(data[i]);
    }
    return st;
}

charl_status charl_checkpoint_open(const char *path, charl_checkpoint_reader **out)
{
    CHARL_GIVEN(path, out);
    charl_status st = CHARL_OK;
    charl_checkpoint_reader *r = NULL;
    int64_t bytes = 0;

    *out = NULL;
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *r, &r));
    r->fd = -1;
    CHARL_TRY_CLEANUP(charl__strdup(path, &r->path));
    CHARL_TRY_CLEANUP(charl__regular_open(r->path, &r->fd, &bytes));
    CHARL_TRY_CLEANUP(charl__ckpt_layout_load(r->path, r->fd, bytes, &r->layout));
    CHARL_TRY_CLEANUP(load_config(r));
    CHARL_TRY_CLEANUP(load_schema(r));
    *out = r;
    r = NULL;
cleanup:
    st = charl__kind_explain(st, path, CHARL__KIND_CHECKPOINT, "a checkpoint", CHARL_ERR_CHECKPOINT);
    charl_checkpoint_close(r);
    return st;
}

void charl_checkpoint_close(charl_checkpoint_reader *r)
{
    if (!r) {
        return;
    }
    if (r->base.close) {
        r->base.close(r->base.ctx);
    }
    charl__regular_close(&r->fd);
    charl__ckpt_layout_fini(&r->layout);
    charl_free(r->config[0]);
    charl_free(r->config[1]);
    charl_data_schema_destroy(r->schema);
    charl_free(r->path);
    charl_free(r);
}

const char *charl__checkpoint_part(const charl_checkpoint_reader *r, int i)
{
    return i < r->layout.parts.n ? r->layout.parts.part[i].path : NULL;
}

static int64_t first_tensor(const charl_checkpoint_reader *r)
{
    return CHARL__CKPT_FIRST_TENSOR + r->layout.n_schema;
}

charl_checkpoint_info charl_checkpoint_get_info(const charl_checkpoint_reader *r)
{
    return r ? (charl_checkpoint_info){.state = &r->layout.state,
                                       .config_text = r->config[0],
                                       .config_resolved = r->config[1],
                                       .schema = r->schema,
                                       .n_tensors = r->layout.n_entries - first_tensor(r),
                                       .n_parts = r->layout.parts.n}
             : (charl_checkpoint_info){0};
}

const charl_checkpoint_tensor *charl_checkpoint_get_tensor(const charl_checkpoint_reader *r, int64_t index)
{
    if (!r) {
        return NULL;
    }
    return index >= 0 && index < charl_checkpoint_get_info(r).n_tensors
               ? &r->layout.entries[first_tensor(r) + index].tensor
               : NULL;
}

const charl_checkpoint_tensor *charl_checkpoint_find(const charl_checkpoint_reader *r, const char *group,
                                                     const char *name)
{
    if (!r || !group || !name) {
        return NULL;
    }
    const charl__ckpt_entry *e = charl__ckpt_layout_find(&r->layout, group, name);

    return e && e - r->layout.entries >= first_tensor(r) ? &e->tensor : NULL;
}

/* The entry of a tensor that this reader returned. */
static charl_status entry_of(const charl_checkpoint_reader *r, const charl_checkpoint_tensor *t,
                             const charl__ckpt_entry **out)
{
    *out = t ? charl__ckpt_layout_find(&r->layout, t->group, t->name) : NULL;
    CHARL_REQUIRE(*out && &(*out)->tensor == t, CHARL_ERR_INVALID, "%s: the tensor is not of this checkpoint", r->path);
    return CHARL_OK;
}

bool charl_checkpoint_is_in_base(const charl_checkpoint_reader *r, const charl_checkpoint_tensor *t)
{
    if (!r || !t) {
        return false;
    }
    const charl__ckpt_entry *e = charl__ckpt_layout_find(&r->layout, t->group, t->name);

    return e && e->in_base;
}

bool charl__checkpoint_lacks_base(const charl_checkpoint_reader *r)
{
    for (int64_t i = 0; !r->base.read && i < r->layout.n_entries; i++) {
        if (r->layout.entries[i].in_base) {
            return true;
        }
    }
    return false;
}

bool charl__checkpoint_has_average(const charl_checkpoint_reader *r)
{
    for (int64_t i = 0; i < charl_checkpoint_get_info(r).n_tensors; i++) {
        if (strcmp(charl_checkpoint_get_tensor(r, i)->group, "ema") == 0) {
            return true;
        }
    }
    return false;
}

void charl__checkpoint_attach(charl_checkpoint_reader *r, const charl__checkpoint_base *base)
{
    if (r->base.close) {
        r->base.close(r->base.ctx);
    }
    r->base = *base;
}

static charl_status read_from_base(const charl_checkpoint_reader *r, const charl__ckpt_entry *e, void *dst)
{
    uint32_t crc;

    CHARL_REQUIRE(r->base.read, CHARL_ERR_CHECKPOINT,
                  "%s holds only the trained weights: the values of %s are in the weights that the run started from "
                  "([init] from)",
                  r->path, e->tensor.name);
    CHARL_REQUIRE(e->tensor.dtype == CHARL_F32, CHARL_ERR_CHECKPOINT, "%s: /%s/%s is %s; the weights of a base are f32",
                  r->path, e->tensor.group, e->tensor.name, charl_dtype_name(e->tensor.dtype));
    CHARL_TRY(r->base.read(r->base.ctx, e->tensor.name, &e->tensor.shape, dst));
    crc = charl__crc32c(0, dst, (size_t)e->bytes);
    CHARL_REQUIRE(
        crc == e->tensor.crc32c, CHARL_ERR_CHECKPOINT,
        "%s was trained on other weights: the checksum of %s is %08lx there and %08lx in its base; HINT init.from=PATH "
        "names the weights that the run started from",
        r->path, e->tensor.name, (unsigned long)e->tensor.crc32c, (unsigned long)crc);
    return CHARL_OK;
}

charl_status charl_checkpoint_read(charl_checkpoint_reader *r, const charl_checkpoint_tensor *t, void *dst)
{
    CHARL_GIVEN(r, t, dst);
    const charl__ckpt_entry *e = NULL;

    CHARL_TRY(entry_of(r, t, &e));
    if (e->in_base) {
        return read_from_base(r, e, dst);
    }
    CHARL_TRY(read_checked(r, e, dst, NULL));
    return CHARL_OK;
}

charl_status charl__checkpoint_read_part(charl_checkpoint_reader *r, const charl_checkpoint_tensor *t, int64_t from,
                                         int64_t bytes, void *dst)
{
    const charl__ckpt_entry *e = NULL;

    CHARL_TRY(entry_of(r, t, &e));
    CHARL_REQUIRE(from >= 0 && bytes >= 0 && from <= e->bytes - bytes, CHARL_ERR_INVALID, "%s: bytes outside /%s/%s",
                  r->path, t->group, t->name);
    for (int64_t i = 0; i == 0 || i < e->n_pieces; i++) {
        const int64_t size = (int64_t)charl_dtype_size(t->dtype);
        const char *path;
        int fd;
        const charl__ckpt_piece p = piece_of(r, e, i, &path, &fd);
        const int64_t begin = p.from * size, end = begin + p.count * size;
        const int64_t first = from > begin ? from : begin, last = from + bytes < end ? from + bytes : end;

        if (first < last) {
            CHARL_TRY(charl__ckpt_read_values(path, fd, t, p.offset + first - begin, last - first,
                                              (char *)dst + (first - from)));
        }
    }
    return CHARL_OK;
}

charl_status charl__checkpoint_check_tensor(charl_checkpoint_reader *r, const charl_checkpoint_tensor *t, void *block)
{
    const charl__ckpt_entry *e = NULL;

    CHARL_TRY(entry_of(r, t, &e));
    CHARL_TRY(read_checked(r, e, NULL, block));
    return CHARL_OK;
}

charl_status charl__checkpoint_verify(const char *path, const char *manifest_sha256)
{
    CHARL_SCOPED(charl__checkpoint_left) charl_checkpoint_reader *r = NULL;
    CHARL_SCOPED_FREE void *block = NULL;

    CHARL_TRY(charl_checkpoint_open(path, &r));
    CHARL_REQUIRE(!manifest_sha256 || strcmp(manifest_sha256, r->layout.manifest_sha256) == 0, CHARL_ERR_CHECKPOINT,
                  "%s: the manifest is not the one expected", path);
    CHARL_TRY(charl__alloc(CHARL__CKPT_BLOCK, &block));
    for (int64_t i = 0; i < r->layout.n_entries; i++) {
        const charl__ckpt_entry *e = &r->layout.entries[i];
        const bool is_read_back = manifest_sha256 && e->n_pieces > 0; /* by those who wrote the parts */

        if (!e->in_base && !is_read_back) {
            CHARL_TRY(read_checked(r, e, NULL, block));
        }
    }
    return CHARL_OK;
}

charl_status charl_checkpoint_verify(const char *path)
{
    CHARL_GIVEN(path);
    return charl__checkpoint_verify(path, NULL);
}
