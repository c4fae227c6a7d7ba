/* Weights of a checkpoint for other programs: low-rank adapters are added to the weights that they adapt. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"
#include "config/config_rows.h"
#include "export/export.h"
#include "files/run_lock.h"
#include "io/commit.h"
#include "task/weights/weights.h"
#include "task/weights/weights_base.h"

enum { NAME_BYTES = 256 };

charl_status charl__export_open(charl__export *e, const char *base, charl_ema_choice ema)
{
    charl_status st = CHARL_OK;
    const char *text;
    charl_config *config = NULL;

    CHARL_TRY_CLEANUP(charl__commit_check_inputs(e->path, (const char *const[]){e->checkpoint, base}, 2));
    CHARL_TRY_CLEANUP(charl_checkpoint_open(e->checkpoint, &e->r));
    CHARL_TRY_CLEANUP(charl__lock_of_checkpoint(e->checkpoint, e->r, e->lock));
    CHARL_TRY_CLEANUP(e->adapters_only ? CHARL_OK : charl__weights_find_base(e->r, e->checkpoint, base));
    CHARL_TRY_CLEANUP(charl__weights_group(e->r, e->checkpoint, ema, &e->group));
    text = charl_checkpoint_get_info(e->r).config_resolved;
    st = charl_config_parse("/config/resolved", text, strlen(text), NULL, 0, &config);
    if (st == CHARL_OK) {
        const char *from = charl__config_init_from(config);

        CHARL_TRY_CLEANUP(charl__commit_check_inputs(e->path, &from, 1));
        e->lora = config->lora;
        e->lora.targets = NULL;          /* of the configuration */
    } else if (st == CHARL_ERR_CONFIG) { /* from another program or version: it has no adapters that charl knows */
        st = CHARL_OK;
    }
cleanup:
    charl_config_destroy(config);
    return st;
}

/* w [out, in] += scale * b [out, rank] @ a [rank, in], each element summed in double */
static void add_product(float *w, const float *b, const float *a, int64_t out, int64_t in, int64_t rank, double scale)
{
    for (int64_t o = 0; o < out; o++) {
        for (int64_t i = 0; i < in; i++) {
            double sum = 0.0;

            for (int64_t r = 0; r < rank; r++) {
                sum += (double)b[o * rank + r] * (double)a[r * in + i];
            }
            w[o * in + i] = (float)((double)w[o * in + i] + scale * sum);
        }
    }
}

/* The adapter SUFFIX of the weight t, in the same group as the weights; NULL: it has none. */
static const charl_checkpoint_tensor *adapter(const charl__export *e, const charl_checkpoint_tensor *t,
                                              const char *suffix)
{
    static const char weight[] = ".weight";
    const int layer = (int)(strlen(t->name) - strlen(weight));
    const charl_checkpoint_tensor *found;
    char name[NAME_BYTES];

    if (!charl__ends_in(t->name, weight) ||
        snprintf(name, sizeof name, "%.*s.%s.weight", layer, t->name, suffix) >= (int)sizeof name) {
        return NULL;
    }
    found = charl_checkpoint_find(e->r, e->group, name);
    return found ? found : charl_checkpoint_find(e->r, "model", name);
}

charl_status charl__export_read(const charl__export *e, const charl_checkpoint_tensor *t, float *dst)
{
    const charl_checkpoint_tensor *down = adapter(e, t, "lora_A"), *up = adapter(e, t, "lora_B");
    CHARL_SCOPED_FREE float *a = NULL, *b = NULL;

    CHARL_TRY(charl_checkpoint_read(e->r, t, dst));
    if (!down && !up) {
        return CHARL_OK;
    }
    CHARL_REQUIRE(e->lora.rank > 0 && down && up && t->dtype == CHARL_F32 && down->dtype == CHARL_F32 &&
                      up->dtype == CHARL_F32 && t->shape.ndim == 2 && down->shape.ndim == 2 && up->shape.ndim == 2 &&
                      up->shape.dim[1] == down->shape.dim[0] && up->shape.dim[0] == t->shape.dim[0] &&
                      down->shape.dim[1] == t->shape.dim[1],
                  CHARL_ERR_CHECKPOINT,
                  "%s: the adapters of %s do not fit: lora.rank in its configuration, lora_A, lora_B and the "
                  "weight do not belong together",
                  e->checkpoint, t->name);
    CHARL_TRY(charl__alloc_array(charl_shape_count(&down->shape) + 1, sizeof *a, &a));
    CHARL_TRY(charl__alloc_array(charl_shape_count(&up->shape) + 1, sizeof *b, &b));
    CHARL_TRY(charl_checkpoint_read(e->r, down, a));
    CHARL_TRY(charl_checkpoint_read(e->r, up, b));
    add_product(dst, b, a, t->shape.dim[0], t->shape.dim[1], down->shape.dim[0], e->lora.alpha / (double)e->lora.rank);
    return CHARL_OK;
}
