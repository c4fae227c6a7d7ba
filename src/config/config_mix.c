/* data.mix: converts "a.h5:0.7, b.h5:0.3" to data sets and weights, and back. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "config/config_private.h"

enum { PATH_BYTES = 4096 };

/* One "PATH:WEIGHT"; splits word in place. */
static charl_status add(char *word, const char *directory, charl__config_strings *strings, charl__mix *mix, char *why)
{
    char *colon = strrchr(word, ':');
    CHARL_SCOPED_FREE char *path = NULL;
    double weight;

    if (!colon || colon == word || !charl__parse_float(colon + 1, &weight) || !(weight > 0)) {
        snprintf(why, CHARL__WHY, "\"%.100s\" is not PATH:WEIGHT with a positive weight, as in books.h5:0.7", word);
        return CHARL_OK;
    }
    if (mix->count == CHARL_CONFIG_LIST) {
        snprintf(why, CHARL__WHY, "more than %d data sets", CHARL_CONFIG_LIST);
        return CHARL_OK;
    }
    *colon = '\0';
    CHARL_TRY(charl__config_path(directory, word, &path));
    CHARL_TRY(charl__config_keep(strings, path, &mix->path[mix->count]));
    mix->weight[mix->count++] = weight;
    return CHARL_OK;
}

charl_status charl__config_mix_set(const char *text, const char *directory, charl__config_strings *strings,
                                   charl__mix *field, char *why)
{
    charl__mix mix = {0};
    char word[PATH_BYTES];

    while (why[0] == '\0' && charl__text_element(&text, word, sizeof word)) {
        CHARL_TRY(add(word, directory, strings, &mix, why));
    }
    if (why[0] == '\0') {
        *field = mix;
    }
    return CHARL_OK;
}

charl_status charl__config_mix_print(const charl__mix *mix, const char *here, charl__text *out)
{
    CHARL_SCOPED(charl__text_fini) charl__text text = {0};
    CHARL_SCOPED_FREE char *full = NULL;

    for (int i = 0; i < mix->count; i++) {
        CHARL_TRY(charl__config_path(here, mix->path[i], &full));
        CHARL_TRY(charl__text_printf(&text, "%s%s:", i > 0 ? ", " : "", full));
        CHARL_TRY(charl__config_print_float(mix->weight[i], &text));
        charl_free(full);
        full = NULL;
    }
    CHARL_TRY(charl__config_quote(charl__text_string(&text), out));
    return CHARL_OK;
}
