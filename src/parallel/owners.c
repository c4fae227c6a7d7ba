/* Who owns which tensors, where the optimizer updates whole ones. */
#include <stdlib.h>

#include "base/alloc.h"
#include "parallel/optimizer_shard.h"

enum { LOTS = 128 }; /* grad_reducer_private.h: no chunk of gradients has parts of two */

/* Tensors that follow one another in the arena and have the same owner. */
typedef struct lot {
    int64_t at;
    double cost;
    int owner;
} lot;

static int by_offset(const void *a, const void *b)
{
    const charl_param *x = *(charl_param *const *)a, *y = *(charl_param *const *)b;

    return (x->offset > y->offset) - (x->offset < y->offset);
}

static int by_cost(const void *a, const void *b)
{
    const lot *x = a, *y = b;

    return x->cost != y->cost ? (x->cost < y->cost) - (x->cost > y->cost) : (x->at > y->at) - (x->at < y->at);
}

static int by_place(const void *a, const void *b)
{
    const charl__owners_cut *x = a, *y = b;

    return (x->at > y->at) - (x->at < y->at);
}

/* Lots of about equal cost, unless a tensor costs more: a tensor is never divided. Returns their number. */
static int make_lots(const charl__optimizer_rule *rule, charl_param *const *order, int n, lot *out)
{
    double total = 0;
    int n_lots = 0;

    for (int i = 0; i < n; i++) {
        total += charl__optimizer_cost(rule, order[i]);
    }
    for (int i = 0; i < n; i++) {
        if (n_lots == 0 || out[n_lots - 1].cost * LOTS >= total) {
            out[n_lots++].at = order[i]->offset;
        }
        out[n_lots - 1].cost += charl__optimizer_cost(rule, order[i]);
    }
    return n_lots;
}

/* The most expensive lot first, each to the rank that has least. */
static charl_status assign_lots(lot *lots, int n, int ranks)
{
    CHARL_SCOPED_FREE double *load = NULL;

    CHARL_TRY(charl__alloc_array(ranks, sizeof *load, &load));
    qsort(lots, (size_t)n, sizeof *lots, by_cost);
    for (int i = 0; i < n; i++) {
        for (int r = 1; r < ranks; r++) {
            lots[i].owner = load[r] < load[lots[i].owner] ? r : lots[i].owner;
        }
        load[lots[i].owner] += lots[i].cost;
    }
    return CHARL_OK;
}

charl_status charl__owners_create(const charl_params *set, const char *optimizer, int ranks, charl__owners *out)
{
    const charl__optimizer_rule *rule = charl__optimizer_find(optimizer);
    CHARL_SCOPED_FREE charl_param **order = NULL;
    CHARL_SCOPED_FREE lot *lots = NULL;
    int n = 0, n_lots, shares = 0;

    charl__owners_fini(out);
    CHARL_TRY(charl__alloc_array(set->count, sizeof *order, &order));
    for (int i = 0; i < set->count; i++) {
        if (set->param[i]->spec.trainable) {
            order[n++] = set->param[i];
            shares += set->param[i]->n_shares;
        }
    }
    qsort(order, (size_t)n, sizeof(charl_param *), by_offset);
    CHARL_TRY(charl__alloc_array(n, sizeof *lots, &lots));
    n_lots = make_lots(rule, order, n, lots);
    CHARL_TRY(assign_lots(lots, n_lots, ranks));
    CHARL_TRY(charl__alloc_array(n_lots + shares, sizeof *out->cut, &out->cut));
    for (int i = 0; i < n_lots; i++) {
        out->cut[out->n++] = (charl__owners_cut){lots[i].at, lots[i].owner};
    }
    qsort(out->cut, (size_t)n_lots, sizeof *out->cut, by_place);
    for (int i = 0; i < n; i++) { /* gradients of further uses, behind all parameters */
        const int owner = charl__owners_find(&(charl__owners){out->cut, n_lots}, order[i]->offset);

        for (int k = 1; k <= order[i]->n_shares; k++) {
            out->cut[out->n++] = (charl__owners_cut){charl__param_gradient_at(order[i], k), owner};
        }
    }
    qsort(out->cut, (size_t)out->n, sizeof *out->cut, by_place);
    return CHARL_OK;
}

void charl__owners_fini(charl__owners *owners)
{
    charl_free(owners->cut);
    *owners = (charl__owners){0};
}

static void add_values(const charl_params *set, int64_t elements, charl__kept *out)
{
    out->device += charl__params_bytes(set, elements);
    out->host += charl__params_are_offloaded(set) ? 4 * elements : 0;
}

static void add_state(const charl_params *set, int64_t bytes, charl__kept *out)
{
    *(charl__device_offloads(set->dev) ? &out->host : &out->device) += bytes;
}

/* The most of any rank, of an optimizer that updates whole tensors; with their values, if these are divided too. */
static charl_status most_assigned(const charl_params *set, const charl_optimizer_config *config, bool divided,
                                  int ranks, charl__kept *out)
{
    charl__owners owners = {0};
    CHARL_SCOPED_FREE charl__kept *bytes = NULL;
    charl_status st = charl__alloc_array(ranks, sizeof *bytes, &bytes);

    st = st == CHARL_OK ? charl__owners_create(set, config->type, ranks, &owners) : st;
    for (int i = 0; st == CHARL_OK && i < set->count; i++) {
        const charl_param *p = set->param[i];

        if (p->spec.trainable) {
            charl__kept *at = &bytes[charl__owners_find(&owners, p->offset)];

            at->device += charl__optimizer_direction_bytes(config, p);
            add_state(set, charl__optimizer_tensor_bytes(config, p), at);
            add_values(set, divided ? charl__param_blocks(p) * CHARL_PARAM_ALIGN : 0, at);
            out->device = at->device > out->device ? at->device : out->device;
            out->host = at->host > out->host ? at->host : out->host;
        }
    }
    charl__owners_fini(&owners);
    return st;
}

/* Elements that a rank has of parts, at most. */
static int64_t part_elements(const charl_params *set, int ranks)
{
    const int64_t part = set->elements / ranks + (int64_t)CHARL_PARAM_ALIGN * CHARL__SHARD_PIECES;

    return part < set->elements ? part : set->elements;
}

charl_status charl__shard_bytes(const charl_params *set, const charl_optimizer_config *config, charl_shard shard,
                                int ranks, charl__kept *out)
{
    const bool divided = shard == CHARL_SHARD_PARAMETERS;
    const int64_t part = part_elements(set, ranks);

    *out = (charl__kept){0};
    if (charl_optimizer_is_elementwise(config->type)) {
        add_state(set, charl__optimizer_kept_bytes(config, shard == CHARL_SHARD_NONE ? set->elements : part), out);
        add_values(set, divided ? part : 0, out);
    } else {
        CHARL_TRY(most_assigned(set, config, divided, shard == CHARL_SHARD_NONE ? 1 : ranks, out));
    }
    add_values(set, divided ? 0 : set->elements, out);
    return CHARL_OK;
}
