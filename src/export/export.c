/* Exports: a checkpoint's model in the format that the name of the file asks for. */
#include "export/export.h"

#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "charl/export.h"
#include "task/weights.h"
#include "task/task.h"

/* Which names share a weight stands in the configuration. One of another program or version has no
 * such names: *out is NULL. */
static charl_status read_model(const charl_checkpoint_reader *r, charl_model **out)
{
    charl_status st = CHARL_OK;
    const char *text = charl_checkpoint_get_config_resolved(r);
    charl_config *config = NULL;

    *out = NULL;
    st = charl_config_parse("/config/resolved", text, strlen(text), NULL, 0, &config);
    if (st == CHARL_OK) {
        st = charl__task_model(config, 1, out);
    }
    charl_config_destroy(config);
    return st == CHARL_ERR_CONFIG ? CHARL_OK : st;
}

charl_status charl_export_model(const char *checkpoint, const charl_config_override *overrides, int n_overrides,
                                int ema, const char *path)
{
    charl_status st = CHARL_OK;
    charl_model *model = NULL;
    charl__export e = {.checkpoint = checkpoint, .overrides = overrides, .n_overrides = n_overrides, .path = path};
    const bool onnx = charl__ends_in(path, ".onnx");

    CHARL_REQUIRE_CLEANUP(onnx || charl__is_safetensors(path), CHARL_ERR_CONFIG,
                          "%s: the name of an export ends in .safetensors or .onnx", path);
    CHARL_TRY_CLEANUP(charl_checkpoint_open(checkpoint, &e.r));
    CHARL_TRY_CLEANUP(charl__weights_group(e.r, checkpoint, ema, &e.group));
    if (onnx) {
        CHARL_TRY_CLEANUP(charl__export_onnx(&e));
    } else {
        CHARL_REQUIRE_CLEANUP(n_overrides == 0, CHARL_ERR_CONFIG,
                              "%s: safetensors holds weights only, which no setting changes", path);
        CHARL_TRY_CLEANUP(read_model(e.r, &model));
        CHARL_TRY_CLEANUP(charl__export_safetensors(&e, model));
    }
cleanup:
    charl_model_destroy(model);
    charl_checkpoint_close(e.r);
    return st;
}

charl_status charl__export_beside(const char *checkpoint, charl_export_format format, const char *dir, const char *name)
{
    charl_status st = CHARL_OK;
    charl__text path = {0};

    if (format == CHARL_EXPORT_NONE) {
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(charl__text_printf(&path, "%s/%s.%s", dir, name,
                                         charl_config_choice_name("checkpoint", "export", (int)format)));
    CHARL_TRY_CLEANUP(charl_export_model(checkpoint, NULL, 0, CHARL_EMA_AUTO, charl__text_string(&path)));
cleanup:
    charl__text_fini(&path);
    return st;
}
