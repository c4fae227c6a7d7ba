/* The operands that name a trained model: a checkpoint, which contains its configuration, or a configuration and a checkpoint. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charl/checkpoint.h>
#include <charl/run.h>
#include "cli/charl/commands.h"

bool charl__is_checkpoint(const char *path)
{
    charl_checkpoint_reader *r = NULL;
    char *file = NULL;
    const bool is = charl_run_checkpoint(path, &file) == CHARL_OK && charl_checkpoint_open(file, &r) == CHARL_OK;

    charl_free(file);
    charl_checkpoint_close(r);
    charl_error_clear();
    return is;
}

charl_status charl__checkpoint_of(char **path)
{
    char *file = NULL, note[8400];

    CHARL_TRY(charl_run_checkpoint(*path, &file));
    if (strcmp(*path, file) == 0) {
        charl_free(file);
        return CHARL_OK;
    }
    if (charl__cli_speaks()) {
        snprintf(note, sizeof note, "%.4000s is a run directory: %.4000s is read", *path, file);
        charl__cli_note(NULL, note);
    }
    *path = file;
    return CHARL_OK;
}

int charl__checkpoints_of(char **paths, int n)
{
    charl_status st = CHARL_OK;

    for (int i = 0; i < n && st == CHARL_OK; i++) {
        st = charl__checkpoint_of(&paths[i]);
    }
    return st == CHARL_OK ? -1 : charl__cli_fail(st);
}

int charl__without_parts(char **paths, int n)
{
    static const char end[] = ".part";
    int kept = 0;

    for (int i = 0; i < n; i++) {
        const size_t length = strlen(paths[i]);

        if (length < sizeof end - 1 || strcmp(paths[i] + length - (sizeof end - 1), end) != 0) {
            char *const part = paths[kept];

            paths[kept++] = paths[i];
            paths[i] = part;
        }
    }
    return kept > 0 ? kept : n;
}

void charl__runs_of(char **paths, int n)
{
    static char here[] = ".";

    for (int i = 0; i < n; i++) {
        const size_t length = charl_run_length(paths[i]);

        if (length > 0) {
            paths[i][length] = '\0';
        } else {
            paths[i] = here;
        }
    }
}

charl_status charl__check_order(const char *model, const char *const *data, int64_t n)
{
    if (access(model, F_OK) != 0 || charl__is_checkpoint(model)) {
        return CHARL_OK;
    }
    for (int64_t i = 0; i < n; i++) {
        CHARL_REQUIRE(!charl__is_checkpoint(data[i]), CHARL_ERR_CONFIG,
                      "%s is not a checkpoint, but %s is; HINT the model comes first: charl predict %s %s", model,
                      data[i], data[i], model);
    }
    return CHARL_OK;
}

static charl_status read_own_config(const char *path, const charl_config_override *overrides, int n, charl_config **out)
{
    charl_status st = CHARL_OK;
    charl_checkpoint_reader *r = NULL;
    const char *text;

    CHARL_TRY_CLEANUP(charl_checkpoint_open(path, &r));
    text = charl_checkpoint_get_info(r).config_resolved; /* its paths are absolute */
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
    snprintf(last, sizeof last, "%.4000s/last.h5", charl__cli_text(config, "run.output_dir"));
    CHARL_FAIL_CLEANUP(CHARL_ERR_CONFIG, "CHECKPOINT is missing: %s is a configuration; HINT name %s, too", path,
                       access(last, R_OK) == 0 ? last : "a checkpoint of a run");
cleanup:
    charl_config_destroy(config);
    return st;
}

charl_status charl__parse_trained(const charl__cli_operands *operands, charl__trained *out)
{
    charl_config_override overrides[CHARL__CLI_OVERRIDES];
    char *file[2] = {NULL, NULL};
    int files = 0, n = 0;

    *out = (charl__trained){.config = NULL};
    for (int i = 0; i < operands->count; i++) {
        char *word = operands->values[i];

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
        const bool is_swapped = charl__is_checkpoint(file[0]) && !charl__is_checkpoint(file[1]);

        out->path = file[!is_swapped];
        CHARL_TRY(charl__checkpoint_of(&out->path));
        return charl_config_load(file[is_swapped], overrides, n, &out->config);
    }
    out->path = file[0];
    CHARL_TRY(charl__checkpoint_of(&out->path));
    CHARL_TRY(charl__is_checkpoint(out->path) ? CHARL_OK : refuse_config(file[0]));
    return read_own_config(out->path, overrides, n, &out->config);
}
