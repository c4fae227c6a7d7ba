/* Exports: a checkpoint's model in the format that the name of the file asks for. */
#include "train/export.h"

#include "base/error.h"
#include "base/text.h"
#include "charl/train.h"

charl_status charl_train_export(const char *checkpoint, const charl_config_override *overrides,
                                int n_overrides, const char *path)
{
    charl_status st = CHARL_OK;
    charl_checkpoint_reader *r = NULL;

    (void)overrides;
    (void)n_overrides;
    CHARL_REQUIRE(charl__is_safetensors(path), CHARL_ERR_CONFIG,
                  "%s: the name of an export ends in .safetensors", path);
    CHARL_TRY(charl_checkpoint_open(checkpoint, &r));
    CHARL_TRY(charl__export_safetensors(r, path));
cleanup:
    charl_checkpoint_close(r);
    return st;
}

charl_status charl__export_beside(const char *checkpoint, charl_export_format format,
                                  const char *dir, const char *name)
{
    charl_status st = CHARL_OK;
    charl__text path = {0};

    if (format == CHARL_EXPORT_NONE) {
        goto cleanup;
    }
    CHARL_TRY(charl__text_printf(&path, "%s/%s.%s", dir, name,
                                 charl_config_choice_name("checkpoint", "export", (int)format)));
    CHARL_TRY(charl_train_export(checkpoint, NULL, 0, charl__text_string(&path)));
cleanup:
    charl__text_fini(&path);
    return st;
}
