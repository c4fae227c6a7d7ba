/* Different devices in one job. */
#include "train/heterogeneous.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "config/config_rows.h"
#include "dist/consensus.h"
#include "train/replica.h"

typedef struct device_model {
    char name[128], driver[128];
    bool amx; /* multiplies by it; processors that call themselves the same may differ in that */
} device_model;

static bool is_same(const device_model *a, const device_model *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->driver, b->driver) == 0 && a->amx == b->amx;
}

static void list_models(const device_model *all, int size, charl__heterogeneous *m)
{
    size_t used = 0;

    for (int r = 0; r < size; r++) {
        bool is_new = true;
        int n;

        for (int q = 0; q < r; q++) {
            is_new = is_new && strcmp(all[q].name, all[r].name) != 0;
        }
        m->on = m->on || !is_same(&all[r], &all[0]);
        if (is_new && used < sizeof m->models) {
            n = snprintf(m->models + used, sizeof m->models - used, "%s%s", used > 0 ? " + " : "", all[r].name);
            used += n > 0 ? (size_t)n : 0;
        }
    }
}

/* Whether every rank's device rounds as IEEE 754 says, so that they compute the same bits. Collective; agreed. */
static charl_status compute_alike(const charl__replica *r, bool *alike)
{
    charl_arithmetic table[CHARL_ARITHMETIC_COUNT];
    int64_t wrong = 0;

    *alike = false;
    if (r->config->train.exact == CHARL__EXACT_DEVICE || charl__config_inexact(r->config)) {
        return CHARL_OK;
    }
    CHARL_TRY(charl_comm_agree(r->comm, charl_device_check_arithmetic(r->session->dev, table)));
    for (int k = 0; k < CHARL_ARITHMETIC_COUNT; k++) {
        wrong += table[k].wrong;
    }
    CHARL_TRY(charl_comm_reduce_i64(r->comm, CHARL_COMM_SUM, &wrong, 1));
    *alike = wrong == 0;
    return CHARL_OK;
}

static bool multiplies_by_amx(const charl__replica *r)
{
    const charl_device *dev = r->session->dev;

    return charl__task_precision(r->config) == CHARL_BF16 && charl_device_get_info(dev)->kind == CHARL_DEVICE_CPU &&
           charl_device_has_tensor_cores(dev, CHARL_BF16);
}

charl_status charl__heterogeneous_init(charl__replica *r)
{
    charl_status st = CHARL_OK;
    const charl_device_info *d = charl_device_get_info(r->session->dev);
    const int size = charl_comm_size(r->comm);
    device_model mine = {.amx = multiplies_by_amx(r)}, *all = NULL;

    snprintf(mine.name, sizeof mine.name, "%s%.100s", charl__fault("train.model") ? "another " : "", d->name);
    snprintf(mine.driver, sizeof mine.driver, "%s", d->driver);
    st = charl__alloc_array(size, sizeof *all, &all);
    CHARL_TRY_CLEANUP(charl_comm_agree(r->comm, st));
    CHARL_TRY_CLEANUP(charl_comm_allgather(r->comm, &mine, sizeof mine, all));
    list_models(all, size, &r->mixed);
    if (r->mixed.on && !r->session->infers) {
        bool alike;

        CHARL_TRY_CLEANUP(compute_alike(r, &alike));
        r->mixed.on = !alike;
    }
    if (r->mixed.on && r->dp->sharding == CHARL_SHARD_PARAMETERS) {
        st = charl_error_set(CHARL_ERR_CONFIG, __FILE__, __LINE__, __func__,
                             "dist.shard = parameters: the devices %s do not compute the same bits; HINT dist.shard = "
                             "gradients works with them",
                             r->mixed.models);
        CHARL_TRY_CLEANUP(charl__comm_agreed(r->comm, st));
    }
    if (r->mixed.on && !r->session->infers) {
        st = charl__alloc_array(r->session->params->elements + r->session->params->buffer_elements,
                                sizeof *r->mixed.copy, &r->mixed.copy);
        CHARL_TRY_CLEANUP(charl_comm_agree(r->comm, st));
    }
cleanup:
    charl_free(all);
    return st;
}

void charl__heterogeneous_fini(charl__replica *r)
{
    charl_free(r->mixed.copy);
    r->mixed.copy = NULL;
}

static charl_status copy_from_first(const charl__replica *r, charl__buffer *arena, int64_t elements, float *copy)
{
    const size_t bytes = (size_t)elements * sizeof *copy;
    const bool leads = charl_comm_rank(r->comm) == 0;

    if (leads) {
        CHARL_TRY(charl__buffer_read(CHARL_QUEUE_COMPUTE, arena, 0, copy, bytes, true));
    }
    CHARL_TRY(charl_comm_broadcast(r->comm, copy, bytes, 0));
    if (!leads) {
        CHARL_TRY(charl__buffer_write(CHARL_QUEUE_COMPUTE, arena, 0, copy, bytes, true));
    }
    return CHARL_OK;
}

charl_status charl__heterogeneous_follow(charl__replica *r)
{
    const charl_params *p = r->session->params;

    if (!r->mixed.on) {
        return CHARL_OK;
    }
    CHARL_TRY(copy_from_first(r, p->value, p->elements, r->mixed.copy));
    CHARL_TRY(copy_from_first(r, p->buffers, p->buffer_elements, r->mixed.copy + p->elements));
    if (charl_comm_rank(r->comm) != 0) {
        CHARL_TRY(charl__params_refresh(r->session->params));
    }
    return CHARL_OK;
}

charl_status charl__heterogeneous_step(charl__replica *r)
{
    enum { STEPS = 32 };

    return (r->step + 1) % STEPS == 0 ? charl__heterogeneous_follow(r) : CHARL_OK;
}
