#ifndef CHARL_AUTOGRAD_KV_CACHE_H
#define CHARL_AUTOGRAD_KV_CACHE_H
/** Graphs that work on a sequence piece by piece: keys and values of the positions so far stay on
 *  the device.
 *
 *  A cache serves two graphs of one model: one begins the sequence (its rows are positions 0, 1,
 *  ...), one continues it by one position per run. Both are inference graphs with inputs [1, T].
 *  Results have the bits of one graph over the whole sequence.
 */
#include "charl/graph.h"
#include "charl/tensor.h"

typedef struct charl__kv_cache charl__kv_cache;

/** Room for `positions`. `position` i32 [1] is retained: what it holds when the continuing graph
 *  runs is the number of positions so far. Local. Errors: ERR_NOMEM. */
charl_status charl__kv_cache_create(charl_device *dev, int64_t positions, charl_tensor *position,
                                    charl__kv_cache **out) CHARL_MUST_CHECK;
/** After the graphs. NULL is a no-op. */
void charl__kv_cache_destroy(charl__kv_cache *c);

/** Before anything is built on g. The graph's attention layers take the cache's tensors in the
 *  order in which they are built; the first graph makes them. */
void charl__graph_set_cache(charl_graph *g, charl__kv_cache *c, bool begins);

/* For builders. */
bool charl__graph_has_cache(const charl_graph *g);
/** The position of the row of a continuing graph, i32 [1]; NULL in all other graphs. */
charl_var *charl__graph_position(charl_graph *g);
/** The next attention layer's keys and values, f32 [1, positions, width]. NULL after an error. */
charl_var *charl__graph_next_cache(charl_graph *g, int64_t width);

#endif
