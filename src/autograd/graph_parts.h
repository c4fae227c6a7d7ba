#ifndef CHARL_AUTOGRAD_GRAPH_PARTS_H
#define CHARL_AUTOGRAD_GRAPH_PARTS_H
/** Parts of a graph, for recomputation. */
#include "charl/graph.h"

/** What is built between begin and end is a part of the model: with recomputation only what enters
 *  a part is kept for the backward pass, and the rest of it is computed again, to the same bits.
 *  Parts do not nest. Ask for it before charl_graph_backward; off by default. Local. */
void charl__graph_part_begin(charl_graph *g);
void charl__graph_part_end(charl_graph *g);
void charl__graph_set_recompute(charl_graph *g, bool recompute);

#endif
