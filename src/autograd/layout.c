/* Layouts: which images [N, C, H, W] are channels-last in memory.
 *
 * Convolutions on tensor cores read channels-last images and convert row-major ones. Operands and results that an operator requires to
 * have the same layout form a group. A group is channels-last if a convolution profits and all operators around it support it; only
 * reshapes convert. Leaves and values that the user reads are row-major.
 */
#include "autograd/graph_private.h"
#include "autograd/op/conv/conv_backend.h"
#include "base/alloc.h"
#include "tensor/conv/nvidia/conv_tensor_core.h"

typedef struct layouts {
    charl_graph *g;
    int *group;             /* var id -> another one of its group, or itself */
    bool *wanted, *refused; /* of a group's root */
} layouts;

static int root_of(const layouts *l, const charl_var *v)
{
    int i = v->id;

    while (l->group[i] != i) {
        i = l->group[i];
    }
    return i;
}

static void join(layouts *l, const charl_var *a, const charl_var *b)
{
    const int x = root_of(l, a), y = root_of(l, b);

    l->group[y] = x;
    l->wanted[x] = l->wanted[x] || l->wanted[y];
    l->refused[x] = l->refused[x] || l->refused[y];
}

static bool is_image(const charl_var *v)
{
    return v->type.shape.ndim == 4 && v->type.batch == CHARL_BATCHED;
}

static bool is_half(const charl_var *v)
{
    return charl__is_float(v->type.dtype) && charl_dtype_size(v->type.dtype) == 2;
}

static bool can_be_last(const charl_var *v)
{
    return v->node && !v->keep && v->type.shape.dim[1] % CHARL_CONV_CHUNK == 0 &&
           (is_half(v) || v->type.dtype == CHARL_I32);
}

static charl_var *operand(const charl__node *n, int i)
{
    return i < n->n_in ? n->in[i] : n->out[i - n->n_in];
}

/* Run the shape rule again, for the layout and its workspace. */
static charl_status ask(const charl__node *n, bool channels_last, charl__infer *inf)
{
    charl_type in[CHARL_OP_MAX_IN];

    *inf = charl__node_infer(n->out[0]->g, n, in);
    inf->channels_last = channels_last;
    CHARL_TRY(charl__op_infer(n->op, inf));
    inf->in = NULL; /* the types are local to this function */
    return CHARL_OK;
}

/* Whether operand or output i is row-major even if the operator has this layout. */
static bool keeps_rows(const charl__node *n, charl__op_layout layout, int i)
{
    switch (layout) {
    case CHARL_LAYOUT_ROWS:
        return true;
    case CHARL_LAYOUT_FROM_LAST:
        return i >= n->n_in;
    case CHARL_LAYOUT_TO_LAST:
        return i < n->n_in;
    default:
        return false;
    }
}

/* Elementwise operators support it if operands broadcast along channels. */
static bool broadcasts(const charl__node *n)
{
    int64_t inner, count;

    for (int i = 0; i < n->n_in; i++) {
        if (!charl__broadcast_in(true, &n->out[0]->type.shape, &n->in[i]->type.shape, &inner, &count)) {
            return false;
        }
    }
    return true;
}

static bool is_reshape(const charl__node *n)
{
    return n->op == &charl_op_reshape && is_image(n->in[0]) != is_image(n->out[0]) && is_half(n->in[0]);
}

static charl_status visit(layouts *l, const charl__node *n)
{
    const charl_var *first = NULL;
    charl__op_layout layout = n->op->layout;
    charl__infer inf;

    if (is_reshape(n)) {
        return CHARL_OK;
    }
    if (layout != CHARL_LAYOUT_ROWS) {
        CHARL_TRY(ask(n, false, &inf));
        layout = inf.layout == CHARL_LAYOUT_ALIKE && !broadcasts(n) ? CHARL_LAYOUT_ROWS : inf.layout;
    }
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const charl_var *v = operand(n, i);

        if (!is_image(v)) {
            continue;
        }
        l->refused[root_of(l, v)] |= keeps_rows(n, layout, i) || !can_be_last(v);
        l->wanted[root_of(l, v)] |= layout == CHARL_LAYOUT_ANY || layout == CHARL_LAYOUT_CHANNELS_LAST;
        if (layout == CHARL_LAYOUT_ALIKE || layout == CHARL_LAYOUT_CHANNELS || layout == CHARL_LAYOUT_CHANNELS_LAST) {
            join(l, first ? first : v, v);
            first = v;
        }
    }
    return CHARL_OK;
}

/* A reshape from or to a channels-last image. */
static charl_status enqueue_relayout(const charl__enqueue *e)
{
    const charl_tensor *in = e->in[0], *out = e->out[0];
    const charl_shape *s = in->channels_last ? &in->shape : &out->shape;
    const int64_t pixels = s->dim[2] * s->dim[3], rows = in->channels_last ? pixels : s->dim[1];

    return charl__conv_swap_enqueue(e->dev, &(charl__conv_swap){.from = *in,
                                                                .to = *out,
                                                                .batch = s->dim[0],
                                                                .rows = rows,
                                                                .cols = in->channels_last ? s->dim[1] : pixels,
                                                                .from_ld = in->channels_last ? s->dim[1] : pixels,
                                                                .to_ld = rows,
                                                                .label = e->label});
}

static charl_status infer_relayout(charl__infer *inf)
{
    return charl_op_reshape.infer(inf);
}

static const charl__op op_relayout = {
    .name = "relayout",
    .formula = "out = x under another shape, one of them channels-last",
    .n_in = 1,
    .attr_size = sizeof(charl_shape),
    .half = CHARL_HALF_ALL,
    .infer = infer_relayout,
    .enqueue = enqueue_relayout,
};

/* Tell the node which layouts its operands have. */
static charl_status set_layouts(charl__node *n)
{
    bool any = false;
    charl__infer inf;

    for (int i = 0; i < n->n_in + n->n_out; i++) {
        any = any || operand(n, i)->channels_last;
    }
    if (any && is_reshape(n)) {
        n->op = &op_relayout;
    } else if (any) {
        CHARL_TRY(ask(n, true, &inf));
        n->workspace = inf.workspace;
    }
    return CHARL_OK;
}

static charl_status choose(layouts *l)
{
    charl_graph *g = l->g;

    for (int i = 0; i < g->vars.count; i++) {
        const charl_var *v = charl__var(g, i);

        l->group[i] = i;
        if (v->grad && v->wants_gradient) {
            l->refused[v->grad->id] = true;
        }
    }
    for (int i = 0; i < g->nodes.count; i++) {
        CHARL_TRY(visit(l, charl__graph_node(g, i)));
    }
    for (int i = 0; i < g->vars.count; i++) {
        charl_var *v = charl__var(g, i);
        const int root = root_of(l, v);

        v->channels_last = is_image(v) && l->wanted[root] && !l->refused[root];
    }
    for (int i = 0; i < g->nodes.count; i++) {
        CHARL_TRY(set_layouts(charl__graph_node(g, i)));
    }
    return CHARL_OK;
}

/* Whether convolutions of half types choose the layout of images; otherwise all stay row-major. */
static bool has_choice(const charl_device *dev)
{
    const charl__conv any = {.c = 1, .o = 1, .groups = 1, .kernel = {1, 1}};

    return charl__conv_backend_for(dev, CHARL_BF16, &any)->layout == CHARL_LAYOUT_ANY ||
           charl__conv_backend_for(dev, CHARL_F16, &any)->layout == CHARL_LAYOUT_ANY;
}

charl_status charl__graph_choose_layouts(charl_graph *g)
{
    charl_status st = CHARL_OK;
    layouts l = {.g = g};

    if (!has_choice(g->dev)) {
        goto cleanup;
    }
    CHARL_TRY_CLEANUP(charl__alloc_array(g->vars.count, sizeof *l.group, &l.group));
    CHARL_TRY_CLEANUP(charl__alloc_array(g->vars.count, sizeof *l.wanted, &l.wanted));
    CHARL_TRY_CLEANUP(charl__alloc_array(g->vars.count, sizeof *l.refused, &l.refused));
    CHARL_TRY_CLEANUP(choose(&l));
cleanup:
    charl_free(l.group);
    charl_free(l.wanted);
    charl_free(l.refused);
    return st;
}
