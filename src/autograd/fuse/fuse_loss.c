/* Combines a classifier's loss and its gradient into one node, which reads the logits once.
 *
 * It runs at the position of the loss: the nodes that compute the gradient of the loss, a constant of
 * the step over the rows, do not depend on any loss and are moved before it.
 */
#include <string.h>

#include "autograd/fuse/fuse.h"
#include "base/alloc.h"
#include "base/text/text.h"
#include "charl/ops.h"

enum { LOSS_IN = 2, LOSS_LSE = 1, GRAD_LSE = 3, GRAD_IN = 4 }; /* operands before the weight */

/* The loss whose gradient n computes; NULL: none. */
static charl__node *loss_of(const charl__node *n)
{
    charl__node *loss = n->live && n->op == &charl_op_cross_entropy_grad ? n->in[GRAD_LSE]->node : NULL;

    if (!loss || loss->op != &charl_op_cross_entropy || loss->out[LOSS_LSE] != n->in[GRAD_LSE] ||
        loss->n_in - LOSS_IN != n->n_in - GRAD_IN || (loss->n_in > LOSS_IN && loss->in[LOSS_IN] != n->in[GRAD_IN]) ||
        loss->in[0] != n->in[1] || loss->in[1] != n->in[2] || memcmp(loss->attr, n->attr, n->op->attr_size) != 0) {
        return NULL;
    }
    return loss;
}

/* Operand 1 of expand only provides the number of rows. */
static bool counts_rows(const charl__node *n, int k)
{
    return n->op == &charl_op_expand && k == 1;
}

static bool has_rows_of(const charl_var *a, const charl_var *b)
{
    return a->type.batch == b->type.batch && a->type.shape.dim[0] == b->type.shape.dim[0];
}

/* Mark the nodes after `loss` that gout, an operand of node `last`, depends on. False: it depends
 * on the loss, or one of them cannot be moved. */
static bool find_sources(const charl_graph *g, const charl_var *gout, const charl__node *loss, int last, bool *moves)
{
    if (gout->node) {
        moves[gout->node->position] = true;
    }
    for (int i = last - 1; i > loss->position; i--) {
        const charl__node *n = charl__graph_node(g, i);

        if (moves[i] && n->op->effect) {
            return false;
        }
        for (int k = 0; moves[i] && k < n->n_in; k++) {
            if (counts_rows(n, k) && !has_rows_of(n->in[k], loss->in[0])) {
                return false;
            }
            if (n->in[k]->node && !counts_rows(n, k)) {
                moves[n->in[k]->node->position] = true;
            }
        }
    }
    return !moves[loss->position];
}

/* Let marked nodes take the number of rows from the logits. */
static void count_logits(charl_graph *g, const charl__node *loss, const bool *moves)
{
    for (int i = loss->position; i < g->nodes.count; i++) {
        charl__node *n = charl__graph_node(g, i);

        if (moves[i] && n->op == &charl_op_expand && n->n_in > 1) {
            n->in[1] = loss->in[0];
        }
    }
}

/* Move marked nodes to position `first`. */
static charl_status move_ahead(charl_graph *g, int first, const bool *moves)
{
    const int n = g->nodes.count;
    CHARL_SCOPED_FREE void **order = NULL;
    int at = first, backward = 0;

    CHARL_TRY(charl__alloc_array(n, sizeof *order, &order));
    for (int pass = 0; pass < 2; pass++) {
        for (int i = first; i < n; i++) {
            if (moves[i] == (pass == 0)) {
                order[at++] = g->nodes.item[i];
            }
            backward += pass == 0 && moves[i] && i >= g->n_forward && first < g->n_forward;
        }
    }
    for (int i = first; i < n; i++) {
        g->nodes.item[i] = order[i];
        charl__graph_node(g, i)->position = i;
    }
    g->n_forward += backward;
    g->first_backward += backward;
    return CHARL_OK;
}

/* Make `loss` the fused node; n no longer computes anything. */
static charl_status join(charl__node *loss, charl__node *n)
{
    CHARL_SCOPED(charl__text_fini) charl__text name = {0};

    CHARL_TRY(charl__text_printf(&name, "%s+grad", loss->name));
    charl_free(loss->name);
    loss->name = charl__text_steal(&name);
    loss->op = &charl_op_cross_entropy_with_grad;
    memmove(loss->in + 1, loss->in, (size_t)loss->n_in * sizeof *loss->in);
    memmove(loss->out + 1, loss->out, (size_t)loss->n_out * sizeof *loss->out);
    loss->in[0] = n->in[0];
    loss->out[0] = n->out[0];
    loss->out[0]->node = loss;
    loss->n_in++;
    loss->n_out++;
    n->n_out = 0;
    return CHARL_OK;
}

charl_status charl__fuse_losses(charl_graph *g)
{
    CHARL_SCOPED_FREE bool *moves = NULL;

    for (int i = 0; i < g->nodes.count; i++) {
        charl__node *n = charl__graph_node(g, i), *loss = loss_of(n);

        if (!loss) {
            continue;
        }
        charl_free(moves);
        moves = NULL;
        CHARL_TRY(charl__alloc_array(g->nodes.count, sizeof *moves, &moves));
        if (find_sources(g, n->in[0], loss, i, moves)) {
            memset(moves, 0, (size_t)loss->position * sizeof *moves);
            count_logits(g, loss, moves);
            CHARL_TRY(move_ahead(g, loss->position, moves));
            CHARL_TRY(join(loss, n));
        }
    }
    return CHARL_OK;
}
