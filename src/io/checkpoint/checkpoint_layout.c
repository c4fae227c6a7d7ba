/* Finding and validating everything in a checkpoint. The manifest leads: each of its lines must
 * name a dataset that is exactly as the line says, and no group may hold more links than the
 * manifest has lines for it. So nothing is walked that was not expected, and links out of the file,
 * filters and virtual storage are refused unread; virtual datasets of a checkpoint in parts are not opened.
 */
#include "io/checkpoint/checkpoint_layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/checkpoint/checkpoint_file.h"
#include "io/checkpoint/checkpoint_schema.h"

enum { WHERE_BYTES = 1024 };

typedef struct loader {
    charl__ckpt_file f;
    int64_t version;
    charl__ckpt_layout *out;
} loader;

typedef struct group_count {
    const char *group;
    int64_t count;
} group_count;

typedef struct extent {
    int64_t offset, bytes, index;
} extent;

static bool is_config(const charl_checkpoint_tensor *t, const char *name)
{
    return strcmp(t->group, "config") == 0 && strcmp(t->name, name) == 0 && t->dtype == CHARL_U8 &&
           t->shape.ndim == 1 && t->shape.dim[0] <= CHARL__CKPT_CONFIG;
}

/* Parts of the schema stand together at the beginning. */
static bool is_schema(const loader *l, int64_t line, const charl_checkpoint_tensor *t)
{
    return l->version >= 2 && strcmp(t->group, CHARL__CKPT_SCHEMA) == 0 &&
           line == CHARL__CKPT_FIRST_TENSOR + l->out->n_schema && l->out->n_schema < CHARL__CKPT_SCHEMA_MOST;
}

/* A weight that the file leaves to its base: a line of the manifest and nothing else. */
static bool is_base(const loader *l, const charl_checkpoint_tensor *t)
{
    return l->version >= 3 && strcmp(t->group, CHARL_CHECKPOINT_BASE) == 0;
}

/* Cut the manifest into entries. */
static charl_status parse_manifest(loader *l, size_t length)
{
    charl__ckpt_layout *out = l->out;
    char *line = out->manifest;
    int64_t lines = 0;

    for (size_t i = 0; i < length; i++) {
        lines += out->manifest[i] == '\n' ? 1 : 0;
    }
    CHARL_REQUIRE(lines >= CHARL__CKPT_FIRST_TENSOR && lines < INT32_MAX, CHARL_ERR_CHECKPOINT,
                  "%s: the manifest is malformed", l->f.path);
    CHARL_TRY(charl__alloc_array(lines, sizeof *out->entries, &out->entries));
    for (int64_t i = 0; i < lines; i++) {
        charl__ckpt_entry *e = &out->entries[i];
        char *end = strchr(line, '\n');

        *end = '\0';
        CHARL_REQUIRE(charl__ckpt_line_parse(line, &e->tensor), CHARL_ERR_CHECKPOINT,
                      "%s: line %lld of the manifest is malformed", l->f.path, (long long)i + 1);
        CHARL_REQUIRE(i == 0                        ? is_config(&e->tensor, "text")
                      : i == 1                      ? is_config(&e->tensor, "resolved")
                      : is_schema(l, i, &e->tensor) ? true
                                                    : is_base(l, &e->tensor) || charl__ckpt_is_group(e->tensor.group),
                      CHARL_ERR_CHECKPOINT, "%s: /%s/%s is not expected in a checkpoint", l->f.path, e->tensor.group,
                      e->tensor.name);
        out->n_schema += is_schema(l, i, &e->tensor);
        if (is_base(l, &e->tensor)) {
            e->in_base = true;
            e->tensor.group = "model";
        }
        e->bytes = charl__ckpt_bytes(e->tensor.dtype, &e->tensor.shape);
        line = end + 1;
    }
    out->n_entries = lines;
    return CHARL_OK;
}

static int compare_names(const char *group_a, const char *name_a, const char *group_b, const char *name_b)
{
    const int order = strcmp(group_a, group_b);

    return order ? order : strcmp(name_a, name_b);
}

static int by_name(const void *a, const void *b)
{
    const charl_checkpoint_tensor *x = &(*(const charl__ckpt_entry *const *)a)->tensor;
    const charl_checkpoint_tensor *y = &(*(const charl__ckpt_entry *const *)b)->tensor;

    return compare_names(x->group, x->name, y->group, y->name);
}

/* Sort the entries by name and refuse one that comes twice. */
static charl_status sort_entries(loader *l)
{
    charl__ckpt_layout *out = l->out;

    CHARL_TRY(charl__alloc_array(out->n_entries, sizeof *out->sorted, &out->sorted));
    for (int64_t i = 0; i < out->n_entries; i++) {
        out->sorted[i] = &out->entries[i];
    }
    qsort(out->sorted, (size_t)out->n_entries, sizeof *out->sorted, by_name);
    for (int64_t i = 1; i < out->n_entries; i++) {
        CHARL_REQUIRE(by_name(&out->sorted[i - 1], &out->sorted[i]) != 0, CHARL_ERR_CHECKPOINT,
                      "%s: /%s/%s is in the manifest twice", l->f.path, out->sorted[i]->tensor.group,
                      out->sorted[i]->tensor.name);
    }
    return CHARL_OK;
}

/* All groups exist and hold exactly what the manifest lists. */
static charl_status check_groups(loader *l)
{
    static const char *const fixed[] = {"optim", "state", "data", "manifest"}, *const optional[] = {"ema", "user"};
    group_count groups[CHARL__CKPT_GROUPS] = {{"config", 0}, {"model", 0}};
    int n = 2, n_optim = 0;
    bool there[2] = {false, false};

    for (int64_t i = 0; i < l->out->n_entries; i++) { /* sorted: equal groups stand together */
        const char *group = l->out->sorted[i]->tensor.group;
        int g = n - 1;

        while (g >= 0 && strcmp(groups[g].group, group) != 0) {
            g--;
        }
        if (g < 0) {
            CHARL_REQUIRE(n < CHARL__CKPT_GROUPS, CHARL_ERR_CHECKPOINT, "%s: too many groups", l->f.path);
            g = n++;
            groups[g] = (group_count){group, 0};
            n_optim += strncmp(group, "optim/", 6) == 0 ? 1 : 0;
        }
        groups[g].count += !l->out->sorted[i]->in_base;
    }
    for (int k = 0; k < 2; k++) {
        CHARL_TRY(charl__ckpt_check_link(&l->f, optional[k], &there[k]));
    }
    CHARL_TRY(charl__ckpt_check_group(
        &l->f, "/", 6 + there[0] + there[1] + (l->out->n_schema > 0 ? 1 : 0) + (l->version >= 4 ? 1 : 0)));
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        CHARL_TRY(charl__ckpt_check_link(&l->f, fixed[i], NULL));
    }
    CHARL_TRY(charl__ckpt_check_group(&l->f, "state", 0));
    CHARL_TRY(charl__ckpt_check_group(&l->f, "data", 0));
    CHARL_TRY(charl__ckpt_check_group(&l->f, "optim", n_optim));
    for (int g = 0; g < n; g++) {
        CHARL_TRY(charl__ckpt_check_group(&l->f, groups[g].group, groups[g].count));
        for (int k = 0; k < 2; k++) {
            there[k] = there[k] && strcmp(groups[g].group, optional[k]) != 0;
        }
    }
    for (int k = 0; k < 2; k++) {
        CHARL_REQUIRE(!there[k], CHARL_ERR_CHECKPOINT, "%s: group /%s is not in the manifest", l->f.path, optional[k]);
    }
    return CHARL_OK;
}

/* Open the parts, and find what of which tensor they have. */
static charl_status open_parts(loader *l)
{
    charl__ckpt_layout *out = l->out;
    CHARL_SCOPED_FREE char *list = NULL;
    CHARL_SCOPED_FREE const charl_checkpoint_tensor **tensor = NULL;
    char sha256[CHARL__SHA256_TEXT];
    size_t length = 0;

    if (l->version < 4) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__ckpt_read_lines(&l->f, "parts", &list, &length, sha256));
    CHARL_TRY(charl__alloc_array(out->n_entries, sizeof *tensor, &tensor));
    for (int64_t i = 0; i < out->n_entries; i++) {
        tensor[i] = &out->entries[i].tensor;
    }
    CHARL_TRY(charl__ckpt_parts_open(l->f.path, list, tensor, out->n_entries, &out->parts));
    for (int64_t i = 0; i < out->n_entries; i++) {
        charl__ckpt_entry *e = &out->entries[i];

        e->piece = out->parts.piece + out->parts.first[i];
        e->n_pieces = out->parts.first[i + 1] - out->parts.first[i];
        CHARL_REQUIRE(e->n_pieces == 0 || !e->in_base, CHARL_ERR_CHECKPOINT,
                      "%s: /%s/%s is left to the base, and one of the parts has it too", l->f.path, e->tensor.group,
                      e->tensor.name);
        CHARL_REQUIRE(e->n_pieces == 0 || charl__ckpt_parts_crc32c(&out->parts, i, charl_dtype_size(e->tensor.dtype)) ==
                                              e->tensor.crc32c,
                      CHARL_ERR_CHECKPOINT,
                      "%s: the checksums of the pieces of /%s/%s do not make that of the manifest", l->f.path,
                      e->tensor.group, e->tensor.name);
    }
    return CHARL_OK;
}

static charl_status check_entry(loader *l, int64_t index)
{
    charl__ckpt_entry *e = &l->out->entries[index];
    CHARL_SCOPED(charl__h5_close) hid_t dataset = H5I_INVALID_HID;
    charl_shape shape;
    char path[CHARL__CKPT_NAME], where[WHERE_BYTES];
    const charl__h5_site site = {CHARL_ERR_CHECKPOINT, where};
    int64_t crc = 0, position = 0;

    snprintf(path, sizeof path, "%s/%s", e->tensor.group, e->tensor.name);
    snprintf(where, sizeof where, "%s: /%s", l->f.path, path);
    if (e->n_pieces >
        0) { /* a virtual dataset is for other programs: its mapping lies in a heap, which HDF5 crashes in most easily */
        return charl__ckpt_check_link(&l->f, path, NULL);
    }
    CHARL_TRY(charl__ckpt_open_dataset(&l->f, path, e->tensor.dtype, &dataset));
    CHARL_TRY(charl__ckpt_get_shape(&l->f, dataset, path, &shape));
    CHARL_REQUIRE(charl_shape_equal(&shape, &e->tensor.shape), CHARL_ERR_CHECKPOINT,
                  "%s: the shape is not the one in the manifest", where);
    CHARL_TRY(charl__ckpt_locate(&l->f, dataset, path, e->bytes, &e->offset));
    CHARL_TRY(charl__h5_get_i64(&site, dataset, "crc32c", &crc));
    CHARL_TRY(charl__h5_get_i64(&site, dataset, "index", &position));
    CHARL_REQUIRE(crc == (int64_t)e->tensor.crc32c && position == index, CHARL_ERR_CHECKPOINT,
                  "%s: attributes crc32c and index do not agree with the manifest", where);
    return CHARL_OK;
}

static int by_offset(const void *a, const void *b)
{
    const extent *x = a, *y = b;

    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* No two tensors may share bytes. */
static charl_status check_overlap(loader *l)
{
    CHARL_SCOPED_FREE extent *extents = NULL;
    size_t n = 0;

    CHARL_TRY(charl__alloc_array(l->out->n_entries, sizeof *extents, &extents));
    for (int64_t i = 0; i < l->out->n_entries; i++) {
        const charl__ckpt_entry *e = &l->out->entries[i];

        if (e->bytes > 0 && !e->in_base && e->n_pieces == 0) {
            extents[n++] = (extent){e->offset, e->bytes, i};
        }
    }
    qsort(extents, n, sizeof *extents, by_offset);
    for (size_t i = 1; i < n; i++) {
        const charl_checkpoint_tensor *t = &l->out->entries[extents[i].index].tensor;

        CHARL_REQUIRE(extents[i - 1].offset + extents[i - 1].bytes <= extents[i].offset, CHARL_ERR_CHECKPOINT,
                      "%s: /%s/%s overlaps another tensor", l->f.path, t->group, t->name);
    }
    return CHARL_OK;
}

static charl_status read_field(loader *l, const charl__ckpt_field *f, char *text)
{
    char *at = (char *)&l->out->state + f->offset;
    char *copy = NULL;
    CHARL_SCOPED(charl__h5_close) hid_t group = H5I_INVALID_HID;
    int64_t integer = 0;
    double number = 0;

    CHARL_H5_OPEN(CHARL_ERR_CHECKPOINT, group, H5Gopen2(l->f.file, f->group, H5P_DEFAULT), "%s: group %s", l->f.path,
                  f->group);
    if (f->optional && H5Aexists(group, f->name) <= 0) {
        if (f->kind == CHARL__CKPT_STRING) {
            CHARL_TRY(charl__strdup("", &copy));
            memcpy(at, &copy, sizeof copy);
        }
        return CHARL_OK; /* numbers are 0, as *out was cleared */
    }
    switch (f->kind) {
    case CHARL__CKPT_I64:
        CHARL_TRY(charl__h5_get_i64(&l->f.site, group, f->name, &integer));
        CHARL_REQUIRE(integer >= f->lowest, CHARL_ERR_CHECKPOINT, "%s: attribute %s is %lld, must be at least %lld",
                      l->f.path, f->name, (long long)integer, (long long)f->lowest);
        memcpy(at, &integer, sizeof integer);
        break;
    case CHARL__CKPT_F64:
        CHARL_TRY(charl__h5_get_f64(&l->f.site, group, f->name, &number));
        memcpy(at, &number, sizeof number);
        break;
    case CHARL__CKPT_STRING:
        CHARL_TRY(charl__h5_get_text(&l->f.site, group, f->name, text, CHARL__CKPT_TEXT));
        CHARL_TRY(charl__strdup(text, &copy));
        memcpy(at, &copy, sizeof copy);
        break;
    }
    return CHARL_OK;
}

static charl_status load_structure(loader *l)
{
    size_t length = 0;
    CHARL_SCOPED_FREE char *text = NULL;

    CHARL_TRY(charl__ckpt_check_root(&l->f, "checkpoint", 1, &l->version));
    CHARL_TRY(l->version >= 4 ? charl__ckpt_check_seal(&l->f) : CHARL_OK);
    CHARL_TRY(charl__ckpt_read_lines(&l->f, "manifest", &l->out->manifest, &length, l->out->manifest_sha256));
    CHARL_TRY(parse_manifest(l, length));
    CHARL_TRY(sort_entries(l));
    CHARL_TRY(check_groups(l));
    CHARL_TRY(open_parts(l));
    for (int64_t i = 0; i < l->out->n_entries; i++) {
        if (!l->out->entries[i].in_base) {
            CHARL_TRY(check_entry(l, i));
        }
    }
    CHARL_TRY(check_overlap(l));
    CHARL_TRY(charl__alloc(CHARL__CKPT_TEXT, &text));
    for (int i = 0; i < charl__ckpt_n_fields; i++) {
        CHARL_TRY(read_field(l, &charl__ckpt_fields[i], text));
    }
    return CHARL_OK;
}

charl_status charl__ckpt_layout_load(const char *path, int fd, int64_t file_bytes, charl__ckpt_layout *out)
{
    CHARL_H5_SCOPE;
    charl_status st;
    loader l = {.out = out};

    *out = (charl__ckpt_layout){0};
    st = charl__ckpt_file_open(&l.f, path, fd, file_bytes);
    st = charl__ckpt_file_close(&l.f, st == CHARL_OK ? load_structure(&l) : st);
    if (st != CHARL_OK) {
        charl__ckpt_layout_fini(out);
    }
    return st;
}

void charl__ckpt_layout_fini(charl__ckpt_layout *l)
{
    for (int i = 0; i < charl__ckpt_n_fields; i++) {
        if (charl__ckpt_fields[i].kind == CHARL__CKPT_STRING) {
            char *text = NULL;

            memcpy(&text, (const char *)&l->state + charl__ckpt_fields[i].offset, sizeof text);
            charl_free(text);
        }
    }
    charl__ckpt_parts_fini(&l->parts);
    charl_free(l->sorted);
    charl_free(l->entries);
    charl_free(l->manifest);
    *l = (charl__ckpt_layout){0};
}

const charl__ckpt_entry *charl__ckpt_layout_find(const charl__ckpt_layout *l, const char *group, const char *name)
{
    int64_t low = 0, high = l->n_entries;

    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const charl__ckpt_entry *e = l->sorted[middle];
        const int order = compare_names(group, name, e->tensor.group, e->tensor.name);

        if (order == 0) {
            return e;
        }
        low = order > 0 ? middle + 1 : low;
        high = order > 0 ? high : middle;
    }
    return NULL;
}
