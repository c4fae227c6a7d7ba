#ifndef CHARL_WEIGHTS_WEIGHTS_NAMES_H
#define CHARL_WEIGHTS_WEIGHTS_NAMES_H
/** The lists of [init]: names that are changed, weights that are skipped. */
#include <stdbool.h>

#include "charl/status.h"

/** "OLD -> NEW, ..." or "PATTERN, ...", parsed. Start from {0}. */
typedef struct charl__weights_name {
    char *pattern; /* points into text */
    char *to;      /* of rename; else NULL */
    bool used;
} charl__weights_name;

typedef struct charl__weights_names {
    const char *key; /* for messages: "init.skip" */
    char *text;
    charl__weights_name *item;
    int n;
} charl__weights_names;

/** Parse `text`; NULL and "" contain no names. Errors: ERR_CONFIG, ERR_NOMEM. */
charl_status charl__weights_renames_parse(const char *key, const char *text,
                                          charl__weights_names *out) CHARL_MUST_CHECK;
charl_status charl__weights_skips_parse(const char *key, const char *text, charl__weights_names *out) CHARL_MUST_CHECK;
void charl__weights_names_fini(charl__weights_names *n);

/** The new name of `name` in *out, owned by the caller: from the first pattern that matches, else a copy. Errors: ERR_CONFIG  the new
 *  name is empty; ERR_NOMEM. */
charl_status charl__weights_rename(charl__weights_names *n, const char *name, char **out) CHARL_MUST_CHECK;

/** Whether `name` matches a pattern. */
bool charl__weights_skipped(charl__weights_names *n, const char *name);

/** Errors: ERR_CONFIG  a pattern has matched nothing. `path` is for the message. */
charl_status charl__weights_names_check(const charl__weights_names *n, const char *path) CHARL_MUST_CHECK;

#endif
