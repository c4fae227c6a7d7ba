/* The weights that a checkpoint holds. */
#include "task/weights/weights.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "config/config_rows.h"
#include "nn/model_internal.h"
#include "task/task.h"
#include "weights/weights_names.h"

static bool has_group(const charl_checkpoint_reader *r, const char *group)
{
    int64_t i = 0;
    const charl_checkpoint_tensor *t;

    while ((t = charl_checkpoint_get_tensor(r, i)) != NULL && strcmp(t->group, group) != 0) {
        i++;
    }
    return t != NULL;
}

charl_status charl__weights_read(charl_checkpoint_reader *r, const char *path, const char *group, const char *name,
                                 const charl_shape *shape, float **out)
{
    const charl_checkpoint_tensor *c = charl_checkpoint_find(r, group, name);
    char have[CHARL_SHAPE_TEXT], want[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(
        c || strcmp(group, "model") == 0 || has_group(r, group) || !charl_checkpoint_find(r, "model", name),
        CHARL_ERR_CHECKPOINT,
        "%s has no /%s: it was written by an optimizer without this state; HINT leave optimizer.type, "
        "optimizer.momentum and the like as they were, or start afresh in another run.output_dir (--init-from "
        "keeps the weights)",
        path, group);
    CHARL_REQUIRE(c || strcmp(group, "model") == 0 || !charl_checkpoint_find(r, "model", name), CHARL_ERR_CHECKPOINT,
                  "%s has no /%s/%s: %s was frozen when it was written; HINT leave train.freeze as it "
                  "was, or start afresh in another run.output_dir (--init-from keeps the weights)",
                  path, group, name, name);
    CHARL_REQUIRE(c, CHARL_ERR_CHECKPOINT, "%s has no /%s/%s: it belongs to another model", path, group, name);
    CHARL_REQUIRE(c->dtype == CHARL_F32 && charl_shape_equal(&c->shape, shape), CHARL_ERR_CHECKPOINT,
                  "%s: /%s/%s is %s %s, the model has f32 %s", path, group, name, charl_dtype_name(c->dtype),
                  charl_shape_format(&c->shape, have), charl_shape_format(shape, want));
    CHARL_TRY(charl__alloc_array(charl_shape_count(shape), sizeof **out, out));
    CHARL_TRY(charl_checkpoint_read(r, c, *out));
    return CHARL_OK;
}

/* Weights from `group`; running statistics and frozen parameters have no average. */
static charl_status restore_param(charl_checkpoint_reader *r, const char *path, const char *group, charl_param *p)
{
    const charl_param_spec *spec = charl_param_get_spec(p);
    const bool in_group = spec->trainable && charl_checkpoint_find(r, group, spec->name);
    CHARL_SCOPED_FREE float *v = NULL;

    CHARL_TRY(charl__weights_read(r, path, in_group ? group : "model", spec->name, &spec->shape, &v));
    CHARL_TRY(charl_param_write(p, v));
    return CHARL_OK;
}

/* The checkpoint must not contain anything that the model lacks: it would be lost silently. */
static charl_status check_names(const charl_params *params, const charl_checkpoint_reader *r, const char *path)
{
    for (int64_t i = 0; i < charl_checkpoint_get_info(r).n_tensors; i++) {
        const charl_checkpoint_tensor *c = charl_checkpoint_get_tensor(r, i);

        CHARL_REQUIRE(charl_params_find(params, c->name) || strcmp(c->group, CHARL_CHECKPOINT_SPIKE) == 0,
                      CHARL_ERR_CHECKPOINT, "%s has /%s/%s, which the model does not have: it belongs to another model",
                      path, c->group, c->name);
    }
    return CHARL_OK;
}

charl_status charl__weights_restore(charl_params *params, charl_checkpoint_reader *r, const char *path,
                                    const char *group)
{
    CHARL_TRY(check_names(params, r, path));
    for (int i = 0; i < charl_params_get_count(params); i++) {
        CHARL_TRY(restore_param(r, path, group, charl_params_get(params, i)));
    }
    return CHARL_OK;
}

charl_status charl__weights_classes(const charl_config *config, const charl_checkpoint_reader *r, int64_t *out)
{
    const charl_checkpoint_tensor *weight;
    CHARL_SCOPED(charl__model_left) charl_model *m = NULL;
    char name[256];

    *out = 0;
    if (!(charl__config_targets(config) & CHARL_TARGET_CLASS) || !charl__config_model(config)->add) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__task_model(config, 1, NULL, &m));
    snprintf(name, sizeof name, "%s.weight", charl_model_get_layer_name(m, charl_model_get_count(m) - 1));
    weight = charl_checkpoint_find(r, "model", name);
    if (weight && weight->shape.ndim == 2) { /* otherwise loading reports what does not fit */
        *out = weight->shape.dim[0];
    }
    return CHARL_OK;
}

/* The name of the last weight of a model, which layers may share. */
static void last_weight(const charl_model *m, char *name, size_t bytes)
{
    const int last = charl_model_get_count(m) - 1;
    const char *tie = charl__model_get_tie(m, last);

    snprintf(name, bytes, "%s.weight", tie ? tie : charl_model_get_layer_name(m, last));
}

charl_status charl__weights_outputs(const charl_config *config, const charl_checkpoint_reader *r, int64_t *out)
{
    const charl_checkpoint_tensor *weight;
    CHARL_SCOPED(charl__model_left) charl_model *m = NULL;
    char name[256];

    CHARL_TRY(charl__task_model(config, 1, NULL, &m));
    last_weight(m, name, sizeof name);
    weight = charl_checkpoint_find(r, "model", name);
    *out = weight && weight->shape.ndim == 2 ? weight->shape.dim[0] : 0;
    return CHARL_OK;
}

charl_status charl__weights_outputs_skipped(const charl_config *config, bool tokens, bool *out)
{
    CHARL_SCOPED(charl__model_left) charl_model *m = NULL;
    CHARL_SCOPED(charl__weights_names_fini) charl__weights_names skips = {0};
    char name[256];

    *out = false;
    CHARL_TRY(charl__weights_skips_parse("init.skip", config->init.skip, &skips));
    if (skips.n > 0) {
        CHARL_TRY(charl__task_model(config, 1, NULL, &m));
        last_weight(m, name, sizeof name);
        *out = charl__weights_skipped(&skips, name);
        snprintf(name, sizeof name, "%s.weight", charl_model_get_layer_name(m, 0));
        *out = *out && (!tokens || charl__weights_skipped(&skips, name));
    }
    return CHARL_OK;
}
