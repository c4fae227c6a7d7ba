/* Arrays of NumPy as weights: a .npy file is one tensor, called as the file, and an archive of numpy.savez one for each array in it. */
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "io/commit.h"
#include "io/regular.h"
#include "io/tensors/npy_header.h"
#include "io/tensors/tensor_file.h"
#include "io/tensors/zip.h"

static charl_status read_exact(const charl__tensor_file_source *s, const char *name, void *dst, int64_t bytes,
                               int64_t at, int64_t end)
{
    CHARL_REQUIRE(bytes <= end - at && charl__regular_read(s->fd, dst, bytes, at) == bytes, CHARL_ERR_CHECKPOINT,
                  "%s: %s is cut short", s->path, name);
    return CHARL_OK;
}

/* The header of an array at s[begin, end); *data: its first element. */
static charl_status read_header(const charl__tensor_file_source *s, const char *name, int64_t begin, int64_t end,
                                charl__npy_header *h, int64_t *data)
{
    unsigned char head[CHARL__NPY_HEAD], length[4] = {0};
    CHARL_SCOPED(charl__text_fini) charl__text where = {0};
    CHARL_SCOPED_FREE char *literal = NULL;
    int width;
    int64_t bytes;

    CHARL_TRY(charl__text_printf(&where, "%s: %s", s->path, name));
    CHARL_TRY(read_exact(s, name, head, CHARL__NPY_HEAD, begin, end));
    width = charl__npy_length_bytes(head);
    CHARL_REQUIRE(width > 0, CHARL_ERR_CHECKPOINT, "%s: not an array of NumPy", charl__text_string(&where));
    CHARL_TRY(read_exact(s, name, length, width, begin + CHARL__NPY_HEAD, end));
    bytes = (int64_t)length[0] | (int64_t)length[1] << 8 | (int64_t)length[2] << 16 | (int64_t)length[3] << 24;
    CHARL_REQUIRE(bytes <= CHARL__NPY_LONGEST, CHARL_ERR_CHECKPOINT, "%s: header of %lld bytes",
                  charl__text_string(&where), (long long)bytes);
    CHARL_TRY(charl__alloc((size_t)bytes + 1, &literal));
    *data = begin + CHARL__NPY_HEAD + width + bytes;
    CHARL_TRY(read_exact(s, name, literal, bytes, *data - bytes, end));
    return charl__npy_parse(charl__text_string(&where), CHARL_ERR_CHECKPOINT, literal, h);
}

/* Add the array at s[begin, end); texts are no weights. */
static charl_status add_array(const charl__tensor_file_source *s, const char *name, int64_t begin, int64_t end,
                              charl__tensor_file_entry **entries, int64_t *n)
{
    static const char *const types[] = {"f2=F16", "f4=F32", "f8=F64", "u1=U8",  "u2=U16", "u4=U32",
                                        "u8=U64", "i1=I8",  "i2=I16", "i4=I32", "i8=I64", "b1=BOOL"};
    charl__npy_header h;
    charl__tensor_file_entry e = {0};
    int64_t bytes;
    char *own = NULL;

    CHARL_TRY(read_header(s, name, begin, end, &h, &e.begin));
    if (h.type == 'S' || h.type == 'U') {
        return CHARL_OK;
    }
    CHARL_REQUIRE(!h.swapped, CHARL_ERR_CHECKPOINT,
                  "%s: %s is of the other byte order; HINT x.astype(x.dtype.newbyteorder('=')) turns it", s->path,
                  name);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (types[i][0] == h.type && types[i][1] == '0' + h.size) {
            CHARL_INVARIANT(charl__tensor_file_set_type(&e, types[i] + 3));
        }
    }
    e.tensor.shape = h.shape;
    bytes = charl__tensor_file_bytes(&e);
    CHARL_REQUIRE(bytes >= 0 && bytes == end - e.begin, CHARL_ERR_CHECKPOINT,
                  "%s: %s has %lld bytes of elements, which do not fit its shape: it is damaged", s->path, name,
                  (long long)(end - e.begin));
    e.end = end;
    e.strided = h.fortran && h.shape.ndim > 1 && bytes > 0;
    for (int k = 0; e.strided && k < h.shape.ndim; k++) {
        e.stride[k] = k > 0 ? e.stride[k - 1] * h.shape.dim[k - 1] : 1;
    }
    CHARL_TRY(charl__grow(*n, sizeof **entries, entries));
    CHARL_TRY(charl__strdup(name, &own));
    e.tensor.name = own;
    (*entries)[(*n)++] = e;
    return CHARL_OK;
}

/* The name of a file or a member without .npy. */
static const char *cut_name(const char *from, char name[256])
{
    const int length = (int)strlen(from) - (charl__ends_in(from, ".npy") ? 4 : 0);

    snprintf(name, 256, "%.*s", length, from);
    return name;
}

static charl_status add_archive(const charl__tensor_file_source *s, charl__tensor_file_entry **entries, int64_t *n)
{
    CHARL_SCOPED_FREE charl__zip_member *members = NULL;
    int64_t count = 0;
    char name[256];

    CHARL_TRY(charl__zip_list(s->path, CHARL_ERR_CHECKPOINT, &members, &count));
    for (int64_t i = 0; i < count; i++) {
        const charl__zip_member *m = &members[i];

        CHARL_REQUIRE(!m->deflated, CHARL_ERR_CHECKPOINT,
                      "%s: %s is compressed; HINT in Python, numpy.savez('weights.npz', **numpy.load('%s')) writes it "
                      "without compression",
                      s->path, m->name, s->path);
        CHARL_TRY(add_array(s, cut_name(m->name, name), m->begin, m->begin + m->bytes, entries, n));
    }
    return CHARL_OK;
}

charl_status charl__tensor_file_numpy(const charl__tensor_file_source *s, charl__tensor_file_entry **entries,
                                      int64_t *n, charl_data_schema **schema)
{
    charl_status st = CHARL_OK;
    charl__tensor_file_entry *list = NULL;
    int64_t count = 0;
    char head[2] = "", name[256];

    *schema = NULL;
    *entries = NULL;
    *n = 0;
    CHARL_REQUIRE_CLEANUP(charl__regular_read(s->fd, head, 2, 0) == 2, CHARL_ERR_CHECKPOINT, "%s: cannot be read",
                          s->path);
    CHARL_TRY_CLEANUP(head[0] == 'P'
                          ? add_archive(s, &list, &count)
                          : add_array(s, cut_name(charl__base_name(s->path), name), 0, s->bytes, &list, &count));
    CHARL_REQUIRE_CLEANUP(count > 0, CHARL_ERR_CHECKPOINT, "%s: holds no arrays of numbers", s->path);
    *entries = list;
    *n = count;
    list = NULL;
cleanup:
    charl__tensor_file_free(list, count);
    return st;
}
