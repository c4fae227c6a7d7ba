/* What a training takes on the device, by purpose and by tensor. */
#include <stdlib.h>
#include <string.h>

#include "autograd/graph.h"
#include "base/alloc.h"
#include "base/env.h"
#include "parallel/optimizer_shard.h"
#include "tensor/params.h"
#include "train/trainer.h"

enum { MOST_USES = 64, MOST_PLANS = 16 };

typedef struct activations {
    charl_memory_activation *item;
    int count;
} activations;

static charl_status add_activation(void *ctx, const char *name, const charl_type *type, int64_t bytes)
{
    activations *all = ctx;

    CHARL_TRY(charl__grow(all->count, sizeof *all->item, &all->item));
    all->item[all->count++] = (charl_memory_activation){.name = name,
                                                        .dtype = type ? type->dtype : CHARL_U8,
                                                        .shape = type ? type->shape : (charl_shape){1, {bytes}},
                                                        .bytes = bytes};
    return CHARL_OK;
}

static int by_bytes(const void *a, const void *b)
{
    const charl_memory_activation *x = a, *y = b;

    return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : strcmp(x->name, y->name);
}

static int use_by_bytes(const void *a, const void *b)
{
    const charl_device_use *x = a, *y = b;

    return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : strcmp(x->what, y->what);
}

static charl_memory_parameter describe(const charl__trainer *t, const charl_param *p)
{
    const charl_param_spec *spec = charl_param_get_spec(p);
    const int64_t n = charl_shape_count(&spec->shape);
    charl_memory_parameter out = {.name = spec->name,
                                  .shape = spec->shape,
                                  .is_trained = spec->trainable,
                                  .bytes = charl__param_bytes(p),
                                  .copy_bytes = p->half && p->half != p->codes ? n * 2 : 0};

    for (int k = 0; charl_optimizer_get_state_name(t->replica.optimizer, k); k++) {
        charl_shape shape;

        if (spec->trainable && charl_optimizer_get_state_shape(t->replica.optimizer, k, p, &shape)) {
            out.state_bytes += charl__optimizer_state_bytes(t->replica.optimizer, k, charl_shape_count(&shape));
        }
    }
    return out;
}

/* For 1, 2, 4, ... ranks, as many as there are slices, which divide the batch; or for the ranks of a planned cluster, with such a batch each.
 * *count is how many. */
static charl_status plan(charl__trainer *t, charl_memory_plan out[MOST_PLANS], int *count)
{
    charl__replica *r = &t->replica;
    const charl_optimizer *o = r->optimizer;
    const charl_params *set = r->session->params;
    const charl_slices *slices = &r->dp->slices;
    const int64_t sums = 4 * set->gradient_elements, block = charl__params_largest(set) * (set->half ? 2 : 4);
    const char *pretended = charl__env(CHARL_ENV_RANKS_PER_NODE);
    const charl_train_cluster *planned = &t->options->planned;
    const long per_node = planned->node > 0                    ? planned->node
                          : charl_comm_node_count(t->comm) > 1 ? charl_comm_local_size(t->comm)
                          : pretended                          ? strtol(pretended, NULL, 10)
                                                               : 0;
    const bool by_node = t->config->dist.shard_group == CHARL__SHARD_GROUP_NODE, within = by_node && per_node > 0;
    const int64_t rest = charl_device_get_memory(t->session.dev).in_use -
                         charl_graph_get_info(r->train->g).activation_bytes -
                         charl__params_bytes(set, set->value_elements) - charl__optimizer_bytes(o, true) -
                         (set->sum != set->grad ? sums : 0);
    int64_t whole, gathers; /* activations */
    const bool is_weak = planned->ranks > 0;
    int n = 0;

    if (charl__device_facts_get(t->session.dev)->zero_copy && charl_comm_size(t->comm) > 1) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__replica_measure(r, false, &whole));
    CHARL_TRY(charl__replica_measure(r, true, &gathers));
    for (int ranks = is_weak ? planned->ranks : 1; is_weak ? n == 0 : ranks <= slices->total && n < MOST_PLANS;
         ranks *= 2) {
        const int64_t part = is_weak ? whole : whole * ((slices->total + ranks - 1) / ranks) / slices->count;
        const int64_t gathered = part + gathers - whole > block ? part + gathers - whole : block;

        out[n].ranks = ranks;
        out[n].shards = within && per_node < ranks ? (int)per_node : ranks;
        for (charl_shard shard = CHARL_SHARD_NONE; shard <= CHARL_SHARD_PARAMETERS; shard++) {
            const bool divides = ranks > 1 && shard == CHARL_SHARD_PARAMETERS;
            charl__kept own;

            CHARL_TRY(charl__shard_bytes(set, &o->config, ranks == 1 ? CHARL_SHARD_NONE : shard, out[n].shards, &own));
            out[n].bytes[shard] = divides && by_node ? 0
                                                     : rest + (divides ? gathered : part) + own.device +
                                                           (ranks == 1 || shard >= CHARL_SHARD_GRADIENTS ? 0 : sums);
            out[n].host_bytes[shard] = divides && by_node ? 0 : own.host;
        }
        *count = ++n;
    }
    return CHARL_OK;
}

charl_status charl__memory_report(charl__trainer *t)
{
    charl_status st = CHARL_OK;
    charl_device *dev = t->session.dev;
    const charl_params *set = t->session.params;
    charl_device_use use[MOST_USES];
    charl_memory_plan plans[MOST_PLANS];
    charl__peak peak;
    activations alive = {0};
    charl_memory_parameter *parameter = NULL;
    charl_memory m = {.device = charl_device_get_info(dev),
                      .device_memory = charl_device_get_memory(dev),
                      .use = use,
                      .n_uses = charl_device_get_uses(dev, use, MOST_USES),
                      .n_parameters = charl_params_get_count(set),
                      .arena_bytes = charl_graph_get_info(t->replica.train->g).activation_bytes};

    qsort(use, (size_t)m.n_uses, sizeof *use, use_by_bytes);
    CHARL_TRY_CLEANUP(charl__alloc_array(m.n_parameters + 1, sizeof *parameter, &parameter));
    for (int i = 0; i < m.n_parameters; i++) {
        parameter[i] = describe(t, charl_params_get(set, i));
    }
    CHARL_TRY_CLEANUP(charl__graph_peak(t->replica.train->g, add_activation, &alive, &peak));
    qsort(alive.item, (size_t)alive.count, sizeof *alive.item, by_bytes);
    m.parameter = parameter;
    m.peak_layer = peak.name;
    m.peak_is_backward = peak.is_backward;
    m.peak_bytes = peak.bytes;
    m.activation = alive.item;
    m.n_activations = alive.count;
    m.plan = plans;
    CHARL_TRY_CLEANUP(plan(t, plans, &m.n_plans));
    CHARL_TRY_CLEANUP(t->options->events.memory(t->options->events.ctx, &m));
cleanup:
    charl_free(alive.item);
    charl_free(parameter);
    return st;
}
