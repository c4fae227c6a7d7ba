/* padded_sequences and sequence_mask: which positions of padded sequences hold tokens. Not
 * differentiable: data have no gradient.
 */
#include "autograd/graph_private.h"
#include "autograd/onnx/onnx.h"
#include "autograd/op.h"
#include "autograd/ops_data.h"
#include "charl/ops.h"

enum { GROUP = 64 };

static charl_status infer_padded(charl__infer *inf)
{
    const charl_type *x = &inf->in[0];
    char text[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(x->dtype == CHARL_I32 && x->shape.ndim == 2 && x->shape.dim[1] < INT32_MAX / 2, CHARL_ERR_SHAPE,
                  "sequences %s %s are not i32 [B, T]", charl_dtype_name(x->dtype),
                  charl_shape_format(&x->shape, text));
    inf->n_out = 2;
    inf->out[0] = inf->out[1] = *x;
    inf->out[1].shape.ndim = 1;
    return CHARL_OK;
}

static charl_status enqueue_padded(const charl__enqueue *e)
{
    const charl_shape *s = &e->in[0]->shape;
    const charl__launch l = {.file = "data/sequences",
                             .entry = "charl_padded_sequences",
                             .args = {charl__in(e->in[0]), charl__out(e->out[0]), charl__out(e->out[1]),
                                      charl__i32((int32_t)s->dim[1]), charl__i32(*(const int32_t *)e->attr)},
                             .global = {(size_t)s->dim[0] * GROUP},
                             .local = {GROUP},
                             .label = e->label};

    return charl__launch_enqueue(e->dev, &l);
}

static void reference_padded(const charl__reference *r)
{
    const int64_t n = r->in_type[0].shape.dim[1];

    for (int64_t b = 0; b < r->in_type[0].shape.dim[0]; b++) {
        int64_t end = n;

        for (int64_t t = n; t-- > 0;) {
            const double x = r->in[0][b * n + t];

            r->out[0][b * n + t] = x > 0.0 ? x : 0.0;
            end = x < 0.0 ? t : end;
        }
        r->out[1][b] = (double)(*(const int32_t *)r->attr + (end > 1 ? end : 1));
    }
}

static const int32_t none = 0, one = 1;
static const charl__op_sample samples_padded[] = {
    {.in = {CHARL_B(I32, 16, 7)}, .attr = &none, .int_begin = -3, .int_end = 9},
    {.in = {CHARL_R(I32, 3, 130)}, .attr = &one, .int_begin = -4, .int_end = 300},
    {.in = {CHARL_R(I32, 1, 1)}, .attr = &none, .int_begin = -3, .int_end = 0},
    {.in = {CHARL_R(I32, 0, 4)}, .attr = &none, .int_end = 4},
};

/* The end of a row is its first negative number, or one that is appended to it. */
static void onnx_padded(const charl__onnx_node *n)
{
    const char *zero = charl__onnx_int(n, 0), *x = n->in[0], *one_more, *end;

    if (n->outs[0]) {
        charl__onnx_op(n, "Max", x, zero, n->outs[0]);
    }
    if (n->outs[1]) {
        one_more = charl__onnx_int(n, 1);
        end = charl__onnx_op(n, "Mul", charl__onnx_slice(n, x, -1, 0, 1, NULL), zero, NULL);
        end = charl__onnx_concat(n, x, charl__onnx_op(n, "Sub", end, one_more, NULL), NULL);
        end = charl__onnx_write_call(n, &(charl__onnx_call){.type = "Cast",
                                                            .in = {charl__onnx_op(n, "Less", end, zero, NULL)},
                                                            .attr = {{"to", .i = charl__onnx_dtype(CHARL_I32)}}});
        end = charl__onnx_write_call(
            n, &(charl__onnx_call){.type = "ArgMax", .in = {end}, .attr = {{"axis", .i = 1}, {"keepdims", .i = 0}}});
        end = charl__onnx_op(n, "Max", end, one_more, NULL);
        charl__onnx_op(n, "Add", end, charl__onnx_int(n, *(const int32_t *)n->attr), n->outs[1]);
    }
}

const charl__op charl_op_padded_sequences = {
    .name = "padded_sequences",
    .formula = "tokens = max(x, 0), length[b] = before + max(1, the numbers of row b before its first negative one)",
    .n_in = 1,
    .attr_size = sizeof(int32_t),
    CHARL_RULES(_padded),
    .onnx = onnx_padded,
};

charl_var *charl__padded_sequences(charl_graph *g, charl_var *x, int before, charl_var **length)
{
    CHARL_BUILDER_GIVEN(g, "padded_sequences", length);
    const int32_t attr = before;
    charl_var *out[CHARL_OP_MAX_OUT] = {NULL};

    *length = NULL;
    if (before < 0) {
        return charl__graph_fail(g, CHARL_ERR_INVALID, "padded_sequences: %d positions in front", before);
    }
    charl__apply(g, &charl_op_padded_sequences, &attr, (charl_var *[]){x}, 1, out);
    *length = out[1];
    return out[0];
}

typedef struct mask_attr {
    int32_t positions;
    bool last;
} mask_attr;

static charl_status infer_mask(charl__infer *inf)
{
    const charl_type *length = &inf->in[0];
    char text[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(length->dtype == CHARL_I32 && length->shape.ndim == 1, CHARL_ERR_SHAPE,
                  "lengths %s %s are not i32 [B]", charl_dtype_name(length->dtype),
                  charl_shape_format(&length->shape, text));
    inf->out[0] =
        (charl_type){CHARL_F32, {2, {length->shape.dim[0], ((const mask_attr *)inf->attr)->positions}}, length->batch};
    return CHARL_OK;
}

static charl_status enqueue_mask(const charl__enqueue *e)
{
    const charl_shape *s = &e->out[0]->shape;
    const charl__launch l = {
        .file = "data/sequences",
        .entry = "charl_sequence_mask",
        .args = {charl__in(e->in[0]), charl__out(e->out[0]), charl__i32((int32_t)s->dim[1]),
                 charl__i32(((const mask_attr *)e->attr)->last)},
        .global = {s->dim[0] > 0 ? ((size_t)s->dim[1] + GROUP - 1) / GROUP * GROUP : 0, (size_t)s->dim[0]},
        .local = {GROUP, 1},
        .label = e->label};

    return charl__launch_enqueue(e->dev, &l);
}

static void reference_mask(const charl__reference *r)
{
    const int64_t n = r->out_type[0].shape.dim[1];
    const bool last = ((const mask_attr *)r->attr)->last;

    for (int64_t i = 0; i < r->out_type[0].shape.dim[0] * n; i++) {
        const double left = r->in[0][i / n] - (double)(i % n);

        r->out[0][i] = left > 0.0 && (!last || left < 2.0) ? 1.0 : 0.0;
    }
}

static const mask_attr seven = {7, false}, seven_last = {7, true}, single = {1, false}, long_row = {130, true};
static const charl__op_sample samples_mask[] = {
    {.in = {CHARL_B(I32, 16)}, .attr = &seven, .int_end = 9},
    {.in = {CHARL_R(I32, 3)}, .attr = &long_row, .int_end = 140},
    {.in = {CHARL_B(I32, 16)}, .attr = &seven_last, .int_end = 9},
    {.in = {CHARL_R(I32, 1)}, .attr = &single, .int_end = 2},
    {.in = {CHARL_R(I32, 0)}, .attr = &seven, .int_end = 4},
};

static void onnx_mask(const charl__onnx_node *n)
{
    const mask_attr *a = n->attr;
    const char *t = charl__onnx_op(n, "Unsqueeze", n->in[0], charl__onnx_ints(n, (const int64_t[]){1}, 1), NULL);

    t = a->last ? charl__onnx_op(n, "Sub", t, charl__onnx_int(n, 1), NULL) : t;
    t = charl__onnx_op(n, a->last ? "Equal" : "Less", charl__onnx_range(n, a->positions), t, NULL);
    charl__onnx_write_call(
        n, &(charl__onnx_call){
               .type = "Cast", .in = {t}, .out = n->out, .attr = {{"to", .i = charl__onnx_dtype(CHARL_F32)}}});
}

const charl__op charl_op_sequence_mask = {
    .name = "sequence_mask",
    .formula = "out[b, t] = t < length[b] ? 1 : 0, or t == length[b] - 1 ? 1 : 0",
    .n_in = 1,
    .attr_size = sizeof(mask_attr),
    CHARL_RULES(_mask),
    .onnx = onnx_mask,
};

charl_var *charl__sequence_mask(charl_graph *g, charl_var *length, int64_t positions, bool last)
{
    const mask_attr attr = {(int32_t)positions, last};

    if (positions < 1 || positions > INT32_MAX / 2) {
        return charl__graph_fail(g, CHARL_ERR_INVALID, "sequence_mask: %lld positions", (long long)positions);
    }
    return charl__apply1(g, &charl_op_sequence_mask, &attr, length);
}

charl_var *charl__graph_set_padded(charl_graph *g, charl_var *x, int64_t vocab)
{
    charl__padding *p = &g->padding[g->n_padding];
    charl_var *tokens;

    if (g->n_padding == CHARL_MAX_PADDED) {
        return charl__graph_fail(g, CHARL_ERR_INVALID, "more than %d inputs are padded sequences", CHARL_MAX_PADDED);
    }
    g->vocab = vocab;
    tokens = charl__padded_sequences(g, x, 0, &p->lengths[0]);
    if (tokens) {
        p->x = x;
        g->n_padding++;
        tokens->positions = 1;
        tokens->padding = p;
    }
    return tokens;
}

bool charl__graph_has_padding(const charl_graph *g)
{
    return g->n_padding > 0;
}

void charl__graph_set_vocab(charl_graph *g, int64_t vocab)
{
    g->vocab = vocab;
}

int64_t charl__graph_vocab(const charl_graph *g)
{
    return g->vocab;
}

int charl__var_positions(const charl_var *x)
{
    return x->positions;
}

void charl__var_set_positions(charl_var *x, int axis)
{
    if (!x) {
        return;
    }
    if (axis == 0 && x->positions != 0) {
        x->padding = NULL;
    } else if (axis != 0 && !x->padding && x->g->n_padding > 0) {
        x->padding = &x->g->padding[0];
    }
    x->positions = axis;
}

bool charl__var_has_padding(const charl_var *x)
{
    return x->padding != NULL;
}

/* The extent of `to` that corresponds to extent `at` of `from` in the same elements; 0: none. */
static int same_extent(const charl_shape *from, const charl_shape *to, int at)
{
    int64_t before = 1, passed = 1;

    for (int i = 0; i < at; i++) {
        before *= from->dim[i];
    }
    for (int k = 0; k < to->ndim; passed *= to->dim[k++]) {
        if (k > 0 && passed == before && to->dim[k] == from->dim[at]) {
            return k;
        }
    }
    return 0;
}

/* Whether an operator computes each position of extent `at` from that position alone, or ignores the padding; convolutions treat
 * it as zeros. */
static bool keeps_apart(const charl__op *op, int at, int ndim)
{
    static const charl__op *const any[] = {&charl_op_cast, &charl_op_dropout, &charl_op_slice, &charl_op_concat};
    static const charl__op *const rows[] = {&charl_op_linear,         &charl_op_layer_norm,   &charl_op_rms_norm,
                                            &charl_op_add_layer_norm, &charl_op_add_rms_norm, &charl_op_softmax,
                                            &charl_op_log_softmax,    &charl_op_swiglu};
    static const charl__op *const sequences[] = {&charl_op_attention, &charl_op_cross_attention,
                                                 &charl_op_rotary,    &charl_op_reverse_sequence,
                                                 &charl_op_lstm,      &charl_op_gru};
    bool found = op->expr || op->express || (op == &charl_op_conv2d && at > 1);

    for (size_t i = 0; i < sizeof any / sizeof any[0]; i++) {
        found = found || op == any[i];
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        found = found || (op == rows[i] && at < ndim - 1);
    }
    for (size_t i = 0; i < sizeof sequences / sizeof sequences[0]; i++) {
        found = found || (op == sequences[i] && at == 1);
    }
    return found;
}

static int carried(const charl__node *n, const charl_var *x, const charl_shape *y)
{
    const charl_shape *s = &x->type.shape;
    const int at = x->positions;

    if (n->op == &charl_op_reshape) {
        return same_extent(s, y, at);
    }
    if (n->op == &charl_op_embedding) {
        return at;
    }
    return y->ndim == s->ndim && y->dim[at] == s->dim[at] && keeps_apart(n->op, at, s->ndim) ? at : 0;
}

void charl__carry_positions(const charl__node *n, charl_var *y)
{
    const charl_shape *to = &y->type.shape;
    /* the keys that a query sees are looked up in the lengths of their own sequences */
    const int n_in = n->op == &charl_op_cross_attention ? 1 : n->n_in;

    for (int i = 0; i < n_in; i++) {
        y->padding = y->padding ? y->padding : n->in[i]->padding;
    }
    for (int i = 0; i < n_in; i++) {
        const charl_var *x = n->in[i];
        const bool row = to->ndim <= 2 && (x->type.shape.ndim <= 2 || n->op == &charl_op_reshape);
        const int at = x->positions > 0 ? carried(n, x, to) : 0;

        if (x->positions < 0 || (at > 0 && y->positions > 0 && (y->positions != at || y->padding != x->padding))) {
            y->positions = -1;
            return;
        }
        if (x->positions > 0 && at == 0) {
            y->positions = row ? 0 : -1; /* the rest of a row of features is features */
            return;
        }
        if (at > 0) {
            y->positions = at;
            y->padding = x->padding;
        }
    }
}

bool charl__var_is_shifted(const charl_var *x)
{
    return x->type.shape.dim[x->positions] > x->padding->x->type.shape.dim[1];
}

charl_var *charl__graph_lengths(charl_var *x)
{
    const bool shifted = x->positions > 0 && charl__var_is_shifted(x);

    if (shifted && !x->padding->lengths[1]) {
        charl__padded_sequences(x->g, x->padding->x, 1, &x->padding->lengths[1]);
    }
    return x->positions > 0 ? x->padding->lengths[shifted] : NULL;
}
