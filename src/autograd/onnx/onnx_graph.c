/* Converts a graph to an ONNX model: finds the nodes that the outputs need, translates them in the order of
 * execution, and writes the messages around them. */
#include <stdio.h>
#include <string.h>

#include "autograd/onnx/onnx_private.h"
#include "base/alloc.h"
#include "base/text/protobuf.h"
#include "charl/version.h"

/* Fields of ModelProto, OperatorSetIdProto, ValueInfoProto, TypeProto and its parts. */
enum {
    MODEL_IR = 1,
    MODEL_PRODUCER = 2,
    MODEL_VERSION = 3,
    MODEL_GRAPH = 7,
    MODEL_OPSET = 8,
    MODEL_METADATA = 14,

    ENTRY_KEY = 1, /* of metadata */
    ENTRY_VALUE = 2
};
enum { OPSET_DOMAIN = 1, OPSET_VERSION = 2 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2 };
enum { TYPE_TENSOR = 1, TENSOR_ELEMENT = 1, TENSOR_SHAPE = 2 };
enum { SHAPE_DIM = 1, DIM_VALUE = 1, DIM_SYMBOL = 2 };

enum { SPARE = 1 << 16 }; /* initial bytes for everything but weights */

typedef struct walk {
    const charl_graph *g;
    const charl__onnx_export *e;
    charl__onnx x;
    bool *needed;      /* by variable id */
    const char **name; /* by variable id; NULL until it has one */
} walk;

bool charl__onnx_knows(const charl__op *op)
{
    return op->onnx_type || op->onnx;
}

/* Backwards from the outputs: a node comes after everything that it reads. */
static void mark(walk *w)
{
    for (int i = 0; i < w->e->n_outputs; i++) {
        w->needed[w->e->outputs[i]->id] = true;
    }
    for (int i = w->g->nodes.count - 1; i >= 0; i--) {
        const charl__node *n = charl__graph_node(w->g, i);
        bool needed = false;

        for (int k = 0; k < n->n_out; k++) {
            needed = needed || w->needed[n->out[k]->id];
        }
        for (int k = 0; needed && k < n->n_in; k++) {
            w->needed[n->in[k]->id] = true;
        }
    }
}

/* The declaration of an input or output. */
static charl_status put_value(charl__text *graph, int field, const char *name, const charl_var *v)
{
    const charl_type *type = &v->type;
    const size_t value = graph->length;
    size_t tensor, shape;

    CHARL_REQUIRE(charl__onnx_dtype(type->dtype), CHARL_ERR_CONFIG, "ONNX: %s: element type %s cannot be exported",
                  name, charl_dtype_name(type->dtype));
    CHARL_TRY(charl__protobuf_string(graph, VALUE_NAME, name));
    tensor = graph->length;
    CHARL_TRY(charl__protobuf_int(graph, TENSOR_ELEMENT, charl__onnx_dtype(type->dtype)));
    shape = graph->length;
    for (int i = 0; i < type->shape.ndim; i++) {
        const size_t dim = graph->length;

        CHARL_TRY(i == 0 && type->batch == CHARL_BATCHED ? charl__protobuf_string(graph, DIM_SYMBOL, "N")
                                                         : charl__protobuf_int(graph, DIM_VALUE, type->shape.dim[i]));
        CHARL_TRY(charl__protobuf_nest(graph, SHAPE_DIM, dim));
    }
    CHARL_TRY(charl__protobuf_nest(graph, TENSOR_SHAPE, shape));
    CHARL_TRY(charl__protobuf_nest(graph, TYPE_TENSOR, tensor));
    CHARL_TRY(charl__protobuf_nest(graph, VALUE_TYPE, tensor));
    return charl__protobuf_nest(graph, field, value);
}

static charl_status put_param(walk *w, const charl_var *v)
{
    const charl_param_spec *spec = charl_param_get_spec(v->param);
    const int64_t n = charl_shape_count(&spec->shape);
    CHARL_SCOPED_FREE float *value = NULL;

    CHARL_TRY(charl__alloc_array(n + 1, sizeof *value, &value));
    CHARL_TRY(w->e->read(w->e->ctx, v->param, value));
    CHARL_TRY(charl__onnx_tensor(&w->x, spec->name, ONNX_FLOAT, &spec->shape, value, (size_t)n * sizeof *value));
    return CHARL_OK;
}

/* Names must be unique among the values before `end` and this one. */
static charl_status check_name(const walk *w, const char *name, int end)
{
    for (int i = 0; i < end; i++) {
        CHARL_REQUIRE(
            !w->name[i] || strcmp(w->name[i], name) != 0, CHARL_ERR_CONFIG,
            "ONNX: two values of the graph are called %s; HINT give inputs, outputs and the parameters of each "
            "set names of their own",
            name);
    }
    return CHARL_OK;
}

/* Name every variable that is needed; declare those that no node computes. */
static charl_status put_leaves(walk *w)
{
    for (int i = 0; i < w->g->vars.count; i++) {
        const charl_var *v = charl__var(w->g, i);
        char text[384];
        char *name = NULL;

        if (!w->needed[v->id]) {
            continue;
        }
        snprintf(text, sizeof text, "%s", charl_var_get_name(v));
        if (v->leaf == CHARL_LEAF_CONSTANT) { /* not unique */
            snprintf(text, sizeof text, "constant/%d", v->id);
        } else if (v->node && v != v->node->out[0]) {
            snprintf(text, sizeof text, "%s/out%d", v->node->name, v->id);
        }
        CHARL_TRY(check_name(w, text, i));
        CHARL_TRY(charl__strdup(text, &name));
        w->name[v->id] = name;
        if (v->leaf == CHARL_LEAF_INPUT) {
            CHARL_TRY(put_value(&w->x.graph, ONNX_GRAPH_INPUT, name, v));
        } else if (v->leaf == CHARL_LEAF_PARAM) {
            CHARL_TRY(put_param(w, v));
        } else if (v->leaf == CHARL_LEAF_CONSTANT) {
            CHARL_TRY(charl__onnx_tensor(&w->x, name, ONNX_FLOAT, &v->type.shape, &v->constant, sizeof v->constant));
        }
    }
    return CHARL_OK;
}

static charl_status translate(charl__onnx *x, const charl__op *op, const charl__onnx_node *n)
{
    x->defined = 0;
    if (op->onnx) {
        op->onnx(n);
    } else {
        charl__onnx_call c = {.type = op->onnx_type, .out = n->out};

        memcpy(c.in, n->in, (size_t)n->n_in * sizeof *c.in);
        charl__onnx_write_call(n, &c);
    }
    return x->status;
}

static charl_status put_node(walk *w, const charl__node *node)
{
    const char *in[CHARL_OP_MAX_IN], *out[CHARL_OP_MAX_OUT] = {NULL};
    charl_type in_type[CHARL_OP_MAX_IN];
    const charl__onnx_node n = {.x = &w->x,
                                .op = node->op,
                                .name = node->name,
                                .attr = node->attr,
                                .n_in = node->n_in,
                                .in = in,
                                .in_type = in_type,
                                .n_out = node->n_out,
                                .outs = out,
                                .out = w->name[node->out[0]->id],
                                .out_type = &node->out[0]->type};

    for (int i = 0; i < node->n_in; i++) {
        in[i] = w->name[node->in[i]->id];
        in_type[i] = node->in[i]->type;
    }
    for (int k = 0; k < node->n_out; k++) {
        out[k] = w->name[node->out[k]->id];
    }
    CHARL_REQUIRE(charl__onnx_knows(node->op), CHARL_ERR_CONFIG, "ONNX: %s: operator %s cannot be exported", node->name,
                  node->op->name);
    CHARL_TRY(translate(&w->x, node->op, &n));
    for (int k = 0; k < node->n_out; k++) {
        CHARL_REQUIRE(!out[k] || w->x.defined >> k & 1U, CHARL_ERR_CONFIG,
                      "ONNX: %s: output %d of operator %s cannot be exported", node->name, k, node->op->name);
    }
    return CHARL_OK;
}

static size_t weight_bytes(const walk *w)
{
    size_t bytes = 0;

    for (int i = 0; i < w->g->vars.count; i++) {
        const charl_var *v = charl__var(w->g, i);

        if (w->needed[v->id] && v->leaf == CHARL_LEAF_PARAM) {
            bytes += (size_t)charl_shape_count(&v->type.shape) * sizeof(float);
        }
    }
    return bytes;
}

static charl_status put_graph(walk *w)
{
    size_t metadata = 0;

    CHARL_TRY(charl__text_reserve(&w->x.graph, weight_bytes(w) + SPARE));
    CHARL_TRY(charl__protobuf_string(&w->x.graph, ONNX_GRAPH_NAME, w->e->name));
    CHARL_TRY(put_leaves(w));
    for (int i = 0; i < w->g->nodes.count; i++) {
        const charl__node *n = charl__graph_node(w->g, i);
        bool needed = false;

        for (int k = 0; k < n->n_out; k++) {
            needed = needed || w->needed[n->out[k]->id];
        }
        if (needed) {
            CHARL_TRY(put_node(w, n));
        }
    }
    for (int i = 0; i < w->e->n_outputs; i++) {
        const charl__onnx_node n = {.x = &w->x};

        CHARL_TRY(check_name(w, w->e->output_names[i], w->g->vars.count));
        for (int k = 0; k < i; k++) {
            CHARL_REQUIRE(strcmp(w->e->output_names[k], w->e->output_names[i]) != 0, CHARL_ERR_CONFIG,
                          "ONNX: two outputs are called %s", w->e->output_names[i]);
        }
        charl__onnx_op(&n, "Identity", w->name[w->e->outputs[i]->id], NULL, w->e->output_names[i]);
        CHARL_TRY(w->x.status);
        CHARL_TRY(put_value(&w->x.graph, ONNX_GRAPH_OUTPUT, w->e->output_names[i], w->e->outputs[i]));
    }
    for (int i = 0; i < w->e->n_metadata; i++) {
        metadata += w->e->metadata[i][1] ? strlen(w->e->metadata[i][1]) : 0;
    }
    CHARL_REQUIRE(w->x.graph.length + metadata < INT32_MAX - 4096, CHARL_ERR_CONFIG,
                  "ONNX: the model takes %zu bytes; a file of this format holds less than 2 GiB", w->x.graph.length);
    return CHARL_OK;
}

/* The model's last field is the graph, which follows. */
static charl_status put_head(const charl__onnx_export *e, size_t graph_bytes, charl__text *out)
{
    size_t begin;

    CHARL_TRY(charl__protobuf_int(out, MODEL_IR, CHARL_ONNX_IR));
    CHARL_TRY(charl__protobuf_string(out, MODEL_PRODUCER, "charl"));
    CHARL_TRY(charl__protobuf_string(out, MODEL_VERSION, CHARL_VERSION));
    begin = out->length;
    CHARL_TRY(charl__protobuf_string(out, OPSET_DOMAIN, ""));
    CHARL_TRY(charl__protobuf_int(out, OPSET_VERSION, CHARL_ONNX_OPSET));
    CHARL_TRY(charl__protobuf_nest(out, MODEL_OPSET, begin));
    for (int i = 0; i < e->n_metadata; i++) {
        const char *text = e->metadata[i][1];

        if (text && text[0]) {
            begin = out->length;
            CHARL_TRY(charl__protobuf_string(out, ENTRY_KEY, e->metadata[i][0]));
            CHARL_TRY(charl__protobuf_string(out, ENTRY_VALUE, text));
            CHARL_TRY(charl__protobuf_nest(out, MODEL_METADATA, begin));
        }
    }
    return charl__protobuf_begin(out, MODEL_GRAPH, graph_bytes);
}

static void walk_fini(walk *w)
{
    for (int i = 0; w->name && i < w->g->vars.count; i++) {
        char *name;

        memcpy(&name, &w->name[i], sizeof name); /* owned, though const to operators */
        charl_free(name);
    }
    for (int i = 0; i < w->x.names.count; i++) {
        charl_free(w->x.names.item[i]);
    }
    charl_free(w->x.names.item);
    charl_free(w->name);
    charl_free(w->needed);
}

charl_status charl__graph_onnx(const charl_graph *g, const charl__onnx_export *e, charl__onnx_model *out)
{
    charl_status st = CHARL_OK;
    walk w = {.g = g, .e = e};

    CHARL_TRY_CLEANUP(charl_graph_status(g));
    CHARL_REQUIRE_CLEANUP(!g->planned, CHARL_ERR_INVALID,
                          "the graph is compiled, and its operators are fused; HINT build the model on a graph that is "
                          "not, of charl_graph_create(NULL, NULL, &g)");
    for (int i = 0; i < e->n_outputs; i++) {
        CHARL_REQUIRE_CLEANUP(e->outputs[i] && e->outputs[i]->g == g, CHARL_ERR_INVALID,
                              "outputs[%d] is no value of this graph", i);
    }
    CHARL_TRY_CLEANUP(charl__alloc_array(g->vars.count, sizeof *w.needed, &w.needed));
    CHARL_TRY_CLEANUP(charl__alloc_array(g->vars.count, sizeof *w.name, &w.name));
    mark(&w);
    st = put_graph(&w);
    out->graph = w.x.graph; /* the caller frees it, even after a failure */
    CHARL_TRY_CLEANUP(st);
    CHARL_TRY_CLEANUP(put_head(e, out->graph.length, &out->head));
cleanup:
    walk_fini(&w);
    return st;
}
