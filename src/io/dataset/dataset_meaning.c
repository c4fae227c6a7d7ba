/* The meaning of an array's numbers, from its attributes: packing, fill values and ranges of netCDF (CF conventions), the classes and the
 * layout of MATLAB. Encodings that can be undone are undone when rows are read; others are rejected here, by name. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "io/dataset/dataset_file.h"
#include "io/image_layout.h"

enum { TEXT = 256 };

/* A text attribute, at most TEXT - 1 bytes of it; false without one. */
static bool text_of(const charl__file *f, const charl__array *a, const char *name, char text[TEXT])
{
    const charl__h5_site site = {CHARL_ERR_DATA, f->path};
    const bool has = charl__h5_has(a->dataset, name);
    charl__text t = {0};
    bool is_float, ok = has && charl__h5_get_any(&site, a->dataset, name, &t, &is_float) == CHARL_OK;

    if (has && !ok) {
        charl_error_clear();
    }
    snprintf(text, TEXT, "%s", ok ? charl__text_string(&t) : "");
    charl__text_fini(&t);
    return ok;
}

charl_status charl__meaning_numbers(const charl__file *f, const charl__array *a, const char *name, double *out,
                                    int most, int *n)
{
    CHARL_SCOPED(charl__h5_close) hid_t attr = H5I_INVALID_HID, type = H5I_INVALID_HID, space = H5I_INVALID_HID;
    H5T_class_t cls;
    hssize_t count;

    *n = 0;
    if (!charl__h5_has(a->dataset, name)) {
        return CHARL_OK;
    }
    CHARL_H5_OPEN(CHARL_ERR_DATA, attr, H5Aopen(a->dataset, name, H5P_DEFAULT), "%s: %s: attribute %s", f->path,
                  a->name, name);
    CHARL_H5_OPEN(CHARL_ERR_DATA, type, H5Aget_type(attr), "%s: %s: attribute %s", f->path, a->name, name);
    CHARL_H5_OPEN(CHARL_ERR_DATA, space, H5Aget_space(attr), "%s: %s: attribute %s", f->path, a->name, name);
    cls = H5Tget_class(type);
    count = H5Sget_simple_extent_npoints(space);
    CHARL_REQUIRE((cls == H5T_INTEGER || cls == H5T_FLOAT) && count >= 1 && count <= most, CHARL_ERR_DATA,
                  "%s: %s: attribute %s is not 1 to %d numbers, so what it says about the array is not known", f->path,
                  a->name, name, most);
    CHARL_H5(CHARL_ERR_DATA, H5Aread(attr, H5T_NATIVE_DOUBLE, out), "%s: %s: attribute %s cannot be read", f->path,
             a->name, name);
    *n = (int)count;
    for (int i = 0; i < *n && cls == H5T_INTEGER && a->stored.kind == CHARL__ELEMENT_UNSIGNED; i++) {
        out[i] += out[i] < 0 ? ldexp(1, 8 * a->stored.bytes) : 0; /* signed, of unsigned elements: bits */
    }
    return CHARL_OK;
}

/* Numbers that mark missing values. */
static charl_status read_missing(const charl__file *f, charl__array *a)
{
    static const char *const names[] = {"_FillValue", "missing_value"};
    charl__meaning *m = &a->meaning;

    for (int i = 0; i < 2; i++) {
        int n = 0;

        CHARL_TRY(charl__meaning_numbers(f, a, names[i], m->missing + m->n_missing, CHARL__MEANING_MISSING / 2, &n));
        for (int k = 0; k < n; k++, m->n_missing++) {
            m->missing_name[m->n_missing] = names[i];
        }
    }
    return CHARL_OK;
}

static charl_status read_range(const charl__file *f, charl__array *a)
{
    charl__meaning *m = &a->meaning;
    double range[2];
    int n = 0;

    m->least = -INFINITY;
    m->most = INFINITY;
    CHARL_TRY(charl__meaning_numbers(f, a, "valid_range", range, 2, &n));
    if (n == 2) {
        m->least = range[0];
        m->most = range[1];
    }
    CHARL_TRY(charl__meaning_numbers(f, a, "valid_min", range, 1, &n));
    m->least = n == 1 ? range[0] : m->least;
    CHARL_TRY(charl__meaning_numbers(f, a, "valid_max", range, 1, &n));
    m->most = n == 1 ? range[0] : m->most;
    return CHARL_OK;
}

/* Objects that MATLAB stores as numbers but are not. */
static charl_status judge_matlab(const charl__file *f, const charl__array *a)
{
    char text[TEXT];

    if (!text_of(f, a, "MATLAB_class", text)) {
        return CHARL_OK;
    }
    CHARL_REQUIRE(!charl__h5_has(a->dataset, "MATLAB_empty"), CHARL_ERR_DATA,
                  "%s: %s is an empty array of MATLAB (attribute MATLAB_empty)", f->path, a->name);
    CHARL_REQUIRE(
        strcmp(text, "char") != 0 && strcmp(text, "cell") != 0 && strcmp(text, "function_handle") != 0, CHARL_ERR_DATA,
        "%s: %s is of MATLAB's class %s (attribute MATLAB_class), not numbers; HINT in MATLAB, turn classes into "
        "numbers: [~, ~, y] = unique(labels); y = int32(y - 1)",
        f->path, a->name, text);
    return CHARL_OK;
}

/* Flags that are bits of one number, and times, which are numbers in a unit. */
static charl_status judge_units(charl__file *f, const charl__array *a, charl__role role)
{
    char text[TEXT];

    CHARL_REQUIRE(
        role != CHARL__ROLE_TARGETS || !charl__h5_has(a->dataset, "flag_masks"), CHARL_ERR_DATA,
        "%s: %s holds several flags in each number (attribute flag_masks); HINT store one of them, or each as an "
        "array of its own",
        f->path, a->name);
    if (text_of(f, a, "units", text) && strstr(text, " since ")) {
        CHARL_TRY(charl__text_printf(&f->note, "%s%s holds times (units = %s), which are read as numbers of that unit",
                                     f->note.length ? "\n" : "", a->name, text));
    }
    return CHARL_OK;
}

charl_status charl__meaning_read(charl__file *f, charl__array *a, charl__role role)
{
    charl__meaning *m = &a->meaning;
    double scale = 1, offset = 0;
    char text[TEXT];
    int n = 0, k = 0;

    *m = (charl__meaning){.scale = 1, .least = -INFINITY, .most = INFINITY, .channels = -1};
    if (H5Aget_num_attrs(a->dataset) <= 0 && H5Tget_class(a->type) != H5T_ENUM) {
        return CHARL_OK;
    }
    CHARL_TRY(judge_matlab(f, a));
    CHARL_TRY(judge_units(f, a, role));
    if (text_of(f, a, "_Unsigned", text) && strcmp(text, "true") == 0 && a->stored.kind == CHARL__ELEMENT_SIGNED) {
        a->stored.kind = CHARL__ELEMENT_UNSIGNED;
    }
    if (role == CHARL__ROLE_TARGETS) {
        CHARL_TRY(charl__labels_of_numbers(f, a));
        m->says = m->classes != NULL;
    }
    CHARL_TRY(read_missing(f, a));
    CHARL_TRY(read_range(f, a));
    CHARL_TRY(charl__meaning_numbers(f, a, "scale_factor", &scale, 1, &n));
    CHARL_TRY(charl__meaning_numbers(f, a, "add_offset", &offset, 1, &k));
    m->scaled = n + k > 0 && (scale != 1 || offset != 0);
    m->scale = scale;
    m->offset = offset;
    m->says = m->says || m->scaled || m->n_missing > 0 || m->least > -(double)INFINITY || m->most < (double)INFINITY;
    CHARL_REQUIRE(!m->scaled || (isfinite(scale) && scale != 0 && isfinite(offset)), CHARL_ERR_DATA,
                  "%s: %s: scale_factor = %g and add_offset = %g cannot be undone", f->path, a->name, scale, offset);
    return CHARL_OK;
}

/* Why a stored number has no value; NULL: it has one. */
static const char *fault_of(const charl__meaning *m, double v, double *limit)
{
    for (int i = 0; i < m->n_missing; i++) {
        if (v == m->missing[i]) {
            *limit = m->missing[i];
            return m->missing_name[i];
        }
    }
    *limit = v < m->least ? m->least : m->most;
    return v < m->least ? "valid_min or valid_range" : v > m->most ? "valid_max or valid_range" : NULL;
}

charl_status charl__meaning_decode(const charl__file *f, const charl__array *a, int64_t first, const void *stored,
                                   int64_t n, void *dst)
{
    const charl__meaning *m = &a->meaning;
    const int64_t per_row = charl_shape_count(&a->item);

    for (int64_t i = 0; i < n * per_row; i++) {
        const double v = charl__element_number(&a->stored, stored, i);
        double limit = 0;
        const char *why = fault_of(m, v, &limit);

        CHARL_REQUIRE(
            !why, CHARL_ERR_DATA,
            "%s: %s: row %lld has no value (element %lld is %.9g, attribute %s is %.9g); HINT leave such rows out, or "
            "fill them, and store the array again",
            f->path, a->name, (long long)(first + i / per_row), (long long)(i % per_row), v, why, limit);
        if (m->classes) {
            const int32_t place = charl__labels_place(m, v);

            CHARL_REQUIRE(place != -2, CHARL_ERR_DATA,
                          "%s: %s: row %lld is %.9g, which is the number of no class (enumeration or flag_values)",
                          f->path, a->name, (long long)(first + i / per_row), v);
            ((int32_t *)dst)[i] = place;
        } else if (m->scaled) {
            ((float *)dst)[i] = (float)(v * m->scale + m->offset);
        }
    }
    return CHARL_OK;
}

/* The index of the extent that DIMENSION_LABELS calls channels, or -1. */
static charl_status labelled_channels(const charl__file *f, const charl__array *a, int ndim, int *out)
{
    static const char *const names[] = {"c", "ch", "channel", "channels", "band", "bands", "color", "colour", "rgb"};
    CHARL_SCOPED(charl__h5_close) hid_t attr = H5I_INVALID_HID, type = H5I_INVALID_HID, space = H5I_INVALID_HID;
    size_t size = 0;
    CHARL_SCOPED_FREE char *labels = NULL;
    bool is_variable = false;

    *out = -1;
    if (!charl__h5_has(a->dataset, "DIMENSION_LABELS")) {
        return CHARL_OK;
    }
    CHARL_H5_OPEN(CHARL_ERR_DATA, attr, H5Aopen(a->dataset, "DIMENSION_LABELS", H5P_DEFAULT), "%s: %s", f->path,
                  a->name);
    CHARL_H5_OPEN(CHARL_ERR_DATA, type, H5Aget_type(attr), "%s: %s", f->path, a->name);
    CHARL_H5_OPEN(CHARL_ERR_DATA, space, H5Aget_space(attr), "%s: %s", f->path, a->name);
    if (H5Tget_class(type) != H5T_STRING || H5Sget_simple_extent_npoints(space) != ndim) {
        return CHARL_OK;
    }
    is_variable = H5Tis_variable_str(type) > 0;
    size = is_variable ? sizeof(char *) : H5Tget_size(type);
    CHARL_TRY(charl__alloc_array(ndim + 1, size, &labels));
    CHARL_H5(CHARL_ERR_DATA, H5Aread(attr, type, labels), "%s: %s: DIMENSION_LABELS cannot be read", f->path, a->name);
    for (int i = 0; i < ndim; i++) {
        char label[32] = "";
        const char *at = labels + (size_t)i * size;

        if (is_variable) {
            memcpy(&at, labels + (size_t)i * size, sizeof at);
        }
        snprintf(label, sizeof label, "%.*s", is_variable ? (int)sizeof label : (int)size, at ? at : "");
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            *out = strcasecmp(label, names[k]) == 0 ? i : *out;
        }
    }
    if (is_variable) {
        H5Dvlen_reclaim(type, space, H5P_DEFAULT, labels);
    }
    return CHARL_OK;
}

/* An image, as described by the HDF5 Image specification. */
static charl_status judge_image(const charl__file *f, charl__array *a, int ndim)
{
    charl__meaning *m = &a->meaning;
    char text[TEXT], subclass[TEXT];
    bool has_palette;

    if (!text_of(f, a, "CLASS", text) || strcmp(text, "IMAGE") != 0) {
        return CHARL_OK;
    }
    text_of(f, a, "IMAGE_SUBCLASS", subclass);
    has_palette = strcmp(subclass, "IMAGE_INDEXED") == 0 || (!subclass[0] && charl__h5_has(a->dataset, "PALETTE"));
    CHARL_REQUIRE(!has_palette, CHARL_ERR_DATA,
                  "%s: %s holds places in a palette, not colours (attribute %s); HINT look the colours up, and store "
                  "those",
                  f->path, a->name, subclass[0] ? "IMAGE_SUBCLASS = IMAGE_INDEXED" : "PALETTE");
    if (text_of(f, a, "INTERLACE_MODE", text) && ndim >= 3 && m->channels < 0) {
        m->channels = strcmp(text, "INTERLACE_PIXEL") == 0   ? ndim - 1
                      : strcmp(text, "INTERLACE_PLANE") == 0 ? ndim - 3
                      : strcmp(text, "INTERLACE_LINE") == 0  ? ndim - 2
                                                             : -1;
    }
    m->is_one_image = ndim == 2 || (ndim == 3 && m->channels >= 0);
    return CHARL_OK;
}

charl_status charl__meaning_layout(const charl__file *f, charl__array *a)
{
    const int ndim = a->item.ndim + 1;

    if (a->matlab[0] || H5Aget_num_attrs(a->dataset) <= 0) {
        return CHARL_OK;
    }
    CHARL_TRY(labelled_channels(f, a, ndim, &a->meaning.channels));
    CHARL_TRY(judge_image(f, a, ndim));
    CHARL_REQUIRE(a->meaning.channels < 2 || a->meaning.channels == ndim - 1, CHARL_ERR_DATA,
                  "%s: extent %d of %s counts channels (DIMENSION_LABELS or INTERLACE_MODE); charl reads images as "
                  "[samples, channels, height, width]; HINT in Python: numpy.moveaxis(x, %d, 1)",
                  f->path, a->meaning.channels, a->name, a->meaning.channels);
    CHARL_REQUIRE(a->meaning.channels < 4, CHARL_ERR_DATA,
                  "%s: the last extent of %s counts channels (DIMENSION_LABELS); charl reads volumes as [samples, "
                  "channels, depth, height, width]; HINT in Python: numpy.moveaxis(x, -1, 1)",
                  f->path, a->name);
    return CHARL_OK;
}

bool charl__array_is_channels_last(const charl__array *a, const charl_shape *item)
{
    return item->ndim == 3 &&
           (a->meaning.channels >= 0 ? a->meaning.channels == a->item.ndim : charl__is_channels_last(item));
}
