/* Exports a checkpoint's model in the format given by the file's name. The formats are the rows of config/export_formats.h. */
#include "export/export.h"

#include <string.h>

#include "base/error.h"
#include "base/text/text.h"
#include "charl/export.h"
#include "config/export_formats.h"

#define ROW(name, help) {#name, charl__export_##name},
static const struct {
    const char *name;
    charl_status (*run)(const charl__export *e);
} exporters[] = {CHARL__EXPORTERS(ROW)};

const char *charl_export_format(int i, const char **help)
{
    if (help) {
        *help = charl__export_help(i);
    }
    return charl__export_name(i);
}

const char *charl__export_base(const charl_config_override *overrides, int n)
{
    static const char key[] = "init.from=";
    const char *base = NULL;

    for (int i = 0; i < n; i++) {
        if (strncmp(overrides[i].text, key, strlen(key)) == 0) {
            base = overrides[i].text + strlen(key);
        }
    }
    return base;
}

charl_status charl_export_model(const char *checkpoint, const charl_config_override *overrides, int n_overrides,
                                charl_ema_choice ema, const char *path)
{
    CHARL_GIVEN(checkpoint, overrides || n_overrides == 0, path);
    charl_status st = CHARL_OK;
    charl__export e = {.checkpoint = checkpoint, .overrides = overrides, .n_overrides = n_overrides, .path = path};
    const char *dot = strrchr(path, '.');
    size_t i = 0;
    char names[128];

    while (i < sizeof exporters / sizeof *exporters &&
           (!dot || dot == path || dot[-1] == '/' || strcmp(dot + 1, exporters[i].name) != 0)) {
        i++;
    }
    CHARL_REQUIRE_CLEANUP(i < sizeof exporters / sizeof *exporters, CHARL_ERR_CONFIG,
                          "%s: the name of an export ends in a dot and its format: %s", path,
                          charl__text_list(dot ? dot + 1 : NULL, charl__export_name, names, sizeof names));
    CHARL_TRY_CLEANUP(charl__export_open(&e, charl__export_base(overrides, n_overrides), ema));
    CHARL_TRY_CLEANUP(exporters[i].run(&e));
cleanup:
    charl_checkpoint_close(e.r);
    return st;
}

charl_status charl__export_beside(const char *checkpoint, const char *format, const char *dir, const char *name)
{
    CHARL_SCOPED(charl__text_fini) charl__text path = {0};

    if (strcmp(format, "none") == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__text_printf(&path, "%s/%s.%s", dir, name, format));
    CHARL_TRY(charl_export_model(checkpoint, NULL, 0, CHARL_EMA_AUTO, charl__text_string(&path)));
    return CHARL_OK;
}
