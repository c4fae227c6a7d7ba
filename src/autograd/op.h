#ifndef CHARL_AUTOGRAD_OP_H
#define CHARL_AUTOGRAD_OP_H
/** An operator is one charl__op, described once in op/<family>/ and listed once in ops.def.
 *
 *      infer      shape, dtype and batch rule. Pure: touches no device. Sets inf->out[], inf->n_out, inf->workspace.
 *      enqueue    launches kernels on the tensors it receives, while a graph is recorded. Allocates nothing, waits for nothing.
 *      backward   appends operators that compute the gradients of the inputs. NULL: not differentiable.
 *      reference  the definition, in double, on the host: slow and obviously correct.
 *      samples    points of the domain. The test suite does the rest, and rejects an operator without samples.
 *
 *  Batch rule. When an input is BATCHED, each output is BATCHED (row i depends on row i only: charl__infer_rows ensures it) or PARTIAL (a sum over
 *  rows). An operator with a PARTIAL output gets e->slices and writes every lane: it computes one sum per slice and folds the slices of
 *  each lane in the fixed tree (charl__fold). The bits of an output element depend only on the operator, the per-sample shape, the rows per
 *  slice and the dtypes. PARTIAL inputs are completed over ranks before an operator sees them, unless it only moves data (`moves`):
 *  then it runs once per lane.
 */
#include "base/numeric/divide.h"
#include "base/numeric/tree.h"
#include "charl/graph.h"
#include "charl/operator.h"
#include "device/device.h"
#include "tensor/step_params.h"
#include "tensor/tensor.h"

enum { CHARL_OP_MAX_IN = 8, CHARL_OP_MAX_OUT = 4 };

typedef struct charl__op charl__op;

/** How an operator treats images [N, C, H, W] that are stored channels-last (tensor/tensor.h). */
typedef enum charl__op_layout {
    CHARL_LAYOUT_ROWS, /* none: operands and outputs are row-major */
    /* elementwise: operands of the full shape share the layout, others broadcast */
    CHARL_LAYOUT_ALIKE,
    /* operands and outputs of four dimensions share the layout; the others have one number per channel */
    CHARL_LAYOUT_CHANNELS,
    CHARL_LAYOUT_CHANNELS_LAST, /* the same, and channels-last is faster */
    CHARL_LAYOUT_FROM_LAST,     /* operands have either layout, outputs are row-major */
    CHARL_LAYOUT_TO_LAST,       /* operands are row-major, outputs have either layout */
    CHARL_LAYOUT_ANY            /* each tensor has its own layout; channels-last is faster */
} charl__op_layout;

/* Each of the four structs below names its operator, `op`, so that operators can share functions and find their differences in op->row.
 * charl__op_infer, charl__op_enqueue and charl__op_reference set it. */

/** Input and output of a shape rule. */
typedef struct charl__infer {
    const charl__op *op;
    const void *attr;
    int n_in;
    const charl_type *in;
    int n_slices;            /* slices of this rank: BATCHED extents are multiples of it */
    const charl_device *dev; /* or NULL; may only affect the workspace */
    bool channels_last;      /* operands of four dimensions are channels-last; likewise the outputs */
    charl__op_layout layout; /* preset to op->layout; the rule may restrict it for these operands */
    int n_out;               /* preset to 1 */
    charl_type out[CHARL_OP_MAX_OUT];
    int64_t workspace; /* bytes; preset to 0 */
} charl__infer;

/** Operands of a launch. */
typedef struct charl__enqueue {
    const charl__op *op;
    charl_device *dev;
    const char *label; /* node name */
    const void *attr;
    int n_in, n_out;
    charl_tensor *const *in;
    charl_tensor *const *out; /* of a PARTIAL output: lane 0 */

    /* For PARTIAL outputs k. */
    int64_t lane_stride[CHARL_OP_MAX_OUT]; /* elements from lane to lane; 0: not PARTIAL */
    /* sums of slices, and every node of the tree, are rounded to bf16 */
    bool rounds[CHARL_OP_MAX_OUT];
    int parts;                  /* leaves of `slices` per slice; 0 means 1 */
    const charl_slices *slices; /* of this rank; never NULL */

    charl_tensor *workspace; /* f32 [workspace / 4], or NULL */
    /* u32 [16]: a charl__step_params, which kernels declare as `global const charl__step_params *` */
    charl_tensor *step;

    /* Bit i: operand i is a parameter, in a graph that continues sequences with a cache: no launch of the graph writes it */
    unsigned constant;

    /* Of fused nodes, for operators that allow fusion. */
    const struct charl__gemm_epilogue *epilogue; /* applied to the product; or NULL */
    /* node that computes in[0] (then NULL) while it is read (autograd/fuse/prologue.h); or NULL */
    const struct charl__enqueue *prologue;
} charl__enqueue;

/** Input and output of a gradient rule. Operands and outputs have their types in the graph. If none is BATCHED, half-precision ones
 *  are converted to f32, the type of their gradients (charl__gradient_dtype), unless the operator only moves data. */
typedef struct charl__backward {
    const charl__op *op;
    charl_graph *g;
    const void *attr;
    int n_in, n_out;
    charl_var *const *in;
    charl_var *const *out;
    charl_var *const *gout; /* NULL: no gradient arrives */
    charl_var **gin;        /* result; NULL: no gradient */
    const bool *needed;     /* per input: whether its gradient is used */
    /* per input: gradient from later uses, to be added to gin by the caller; NULL: none */
    charl_var *const *before;
    bool *added; /* per input: set by a rule that has added `before` itself */
} charl__backward;

/** Operands of the double-precision reference. */
typedef struct charl__reference {
    const charl__op *op;
    const void *attr;
    int n_in, n_out;
    const double *const *in;
    const charl_type *in_type;
    double *const *out;
    const charl_type *out_type;
    const charl__step_params *step;
    int64_t row0; /* global row of row 0 of BATCHED operands */
} charl__reference;

/** A sample of the operator's domain. */
typedef charl_operator_sample charl__op_sample;

struct charl__onnx_node;

/** The formula of an elementwise operator, from which its kernel is generated, alone or in a chain with others (autograd/fuse/chain.h). */
typedef struct charl__expr {
    /* OpenCL C over a, b, c, ... (operands as charl_real: float or a vector of floats), floats p and q, and draw */
    const char *text;
    const char *half_text; /* for a result of a half type; NULL: text */
    int numbers;           /* how many of p and q the text uses */
    float p, q;
    /* the text uses draw: an integer from [0, 2^24), charl_rng_u32 >> 8 at the position of the element */
    bool uses_rng;
    bool batched; /* uses_rng: rows are rows of the batch */
    uint64_t key; /* uses_rng: hash of the layer's name */
} charl__expr;

struct charl__op {
    const char *name;    /* unique, lower_snake_case */
    const char *formula; /* for documentation, traces and messages */

    /* Operands and attributes. */
    int n_in;         /* number of operands; negative: at least -n_in */
    int n_optional;   /* how many of the last may be omitted */
    size_t attr_size; /* bytes of the attribute struct, copied into the node; 0: none */

    /* Properties. */
    bool moves; /* only moves data: exact, linear, allowed on PARTIAL values */
    bool view;  /* output 0 is the memory of input 0 with another shape: no enqueue */
    /* changes an input in place (running statistics): never dead. Kernels obey step->commit */
    bool effect;
    /* how many of the first outputs may overwrite inputs of the same shape that are not used later; true: output 0 */
    int in_place;
    charl__op_layout layout; /* of images */
    bool cheap; /* costs a few passes over memory, like an elementwise operator: may be recomputed instead of kept */
    /* cheap; computes output 1 in f32, without rounding the intermediate, from output 0 and operands 2 and after; or NULL */
    const charl__op *recompute_op;

    /* Fusion. */
    /* one matrix product per output element: enqueue passes e->epilogue to charl__gemm_enqueue */
    bool epilogue;
    bool draws_apart; /* random numbers are drawn in a launch of their own, not in its epilogue */
    /* the same, depending on these operand types and output 0; NULL: see epilogue */
    bool (*epilogue_if)(const charl__infer *inf);
    /* operand 0, images channels-last, may be computed while it is read: enqueue uses e->prologue */
    bool prologue;

    /* Half precision. */
    unsigned half; /* bit i: operand i may be stored as bf16 or f16; 0: f32 only */
    bool mixed;    /* half-precision operands may differ in type */
    /* tensor cores round intermediate values to the half type: tests allow two more epsilons of the largest result */
    bool narrows;

    charl_status (*infer)(charl__infer *inf);
    charl_status (*enqueue)(const charl__enqueue *e); /* NULL: generated from expr or express */
    /* elementwise, broadcast over the shape of the output: charl__expr.text */
    const char *expr;
    const char *half_expr; /* charl__expr.half_text */
    int expr_numbers;      /* the attribute is this many floats, p and q of expr */
    void (*express)(const void *attr, int n_in, charl__expr *x); /* fills in x from attributes */
    void (*backward)(const charl__backward *b);                  /* NULL: not differentiable */
    void (*reference)(const charl__reference *r);
    /* replaces reference, elementwise: the result for elements x[i] of operand i */
    double (*element)(const void *attr, const double *x);
    /* export: the ONNX operator with the same operands and result ... */
    const char *onnx_type;
    /* ... or a function that appends several (autograd/onnx/onnx.h) */
    void (*onnx)(const struct charl__onnx_node *n);
    /* floating-point operations of its matrix products, for throughput figures; NULL: none */
    double (*flop)(const charl__infer *inf);

    const charl__op_sample *samples;
    int n_samples;

    const void *row; /* the differences of operators that share functions */
};

/** A function for .element that takes no attribute: `value`, an expression of x[0], x[1], ... */
#define CHARL_ELEMENT(function, value)                                                                                 \
    static double function(const void *attr, const double *x)                                                          \
    {                                                                                                                  \
        (void)attr;                                                                                                    \
        return value;                                                                                                  \
    }

/** For a builder `what`: record an error and return NULL where its argument p is NULL. */
#define CHARL_BUILDER_GIVEN(g, what, p)                                                                                \
    do {                                                                                                               \
        if (!(p)) {                                                                                                    \
            return charl__graph_fail(g, CHARL_ERR_INVALID, "%s: %s is NULL", what, #p);                                \
        }                                                                                                              \
    } while (0)

/** Builders charl_NAME of operators without attributes, of one operand and of two. */
#define CHARL_BUILDER1(name)                                                                                           \
    charl_var *charl_##name(charl_graph *g, charl_var *x)                                                              \
    {                                                                                                                  \
        return charl__apply1(g, &charl_op_##name, NULL, x);                                                            \
    }
#define CHARL_BUILDER2(name)                                                                                           \
    charl_var *charl_##name(charl_graph *g, charl_var *a, charl_var *b)                                                \
    {                                                                                                                  \
        return charl__apply2(g, &charl_op_##name, NULL, a, b);                                                         \
    }

/* For .half: one operand, all operands. */
#define CHARL_HALF(i) (1U << (i))
#define CHARL_HALF_ALL ((1U << CHARL_OP_MAX_IN) - 1)

#define CHARL_SAMPLES(arr) .samples = (arr), .n_samples = (int)(sizeof(arr) / sizeof((arr)[0]))

/* In samples: floats in [-most, most), sums of n terms. */
#define CHARL_WITHIN(most, n) .lo = -(most), .hi = (most), .terms = (n)

/* The functions and samples of an operator that are named after it: infer_SUFFIX or, in a file with one operator only, infer. */
#define CHARL_RULES(suffix)                                                                                            \
    .infer = infer##suffix, .enqueue = enqueue##suffix, .reference = reference##suffix, CHARL_SAMPLES(samples##suffix)

/* Operand types in samples: CHARL_R(F32, 2, 3) replicated, CHARL_B(F32, 16, 3) batched. */
#define CHARL_R(dt, ...)                                                                                               \
    {                                                                                                                  \
        CHARL_##dt, {(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}}, CHARL_REPLICATED       \
    }
#define CHARL_B(dt, ...)                                                                                               \
    {                                                                                                                  \
        CHARL_##dt, {(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}}, CHARL_BATCHED          \
    }
#define CHARL_SCALAR(dt)                                                                                               \
    {                                                                                                                  \
        CHARL_##dt, {0, {0}}, CHARL_REPLICATED                                                                         \
    }

/** The table of all operators, from ops.def. */
extern const charl__op *const charl__op_table[];
extern const int charl__op_count;
const charl__op *charl__op_find(const char *name); /* also finds operators of programs; NULL if unknown */

/** Append a node and return its first output; builders are one-line calls of these. If an operand is NULL, the result is NULL. */
charl_var *charl__apply1(charl_graph *g, const charl__op *op, const void *attr, charl_var *a);
charl_var *charl__apply2(charl_graph *g, const charl__op *op, const void *attr, charl_var *a, charl_var *b);
/** The same with all outputs, outs[CHARL_OP_MAX_OUT]; NULLs after an error. */
void charl__apply(charl_graph *g, const charl__op *op, const void *attr, charl_var *const *in, int n_in,
                  charl_var **outs);
/** The same for n operands; trailing operands that may be omitted may be NULL. Returns the first output. */
charl_var *charl__apply_n(charl_graph *g, const charl__op *op, const void *attr, charl_var *const *in, int n_in);
/** Record an error found by a builder, prefixed with the name of the scope. Returns NULL. */
charl_var *charl__graph_fail(charl_graph *g, charl_status st, const char *fmt, ...) CHARL_PRINTF(3, 4);
/** Whether `v`, setting `name` of builder `what`, is in a range written as for a key (base/registry/key.h); otherwise records an error. */
bool charl__graph_check_range(charl_graph *g, const char *what, const char *name, double v, const char *range);
/** charl_scale by numbers from charl itself: 1 / n of no elements is infinite, and a mean of none NaN, as in PyTorch. */
charl_var *charl__scale(charl_graph *g, charl_var *x, float factor, float offset);
/** Extend the message of the graph's first error to "ORIGIN: MESSAGEAFTER"; origin may be NULL. With an origin, ERR_INVALID becomes
 * ERR_CONFIG, as for other keys of a configuration. Errors: ERR_NOMEM, the message unchanged. */
charl_status charl__graph_explain(charl_graph *g, const char *origin, const char *after) CHARL_MUST_CHECK;
/** The name that the next node of this operator will get, e.g. "drop1.dropout"; its charl__fnv1a64 hash is a random key. */
const char *charl__graph_next_name(charl_graph *g, const char *op_name, char *text, size_t bytes);
const charl_slices *charl__graph_slices(const charl_graph *g);
/** False if g is built only to be described or exported, with any batch, and never runs. */
bool charl__graph_has_device(const charl_graph *g);

/* Shared shape rules (infer.c). */
/** "batched", "partial" or "replicated". */
const char *charl__batch_name(charl_batch b);
/** Run op->infer after checking that half-precision operands are allowed. Errors: ERR_DTYPE "not available in bf16"; those of the rule. */
charl_status charl__op_infer(const charl__op *op, charl__infer *inf) CHARL_MUST_CHECK;
/** Mark all outputs BATCHED if any input is. Call after shapes are set. Errors: ERR_SHAPE when a BATCHED input has no leading extent. */
charl_status charl__infer_rows(charl__infer *inf);
/** Check that operand 0 holds f32 images [rows, channels, height, width] whose pixels, also in groups, an int can count. Errors: ERR_SHAPE. */
charl_status charl__infer_images(const charl__infer *inf) CHARL_MUST_CHECK;
/** Check that operands a and b, one of which has a row for each row of the other, are both BATCHED or neither is: a REPLICATED one would give
 *  the rows of every rank the same values. Errors: ERR_SHAPE. */
charl_status charl__infer_same_rows(const charl__infer *inf, int a, int b);
/** Check whether operand i may broadcast along the batch to out[0], which has the shape of operand `full`: part of charl__infer_broadcast.
 *  Errors: ERR_SHAPE. */
charl_status charl__infer_broadcast_rows(const charl__infer *inf, int full, int i);
/** Check that operands first .. end - 1 are floats. Errors: ERR_DTYPE. */
charl_status charl__infer_floats(const charl__infer *inf, int first, int end) CHARL_MUST_CHECK;
/** Give out[0] the type of in[0]. Errors: ERR_DTYPE when that is not a float. */
charl_status charl__infer_same(charl__infer *inf);
/** Infer out[0] of an elementwise operator. One operand has the full shape and determines shape and type. Every other operand
 *
 *      has the same type, or is f32 with fewer elements or dimensions (a vector, a statistic), and
 *      has the full shape, is a scalar, or broadcasts: its shape without leading and trailing 1s is a contiguous run of the full shape's
 *      extents, aligned as in PyTorch.
 *
 *  Errors: ERR_SHAPE, ERR_DTYPE. */
charl_status charl__infer_broadcast(charl__infer *inf);
/** Broadcasting of an operand over `full`: element i of full reads operand[(i / inner) % count]. Returns false if shapes do not fit. */
bool charl__broadcast_index(const charl_shape *full, const charl_shape *operand, int64_t *inner, int64_t *count);

/* For .flop. product: output 0 = operand 0 @ operand 1. weights: every element of `values` is multiplied with all elements of w that have
 * the same index along dimension `extent`. */
double charl__flop_product(const charl__infer *inf);
double charl__flop_weights(const charl_shape *values, const charl_shape *w, int extent);

/** charl__broadcast_index in memory order. If the full shape is channels-last, so is an operand of that shape; a smaller operand has one
 *  number per channel, or a single number. */
bool charl__broadcast_in(bool channels_last, const charl_shape *full, const charl_shape *operand, int64_t *inner,
                         int64_t *count);

/** For a reference: set output k to 0. */
void charl__reference_clear(const charl__reference *r, int k);

/* Shared launches. Those in src/tensor take plain tensors; these know operators. */
/** Launch an operator: op->enqueue, or its elementwise expression. Async. Errors: those of the operator. */
charl_status charl__op_enqueue(const charl__op *op, const charl__enqueue *e) CHARL_MUST_CHECK;
/** Run the reference of an operator: op->reference, or op->element for every element of out[0]. */
void charl__op_reference(const charl__op *op, const charl__reference *r);
static inline bool charl__op_launches(const charl__op *op)
{
    return op->enqueue || op->expr || op->express;
}
/** Set x->text to the expression of an elementwise operator for a result of `type`. Returns false for other operators. */
bool charl__op_express(const charl__op *op, const void *attr, int n_in, charl_dtype type, charl__expr *x);
/** dtype of a value's gradient: the value's own if it is BATCHED; f32 if the gradient is a sum over rows, as for parameters. */
static inline charl_dtype charl__gradient_dtype(const charl_type *t)
{
    return t->batch == CHARL_BATCHED ? t->dtype : CHARL_F32;
}
/** Argument: the position in the global batch of the first of n elements, which the slices of e share equally; 0 if they are not part of the batch. */
static inline charl__arg charl__batch_position(const charl__enqueue *e, bool batched, int64_t n)
{
    const int64_t per_slice = batched ? n / e->slices->count : 0;

    return charl__position(per_slice * e->slices->first, per_slice);
}
/** v converted to another float type; v itself if it has that type. */
charl_var *charl__as_dtype(charl_graph *g, charl_var *v, charl_dtype dtype);

/** charl_max with the axis kept, and the index of the largest along it: *index, i32. */
charl_var *charl__max_index(charl_graph *g, charl_var *x, int axis, charl_var **index);
/** Complete a reduction. `part` holds e->slices->count consecutive partial results of n elements; the slices of every lane are folded in
 *  the fixed tree into output k, rounded if e->rounds[k]. If there is only one slice in all, the operator writes its output directly
 *  (charl__fold_is_direct), and the reader of the lane rounds it. */
charl_status charl__fold(const charl__enqueue *e, charl_tensor *part, int64_t n, int k);
/** Lane j of output k, without checks. */
charl__arg charl__lane_out(const charl__enqueue *e, int k, int j);
/** charl__fold for partial results at any offset in a buffer, without checks. */
charl_status charl__fold_from(const charl__enqueue *e, charl__arg part, int64_t n, int k);
/** Partial results are [rows, taps, padded] for an output [rows, channels, taps]. */
typedef struct charl__fold_move {
    int64_t channels, taps, padded;
} charl__fold_move;
/** Partial results of output k, which has n elements. */
typedef struct charl__fold_input {
    charl__arg part;
    int64_t n;
    int k;
    const charl__fold_move *move; /* NULL: ordered as the output */
} charl__fold_input;
/** charl__fold of one or two outputs, with one launch per lane if both are rounded or neither. Not if charl__fold_is_direct, except for an
 *  input that moves. */
charl_status charl__fold_inputs(const charl__enqueue *e, const charl__fold_input *in, int n_in) CHARL_MUST_CHECK;
bool charl__fold_is_direct(const charl__enqueue *e); /* one slice, one lane */
/** Set the parameters of kernels/shared/tree.clh to fold this number of leaves into a lane of output k. */
void charl__fold_params(const charl__enqueue *e, int k, int leaves, charl__launch *l);
/** Destination of the results of slices: output k if direct, else the workspace (at least slices->count * n floats). */
charl_tensor *charl__fold_target(const charl__enqueue *e, int k);

/** Run an operator on tensors without a graph, for tests and tools.  Outputs are new and owned by the caller. */
charl_status charl__run_op(charl_device *dev, const charl__op *op, const void *attr, charl_tensor *const *in, int n_in,
                           charl_tensor **out) CHARL_MUST_CHECK;

#define CHARL_OP(name) extern const charl__op charl_op_##name;
#include "autograd/ops.def"

#endif
