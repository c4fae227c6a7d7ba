#ifndef CHARL_IO_CHECKPOINT_CHECKPOINT_FORMAT_H
#define CHARL_IO_CHECKPOINT_CHECKPOINT_FORMAT_H
/** The checkpoint format, said once: names, element types, attributes and manifest lines. Shared by
 *  the parts that write, read and compare. The format is described in checkpoints/README.md.
 */
#include <hdf5.h>

#include "io/checkpoint/checkpoint_parts.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "checkpoints are written from little-endian memory"
#endif

enum {
    CHARL__CKPT_TEXT = 4001,         /* bytes of an attribute's text with its NUL */
    CHARL__CKPT_NAME = 512,          /* bytes of a dataset's path with its NUL */
    CHARL__CKPT_GROUPS = 64,         /* distinct groups with datasets */
    CHARL__CKPT_CONFIG = 16 << 20,   /* bytes of a configuration */
    CHARL__CKPT_MANIFEST = 64 << 20, /* bytes of the manifest */
    CHARL__CKPT_BLOCK = 1 << 20      /* bytes read at a time */
};

/* charl_format of a part. */
#define CHARL__CKPT_PART_FORMAT "checkpoint part"
/* What the name of a part ends in. */
#define CHARL__CKPT_PART ".part"

typedef enum charl__ckpt_kind { CHARL__CKPT_I64, CHARL__CKPT_F64, CHARL__CKPT_STRING } charl__ckpt_kind;

/** One attribute: `name` of object `group`, a member of charl_checkpoint_state at `offset`. */
typedef struct charl__ckpt_field {
    const char *group, *name;
    charl__ckpt_kind kind;
    size_t offset;
    int64_t lowest;  /* of an I64 */
    bool provenance; /* may differ between equal checkpoints */
    bool optional;   /* stands in the file only when it is not 0 or "" */
} charl__ckpt_field;

extern const charl__ckpt_field charl__ckpt_fields[];
extern const int charl__ckpt_n_fields;

int64_t charl__ckpt_get_i64(const charl_checkpoint_state *s, const charl__ckpt_field *f);
double charl__ckpt_get_f64(const charl_checkpoint_state *s, const charl__ckpt_field *f);
/** Never NULL. */
const char *charl__ckpt_get_string(const charl_checkpoint_state *s, const charl__ckpt_field *f);

/** The stored type of `dtype`, a counted handle: IEEE and two's complement, little-endian; bf16 as
 *  u16. Errors: ERR_NOMEM. */
charl_status charl__ckpt_type(charl_dtype dtype, hid_t *out) CHARL_MUST_CHECK;

/** Whether `group` may hold tensors: "model", "ema", "user" or "optim/STATE". */
bool charl__ckpt_is_group(const char *group);

/** Bytes of a tensor; -1 when dtype or shape is impossible or the product overflows. */
int64_t charl__ckpt_bytes(charl_dtype dtype, const charl_shape *shape);

/** Append a shape as "784x128" or "scalar"; take such a text apart; find an element type by its
 *  name. Errors: ERR_NOMEM; false: not one. */
charl_status charl__ckpt_shape_format(charl__text *out, const charl_shape *shape) CHARL_MUST_CHECK;
bool charl__ckpt_shape_parse(const char *s, charl_shape *shape);
bool charl__ckpt_dtype_parse(const char *s, charl_dtype *out);

/** Append "/group/name dtype shape bytes crc32c\n", the shape as "784x128" or "scalar". Errors:
 *  ERR_NOMEM. */
charl_status charl__ckpt_line_format(charl__text *out, const charl_checkpoint_tensor *t) CHARL_MUST_CHECK;

/** Take the line at `line` (NUL-terminated, writable, without its newline) apart; group and name of
 * *t point into it. False when it is not exactly what charl__ckpt_line_format writes. */
bool charl__ckpt_line_parse(char *line, charl_checkpoint_tensor *t);

/** Append the line of a piece of `t` to the manifest of a part: "FROM SHA256", with "-" for "", and the line of a list of `count` elements. Errors:
 *  ERR_NOMEM. */
charl_status charl__ckpt_piece_format(charl__text *out, const charl_checkpoint_tensor *t,
                                      const charl__ckpt_piece *p) CHARL_MUST_CHECK;
/** The way back; *t is a list of p->count elements, and points into the line. p->tensor, part, number and offset stay as they are. */
bool charl__ckpt_piece_parse(char *line, charl_checkpoint_tensor *t, charl__ckpt_piece *p);

/** A box of elements of a tensor that lie one after another: `count` along each dimension from `start` on, n in all. */
typedef struct charl__ckpt_box {
    hsize_t start[CHARL_MAX_DIMS], count[CHARL_MAX_DIMS];
    int64_t n;
} charl__ckpt_box;

/** The largest box of a tensor of `shape` that begins at element `from` and does not reach `to`, which is greater. */
charl__ckpt_box charl__ckpt_box_at(const charl_shape *shape, int64_t from, int64_t to);

#endif
