#ifndef CHARL_BASE_OPTIONS_H
#define CHARL_BASE_OPTIONS_H
/** Options that a program passes in a struct, which may be from an older or newer version of charl (charl/api.h).
 *
 *  Padding between members and after the last may hold anything. So that no member of one version is padding in another, members
 *  added after a release are 8 bytes wide, or several that fill 8 bytes (docs/adr/0025-options-begin-with-their-size.md). */
#include "base/error.h"

/** Copy `given`, a struct that begins with its size, to `out` of `size` bytes: the members that both have; the others of `out` are 0. `type` is
 *  its name in messages. Errors: ERR_INVALID  the size is not set, or a member that `out` does not have is not 0. */
charl_status charl__options_read(const char *type, const void *given, size_t size, void *out) CHARL_MUST_CHECK;

/** Let the parameter `options`, a pointer to `type` or NULL, point to a copy in the form of this version. */
#define CHARL__OPTIONS(type, options)                                                                                  \
    type options##_read;                                                                                               \
    do {                                                                                                               \
        if (options) {                                                                                                 \
            CHARL_TRY(charl__options_read(#type, options, sizeof options##_read, &options##_read));                    \
            options = &options##_read;                                                                                 \
        }                                                                                                              \
    } while (0)

#endif
