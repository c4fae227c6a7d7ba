/* Keys and values of sequences, shared by the graphs that begin one of them and the graph that continues them. */
#include "autograd/kv_cache.h"

#include <stdio.h>

#include "autograd/graph_private.h"
#include "base/alloc.h"

struct charl__kv_cache {
    charl_device *dev;
    int64_t sequences, positions;
    charl_tensor *sequence, *position;
    charl__list layers; /* charl_tensor */
};

charl_status charl__kv_cache_create(charl_device *dev, int64_t positions, charl_tensor *sequence,
                                    charl_tensor *position, charl__kv_cache **out)
{
    CHARL_TRY(charl__alloc(sizeof **out, out));
    (*out)->dev = dev;
    (*out)->sequences = charl_shape_count(charl_tensor_get_shape(position));
    (*out)->positions = positions;
    (*out)->sequence = charl_tensor_retain(sequence);
    (*out)->position = charl_tensor_retain(position);
    return CHARL_OK;
}

void charl__kv_cache_destroy(charl__kv_cache *c)
{
    if (c) {
        for (int i = 0; i < c->layers.count; i++) {
            charl_tensor_release(c->layers.item[i]);
        }
        charl_free(c->layers.item);
        charl_tensor_release(c->sequence);
        charl_tensor_release(c->position);
        charl_free(c);
    }
}

void charl__graph_set_cache(charl_graph *g, charl__kv_cache *c, bool begins)
{
    g->cache = c;
    g->begins = begins;
}

bool charl__graph_has_cache(const charl_graph *g)
{
    return g->cache != NULL;
}

charl_var *charl__graph_position(charl_graph *g)
{
    return g->cache && !g->begins ? charl__graph_cache_at(g) : NULL;
}

charl_var *charl__graph_cache_at(charl_graph *g)
{
    if (!g->cache_at) {
        charl_tensor *at = g->begins ? g->cache->sequence : g->cache->position;

        g->cache_at = charl_input(g, g->begins ? "sequence" : "position", CHARL_I32, *charl_tensor_get_shape(at),
                                  CHARL_REPLICATED);
        charl__graph_bind_input(g, g->cache_at, at);
    }
    return g->cache_at;
}

/* The k-th layer's tensor, created on first use. */
static charl_status layer_at(charl__kv_cache *c, int k, charl_dtype dtype, const charl_shape *shape, charl_tensor **out)
{
    CHARL_SCOPED(charl__tensor_left) charl_tensor *made = NULL;

    if (k == c->layers.count) {
        CHARL_TRY(charl_tensor_create(c->dev, dtype, shape, &made));
        CHARL_TRY(charl__list_add(&c->layers, made));
        made = NULL;
    }
    *out = c->layers.item[k];
    CHARL_REQUIRE(charl_shape_equal(charl_tensor_get_shape(*out), shape) && charl_tensor_get_dtype(*out) == dtype,
                  CHARL_ERR_INVALID, "attention %d: the cache belongs to another model", k);
    return CHARL_OK;
}

charl_var *charl__graph_next_cache(charl_graph *g, int64_t width)
{
    const charl_shape shape = {3, {g->cache->sequences, g->cache->positions, width}};
    const int k = g->n_cached++;
    charl_tensor *t = NULL;
    charl_var *v;
    char name[32];
    const charl_status st = layer_at(g->cache, k, g->precision, &shape, &t);

    if (st != CHARL_OK) {
        return charl__graph_fail(g, st, "%s", charl_error_message());
    }
    snprintf(name, sizeof name, "cache%d", k);
    v = charl_input(g, name, g->precision, shape, CHARL_REPLICATED);
    charl__graph_bind_input(g, v, t);
    return v;
}
