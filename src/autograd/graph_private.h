#ifndef CHARL_AUTOGRAD_GRAPH_PRIVATE_H
#define CHARL_AUTOGRAD_GRAPH_PRIVATE_H
/** The internals of a graph, shared by the files that build, differentiate, plan, record and run it.
 */
#include "autograd/graph.h"
#include "autograd/op.h"
#include "tensor/params.h"

typedef struct charl__node charl__node;

typedef struct charl__list {
    void **item;
    int count;
} charl__list;

typedef enum charl__leaf {
    CHARL_LEAF_NONE, /* computed by a node */
    CHARL_LEAF_INPUT,
    CHARL_LEAF_PARAM,
    CHARL_LEAF_CONSTANT
} charl__leaf;

/** An input of padded sequences, i32 [B, T]. */
typedef struct charl__padding {
    charl_var *x;
    charl_var *lengths[2]; /* as they are; with an additional first position, created on first use */
} charl__padding;

struct charl_var {
    charl_graph *g;
    int id;
    charl_type type;
    charl__leaf leaf;
    charl__node *node; /* producer */
    char *name;        /* of an input */
    charl_param *param;
    int packed; /* of a parameter: 0 its value, 1 the codes that it is packed in, 2 their scales */
    float constant;
    bool keep, wants_gradient;
    bool differentiable; /* depends on a var that wants a gradient */
    charl_var *grad;
    charl__list more;      /* of a parameter used several times: its gradients after grad */
    bool rounds;           /* of a root: nodes of the tree over slices are rounded to bf16 */
    bool channels_last;    /* memory layout of an image (layout.c) */
    bool late;             /* of a parameter: its gradient is final only after all other nodes */
    charl_var *completed;  /* charl_batch_sum of this PARTIAL */
    charl_var *recomputed; /* the same value, recomputed for the backward pass */
    int positions;         /* charl__var_positions */
    /* of its sequences, or of those that it is computed from (charl__var_has_padding); NULL: none */
    charl__padding *padding;

    /* The plan. Vars with the same root share memory. */
    charl_var *root_link; /* NULL: its own root */
    /* of a root: first and last node that use it; last INT_MAX: always alive */
    int first, last;
    int64_t bytes;        /* of a root, all lanes */
    int segment;          /* -1: not in the arena */
    int64_t offset;       /* bytes into its segment */
    charl_param *grad_of; /* the root is in the gradient arena, at this parameter ... */
    int grad_share;       /* ... or, from 1 on, at this share of it */
    charl_tensor *tensor; /* of a PARTIAL: [n_lanes, ...] */
};

struct charl__node {
    int position; /* in order of construction = order of execution */
    const charl__op *op;
    void *attr;
    char *name;
    int n_in, n_out;
    charl_var *in[CHARL_OP_MAX_IN];
    charl_var *out[CHARL_OP_MAX_OUT];
    int64_t workspace;
    int model_segment; /* of the model, counted from 1; 0: in none */
    bool live;
    bool reached;       /* charl__graph_collective: depends on the node that it looks at */
    charl_var *scratch; /* represents the workspace in the memory plan; NULL: none */
    int launch_first, launch_last;
};

/** What a run does, in order. */
typedef struct charl__action {
    enum { CHARL_DO_REPLAY, CHARL_DO_COLLECTIVE, CHARL_DO_READY, CHARL_DO_GATHER } kind;
    int first, last;      /* launches, or of g->gathered */
    charl__node *node;    /* the collective */
    int64_t begin, count; /* elements of the gradient arena that are final on this rank */
    double left;          /* fraction of the backward pass's launches that follow */
} charl__action;

enum { CHARL_MAX_SCOPES = 16, CHARL_MAX_PADDED = 8 };

struct charl_graph {
    charl_device *dev;
    charl_slices slices;
    bool training;
    charl_dtype precision;
    charl__linear_kind linear;
    charl__list vars, nodes;
    charl__list parameters; /* their vars, by the number of a parameter in its set; NULL where there is none */
    char scope[256];
    size_t scope_length[CHARL_MAX_SCOPES]; /* of scope before the i-th scope_begin */
    int scopes;
    charl_status status; /* first error of building or compiling */
    char *message;

    charl_params *params;  /* the set to train; before charl_graph_backward the set of the first parameter, or NULL */
    charl__list constants; /* charl_params: other sets, whose parameters it only reads */
    bool is_chosen;        /* charl_graph_set_trained was called */
    bool has_gradients;
    int n_forward;                     /* number of nodes before the gradients were appended */
    int first_backward;                /* first node of the backward pass */
    bool recompute;                    /* activations of a part are recomputed before its backward pass */
    bool recompute_cheap;              /* cheap values are recomputed in the backward pass; not with recompute */
    int model_segments, model_segment; /* segments begun; the current one, or 0 */
    int first_recomputed_segment;      /* the backward pass has handled this segment and all later ones */

    struct charl__kv_cache *cache; /* borrowed; NULL: none */
    bool begins;                   /* a sequence in the cache */
    int n_cached;                  /* attention layers that have a place in the cache */
    charl_var *cache_at;           /* where in the cache the rows belong; created on first use */
    charl_var *starts;             /* charl__graph_set_starts */
    charl_var *positions;          /* positions in documents; created on first use */
    /* charl__graph_set_padded */
    charl__padding padding[CHARL_MAX_PADDED];
    int n_padding;
    int64_t vocab; /* bound of the tokens of the last one, or of charl__graph_set_vocab; 0: unknown */

    charl_steps *steps; /* borrowed, or own_steps */
    charl_steps *own_steps;
    charl__buffer *gradients;    /* replaces the set's gradient arena; borrowed, or NULL */
    const charl_graph *arena_of; /* graph whose activations may be overwritten, or NULL */
    uint64_t runs;
    charl__collective_fn collective;
    void *collective_ctx;
    charl__ready_fn ready;
    void *ready_ctx;
    int64_t bucket_elements;
    charl__gather_fn gather;
    void *gather_ctx;

    bool checkable; /* operators are not fused */
    bool checks;    /* a run inspects the result of each */
    bool planned, placed, compiled;
    charl__buffer **segment;
    int64_t *segment_bytes;
    int n_segments;
    int64_t unplanned_bytes;
    charl__recording *recording;
    charl__action *action;
    int n_actions;
    charl__gathered *gathered; /* [n_gathered], in the order of a run */
    int n_gathered;
};

charl_status charl__list_add(charl__list *l, void *item) CHARL_MUST_CHECK;

/** In graphs with padded sequences: the extent of y, an output of n, that holds the positions, from the operands of n. */
void charl__carry_positions(const charl__node *n, charl_var *y);

static inline charl__node *charl__graph_node(const charl_graph *g, int i)
{
    return g->nodes.item[i];
}

static inline charl_var *charl__var(const charl_graph *g, int i)
{
    return g->vars.item[i];
}

/** Whether v is a parameter that g trains. */
static inline bool charl__var_is_trained(const charl_var *v)
{
    return v->leaf == CHARL_LEAF_PARAM && v->param->spec.trainable && v->param->set == v->g->params;
}

/** Set i = 0, 1, ... whose parameters g has, the trained one first; NULL after the last. */
static inline charl_params *charl__graph_set(const charl_graph *g, int i)
{
    return i == 0 ? g->params : i <= g->constants.count ? g->constants.item[i - 1] : NULL;
}

/** Gradient k of parameter var v: the only one, or the first, is k = 0. */
static inline charl_var *charl__var_gradient(const charl_var *v, int k)
{
    return k == 0 ? v->grad : v->more.item[k - 1];
}

charl_var *charl__var_root(charl_var *v);
/** Bytes of a value with all its lanes. */
int64_t charl__var_bytes(const charl_var *v);
bool charl__graph_is_whole(const charl_graph *g); /* this process computes every slice, in one lane */

/** A leaf without a name that needs no memory of its own: workspaces. */
charl_status charl__var_new(charl_graph *g, charl_type type, charl_var **out) CHARL_MUST_CHECK;
/** Make the thread's last failure the graph's error, unless it has one. Returns NULL. */
charl_var *charl__graph_keep_error(charl_graph *g, charl_status st);
charl_status charl__node_new(charl_graph *g, const charl__op *op, const void *attr, charl__node **out) CHARL_MUST_CHECK;

extern const charl__op charl__op_batch_sum; /* PARTIAL -> REPLICATED, by the collective callback */
extern const charl__op charl__op_gather;    /* a divided parameter, by the gather callback (gather.c) */
extern const charl__op charl__op_spread;    /* writes a complete gradient into the lanes of the arena, so that
                                               the tree returns it */

/** Choose which values are channels-last and set the layouts of their operators. */
charl_status charl__graph_choose_layouts(charl_graph *g) CHARL_MUST_CHECK;

/** Insert a node that unpacks it before every operator that takes a packed parameter (unpack.c). */
charl_status charl__graph_unpack_params(charl_graph *g) CHARL_MUST_CHECK;

/** Insert nodes that gather divided parameters before those that read them (gather.c). Then, for such a node: list it in g->gathered; and run an action. */
charl_status charl__graph_gather_params(charl_graph *g) CHARL_MUST_CHECK;
charl_status charl__graph_add_gathered(charl_graph *g, charl__node *n) CHARL_MUST_CHECK;
charl_status charl__graph_run_gather(charl_graph *g, const charl__action *a) CHARL_MUST_CHECK;

/** Move nodes from number `first` on before the nodes that their positions name. */
charl_status charl__graph_move_nodes(charl_graph *g, int first) CHARL_MUST_CHECK;

/** Append the forward nodes of n's segment a second time, unless that is done or the segment is the last. Their original variables then
 *  have `recomputed`. */
void charl__graph_recompute_part(charl_graph *g, const charl__node *n);

/* The passes of compile, in order. */
void charl__graph_mark_live(charl_graph *g);
charl_status charl__graph_recompute_cheap(charl_graph *g) CHARL_MUST_CHECK; /* if enabled */
charl_status charl__graph_fuse(charl_graph *g) CHARL_MUST_CHECK;
charl_status charl__graph_plan_memory(charl_graph *g) CHARL_MUST_CHECK;
charl_status charl__graph_record(charl_graph *g) CHARL_MUST_CHECK;

/** Memory of lane j of v, under v's own type; owned by the caller. Planned graphs only. */
charl_status charl__var_lane(charl_var *v, int j, charl_tensor **out) CHARL_MUST_CHECK;
/** Replay and check every output. Errors: ERR_NONFINITE, naming the first operator. */
charl_status charl__graph_replay_checked(charl_graph *g, int first, int last) CHARL_MUST_CHECK;

/** Replay with one bit flipped, as on a faulty device: bit arg / n % 8 of byte arg / n / 8 (modulo the size)
 *  of the first output of operator arg % n, of the n operators in the range. For tests. */
charl_status charl__graph_replay_flipped(charl_graph *g, int first, int last, int64_t arg) CHARL_MUST_CHECK;

/** Floating-point operations of all products of a run; of node n, 0 if it is not run. */
double charl__node_flop(const charl_graph *g, const charl__node *n);
/** The arguments of a node's shape rule; the types of its operands are written to `in`, which has room for CHARL_OP_MAX_IN. */
charl__infer charl__node_infer(const charl_graph *g, const charl__node *n, charl_type *in);
double charl__graph_flop(const charl_graph *g);

/** One run without a step record of its own. */
charl_status charl__graph_run_actions(charl_graph *g) CHARL_MUST_CHECK;

#endif
