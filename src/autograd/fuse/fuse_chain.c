/* Chains: combines connected elementwise operators into one node, whose kernel passes over memory once (chain.h).
 *
 * Nodes are visited in order, and each joins the groups of its producers if that is allowed. A group runs at the position of its last
 * member. So results of earlier members must not be needed before that, and operands kept alive longer must not need more memory than
 * the group saves. Results that no other node reads are not written. Bits do not change, nor does the layout of gradients, which is
 * fixed before.
 */
#include <limits.h>
#include <string.h>

#include "autograd/fuse/chain.h"
#include "autograd/fuse/fuse.h"
#include "autograd/fuse/uses.h"
#include "base/alloc.h"
#include "base/text/text.h"

/* Nodes by position, ascending; the last one is where the group runs. */
typedef struct group {
    int count;
    int member[CHARL_CHAIN_MAX];
} group;

typedef struct fusion {
    charl_graph *g;
    group *groups; /* groups by their last member, node i; count 0: node i is in no group or has joined a later one */
    int *group_of; /* node -> last member of its group, -1: none */
    charl__uses uses;
} fusion;

/* A group as a node. */
typedef struct fused {
    charl__chain chain;
    int n_in, n_out;
    charl_var *in[CHARL_OP_MAX_IN], *out[CHARL_OP_MAX_OUT];
} fused;

static int index_in(const group *s, int position)
{
    for (int i = 0; i < s->count; i++) {
        if (s->member[i] == position) {
            return i;
        }
    }
    return -1;
}

static charl__node *member(const fusion *f, const group *s, int k)
{
    return charl__graph_node(f->g, s->member[k]);
}

/* The member that computes v, which may be a view of it; -1: v comes from outside. */
static int member_of(const group *s, charl_var *v)
{
    const charl_var *root = charl__var_root(v);

    return root->node ? index_in(s, root->node->position) : -1;
}

/* First position outside s at which a root is read; INT_MAX: none. */
static int first_use(const fusion *f, const group *s, const charl_var *root)
{
    for (int u = f->uses.first[root->id]; u < f->uses.first[root->id + 1]; u++) {
        if (index_in(s, f->uses.at[u]) < 0) {
            return f->uses.at[u];
        }
    }
    return INT_MAX;
}

static bool is_output(const fusion *f, const group *s, const charl_var *v)
{
    return v->keep || v->grad_of || first_use(f, s, v) != INT_MAX;
}

/* Input of the fused node that is v as n broadcasts it, added if it is not there; -1: too many. */
static int input_of(fused *d, const charl__node *n, charl_var *v)
{
    charl__chain *c = &d->chain;
    int64_t inner = 1, count = 1;

    (void)charl__broadcast_in(n->out[0]->channels_last, &n->out[0]->type.shape, &v->type.shape, &inner, &count);
    for (int i = 0; i < d->n_in; i++) {
        if (charl__var_root(d->in[i]) == charl__var_root(v) && c->inner[i] == inner && c->count[i] == count) {
            return i;
        }
    }
    if (d->n_in == CHARL_OP_MAX_IN) {
        return -1;
    }
    c->inner[d->n_in] = inner;
    c->count[d->n_in] = count;
    d->in[d->n_in] = v;
    return d->n_in++;
}

static bool describe_step(const fusion *f, const group *s, int k, fused *d)
{
    charl__node *n = member(f, s, k);
    charl__chain_step *step = &d->chain.step[k];

    (void)charl__op_express(n->op, n->attr, n->n_in, n->out[0]->type.dtype, &step->x);
    step->dtype = n->out[0]->type.dtype;
    step->n_in = n->n_in;
    step->out = -1;
    for (int i = 0; i < n->n_in; i++) {
        const int from = member_of(s, n->in[i]), in = from >= 0 ? ~from : input_of(d, n, n->in[i]);

        if (from < 0 && in < 0) {
            return false;
        }
        step->in[i] = in;
    }
    if (is_output(f, s, n->out[0])) {
        if (d->n_out == CHARL_OP_MAX_OUT) {
            return false;
        }
        step->out = d->n_out;
        d->out[d->n_out++] = n->out[0];
    }
    return true;
}

/* Make one node of s; false if it has too many operands, results or numbers. */
static bool describe(const fusion *f, const group *s, fused *d)
{
    *d = (fused){.chain = {.n = charl_shape_count(&member(f, s, 0)->out[0]->type.shape), .n_steps = s->count}};
    for (int k = 0; k < s->count; k++) {
        if (!describe_step(f, s, k, d)) {
            return false;
        }
    }
    return charl__chain_args(&d->chain, d->n_in, d->n_out) <= CHARL_CHAIN_ARGS;
}

static group unite(const group *a, const group *b)
{
    group s = {0};
    int i = 0, k = 0;

    while (i < a->count || k < b->count) {
        const bool first = k == b->count || (i < a->count && a->member[i] < b->member[k]);

        s.member[s.count++] = first ? a->member[i++] : b->member[k++];
    }
    return s;
}

/* Whether nodes after `from` and before the end of s, apart from its members, run. */
static bool runs_between(const fusion *f, const group *s, int from)
{
    for (int i = from + 1; i < s->member[s->count - 1]; i++) {
        const charl__node *n = charl__graph_node(f->g, i);

        if (n->live && !charl__is_alias(n) && index_in(s, i) < 0) {
            return true;
        }
    }
    return false;
}

/* Whether v, an operand of `from`, would live longer if `from` ran at the end of s. */
static bool lives_longer(const fusion *f, const group *s, const group *from, charl_var *v)
{
    const charl_var *root = charl__var_root(v);
    const int end = s->member[s->count - 1];

    if (root->leaf != CHARL_LEAF_NONE || root->keep || root->grad_of || member_of(s, v) >= 0) {
        return false;
    }
    for (int u = f->uses.first[root->id]; u < f->uses.first[root->id + 1]; u++) {
        const bool other = index_in(s, f->uses.at[u]) >= 0 && index_in(from, f->uses.at[u]) < 0;

        if (f->uses.at[u] > end || other) {
            return false;
        }
    }
    return true;
}

/* Whether s, which `from` has joined, needs no more memory than the two separately. */
static bool is_small(const fusion *f, const group *s, const group *from)
{
    int64_t grown = 0, saved = 0;

    if (!runs_between(f, s, from->member[from->count - 1])) {
        return true;
    }
    for (int k = 0; k < from->count; k++) {
        const charl__node *n = member(f, from, k);

        for (int i = 0; i < n->n_in; i++) {
            grown += lives_longer(f, s, from, n->in[i]) ? charl__var_bytes(n->in[i]) : 0;
        }
        saved += is_output(f, s, n->out[0]) ? 0 : charl__var_bytes(n->out[0]);
    }
    return grown <= saved;
}

/* Whether the members of `from` may run at the end of s, which contains them. */
static bool may_join(const fusion *f, const group *s, const group *from)
{
    fused d;

    for (int k = 0; k < from->count; k++) {
        if (first_use(f, s, member(f, from, k)->out[0]) < s->member[s->count - 1]) {
            return false;
        }
    }
    return !charl__has_effect_between(f->g, from->member[0], s->member[s->count - 1]) && is_small(f, s, from) &&
           describe(f, s, &d);
}

/* Let the group that computes operand v of node b join the group of b. */
static void join(fusion *f, int b, charl_var *v)
{
    const charl__node *n = charl__graph_node(f->g, b), *producer = charl__var_root(v)->node;
    const int from = producer ? f->group_of[producer->position] : -1;
    group s;

    if (from < 0 || from == b || f->groups[from].count + f->groups[b].count > CHARL_CHAIN_MAX ||
        charl_shape_count(&producer->out[0]->type.shape) != charl_shape_count(&n->out[0]->type.shape)) {
        return;
    }
    s = unite(&f->groups[from], &f->groups[b]);
    if (may_join(f, &s, &f->groups[from])) {
        f->groups[from].count = 0;
        f->groups[b] = s;
        for (int k = 0; k < s.count; k++) {
            f->group_of[s.member[k]] = b;
        }
    }
}

static void find_groups(fusion *f)
{
    for (int i = 0; i < f->g->nodes.count; i++) {
        const charl__node *n = charl__graph_node(f->g, i);
        charl__expr x;

        f->group_of[i] = -1;
        if (charl__is_fusible(n, &x)) {
            f->group_of[i] = i;
            f->groups[i] = (group){1, {i}};
            for (int k = 0; k < n->n_in; k++) {
                join(f, i, n->in[k]);
            }
        }
    }
}

/* "fc1.relu+dropout" */
static charl_status name_of(const fusion *f, const group *s, char **out)
{
    CHARL_SCOPED(charl__text_fini) charl__text t = {0};

    for (int k = 0; k < s->count; k++) {
        const charl__node *n = member(f, s, k);

        CHARL_TRY(charl__text_printf(&t, "%s%s", k ? "+" : "", k ? n->op->name : n->name));
    }
    *out = charl__text_steal(&t);
    return CHARL_OK;
}

/* Make the last member of s the fused node; the others no longer compute anything. */
static charl_status replace(const fusion *f, const group *s)
{
    charl__node *n = member(f, s, s->count - 1);
    CHARL_SCOPED_FREE charl__chain *chain = NULL;
    char *name = NULL;
    fused d;

    CHARL_INVARIANT(describe(f, s, &d));
    CHARL_TRY(charl__alloc(sizeof *chain, &chain));
    CHARL_TRY(name_of(f, s, &name));
    for (int k = 0; k + 1 < s->count; k++) {
        member(f, s, k)->n_out = 0;
    }
    *chain = d.chain;
    charl_free(n->attr);
    charl_free(n->name);
    n->attr = chain;
    n->name = name;
    n->op = &charl__op_chain;
    n->n_in = d.n_in;
    n->n_out = d.n_out;
    memcpy(n->in, d.in, sizeof n->in);
    memcpy(n->out, d.out, sizeof n->out);
    for (int k = 0; k < n->n_out; k++) {
        n->out[k]->node = n;
    }
    chain = NULL;
    return CHARL_OK;
}

charl_status charl__fuse_chains(charl_graph *g)
{
    charl_status st = CHARL_OK;
    fusion f = {.g = g};

    CHARL_TRY_CLEANUP(charl__alloc_array(g->nodes.count, sizeof *f.groups, &f.groups));
    CHARL_TRY_CLEANUP(charl__alloc_array(g->nodes.count, sizeof *f.group_of, &f.group_of));
    CHARL_TRY_CLEANUP(charl__uses_find(g, &f.uses));
    find_groups(&f);
    for (int i = 0; i < g->nodes.count; i++) {
        if (f.groups[i].count > 1) {
            CHARL_TRY_CLEANUP(replace(&f, &f.groups[i]));
        }
    }
cleanup:
    charl_free(f.groups);
    charl_free(f.group_of);
    charl__uses_fini(&f.uses);
    return st;
}
