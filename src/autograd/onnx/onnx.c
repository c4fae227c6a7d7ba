/* Nodes and constants of an ONNX model, from which operators build their translation. */
#include "autograd/onnx/onnx.h"

#include <stdio.h>
#include <string.h>

#include "autograd/onnx/onnx_private.h"
#include "base/alloc.h"
#include "base/text/protobuf.h"

/* Fields of NodeProto and AttributeProto. */
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_TYPE = 4, NODE_ATTRIBUTE = 5 };
enum { ATTR_NAME = 1, ATTR_F = 2, ATTR_I = 3, ATTR_S = 4, ATTR_INTS = 8, ATTR_TYPE = 20 };
enum { ATTR_IS_FLOAT = 1, ATTR_IS_INT = 2, ATTR_IS_TEXT = 3, ATTR_IS_INTS = 7 };

const char *charl__onnx_keep_error(charl__onnx *x, charl_status st)
{
    if (x->status == CHARL_OK) {
        x->status = st; /* the message is the thread's: nothing else fails until it is read */
    }
    return NULL;
}

void charl__onnx_fail(const charl__onnx_node *n, const char *reason)
{
    if (n->x->status == CHARL_OK) {
        charl__onnx_keep_error(
            n->x, charl_error_set(CHARL_ERR_CONFIG, __FILE__, __LINE__, __func__, "ONNX: %s: %s", n->name, reason));
    }
}

int charl__onnx_dtype(charl_dtype dtype)
{
    switch (dtype) {
    case CHARL_F32:
        return ONNX_FLOAT;
    case CHARL_U8:
        return ONNX_UINT8;
    case CHARL_I32:
        return ONNX_INT64;
    default:
        return 0;
    }
}

/* A name for an intermediate value; borrowed from the model. */
static charl_status new_name(const charl__onnx_node *n, const char **out)
{
    char text[384];
    CHARL_SCOPED_FREE char *name = NULL;

    snprintf(text, sizeof text, "%s/%d", n->name, n->x->temporaries++);
    CHARL_TRY(charl__strdup(text, &name));
    CHARL_TRY(charl__list_add(&n->x->names, name));
    *out = name;
    name = NULL;
    return CHARL_OK;
}

static charl_status put_attr(charl__text *node, const charl__onnx_attr *a)
{
    const size_t begin = node->length;

    CHARL_TRY(charl__protobuf_string(node, ATTR_NAME, a->name));
    if (a->is_float) {
        CHARL_TRY(charl__protobuf_float(node, ATTR_F, a->f));
    } else if (a->text) {
        CHARL_TRY(charl__protobuf_string(node, ATTR_S, a->text));
    } else if (a->n == 0) {
        CHARL_TRY(charl__protobuf_int(node, ATTR_I, a->i));
    }
    for (int i = 0; i < a->n; i++) {
        CHARL_TRY(charl__protobuf_int(node, ATTR_INTS, a->ints[i]));
    }
    CHARL_TRY(charl__protobuf_int(node, ATTR_TYPE,
                                  a->is_float ? ATTR_IS_FLOAT
                                  : a->text   ? ATTR_IS_TEXT
                                  : a->n      ? ATTR_IS_INTS
                                              : ATTR_IS_INT));
    return charl__protobuf_nest(node, NODE_ATTRIBUTE, begin);
}

static charl_status put_call(const charl__onnx_node *n, const charl__onnx_call *c, const char **out)
{
    charl__text *t = &n->x->graph;
    const size_t begin = t->length;

    *out = c->out;
    if (!c->out) {
        CHARL_TRY(new_name(n, out));
    }
    for (int k = 0; c->out && k < n->n_out; k++) {
        n->x->defined |= c->out == n->outs[k] ? 1U << k : 0U;
    }
    for (int i = 0; i < CHARL_OP_MAX_IN && c->in[i]; i++) {
        CHARL_TRY(charl__protobuf_string(t, NODE_INPUT, c->in[i]));
    }
    CHARL_TRY(charl__protobuf_string(t, NODE_OUTPUT, *out));
    CHARL_TRY(charl__protobuf_string(t, NODE_NAME, *out));
    CHARL_TRY(charl__protobuf_string(t, NODE_TYPE, c->type));
    for (int i = 0; i < CHARL_ONNX_MAX_ATTR && c->attr[i].name; i++) {
        CHARL_TRY(put_attr(t, &c->attr[i]));
    }
    return charl__protobuf_nest(t, ONNX_GRAPH_NODE, begin);
}

const char *charl__onnx_write_call(const charl__onnx_node *n, const charl__onnx_call *c)
{
    const char *out = NULL;
    charl_status st;

    if (n->x->status != CHARL_OK) {
        return NULL;
    }
    st = put_call(n, c, &out);
    return st == CHARL_OK ? out : charl__onnx_keep_error(n->x, st);
}

const char *charl__onnx_op(const charl__onnx_node *n, const char *type, const char *a, const char *b, const char *out)
{
    return charl__onnx_write_call(n, &(charl__onnx_call){.type = type, .in = {a, b}, .out = out});
}

charl_status charl__onnx_tensor(charl__onnx *x, const char *name, int type, const charl_shape *shape, const void *data,
                                size_t bytes)
{
    charl__text *t = &x->graph;
    const size_t begin = t->length;

    for (int i = 0; i < shape->ndim; i++) {
        CHARL_TRY(charl__protobuf_int(t, ONNX_TENSOR_DIMS, shape->dim[i]));
    }
    CHARL_TRY(charl__protobuf_int(t, ONNX_TENSOR_TYPE, type));
    CHARL_TRY(charl__protobuf_string(t, ONNX_TENSOR_NAME, name));
    CHARL_TRY(charl__protobuf_bytes(t, ONNX_TENSOR_RAW, data, bytes)); /* little-endian, as in memory */
    return charl__protobuf_nest(t, ONNX_GRAPH_INITIALIZER, begin);
}

static const char *constant(const charl__onnx_node *n, int type, charl_shape shape, const void *data, size_t bytes)
{
    charl_status st = CHARL_OK;
    const char *name = NULL;

    if (n->x->status != CHARL_OK) {
        return NULL;
    }
    CHARL_TRY_CLEANUP(new_name(n, &name));
    CHARL_TRY_CLEANUP(charl__onnx_tensor(n->x, name, type, &shape, data, bytes));
cleanup:
    return st == CHARL_OK ? name : charl__onnx_keep_error(n->x, st);
}

const char *charl__onnx_float(const charl__onnx_node *n, double value)
{
    const float f = (float)value;

    return constant(n, ONNX_FLOAT, (charl_shape){0, {0}}, &f, sizeof f);
}

const char *charl__onnx_int(const charl__onnx_node *n, int64_t value)
{
    return constant(n, ONNX_INT64, (charl_shape){0, {0}}, &value, sizeof value);
}

const char *charl__onnx_floats(const charl__onnx_node *n, const charl_shape *shape, const float *values)
{
    return constant(n, ONNX_FLOAT, *shape, values, (size_t)charl_shape_count(shape) * sizeof *values);
}

const char *charl__onnx_range(const charl__onnx_node *n, int64_t count)
{
    return charl__onnx_write_call(
        n, &(charl__onnx_call){.type = "Range",
                               .in = {charl__onnx_int(n, 0), charl__onnx_int(n, count), charl__onnx_int(n, 1)}});
}

const char *charl__onnx_fill(const charl__onnx_node *n, float value, int64_t count)
{
    charl_status st = CHARL_OK;
    const char *name = NULL;
    float *values = NULL;

    CHARL_TRY_CLEANUP(charl__alloc_array(count + 1, sizeof *values, &values));
    for (int64_t i = 0; i < count; i++) {
        values[i] = value;
    }
    name = charl__onnx_floats(n, &(charl_shape){1, {count}}, values);
cleanup:
    charl_free(values);
    return st == CHARL_OK ? name : charl__onnx_keep_error(n->x, st);
}

const char *charl__onnx_ints(const charl__onnx_node *n, const int64_t *values, int count)
{
    return constant(n, ONNX_INT64, (charl_shape){1, {count}}, values, (size_t)count * sizeof *values);
}

const char *charl__onnx_reshape(const charl__onnx_node *n, const char *a, const charl_type *type, const char *out)
{
    charl_shape s = type->shape;

    if (type->batch == CHARL_BATCHED) {
        s.dim[0] = 0; /* the extent of the operand */
    }
    return charl__onnx_op(n, "Reshape", a, charl__onnx_ints(n, s.dim, s.ndim), out);
}

const char *charl__onnx_slice(const charl__onnx_node *n, const char *a, int64_t axis, int64_t start, int64_t stop,
                              const char *out)
{
    return charl__onnx_write_call(
        n, &(charl__onnx_call){
               .type = "Slice",
               .in = {a, charl__onnx_ints(n, &start, 1), charl__onnx_ints(n, &stop, 1), charl__onnx_ints(n, &axis, 1)},
               .out = out});
}

const char *charl__onnx_concat(const charl__onnx_node *n, const char *a, const char *b, const char *out)
{
    return charl__onnx_write_call(
        n, &(charl__onnx_call){.type = "Concat", .in = {a, b}, .out = out, .attr = {{"axis", .i = -1}}});
}

const char *charl__onnx_transpose(const charl__onnx_node *n, const char *a, const int64_t *perm, int ndim,
                                  const char *out)
{
    return charl__onnx_write_call(
        n,
        &(charl__onnx_call){.type = "Transpose", .in = {a}, .out = out, .attr = {{"perm", .n = ndim, .ints = perm}}});
}

const char *charl__onnx_swap_last(const charl__onnx_node *n, const char *a, int ndim)
{
    int64_t perm[CHARL_MAX_DIMS];

    for (int i = 0; i < ndim; i++) {
        perm[i] = i < ndim - 2 ? i : 2 * ndim - 3 - i;
    }
    return charl__onnx_transpose(n, a, perm, ndim, NULL);
}

void charl__onnx_write_window(const charl_window *win, charl__onnx_window *w, charl__onnx_call *c)
{
    int k = 0;

    for (int i = 0; i < 2; i++) {
        w->kernel[i] = win->kernel[i];
        w->stride[i] = win->stride[i];
        w->dilation[i] = win->dilation[i];
        w->padding[i] = w->padding[i + 2] = win->padding[i];
    }
    while (k < CHARL_ONNX_MAX_ATTR && c->attr[k].name) {
        k++;
    }
    CHARL_INVARIANT(k + 4 <= CHARL_ONNX_MAX_ATTR);
    c->attr[k] = (charl__onnx_attr){.name = "kernel_shape", .n = 2, .ints = w->kernel};
    c->attr[k + 1] = (charl__onnx_attr){.name = "strides", .n = 2, .ints = w->stride};
    c->attr[k + 2] = (charl__onnx_attr){.name = "pads", .n = 4, .ints = w->padding};
    if (win->dilation[0] != 1 || win->dilation[1] != 1) { /* not every operator has one */
        c->attr[k + 3] = (charl__onnx_attr){.name = "dilations", .n = 2, .ints = w->dilation};
    }
}
