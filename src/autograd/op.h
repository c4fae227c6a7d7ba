#ifndef CHARL_AUTOGRAD_OP_H
#define CHARL_AUTOGRAD_OP_H
/** What an operator is: one charl_op, described once in op/<family>/, listed once in ops.def.
 *
 *      infer      shape, dtype and batch rule. Pure: touches no device. Sets inf->out[], inf->n_out, inf->workspace.
 *      enqueue    launches kernels on the tensors it is given, while a graph is recorded. Allocates nothing, waits for nothing.
 *      backward   appends operators that compute the gradients of the inputs. NULL: not differentiable.
 *      reference  the definition, in double, on the host: slow and obviously right.
 *      samples    points of the domain. The test suite does the rest, and rejects an operator without samples.
 *
 * Batch rule. When an input is BATCHED, each output is BATCHED (row i from row i alone: charl__infer_rows does it) or PARTIAL (a sum over
 * rows). An operator with a PARTIAL output gets e->slices and writes every lane: it computes one sum per slice and folds the slices of
 * each lane in the fixed tree (charl__fold). The bits of an output element depend on the operator, the per-sample shape, rows per slice
 * and dtypes only. PARTIAL inputs are completed over ranks before an operator sees them, unless it is pure data movement (`moves`):
 * then it runs once per lane.
 */
#include "base/tree.h"
#include "charl/graph.h"
#include "charl/operator.h"
#include "device/device.h"
#include "tensor/step_params.h"
#include "tensor/tensor.h"

enum { CHARL_OP_MAX_IN = 8, CHARL_OP_MAX_OUT = 4 };

typedef struct charl_op charl_op;

/** What an operator makes of values [N, C, H, W] that lie channels-last (tensor/tensor.h). */
typedef enum charl_op_layout {
    CHARL_LAYOUT_ROWS,     /* nothing: it takes and gives row-major ones */
    CHARL_LAYOUT_ALIKE,    /* elementwise: what has the full shape lies alike, others broadcast */
    CHARL_LAYOUT_CHANNELS, /* all of four extents lie alike; others have a number per channel */
    CHARL_LAYOUT_ANY       /* each as its tensor says, and channels-last is quicker */
} charl_op_layout;

/* Each of the four structs below names its operator, `op`, so that operators can share functions and tell each other apart by op->row.
 * charl__infer, charl__op_enqueue and charl__op_reference set it. */
typedef struct charl_infer {
    const charl_op *op;
    const void *attr;
    int n_in;
    const charl_type *in;
    int n_slices;           /* this rank's: a BATCHED extent is a multiple of it */
    bool wgmma;             /* fact of the device; it may add to the workspace, nothing else */
    bool channels_last;     /* operands of four extents lie so; likewise */
    charl_op_layout layout; /* preset to the operator's: what holds for these operands */
    int n_out;              /* preset to 1 */
    charl_type out[CHARL_OP_MAX_OUT];
    int64_t workspace; /* bytes, preset to 0 */
} charl_infer;

typedef struct charl_enqueue {
    const charl_op *op;
    charl_device *dev;
    const char *label; /* node name */
    const void *attr;
    int n_in, n_out;
    charl_tensor *const *in;
    charl_tensor *const *out;              /* a PARTIAL output of a reduction: lane 0 */
    int64_t lane_stride[CHARL_OP_MAX_OUT]; /* elements between lanes of a PARTIAL output, 0 for
                                              others */
    bool rounds[CHARL_OP_MAX_OUT];         /* PARTIAL output k: what is added up over slices, and
                                              every node of the tree, is rounded to bf16 */
    int parts;                             /* leaves of `slices` that make a slice; 0: 1 */
    charl_tensor *workspace;               /* f32 [workspace / 4], or NULL */
    const struct charl_gemm_epilogue *epilogue; /* what the product goes through, or NULL: for
                                                   operators that allow it */
    const struct charl_enqueue *prologue; /* of the node that forms in[0], then NULL, as it reads
                                             (autograd/fuse/prologue.h); NULL: in[0] is there */
    const charl_slices *slices;           /* this rank's slices; never NULL */
    charl_tensor
        *step; /* u32 [16]: charl_step_params, for kernels `global const charl_step_params *` */
} charl_enqueue;

/** What a gradient rule sees. Operands and outputs have the types that they have in the graph;
 * where none has rows of the batch, half-size ones are given in f32, as their gradients are
 * (charl__gradient_dtype), unless the operator only moves data. */
typedef struct charl_backward {
    const charl_op *op;
    charl_graph *g;
    const void *attr;
    int n_in, n_out;
    charl_var *const *in;
    charl_var *const *out;
    charl_var *const *gout; /* NULL where no gradient arrives */
    charl_var **gin;        /* to fill in; leave NULL for none */
    const bool *needed;     /* per input: somebody wants this gradient */
    /* Per input: what those that use it later gave, to be added to gin; NULL: nothing, or it is to
     * be added elsewhere. An operator that can add it on its way says so in `added`. */
    charl_var *const *before;
    bool *added;
} charl_backward;

typedef struct charl_reference {
    const charl_op *op;
    const void *attr;
    int n_in, n_out;
    const double *const *in;
    const charl_type *in_type;
    double *const *out;
    const charl_type *out_type;
    const charl_step_params *step;
    int64_t row0; /* global row of row 0 of BATCHED operands */
} charl_reference;

/** A point of the domain. */
typedef charl_operator_sample charl_op_sample;

struct charl_onnx_node;

/** What an elementwise operator computes, from which its kernel is made, alone or in a chain with
 * others (autograd/fuse/chain.h). */
typedef struct charl_expr {
    const char *text; /* OpenCL C of the operands a, b, c, ... (charl_real: float or a vector of
                         floats), the floats p and q, and draw */
    const char *half_text; /* the same where the result is of a half type; NULL: text */
    const char *extra;     /* defines that stand in front, or NULL */
    int numbers;           /* how many of p and q it names */
    float p, q;
    bool
        uses_rng; /* it names draw: a whole number from [0, 2^24), charl_rng_u32 >> 8 at the element's
                   position */
    bool batched; /* draws: rows are rows of the batch */
    uint64_t key; /* draws: hash of the layer's name */
} charl_expr;

struct charl_op {
    const char *name;    /* unique, lower_snake_case */
    const char *formula; /* for docs, traces and messages */
    int n_in;            /* operands; negative: at least -n_in */
    int n_optional;      /* how many of the last may be left out */
    size_t attr_size;    /* bytes of the attribute struct, copied into the node; 0 = none */
    bool moves;          /* pure data movement: exact, linear, allowed on PARTIAL values */
    bool view;           /* output 0 is input 0's memory under another shape: no enqueue */
    int in_place;        /* so many of the first outputs may take the memory of inputs of the same
                            size that die here; true: output 0 */
    bool epilogue; /* one product per output element: enqueue hands e->epilogue to charl__gemm */
    bool (*epilogue_if)(const charl_infer *inf); /* whether that is so of operands and output 0 of
                                                    these types; NULL: epilogue says it */
    bool prologue; /* of images that lie channels-last operand 0 may be formed as it is read:
                      enqueue honours e->prologue */
    unsigned
        half;     /* bit i: operand i may be bf16 or f16, as storage; 0: the operator is f32 only */
    bool mixed;   /* such operands need not all have one type */
    bool narrows; /* in half types some devices round values on the way to that type too, as tensor
                     cores take no other: tests allow two epsilons of the largest result more */
    charl_op_layout layout;
    bool effect; /* changes an input in place (running statistics): never dead. Kernels honour
                    step->commit */

    charl_status (*infer)(charl_infer *inf);
    charl_status (*enqueue)(const charl_enqueue *e); /* NULL where expr or express says it */
    const char *expr;      /* elementwise with broadcasting over the shape of the output: see
                              charl_expr.text */
    const char *half_expr; /* charl_expr.half_text */
    int expr_numbers;      /* the attribute is so many floats, p and q of expr */
    void (*express)(const void *attr, int n_in, charl_expr *x); /* the same from attributes */
    void (*backward)(const charl_backward *b);
    void (*reference)(const charl_reference *r);
    /* In place of reference for an elementwise operator: an element of the result, x[i] that of
     * operand i. */
    double (*element)(const void *attr, const double *x);
    /* For export (autograd/onnx/onnx.h), at most one of: the ONNX operator with the same operands
     * and result; a function that writes the node in several. */
    const char *onnx_type;
    void (*onnx)(const struct charl_onnx_node *n);

    /* Floating-point operations of the products in it, for rates: from attr and the types of
     * operands and results. NULL: it has none. */
    double (*flop)(const charl_infer *inf);

    const charl_op_sample *samples;
    int n_samples;

    const void *row; /* what tells it from its twins, operators with the same functions */
};

/** A function for .element that takes no attribute: `value`, an expression of x[0], x[1], ... */
#define CHARL_ELEMENT(function, value)                                                             \
    static double function(const void *attr, const double *x)                                      \
    {                                                                                              \
        (void)attr;                                                                                \
        return value;                                                                              \
    }

/* For .half: one operand, all operands. */
#define CHARL_HALF(i) (1U << (i))
#define CHARL_HALF_ALL ((1U << CHARL_OP_MAX_IN) - 1)

#define CHARL_SAMPLES(arr) .samples = (arr), .n_samples = (int)(sizeof(arr) / sizeof((arr)[0]))

/* Short forms for samples: CHARL_R(F32, 2, 3) replicated, CHARL_B(F32, 16, 3) batched. */
#define CHARL_R(dt, ...)                                                                           \
    {                                                                                              \
        CHARL_##dt, {(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}},    \
            CHARL_REPLICATED                                                                       \
    }
#define CHARL_B(dt, ...)                                                                           \
    {                                                                                              \
        CHARL_##dt, {(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}},    \
            CHARL_BATCHED                                                                          \
    }
#define CHARL_SCALAR(dt)                                                                           \
    {                                                                                              \
        CHARL_##dt, {0, {0}}, CHARL_REPLICATED                                                     \
    }

/** The table of all operators, from ops.def. */
extern const charl_op *const charl__op_table[];
extern const int charl__op_count;
const charl_op *charl__op_find(const char *name); /* also of a program; NULL if unknown */

/** Append a node; the builders in ops are one-line calls of these. NULL in (before n_in operands)
 * gives NULL out. */
charl_var *charl__apply1(charl_graph *g, const charl_op *op, const void *attr, charl_var *a);
charl_var *charl__apply2(charl_graph *g, const charl_op *op, const void *attr, charl_var *a,
                         charl_var *b);
/** outs gets n_out vars (NULLs after an error). */
void charl__apply(charl_graph *g, const charl_op *op, const void *attr, charl_var *const *in,
                  int n_in, charl_var **outs);
/** Record an error found by a builder itself, with the scope's name in front. Returns NULL. */
charl_var *charl__graph_fail(charl_graph *g, charl_status st, const char *fmt, ...)
    CHARL_PRINTF(3, 4);
/** Name that the next node of this op will get, e.g. "drop1.dropout": for random keys (hash it with
 * charl__fnv1a64). */
const char *charl__graph_next_name(charl_graph *g, const char *op_name, char *text, size_t bytes);
const charl_slices *charl__graph_slices(const charl_graph *g);

/* Shared shape rules (infer.c). */
/** The operator's own rule, after a check that operands are half-size only where it allows them.
 * Errors: ERR_DTYPE "not available in bf16"; the rule's. */
charl_status charl__infer(const charl_op *op, charl_infer *inf) CHARL_MUST_CHECK;
/** All outputs are BATCHED if any input is; fails when an input is BATCHED but has no leading
 * extent. Call after shapes are set. */
charl_status charl__infer_rows(charl_infer *inf);
/** out[0] = type of in[0], which must be a float. */
charl_status charl__infer_same(charl_infer *inf);
/** out[0] of an elementwise operator: one operand has the full shape and gives the type; every
 * other operand has the same type, or is f32 and has fewer elements or extents (a vector, a
 * statistic). It has the same shape, is a scalar, or broadcasts: its shape without leading and
 * trailing 1s is a contiguous run of operand 0's extents, aligned as PyTorch aligns. */
charl_status charl__infer_broadcast(charl_infer *inf);
/** View of an operand for broadcasting over `full`: element i of full reads operand[(i / inner) %
 * count]. False if it does not fit. */
bool charl__broadcast_index(const charl_shape *full, const charl_shape *operand, int64_t *inner,
                            int64_t *count);

/* For .flop. Products of matrices: operands 0 and 1, result 0. Weights: each of `values` is
 * multiplied with all of w that has one index along `extent`. */
double charl__flop_product(const charl_infer *inf);
double charl__flop_weights(const charl_shape *values, const charl_shape *w, int extent);

/** The same in memory. Where the full shape lies channels-last, so does an operand of that shape; a
 * smaller one has a number per channel, or one in all. */
bool charl__broadcast_in(bool channels_last, const charl_shape *full, const charl_shape *operand,
                         int64_t *inner, int64_t *count);

/* Shared engines (engines in src/tensor take plain tensors; these know operators). */
/** The launches of an operator: its enqueue, or out[0] = its expression elementwise. Errors: its
 * own. */
charl_status charl__op_enqueue(const charl_op *op, const charl_enqueue *e) CHARL_MUST_CHECK;
/** The reference of an operator: its function, or its element for every one of out[0]. */
void charl__op_reference(const charl_op *op, const charl_reference *r);
static inline bool charl__op_launches(const charl_op *op)
{
    return op->enqueue || op->expr || op->express;
}
/** The expression of an elementwise operator whose result is of `type`, in x->text; false for
 * others.
 */
bool charl__op_express(const charl_op *op, const void *attr, int n_in, charl_dtype type,
                       charl_expr *x);
/** Type of the gradient of a value: that of its own elements where there is one per row of the
 * batch; f32 where it sums over rows, as of parameters. */
static inline charl_dtype charl__gradient_dtype(const charl_type *t)
{
    return t->batch == CHARL_BATCHED ? t->dtype : CHARL_F32;
}
/** v in another float type; v itself when it has that type already. */
charl_var *charl__as_dtype(charl_graph *g, charl_var *v, charl_dtype dtype);
/** Complete a reduction: `part` holds e->slices->count partial results of `n` elements each, one
 * after another; fold the slices of every lane in the fixed tree into output k, rounding where
 * e->rounds says so. With one slice in all an operator may write its output directly
 * (charl__fold_is_direct): whoever takes a single slice's lane rounds it. */
charl_status charl__fold(const charl_enqueue *e, charl_tensor *part, int64_t n, int k);
/** The same for partial results that begin anywhere in a buffer, which `part` names without
 * checks. */
charl_status charl__fold_from(const charl_enqueue *e, charl_arg part, int64_t n, int k);
/** Partial results [rows, taps, padded] for an output [rows, channels, taps]. */
typedef struct charl__fold_move {
    int64_t channels, taps, padded;
} charl__fold_move;
/** Partial results of output k, which has n elements. */
typedef struct charl__fold_input {
    charl_arg part;
    int64_t n;
    int k;
    const charl__fold_move *move; /* NULL: they lie like the output */
} charl__fold_input;
/** The same of one output or two, in one launch per lane where both are rounded or neither. Not
 * where charl__fold_is_direct, unless it is one that moves. */
charl_status charl__fold_inputs(const charl_enqueue *e, const charl__fold_input *in,
                                int n_in) CHARL_MUST_CHECK;
bool charl__fold_is_direct(const charl_enqueue *e); /* one slice, one lane */
/** What kernels/shared/tree.clh is specialised by to fold so many leaves into a lane of output k.
 */
void charl__fold_defines(const charl_enqueue *e, int k, int leaves, char *text, size_t bytes);
/** Where slice results go: output k itself when direct, else the workspace (of at least
 * slices->count * n floats). */
charl_tensor *charl__fold_target(const charl_enqueue *e, int k);

/** Run an operator at once on tensors, no graph: for tests, tools and looking around. Outputs are
 * new, owned by the caller. */
charl_status charl__run_op(charl_device *dev, const charl_op *op, const void *attr,
                           charl_tensor *const *in, int n_in, charl_tensor **out) CHARL_MUST_CHECK;

#define CHARL_OP(name) extern const charl_op charl_op_##name;
#include "autograd/ops.def"

#endif
