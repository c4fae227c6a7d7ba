#ifndef CHARL_AUTOGRAD_KV_CACHE_H
#define CHARL_AUTOGRAD_KV_CACHE_H
/** Graphs that process sequences incrementally: keys and values of earlier positions stay on
 *  the device.
 *
 *  A cache holds several sequences and serves two kinds of graphs of one model. One begins a sequence: its input is [1, T], positions 0, 1, ...
 *  of one sequence. The other continues all sequences by one position per run: its input is [S, 1], the next position of each. All are
 *  inference graphs of the same precision as the cache. Results have the bits of one graph over the whole sequence, where attention
 *  does not run on tensor cores, and never depend on the other sequences.
 */
#include "charl/graph.h"
#include "charl/tensor.h"

typedef struct charl__kv_cache charl__kv_cache;

/** Room for `positions` of each sequence. The contents are read when a graph runs: `sequence` i32 [1], the one that a graph begins; `position`
 *  i32 [S, 1], for each sequence the position that the continuing graph computes, from 0. Both are retained. Local. Errors: ERR_NOMEM. */
charl_status charl__kv_cache_create(charl_device *dev, int64_t positions, charl_tensor *sequence,
                                    charl_tensor *position, charl__kv_cache **out) CHARL_MUST_CHECK;
/** After the graphs. NULL is a no-op. */
void charl__kv_cache_destroy(charl__kv_cache *c);

/** Call before anything is built on g. The graph's attention layers use the cache's tensors in the
 *  order in which they are built; the first graph creates them. */
void charl__graph_set_cache(charl_graph *g, charl__kv_cache *c, bool begins);

/* For builders. */
bool charl__graph_has_cache(const charl_graph *g);
/** The positions that a continuing graph computes, i32 [S, 1]; NULL in all other graphs. */
charl_var *charl__graph_position(charl_graph *g);
/** The place of the rows of a graph with a cache: their sequence, or their positions. */
charl_var *charl__graph_cache_at(charl_graph *g);
/** The next attention layer's keys and values, [S, positions, width]. NULL after an error. */
charl_var *charl__graph_next_cache(charl_graph *g, int64_t width);

#endif
