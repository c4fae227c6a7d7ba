#ifndef CHARL_OPERATOR_H
#define CHARL_OPERATOR_H
/** Operators of one's own: described, registered, used in graphs and checked like charl's.
 *
 *  An elementwise operator is an expression of OpenCL C; it is fused with its neighbours:
 *
 *      static double reference(const void *attr, const double *x) { return x[0] * x[0]; }
 *      static const charl_operator square = {.name = "square", .formula = "out = x^2", .n_in = 1, .expr = "a * a",
 *                                            .element = reference, .backward = gradient,
 *                                            .samples = samples, .n_samples = 2};
 *
 *      charl_operator_register(&square);
 *      charl_operator_check(dev, "square", NULL, &report);         against the reference, in a test
 *      y = charl_operator_apply(g, &square, NULL, &x, 1, NULL);    while a graph is built
 *
 *  Any other has a rule for shapes, kernels, and a function that launches them (examples/custom_operator.c).
 * The gradient is made of operators, charl's or one's own. Checking needs a reference in double and samples:
 * points of the domain.
 *
 *  Batch rule: an output of BATCHED operands is BATCHED, row i from row i of the operands alone, or PARTIAL, a
 * sum over the rows. So that the bits do not depend on the number of ranks, an operator with a PARTIAL output
 * forms one sum for each slice of its rows and lets charl_operator_fold add them. Its bits may depend on shapes,
 * never on where in memory an operand lies, on the work-group size that a device allows, or on atomics.
 */
#include "charl/graph.h"

CHARL_BEGIN_DECLS

enum {
    CHARL_OPERATOR_MAX_IN = 8,
    CHARL_OPERATOR_MAX_OUT = 4,
    CHARL_OPERATOR_MAX = 64,   /* registered in a process */
    CHARL_KERNEL_MAX_ARGS = 24 /* of a launch */
};

/** What the shape rule sees and fills in. Statuses that it returns name the operator by themselves. */
typedef struct charl_operator_types {
    const void *attr;
    int n_in;
    const charl_type *in;
    int n_slices; /* of this process: a BATCHED extent is a multiple of it */
    int n_out;    /* preset to 1 */
    /* Preset to the type of in[0]. `batch` needs setting for PARTIAL outputs only: all others are BATCHED if an
     * operand is. */
    charl_type out[CHARL_OPERATOR_MAX_OUT];
    int64_t workspace_bytes; /* that the kernels need beside; preset to 0 */
} charl_operator_types;

/** What the launching function sees. Tensors are borrowed; a PARTIAL output's is the first lane. */
typedef struct charl_operator_run {
    const void *attr;
    int n_in, n_out;
    charl_tensor *const *in;
    charl_tensor *const *out;
    int n_slices; /* of this process: rows of slice s are [s * rows / n_slices, (s + 1) * rows / n_slices) */
    const void *internal;
} charl_operator_run;

/** What the gradient rule sees. It gives gin[i], of in[i]'s shape, where needed[i]. */
typedef struct charl_operator_gradient {
    charl_graph *g;
    const void *attr;
    int n_in, n_out;
    charl_var *const *in;
    charl_var *const *out;
    charl_var *const *gout; /* gradients of the outputs; NULL where none arrives */
    charl_var **gin;        /* preset to NULL, which is no gradient */
    const bool *needed;
} charl_operator_gradient;

/** What the reference sees: whole operands in row-major order, and memory for the outputs. */
typedef struct charl_operator_reference {
    const void *attr;
    int n_in, n_out;
    const double *const *in;
    const charl_type *in_type;
    double *const *out;
    const charl_type *out_type;
} charl_operator_reference;

/** A point of the domain. Float operands are drawn from [lo, hi) and kept |x| >= away (of kinks and poles),
 * integers from [0, int_end). One sample at least has BATCHED operands, whose rows are a multiple of 8. */
typedef struct charl_operator_sample {
    charl_type in[CHARL_OPERATOR_MAX_IN];
    int n_in; /* 0: the operator's */
    const void *attr;
    double lo, hi, away;
    int64_t int_end; /* 0: 2 */
    int64_t terms; /* length of the longest sum in an output element; scales the tolerance. 0: 1 */
    double ulp;    /* allowed error in units of the last place; 0: 4 */
    bool skip_gradient; /* at a point where the derivative does not exist */
} charl_operator_sample;

/** An operator. Strings, samples and the struct itself are used as long as the process lives: make it static.
 */
typedef struct charl_operator {
    const char *name;    /* unique among all operators, lower_snake_case */
    const char *formula; /* for people: "out = x^2" */
    int n_in;            /* operands */
    size_t attr_size;    /* bytes of the settings, copied into the graph; 0: none */

    /* Elementwise, with broadcasting as charl_add: OpenCL C of the operands a, b, c, ..., each a float or a
     * vector of floats, and of p and q, which are the settings: attr_size is 0, or that of one float or two.
     * Operands may be f32, bf16 or f16. */
    const char *expr;
    /* Its reference: an element of the result, x[i] that of operand i. */
    double (*element)(const void *attr, const double *x);

    /* Any other operator; float operands are f32. OpenCL C 1.2 of its kernels, in which contraction of a * b + c
     * is off; a function that sets the types of its outputs (NULL: one like in[0]); one that launches the kernels;
     * the definition, slow and obviously right. */
    const char *source;
    charl_status (*types)(charl_operator_types *t);
    charl_status (*run)(const charl_operator_run *r);
    void (*reference)(const charl_operator_reference *r);

    void (*backward)(const charl_operator_gradient *b); /* NULL: not differentiable */

    const charl_operator_sample *samples;
    int n_samples;
} charl_operator;

/** Make it known under its name. Repeating it does nothing. Local. Thread-safe.
 *  Errors: ERR_INVALID  the name is taken or is none, it has both or neither of expr and source, or a part of it
 * is missing; more than CHARL_OPERATOR_MAX. */
charl_status charl_operator_register(const charl_operator *op) CHARL_MUST_CHECK;

/** Append a registered operator to g; returns its first output, borrowed from g, NULL after an error, which the
 * graph keeps. outs may be NULL; else outs[0 .. CHARL_OPERATOR_MAX_OUT) get the outputs, NULL past the last.
 * `attr` is copied. Local. */
charl_var *charl_operator_apply(charl_graph *g, const charl_operator *op, const void *attr,
                                charl_var *const *in, int n_in, charl_var **outs);

/** Name of operator i = 0, 1, ... of all: charl's, then those registered; NULL after the last. Local. */
const char *charl_operator_name(int i);

/* Launches. A tensor is two arguments of a kernel, the buffer and the element where the tensor begins:
 *
 *     kernel void square(global const float *x, ulong x_at, global float *out, ulong out_at, long n)
 */
typedef enum charl_kernel_arg_kind {
    CHARL_KERNEL_END, /* of a list that is not full */
    CHARL_KERNEL_IN,  /* operand v.i64 of the operator */
    CHARL_KERNEL_OUT, /* output v.i64, read and written */
    /* Where the sums over slices of the PARTIAL output v.i64 go: [n_slices, shape], for charl_operator_fold. It lies
     * in the workspace, at its beginning. */
    CHARL_KERNEL_SLICES,
    CHARL_KERNEL_WORKSPACE, /* f32 */
    CHARL_KERNEL_INT,       /* int */
    CHARL_KERNEL_LONG,      /* long */
    CHARL_KERNEL_FLOAT,     /* float */
    CHARL_KERNEL_LOCAL      /* v.i64 bytes of local memory */
} charl_kernel_arg_kind;

typedef struct charl_kernel_arg {
    charl_kernel_arg_kind kind;
    union {
        int64_t i64;
        float f32;
    } v;
} charl_kernel_arg;

/** Arguments of a launch, as charl_kernel_arg_kind has them. Local. */
charl_kernel_arg charl_kernel_in(int i);
charl_kernel_arg charl_kernel_out(int k);
charl_kernel_arg charl_kernel_slices(int k);
charl_kernel_arg charl_kernel_workspace(void);
charl_kernel_arg charl_kernel_int(int x);
charl_kernel_arg charl_kernel_long(int64_t x);
charl_kernel_arg charl_kernel_float(float x);
charl_kernel_arg charl_kernel_local(int64_t bytes);

/** A launch of a kernel of charl_operator.source. */
typedef struct charl_kernel {
    const char *entry;
    const char *defines; /* lines in front of the source, "#define N 4\n"; NULL: none */
    size_t global[3];    /* work-items; 0 in [1] or [2] means 1; global[0] = 0 launches nothing */
    size_t local[3];     /* work-group; 0 means 1 */
    charl_kernel_arg args[CHARL_KERNEL_MAX_ARGS];
} charl_kernel;

/** Launch a kernel. For the function `run` only. Async. Local.
 *  Errors: ERR_KERNEL  with the compiler's log   ERR_INVALID  arguments that the kernel does not take, or
 * work-groups that the device does not allow   ERR_DEVICE. */
charl_status charl_operator_launch(const charl_operator_run *r,
                                   const charl_kernel *k) CHARL_MUST_CHECK;

/** Add the sums over slices that kernels left in charl_kernel_slices(k) into the PARTIAL output k, in the fixed
 * tree. The shape rule asks for n_slices times the output as workspace. For the function `run` only. Async. Local.
 * Errors: ERR_INVALID  output k is not PARTIAL, or the workspace is too small; ERR_DEVICE. */
charl_status charl_operator_fold(const charl_operator_run *r, int k) CHARL_MUST_CHECK;

/** How to check. All zero is right. */
typedef struct charl_operator_check_options {
    charl_dtype
        precision; /* of operands that may be half-size; f32, or bf16 or f16 where the operator takes them */
    uint64_t seed; /* of the operands */
    bool brief;    /* end with the first sample that has rows of the batch */
} charl_operator_check_options;

/** What a check found. */
typedef struct charl_operator_report {
    int samples;   /* that were checked */
    int gradients; /* of them with gradients */
    double ulp;    /* largest error of an output, in units of the last place */
    double used;   /* largest part of the allowed error that was used: at most 1 */
} charl_operator_report;

/** Check the operator called `name`, charl's or registered, at all its samples: outputs against the reference;
 * a NaN in an operand goes where it goes in the reference; nothing but the outputs is written; the same bits
 * at any offset in memory, from run to run, in a graph and replayed, slice by slice and in lanes as with several
 * ranks; gradients against central differences of the reference. `options` and `report` may be NULL.
 *
 *  Blocks. Local. Deterministic.
 *  Errors: ERR_INVALID  what is wrong, with operator, sample, element and values; also no such operator, no
 * samples, or none with rows of the batch   ERR_KERNEL, ERR_DEVICE, ERR_NOMEM */
charl_status charl_operator_check(charl_device *dev, const char *name,
                                  const charl_operator_check_options *options,
                                  charl_operator_report *report) CHARL_MUST_CHECK;

CHARL_END_DECLS

#endif
