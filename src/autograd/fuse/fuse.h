#ifndef CHARL_AUTOGRAD_FUSE_FUSE_H
#define CHARL_AUTOGRAD_FUSE_FUSE_H
/** The passes of fusion (charl__graph_fuse). */
#include "autograd/graph_private.h"

/** Number of operators that node n stands for. */
int charl__fused_count(const charl__node *n);

/** Combine a classifier's loss and its gradient, moving nodes. */
charl_status charl__fuse_losses(charl_graph *g) CHARL_MUST_CHECK;
/** Make an elementwise operator that follows a product its epilogue. */
charl_status charl__fuse_products(charl_graph *g) CHARL_MUST_CHECK;
/** Combine the two passes of batch norm's statistics. */
charl_status charl__fuse_moments(charl_graph *g) CHARL_MUST_CHECK;
/** Let the readers of an elementwise operator compute it themselves if that saves a pass over memory. */
charl_status charl__fuse_prologues(charl_graph *g) CHARL_MUST_CHECK;
/** Combine connected elementwise operators. */
charl_status charl__fuse_chains(charl_graph *g) CHARL_MUST_CHECK;

#endif
