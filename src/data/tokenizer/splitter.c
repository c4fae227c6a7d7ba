/* Splitting by PCRE2, compiled to machine code if possible. Each run of UTF-8 is checked once, because the library would check the whole
 * rest at every word. */
#include "data/tokenizer/splitter.h"

#ifdef CHARL_HAVE_PCRE2

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "base/text/utf8.h"

enum { STACK_FIRST = 32 << 10, STACK_MOST = 64 << 20 };

struct charl__splitter {
    int n;
    struct step {
        pcre2_code *code;
        bool compiled; /* to machine code */
        bool looks_behind;
        bool matches_only;
    } step[CHARL__SPLITTER_STEPS];
};

static charl_status compile(const charl__split_step *from, struct step *to)
{
    CHARL_SCOPED(charl__text_fini) charl__text pattern = {0}, translated = {0};
    PCRE2_UCHAR why[128];
    PCRE2_SIZE where;
    int error;

    CHARL_TRY(charl__text_append(&pattern, from->pattern, from->length));
    CHARL_TRY(charl__pattern_translate(charl__text_string(&pattern), pattern.length, &translated));
    CHARL_TRY(charl__acquire("pattern"));
    /* No search for the first byte of a match: nearly every position has one, and the search reads in blocks that extend past the text. */
    to->code = pcre2_compile((PCRE2_SPTR)charl__text_string(&translated), translated.length,
                             PCRE2_UTF | PCRE2_UCP | PCRE2_NO_START_OPTIMIZE, &error, &where, NULL);
    if (!to->code) {
        charl__drop();
        pcre2_get_error_message(error, why, sizeof why);
        CHARL_FAIL(CHARL_ERR_DATA, "the pattern %.200s cannot be compiled: %s", charl__text_string(&pattern),
                   (const char *)why);
    }
    to->compiled = pcre2_jit_compile(to->code, PCRE2_JIT_COMPLETE) == 0;
    to->matches_only = from->matches_only;
    to->looks_behind = strstr(charl__text_string(&pattern), "(?<") != NULL;
    return CHARL_OK;
}

charl_status charl__splitter_create(const charl__split_step *steps, int n, charl__splitter **out)
{
    charl_status st = CHARL_OK;
    charl__splitter *s = NULL;

    *out = NULL;
    CHARL_REQUIRE_CLEANUP(n >= 0 && n <= CHARL__SPLITTER_STEPS, CHARL_ERR_DATA,
                          "a text is split in %d steps; at most %d are supported", n, CHARL__SPLITTER_STEPS);
    CHARL_TRY_CLEANUP(charl__alloc(sizeof *s, &s));
    for (; s->n < n; s->n++) {
        CHARL_TRY_CLEANUP(compile(&steps[s->n], &s->step[s->n]));
    }
    *out = s;
    s = NULL;
cleanup:
    charl__splitter_destroy(s);
    return st;
}

void charl__splitter_destroy(charl__splitter *s)
{
    if (!s) {
        return;
    }
    for (int i = 0; i < s->n; i++) {
        pcre2_code_free(s->step[i].code);
        charl__drop();
    }
    charl_free(s);
}

charl_status charl__words_init(charl__words *w, const charl__splitter *s)
{
    *w = (charl__words){.splitter = s};
    CHARL_TRY(charl__acquire("pattern match"));
    w->match = pcre2_match_data_create(1, NULL);
    w->context = pcre2_match_context_create(NULL);
    w->stack = pcre2_jit_stack_create(STACK_FIRST, STACK_MOST, NULL);
    CHARL_REQUIRE(w->match && w->context, CHARL_ERR_NOMEM, "no memory to match patterns");
    if (w->stack) { /* NULL: PCRE2 has no compiler for this processor */
        pcre2_jit_stack_assign(w->context, NULL, w->stack);
    }
    return CHARL_OK;
}

void charl__words_fini(charl__words *w)
{
    if (w->match) {
        pcre2_match_data_free(w->match);
        pcre2_match_context_free(w->context);
        pcre2_jit_stack_free(w->stack);
        charl__drop();
    }
    *w = (charl__words){0};
}

void charl__words_begin(charl__words *w, const unsigned char *text, size_t bytes)
{
    w->text = text;
    w->bytes = bytes;
    w->at = w->valid = 0;
    memset(w->level, 0, sizeof w->level);
}

/* End of the bytes from `at` on that are not UTF-8. */
static size_t skip_invalid(const charl__words *w, size_t at)
{
    while (at < w->bytes && charl__utf8_length(w->text + at, w->bytes - at) == 0) {
        at++;
    }
    return at;
}

/* The next match in a level's piece: its beginning, and its end in match_end. Without one both are the end of the piece. An empty match
 * ends the piece before it; if that is empty, it is skipped. */
static charl_status find(charl__words *w, const struct step *step, struct charl__words_level *l, size_t *begin)
{
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(w->match);
    const uint32_t options = PCRE2_NO_UTF_CHECK;

    for (size_t from = l->at;; from += charl__utf8_length(l->piece + from, l->bytes - from)) {
        const int found = step->compiled
                              ? pcre2_jit_match(step->code, l->piece, l->bytes, from, options, w->match, w->context)
                              : pcre2_match(step->code, l->piece, l->bytes, from, options, w->match, w->context);

        /* 0: there are groups, for whose spans there is no room */
        CHARL_REQUIRE(found >= 0 || found == PCRE2_ERROR_NOMATCH, CHARL_ERR_DATA,
                      "the tokenizer's pattern cannot be matched with the text at byte %zu: PCRE2's error %d",
                      (size_t)(l->piece - w->text) + from, found);
        *begin = found >= 0 ? span[0] : l->bytes;
        l->match_end = found >= 0 ? span[1] : l->bytes;
        if (l->match_end > l->at) {
            return CHARL_OK;
        }
    }
}

/* The next piece that `step` and the earlier steps leave of a run of UTF-8; *bytes = 0 at its end. */
static charl_status next_piece(charl__words *w, int step, const unsigned char **piece, size_t *bytes)
{
    struct charl__words_level *l;
    size_t begin, end;

    if (step < 0) { /* the run itself, once */
        *piece = w->text + w->at;
        *bytes = w->valid - w->at;
        w->at = w->valid;
        return CHARL_OK;
    }
    l = &w->level[step];
    do {
        if (l->at == l->bytes) {
            l->at = l->match_end = 0;
            CHARL_TRY(next_piece(w, step - 1, &l->piece, &l->bytes));
            if (l->bytes == 0) {
                *bytes = 0;
                return CHARL_OK;
            }
        }
        begin = l->at;
        if (l->match_end == 0) {
            CHARL_TRY(find(w, &w->splitter->step[step], l, &begin));
        }
        if (begin > l->at) { /* the text before the match */
            end = begin;
        } else {
            end = l->match_end;
            l->match_end = 0;
        }
        *piece = l->piece + l->at;
        *bytes = end - l->at;
        l->at = end;
        if (begin == l->match_end) { /* there was no match, or one of nothing */
            l->match_end = 0;
        }
    } while (begin > (size_t)(*piece - l->piece) && w->splitter->step[step].matches_only);
    return CHARL_OK;
}

charl_status charl__words_next(charl__words *w, const unsigned char **word, size_t *bytes)
{
    for (;;) {
        if (w->at < w->valid || w->splitter->n > 0) {
            CHARL_TRY(next_piece(w, w->splitter->n - 1, word, bytes));
            if (*bytes > 0) {
                return CHARL_OK;
            }
        }
        if (w->at == w->bytes) {
            *bytes = 0;
            return CHARL_OK;
        }
        w->valid = w->at + charl__utf8_valid(w->text + w->at, w->bytes - w->at);
        if (w->valid == w->at) {
            *word = w->text + w->at;
            w->valid = skip_invalid(w, w->at);
            *bytes = w->valid - w->at;
            w->at = w->valid;
            return CHARL_OK;
        }
    }
}

/* Words of every kind, white space of every kind, and what can follow it. */
static charl_status make_sample(charl__text *out)
{
    static const char *const before[] = {"", "(", "'", "\xc3\xa9", "_", "9"};
    static const char *const words[] = {"a", "A", "0", "abc", "aBc", "ABC", "Abc", "1234", "a1", "1A"};
    static const char *const spaces[] = {" ", "  ", "\n", "\r\n", "\t", " \n ", "   "};
    static const char *const after[] = {"a", "A", "1", "(", "'s", "\xc3\xa9", "\xe4\xb8\xad"};

    for (size_t b = 0; b < sizeof before / sizeof *before; b++) {
        for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
            for (size_t s = 0; s < sizeof spaces / sizeof *spaces; s++) {
                for (size_t a = 0; a < sizeof after / sizeof *after; a++) {
                    CHARL_TRY(charl__text_printf(out, "%s%s%s%s ", before[b], words[w], spaces[s], after[a]));
                }
            }
        }
    }
    return CHARL_OK;
}

charl_status charl__splitter_cuts_at_spaces(const charl__splitter *s, bool *out)
{
    CHARL_SCOPED(charl__text_fini) charl__text sample = {0};
    CHARL_SCOPED(charl__words_fini) charl__words w = {0};
    const unsigned char *word;
    size_t bytes = 1;

    *out = true;
    for (int i = 0; i < s->n; i++) {
        *out = *out && !s->step[i].looks_behind;
    }
    CHARL_TRY(make_sample(&sample));
    CHARL_TRY(charl__words_init(&w, s));
    charl__words_begin(&w, (const unsigned char *)sample.data, sample.length);
    while (*out && bytes > 0) {
        CHARL_TRY(charl__words_next(&w, &word, &bytes));
        for (size_t i = 1; i < bytes; i++) {
            *out = *out && !charl__is_cut(word[i - 1], word[i]);
        }
    }
    return CHARL_OK;
}

#else

charl_status charl__splitter_cuts_at_spaces(const charl__splitter *s, bool *out)
{
    (void)s;
    *out = false;
    return CHARL_OK;
}

charl_status charl__splitter_create(const charl__split_step *steps, int n, charl__splitter **out)
{
    (void)steps;
    (void)n;
    *out = NULL;
    CHARL_FAIL(CHARL_ERR_CONFIG, "byte pair encoding: this charl was built without libpcre2; HINT "
                                 "install libpcre2-dev and build again, or "
                                 "use chars or bytes");
}

void charl__splitter_destroy(charl__splitter *s)
{
    (void)s;
}

charl_status charl__words_init(charl__words *w, const charl__splitter *s)
{
    *w = (charl__words){.splitter = s};
    return CHARL_OK;
}

void charl__words_begin(charl__words *w, const unsigned char *text, size_t bytes)
{
    w->text = text;
    w->bytes = bytes;
}

charl_status charl__words_next(charl__words *w, const unsigned char **word, size_t *bytes)
{
    (void)w;
    *word = NULL;
    *bytes = 0;
    return CHARL_OK;
}

void charl__words_fini(charl__words *w)
{
    *w = (charl__words){0};
}

#endif
