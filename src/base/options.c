/* Options of a program that was compiled with headers of another version. */
#include "base/options.h"

#include <string.h>

charl_status charl__options_read(const char *type, const void *given, size_t size, void *out)
{
    const unsigned char *from = given;
    size_t theirs;

    memcpy(&theirs, given, sizeof theirs);
    CHARL_REQUIRE(theirs >= sizeof theirs, CHARL_ERR_INVALID, "%s.struct_size is %zu: set it to sizeof(%s)", type,
                  theirs, type);
    for (size_t i = size; i < theirs; i++) {
        CHARL_REQUIRE(from[i] == 0, CHARL_ERR_INVALID,
                      "%s has %zu bytes, and a member that charl %s does not have, which knows %zu of them, is set",
                      type, theirs, charl_version(), size);
    }
    memset(out, 0, size);
    memcpy(out, given, theirs < size ? theirs : size);
    memcpy(out, &size, sizeof size);
    return CHARL_OK;
}
