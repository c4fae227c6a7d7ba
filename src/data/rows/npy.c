#include "data/rows/npy.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/utf8.h"
#include "io/image_layout.h"
#include "io/kind.h"
#include "io/tensors/npy_header.h"

enum { MAX_ROW = 1 << 28 };

static bool is_swapped(bool big_endian)
{
    return big_endian != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
}

static charl_status set_shape(charl__npy *a, const char *path, const charl_shape *shape)
{
    int64_t bytes = (int64_t)a->size;

    CHARL_REQUIRE(shape->ndim >= 1, CHARL_ERR_DATA, "%s: an array without dimensions", path);
    for (int i = 0; i < shape->ndim; i++) {
        const int64_t extent = shape->dim[i];

        CHARL_REQUIRE(extent > 0, CHARL_ERR_DATA, "%s: the shape must have 1 to %d positive extents", path,
                      CHARL_MAX_DIMS);
        if (i > 0) {
            CHARL_REQUIRE(extent <= MAX_ROW / bytes, CHARL_ERR_DATA, "%s: rows of more than %d bytes", path, MAX_ROW);
            a->item.dim[i - 1] = extent;
            bytes *= extent;
        }
    }
    a->rows = shape->dim[0];
    a->item.ndim = shape->ndim - 1;
    a->per_row = charl_shape_count(&a->item);
    CHARL_REQUIRE(a->rows <= INT64_MAX / bytes, CHARL_ERR_DATA, "%s: the extents overflow", path);
    return CHARL_OK;
}

const char *const charl__usual_arrays[][2] = {{"x", "y"},
                                              {"X", "y"},
                                              {"X", "Y"},
                                              {"x_train", "y_train"},
                                              {"X_train", "y_train"},
                                              {"train_images", "train_labels"},
                                              {"images", "labels"},
                                              {"data", "labels"},
                                              {"data", "targets"},
                                              {"data", "target"},
                                              {"features", "labels"},
                                              {"arr_0", "arr_1"},
                                              {NULL, NULL}};

/* The requested array of an archive. */
static charl_status choose_member(const char *path, const charl__zip_member *members, int64_t n, const char *name,
                                  bool targets, const charl__zip_member **out)
{
    char list[512] = "";

    *out = NULL;
    for (int k = 0; !*out && (name ? k == 0 : charl__usual_arrays[k][0] != NULL); k++) {
        const charl__zip_member *found[2] = {NULL, NULL};

        for (int64_t i = 0; i < n; i++) {
            const size_t length = strlen(members[i].name) - (charl__ends_in(members[i].name, ".npy") ? 4 : 0);

            for (int j = 0; j < 2; j++) {
                const char *want = name ? name : charl__usual_arrays[k][j];

                found[j] =
                    strlen(want) == length && memcmp(want, members[i].name, length) == 0 ? &members[i] : found[j];
            }
        }
        *out = found[0] && (found[1] || !targets) ? found[name ? 0 : targets] : NULL;
    }
    for (int64_t i = 0; i < n && strlen(list) + sizeof members->name < sizeof list; i++) {
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%.*s", i > 0 ? ", " : "",
                 (int)(strlen(members[i].name) - (charl__ends_in(members[i].name, ".npy") ? 4 : 0)), members[i].name);
    }
    CHARL_REQUIRE(*out, CHARL_ERR_DATA,
                  "%s: which arrays are samples and targets is not known; it has %s; HINT --x NAME --y NAME", path,
                  list);
    return CHARL_OK;
}

static charl_status open_source(charl__npy *a, const char *path, const char *name, bool targets)
{
    const charl__kind *kind = charl__kind_of(path);
    const charl__zip_member *member = NULL;
    CHARL_SCOPED_FREE charl__zip_member *members = NULL;
    int64_t n = 0;

    CHARL_TRY(charl__kind_expect(path, CHARL__KIND_NPY | CHARL__KIND_NPZ | CHARL__KIND_IDX,
                                 "an array (.npy, .npz or IDX)", CHARL_ERR_DATA));
    if (kind && !(kind->as & CHARL__KIND_NPY) && (kind->as & CHARL__KIND_NPZ) && kind->as != ~0U) {
        CHARL_TRY(charl__zip_list(path, CHARL_ERR_DATA, &members, &n));
        CHARL_TRY(choose_member(path, members, n, name, targets, &member));
        CHARL_TRY(charl__source_open_member(path, member, &a->source));
    } else {
        CHARL_TRY(charl__source_open(path, &a->source));
    }
    return CHARL_OK;
}

static charl_status read_npy(charl__npy *a, const char *path, const unsigned char head[CHARL__NPY_HEAD])
{
    unsigned char length[4] = {0};
    CHARL_SCOPED_FREE char *literal = NULL;
    charl__npy_header h;
    const int width = charl__npy_length_bytes(head);
    size_t bytes;

    CHARL_REQUIRE(width > 0, CHARL_ERR_DATA, "%s: not an array of NumPy", path);
    CHARL_TRY(charl__source_exact(a->source, length, (size_t)width, "the .npy header"));
    bytes = length[0] | (size_t)length[1] << 8 | (size_t)length[2] << 16 | (size_t)length[3] << 24;
    CHARL_REQUIRE(bytes <= CHARL__NPY_LONGEST, CHARL_ERR_DATA, "%s: header of %zu bytes", path, bytes);
    CHARL_TRY(charl__alloc(bytes + 1, &literal));
    CHARL_TRY(charl__source_exact(a->source, literal, bytes, "the .npy header"));
    CHARL_TRY(charl__npy_parse(path, CHARL_ERR_DATA, literal, &h));
    CHARL_REQUIRE(!h.fortran, CHARL_ERR_DATA, "%s: Fortran order; HINT numpy.ascontiguousarray(x)", path);
    a->size = (size_t)h.size;
    if (h.type == 'S' || h.type == 'U') {
        a->text = h.type;
    } else {
        a->element = (charl__element){h.type == 'f'   ? CHARL__ELEMENT_FLOAT
                                      : h.type == 'i' ? CHARL__ELEMENT_SIGNED
                                                      : CHARL__ELEMENT_UNSIGNED,
                                      (int)h.size, h.swapped};
    }
    return set_shape(a, path, &h.shape);
}

/* MNIST's header: 0, 0, the type, the number of extents, and the extents in big-endian order. */
static charl_status read_idx(charl__npy *a, const char *path, const unsigned char head[CHARL__NPY_HEAD])
{
    static const charl__element types[] = {{CHARL__ELEMENT_UNSIGNED, 1, false}, {CHARL__ELEMENT_SIGNED, 1, false},
                                           {CHARL__ELEMENT_SIGNED, 0, false},   {CHARL__ELEMENT_SIGNED, 2, false},
                                           {CHARL__ELEMENT_SIGNED, 4, false},   {CHARL__ELEMENT_FLOAT, 4, false},
                                           {CHARL__ELEMENT_FLOAT, 8, false}};
    const int type = head[2] - 8;
    unsigned char p[4];

    CHARL_REQUIRE(type >= 0 && type < (int)(sizeof types / sizeof *types) && types[type].bytes > 0, CHARL_ERR_DATA,
                  "%s: IDX elements of type 0x%02x, which is none", path, head[2]);
    a->element = types[type];
    a->size = (size_t)types[type].bytes;
    a->element.swapped = a->size > 1 && is_swapped(true);
    a->per_row = 1;
    a->item.ndim = head[3] - 1;
    CHARL_REQUIRE(a->item.ndim >= 0 && a->item.ndim < CHARL_MAX_DIMS, CHARL_ERR_DATA, "%s: IDX with %d dimensions",
                  path, head[3]);
    memcpy(p, head + 4, sizeof p);
    for (int i = 0; i <= a->item.ndim; i++) {
        int64_t extent;

        if (i > 0) {
            CHARL_TRY(charl__source_exact(a->source, p, sizeof p, "the IDX header"));
        }
        extent = (int64_t)p[0] << 24 | (int64_t)p[1] << 16 | (int64_t)p[2] << 8 | p[3];
        CHARL_REQUIRE(extent > 0, CHARL_ERR_DATA, "%s: IDX extent %d is 0", path, i);
        if (i == 0) {
            a->rows = extent;
            continue;
        }
        CHARL_REQUIRE(extent <= MAX_ROW / (int64_t)a->size / a->per_row, CHARL_ERR_DATA,
                      "%s: rows of more than %d bytes", path, MAX_ROW);
        a->item.dim[i - 1] = extent;
        a->per_row *= extent;
    }
    return CHARL_OK;
}

charl_status charl__npy_open(charl__npy *a, const char *path, const char *name, bool targets)
{
    unsigned char head[CHARL__NPY_HEAD];

    CHARL_TRY(open_source(a, path, name, targets));
    CHARL_TRY(charl__source_exact(a->source, head, sizeof head, "the header of an array"));
    if (head[0] == 0 && head[1] == 0) {
        CHARL_TRY(read_idx(a, path, head));
    } else {
        CHARL_TRY(read_npy(a, path, head));
    }
    return charl__source_holds(a->source, a->rows * a->per_row * (int64_t)a->size, "the elements");
}

void charl__npy_close(charl__npy *a)
{
    charl__source_close(a->source);
    a->source = NULL;
}

void charl__npy_set_single_row(charl__npy *a)
{
    for (int i = a->item.ndim; i > 0; i--) {
        a->item.dim[i] = a->item.dim[i - 1];
    }
    a->item.dim[0] = a->rows;
    a->item.ndim++;
    a->per_row *= a->rows;
    a->rows = 1;
}

void charl__npy_move_channels(charl__npy *a)
{
    a->item = charl__channels_first(&a->item);
    a->interleaved = true;
}

charl_status charl__npy_read(charl__npy *a, int64_t n, void *raw)
{
    const size_t bytes = (size_t)(n * a->per_row) * a->size;
    CHARL_SCOPED_FREE void *stored = NULL;

    if (a->interleaved) {
        CHARL_TRY(charl__alloc(bytes, &stored));
    }
    CHARL_TRY(charl__source_exact(a->source, stored ? stored : raw, bytes, "the elements"));
    if (stored) {
        charl__move_channels(&a->item, a->size, stored, n, raw);
    }
    a->done += n;
    return CHARL_OK;
}

charl_status charl__npy_text(const charl__npy *a, const unsigned char *p, charl__text *out)
{
    charl__text_clear(out);
    for (size_t i = 0; i + 1 <= a->size / (a->text == 'U' ? 4 : 1); i++) {
        const uint32_t point = a->text == 'U' ? (uint32_t)p[4 * i] | (uint32_t)p[4 * i + 1] << 8 |
                                                    (uint32_t)p[4 * i + 2] << 16 | (uint32_t)p[4 * i + 3] << 24
                                              : p[i];
        unsigned char bytes[4] = {(unsigned char)point};
        const size_t n = a->text == 'U' ? charl__utf8_put(point, bytes) : 1;

        if (point == 0) {
            break;
        }
        CHARL_TRY(charl__text_append(out, bytes, n));
    }
    return CHARL_OK;
}
