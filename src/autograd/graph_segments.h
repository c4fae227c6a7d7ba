#ifndef CHARL_AUTOGRAD_GRAPH_SEGMENTS_H
#define CHARL_AUTOGRAD_GRAPH_SEGMENTS_H
/** Segments of a graph, for recomputation. */
#include "charl/graph.h"

/** Nodes built between begin and end form a segment of the model: with recomputation, only the inputs of
 *  a segment are kept for the backward pass, and the rest is computed again, with the same bits.
 *  Segments do not nest. charl__graph_set_recompute enables it. Local. */
void charl__graph_segment_begin(charl_graph *g);
void charl__graph_segment_end(charl_graph *g);

#endif
