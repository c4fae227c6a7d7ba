#ifndef CHARL_AUTOGRAD_OP_LINEAR_INTEGER_H
#define CHARL_AUTOGRAD_OP_LINEAR_INTEGER_H
/** Linear layers whose products are computed with integers of 8 bits. integer.c defines what that means. */
#include "charl/graph.h"

/** charl_linear, and the products of its gradients, of operands of f32. NULL x or w: NULL. */
charl_var *charl__linear_integer(charl_graph *g, charl_var *x, charl_var *w, charl_var *bias);

#endif
