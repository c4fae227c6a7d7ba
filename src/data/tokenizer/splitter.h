#ifndef CHARL_DATA_TOKENIZER_SPLITTER_H
#define CHARL_DATA_TOKENIZER_SPLITTER_H
/** Splits a text into the words within which tokens are merged.
 *
 *  A splitter is a list of patterns (regular expressions). The first splits the text, the next splits the resulting pieces, and so on; every match is
 *  a piece, and so is the text between two matches. Bytes that are not UTF-8 are separate words, so the words always cover the text.
 *
 *      charl__splitter_create(steps, n, &s);
 *      charl__words_init(&w, s);
 *      charl__words_begin(&w, text, bytes);
 *      while (charl__words_next(&w, &word, &length) == CHARL_OK && length > 0) { ... }
 *
 *  A splitter is immutable: any number of threads may use it, each with its own charl__words.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { CHARL__SPLITTER_STEPS = 8 };

/** GPT-2's pattern: English contractions; a space with letters, with digits, with neither; spaces, of which the last belongs to the word
 *  that follows. */
#define CHARL__PATTERN_GPT2 "'(?:s|t|re|ve|m|ll|d)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

typedef struct charl__split_step {
    const char *pattern; /* as written in tokenizer.json and tiktoken */
    size_t length;
    bool matches_only; /* drop the text between matches */
} charl__split_step;

typedef struct charl__splitter charl__splitter;

/** Compile the patterns, which are copied. `*out` is owned.
 *  Errors: ERR_DATA    a pattern that is malformed, or uses syntax that regular expression libraries interpret differently, naming it
 *          ERR_CONFIG  this charl was built without libpcre2
 *          ERR_NOMEM */
charl_status charl__splitter_create(const charl__split_step *steps, int n, charl__splitter **out) CHARL_MUST_CHECK;
void charl__splitter_destroy(charl__splitter *s);

/** Whether a text may be divided between these bytes: after an ASCII letter or digit, before white space. */
static inline bool charl__is_cut(unsigned char before, unsigned char after)
{
    return ((before >= 'a' && before <= 'z') || (before >= 'A' && before <= 'Z') || (before >= '0' && before <= '9')) &&
           (after == ' ' || after == '\t' || after == '\r' || after == '\n');
}

/** Whether every pattern ends its words at such places, so that the text after it is split independently. Determined
 *  by splitting a text with many such places. Errors: ERR_NOMEM. */
charl_status charl__splitter_cuts_at_spaces(const charl__splitter *s, bool *out) CHARL_MUST_CHECK;

/** A text while it is split. */
typedef struct charl__words {
    const charl__splitter *splitter;
    void *match, *context, *stack; /* pcre2's */
    const unsigned char *text;
    size_t bytes, at;
    size_t valid; /* the text is UTF-8 from `at` to here */
    struct charl__words_level {
        const unsigned char *piece; /* range that this step splits */
        size_t bytes, at;
        size_t match_end; /* the match that begins at `at` ends here; 0: unknown */
    } level[CHARL__SPLITTER_STEPS];
} charl__words;

/** `s` is borrowed. Call fini even after a failure. Errors: ERR_NOMEM. */
charl_status charl__words_init(charl__words *w, const charl__splitter *s) CHARL_MUST_CHECK;
/** Start with a text, borrowed. */
void charl__words_begin(charl__words *w, const unsigned char *text, size_t bytes);
/** The next word; *bytes = 0 at the end. Errors: ERR_DATA  the pattern needs too much memory for this text. */
charl_status charl__words_next(charl__words *w, const unsigned char **word, size_t *bytes) CHARL_MUST_CHECK;
void charl__words_fini(charl__words *w);

/** The pattern in PCRE2's syntax, appended to `out`. Errors: ERR_DATA, ERR_NOMEM. */
struct charl__text;
charl_status charl__pattern_translate(const char *pattern, size_t length, struct charl__text *out) CHARL_MUST_CHECK;

#endif
