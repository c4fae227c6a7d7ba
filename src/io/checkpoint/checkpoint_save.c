/* Writing a checkpoint: everything goes to a temporary through the sticky driver, the attribute
 * `complete` last; the commit protocol does the rest. Times are not stored, so equal descriptions
 * give equal bytes.
 *
 * Of a checkpoint in parts, each part is such a file too, and the checkpoint is written when all of them are in place.
 */
#include "charl/checkpoint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "base/numeric/hash.h"
#include "io/checkpoint/checkpoint_file.h"
#include "io/checkpoint/checkpoint_parts.h"
#include "io/checkpoint/checkpoint_read.h"
#include "io/checkpoint/checkpoint_schema.h"
#include "io/commit.h"
#include "io/dataset/schema/data_schema.h"
#include "io/h5.h"
#include "io/h5_driver.h"
#include "io/scoped.h"
#include "charl/version.h"

typedef struct save {
    const charl_checkpoint *c;
    const charl__ckpt_parts *parts;  /* NULL: none, all tensors are in the file */
    charl_checkpoint_reader *source; /* NULL: tensors have data; else they are read from it */
    const char *temp;                /* the file that is written; borrowed */
    charl__h5_site site;             /* whose name it gets */
    charl__h5_io io;
    hid_t file, dcpl, gcpl;
    charl__text manifest;
    charl__text description; /* of the schema */
    charl_checkpoint_tensor schema[CHARL__CKPT_SCHEMA_MOST];
    int n_schema;
    uint32_t line; /* of the manifest, to be written next */
    int64_t needed;
} save;

static charl_status check_state(const charl_checkpoint_state *s)
{
    for (int i = 0; i < charl__ckpt_n_fields; i++) {
        const charl__ckpt_field *f = &charl__ckpt_fields[i];

        if (f->kind == CHARL__CKPT_I64) {
            CHARL_REQUIRE(charl__ckpt_get_i64(s, f) >= f->lowest, CHARL_ERR_INVALID,
                          "checkpoint: %s is %lld, must be at least %lld", f->name,
                          (long long)charl__ckpt_get_i64(s, f), (long long)f->lowest);
        } else if (f->kind == CHARL__CKPT_STRING) {
            CHARL_REQUIRE(strlen(charl__ckpt_get_string(s, f)) < CHARL__CKPT_TEXT, CHARL_ERR_INVALID,
                          "checkpoint: %s is longer than %d bytes", f->name, CHARL__CKPT_TEXT - 1);
        }
    }
    return CHARL_OK;
}

static bool is_base(const charl_checkpoint_tensor *t)
{
    return t->group && strcmp(t->group, CHARL_CHECKPOINT_BASE) == 0;
}

/* The group in which readers find it. */
static const char *group_of(const charl_checkpoint_tensor *t)
{
    return is_base(t) ? "model" : t->group;
}

static int by_name(const void *a, const void *b)
{
    const charl_checkpoint_tensor *x = *(const charl_checkpoint_tensor *const *)a;
    const charl_checkpoint_tensor *y = *(const charl_checkpoint_tensor *const *)b;
    const int order = strcmp(group_of(x), group_of(y));

    return order ? order : strcmp(x->name, y->name);
}

static charl_status check_unique(const charl_checkpoint *c)
{
    CHARL_SCOPED_FREE const charl_checkpoint_tensor **sorted = NULL;

    CHARL_TRY(charl__alloc_array(c->n_tensors, sizeof *sorted, &sorted));
    for (int64_t i = 0; i < c->n_tensors; i++) {
        sorted[i] = &c->tensors[i];
    }
    qsort(sorted, (size_t)c->n_tensors, sizeof *sorted, by_name);
    for (int64_t i = 1; i < c->n_tensors; i++) {
        CHARL_REQUIRE(by_name(&sorted[i - 1], &sorted[i]) != 0, CHARL_ERR_INVALID,
                      "checkpoint: tensor /%s/%s is given twice", group_of(sorted[i]), sorted[i]->name);
    }
    return CHARL_OK;
}

static uint32_t version_of(const charl_checkpoint *c, const charl__ckpt_parts *parts)
{
    for (int64_t i = 0; i < c->n_tensors; i++) {
        if (is_base(&c->tensors[i]) && !parts) {
            return 3;
        }
    }
    return parts ? 4 : 2;
}

static bool has_pieces(const save *s, int64_t i)
{
    return s->parts && s->parts->first[i + 1] > s->parts->first[i];
}

static charl_status check(const save *s)
{
    const charl_checkpoint *c = s->c;

    CHARL_REQUIRE(c->n_tensors >= 0 && (c->tensors || c->n_tensors == 0), CHARL_ERR_INVALID,
                  "checkpoint: tensors is NULL or n_tensors, %lld, is negative", (long long)c->n_tensors);
    CHARL_TRY(check_state(&c->state));
    for (int64_t i = 0; i < c->n_tensors; i++) {
        const charl_checkpoint_tensor *t = &c->tensors[i];
        const int64_t bytes = charl__ckpt_bytes(t->dtype, &t->shape);

        CHARL_REQUIRE((is_base(t) || charl__ckpt_is_group(t->group)) && charl__text_is_name(t->name), CHARL_ERR_INVALID,
                      "checkpoint: '%s/%s' cannot be the name of a tensor", t->group ? t->group : "",
                      t->name ? t->name : "");
        CHARL_REQUIRE(bytes >= 0, CHARL_ERR_INVALID, "checkpoint: /%s/%s: impossible element type or shape", t->group,
                      t->name);
        CHARL_REQUIRE(bytes == 0 || t->data || is_base(t) || s->source || has_pieces(s, i), CHARL_ERR_INVALID,
                      "checkpoint: /%s/%s has no data", t->group, t->name);
    }
    CHARL_TRY(check_unique(c));
    return CHARL_OK;
}

static charl_checkpoint_tensor config_tensor(const char *name, const char *text)
{
    const char *data = text ? text : "";

    return (charl_checkpoint_tensor){
        .group = "config", .name = name, .dtype = CHARL_U8, .shape = {1, {(int64_t)strlen(data)}}, .data = data};
}

/* What a tensor adds to the file, at most: its values, which begin at a multiple of ALIGNED when
 * they are at least as many; the name, in a link and in the manifest; and object header, link and
 * the rest of the line of the manifest. */
static int64_t room_of(const charl_checkpoint_tensor *t, int64_t bytes)
{
    enum { ALIGNED = 4096, HEADER = 640 };
    const int64_t names = (int64_t)(strlen(t->group) + 2 * strlen(t->name));

    return bytes + (bytes >= ALIGNED ? ALIGNED : 0) + names + HEADER;
}

/* An upper bound of the file's size. The old file stays until the new one is in its place, so all
 * of this must be free. */
static int64_t estimate(const save *s)
{
    enum { STATE = 32 << 10, MAPPING = 4096 /* of a piece, at most: its boxes and the line of its part */ };
    const charl_checkpoint *c = s->c;
    const char *const config[2] = {c->config_text, c->config_resolved};
    int64_t bytes = STATE;

    for (int i = 0; i < 2; i++) {
        bytes += config[i] ? (int64_t)strlen(config[i]) : 0;
    }
    for (int64_t i = 0; i < c->n_tensors; i++) {
        const charl_checkpoint_tensor *t = &c->tensors[i];

        bytes += has_pieces(s, i) ? room_of(t, 0) + MAPPING * (s->parts->first[i + 1] - s->parts->first[i])
                                  : room_of(t, is_base(t) ? 0 : charl__ckpt_bytes(t->dtype, &t->shape));
    }
    for (int i = 0; i < s->n_schema; i++) {
        bytes += room_of(&s->schema[i], charl__ckpt_bytes(s->schema[i].dtype, &s->schema[i].shape));
    }
    return bytes;
}

static charl_status check_space(const char *path, int64_t needed)
{
    const int64_t left = charl__disk_free(path), most = charl__disk_largest();

    CHARL_REQUIRE(most < 0 || most >= needed, CHARL_ERR_DISK,
                  "%s: files are limited to %lld bytes, the checkpoint needs %lld; HINT raise the "
                  "limit: ulimit -f unlimited",
                  path, (long long)most, (long long)needed);
    CHARL_REQUIRE(left < 0 || left >= needed, CHARL_ERR_DISK,
                  "%s: not enough room on the disk: %lld bytes needed, %lld free", path, (long long)needed,
                  (long long)left);
    return CHARL_OK;
}

static charl_status create_file(save *s)
{
    CHARL_SCOPED(charl__h5_close) hid_t fapl = H5I_INVALID_HID;
    CHARL_SCOPED(charl__h5_close) hid_t fcpl = H5I_INVALID_HID;

    CHARL_TRY(charl__h5_driver_fapl(&s->io, &fapl));
    CHARL_H5_OPEN(CHARL_ERR_NOMEM, fcpl, H5Pcreate(H5P_FILE_CREATE), "HDF5 creation properties");
    CHARL_H5(CHARL_ERR_NOMEM, H5Pset_obj_track_times(fcpl, false), "HDF5 creation properties");
    CHARL_H5_OPEN(CHARL_ERR_NOMEM, s->gcpl, H5Pcreate(H5P_GROUP_CREATE), "HDF5 group properties");
    CHARL_H5(CHARL_ERR_NOMEM, H5Pset_obj_track_times(s->gcpl, false), "HDF5 group properties");
    /* All attributes in the object header, which has a checksum and needs no heap. */
    CHARL_H5(CHARL_ERR_NOMEM, H5Pset_attr_phase_change(s->gcpl, 64, 32), "HDF5 group properties");
    CHARL_H5_OPEN(CHARL_ERR_NOMEM, s->dcpl, H5Pcreate(H5P_DATASET_CREATE), "HDF5 dataset properties");
    CHARL_H5(CHARL_ERR_NOMEM, H5Pset_obj_track_times(s->dcpl, false), "HDF5 dataset properties");
    CHARL_H5(CHARL_ERR_NOMEM, H5Pset_fill_time(s->dcpl, H5D_FILL_TIME_NEVER), "HDF5 dataset properties");
    CHARL_H5(CHARL_ERR_NOMEM, H5Pset_layout(s->dcpl, H5D_CONTIGUOUS), "HDF5 dataset properties");
    CHARL_H5_OPEN(CHARL_ERR_DISK, s->file, H5Fcreate(s->temp, H5F_ACC_TRUNC, fcpl, fapl), "%s: cannot be created",
                  s->site.path);
    return CHARL_OK;
}

static charl_status make_group(save *s, const char *path)
{
    CHARL_SCOPED(charl__h5_close) hid_t group = H5I_INVALID_HID;

    CHARL_H5_OPEN(CHARL_ERR_DISK, group, H5Gcreate2(s->file, path, H5P_DEFAULT, s->gcpl, H5P_DEFAULT),
                  "%s: group %s cannot be created", s->site.path, path);
    return CHARL_OK;
}

static charl_status make_groups(save *s)
{
    static const char *const always[] = {"config", "model", "optim", "state", "data"};

    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++) {
        CHARL_TRY(make_group(s, always[i]));
    }
    if (s->n_schema > 0) {
        CHARL_TRY(make_group(s, CHARL__CKPT_SCHEMA));
    }
    for (int64_t i = 0; i < s->c->n_tensors; i++) {
        const char *group = s->c->tensors[i].group;

        if (!is_base(&s->c->tensors[i]) && (i == 0 || strcmp(group, s->c->tensors[i - 1].group) != 0) &&
            H5Lexists(s->file, group, H5P_DEFAULT) <= 0) {
            CHARL_TRY(make_group(s, group));
        }
    }
    return CHARL_OK;
}

static charl_status open_space(const save *s, const char *path, const charl_checkpoint_tensor *t, hid_t *out)
{
    hsize_t dims[CHARL_MAX_DIMS] = {0};

    for (int i = 0; i < t->shape.ndim; i++) {
        dims[i] = (hsize_t)t->shape.dim[i];
    }
    CHARL_H5_OPEN(CHARL_ERR_NOMEM, *out,
                  t->shape.ndim ? H5Screate_simple(t->shape.ndim, dims, NULL) : H5Screate(H5S_SCALAR),
                  "%s: shape of %s", s->site.path, path);
    return CHARL_OK;
}

/* Create dataset `path`, and leave it open in *out for its values and attributes. */
static charl_status create_data(save *s, const char *path, const charl_checkpoint_tensor *t, hid_t type, hid_t dcpl,
                                hid_t *out)
{
    CHARL_SCOPED(charl__h5_close) hid_t space = H5I_INVALID_HID;

    CHARL_TRY(open_space(s, path, t, &space));
    CHARL_H5_OPEN(CHARL_ERR_DISK, *out, H5Dcreate2(s->file, path, type, space, H5P_DEFAULT, dcpl, H5P_DEFAULT),
                  "%s: %s cannot be created", s->site.path, path);
    return CHARL_OK;
}

static charl_status write_data(save *s, const char *path, const charl_checkpoint_tensor *t, hid_t *out)
{
    CHARL_SCOPED(charl__h5_close) hid_t type = H5I_INVALID_HID;

    CHARL_TRY(charl__ckpt_type(t->dtype, &type));
    CHARL_TRY(create_data(s, path, t, type, s->dcpl, out));
    if (charl__ckpt_bytes(t->dtype, &t->shape) > 0) {
        CHARL_H5(CHARL_ERR_DISK, H5Dwrite(*out, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, t->data),
                 "%s: %s cannot be written", s->site.path, path);
    }
    CHARL_TRY(charl__h5_io_check(&s->io, s->site.path, s->needed));
    return CHARL_OK;
}

/* Map a box of tensor t to the elements of a piece from `from` on. */
static charl_status map_box(save *s, const char *path, const charl_checkpoint_tensor *t, const charl__ckpt_piece *p,
                            const charl__ckpt_box *box, int64_t from, hid_t dcpl)
{
    CHARL_SCOPED(charl__h5_close) hid_t to = H5I_INVALID_HID, source = H5I_INVALID_HID;
    const hsize_t all = (hsize_t)p->count, first = (hsize_t)from, n = (hsize_t)box->n;
    char name[32];

    snprintf(name, sizeof name, "/%d", p->number);
    CHARL_TRY(open_space(s, path, t, &to));
    CHARL_H5_OPEN(CHARL_ERR_NOMEM, source, H5Screate_simple(1, &all, NULL), "%s: shape of %s", s->site.path, path);
    CHARL_H5(CHARL_ERR_NOMEM, H5Sselect_hyperslab(source, H5S_SELECT_SET, &first, NULL, &n, NULL), "%s: piece of %s",
             s->site.path, path);
    if (t->shape.ndim > 0) {
        CHARL_H5(CHARL_ERR_NOMEM, H5Sselect_hyperslab(to, H5S_SELECT_SET, box->start, NULL, box->count, NULL),
                 "%s: piece of %s", s->site.path, path);
    }
    CHARL_H5(CHARL_ERR_NOMEM, H5Pset_virtual(dcpl, to, s->parts->part[p->part].name, name, source), "%s: piece of %s",
             s->site.path, path);
    return CHARL_OK;
}

/* A program that does not find a part shall see NaN, not zeros. */
static charl_status fill_absent(save *s, const charl_checkpoint_tensor *t, hid_t type, hid_t dcpl)
{
    static const float f32 = NAN;
    static const uint16_t f16 = 0x7e00, bf16 = 0x7fc0;
    const void *value = t->dtype == CHARL_F32    ? (const void *)&f32
                        : t->dtype == CHARL_F16  ? (const void *)&f16
                        : t->dtype == CHARL_BF16 ? (const void *)&bf16
                                                 : NULL;

    if (value) {
        CHARL_H5(CHARL_ERR_NOMEM, H5Pset_fill_value(dcpl, type, value), "%s: fill value", s->site.path);
    }
    return CHARL_OK;
}

/* Create the virtual dataset of tensor i, whose values are in the parts. */
static charl_status write_virtual(save *s, const char *path, const charl_checkpoint_tensor *t, int64_t i, hid_t *out)
{
    CHARL_SCOPED(charl__h5_close) hid_t type = H5I_INVALID_HID;
    CHARL_SCOPED(charl__h5_close) hid_t dcpl = H5I_INVALID_HID;

    CHARL_TRY(charl__ckpt_type(t->dtype, &type));
    CHARL_H5_OPEN(CHARL_ERR_NOMEM, dcpl, H5Pcreate(H5P_DATASET_CREATE), "HDF5 dataset properties");
    CHARL_H5(CHARL_ERR_NOMEM, H5Pset_obj_track_times(dcpl, false), "HDF5 dataset properties");
    CHARL_TRY(fill_absent(s, t, type, dcpl));
    for (int64_t k = s->parts->first[i]; k < s->parts->first[i + 1]; k++) {
        const charl__ckpt_piece *p = &s->parts->piece[k];

        for (int64_t from = 0; from < p->count;) {
            const charl__ckpt_box box = charl__ckpt_box_at(&t->shape, p->from + from, p->from + p->count);

            CHARL_TRY(map_box(s, path, t, p, &box, from, dcpl));
            from += box.n;
        }
    }
    CHARL_TRY(create_data(s, path, t, type, dcpl, out));
    CHARL_TRY(charl__h5_io_check(&s->io, s->site.path, s->needed));
    return CHARL_OK;
}

/* Write a tensor and its line of the manifest. i: the index of one of the tensors; -1: it is none of them. */
static charl_status write_tensor(save *s, const charl_checkpoint_tensor *given, int64_t i)
{
    CHARL_SCOPED(charl__h5_close) hid_t dataset = H5I_INVALID_HID;
    charl_checkpoint_tensor t = *given;
    const size_t bytes = (size_t)charl__ckpt_bytes(t.dtype, &t.shape);
    const bool in_parts = i >= 0 && has_pieces(s, i);
    CHARL_SCOPED(charl__text_fini) charl__text path = {0};
    CHARL_SCOPED_FREE void *read = NULL;
    char text[CHARL__SHA256_TEXT];

    if (i >= 0 && s->source) {
        CHARL_TRY(charl__alloc(bytes + 1, &read));
        CHARL_TRY(charl_checkpoint_read(s->source, charl_checkpoint_get_tensor(s->source, i), read));
        t.data = read;
    }
    t.crc32c =
        in_parts ? charl__ckpt_parts_crc32c(s->parts, i, charl_dtype_size(t.dtype)) : charl__crc32c(0, t.data, bytes);
    CHARL_TRY(charl__ckpt_line_format(&s->manifest, &t));
    CHARL_TRY(charl__text_printf(&path, "/%s/%s", t.group, t.name));
    CHARL_TRY(in_parts ? write_virtual(s, charl__text_string(&path), &t, i, &dataset)
                       : write_data(s, charl__text_string(&path), &t, &dataset));
    CHARL_TRY(charl__h5_set_u32(&s->site, dataset, "crc32c", t.crc32c));
    CHARL_TRY(charl__h5_set_u32(&s->site, dataset, "index", s->line));
    if (strcmp(t.group, "config") == 0) {
        CHARL_TRY(charl__h5_set_text(&s->site, dataset, "sha256", charl__sha256_text(t.data, bytes, text)));
    }
    s->line++;
    return CHARL_OK;
}

/* Write lines of text with their SHA-256. */
static charl_status write_lines(save *s, const char *path, const char *data, size_t length)
{
    CHARL_SCOPED(charl__h5_close) hid_t dataset = H5I_INVALID_HID;
    const charl_checkpoint_tensor t = {.dtype = CHARL_U8, .shape = {1, {(int64_t)length}}, .data = data};
    char text[CHARL__SHA256_TEXT];

    CHARL_TRY(write_data(s, path, &t, &dataset));
    CHARL_TRY(charl__h5_set_text(&s->site, dataset, "sha256", charl__sha256_text(data, length, text)));
    return CHARL_OK;
}

static charl_status write_parts(save *s)
{
    CHARL_SCOPED(charl__text_fini) charl__text list = {0};

    for (int i = 0; s->parts && i < s->parts->n; i++) {
        CHARL_TRY(charl__text_printf(&list, "%s %s\n", s->parts->part[i].name, s->parts->part[i].sha256));
    }
    return s->parts ? write_lines(s, "/parts", list.data, list.length) : CHARL_OK;
}

static charl_status write_field(save *s, const charl__ckpt_field *f)
{
    const charl_checkpoint_state *state = &s->c->state;
    CHARL_SCOPED(charl__h5_close) hid_t group = H5I_INVALID_HID;

    CHARL_H5_OPEN(CHARL_ERR_DISK, group, H5Gopen2(s->file, f->group, H5P_DEFAULT), "%s: group %s", s->site.path,
                  f->group);
    switch (f->kind) {
    case CHARL__CKPT_I64:
        CHARL_TRY(charl__h5_set_i64(&s->site, group, f->name, charl__ckpt_get_i64(state, f)));
        break;
    case CHARL__CKPT_F64:
        CHARL_TRY(charl__h5_set_f64(&s->site, group, f->name, charl__ckpt_get_f64(state, f)));
        break;
    case CHARL__CKPT_STRING:
        CHARL_TRY(charl__h5_set_text(&s->site, group, f->name, charl__ckpt_get_string(state, f)));
        break;
    }
    return CHARL_OK;
}

static bool is_set(const charl_checkpoint_state *state, const charl__ckpt_field *f)
{
    return f->kind == CHARL__CKPT_STRING ? charl__ckpt_get_string(state, f)[0] != '\0'
                                         : charl__ckpt_get_i64(state, f) != 0;
}

static charl_status write_attributes(save *s)
{
    CHARL_TRY(charl__h5_set_text(&s->site, s->file, "charl_format", "checkpoint"));
    CHARL_TRY(charl__h5_set_u32(&s->site, s->file, "charl_version", version_of(s->c, s->parts)));
    for (int i = 0; i < charl__ckpt_n_fields; i++) {
        const charl__ckpt_field *f = &charl__ckpt_fields[i];

        if (!f->optional || is_set(&s->c->state, f)) {
            CHARL_TRY(write_field(s, f));
        }
    }
    CHARL_TRY(charl__h5_set_u32(&s->site, s->file, "complete", 1));
    return CHARL_OK;
}

/* Close the file. The driver's error outranks `st`, what HDF5 made of it. */
static charl_status close_file(save *s, charl_status st)
{
    bool closed;

    charl__h5_close(&s->dcpl);
    charl__h5_close(&s->gcpl);
    closed = charl__h5_close(&s->file);
    if (s->io.error) {
        return charl__h5_io_check(&s->io, s->site.path, s->needed);
    }
    if (st == CHARL_OK && !closed) {
        return charl__h5_error_set(CHARL_ERR_DISK, __FILE__, __LINE__, __func__, "%s: cannot be closed", s->site.path);
    }
    return st;
}

static charl_status write_checkpoint(save *s)
{
    const charl_checkpoint_tensor text = config_tensor("text", s->c->config_text);
    const charl_checkpoint_tensor resolved = config_tensor("resolved", s->c->config_resolved);

    CHARL_TRY(make_groups(s));
    CHARL_TRY(write_tensor(s, &text, -1));
    CHARL_TRY(write_tensor(s, &resolved, -1));
    for (int i = 0; i < s->n_schema; i++) {
        CHARL_TRY(write_tensor(s, &s->schema[i], -1));
    }
    for (int64_t i = 0; i < s->c->n_tensors; i++) {
        if (is_base(&s->c->tensors[i])) { /* its line of the manifest only */
            CHARL_TRY(charl__ckpt_line_format(&s->manifest, &s->c->tensors[i]));
            s->line++;
        } else {
            CHARL_TRY(write_tensor(s, &s->c->tensors[i], i));
        }
    }
    CHARL_TRY(write_parts(s));
    CHARL_TRY(write_lines(s, "/manifest", s->manifest.data, s->manifest.length));
    CHARL_TRY(write_attributes(s));
    return CHARL_OK;
}

/* Write the whole file and close it. */
static charl_status write_file(save *s)
{
    CHARL_H5_SCOPE;
    charl_status st = create_file(s);

    return close_file(s, st == CHARL_OK ? write_checkpoint(s) : st);
}

static charl_status verify_written(const char *temp, void *user)
{
    charl_status st = CHARL_OK;
    const save *s = user;
    char text[CHARL__SHA256_TEXT];

    charl__sha256_text(s->manifest.data, s->manifest.length, text);
    st = charl__checkpoint_verify(temp, text);
    if (st == CHARL_ERR_CHECKPOINT) {
        CHARL_FAIL(CHARL_ERR_DISK, "read back after writing: %s", charl_error_message());
    }
    CHARL_TRY(st);
    return CHARL_OK;
}

/* Append the line with the hash of the file. */
static charl_status seal(charl__commit *commit)
{
    char line[CHARL__CKPT_SEAL];
    const off_t bytes = lseek(commit->fd, 0, SEEK_END);

    CHARL_REQUIRE(bytes > 0, CHARL_ERR_DISK, "%s: its size cannot be told", commit->final);
    CHARL_TRY(charl__ckpt_seal(commit->final, commit->fd, (int64_t)bytes, line));
    return charl__commit_write(commit, line, sizeof line - 1);
}

/* Create the file that replaces `path`. */
static charl_status begin(save *s, charl__commit *commit, const char *path)
{
    CHARL_TRY(check_space(path, s->needed));
    CHARL_TRY(charl__commit_begin(path, commit));
    s->io.fd = commit->fd;
    s->temp = commit->temp;
    s->site = (charl__h5_site){CHARL_ERR_DISK, path};
    return CHARL_OK;
}

static charl_status save_to(const char *path, const charl_checkpoint *c, const charl__ckpt_parts *parts,
                            charl_checkpoint_reader *source)
{
    charl_status st = CHARL_OK;
    charl__commit commit = {.fd = -1};
    charl_checkpoint copy = *c;
    save s = {.c = &copy,
              .parts = parts,
              .source = source,
              .file = H5I_INVALID_HID,
              .dcpl = H5I_INVALID_HID,
              .gcpl = H5I_INVALID_HID};

    if (!copy.state.writer) {
        copy.state.writer = "charl " CHARL_VERSION;
    }
    CHARL_TRY_CLEANUP(check(&s));
    if (copy.schema) {
        CHARL_TRY_CLEANUP(charl__schema_check(copy.schema, path, CHARL_ERR_INVALID));
        CHARL_TRY_CLEANUP(charl__ckpt_schema_tensors(copy.schema, &s.description, s.schema, &s.n_schema));
    }
    s.needed = estimate(&s);
    CHARL_TRY_CLEANUP(begin(&s, &commit, path));
    CHARL_TRY_CLEANUP(write_file(&s));
    CHARL_TRY_CLEANUP(parts ? seal(&commit) : CHARL_OK);
    CHARL_TRY_CLEANUP(charl__commit_end(&commit, verify_written, &s));
cleanup:
    charl__commit_fini(&commit);
    charl__text_fini(&s.manifest);
    charl__text_fini(&s.description);
    return st;
}

charl_status charl_checkpoint_save(const char *path, const charl_checkpoint *c)
{
    CHARL_GIVEN(path, c);
    return save_to(path, c, NULL, NULL);
}

charl_status charl__ckpt_save_parts(const char *path, const charl_checkpoint *c, const charl__ckpt_parts *parts)
{
    return save_to(path, c, parts, NULL);
}

charl_status charl_checkpoint_pack(const char *path, const char *out)
{
    CHARL_GIVEN(path, out);
    CHARL_SCOPED(charl__checkpoint_left) charl_checkpoint_reader *r = NULL;
    CHARL_SCOPED_FREE charl_checkpoint_tensor *tensor = NULL;
    charl_checkpoint_info info;
    charl_checkpoint c;
    const char *part = path;

    CHARL_TRY(charl_checkpoint_open(path, &r));
    for (int i = 0; part; part = charl__checkpoint_part(r, i++)) {
        CHARL_TRY(charl__commit_check_inputs(out, &part, 1));
    }
    info = charl_checkpoint_get_info(r);
    c = (charl_checkpoint){.state = *info.state,
                           .config_text = info.config_text,
                           .config_resolved = info.config_resolved,
                           .schema = info.schema,
                           .n_tensors = info.n_tensors};
    CHARL_TRY(charl__alloc_array(c.n_tensors, sizeof *tensor, &tensor));
    for (int64_t i = 0; i < c.n_tensors; i++) {
        const charl_checkpoint_tensor *t = charl_checkpoint_get_tensor(r, i);

        tensor[i] = *t;
        tensor[i].group = charl_checkpoint_is_in_base(r, t) ? CHARL_CHECKPOINT_BASE : t->group;
    }
    c.tensors = tensor;
    return save_to(out, &c, NULL, r);
}

/* ------------------------------------------------------------------ parts */

/* The pieces of a part, which are borrowed. */
typedef struct shares {
    const charl_checkpoint_tensor *tensor; /* [n] */
    int64_t n;
    const charl__ckpt_share *share; /* [n_shares] */
    int64_t n_shares;
    const char *sha256; /* of the manifest */
} shares;

static charl_checkpoint_tensor list_of(const shares *all, const charl__ckpt_share *h)
{
    charl_checkpoint_tensor t = all->tensor[h->tensor];

    t.shape = (charl_shape){1, {h->count}};
    t.data = h->data;
    return t;
}

/* The manifest of the part, and how large it becomes. */
static charl_status describe(save *s, const shares *all)
{
    s->needed = 4096;
    for (const charl__ckpt_share *h = all->share; h < all->share + all->n_shares; h++) {
        const charl_checkpoint_tensor t = list_of(all, h);
        const size_t bytes = (size_t)charl__ckpt_bytes(t.dtype, &t.shape);
        charl__ckpt_piece p = {.from = h->from, .count = h->count, .crc32c = charl__crc32c(0, h->data, bytes)};

        if (h->count == charl_shape_count(&all->tensor[h->tensor].shape)) {
            charl__sha256_text(h->data, bytes, p.sha256);
        }
        CHARL_TRY(charl__ckpt_piece_format(&s->manifest, &t, &p));
        s->needed += room_of(&t, (int64_t)bytes);
        charl__progress_made();
    }
    return CHARL_OK;
}

static charl_status write_pieces(save *s, const shares *all)
{
    for (int64_t i = 0; i < all->n_shares; i++) {
        const charl_checkpoint_tensor t = list_of(all, &all->share[i]);
        CHARL_SCOPED(charl__h5_close) hid_t dataset = H5I_INVALID_HID;
        char name[32];

        snprintf(name, sizeof name, "/%lld", (long long)i);
        CHARL_TRY(write_data(s, name, &t, &dataset));
    }
    CHARL_TRY(write_lines(s, "/manifest", s->manifest.data, s->manifest.length));
    CHARL_TRY(charl__h5_set_text(&s->site, s->file, "charl_format", CHARL__CKPT_PART_FORMAT));
    CHARL_TRY(charl__h5_set_u32(&s->site, s->file, "charl_version", 4));
    return charl__h5_set_u32(&s->site, s->file, "complete", 1);
}

static charl_status write_part(save *s, const shares *all)
{
    CHARL_H5_UNSHARED;
    charl_status st = create_file(s);

    return close_file(s, st == CHARL_OK ? write_pieces(s, all) : st);
}

static charl_status verify_part(const char *temp, void *user)
{
    CHARL_H5_UNSHARED;
    const shares *all = user;
    const charl_status st = charl__ckpt_part_verify(temp, all->sha256, all->tensor, all->n);

    CHARL_REQUIRE(st != CHARL_ERR_CHECKPOINT, CHARL_ERR_DISK, "read back after writing: %s", charl_error_message());
    return st;
}

charl_status charl__ckpt_part_save(const char *path, const charl_checkpoint_tensor *tensor, int64_t n,
                                   const charl__ckpt_share *share, int64_t n_shares, char sha256[CHARL__SHA256_TEXT])
{
    charl_status st = CHARL_OK;
    charl__commit commit = {.fd = -1};
    shares all = {tensor, n, share, n_shares, sha256};
    save s = {.file = H5I_INVALID_HID, .dcpl = H5I_INVALID_HID, .gcpl = H5I_INVALID_HID};
    charl__text line = {0};
    char *dir = NULL, *name = NULL;

    sha256[0] = '\0';
    CHARL_TRY_CLEANUP(describe(&s, &all));
    if (s.manifest.length > 0) {
        charl__sha256_text(s.manifest.data, s.manifest.length, sha256);
        CHARL_TRY_CLEANUP(charl__ckpt_add_part(&line, path, sha256));
        *strchr(line.data, ' ') = '\0';
        CHARL_TRY_CLEANUP(charl__commit_dir(path, &dir));
        CHARL_TRY_CLEANUP(charl__commit_join(dir, line.data, &name));
        CHARL_TRY_CLEANUP(begin(&s, &commit, name));
        CHARL_TRY_CLEANUP(write_part(&s, &all));
        CHARL_TRY_CLEANUP(charl__commit_end(&commit, verify_part, &all));
    }
cleanup:
    charl__commit_fini(&commit);
    charl__text_fini(&s.manifest);
    charl__text_fini(&line);
    charl_free(dir);
    charl_free(name);
    return st;
}
