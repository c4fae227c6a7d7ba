#ifndef CHARL_AUTOGRAD_FUSE_USES_H
#define CHARL_AUTOGRAD_FUSE_USES_H
/** Which nodes read which values, for passes over a complete graph (fuse.c, fuse_product.c). */
#include "autograd/graph_private.h"

/** Positions of the live nodes that read a value, ascending. Views are looked through: the value is
 *  a root. Roots without `at` have none. */
typedef struct charl__uses {
    int *first; /* var id -> its first in at; those of the next one follow */
    int *at;
} charl__uses;

/** A view, or a sum over ranks that this rank has whole: its output is its operand's memory. */
static inline bool charl__is_alias(const charl__node *n)
{
    return n->n_out == 1 && n->out[0]->root_link;
}

charl_status charl__uses_find(const charl_graph *g, charl__uses *u) CHARL_MUST_CHECK;
void charl__uses_fini(charl__uses *u);

/** Whether n is an elementwise operator of floats with a value per element that a fused kernel can compute; if so, its
 *  expression is in *x. */
bool charl__is_fusible(const charl__node *n, charl__expr *x);

/** Whether an effect of the graph changes v, a parameter or an input. */
bool charl__is_changed(const charl_graph *g, charl_var *v);

/** Whether a live node strictly between two positions changes an operand. */
bool charl__has_effect_between(const charl_graph *g, int first, int last);

#endif
