#ifndef CHARL_OPERATOR_H
#define CHARL_OPERATOR_H
/** Custom operators: described, registered, used in graphs and checked like charl's own.
 *
 *  An elementwise operator is an OpenCL C expression; it is fused with its neighbours:
 *
 *      static double reference(const void *attr, const double *x) { return x[0] * x[0]; }
 *      static const charl_operator square = {.name = "square", .formula = "out = x^2", .n_in = 1, .expr = "a * a",
 *                                            .element = reference, .backward = gradient,
 *                                            .samples = samples, .n_samples = 2};
 *
 *      charl_register_operator(&square);
 *      charl_operator_check(dev, "square", NULL, &report);         compare with the reference, in a test
 *      y = charl_operator_apply(g, &square, NULL, &x, 1, NULL);    while a graph is built
 *
 *  Any other operator has a shape rule, kernels, and a function that launches them (examples/custom_operator.c).
 *  The gradient is composed of operators, charl's or custom ones. Checking needs a reference in double precision
 *  and samples, which describe the inputs to test with.
 *
 *  Batch rule: an output of BATCHED operands is either BATCHED (row i depends only on row i of the operands) or
 *  PARTIAL (a sum over the rows). To make the bits independent of the number of ranks, an operator with a PARTIAL
 *  output computes one sum per slice of its rows and adds these with charl_operator_fold. The bits of an output may
 *  depend on shapes, but not on memory addresses, on the work-group sizes that a device allows, or on the order of
 *  atomic operations.
 */
#include "charl/graph.h"

CHARL_BEGIN_DECLS

enum {
    CHARL_OPERATOR_MAX_IN = 8,
    CHARL_OPERATOR_MAX_OUT = 4,
    CHARL_OPERATOR_MAX = 64,   /* per process */
    CHARL_KERNEL_MAX_ARGS = 24 /* per launch */
};

/** Argument of the shape rule, which fills in the outputs. The caller adds the operator's name to errors that the
 *  rule returns. */
typedef struct charl_operator_types {
    const void *attr;
    int n_in;
    const charl_type *in;
    int n_slices; /* of this process: a BATCHED extent is a multiple of it */
    int n_out;    /* preset to 1 */
    /* Preset to the type of in[0]. Set `batch` for PARTIAL outputs only; all others are BATCHED if any operand is. */
    charl_type out[CHARL_OPERATOR_MAX_OUT];
    int64_t workspace_bytes; /* scratch memory for the kernels; preset to 0 */
} charl_operator_types;

/** Argument of the launching function. Tensors are borrowed; of a PARTIAL output the tensor is its first lane. */
typedef struct charl_operator_run {
    const void *attr;
    int n_in, n_out;
    charl_tensor *const *in;
    charl_tensor *const *out;
    int n_slices; /* of this process: rows of slice s are [s * rows / n_slices, (s + 1) * rows / n_slices) */
    const void *internal;
} charl_operator_run;

/** Argument of the gradient rule, which sets gin[i], of the shape of in[i], if needed[i]. */
typedef struct charl_operator_gradient {
    charl_graph *g;
    const void *attr;
    int n_in, n_out;
    charl_var *const *in;
    charl_var *const *out;
    charl_var *const *gout; /* gradients of the outputs; NULL: none */
    charl_var **gin;        /* preset to NULL: no gradient */
    const bool *needed;
} charl_operator_gradient;

/** Argument of the reference: complete operands in row-major order, and memory for the outputs. */
typedef struct charl_operator_reference {
    const void *attr;
    int n_in, n_out;
    const double *const *in;
    const charl_type *in_type;
    double *const *out;
    const charl_type *out_type;
} charl_operator_reference;

/** Inputs to test with. Float operands are drawn at random from [lo, hi) with |x| >= away (to avoid kinks and
 *  poles at 0), integers from [int_begin, int_end). At least one sample must have BATCHED operands whose number of rows
 *  is a multiple of 8. */
typedef struct charl_operator_sample {
    charl_type in[CHARL_OPERATOR_MAX_IN];
    int n_in; /* 0: n_in of the operator */
    const void *attr;
    double lo, hi, away; /* lo and hi 0: -3 and 3 */
    int64_t int_end;     /* 0: 2 */
    int64_t int_begin;
    int64_t terms;      /* length of the longest sum in an output element; scales the tolerance. 0: 1 */
    double ulp;         /* allowed error in units of the last place; 0: 4 */
    bool skip_gradient; /* the derivative does not exist everywhere in the range */
} charl_operator_sample;

/** An operator. The struct, its strings and its samples must live as long as the process: make them static. */
typedef struct charl_operator {
    const char *name;    /* unique among all operators, lower_snake_case */
    const char *formula; /* for documentation: "out = x^2" */
    int n_in;            /* operands */
    size_t attr_size;    /* bytes of the settings, copied into the graph; 0: none */

    /* Elementwise operators, which broadcast like charl_add: an OpenCL C expression of the operands a, b, c, ...,
     * each a float or a vector of floats, and of the settings p and q. attr_size is that of zero, one or two
     * floats. Operands may be f32, bf16 or f16. */
    const char *expr;
    /* The reference of `expr`: returns one element of the result; x[i] is the element of operand i. */
    double (*element)(const void *attr, const double *x);

    /* All other operators; float operands are f32.
     *   source      kernels in OpenCL C 1.2, compiled without contraction of a * b + c
     *   types       the shape rule; NULL: one output, of the type of in[0]
     *   run         launches the kernels
     *   reference   the definition in double precision, slow and obviously correct */
    const char *source;
    charl_status (*types)(charl_operator_types *t);
    charl_status (*run)(const charl_operator_run *r);
    void (*reference)(const charl_operator_reference *r);

    void (*backward)(const charl_operator_gradient *b); /* NULL: not differentiable */

    const charl_operator_sample *samples;
    int n_samples;
} charl_operator;

/** Register an operator under its name. Registering the same operator again is a no-op. Local. Thread-safe.
 *  Errors: ERR_INVALID  the name is taken or invalid, both or neither of expr and source are set, a required member
 *  is missing, or there are more than CHARL_OPERATOR_MAX operators. */
charl_status charl_register_operator(const charl_operator *op) CHARL_MUST_CHECK;

/** Append a registered operator to g. Returns its first output, borrowed from g, or NULL after an error, which
 *  charl_graph_compile returns. If outs is not NULL, outs[0 .. CHARL_OPERATOR_MAX_OUT) are set to the outputs, and
 *  to NULL past the last. `attr` is copied. Local. */
charl_var *charl_operator_apply(charl_graph *g, const charl_operator *op, const void *attr, charl_var *const *in,
                                int n_in, charl_var **outs);

/** Name of operator i = 0, 1, ...: first charl's, then registered ones; NULL after the last. Local. */
const char *charl_operator_name(int i);

/** Whether there is an operator `name` that can be checked with operands of type `precision`: f32, or a half type that
 *  it supports. Local. */
bool charl_operator_takes(const char *name, charl_dtype precision);

/* Launches. A tensor is passed to a kernel as two arguments, the buffer and the index of its first element:
 *
 *     kernel void square(global const float *x, ulong x_at, global float *out, ulong out_at, long n)
 */
typedef enum charl_kernel_arg_kind {
    CHARL_KERNEL_END, /* ends a list that is not full */
    CHARL_KERNEL_IN,  /* operand `value` of the operator */
    CHARL_KERNEL_OUT, /* output `value`, read and written */
    /* The sums per slice of the PARTIAL output `value`: [n_slices, shape], input of charl_operator_fold. They are
     * stored at the beginning of the workspace. */
    CHARL_KERNEL_SLICES,
    CHARL_KERNEL_WORKSPACE, /* f32 */
    CHARL_KERNEL_INT,       /* int */
    CHARL_KERNEL_LONG,      /* long */
    CHARL_KERNEL_FLOAT,     /* float */
    CHARL_KERNEL_LOCAL      /* `value` bytes of local memory */
} charl_kernel_arg_kind;

/** An argument of a launch: {CHARL_KERNEL_IN, 0} is operand 0, {CHARL_KERNEL_LONG, n} a number. */
typedef struct charl_kernel_arg {
    charl_kernel_arg_kind kind;
    int64_t value;
    float number; /* of FLOAT, instead of value */
} charl_kernel_arg;

/** A launch of a kernel of charl_operator.source. */
typedef struct charl_kernel {
    const char *entry;
    const char *defines; /* lines inserted before the source, such as "#define N 4\n"; NULL: none */
    size_t global[3];    /* work-items; 0 in [1] or [2] means 1; global[0] = 0 launches nothing */
    size_t local[3];     /* work-group; 0 means 1 */
    charl_kernel_arg args[CHARL_KERNEL_MAX_ARGS];
} charl_kernel;

/** Launch a kernel. Call it from `run` only. Async. Local.
 *
 *  Errors: ERR_KERNEL   with the compiler's log
 *          ERR_INVALID  the arguments do not match the kernel, or the device does not support the work-group size
 *          ERR_DEVICE */
charl_status charl_operator_launch(const charl_operator_run *r, const charl_kernel *k) CHARL_MUST_CHECK;

/** Fold the sums per slice, which kernels have written to CHARL_KERNEL_SLICES, into the PARTIAL output k, in the
 *  fixed tree. The shape rule must request n_slices times the size of the output as workspace. Call it from `run`
 *  only. Async. Local.
 *  Errors: ERR_INVALID  output k is not PARTIAL, or the workspace is too small; ERR_DEVICE. */
charl_status charl_operator_fold(const charl_operator_run *r, int k) CHARL_MUST_CHECK;

/** How to check. All members may be zero. */
typedef struct charl_operator_check_options {
    size_t struct_size;    /* sizeof(charl_operator_check_options) */
    charl_dtype precision; /* of operands that may be bf16 or f16; f32, or one of these if the operator supports it */
    uint64_t seed;         /* of the operands */
    bool brief;            /* stop after the first sample with BATCHED operands */
    bool outputs_only;     /* only outputs and their bits from run to run: whether a device computes what it should */
    /* Called after each sample that passed; NULL: none. */
    void (*passed)(void *ctx, int sample, double ulp, double used);
    void *ctx;
} charl_operator_check_options;

/** Result of a check. */
typedef struct charl_operator_report {
    int samples;   /* number of samples checked */
    int gradients; /* number of these whose gradients were checked */
    double ulp;    /* largest error of an output, in units of the last place */
    double used;   /* largest ratio of error to tolerance: at most 1 */
    /* SHA-256 of the bits of the outputs of all samples, with every NaN as one; the same for the same seed on devices
     * that round alike. "" after a failure */
    char hash[65];
} charl_operator_report;

/** Check the operator `name`, charl's or a registered one, with all its samples:
 *
 *    outputs      within the tolerance of the reference
 *    NaN          propagates from each operand exactly as in the reference
 *    memory       nothing but the outputs is written
 *    bits         the same at any memory offset, from run to run, in a graph and replayed, slice by slice and in
 *                 lanes as on several ranks
 *    gradients    compared with central differences of the reference
 *
 *  `options` and `report` may be NULL.
 *
 *  Blocks. Local. Deterministic.
 *  Errors: ERR_INVALID  a check failed (the message has operator, sample, element and values), there is no such
 *                       operator, or it has no samples or none with BATCHED operands
 *          ERR_KERNEL, ERR_DEVICE, ERR_NOMEM */
charl_status charl_operator_check(charl_device *dev, const char *name, const charl_operator_check_options *options,
                                  charl_operator_report *report) CHARL_MUST_CHECK;

/** One digest of what a device computes in `precision`, f32, bf16 or f16: SHA-256 over a line "NAME HASH" for every
 *  operator that takes it, charl's and then registered ones, with the hash that charl_operator_check reports for
 *  `seed`. Devices with the same digest have computed the same bits. In half types, compare devices that were opened
 *  with exact_half.
 *
 *  each  NULL, or called with the hash of every operator; "" for one whose check failed
 *  hash  [65] hexadecimal digits; the caller's; "" after an error
 *
 *  Blocks. Local. Deterministic. Errors: those of the first charl_operator_check that failed, after all others;
 *  ERR_DTYPE  another precision. */
charl_status charl_operator_hash(charl_device *dev, charl_dtype precision, uint64_t seed,
                                 void (*each)(void *ctx, const char *name, const char *hash), void *ctx,
                                 char hash[65]) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
