/* Three edits of a PTX text, each at a whole token: names and instructions contain the same
 * letters.
 */
#include "device/nvidia/ptx.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

static const char blanks[] = " \t\r\n";

static bool is_blank(char c)
{
    return c != '\0' && strchr(blanks, c) != NULL;
}

/* First place where `word` stands between blanks (or begins the text), or NULL. */
static const char *find_word(const char *text, const char *word)
{
    const size_t length = strlen(word);

    for (const char *at = text; (at = strstr(at, word)) != NULL; at += length) {
        if ((at == text || is_blank(at[-1])) && is_blank(at[length])) {
            return at;
        }
    }
    return NULL;
}

/* Just after the target's name in `.target sm_90, ...`. NULL: another target, or none. */
static const char *end_of_target(const char *ptx)
{
    static const char name[] = "sm_90";
    const char *at = find_word(ptx, ".target");

    if (!at) {
        return NULL;
    }
    at += strlen(".target");
    at += strspn(at, blanks);
    return strncmp(at, name, sizeof name - 1) == 0 ? at + sizeof name - 1 : NULL;
}

/* The digits in `.shared .align 1024 .b8 name[49152];`. NULL: no array with an extent. */
static const char *shared_extent(const char *ptx, size_t *length)
{
    const char *at = find_word(ptx, ".shared");

    if (!at) {
        return NULL;
    }
    at += strcspn(at, "[;");
    if (*at != '[') {
        return NULL;
    }
    *length = strspn(at + 1, "0123456789");
    return *length > 0 && at[1 + *length] == ']' ? at + 1 : NULL;
}

/* Where the body of a kernel begins whose directives tell its work-group. NULL: none does. */
static const char *directives_end(const char *ptx)
{
    const char *at = find_word(ptx, ".reqntid");

    return at ? strchr(at, '{') : NULL;
}

/* Append [*from, to) and what stands there instead of the next `skip` characters. */
static charl_status edit(const char **from, const char *to, size_t skip, const char *text, charl__text *out)
{
    CHARL_TRY(charl__text_append(out, *from, (size_t)(to - *from)));
    CHARL_TRY(charl__text_append(out, text, strlen(text)));
    *from = to + skip;
    return CHARL_OK;
}

charl_status charl__ptx_retarget(const char *ptx, int64_t shared_bytes, int min_blocks, charl__text *out)
{
    size_t digits = 0;
    const char *target = end_of_target(ptx), *extent = shared_extent(ptx, &digits);
    const char *body = min_blocks > 0 ? directives_end(ptx) : NULL, *from = ptx;
    char bytes[32], fit[48];

    CHARL_REQUIRE(target && strchr(" \t\r\n,a", *target) /* the text's end too */, CHARL_ERR_KERNEL,
                  "the compiler's output is no PTX for sm_90");
    CHARL_REQUIRE(shared_bytes == 0 || (extent && extent > target), CHARL_ERR_KERNEL,
                  "the compiler's output has no array in shared memory");
    snprintf(bytes, sizeof bytes, "%lld", (long long)shared_bytes);
    snprintf(fit, sizeof fit, ".minnctapersm %d\n", min_blocks);
    CHARL_TRY(edit(&from, target, 0, *target == 'a' ? "" : "a", out));
    if (shared_bytes > 0 && !(body && body < extent)) { /* it stands in front of the kernel */
        CHARL_TRY(edit(&from, extent, digits, bytes, out));
    }
    if (body) {
        CHARL_TRY(edit(&from, body, 0, fit, out));
    }
    if (shared_bytes > 0 && body && body < extent) { /* or in it */
        CHARL_TRY(edit(&from, extent, digits, bytes, out));
    }
    CHARL_TRY(charl__text_append(out, from, strlen(from)));
    return CHARL_OK;
}
