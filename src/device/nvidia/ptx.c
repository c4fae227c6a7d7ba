/* Edits PTX text. Each edit replaces a whole token, because names and instructions contain the same
 * letters.
 */
#include "device/nvidia/ptx.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static const char blanks[] = " \t\r\n";

static bool is_blank(char c)
{
    return c != '\0' && strchr(blanks, c) != NULL;
}

/* First occurrence of `word` between blanks (or at the beginning of the text), or NULL. */
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

/* Where the body of the first kernel begins whose directives specify its work-group. NULL: none does. */
static const char *directives_end(const char *ptx)
{
    const char *at = find_word(ptx, ".reqntid");

    return at ? strchr(at, '{') : NULL;
}

/* Append [*from, to) and the replacement of the next `skip` characters. */
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
    if (shared_bytes > 0 && !(body && body < extent)) { /* if it comes before the kernel */
        CHARL_TRY(edit(&from, extent, digits, bytes, out));
    }
    if (body) {
        CHARL_TRY(edit(&from, body, 0, fit, out));
    }
    if (shared_bytes > 0 && body && body < extent) { /* or inside it */
        CHARL_TRY(edit(&from, extent, digits, bytes, out));
    }
    CHARL_TRY(charl__text_append(out, from, strlen(from)));
    return CHARL_OK;
}

enum { STATIC_BYTES = 48 << 10 };

static bool is_of_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$';
}

/* The line at `at`: its length without the line end. */
static size_t line_length(const char *at)
{
    return strcspn(at, "\n");
}

/* First occurrence of `word` in the line at `at`, or NULL. */
static const char *find_in_line(const char *at, const char *word)
{
    const char *end = at + line_length(at);
    const size_t length = strlen(word);

    for (; (size_t)(end - at) >= length; at++) {
        if (memcmp(at, word, length) == 0) {
            return at;
        }
    }
    return NULL;
}

/* Elements of the array in local memory that the line declares, if libcuda does not allow that many; else 0. */
static int64_t large_array(const char *line)
{
    const char *at = line + strspn(line, blanks);
    const char *extent;

    if (strncmp(at, ".shared ", 8) != 0 || (extent = find_in_line(at, "[")) == NULL) {
        return 0;
    }
    return atoll(extent + 1) > STATIC_BYTES ? atoll(extent + 1) : 0;
}

/* The parameter NAME_param_K of `ld.param.u64 %rdN, [NAME_param_K];` if it is a pointer to local memory, and the position of the register. */
static const char *loads_local_pointer(const char *ptx, const char *line, size_t *reg_length)
{
    const char *at = line + strspn(line, blanks), *reg, *name;
    size_t length;
    char declared[320];

    if (strncmp(at, "ld.param.u64", 12) != 0 || (name = find_in_line(at, "[")) == NULL) {
        return NULL;
    }
    reg = at + 12 + strspn(at + 12, blanks);
    *reg_length = strcspn(reg, ",");
    length = strcspn(++name, "]+");
    if (name[length] != ']' || length == 0 || length > 256) {
        return NULL;
    }
    snprintf(declared, sizeof declared, "%.*s", (int)length, name);
    for (at = ptx; (at = strstr(at, declared)) != NULL; at += length) {
        if (!is_of_name(at[length]) && (at == ptx || !is_of_name(at[-1]))) {
            const char *begin = at; /* the first occurrence is the declaration */

            while (begin > ptx && begin[-1] != '\n') {
                begin--;
            }
            return find_in_line(begin, ".ptr .shared") ? reg : NULL;
        }
    }
    return NULL;
}

/* Append a line with its environment registers replaced. libcuda does not accept a parameter that is declared as a pointer to local memory: it
 * becomes a number. */
static charl_status append_line(const char *line, size_t length, charl__text *out)
{
    static const char word[] = "%envreg";
    static const char *const meaning[] = {"0", "0", "0", "0", "0", "0", "%nctaid.x", "%nctaid.y", "%nctaid.z", "3"};
    const char *from = line, *at = find_in_line(line, ".ptr .shared");

    if (at && at < line + length) {
        const char *name = line + length;

        while (!is_blank(name[-1])) {
            name--;
        }
        CHARL_TRY(edit(&from, at, (size_t)(name - at), "", out));
    }
    while ((at = find_in_line(from, word)) != NULL && at < line + length) {
        char *end;
        const unsigned long k = strtoul(at + sizeof word - 1, &end, 10);

        CHARL_REQUIRE(k < sizeof meaning / sizeof *meaning, CHARL_ERR_KERNEL,
                      "the compiler's output reads %%envreg%lu, and charl does not know what that is", k);
        CHARL_TRY(edit(&from, at, (size_t)(end - at), meaning[k], out));
    }
    return charl__text_append(out, from, (size_t)(line + length - from));
}

static const char wait_word[] = "griddepcontrol.wait";

/* Whether the target has that instruction: since compute capability 9.0. */
static bool can_wait(const char *ptx)
{
    const char *at = find_word(ptx, ".target");

    at = at ? find_in_line(at, "sm_") : NULL;
    return at && atoi(at + 3) >= 90;
}

/* Whether the lines from `line` to the next kernel have `word`. */
static bool kernel_has(const char *line, const char *word)
{
    do {
        if (find_in_line(line, word)) {
            return true;
        }
        line += line_length(line);
        line += *line != '\0';
    } while (*line && !find_in_line(line, ".entry"));
    return false;
}

/* Before the kernels: the dynamic memory, by its names. */
static charl_status declare_dynamic(const char *ptx, bool has_pointers, charl__text *out)
{
    if (has_pointers) {
        CHARL_TRY(charl__text_printf(out, ".extern .shared .align 128 .b8 charl_dynamic[];\n"));
    }
    for (const char *line = ptx; *line; line += line_length(line) + (line[line_length(line)] != '\0')) {
        const char *name = line + strspn(line, blanks);

        if (large_array(line) > 0) {
            CHARL_TRY(charl__text_printf(out, ".extern "));
            CHARL_TRY(append_line(name, strcspn(name, "["), out));
            CHARL_TRY(charl__text_printf(out, "[];\n"));
        }
    }
    return CHARL_OK;
}

charl_status charl__ptx_for_cuda(const char *ptx, charl__text *out)
{
    const bool has_pointers = strstr(ptx, ".ptr .shared") != NULL;
    const char *const head = strstr(ptx, ".address_size"); /* its last line */
    const bool waits = can_wait(ptx);
    bool is_to_wait = false; /* the kernel whose body begins next */
    size_t length, reg_length = 0;

    CHARL_REQUIRE(head, CHARL_ERR_KERNEL, "the compiler's output is no PTX");
    for (const char *line = ptx; *line; line += length + (line[length] != '\0')) {
        const char *reg = has_pointers ? loads_local_pointer(ptx, line, &reg_length) : NULL;

        length = line_length(line);
        if (large_array(line) > 0) {
            continue; /* it is declared before the kernels */
        }
        CHARL_TRY(append_line(line, length, out));
        CHARL_TRY(charl__text_append(out, "\n", 1));
        if (reg) {
            CHARL_TRY(charl__text_printf(
                out, "{ .reg .b64 %%charl; mov.u64 %%charl, charl_dynamic; add.s64 %.*s, %.*s, %%charl; }\n",
                (int)reg_length, reg, (int)reg_length, reg));
        }
        if (find_in_line(line, ".entry") || find_in_line(line, ".func")) {
            is_to_wait = waits && find_in_line(line, ".entry") && !kernel_has(line, wait_word);
        } else if (is_to_wait && *line == '{') {
            CHARL_TRY(charl__text_printf(out, "%s;\n", wait_word));
            is_to_wait = false;
        }
        if (head >= line && head < line + length) {
            CHARL_TRY(declare_dynamic(ptx, has_pointers, out));
        }
    }
    return CHARL_OK;
}

/* `.entry NAME(` */
static const char *find_entry(const char *ptx, const char *entry)
{
    const size_t length = strlen(entry);

    for (const char *at = ptx; (at = find_word(at, ".entry")) != NULL;) {
        at += strlen(".entry");
        at += strspn(at, blanks);
        if (strncmp(at, entry, length) == 0 && !is_of_name(at[length])) {
            return at + length;
        }
    }
    return NULL;
}

charl_status charl__ptx_kernel_find(const char *ptx, const char *entry, charl__ptx_kernel *out)
{
    const char *at = find_entry(ptx, entry), *next = at ? find_word(at, ".entry") : NULL;
    const char *end = at ? strchr(at, ')') : NULL;

    *out = (charl__ptx_kernel){0};
    CHARL_REQUIRE(end, CHARL_ERR_KERNEL, "the compiler's output has no kernel %s", entry);
    while ((at = find_word(at, ".param")) != NULL && at < end) {
        const char *type = at + strlen(".param") + 1, *extent = find_in_line(at, "[");
        const int bytes =
            extent ? atoi(extent + 1)
                   : atoi(type + strcspn(type, "0123456789")) / 8; /* of a struct, an array of .b8; of a number */

        CHARL_REQUIRE(out->params < CHARL__PTX_MAX_PARAMS && bytes > 0 && bytes <= CHARL__PTX_MAX_BYTES,
                      CHARL_ERR_KERNEL, "kernel %s has a parameter that charl cannot pass", entry);
        out->bytes[out->params++] = find_in_line(at, ".ptr .shared") ? CHARL__PTX_LOCAL_POINTER : (short)bytes;
        at = type;
    }
    for (at = end; *at && (!next || at < next); at += at[line_length(at)] ? line_length(at) + 1 : line_length(at)) {
        out->dynamic_bytes = large_array(at) > 0 ? large_array(at) : out->dynamic_bytes;
    }
    out->awaits = can_wait(ptx);
    return CHARL_OK;
}
