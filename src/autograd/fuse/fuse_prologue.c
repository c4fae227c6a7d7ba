/* Prologues: the readers of an elementwise operator compute its result themselves, so that it is
 * never written to memory.
 *
 * This saves a pass if they then read one value instead, plus values that they read anyway. So an
 * operand of the elementwise operator is recomputed too if it is computed from the reader's own
 * operands and numbers per channel: the gradient of relu needs the sign of relu's output, which is
 * computed from the input of the batch norm before it.
 */
#include <string.h>

#include "autograd/fuse/fuse.h"
#include "autograd/fuse/prologue.h"
#include "autograd/fuse/uses.h"
#include "base/alloc.h"

/* Nodes that a reader computes, by position, ascending; the last one computes its operand 0. */
typedef struct formed {
    const charl_graph *g;
    const charl__node *reader;
    int count;
    const charl__node *member[CHARL_CHAIN_MAX];
    charl__prologue attr;
    int n_in, n_fetched;
    charl_var *in[CHARL_OP_MAX_IN];
} formed;

static bool is_whole(const charl__node *reader, const charl_var *v)
{
    return charl_shape_count(&v->type.shape) == charl_shape_count(&reader->in[0]->type.shape);
}

static bool is_own_operand(const charl__node *reader, charl_var *v)
{
    for (int i = 1; i < reader->n_in; i++) {
        if (charl__var_root(reader->in[i]) == charl__var_root(v)) {
            return true;
        }
    }
    return false;
}

/* A number per channel, or a single one, that has not changed since. */
static bool is_small(const charl_graph *g, const charl__node *reader, charl_var *v)
{
    const int64_t n = charl_shape_count(&v->type.shape);

    return v->type.dtype == CHARL_F32 && v->type.batch == CHARL_REPLICATED &&
           (n == 1 || n == reader->in[0]->type.shape.dim[1]) && !charl__is_changed(g, v);
}

static bool may_form(const charl__node *reader, const charl__node *n)
{
    charl__expr x;

    return n && charl__is_fusible(n, &x) && !x.uses_rng && is_whole(reader, n->out[0]) && n->out[0]->channels_last;
}

/* Whether v is computed elementwise from operands that the reader has and small ones. */
static bool comes_from_own(const charl_graph *g, const charl__node *reader, charl_var *v)
{
    const charl__node *n = v->node;

    if (!may_form(reader, n)) {
        return false;
    }
    for (int i = 0; i < n->n_in; i++) {
        if (!is_own_operand(reader, n->in[i]) && !is_small(g, reader, n->in[i]) &&
            !(is_whole(reader, n->in[i]) && comes_from_own(g, reader, n->in[i]))) {
            return false;
        }
    }
    return true;
}

static int index_of(const formed *f, const charl_var *v)
{
    for (int k = 0; k < f->count; k++) {
        if (f->member[k]->out[0] == v) {
            return k;
        }
    }
    return -1;
}

/* Add n, after its operands that can be recomputed too. */
static bool add_member(formed *f, const charl__node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        charl_var *v = n->in[i];

        if (is_whole(f->reader, v) && !is_own_operand(f->reader, v) && index_of(f, v) < 0 &&
            comes_from_own(f->g, f->reader, v) && !add_member(f, v->node)) {
            return false;
        }
    }
    if (f->count == CHARL_CHAIN_MAX) {
        return false;
    }
    f->member[f->count++] = n;
    return true;
}

/* Input of the fused node that is v, added if it is not there; -1: it cannot be one. */
static int input_of(formed *f, charl_var *v)
{
    const charl_type *full = &f->reader->in[0]->type;
    charl__chain *c = &f->attr.chain;
    int64_t inner, count;
    int i = 0;

    while (i < f->n_in && charl__var_root(f->in[i]) != charl__var_root(v)) {
        i++;
    }
    if (i == CHARL_OP_MAX_IN || !charl__broadcast_in(true, &full->shape, &v->type.shape, &inner, &count) ||
        inner != 1 || (is_whole(f->reader, v) ? !v->channels_last : !is_small(f->g, f->reader, v))) {
        return -1;
    }
    if (i == f->n_in) {
        f->in[f->n_in++] = v;
        f->n_fetched += is_whole(f->reader, v);
    }
    c->inner[i] = inner;
    c->count[i] = count;
    return i;
}

static bool describe_step(formed *f, int k)
{
    const charl__node *n = f->member[k];
    charl__chain_step *s = &f->attr.chain.step[k];

    (void)charl__op_express(n->op, n->attr, n->n_in, n->out[0]->type.dtype, &s->x);
    s->dtype = n->out[0]->type.dtype;
    s->n_in = n->n_in;
    s->out = -1;
    for (int i = 0; i < n->n_in; i++) {
        const int from = index_of(f, n->in[i]), in = from >= 0 ? ~from : input_of(f, n->in[i]);

        if (from < 0 && in < 0) {
            return false;
        }
        s->in[i] = in;
    }
    return true;
}

/* Describe reader as a node that computes operand 0; false: it cannot, or would read more than one other value. */
static bool describe(const charl_graph *g, const charl__node *reader, formed *f)
{
    *f = (formed){.g = g, .reader = reader, .attr = {.op = reader->op, .attr = reader->attr, .n_in = reader->n_in}};
    if (!add_member(f, reader->in[0]->node)) {
        return false;
    }
    for (int i = 1; i < reader->n_in; i++) {
        f->in[f->n_in++] = reader->in[i];
    }
    f->attr.chain.n = charl_shape_count(&reader->in[0]->type.shape);
    f->attr.chain.n_steps = f->count;
    for (int k = 0; k < f->count; k++) {
        if (!describe_step(f, k)) {
            return false;
        }
    }
    return f->n_fetched == 1;
}

static bool takes_prologue(const charl__node *n, const charl_var *v)
{
    return n->op->prologue && n->in[0] == v && !is_own_operand(n, n->in[0]);
}

/* Whether every reader of n's result can compute it. */
static bool is_formed_by_all(const charl_graph *g, const charl__uses *u, const charl__node *n)
{
    const charl_var *v = n->n_out == 1 ? n->out[0] : NULL;
    charl__expr x;
    formed f;

    if (!v || !v->channels_last || v->keep || v->grad_of || !charl__is_fusible(n, &x) || x.uses_rng ||
        u->first[v->id] == u->first[v->id + 1]) {
        return false;
    }
    for (int k = u->first[v->id]; k < u->first[v->id + 1]; k++) {
        const charl__node *reader = charl__graph_node(g, u->at[k]);

        if (!takes_prologue(reader, v) || !describe(g, reader, &f)) {
            return false;
        }
    }
    return true;
}

/* Make reader the fused node, with a copy of its own attribute after the new one. */
static charl_status replace(const formed *f, charl__node *reader)
{
    const size_t own = reader->op->attr_size;
    charl__prologue *attr = NULL;

    CHARL_TRY(charl__alloc(sizeof *attr + own, &attr));
    *attr = f->attr;
    if (own > 0) {
        attr->attr = memcpy(attr + 1, reader->attr, own);
    }
    charl_free(reader->attr);
    reader->attr = attr;
    reader->op = &charl__op_prologue;
    reader->n_in = f->n_in;
    memcpy(reader->in, f->in, sizeof reader->in);
    return CHARL_OK;
}

charl_status charl__fuse_prologues(charl_graph *g)
{
    charl_status st = CHARL_OK;
    charl__uses uses;
    formed f;

    CHARL_TRY_CLEANUP(charl__uses_find(g, &uses));
    for (int i = 0; i < g->nodes.count; i++) {
        const charl__node *n = charl__graph_node(g, i);

        if (!is_formed_by_all(g, &uses, n)) {
            continue;
        }
        for (int k = uses.first[n->out[0]->id]; k < uses.first[n->out[0]->id + 1]; k++) {
            charl__node *reader = charl__graph_node(g, uses.at[k]);

            CHARL_INVARIANT(describe(g, reader, &f));
            CHARL_TRY_CLEANUP(replace(&f, reader));
        }
    }
cleanup:
    charl__uses_fini(&uses);
    return st;
}
