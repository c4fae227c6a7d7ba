/* config.ini of a run directory beside what the newest checkpoint was trained with. */
#include "train/verify_settings.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "charl/checkpoint.h"
#include "config/diff.h"
#include "config/values.h"
#include "files/run.h"
#include "io/commit.h"

charl_status charl__verify_settings(const char *run, void (*told)(void *ctx, const char *text), void *ctx)
{
    charl_status st = CHARL_OK;
    charl__run_steps list = {0};
    charl_checkpoint_reader *r = NULL;
    charl_config *config = NULL;
    char *path = NULL, *file = NULL, *changes = NULL;
    charl__text text = {0};
    unsigned found;

    CHARL_TRY_CLEANUP(charl__run_list(run, &list));
    if (list.count == 0) {
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(charl__commit_join(run, "config.ini", &file));
    CHARL_TRY_CLEANUP(charl__run_path(run, list.steps[list.count - 1], &path));
    st = charl_checkpoint_open(path, &r);
    st = st == CHARL_OK ? charl_config_load(file, NULL, 0, &config) : st;
    st = st == CHARL_OK ? charl__config_diff(config, charl_checkpoint_get_info(r).config_resolved, CHARL__CHANGE_RESULT,
                                             &found, &changes)
                        : st;
    if (st == CHARL_ERR_CHECKPOINT || st == CHARL_ERR_CONFIG) { /* told elsewhere, or of another version */
        st = CHARL_OK;
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(st);
    if (changes[0]) {
        CHARL_TRY_CLEANUP(charl__text_printf(
            &text, "%s holds other settings than those that step %" PRId64 " was trained with:", file,
            list.steps[list.count - 1]));
    }
    for (const char *p = changes; *p;) {
        const int length = (int)strcspn(p, "\n");

        CHARL_TRY_CLEANUP(charl__text_printf(&text, "%s %.*s", p == changes ? "" : ",", length, p));
        p += length + (p[length] == '\n');
    }
    if (text.length > 0 && told) {
        told(ctx, charl__text_string(&text));
    }
cleanup:
    charl_config_destroy(config);
    charl_checkpoint_close(r);
    charl_free(list.steps);
    charl_free(path);
    charl_free(file);
    charl_free(changes);
    charl__text_fini(&text);
    return st;
}
