#ifndef CHARL_IO_H5_H
#define CHARL_IO_H5_H
/** HDF5 for the io module: statuses instead of error stacks, counted handles, strict
 *  attributes.
 *
 *  HDF5 calls the error handler of the program for every call that fails. A function that calls HDF5, and is not only called by
 *  functions that do, has CHARL_H5_SCOPE among its variables: until it returns, the handler is off.
 *  Handles are counted like any other acquisition, so a test detects a leak. Attributes are scalars of fixed types; variable-length strings are
 *  rejected because reading them uses HDF5's global heap, the part of the format where damaged files most
 *  easily cause crashes.
 */
#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text/text.h"

/** The parts of a message besides the cause: the status to return and the file. `path` is borrowed. */
typedef struct charl__h5_site {
    charl_status code;
    const char *path;
} charl__h5_site;

/** The error handler that the program has set on this thread, with either version of H5Eset_auto. */
typedef struct charl__h5_scope {
    unsigned is_v2;
    union {
        H5E_auto1_t v1;
        H5E_auto2_t v2;
    } handler;
    void *user;
    bool is_locked;
} charl__h5_scope;

/** Switch the program's error handler off, and on again. `lock`: other threads of charl that ask for the lock wait meanwhile, because
 *  HDF5 may not have been built for several. */
charl__h5_scope charl__h5_begin(bool lock);
void charl__h5_end(const charl__h5_scope *scope);

#define CHARL_H5_SCOPE __attribute__((cleanup(charl__h5_end))) const charl__h5_scope h5_scope = charl__h5_begin(false)
#define CHARL_H5_LOCKED __attribute__((cleanup(charl__h5_end))) const charl__h5_scope h5_scope = charl__h5_begin(true)

/** CHARL_H5_LOCKED where HDF5 was not built for several threads: for what ranks that are threads do at once. */
#define CHARL_H5_UNSHARED                                                                                              \
    __attribute__((cleanup(charl__h5_end))) const charl__h5_scope h5_scope =                                           \
        charl__h5_begin(!charl__h5_is_thread_safe())

/** Whether the library was built for several threads. */
bool charl__h5_is_thread_safe(void);

/** Record a failure whose message ends in HDF5's own text, innermost cause first; returns `code`.
 */
charl_status charl__h5_error_set(charl_status code, const char *file, int line, const char *func, const char *fmt, ...)
    CHARL_PRINTF(5, 6);

/* A call whose negative result means failure. */
#define CHARL_H5(code, call, ...)                                                                                      \
    do {                                                                                                               \
        if ((call) < 0) {                                                                                              \
            return charl__h5_error_set((code), __FILE__, __LINE__, __func__, __VA_ARGS__);                             \
        }                                                                                                              \
    } while (0)

#define CHARL_H5_CLEANUP(code, call, ...)                                                                              \
    do {                                                                                                               \
        if ((call) < 0) {                                                                                              \
            st = charl__h5_error_set((code), __FILE__, __LINE__, __func__, __VA_ARGS__);                               \
            goto cleanup;                                                                                              \
        }                                                                                                              \
    } while (0)

/* var = call, a counted handle that charl__h5_close releases; var is H5I_INVALID_HID on failure.
 */
#define CHARL_H5_OPEN(code, var, call, ...)                                                                            \
    do {                                                                                                               \
        (var) = H5I_INVALID_HID;                                                                                       \
        CHARL_TRY(charl__acquire("HDF5 handle"));                                                                      \
        (var) = (call);                                                                                                \
        if ((var) < 0) {                                                                                               \
            charl__drop();                                                                                             \
            (var) = H5I_INVALID_HID;                                                                                   \
            return charl__h5_error_set((code), __FILE__, __LINE__, __func__, __VA_ARGS__);                             \
        }                                                                                                              \
    } while (0)

#define CHARL_H5_OPEN_CLEANUP(code, var, call, ...)                                                                    \
    do {                                                                                                               \
        (var) = H5I_INVALID_HID;                                                                                       \
        CHARL_TRY_CLEANUP(charl__acquire("HDF5 handle"));                                                              \
        (var) = (call);                                                                                                \
        if ((var) < 0) {                                                                                               \
            charl__drop();                                                                                             \
            st = charl__h5_error_set((code), __FILE__, __LINE__, __func__, __VA_ARGS__);                               \
            (var) = H5I_INVALID_HID;                                                                                   \
            goto cleanup;                                                                                              \
        }                                                                                                              \
    } while (0)

/** Close a handle of any kind from CHARL_H5_OPEN and set it to H5I_INVALID_HID; false if HDF5
 *  reports a failure, which matters after writing. No-op and true for H5I_INVALID_HID. */
bool charl__h5_close(hid_t *id);

/** Write scalar attribute `name` of `object`. Text is stored as a fixed-length UTF-8 string.
 *  Errors: site->code. */
charl_status charl__h5_set_text(const charl__h5_site *site, hid_t object, const char *name,
                                const char *text) CHARL_MUST_CHECK;
charl_status charl__h5_set_i64(const charl__h5_site *site, hid_t object, const char *name,
                               int64_t value) CHARL_MUST_CHECK;
charl_status charl__h5_set_u32(const charl__h5_site *site, hid_t object, const char *name,
                               uint32_t value) CHARL_MUST_CHECK;
charl_status charl__h5_set_f64(const charl__h5_site *site, hid_t object, const char *name,
                               double value) CHARL_MUST_CHECK;

/** Whether `object` has attribute `name`. */
bool charl__h5_has(hid_t object, const char *name);

/** Read scalar attribute `name` of `object`: integers of any width, floats (or integers) as f64,
 *  fixed-length strings of at most cap - 1 bytes. Errors: site->code when absent, of another type,
 *  not a scalar or too long. */
charl_status charl__h5_get_i64(const charl__h5_site *site, hid_t object, const char *name,
                               int64_t *out) CHARL_MUST_CHECK;
charl_status charl__h5_get_f64(const charl__h5_site *site, hid_t object, const char *name,
                               double *out) CHARL_MUST_CHECK;
charl_status charl__h5_get_text(const charl__h5_site *site, hid_t object, const char *name, char *out,
                                size_t cap) CHARL_MUST_CHECK;

/** Read a scalar attribute of a file that charl did not write, as text: an integer or a bool in decimal, a float so that it reads back, a string of
 *  either kind without its padding. *is_float: it is one. Errors: site->code when absent, of another type or not a scalar; ERR_NOMEM. */
charl_status charl__h5_get_any(const charl__h5_site *site, hid_t object, const char *name, charl__text *out,
                               bool *is_float) CHARL_MUST_CHECK;

#endif
