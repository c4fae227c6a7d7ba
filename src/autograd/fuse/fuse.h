#ifndef CHARL_AUTOGRAD_FUSE_FUSE_H
#define CHARL_AUTOGRAD_FUSE_FUSE_H
/** The parts of fusion (charl__graph_fuse). */
#include "autograd/graph_private.h"

/** How many operators node n is. */
int charl__fused_count(const charl__node *n);

/** A classifier's loss and its gradient become one, moving nodes. */
charl_status charl__fuse_losses(charl_graph *g) CHARL_MUST_CHECK;
/** An elementwise operator that follows a product becomes its epilogue. */
charl_status charl__fuse_products(charl_graph *g) CHARL_MUST_CHECK;
/** The two passes of batch norm's statistics become one. */
charl_status charl__fuse_moments(charl_graph *g) CHARL_MUST_CHECK;
/** What reads an elementwise operator forms it itself, where that spares a pass over memory. */
charl_status charl__fuse_prologues(charl_graph *g) CHARL_MUST_CHECK;
/** Connected elementwise operators become one node. */
charl_status charl__fuse_chains(charl_graph *g) CHARL_MUST_CHECK;

#endif
