/* Finding and validating everything in a checkpoint. The manifest leads: each of its lines must
 * name a dataset that is exactly as the line says, and no group may hold more links than the
 * manifest has lines for it. So nothing is walked that was not expected, and links out of the file,
 * filters and virtual storage are refused unread.
 */
#include "io/checkpoint/checkpoint_layout.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/checkpoint/checkpoint_schema.h"
#include "io/h5.h"
#include "io/h5_driver.h"

enum { WHERE_BYTES = 1024 };

typedef struct loader {
    const char *path;
    charl__h5_site site;
    charl__h5_io io;
    hid_t file;
    int64_t file_bytes;
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

/* `path` must be a link of the file itself; whether it exists at all is *exists, or an error when
 * that is NULL. */
static charl_status check_link(loader *l, const char *path, bool *exists)
{
    H5L_info_t info;
    const bool found = H5Lget_info(l->file, path, &info, H5P_DEFAULT) >= 0;

    CHARL_REQUIRE(found || exists, CHARL_ERR_CHECKPOINT, "%s: /%s is missing", l->path, path);
    CHARL_REQUIRE(!found || info.type == H5L_TYPE_HARD, CHARL_ERR_CHECKPOINT,
                  "%s: /%s is a soft or external link, which is not allowed", l->path, path);
    if (exists) {
        *exists = found;
    }
    return CHARL_OK;
}

/* `path` must be a group with exactly `count` links. */
static charl_status check_group(loader *l, const char *path, int64_t count)
{
    const char *slash = path[0] == '/' ? "" : "/";
    CHARL_SCOPED(charl__h5_close) hid_t group = H5I_INVALID_HID;
    H5G_info_t info;

    if (slash[0]) {
        CHARL_TRY(check_link(l, path, NULL));
    }
    CHARL_H5_OPEN(CHARL_ERR_CHECKPOINT, group, H5Gopen2(l->file, path, H5P_DEFAULT), "%s: %s%s is not a readable group",
                  l->path, slash, path);
    CHARL_H5(CHARL_ERR_CHECKPOINT, H5Gget_info(group, &info), "%s: group %s%s", l->path, slash, path);
    CHARL_REQUIRE(info.nlinks == (hsize_t)count, CHARL_ERR_CHECKPOINT,
                  "%s: group %s%s holds %llu objects, %lld are expected", l->path, slash, path,
                  (unsigned long long)info.nlinks, (long long)count);
    return CHARL_OK;
}

static charl_status check_root(loader *l)
{
    char format[64];
    int64_t value = 0;

    CHARL_TRY(charl__h5_get_text(&l->site, l->file, "charl_format", format, sizeof format));
    CHARL_REQUIRE(strcmp(format, "checkpoint") == 0, CHARL_ERR_CHECKPOINT,
                  "%s: not a checkpoint: its charl_format is '%s'", l->path, format);
    CHARL_TRY(charl__h5_get_i64(&l->site, l->file, "charl_version", &value));
    CHARL_REQUIRE(value >= 1 && value <= CHARL_CHECKPOINT_VERSION, CHARL_ERR_CHECKPOINT,
                  "%s: has format version %lld, this charl reads versions 1 to %d", l->path, (long long)value,
                  CHARL_CHECKPOINT_VERSION);
    l->version = value;
    CHARL_REQUIRE(charl__h5_has(l->file, "complete"), CHARL_ERR_CHECKPOINT,
                  "%s: is incomplete: it was not written to its end", l->path);
    CHARL_TRY(charl__h5_get_i64(&l->site, l->file, "complete", &value));
    CHARL_REQUIRE(value == 1, CHARL_ERR_CHECKPOINT, "%s: is incomplete", l->path);
    return CHARL_OK;
}

static charl_status check_storage(loader *l, hid_t dataset, const char *path)
{
    CHARL_SCOPED(charl__h5_close) hid_t dcpl = H5I_INVALID_HID;

    CHARL_H5_OPEN(CHARL_ERR_CHECKPOINT, dcpl, H5Dget_create_plist(dataset), "%s: /%s: storage properties", l->path,
                  path);
    CHARL_REQUIRE(H5Pget_layout(dcpl) == H5D_CONTIGUOUS, CHARL_ERR_CHECKPOINT, "%s: /%s is not stored contiguously",
                  l->path, path);
    CHARL_REQUIRE(H5Pget_nfilters(dcpl) == 0, CHARL_ERR_CHECKPOINT, "%s: /%s has a filter", l->path, path);
    CHARL_REQUIRE(H5Pget_external_count(dcpl) == 0, CHARL_ERR_CHECKPOINT,
                  "%s: /%s is stored in another file, which is not allowed", l->path, path);
    return CHARL_OK;
}

static charl_status check_type(loader *l, hid_t dataset, const char *path, charl_dtype dtype)
{
    CHARL_SCOPED(charl__h5_close) hid_t stored = H5I_INVALID_HID;
    CHARL_SCOPED(charl__h5_close) hid_t expected = H5I_INVALID_HID;

    CHARL_TRY(charl__ckpt_type(dtype, &expected));
    CHARL_H5_OPEN(CHARL_ERR_CHECKPOINT, stored, H5Dget_type(dataset), "%s: /%s: element type", l->path, path);
    CHARL_REQUIRE(H5Tequal(stored, expected) > 0, CHARL_ERR_CHECKPOINT, "%s: /%s: the element type is not %s", l->path,
                  path, charl_dtype_name(dtype));
    return CHARL_OK;
}

static charl_status get_shape(loader *l, hid_t dataset, const char *path, charl_shape *out)
{
    CHARL_SCOPED(charl__h5_close) hid_t space = H5I_INVALID_HID;
    hsize_t dims[CHARL_MAX_DIMS] = {0};
    int ndim;

    *out = (charl_shape){0};
    CHARL_H5_OPEN(CHARL_ERR_CHECKPOINT, space, H5Dget_space(dataset), "%s: /%s: shape", l->path, path);
    ndim = H5Sget_simple_extent_ndims(space);
    CHARL_REQUIRE(H5Sget_simple_extent_type(space) != H5S_NULL && ndim >= 0 && ndim <= CHARL_MAX_DIMS,
                  CHARL_ERR_CHECKPOINT, "%s: /%s: the shape is not one of a tensor", l->path, path);
    CHARL_H5(CHARL_ERR_CHECKPOINT, H5Sget_simple_extent_dims(space, dims, NULL), "%s: /%s: shape", l->path, path);
    out->ndim = ndim;
    for (int i = 0; i < ndim; i++) {
        CHARL_REQUIRE(dims[i] <= (hsize_t)INT64_MAX, CHARL_ERR_CHECKPOINT, "%s: /%s: impossible extent", l->path, path);
        out->dim[i] = (int64_t)dims[i];
    }
    return CHARL_OK;
}

/* e->offset: where the bytes of `dataset` begin. They must all lie in the file. */
static charl_status locate(loader *l, hid_t dataset, const char *path, charl__ckpt_entry *e)
{
    haddr_t offset;

    e->offset = 0;
    if (e->bytes > 0) {
        offset = H5Dget_offset(dataset);
        CHARL_REQUIRE(offset != HADDR_UNDEF, CHARL_ERR_CHECKPOINT, "%s: /%s was never written", l->path, path);
        CHARL_REQUIRE(H5Dget_storage_size(dataset) == (hsize_t)e->bytes && offset > 0 && e->bytes <= l->file_bytes &&
                          offset <= (haddr_t)(l->file_bytes - e->bytes),
                      CHARL_ERR_CHECKPOINT, "%s: /%s does not lie inside the file", l->path, path);
        e->offset = (int64_t)offset;
    }
    return CHARL_OK;
}

/* Open dataset `path` (without its leading '/') and check everything but shape and attributes. */
static charl_status open_dataset(loader *l, const char *path, charl_dtype dtype, hid_t *out)
{
    CHARL_TRY(check_link(l, path, NULL));
    CHARL_H5_OPEN(CHARL_ERR_CHECKPOINT, *out, H5Dopen2(l->file, path, H5P_DEFAULT), "%s: /%s is not a readable dataset",
                  l->path, path);
    CHARL_TRY(check_storage(l, *out, path));
    CHARL_TRY(check_type(l, *out, path, dtype));
    return CHARL_OK;
}

static charl_status read_manifest(loader *l, size_t *length)
{
    CHARL_SCOPED(charl__h5_close) hid_t dataset = H5I_INVALID_HID;
    charl__ckpt_entry e = {.tensor = {.dtype = CHARL_U8}};
    char want[CHARL__SHA256_TEXT];

    CHARL_TRY(open_dataset(l, "manifest", CHARL_U8, &dataset));
    CHARL_TRY(get_shape(l, dataset, "manifest", &e.tensor.shape));
    e.bytes = charl__ckpt_bytes(CHARL_U8, &e.tensor.shape);
    CHARL_REQUIRE(e.tensor.shape.ndim == 1 && e.bytes > 0 && e.bytes <= CHARL__CKPT_MANIFEST, CHARL_ERR_CHECKPOINT,
                  "%s: the manifest has an impossible size", l->path);
    CHARL_TRY(locate(l, dataset, "manifest", &e));
    CHARL_TRY(charl__alloc((size_t)e.bytes + 1, &l->out->manifest));
    CHARL_H5(CHARL_ERR_CHECKPOINT, H5Dread(dataset, H5T_STD_U8LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, l->out->manifest),
             "%s: the manifest cannot be read", l->path);
    charl__sha256_text(l->out->manifest, (size_t)e.bytes, l->out->manifest_sha256);
    CHARL_TRY(charl__h5_get_text(&l->site, dataset, "sha256", want, sizeof want));
    CHARL_REQUIRE(strcmp(want, l->out->manifest_sha256) == 0, CHARL_ERR_CHECKPOINT,
                  "%s: the manifest is damaged: its SHA-256 differs", l->path);
    *length = (size_t)e.bytes;
    return CHARL_OK;
}

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
    CHARL_REQUIRE(out->manifest[length - 1] == '\n' && !memchr(out->manifest, '\0', length) &&
                      lines >= CHARL__CKPT_FIRST_TENSOR && lines < INT32_MAX,
                  CHARL_ERR_CHECKPOINT, "%s: the manifest is malformed", l->path);
    CHARL_TRY(charl__alloc_array(lines, sizeof *out->entries, &out->entries));
    for (int64_t i = 0; i < lines; i++) {
        charl__ckpt_entry *e = &out->entries[i];
        char *end = strchr(line, '\n');

        *end = '\0';
        CHARL_REQUIRE(charl__ckpt_line_parse(line, &e->tensor), CHARL_ERR_CHECKPOINT,
                      "%s: line %lld of the manifest is malformed", l->path, (long long)i + 1);
        CHARL_REQUIRE(i == 0                        ? is_config(&e->tensor, "text")
                      : i == 1                      ? is_config(&e->tensor, "resolved")
                      : is_schema(l, i, &e->tensor) ? true
                                                    : is_base(l, &e->tensor) || charl__ckpt_is_group(e->tensor.group),
                      CHARL_ERR_CHECKPOINT, "%s: /%s/%s is not expected in a checkpoint", l->path, e->tensor.group,
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
                      "%s: /%s/%s is in the manifest twice", l->path, out->sorted[i]->tensor.group,
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
            CHARL_REQUIRE(n < CHARL__CKPT_GROUPS, CHARL_ERR_CHECKPOINT, "%s: too many groups", l->path);
            g = n++;
            groups[g] = (group_count){group, 0};
            n_optim += strncmp(group, "optim/", 6) == 0 ? 1 : 0;
        }
        groups[g].count += !l->out->sorted[i]->in_base;
    }
    for (int k = 0; k < 2; k++) {
        CHARL_TRY(check_link(l, optional[k], &there[k]));
    }
    CHARL_TRY(check_group(l, "/", 6 + there[0] + there[1] + (l->out->n_schema > 0 ? 1 : 0)));
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        CHARL_TRY(check_link(l, fixed[i], NULL));
    }
    CHARL_TRY(check_group(l, "state", 0));
    CHARL_TRY(check_group(l, "data", 0));
    CHARL_TRY(check_group(l, "optim", n_optim));
    for (int g = 0; g < n; g++) {
        CHARL_TRY(check_group(l, groups[g].group, groups[g].count));
        for (int k = 0; k < 2; k++) {
            there[k] = there[k] && strcmp(groups[g].group, optional[k]) != 0;
        }
    }
    for (int k = 0; k < 2; k++) {
        CHARL_REQUIRE(!there[k], CHARL_ERR_CHECKPOINT, "%s: group /%s is not in the manifest", l->path, optional[k]);
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
    snprintf(where, sizeof where, "%s: /%s", l->path, path);
    CHARL_TRY(open_dataset(l, path, e->tensor.dtype, &dataset));
    CHARL_TRY(get_shape(l, dataset, path, &shape));
    CHARL_REQUIRE(charl_shape_equal(&shape, &e->tensor.shape), CHARL_ERR_CHECKPOINT,
                  "%s: the shape is not the one in the manifest", where);
    CHARL_TRY(locate(l, dataset, path, e));
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

        if (e->bytes > 0 && !e->in_base) {
            extents[n++] = (extent){e->offset, e->bytes, i};
        }
    }
    qsort(extents, n, sizeof *extents, by_offset);
    for (size_t i = 1; i < n; i++) {
        const charl_checkpoint_tensor *t = &l->out->entries[extents[i].index].tensor;

        CHARL_REQUIRE(extents[i - 1].offset + extents[i - 1].bytes <= extents[i].offset, CHARL_ERR_CHECKPOINT,
                      "%s: /%s/%s overlaps another tensor", l->path, t->group, t->name);
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

    CHARL_H5_OPEN(CHARL_ERR_CHECKPOINT, group, H5Gopen2(l->file, f->group, H5P_DEFAULT), "%s: group %s", l->path,
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
        CHARL_TRY(charl__h5_get_i64(&l->site, group, f->name, &integer));
        CHARL_REQUIRE(integer >= f->lowest, CHARL_ERR_CHECKPOINT, "%s: attribute %s is %lld, must be at least %lld",
                      l->path, f->name, (long long)integer, (long long)f->lowest);
        memcpy(at, &integer, sizeof integer);
        break;
    case CHARL__CKPT_F64:
        CHARL_TRY(charl__h5_get_f64(&l->site, group, f->name, &number));
        memcpy(at, &number, sizeof number);
        break;
    case CHARL__CKPT_STRING:
        CHARL_TRY(charl__h5_get_text(&l->site, group, f->name, text, CHARL__CKPT_TEXT));
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

    CHARL_TRY(check_root(l));
    CHARL_TRY(read_manifest(l, &length));
    CHARL_TRY(parse_manifest(l, length));
    CHARL_TRY(sort_entries(l));
    CHARL_TRY(check_groups(l));
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
    charl_status st = CHARL_OK;
    hid_t fapl = H5I_INVALID_HID;
    loader l = {.path = path,
                .site = {CHARL_ERR_CHECKPOINT, path},
                .io = {.fd = fd},
                .file = H5I_INVALID_HID,
                .file_bytes = file_bytes,
                .out = out};

    *out = (charl__ckpt_layout){0};
    CHARL_TRY_CLEANUP(charl__h5_driver_fapl(&l.io, &fapl));
    CHARL_H5_OPEN_CLEANUP(CHARL_ERR_CHECKPOINT, l.file, H5Fopen(path, H5F_ACC_RDONLY, fapl), "%s: is damaged", path);
    CHARL_TRY_CLEANUP(load_structure(&l));
cleanup:
    charl__h5_close(&l.file);
    charl__h5_close(&fapl);
    if (l.io.error == ENOMEM) {
        st = charl__h5_io_check(&l.io, path, -1);
    }
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
