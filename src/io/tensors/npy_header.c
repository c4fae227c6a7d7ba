#include "io/tensors/npy_header.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TEXT = 1000 };

/* The text after 'key': in the header; "" without one. */
static const char *value_of(const char *header, const char *key)
{
    char quoted[32];
    const char *p;

    snprintf(quoted, sizeof quoted, "'%s':", key);
    p = strstr(header, quoted);
    if (!p) {
        return "";
    }
    p += strlen(quoted);
    return p + strspn(p, " ");
}

static charl_status parse_type(const char *path, charl_status code, const char *p, charl__npy_header *h)
{
    static const char *const known[] = {"u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "b1"};
    const bool big_endian = p[0] && p[1] == '>';
    bool ok = false;

    if (p[0] == '\'' && p[1] && p[1] != '>' && (p[2] == 'U' || p[2] == 'S')) {
        const long n = strtol(p + 3, NULL, 10);

        CHARL_REQUIRE(n > 0 && n <= MOST_TEXT, code, "%s: texts of %ld characters; there must be 1 to %d", path, n,
                      MOST_TEXT);
        h->type = p[2];
        h->size = n * (p[2] == 'U' ? 4 : 1);
        return CHARL_OK;
    }
    CHARL_REQUIRE(p[0] == '\'' && strlen(p) >= 5 && p[4] == '\'', code,
                  "%s: element type not understood (structured or object arrays are not imported)", path);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        ok = ok || (p[2] == known[i][0] && p[3] == known[i][1]);
    }
    CHARL_REQUIRE(ok && strchr("<>|=", p[1]), code, "%s: element type %.5s is not imported; HINT x.astype('float32')",
                  path, p);
    h->type = p[2];
    h->size = p[3] - '0';
    h->swapped = h->size > 1 && big_endian != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
    return CHARL_OK;
}

static charl_status parse_shape(const char *path, charl_status code, const char *p, charl_shape *shape)
{
    CHARL_REQUIRE(*p == '(', code, "%s: the shape is not understood", path);
    p++;
    while (*p && *p != ')') {
        char *end;
        const long long extent = strtoll(p, &end, 10);

        CHARL_REQUIRE(end > p && extent >= 0 && shape->ndim < CHARL_MAX_DIMS, code,
                      "%s: the shape must have 1 to %d positive extents", path, CHARL_MAX_DIMS);
        shape->dim[shape->ndim++] = extent;
        p = end + strspn(end, ", ");
    }
    CHARL_REQUIRE(*p == ')', code, "%s: the shape is not understood", path);
    return CHARL_OK;
}

charl_status charl__npy_parse(const char *path, charl_status code, const char *literal, charl__npy_header *out)
{
    const char *order = value_of(literal, "fortran_order");

    *out = (charl__npy_header){0};
    CHARL_TRY(parse_type(path, code, value_of(literal, "descr"), out));
    out->fortran = strncmp(order, "True", 4) == 0;
    CHARL_REQUIRE(out->fortran || strncmp(order, "False", 5) == 0, code, "%s: its header has no fortran_order", path);
    return parse_shape(path, code, value_of(literal, "shape"), &out->shape);
}
