/* Keys and values of a sequence, shared by the graph that begins it and the graph that continues it. */
#include "autograd/kv_cache.h"

#include <stdio.h>

#include "autograd/graph_private.h"
#include "base/alloc.h"

struct charl__kv_cache {
    charl_device *dev;
    int64_t positions;
    charl_tensor *position;
    charl__list layers; /* charl_tensor */
};

charl_status charl__kv_cache_create(charl_device *dev, int64_t positions, charl_tensor *position, charl__kv_cache **out)
{
    CHARL_TRY(charl__alloc(sizeof **out, out));
    (*out)->dev = dev;
    (*out)->positions = positions;
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
    if (g->cache && !g->begins && !g->position) {
        g->position = charl_input(g, "position", CHARL_I32, (charl_shape){1, {1}}, CHARL_REPLICATED);
        charl__graph_bind_input(g, g->position, g->cache->position);
    }
    return g->position;
}

/* The k-th layer's tensor, made at its first use. */
static charl_status take_layer(charl__kv_cache *c, int k, const charl_shape *shape, charl_tensor **out)
{
    charl_status st = CHARL_OK;
    charl_tensor *made = NULL;

    if (k == c->layers.count) {
        CHARL_TRY_CLEANUP(charl_tensor_create(c->dev, CHARL_F32, shape, &made));
        CHARL_TRY_CLEANUP(charl__list_add(&c->layers, made));
        made = NULL;
    }
    *out = c->layers.item[k];
    CHARL_REQUIRE_CLEANUP(charl_shape_equal(charl_tensor_get_shape(*out), shape), CHARL_ERR_INVALID,
                          "attention %d: the cache is that of another model", k);
cleanup:
    charl_tensor_release(made);
    return st;
}

charl_var *charl__graph_next_cache(charl_graph *g, int64_t width)
{
    const charl_shape shape = {3, {1, g->cache->positions, width}};
    const int k = g->n_cached++;
    charl_tensor *t = NULL;
    charl_var *v;
    char name[32];
    const charl_status st = take_layer(g->cache, k, &shape, &t);

    if (st != CHARL_OK) {
        return charl__graph_fail(g, st, "%s", charl_error_message());
    }
    snprintf(name, sizeof name, "cache%d", k);
    v = charl_input(g, name, CHARL_F32, shape, CHARL_REPLICATED);
    charl__graph_bind_input(g, v, t);
    return v;
}
