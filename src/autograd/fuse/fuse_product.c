/* Epilogues: combines a matrix product and one or two elementwise operators that read it into one
 * node.
 *
 * It runs at the position of the product, so the product must be the operand that is computed
 * last. If other nodes read the product too, or the first operator's result, that value is stored
 * beside the result.
 */
#include <string.h>

#include "autograd/fuse/fuse.h"
#include "autograd/launch/map.h"
#include "autograd/fuse/product.h"
#include "autograd/fuse/uses.h"
#include "base/alloc.h"
#include "base/text/text.h"

/* The node that computes the last of n's operands; NULL: all are leaves. */
static charl__node *last_producer(const charl__node *n)
{
    charl__node *last = NULL;

    for (int i = 0; i < n->n_in; i++) {
        charl__node *p = charl__var_root(n->in[i])->node;

        last = p && (!last || p->position > last->position) ? p : last;
    }
    return last;
}

/* Whether n is one product per element of its output. */
static bool takes_epilogue(const charl__node *n)
{
    charl_type in[CHARL_OP_MAX_IN];
    charl__infer inf = charl__node_infer(n->out[0]->g, n, in);

    inf.out[0] = n->out[0]->type;
    inf.channels_last = n->out[0]->channels_last;
    for (int i = 0; i < n->n_in; i++) {
        inf.channels_last =
            inf.channels_last && (in[i].shape.ndim != 4 || in[i].batch != CHARL_BATCHED || n->in[i]->channels_last);
    }
    return n->op->epilogue || (n->op->epilogue_if && n->op->epilogue_if(&inf));
}

static bool may_lead(const charl__node *n)
{
    return n && n->live && n->out[0]->type.batch != CHARL_PARTIAL &&
           (n->op == &charl__op_product || (n->n_out == 1 && takes_epilogue(n)));
}

/* Name of operand i of n's expression in the epilogue of head, which gets it as an input in *in;
 * 0: it cannot be an operand there. */
static char operand_of(const charl__node *n, int i, const charl__node *head, charl_var **in, int *n_in)
{
    charl_var *root = charl__var_root(n->in[i]); /* a view of it may come after head */

    if (root->type.batch == CHARL_PARTIAL || root->channels_last != head->out[0]->channels_last ||
        charl_shape_count(&root->type.shape) != charl_shape_count(&n->out[0]->type.shape)) {
        return 0;
    }
    if (root->node == head) {
        return root == head->out[0] ? 'a' : 0;
    }
    for (int k = 0; k < *n_in; k++) {
        if (in[k] == root) {
            return (char)('b' + k);
        }
    }
    if (*n_in == CHARL_GEMM_EPILOGUE_IN) {
        return 0;
    }
    in[*n_in] = root;
    return (char)('b' + (*n_in)++);
}

/* On a CPU, elementary functions or random numbers between the sums of a product cost as much as the
 * saved pass over memory, which is mostly in the cache, and a product's kernel takes long to compile.
 */
static bool is_worth_it(const charl_graph *g, const charl__expr *x)
{
    return !charl__is_ungrouped(g->dev) || (!x->uses_rng && !strstr(x->text, "charl_"));
}

/* Whether a node other than n, or the user, needs head's product. */
static bool is_kept(const charl__uses *u, const charl__node *head, const charl__node *n)
{
    const charl_var *v = head->out[0];

    for (int k = u->first[v->id]; k < u->first[v->id + 1]; k++) {
        if (u->at[k] != n->position) {
            return true;
        }
    }
    return v->keep || v->grad_of;
}

/* Describe head, a product with or without a first epilogue step. */
static void describe_head(const charl__node *head, charl__product *p, charl_var **in, int *n_in)
{
    *n_in = 0;
    if (head->op != &charl__op_product) {
        *p = (charl__product){
            .op = head->op, .attr = head->attr, .n_in = head->n_in, .type = head->out[0]->type, .saved = -1};
        return;
    }
    *p = *(const charl__product *)head->attr;
    for (int i = p->n_in; i < head->n_in; i++) {
        in[(*n_in)++] = head->in[i];
    }
}

/* Whether the epilogue of head, described by p, can continue with the expression x. */
static bool goes_on(const charl_graph *g, const charl__node *head, const charl__product *p, const charl__expr *x)
{
    const bool second = p->n_steps > 0;

    return p->n_steps < CHARL_PRODUCT_STEPS &&
           (!x->uses_rng || (!p->op->draws_apart && charl__gemm_has_rng(g->dev, head->in[0]->type.dtype))) &&
           (!second || (!(x->uses_rng && p->step[0].x.uses_rng) && head->out[0]->type.dtype == p->type.dtype));
}

/* Whether n can be the next step of the epilogue of head. If so, sets the step and its operands
 * besides the product. */
static bool describe(const charl_graph *g, const charl__uses *u, const charl__node *n, const charl__node *head,
                     charl__product *p, charl_var **in, int *n_in)
{
    charl__product_step *step;
    charl__expr x;

    if (!may_lead(head) || !charl__is_fusible(n, &x) || !is_worth_it(g, &x) || n->n_in > 1 + CHARL_GEMM_EPILOGUE_IN ||
        charl__has_effect_between(g, head->position, n->position)) {
        return false;
    }
    describe_head(head, p, in, n_in);
    if (!goes_on(g, head, p, &x)) {
        return false;
    }
    step = &p->step[p->n_steps];
    *step = (charl__product_step){.x = x, .n_operands = n->n_in};
    for (int i = 0; i < n->n_in; i++) {
        step->operand[i] = operand_of(n, i, head, in, n_in);
        if (!step->operand[i]) {
            return false;
        }
    }
    if (is_kept(u, head, n)) {
        if (p->saved >= 0) {
            return false;
        }
        p->saved = p->n_steps;
    }
    p->n_steps++;
    return p->n_in + *n_in <= CHARL_OP_MAX_IN;
}

/* Make head the fused node; n no longer computes anything and keeps the attribute of head. */
static charl_status replace(const charl__product *p, charl__node *head, charl__node *n)
{
    charl__product *attr = NULL;
    CHARL_SCOPED(charl__text_fini) charl__text name = {0};

    CHARL_TRY(charl__text_printf(&name, "%s+%s", head->name, n->op->name));
    CHARL_TRY(charl__alloc(sizeof *attr, &attr));
    *attr = *p;
    charl_free(n->attr);
    n->attr = head->attr;
    head->attr = attr;
    charl_free(head->name);
    head->name = charl__text_steal(&name);
    head->op = &charl__op_product;
    if (p->saved == p->n_steps - 1) {
        head->out[1] = head->out[0];
    }
    head->out[0] = n->out[0];
    head->out[0]->node = head;
    head->n_out = p->saved >= 0 ? 2 : 1;
    n->n_out = 0;
    return CHARL_OK;
}

charl_status charl__fuse_products(charl_graph *g)
{
    charl_status st = CHARL_OK;
    charl__uses uses;

    CHARL_TRY_CLEANUP(charl__uses_find(g, &uses));
    for (int i = 0; i < g->nodes.count; i++) {
        charl__node *n = charl__graph_node(g, i), *head = last_producer(n);
        charl_var *in[CHARL_GEMM_EPILOGUE_IN];
        charl__product p;
        int n_in;

        if (describe(g, &uses, n, head, &p, in, &n_in)) {
            memcpy(head->in + p.n_in, in, (size_t)n_in * sizeof in[0]);
            head->n_in = p.n_in + n_in;
            CHARL_TRY_CLEANUP(replace(&p, head, n));
        }
    }
cleanup:
    charl__uses_fini(&uses);
    return st;
}
