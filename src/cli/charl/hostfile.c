/* Files that name the hosts of a job. */
#include "cli/charl/hostfile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <charl/error.h>

#define FORM "a line is HOST slots=RANKS, or HOST:RANKS"

enum { LINE = 1024, DIGITS = 7 };

/* The host of a line; false: it has none. A name has no colon, except an IPv6 address, which has several. */
static bool parse(const char *text, charl__host *out)
{
    const size_t word = strcspn(text, " \t");
    const char *colon = memchr(text, ':', word);
    const bool is_short = colon && !memchr(colon + 1, ':', (size_t)(text + word - colon - 1));
    const size_t name = is_short ? (size_t)(colon - text) : word;
    const char *rest = is_short ? colon + 1 : text + word + strspn(text + word, " \t");
    int used = 0;

    if (name == 0 || name >= sizeof out->name || text[0] == '-') {
        return false;
    }
    *out = (charl__host){.slots = 1};
    memcpy(out->name, text, name);
    if (is_short || *rest) {
        if (!is_short && strncmp(rest, "slots=", 6) != 0) {
            return false;
        }
        rest += is_short ? 0 : 6;
        if (strspn(rest, "0123456789") < 1 || strspn(rest, "0123456789") > DIGITS ||
            sscanf(rest, "%" SCNd64 " %n", &out->slots, &used) != 1) {
            return false;
        }
    }
    return !rest[used] && out->slots >= 1 && out->slots <= CHARL__MAX_SLOTS;
}

charl_status charl__hostfile_read(const char *path, charl__host **hosts, int *n)
{
    charl_status st = CHARL_OK;
    FILE *f = fopen(path, "r");
    char line[LINE];

    *hosts = NULL;
    *n = 0;
    CHARL_REQUIRE_CLEANUP(f, CHARL_ERR_CONFIG, "%s: %s; HINT " FORM, path, strerror(errno));
    for (int number = 1; fgets(line, sizeof line, f); number++) {
        const bool is_whole = strchr(line, '\n') || feof(f);
        const char *text = line + strspn(line, " \t");
        charl__host host;
        charl__host *grown;

        line[strcspn(line, "#\r\n")] = '\0';
        CHARL_REQUIRE_CLEANUP(is_whole && (!*text || parse(text, &host)), CHARL_ERR_CONFIG,
                              "%s:%d: \"%.80s\": " FORM ", of at most %d bytes", path, number, text, LINE - 2);
        if (!*text) {
            continue;
        }
        CHARL_REQUIRE_CLEANUP(*n < CHARL__MAX_HOSTS, CHARL_ERR_CONFIG, "%s: more than %d hosts", path,
                              CHARL__MAX_HOSTS);
        grown = realloc(*hosts, (size_t)(*n + 1) * sizeof **hosts);
        CHARL_REQUIRE_CLEANUP(grown, CHARL_ERR_NOMEM, "%s: no memory for %d hosts", path, *n + 1);
        *hosts = grown;
        grown[(*n)++] = host;
    }
    CHARL_REQUIRE_CLEANUP(!ferror(f), CHARL_ERR_CONFIG, "%s: %s", path, strerror(errno));
    CHARL_REQUIRE_CLEANUP(*n > 0, CHARL_ERR_CONFIG, "%s: names no host; HINT " FORM, path);
cleanup:
    if (f) {
        fclose(f);
    }
    return st;
}
