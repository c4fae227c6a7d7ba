/* Fusion: in a complete graph, combines several nodes into one. No bit changes, nor does
 * the order in which gradients are laid out, which is fixed before. */
#include "autograd/fuse/fuse.h"

#include "autograd/fuse/chain.h"
#include "autograd/fuse/product.h"
#include "autograd/fuse/prologue.h"

#include "base/env.h"

int charl__fused_count(const charl__node *n)
{
    if (n->op == &charl__op_chain) {
        return ((const charl__chain *)n->attr)->n_steps;
    }
    if (n->op == &charl_op_cross_entropy_with_grad) {
        return 2;
    }
    if (n->op == &charl__op_prologue) {
        return 1 + ((const charl__prologue *)n->attr)->chain.n_steps;
    }
    return n->op == &charl__op_product ? 1 + ((const charl__product *)n->attr)->n_steps : 1;
}

/* Views of values that are no longer in memory are dead. */
static void remark_live(charl_graph *g)
{
    for (int i = 0; i < g->nodes.count; i++) {
        charl__graph_node(g, i)->live = false;
    }
    charl__graph_mark_live(g);
}

charl_status charl__graph_fuse(charl_graph *g)
{
    if (charl__env_is_on(CHARL_ENV_NO_FUSION) || charl__env_is_on(CHARL_ENV_CHECK_FINITE) || g->checkable) {
        return CHARL_OK; /* the last two inspect the result of every operator */
    }
    CHARL_TRY(charl__fuse_losses(g));
    remark_live(g);
    CHARL_TRY(charl__fuse_moments(g));
    CHARL_TRY(charl__fuse_prologues(g));
    remark_live(g);
    CHARL_TRY(charl__fuse_products(g)); /* products before chains: an epilogue saves more memory traffic */
    remark_live(g);
    CHARL_TRY(charl__fuse_chains(g));
    remark_live(g);
    return CHARL_OK;
}
