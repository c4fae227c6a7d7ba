#ifndef CHARL_DATA_TOKENIZER_NORMALIZE_H
#define CHARL_DATA_TOKENIZER_NORMALIZE_H
/** How published tokenizers change a text before they split it: a list of normalizers, each of which is applied to what the one before it made.
 *
 *      CHARL_TRY(charl__normalizer_apply(&steps[i], true, text, bytes, &out));
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/text/text.h"

/** The numbers are stored in the states of tokenizers. */
typedef enum charl__normalizer_kind {
    CHARL__NORMALIZE_NFC,
    CHARL__NORMALIZE_NFD,
    CHARL__NORMALIZE_NFKC,
    CHARL__NORMALIZE_NFKD,
    CHARL__NORMALIZE_LOWERCASE,
    CHARL__NORMALIZE_STRIP_ACCENTS,    /* removes marks */
    CHARL__NORMALIZE_STRIP_NONSPACING, /* removes nonspacing marks, as BERT does */
    CHARL__NORMALIZE_CLEAN,            /* BERT: removes control characters, makes white space spaces */
    CHARL__NORMALIZE_CHINESE,          /* BERT: spaces around each Chinese character */
    CHARL__NORMALIZE_STRIP_LEFT,       /* removes white space at the beginning, at the end */
    CHARL__NORMALIZE_STRIP_RIGHT,
    CHARL__NORMALIZE_REPLACE,        /* `from` by `to` */
    CHARL__NORMALIZE_REPLACE_SPACES, /* two or more spaces by `to` */
    CHARL__NORMALIZE_PREPEND,        /* `to` in front of a text that is not empty */
    CHARL__NORMALIZE_CHARSMAP, /* the map `from` of SentencePiece: the longest text in it is replaced at each place */
    CHARL__NORMALIZE_CHARSMAP_OF_GRAPHEMES, /* the same map as `tokenizers` reads it: by grapheme clusters */
    CHARL__NORMALIZE_STRIP_SPACES,  /* SentencePiece: spaces at the beginning and the end, at the end U+2581 too */
    CHARL__NORMALIZE_SQUEEZE_WHITE, /* WhitespaceSplit before Metaspace: one space for white space, none at the ends */
    CHARL__NORMALIZER_KINDS,
} charl__normalizer_kind;

typedef struct charl__normalizer {
    charl__normalizer_kind kind;
    const unsigned char *from, *to;
    size_t from_bytes, to_bytes;
} charl__normalizer;

/** Append the normalized text to `out`, which does not hold it. `begins`: nothing comes before it; otherwise one space of those that it begins with
 *  stays. Errors: ERR_NOMEM. */
charl_status charl__normalizer_apply(const charl__normalizer *n, bool begins, const unsigned char *text, size_t bytes,
                                     charl__text *out) CHARL_MUST_CHECK;

/** Whether it can be applied. Errors: ERR_DATA  the map is damaged   ERR_CONFIG  it needs libutf8proc, without which charl was built. */
charl_status charl__normalizer_check(const charl__normalizer *n) CHARL_MUST_CHECK;

/** Whether a text may be divided before white space that follows an ASCII letter or digit, and its parts normalized. */
bool charl__normalizer_cuts_at_spaces(const charl__normalizer *n);

/** Bytes of the white space (\s of regular expressions) that text begins with; 0: it begins with something else. */
size_t charl__white_space_at(const unsigned char *text, size_t bytes);
/** Bytes of the white space that text ends with. */
size_t charl__white_space_before(const unsigned char *text, size_t bytes);

#endif
