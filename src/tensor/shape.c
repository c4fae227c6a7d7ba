/* Element types and shapes. */
#include "charl/shape.h"

#include <stdio.h>

#include "base/error.h"

const char *charl_dtype_name(charl_dtype dtype)
{
    static const char *const names[] = {
#define X(id, name, bytes) name,
        CHARL_DTYPE_LIST(X)
#undef X
    };
    return (unsigned)dtype < CHARL_DTYPE_COUNT ? names[dtype] : "?";
}

size_t charl_dtype_size(charl_dtype dtype)
{
    static const size_t sizes[] = {
#define X(id, name, bytes) bytes,
        CHARL_DTYPE_LIST(X)
#undef X
    };
    return (unsigned)dtype < CHARL_DTYPE_COUNT ? sizes[dtype] : 0;
}

int64_t charl_shape_count(const charl_shape *s)
{
    if (!s) {
        return 0;
    }
    int64_t n = 1;

    for (int i = 0; i < s->ndim; i++) {
        n *= s->dim[i];
    }
    return n;
}

bool charl_shape_equal(const charl_shape *a, const charl_shape *b)
{
    if (!a || !b) {
        return false;
    }
    if (a->ndim != b->ndim) {
        return false;
    }
    for (int i = 0; i < a->ndim; i++) {
        if (a->dim[i] != b->dim[i]) {
            return false;
        }
    }
    return true;
}

charl_status charl_shape_check(const charl_shape *s)
{
    CHARL_GIVEN(s);
    int64_t n = 1;

    CHARL_REQUIRE(s->ndim >= 0 && s->ndim <= CHARL_MAX_DIMS, CHARL_ERR_SHAPE, "%d extents; a shape has 0 to %d",
                  s->ndim, CHARL_MAX_DIMS);
    for (int i = 0; i < s->ndim; i++) {
        CHARL_REQUIRE(s->dim[i] >= 0, CHARL_ERR_SHAPE, "extent %d is negative: %lld", i, (long long)s->dim[i]);
        CHARL_REQUIRE(s->dim[i] == 0 || n <= INT64_MAX / 8 / s->dim[i], CHARL_ERR_SHAPE,
                      "the number of elements overflows at extent %d (%lld)", i, (long long)s->dim[i]);
        n *= s->dim[i] ? s->dim[i] : 1;
    }
    return CHARL_OK;
}

const char *charl_shape_format(const charl_shape *s, char *text)
{
    size_t used = 0;

    if (!text) {
        return "";
    }
    text[used++] = '[';
    text[used] = '\0';
    for (int i = 0; s && i < s->ndim; i++) {
        used += (size_t)snprintf(text + used, CHARL_SHAPE_TEXT - used, i ? ", %lld" : "%lld", (long long)s->dim[i]);
    }
    snprintf(text + used, CHARL_SHAPE_TEXT - used, "]");
    return text;
}
