#ifndef CHARL_AUTOGRAD_ONNX_ONNX_H
#define CHARL_AUTOGRAD_ONNX_ONNX_H
/** Graphs as ONNX models (opset 17, IR version 8), for other programs to run.
 *
 *  An operator names its ONNX equivalent: charl__op.onnx_type if ONNX has an operator with
 *  the same operands, else charl__op.onnx, a function that appends nodes. Such functions read like
 *  formulas: a value is its name, NULL in gives NULL out, and the first error is kept. The extent of
 *  the batch is the symbol N, so shapes that depend on it must not be written as numbers: charl__onnx_reshape.
 *  i32 becomes int64, the type of row numbers and positions in ONNX; f32 and u8 do not change.
 */
#include "autograd/op.h"
#include "base/text/text.h"
#include "charl/ops.h"

enum { CHARL_ONNX_OPSET = 17, CHARL_ONNX_IR = 8, CHARL_ONNX_MAX_ATTR = 6 };

typedef struct charl__onnx charl__onnx;

/** A node while its operator translates it. Everything is borrowed. */
typedef struct charl__onnx_node {
    charl__onnx *x;
    const charl__op *op;
    const char *name;
    const void *attr;
    int n_in;
    const char *const *in; /* names of values */
    const charl_type *in_type;
    int n_out;
    const char *const *outs; /* names of its outputs, which the translation defines; NULL if no node reads it */
    const char *out;         /* outs[0], the only output of most */
    const charl_type *out_type;
} charl__onnx_node;

/** An attribute of an ONNX node: ints if n > 0, f if `is_float`, text if there is one, else i. */
typedef struct charl__onnx_attr {
    const char *name;
    int64_t i;
    int n;
    const int64_t *ints;
    bool is_float;
    float f;
    const char *text;
} charl__onnx_attr;

/** An ONNX node. Lists end with NULL. */
typedef struct charl__onnx_call {
    const char *type;
    const char *in[CHARL_OP_MAX_IN];
    const char *out; /* NULL: the model makes one up */
    charl__onnx_attr attr[CHARL_ONNX_MAX_ATTR];
} charl__onnx_call;

/** Append a node; returns the name of its output. */
const char *charl__onnx_write_call(const charl__onnx_node *n, const charl__onnx_call *c);
/** For nodes without attributes; b NULL: one operand. */
const char *charl__onnx_op(const charl__onnx_node *n, const char *type, const char *a, const char *b, const char *out);

/** Elements [start, stop) of axis `axis` (negative: from the end) of a. */
const char *charl__onnx_slice(const charl__onnx_node *n, const char *a, int64_t axis, int64_t start, int64_t stop,
                              const char *out);

/** a and b along the last axis. */
const char *charl__onnx_concat(const charl__onnx_node *n, const char *a, const char *b, const char *out);

/** Constants: a scalar f32, a scalar int64, f32 of a shape, f32 [count] that are all `value`, int64
 *  [count]. */
const char *charl__onnx_float(const charl__onnx_node *n, double value);
const char *charl__onnx_int(const charl__onnx_node *n, int64_t value);
const char *charl__onnx_floats(const charl__onnx_node *n, const charl_shape *shape, const float *values);
const char *charl__onnx_fill(const charl__onnx_node *n, float value, int64_t count);
const char *charl__onnx_ints(const charl__onnx_node *n, const int64_t *values, int count);
/** 0, 1, ..., count - 1: int64. */
const char *charl__onnx_range(const charl__onnx_node *n, int64_t count);

/** `a` with the shape of `type`; the batch extent does not change. */
const char *charl__onnx_reshape(const charl__onnx_node *n, const char *a, const charl_type *type, const char *out);
/** `a` of ndim extents with extent i taken from perm[i]. */
const char *charl__onnx_transpose(const charl__onnx_node *n, const char *a, const int64_t *perm, int ndim,
                                  const char *out);
/** `a` with its last two of ndim extents exchanged. */
const char *charl__onnx_swap_last(const charl__onnx_node *n, const char *a, int ndim);

/** Attributes of a window, appended to those of `c`; they point into *w. */
typedef struct charl__onnx_window {
    int64_t kernel[2], stride[2], padding[4], dilation[2];
} charl__onnx_window;
void charl__onnx_write_window(const charl_window *win, charl__onnx_window *w, charl__onnx_call *c);

/** Element type of an ONNX tensor, 0 when there is none. */
int charl__onnx_dtype(charl_dtype dtype);

/** Refuse the node: ERR_CONFIG with its operator and name in front. */
void charl__onnx_fail(const charl__onnx_node *n, const char *reason);

/** Whether operator `op` can be translated (some nodes of it may still be refused). */
bool charl__onnx_knows(const charl__op *op);

/** The parts of a graph to export. Borrowed for the call. */
typedef struct charl__onnx_export {
    const char *name; /* of the model */
    /* [n_metadata] keys and values; a value of NULL or "" is omitted */
    const char *(*metadata)[2];
    int n_metadata;
    charl_var *const *outputs;
    const char *const *output_names;
    int n_outputs;
    /* Host memory for a parameter's value, f32. */
    charl_status (*read)(void *ctx, const charl_param *p, float *dst);
    void *ctx;
} charl__onnx_export;

/** An ONNX model: the bytes of head, then those of graph, which holds the weights and is too large
 *  to copy. Start from {0}; call charl__text_fini for both on every path. */
typedef struct charl__onnx_model {
    charl__text head, graph;
} charl__onnx_model;

/** The part of a graph that its outputs depend on, as an ONNX model. The graph is not
 *  compiled and need not have a device. Inputs keep their names, in the order of creation;
 *  parameters become initializers with their names.
 *
 *  Blocks. Local. Deterministic.
 *  Errors: ERR_CONFIG  an operator or element type that cannot be exported, naming the node; more
 *  than 2 GiB; ERR_INVALID  a compiled graph, or an output of another; ERR_NOMEM; errors of `read` and of the graph. */
charl_status charl__graph_onnx(const charl_graph *g, const charl__onnx_export *e,
                               charl__onnx_model *out) CHARL_MUST_CHECK;

#endif
