#ifndef CHARL_IO_TOKENIZER_H
#define CHARL_IO_TOKENIZER_H
/** A tokenizer as stored in data sets, checkpoints and schemas.
 *
 *  The learnt data of a tokenizer are its state: one array of numbers, which this module stores, copies and compares. src/data/tokenizer, in
 *  libcharl-train, builds the encoder and decoder from it. In a program without that library a tokenizer is only its state.
 */
#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"
#include "charl/data_schema.h"
#include "io/dataset/dataset_write.h"

/** How the state of a type of tokenizer is stored. */
typedef struct charl__tokenizer_layout {
    const char *name;  /* of the type */
    const char *array; /* in a data set: /tokenizer/ARRAY in rows of `columns`; NULL: there is no state */
    charl_dtype dtype; /* u8 or u32 */
    int64_t columns;   /* 0: the rows are numbers */
    bool has_spare;    /* data may have more tokens than the tokenizer */
} charl__tokenizer_layout;

struct charl_tokenizer {
    const charl__tokenizer_layout *layout;
    atomic_int shares; /* number of owners */
    void *state;       /* [n] of layout->dtype */
    int64_t n;
    int64_t vocab; /* 0: unknown (a program without libcharl-train) */
    /* Built from the state by charl__tokenizer_kind. */
    const struct charl__tokenizer_type *type;
    unsigned char *bytes;   /* of all tokens, concatenated */
    int64_t *starts;        /* [vocab + 1] in bytes */
    bool *special;          /* [vocab] tokens that are only recognized on request; NULL: none */
    struct charl__bpe *bpe; /* types that merge */
};

/** Functions of libcharl-train that build a tokenizer from its state and release it. */
typedef struct charl__tokenizer_kind {
    charl_status (*become)(charl_tokenizer *t);
    void (*fini)(charl_tokenizer *t);
} charl__tokenizer_kind;

/** Called once, when libcharl-train is loaded. */
void charl__tokenizer_set_kind(const charl__tokenizer_kind *kind);

/** The layout of the type `name`; NULL if there is none. */
const charl__tokenizer_layout *charl__tokenizer_layout_find(const char *name);

/** The tokenizer with this state of n numbers of layout->dtype, which are copied. Errors: ERR_DATA, ERR_CONFIG, ERR_NOMEM. */
charl_status charl__tokenizer_restore(const charl__tokenizer_layout *layout, const void *state, int64_t n,
                                      charl_tokenizer **out) CHARL_MUST_CHECK;
/** The same with a state of which it takes ownership, even after a failure. */
charl_status charl__tokenizer_create(const charl__tokenizer_layout *layout, void *state, int64_t n,
                                     charl_tokenizer **out) CHARL_MUST_CHECK;

/** Add an owner, which must release it; returns t. Release with charl_tokenizer_destroy. */
charl_tokenizer *charl__tokenizer_retain(const charl_tokenizer *t);
void charl__tokenizer_release(charl_tokenizer *t);

/** Whether they encode every text in the same way; either may be NULL. */
bool charl__tokenizer_equal(const charl_tokenizer *a, const charl_tokenizer *b);

/** Store the tokenizer in a data set that is being written. Errors: ERR_DISK. */
charl_status charl__tokenizer_store(const charl_tokenizer *t, charl__writer *w) CHARL_MUST_CHECK;

/** The tokenizer of a data set, which may have none. Errors as charl_tokenizer_load. */
charl_status charl__tokenizer_of_dataset(const char *path, charl_tokenizer **out) CHARL_MUST_CHECK;

/** For CHARL_SCOPED. */
CHARL_SCOPED_POINTER(charl__tokenizer_left, charl_tokenizer, charl__tokenizer_release)

#endif
