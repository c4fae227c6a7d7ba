/* Tables and text of the checkpoint format. */
#include "io/checkpoint/checkpoint_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "io/h5.h"

#define FIELD(g, n, k, member, low, prov)                                                                              \
    {                                                                                                                  \
        .group = (g), .name = (n), .kind = CHARL__CKPT_##k, .offset = offsetof(charl_checkpoint_state, member),        \
        .lowest = (low), .provenance = (prov)                                                                          \
    }

#define OPTIONAL(g, n, member, prov)                                                                                   \
    {                                                                                                                  \
        .group = (g), .name = (n), .kind = CHARL__CKPT_I64, .offset = offsetof(charl_checkpoint_state, member),        \
        .provenance = (prov), .optional = true                                                                         \
    }

#define OPTIONAL_TEXT(g, n, member)                                                                                    \
    {                                                                                                                  \
        .group = (g), .name = (n), .kind = CHARL__CKPT_STRING, .offset = offsetof(charl_checkpoint_state, member),     \
        .provenance = true, .optional = true                                                                           \
    }

const charl__ckpt_field charl__ckpt_fields[] = {
    FIELD("/", "writer", STRING, writer, 0, true),
    FIELD("/", "step", I64, step, 0, false),
    FIELD("/state", "epoch", I64, epoch, 0, false),
    FIELD("/state", "samples_in_epoch", I64, samples_in_epoch, 0, false),
    FIELD("/state", "samples_seen", I64, samples_seen, 0, false),
    FIELD("/state", "seed", I64, seed, INT64_MIN, false),
    FIELD("/state", "rng", STRING, rng, 0, false),
    FIELD("/state", "lr_step", I64, lr_step, 0, false),
    FIELD("/state", "loss_scale", F64, loss_scale, 0, false),
    FIELD("/state", "slices", I64, slices, 1, false),
    FIELD("/state", "batch_size", I64, batch_size, 1, false),
    FIELD("/state", "best_metric", F64, best_metric, 0, false),
    OPTIONAL("/state", "best_step", best_step, false),
    OPTIONAL("/state", "stale_evals", stale_evals, false),
    OPTIONAL("/state", "skipped_steps", skipped_steps, false),
    OPTIONAL("/state", "overflowed_steps", overflowed_steps, false),
    OPTIONAL("/state", "spike_steps", spike_steps, false),
    OPTIONAL("/state", "audited_step", audited_step, true),
    FIELD("/state", "world_size", I64, world_size, 1, true),
    FIELD("/state", "device", STRING, device, 0, true),
    FIELD("/state", "driver", STRING, driver, 0, true),
    FIELD("/data", "path", STRING, data_path, 0, false),
    FIELD("/data", "n_samples", I64, data_n_samples, 0, false),
    FIELD("/data", "content_id", STRING, data_content_id, 0, false),
    FIELD("/data", "shuffle", STRING, data_shuffle, 0, false),
    FIELD("/optim", "kind", STRING, optim_kind, 0, false),
    FIELD("/optim", "t", I64, optim_t, 0, false),
    OPTIONAL_TEXT("/state", "run_id", run_id),
};

const int charl__ckpt_n_fields = (int)(sizeof charl__ckpt_fields / sizeof charl__ckpt_fields[0]);

static const void *member(const charl_checkpoint_state *s, const charl__ckpt_field *f)
{
    return (const char *)s + f->offset;
}

int64_t charl__ckpt_get_i64(const charl_checkpoint_state *s, const charl__ckpt_field *f)
{
    return *(const int64_t *)member(s, f);
}

double charl__ckpt_get_f64(const charl_checkpoint_state *s, const charl__ckpt_field *f)
{
    return *(const double *)member(s, f);
}

const char *charl__ckpt_get_string(const charl_checkpoint_state *s, const charl__ckpt_field *f)
{
    const char *text = *(const char *const *)member(s, f);

    return text ? text : "";
}

/* IEEE binary16, which HDF5 has no ready-made type for. */
static herr_t make_f16(hid_t type)
{
    if (H5Tset_fields(type, 15, 10, 5, 0, 10) < 0 || H5Tset_size(type, 2) < 0) {
        return -1;
    }
    return H5Tset_ebias(type, 15);
}

charl_status charl__ckpt_type(charl_dtype dtype, hid_t *out)
{
    CHARL_H5_SCOPE;
    CHARL_SCOPED(charl__h5_close) hid_t type = H5I_INVALID_HID;
    hid_t base = H5I_INVALID_HID;

    *out = H5I_INVALID_HID;
    switch (dtype) {
    case CHARL_F32:
    case CHARL_F16:
        base = H5T_IEEE_F32LE;
        break;
    case CHARL_BF16:
    case CHARL_U16:
        base = H5T_STD_U16LE;
        break;
    case CHARL_U8:
        base = H5T_STD_U8LE;
        break;
    case CHARL_U32:
        base = H5T_STD_U32LE;
        break;
    case CHARL_I32:
        base = H5T_STD_I32LE;
        break;
    case CHARL_I64:
        base = H5T_STD_I64LE;
        break;
    case CHARL_DTYPE_COUNT:
        break;
    }
    CHARL_H5_OPEN(CHARL_ERR_NOMEM, type, H5Tcopy(base), "HDF5 type of %s", charl_dtype_name(dtype));
    if (dtype == CHARL_F16) {
        CHARL_H5(CHARL_ERR_NOMEM, make_f16(type), "HDF5 type of f16");
    }
    *out = type;
    type = H5I_INVALID_HID;
    return CHARL_OK;
}

bool charl__ckpt_is_group(const char *group)
{
    if (!group) {
        return false;
    }
    if (strncmp(group, "optim/", 6) == 0) {
        return charl__text_is_name(group + 6) && strlen(group) < 200;
    }
    return strcmp(group, "model") == 0 || strcmp(group, "ema") == 0 || strcmp(group, "user") == 0;
}

int64_t charl__ckpt_bytes(charl_dtype dtype, const charl_shape *shape)
{
    int64_t bytes;

    if ((unsigned)dtype >= CHARL_DTYPE_COUNT || shape->ndim < 0 || shape->ndim > CHARL_MAX_DIMS) {
        return -1;
    }
    bytes = (int64_t)charl_dtype_size(dtype);
    for (int i = 0; i < shape->ndim; i++) {
        if (shape->dim[i] < 0 || (shape->dim[i] > 0 && bytes > INT64_MAX / shape->dim[i])) {
            return -1;
        }
        bytes *= shape->dim[i];
    }
    return bytes;
}

charl_status charl__ckpt_shape_format(charl__text *out, const charl_shape *shape)
{
    for (int i = 0; i < shape->ndim; i++) {
        CHARL_TRY(charl__text_printf(out, "%s%lld", i ? "x" : "", (long long)shape->dim[i]));
    }
    if (shape->ndim == 0) {
        CHARL_TRY(charl__text_printf(out, "scalar"));
    }
    return CHARL_OK;
}

charl_status charl__ckpt_line_format(charl__text *out, const charl_checkpoint_tensor *t)
{
    CHARL_TRY(charl__text_printf(out, "/%s/%s %s ", t->group, t->name, charl_dtype_name(t->dtype)));
    CHARL_TRY(charl__ckpt_shape_format(out, &t->shape));
    CHARL_TRY(charl__text_printf(out, " %lld %08lx\n", (long long)charl__ckpt_bytes(t->dtype, &t->shape),
                                 (unsigned long)t->crc32c));
    return CHARL_OK;
}

/* A decimal count without sign or leading zero, up to `stop`; false otherwise. */
static bool parse_count(const char *s, const char *stop, int64_t *out)
{
    int64_t v = 0;

    if (s == stop || (s[0] == '0' && stop - s > 1)) {
        return false;
    }
    for (; s < stop; s++) {
        if (*s < '0' || *s > '9' || v > (INT64_MAX - (*s - '0')) / 10) {
            return false;
        }
        v = 10 * v + (*s - '0');
    }
    *out = v;
    return true;
}

bool charl__ckpt_shape_parse(const char *s, charl_shape *shape)
{
    *shape = (charl_shape){0};
    if (strcmp(s, "scalar") == 0) {
        return true;
    }
    while (shape->ndim < CHARL_MAX_DIMS) {
        const size_t length = strcspn(s, "x");

        if (!parse_count(s, s + length, &shape->dim[shape->ndim++])) {
            return false;
        }
        if (!s[length]) {
            return true;
        }
        s += length + 1;
    }
    return false;
}

bool charl__ckpt_dtype_parse(const char *s, charl_dtype *out)
{
    for (int i = 0; i < CHARL_DTYPE_COUNT; i++) {
        if (strcmp(s, charl_dtype_name((charl_dtype)i)) == 0) {
            *out = (charl_dtype)i;
            return true;
        }
    }
    return false;
}

static bool parse_crc(const char *s, uint32_t *out)
{
    if (strlen(s) != 8 || strspn(s, "0123456789abcdef") != 8) {
        return false;
    }
    *out = (uint32_t)strtoul(s, NULL, 16);
    return true;
}

bool charl__ckpt_line_parse(char *line, charl_checkpoint_tensor *t)
{
    char *field[5];
    int64_t bytes = 0;
    char *slash;

    for (int i = 0; i < 5; i++) {
        field[i] = line;
        line = strchr(line, ' ');
        if ((line != NULL) != (i < 4)) {
            return false;
        }
        if (line) {
            *line++ = '\0';
        }
    }
    slash = strrchr(field[0], '/');
    if (field[0][0] != '/' || slash == field[0]) {
        return false;
    }
    *slash = '\0';
    *t = (charl_checkpoint_tensor){.group = field[0] + 1, .name = slash + 1};
    return charl__text_is_name(t->name) && charl__ckpt_dtype_parse(field[1], &t->dtype) &&
           charl__ckpt_shape_parse(field[2], &t->shape) && parse_count(field[3], field[3] + strlen(field[3]), &bytes) &&
           bytes == charl__ckpt_bytes(t->dtype, &t->shape) && parse_crc(field[4], &t->crc32c);
}

charl_status charl__ckpt_piece_format(charl__text *out, const charl_checkpoint_tensor *t, const charl__ckpt_piece *p)
{
    const charl_checkpoint_tensor list = {
        .group = t->group, .name = t->name, .dtype = t->dtype, .shape = {1, {p->count}}, .crc32c = p->crc32c};

    CHARL_TRY(charl__text_printf(out, "%lld %s ", (long long)p->from, p->sha256[0] ? p->sha256 : "-"));
    return charl__ckpt_line_format(out, &list);
}

bool charl__ckpt_piece_parse(char *line, charl_checkpoint_tensor *t, charl__ckpt_piece *p)
{
    char *sha = strchr(line, ' '), *rest = sha ? strchr(sha + 1, ' ') : NULL;

    if (!rest || !parse_count(line, sha, &p->from)) {
        return false;
    }
    *rest++ = '\0';
    sha++;
    p->sha256[0] = '\0';
    if (strcmp(sha, "-") != 0) {
        if (strlen(sha) != CHARL__SHA256_TEXT - 1 || sha[strspn(sha, "0123456789abcdef")]) {
            return false;
        }
        memcpy(p->sha256, sha, CHARL__SHA256_TEXT);
    }
    if (!charl__ckpt_line_parse(rest, t) || t->shape.ndim != 1) {
        return false;
    }
    p->count = t->shape.dim[0];
    p->crc32c = t->crc32c;
    return true;
}

charl__ckpt_box charl__ckpt_box_at(const charl_shape *shape, int64_t from, int64_t to)
{
    charl__ckpt_box b = {.n = 1};
    int64_t stride = charl_shape_count(shape), at = from;
    bool found = false;

    for (int d = 0; d < shape->ndim; d++) {
        const int64_t row = stride / shape->dim[d]; /* elements of one index of dimension d */
        const int64_t left = shape->dim[d] - at / row, rows = (to - from) / row;

        b.start[d] = (hsize_t)(at / row);
        b.count[d] = 1;
        if (found) { /* whole, after the dimension of which there are several */
            b.count[d] = (hsize_t)shape->dim[d];
        } else if (at % row == 0 && rows > 0) {
            b.n = (rows < left ? rows : left) * row;
            b.count[d] = (hsize_t)(b.n / row);
            found = true;
        }
        at %= row;
        stride = row;
    }
    return b;
}
