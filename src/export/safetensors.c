/* Models as safetensors, with names and contents such that PyTorch's load_state_dict accepts the file
 * unchanged, and that training can start from a file saved by PyTorch.
 *
 * charl does not store the number of batches that a batch norm has seen. It equals
 * the number of steps, so that is written.
 */
#include "io/tensors/safetensors.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "export/export.h"
#include "nn/layer.h"
#include "nn/model_internal.h"
#include "nn/weights_layout.h"
#include "task/task.h"

enum { NAME_BYTES = 256 };

static const char mean_suffix[] = ".running_mean", batches_suffix[] = ".num_batches_tracked";

/* For the buffer "bn1.running_mean" the name of its count, "bn1.num_batches_tracked"; false: `name` is not such a buffer, or too long. */
static bool batches_name(const char *name, char *text, size_t bytes)
{
    const int layer = (int)(strlen(name) - strlen(mean_suffix));

    return charl__ends_in(name, mean_suffix) &&
           (size_t)snprintf(text, bytes, "%.*s%s", layer, name, batches_suffix) < bytes;
}

/* Layer i shares a weight: the layer's name for it, and the parameter's. */
static bool tie_names(const charl_model *model, int i, char own[NAME_BYTES], char shared[NAME_BYTES])
{
    const char *tie = model ? charl__model_get_tie(model, i) : NULL;

    return tie && (size_t)snprintf(own, NAME_BYTES, "%s.weight", charl_model_get_layer_name(model, i)) < NAME_BYTES &&
           (size_t)snprintf(shared, NAME_BYTES, "%s.weight", tie) < NAME_BYTES;
}

/* Tensors to be written, with their memory. */
typedef struct bundle {
    charl_checkpoint_tensor *tensor;
    void **data;
    char (*name)[NAME_BYTES]; /* of tensors that the checkpoint lacks */
    int64_t n, names;
    int64_t steps;
    const charl__weights_layout *layout; /* of the names to be written; NULL: charl's */
    const void *settings;
} bundle;

static charl_status add_weight(bundle *b, const charl__export *e, const charl_checkpoint_tensor *t)
{
    int64_t block;
    const charl__weights_rule *rule = b->layout ? charl__layout_rule(b->layout, t->name, &block) : NULL;
    charl_checkpoint_tensor *out = &b->tensor[b->n];

    CHARL_TRY(charl__alloc_array(charl_shape_count(&t->shape) + 1, charl_dtype_size(t->dtype), &b->data[b->n]));
    *out = *t;
    out->data = b->data[b->n++];
    CHARL_TRY(charl__export_read(e, t, b->data[b->n - 1]));
    if (rule) { /* a single part, as it is */
        CHARL_REQUIRE(charl__layout_expand(rule->theirs[0], block, b->name[b->names]), CHARL_ERR_CONFIG,
                      "the name of %.100s is too long", t->name);
        out->name = b->name[b->names++];
        out->shape = charl__layout_part_shape(rule, b->settings, &t->shape, 0);
    }
    if (batches_name(t->name, b->name[b->names], NAME_BYTES)) {
        b->tensor[b->n++] =
            (charl_checkpoint_tensor){.name = b->name[b->names++], .dtype = CHARL_I64, .data = &b->steps};
    }
    return CHARL_OK;
}

/* Add a weight under the name of layer i too if that layer shares it. */
static void add_tie(bundle *b, const charl_model *model, int i)
{
    char *name = b->name[b->names], shared[NAME_BYTES];

    if (!tie_names(model, i, name, shared)) {
        return;
    }
    for (int64_t k = 0; k < b->n; k++) {
        if (strcmp(b->tensor[k].name, shared) == 0) {
            b->tensor[b->n] = b->tensor[k];
            b->tensor[b->n++].name = name;
            b->names++;
            return;
        }
    }
}

static void bundle_fini(bundle *b)
{
    for (int64_t i = 0; b->data && i < b->n; i++) {
        charl_free(b->data[i]); /* NULL if it is not owned */
    }
    charl_free(b->data);
    charl_free(b->name);
    charl_free(b->tensor);
}

static charl_status write_weights(const charl__export *e, const charl_model *model)
{
    const int layers = model ? charl_model_get_count(model) : 0;
    const int64_t count = charl_checkpoint_get_info(e->r).n_tensors, most = 2 * count + layers + 1;
    CHARL_SCOPED(bundle_fini) bundle b = {.steps = charl_checkpoint_get_info(e->r).state->step};
    const charl_model_type *type = model ? charl__model_get_type(model, &b.settings) : NULL;

    b.layout = type ? charl__layout_chosen(type, b.settings) : NULL;
    b.layout = b.layout && !b.layout->model_type ? b.layout : NULL; /* others are exported as a folder */

    CHARL_TRY(charl__alloc_array(most, sizeof *b.tensor, &b.tensor));
    CHARL_TRY(charl__alloc_array(most, sizeof *b.data, &b.data));
    CHARL_TRY(charl__alloc_array(2 * count + layers + 1, sizeof *b.name, &b.name));
    for (int64_t i = 0; i < count; i++) {
        const charl_checkpoint_tensor *t = charl_checkpoint_get_tensor(e->r, i);

        if (strcmp(t->group, "model") == 0 && !charl__is_adapter(t->name)) { /* these are added to their weights */
            const charl_checkpoint_tensor *chosen = charl_checkpoint_find(e->r, e->group, t->name);

            CHARL_TRY(add_weight(&b, e, chosen ? chosen : t)); /* no average of statistics */
        }
    }
    for (int i = 0; i < layers; i++) {
        add_tie(&b, model, i);
    }
    CHARL_TRY(charl__safetensors_save(e->path, b.tensor, b.n, charl_checkpoint_get_info(e->r).schema, e->lock));
    return CHARL_OK;
}

/* The configuration says which names share a weight. A checkpoint of another program or version has no
 * such names: *out is NULL. */
static charl_status read_model(const charl_checkpoint_reader *r, charl_model **out)
{
    charl_status st = CHARL_OK;
    const char *text = charl_checkpoint_get_info(r).config_resolved;
    charl_config *config = NULL;

    *out = NULL;
    st = charl_config_parse("/config/resolved", text, strlen(text), NULL, 0, &config);
    if (st == CHARL_OK) {
        st = charl__task_model(config, 1, NULL, out);
    }
    charl_config_destroy(config);
    return st == CHARL_ERR_CONFIG ? CHARL_OK : st;
}

charl_status charl__export_safetensors(const charl__export *e)
{
    CHARL_SCOPED(charl__model_left) charl_model *model = NULL;

    for (int i = 0; i < e->n_overrides; i++) {
        CHARL_REQUIRE(charl__export_base(e->overrides + i, 1), CHARL_ERR_CONFIG,
                      "%s: safetensors holds weights only, which no setting but init.from changes", e->path);
    }
    CHARL_TRY(read_model(e->r, &model));
    CHARL_TRY(write_weights(e, model));
    return CHARL_OK;
}
