/* Words by GPT-2's pattern. The text is checked once for UTF-8, run by run, because the pattern's
 * library would check all that follows at every word. */
#include "io/tokenizer/bpe.h"

#ifdef CHARL_HAVE_PCRE2

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/alloc.h"
#include "base/utf8.h"

/* English contractions; a space with letters, with numbers, with neither; spaces, of which the last
 * is left to the word that follows. */
static const char pattern[] = "'(?:s|t|re|ve|m|ll|d)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
                              "|\\s+(?!\\S)|\\s+";

charl_status charl__words_init(charl__words *w, const unsigned char *text, size_t bytes)
{
    int error;
    PCRE2_SIZE where;

    *w = (charl__words){.text = text, .bytes = bytes};
    CHARL_TRY(charl__acquire("pattern"));
    w->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &error, &where, NULL);
    CHARL_INVARIANT(w->code);
    (void)pcre2_jit_compile(w->code, PCRE2_JIT_COMPLETE); /* where it cannot, it is slower */
    CHARL_TRY(charl__acquire("pattern match"));
    w->match = pcre2_match_data_create(1, NULL);
    CHARL_INVARIANT(w->match);
    return CHARL_OK;
}

void charl__words_fini(charl__words *w)
{
    if (w->match) {
        pcre2_match_data_free(w->match);
        charl__drop();
    }
    if (w->code) {
        pcre2_code_free(w->code);
        charl__drop();
    }
    *w = (charl__words){0};
}

/* End of the bytes from `at` on that are not UTF-8. */
static size_t skip_invalid(const charl__words *w, size_t at)
{
    while (at < w->bytes && charl__utf8_length(w->text + at, w->bytes - at) == 0) {
        at++;
    }
    return at;
}

bool charl__words_next(charl__words *w, const unsigned char **word, size_t *bytes)
{
    size_t end;

    if (w->at == w->bytes) {
        return false;
    }
    if (w->at == w->valid) {
        w->valid += charl__utf8_valid(w->text + w->at, w->bytes - w->at);
    }
    if (w->at == w->valid) {
        end = w->valid = skip_invalid(w, w->at);
    } else {
        /* Whatever character comes next, the pattern matches there. */
        const int found =
            pcre2_match(w->code, w->text, w->valid, w->at, PCRE2_ANCHORED | PCRE2_NO_UTF_CHECK, w->match, NULL);

        CHARL_INVARIANT(found > 0);
        end = pcre2_get_ovector_pointer(w->match)[1];
    }
    *word = w->text + w->at;
    *bytes = end - w->at;
    w->at = end;
    return true;
}

#else

charl_status charl__words_init(charl__words *w, const unsigned char *text, size_t bytes)
{
    *w = (charl__words){.text = text, .bytes = bytes};
    CHARL_FAIL(CHARL_ERR_CONFIG, "tokenizer bpe: this charl was built without libpcre2; HINT install libpcre2-dev and "
                                 "build again, or use chars or bytes");
    return CHARL_OK;
}

bool charl__words_next(charl__words *w, const unsigned char **word, size_t *bytes)
{
    (void)w;
    *word = NULL;
    *bytes = 0;
    return false;
}

void charl__words_fini(charl__words *w)
{
    *w = (charl__words){0};
}

#endif
