/* Adapter between HDF5 and charl's statuses. The text of an HDF5 failure is the description of the
 * innermost frame of its error stack (the cause), then of the outermost (the operation).
 */
#include "io/h5.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "charl/dataset.h"

enum { TEXT_BYTES = 400 };

typedef struct stack_text {
    char cause[TEXT_BYTES];
    char operation[TEXT_BYTES];
} stack_text;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

charl__h5_scope charl__h5_begin(bool is_locked)
{
    charl__h5_scope s = {.is_v2 = 1, .is_locked = is_locked};

    if (is_locked) {
        pthread_mutex_lock(&lock);
    }
    H5Eauto_is_v2(H5E_DEFAULT, &s.is_v2);
    if (s.is_v2) {
        H5Eget_auto2(H5E_DEFAULT, &s.handler.v2, &s.user);
        H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    } else {
        H5Eget_auto1(&s.handler.v1, &s.user);
        H5Eset_auto1(NULL, NULL);
    }
    return s;
}

void charl__h5_end(const charl__h5_scope *s)
{
    if (s->is_v2) {
        H5Eset_auto2(H5E_DEFAULT, s->handler.v2, s->user);
    } else {
        H5Eset_auto1(s->handler.v1, s->user);
    }
    if (s->is_locked) {
        pthread_mutex_unlock(&lock);
    }
}

bool charl__h5_is_thread_safe(void)
{
    CHARL_H5_SCOPE;
    hbool_t safe = false;

    return H5is_library_threadsafe(&safe) >= 0 && safe && !charl__fault("io.one_thread");
}

static herr_t note_frame(unsigned n, const H5E_error2_t *frame, void *user)
{
    stack_text *text = user;
    const char *desc = frame->desc ? frame->desc : "";

    if (n == 0) {
        snprintf(text->cause, sizeof text->cause, "%s", desc);
    } else {
        snprintf(text->operation, sizeof text->operation, "%s", desc);
    }
    return 0;
}

charl_status charl__h5_error_set(charl_status code, const char *file, int line, const char *func, const char *fmt, ...)
{
    stack_text stack = {"", ""};
    char message[2 * TEXT_BYTES];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, note_frame, &stack);
    if (!stack.cause[0]) {
        return charl_error_set(code, file, line, func, "%s", message);
    }
    if (!stack.operation[0]) {
        return charl_error_set(code, file, line, func, "%s (HDF5: %s)", message, stack.cause);
    }
    return charl_error_set(code, file, line, func, "%s (HDF5: %s <- %s)", message, stack.cause, stack.operation);
}

bool charl__h5_close(hid_t *id)
{
    CHARL_H5_SCOPE;
    herr_t err = -1;

    if (*id < 0) {
        return true;
    }
    switch (H5Iget_type(*id)) {
    case H5I_FILE:
        err = H5Fclose(*id);
        break;
    case H5I_GROUP:
        err = H5Gclose(*id);
        break;
    case H5I_DATATYPE:
        err = H5Tclose(*id);
        break;
    case H5I_DATASPACE:
        err = H5Sclose(*id);
        break;
    case H5I_DATASET:
        err = H5Dclose(*id);
        break;
    case H5I_ATTR:
        err = H5Aclose(*id);
        break;
    case H5I_GENPROP_LST:
        err = H5Pclose(*id);
        break;
    default:
        err = -1;
        break;
    }
    *id = H5I_INVALID_HID;
    charl__drop();
    return err >= 0;
}

static charl_status set_scalar(const charl__h5_site *site, hid_t object, const char *name, hid_t type,
                               const void *value)
{
    CHARL_H5_SCOPE;
    CHARL_SCOPED(charl__h5_close) hid_t space = H5I_INVALID_HID;
    CHARL_SCOPED(charl__h5_close) hid_t attr = H5I_INVALID_HID;

    CHARL_H5_OPEN(site->code, space, H5Screate(H5S_SCALAR), "%s: attribute %s", site->path, name);
    CHARL_H5_OPEN(site->code, attr, H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT),
                  "%s: attribute %s cannot be created", site->path, name);
    CHARL_H5(site->code, H5Awrite(attr, type, value), "%s: attribute %s cannot be written", site->path, name);
    return CHARL_OK;
}

charl_status charl__h5_set_text(const charl__h5_site *site, hid_t object, const char *name, const char *text)
{
    CHARL_H5_SCOPE;
    CHARL_SCOPED(charl__h5_close) hid_t type = H5I_INVALID_HID;

    CHARL_H5_OPEN(site->code, type, H5Tcopy(H5T_C_S1), "%s: attribute %s", site->path, name);
    /* HDF5 has no strings of length zero: an empty text is one NUL. */
    CHARL_H5(site->code, H5Tset_size(type, text[0] ? strlen(text) : 1), "%s: attribute %s", site->path, name);
    CHARL_H5(site->code, H5Tset_strpad(type, H5T_STR_NULLPAD), "%s: attribute %s", site->path, name);
    CHARL_H5(site->code, H5Tset_cset(type, H5T_CSET_UTF8), "%s: attribute %s", site->path, name);
    CHARL_TRY(set_scalar(site, object, name, type, text));
    return CHARL_OK;
}

charl_status charl__h5_set_i64(const charl__h5_site *site, hid_t object, const char *name, int64_t value)
{
    return set_scalar(site, object, name, H5T_NATIVE_INT64, &value);
}

charl_status charl__h5_set_u32(const charl__h5_site *site, hid_t object, const char *name, uint32_t value)
{
    return set_scalar(site, object, name, H5T_NATIVE_UINT32, &value);
}

charl_status charl__h5_set_f64(const charl__h5_site *site, hid_t object, const char *name, double value)
{
    return set_scalar(site, object, name, H5T_NATIVE_DOUBLE, &value);
}

bool charl__h5_has(hid_t object, const char *name)
{
    CHARL_H5_SCOPE;

    return H5Aexists(object, name) > 0;
}

/* Open attribute `name`, which must hold one element; *type is its stored type. */
static charl_status open_scalar(const charl__h5_site *site, hid_t object, const char *name, hid_t *attr, hid_t *type)
{
    CHARL_SCOPED(charl__h5_close) hid_t space = H5I_INVALID_HID;

    CHARL_REQUIRE(H5Aexists(object, name) > 0, site->code, "%s: attribute %s is missing", site->path, name);
    CHARL_H5_OPEN(site->code, *attr, H5Aopen(object, name, H5P_DEFAULT), "%s: attribute %s", site->path, name);
    CHARL_H5_OPEN(site->code, *type, H5Aget_type(*attr), "%s: attribute %s", site->path, name);
    CHARL_H5_OPEN(site->code, space, H5Aget_space(*attr), "%s: attribute %s", site->path, name);
    CHARL_REQUIRE(H5Sget_simple_extent_npoints(space) == 1, site->code, "%s: attribute %s is not a single value",
                  site->path, name);
    return CHARL_OK;
}

static charl_status get_number(const charl__h5_site *site, hid_t object, const char *name, hid_t mem_type, void *out)
{
    CHARL_H5_SCOPE;
    CHARL_SCOPED(charl__h5_close) hid_t attr = H5I_INVALID_HID;
    CHARL_SCOPED(charl__h5_close) hid_t type = H5I_INVALID_HID;
    H5T_class_t cls;
    bool fits;

    CHARL_TRY(open_scalar(site, object, name, &attr, &type));
    cls = H5Tget_class(type);
    fits = cls == H5T_INTEGER || (cls == H5T_FLOAT && H5Tget_class(mem_type) == H5T_FLOAT);
    CHARL_REQUIRE(fits, site->code, "%s: attribute %s is not a number of the expected kind", site->path, name);
    CHARL_H5(site->code, H5Aread(attr, mem_type, out), "%s: attribute %s cannot be read", site->path, name);
    return CHARL_OK;
}

charl_status charl__h5_get_i64(const charl__h5_site *site, hid_t object, const char *name, int64_t *out)
{
    *out = 0;
    return get_number(site, object, name, H5T_NATIVE_INT64, out);
}

charl_status charl__h5_get_f64(const charl__h5_site *site, hid_t object, const char *name, double *out)
{
    *out = 0;
    return get_number(site, object, name, H5T_NATIVE_DOUBLE, out);
}

charl_status charl__h5_get_text(const charl__h5_site *site, hid_t object, const char *name, char *out, size_t cap)
{
    CHARL_H5_SCOPE;
    CHARL_SCOPED(charl__h5_close) hid_t attr = H5I_INVALID_HID;
    CHARL_SCOPED(charl__h5_close) hid_t type = H5I_INVALID_HID;
    size_t size;

    out[0] = '\0';
    CHARL_TRY(open_scalar(site, object, name, &attr, &type));
    CHARL_REQUIRE(H5Tget_class(type) == H5T_STRING, site->code, "%s: attribute %s is not text", site->path, name);
    CHARL_REQUIRE(H5Tis_variable_str(type) == 0, site->code,
                  "%s: attribute %s is a variable-length string; store it with a fixed length "
                  "(numpy.bytes_ in h5py)",
                  site->path, name);
    size = H5Tget_size(type);
    CHARL_REQUIRE(size > 0 && size < cap, site->code, "%s: attribute %s has %zu bytes, at most %zu are allowed",
                  site->path, name, size, cap - 1);
    CHARL_H5(site->code, H5Aread(attr, type, out), "%s: attribute %s cannot be read", site->path, name);
    out[size] = '\0';
    return CHARL_OK;
}

const char *charl_dataset_hdf5_version(void)
{
    static _Thread_local char text[32];
    unsigned major = 0, minor = 0, release = 0;

    H5get_libversion(&major, &minor, &release);
    snprintf(text, sizeof text, "%u.%u.%u", major, minor, release);
    return text;
}

/* A string attribute of either kind. */
static charl_status get_string(const charl__h5_site *site, hid_t attr, hid_t type, const char *name, charl__text *out)
{
    charl_status st = CHARL_OK;
    hid_t memory = H5I_INVALID_HID;
    const bool is_variable = H5Tis_variable_str(type) > 0;
    char *variable = NULL, *fixed = NULL;

    if (is_variable) {
        CHARL_H5_OPEN_CLEANUP(site->code, memory, H5Tcopy(type), "%s: attribute %s", site->path, name);
        CHARL_H5_CLEANUP(site->code, H5Aread(attr, memory, &variable), "%s: attribute %s cannot be read", site->path,
                         name);
        CHARL_TRY_CLEANUP(charl__text_printf(out, "%s", variable ? variable : ""));
    } else {
        const size_t size = H5Tget_size(type);

        CHARL_TRY_CLEANUP(charl__alloc(size + 1, &fixed));
        CHARL_H5_CLEANUP(site->code, H5Aread(attr, type, fixed), "%s: attribute %s cannot be read", site->path, name);
        fixed[size] = '\0';
        CHARL_TRY_CLEANUP(charl__text_printf(out, "%s", fixed));
        while (H5Tget_strpad(type) == H5T_STR_SPACEPAD && out->length > 0 && out->data[out->length - 1] == ' ') {
            out->data[--out->length] = '\0';
        }
    }
cleanup:
    if (variable) {
        H5free_memory(variable);
    }
    charl_free(fixed);
    charl__h5_close(&memory);
    return st;
}

charl_status charl__h5_get_any(const charl__h5_site *site, hid_t object, const char *name, charl__text *out,
                               bool *is_float)
{
    CHARL_H5_SCOPE;
    CHARL_SCOPED(charl__h5_close) hid_t attr = H5I_INVALID_HID, type = H5I_INVALID_HID;
    int64_t integer = 0;
    double number = 0;
    int8_t flag = 0;

    *is_float = false;
    charl__text_clear(out);
    CHARL_TRY(open_scalar(site, object, name, &attr, &type));
    switch (H5Tget_class(type)) {
    case H5T_INTEGER:
        CHARL_H5(site->code, H5Aread(attr, H5T_NATIVE_INT64, &integer), "%s: attribute %s cannot be read", site->path,
                 name);
        CHARL_TRY(charl__text_printf(out, "%lld", (long long)integer));
        break;
    case H5T_ENUM: /* h5py's bool */
        CHARL_REQUIRE(H5Tget_size(type) == 1, site->code, "%s: attribute %s is an enumeration", site->path, name);
        CHARL_H5(site->code, H5Aread(attr, type, &flag), "%s: attribute %s cannot be read", site->path, name);
        CHARL_TRY(charl__text_printf(out, "%d", flag));
        break;
    case H5T_FLOAT:
        *is_float = true;
        CHARL_H5(site->code, H5Aread(attr, H5T_NATIVE_DOUBLE, &number), "%s: attribute %s cannot be read", site->path,
                 name);
        CHARL_TRY(charl__text_printf(out, "%.17g", number));
        break;
    case H5T_STRING:
        CHARL_TRY(get_string(site, attr, type, name, out));
        break;
    default:
        CHARL_FAIL(site->code, "%s: attribute %s is neither a number nor text", site->path, name);
    }
    return CHARL_OK;
}
