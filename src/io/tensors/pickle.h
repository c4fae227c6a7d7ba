#ifndef CHARL_IO_TENSORS_PICKLE_H
#define CHARL_IO_TENSORS_PICKLE_H
/** Reading pickles of Python as data. Nothing is imported or called: a call is a value that names what Python would call and its arguments.
 *
 *  Opcodes: Python's Lib/pickletools.py, protocols 0 to 5 but for out-of-band buffers and extension codes.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

typedef enum charl__pickle_kind {
    CHARL__PICKLE_NONE,
    CHARL__PICKLE_BOOL,   /* integer */
    CHARL__PICKLE_INT,    /* integer */
    CHARL__PICKLE_OTHER,  /* a number that is not needed here: a float, an integer of more than 64 bits */
    CHARL__PICKLE_TEXT,   /* text: a string, or bytes */
    CHARL__PICKLE_LIST,   /* item: of a list, tuple or set */
    CHARL__PICKLE_DICT,   /* item: keys and values in turn */
    CHARL__PICKLE_GLOBAL, /* text: "module name" */
    CHARL__PICKLE_CALL, /* callable(args), or an object made so; item as of a dict or list, if it is of such a class */
    CHARL__PICKLE_OUTSIDE, /* args: the identity of something that is stored outside of the pickle */
} charl__pickle_kind;

typedef struct charl__pickle_value charl__pickle_value;

struct charl__pickle_value {
    charl__pickle_kind kind;
    int64_t integer;
    char *text; /* owned; bytes + 1, of which the last is 0 */
    int64_t bytes;
    charl__pickle_value **item; /* array owned; values are of the pickle. May form a cycle */
    int64_t n;
    const charl__pickle_value *callable, *args, *state; /* or NULL */
};

typedef struct charl__pickle {
    const charl__pickle_value *root;
    charl__pickle_value **all; /* [n] every value, also those that root does not reach */
    int64_t n;
} charl__pickle;

/** Read the pickle of the open file `fd` at byte *at, which must end before byte `end`; *at is then what follows it. `path` is for messages.
 *  *out: charl__pickle_fini, even after a failure.
 *  Errors: ERR_CHECKPOINT  the pickle is damaged, too large, or uses what is not read here; ERR_NOMEM. */
charl_status charl__pickle_read(const char *path, int fd, int64_t *at, int64_t end,
                                charl__pickle *out) CHARL_MUST_CHECK;
void charl__pickle_fini(charl__pickle *p);

/** Whether v is a CHARL__PICKLE_GLOBAL of this name, "collections OrderedDict". NULL is none. Local. */
bool charl__pickle_is(const charl__pickle_value *v, const char *name);

#endif
