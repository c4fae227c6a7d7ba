/* Models as safetensors: names and contents such that PyTorch's load_state_dict takes the file as
 * it is, and that a file which PyTorch saved can be started from.
 *
 * The one thing that charl does not keep is the number of batches that a batch norm has seen. It is
 * the number of steps, so it is written from there and passed over when read.
 */
#include "charl/safetensors.h"

#include <stdio.h>
#include <string.h>

#include "autograd/check/opcheck.h"
#include "base/alloc.h"
#include "base/text.h"
#include "export/export.h"

enum { NAME_BYTES = 256, BLOCK = 1024 };

static const char mean_suffix[] = ".running_mean", batches_suffix[] = ".num_batches_tracked";

bool charl__batches_name(const char *name, char *text, size_t bytes)
{
    const int layer = (int)(strlen(name) - strlen(mean_suffix));

    return charl__ends_in(name, mean_suffix) &&
           (size_t)snprintf(text, bytes, "%.*s%s", layer, name, batches_suffix) < bytes;
}

/* Layer i shares a weight: its own name for it, and the one that the parameter has. */
static bool tie_names(const charl_model *model, int i, char own[NAME_BYTES], char shared[NAME_BYTES])
{
    const char *tie = model ? charl_model_get_tie(model, i) : NULL;

    return tie && (size_t)snprintf(own, NAME_BYTES, "%s.weight", charl_model_get_layer_name(model, i)) < NAME_BYTES &&
           (size_t)snprintf(shared, NAME_BYTES, "%s.weight", tie) < NAME_BYTES;
}

/* Tensors to be written, with their memory. */
typedef struct bundle {
    charl_checkpoint_tensor *tensor;
    void **data;
    char (*name)[NAME_BYTES]; /* of what the checkpoint does not have */
    int64_t n, names;
    int64_t steps;
} bundle;

static charl_status add_weight(bundle *b, charl_checkpoint_reader *r, const charl_checkpoint_tensor *t)
{
    CHARL_TRY(charl_alloc_array(charl_shape_count(&t->shape) + 1, charl_dtype_size(t->dtype), &b->data[b->n]));
    b->tensor[b->n] = *t;
    b->tensor[b->n].data = b->data[b->n];
    b->n++;
    CHARL_TRY(charl_checkpoint_read(r, t, b->data[b->n - 1]));
    if (charl__batches_name(t->name, b->name[b->names], NAME_BYTES)) {
        b->tensor[b->n++] =
            (charl_checkpoint_tensor){.name = b->name[b->names++], .dtype = CHARL_I64, .data = &b->steps};
    }
    return CHARL_OK;
}

/* A weight under the name of layer i too, where that layer shares it. */
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
        charl_free(b->data[i]); /* NULL for what is not owned */
    }
    charl_free(b->data);
    charl_free(b->name);
    charl_free(b->tensor);
}

charl_status charl__export_safetensors(const charl__export *e, const charl_model *model)
{
    charl_status st = CHARL_OK;
    const int layers = model ? charl_model_get_count(model) : 0;
    const int64_t count = charl_checkpoint_get_count(e->r), most = 2 * count + layers + 1;
    bundle b = {.steps = charl_checkpoint_get_state(e->r)->step};

    CHARL_TRY_CLEANUP(charl_alloc_array(most, sizeof *b.tensor, &b.tensor));
    CHARL_TRY_CLEANUP(charl_alloc_array(most, sizeof *b.data, &b.data));
    CHARL_TRY_CLEANUP(charl_alloc_array(count + layers + 1, sizeof *b.name, &b.name));
    for (int64_t i = 0; i < count; i++) {
        const charl_checkpoint_tensor *t = charl_checkpoint_get_tensor(e->r, i);

        if (strcmp(t->group, "model") == 0) {
            const charl_checkpoint_tensor *chosen = charl_checkpoint_find(e->r, e->group, t->name);

            CHARL_TRY_CLEANUP(add_weight(&b, e->r, chosen ? chosen : t)); /* no average of statistics */
        }
    }
    for (int i = 0; i < layers; i++) {
        add_tie(&b, model, i);
    }
    CHARL_TRY_CLEANUP(charl_safetensors_save(e->path, b.tensor, b.n, charl_checkpoint_get_schema(e->r)));
cleanup:
    bundle_fini(&b);
    return st;
}

/* A tensor that PyTorch keeps under two names must be the same under both. */
static charl_status check_copy(const charl_safetensors *s, const char *path, const charl_checkpoint_tensor *t,
                               const char *shared)
{
    charl_status st = CHARL_OK;
    const charl_checkpoint_tensor *other = charl_safetensors_find(s, shared);
    const size_t bytes = (size_t)charl_shape_count(&t->shape) * charl_dtype_size(t->dtype);
    bool same = other && other->dtype == t->dtype && charl_shape_equal(&other->shape, &t->shape);
    char *a = NULL, *b = NULL;

    if (same) {
        CHARL_TRY_CLEANUP(charl_alloc(bytes + 1, &a));
        CHARL_TRY_CLEANUP(charl_alloc(bytes + 1, &b));
        CHARL_TRY_CLEANUP(charl_safetensors_read(s, t, a));
        CHARL_TRY_CLEANUP(charl_safetensors_read(s, other, b));
        same = memcmp(a, b, bytes) == 0;
    }
    CHARL_REQUIRE_CLEANUP(same, CHARL_ERR_CHECKPOINT,
                          "%s: %s is not equal to %s, but the model has one weight for both", path, t->name, shared);
cleanup:
    charl_free(a);
    charl_free(b);
    return st;
}

/* A tensor that no parameter is named after. */
static charl_status check_surplus(const charl_safetensors *s, const char *path, const charl_checkpoint_tensor *t,
                                  const charl_model *model, const charl_params *set)
{
    charl_status st = CHARL_OK;
    char name[NAME_BYTES], shared[NAME_BYTES];

    for (int i = 0; i < charl_model_get_count(model); i++) {
        if (tie_names(model, i, name, shared) && strcmp(name, t->name) == 0) {
            st = check_copy(s, path, t, shared);
            return st;
        }
    }
    if (charl__ends_in(t->name, batches_suffix)) {
        const int layer = (int)(strlen(t->name) - strlen(batches_suffix));

        snprintf(name, sizeof name, "%.*s%s", layer, t->name, mean_suffix);
        if (charl_params_find(set, name)) {
            return st;
        }
    }
    CHARL_FAIL(CHARL_ERR_CHECKPOINT, "%s has %s, which the model does not have: it belongs to another model", path,
               t->name);
    return st;
}

static charl_status import_param(const charl_safetensors *s, const char *path, charl_param *p)
{
    charl_status st = CHARL_OK;
    const charl_param_spec *spec = charl_param_get_spec(p);
    const charl_checkpoint_tensor *t = charl_safetensors_find(s, spec->name);
    const int64_t n = charl_shape_count(&spec->shape);
    char have[CHARL_SHAPE_TEXT], want[CHARL_SHAPE_TEXT];
    double block[BLOCK];
    void *raw = NULL;
    float *value = NULL;

    CHARL_REQUIRE_CLEANUP(t, CHARL_ERR_CHECKPOINT, "%s has no %s: it belongs to another model", path, spec->name);
    CHARL_REQUIRE_CLEANUP(charl_shape_equal(&t->shape, &spec->shape), CHARL_ERR_CHECKPOINT,
                          "%s: %s is %s, the model has %s%s", path, spec->name, charl_shape_format(&t->shape, have),
                          charl_shape_format(&spec->shape, want),
                          spec->embedding ? "; HINT its rows are the data's tokens, rounded up to a "
                                            "multiple of model.vocab_multiple"
                                          : "");
    CHARL_REQUIRE_CLEANUP(t->dtype == CHARL_F32 || t->dtype == CHARL_F16 || t->dtype == CHARL_BF16,
                          CHARL_ERR_CHECKPOINT, "%s: %s is %s; weights are f32, f16 or bf16", path, spec->name,
                          charl_dtype_name(t->dtype));
    CHARL_TRY_CLEANUP(charl_alloc_array(n, charl_dtype_size(t->dtype), &raw));
    CHARL_TRY_CLEANUP(charl_alloc_array(n, sizeof *value, &value));
    CHARL_TRY_CLEANUP(charl_safetensors_read(s, t, raw));
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t m = n - i < BLOCK ? n - i : BLOCK;

        charl__decode(t->dtype, (const char *)raw + (size_t)i * charl_dtype_size(t->dtype), m, block);
        for (int64_t k = 0; k < m; k++) {
            value[i + k] = (float)block[k];
        }
    }
    CHARL_TRY_CLEANUP(charl_param_write(p, value));
cleanup:
    charl_free(raw);
    charl_free(value);
    return st;
}

charl_status charl__import_safetensors(const char *path, const charl_model *model, charl_params *set)
{
    charl_status st = CHARL_OK;
    charl_safetensors *s = NULL;

    CHARL_TRY_CLEANUP(charl_safetensors_open(path, &s));
    for (int64_t i = 0; i < charl_safetensors_get_count(s); i++) {
        const charl_checkpoint_tensor *t = charl_safetensors_get(s, i);

        if (!charl_params_find(set, t->name)) {
            CHARL_TRY_CLEANUP(check_surplus(s, path, t, model, set));
        }
    }
    for (int i = 0; i < charl_params_get_count(set); i++) {
        CHARL_TRY_CLEANUP(import_param(s, path, charl_params_get(set, i)));
    }
cleanup:
    charl_safetensors_close(s);
    return st;
}
