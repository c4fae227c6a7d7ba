/* The operands that name a trained model: a checkpoint, which holds its configuration, or a configuration and a checkpoint. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charl/checkpoint.h>
#include "cli/charl/commands.h"

bool charl__is_checkpoint(const char *path)
{
    charl_checkpoint_reader *r = NULL;
    const bool is = charl_checkpoint_open(path, &r) == CHARL_OK;

    charl_checkpoint_close(r);
    charl_error_clear();
    return is;
}

const char *charl__checkpoint_of(const char *path, char text[4096])
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISDIR(info.st_mode) && snprintf(text, 4096, "%s/last.h5", path) < 4096 &&
                   access(text, F_OK) == 0
               ? text
               : path;
}

static charl_status read_own_config(const char *path, const charl_config_override *overrides, int n, charl_config **out)
{
    charl_status st = CHARL_OK;
    charl_checkpoint_reader *r = NULL;
    const char *text;

    CHARL_TRY_CLEANUP(charl_checkpoint_open(path, &r));
    text = charl_checkpoint_get_config_resolved(r); /* its paths are absolute */
    CHARL_TRY_CLEANUP(charl_config_parse(path, text, strlen(text), overrides, n, out));
cleanup:
    charl_checkpoint_close(r);
    return st;
}

/* A configuration alone names no weights. */
static charl_status refuse_config(const char *path)
{
    charl_status st = CHARL_OK;
    charl_config *config = NULL;
    char last[4096];

    if (charl_config_load(path, NULL, 0, &config) != CHARL_OK) {
        charl_error_clear();
        return CHARL_OK;
    }
    snprintf(last, sizeof last, "%.4000s/last.h5", config->run.output_dir);
    CHARL_FAIL_CLEANUP(CHARL_ERR_CONFIG, "CHECKPOINT is missing: %s is a configuration; HINT name %s, too", path,
                       access(last, R_OK) == 0 ? last : "a checkpoint of a run");
cleanup:
    charl_config_destroy(config);
    return st;
}

charl_status charl__take_trained(const charl__cli_operands *operands, charl__trained *out)
{
    charl_config_override overrides[CHARL__CLI_OVERRIDES];
    const char *file[2] = {NULL, NULL};
    int files = 0, n = 0;
    char text[4096];

    *out = (charl__trained){.config = NULL};
    for (int i = 0; i < operands->count; i++) {
        const char *word = operands->values[i];

        if (charl__cli_is_override(word)) {
            CHARL_REQUIRE(n < CHARL__CLI_OVERRIDES, CHARL_ERR_CONFIG, "more than %d overrides", CHARL__CLI_OVERRIDES);
            overrides[n++] = (charl_config_override){word, NULL};
        } else {
            CHARL_REQUIRE(files < 2, CHARL_ERR_CONFIG, "%s: unexpected after %s and %s", word, file[0], file[1]);
            file[files++] = word;
        }
    }
    CHARL_REQUIRE(files > 0, CHARL_ERR_CONFIG, "CHECKPOINT is missing");
    if (files == 2) {
        const bool is_swapped = charl__is_checkpoint(charl__checkpoint_of(file[0], out->path)) &&
                                !charl__is_checkpoint(charl__checkpoint_of(file[1], text));

        snprintf(out->path, sizeof out->path, "%s", charl__checkpoint_of(file[!is_swapped], text));
        return charl_config_load(file[is_swapped], overrides, n, &out->config);
    }
    snprintf(out->path, sizeof out->path, "%s", charl__checkpoint_of(file[0], text));
    CHARL_TRY(charl__is_checkpoint(out->path) ? CHARL_OK : refuse_config(file[0]));
    return read_own_config(out->path, overrides, n, &out->config);
}
