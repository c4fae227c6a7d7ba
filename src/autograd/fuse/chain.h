#ifndef CHARL_AUTOGRAD_FUSE_CHAIN_H
#define CHARL_AUTOGRAD_FUSE_CHAIN_H
/** Several elementwise operators fused (fuse.c) into one node with one kernel.
 *
 *  The kernel is generated from the operators' expressions and depends on them, on the operands' types
 *  and on which of them broadcast: numbers, keys and extents are arguments, so equal chains share one
 *  program. The result of every operator is rounded to the type it would have in memory, so the
 *  bits equal those of the separate operators.
 */
#include "autograd/op.h"
#include "base/text/text.h"

enum { CHARL_CHAIN_MAX = 8, CHARL_CHAIN_ARGS = 28 };

typedef struct charl__chain_step {
    charl__expr x;
    charl_dtype dtype; /* of the result */
    int n_in;
    /* operand i: input in[i] of the node, or result ~in[i] of an earlier step */
    int in[CHARL_OP_MAX_IN];
    int out; /* output of the node that stores the result; -1: no other node reads it */
} charl__chain_step;

/** Attribute of a chain's node. Element i of the chain reads element i / inner % count of an
 *  input. */
typedef struct charl__chain {
    int64_t n; /* elements */
    int64_t inner[CHARL_OP_MAX_IN], count[CHARL_OP_MAX_IN];
    int n_steps;
    charl__chain_step step[CHARL_CHAIN_MAX];
} charl__chain;

extern const charl__op charl__op_chain;

/** Arguments of the kernel (charl__launch): CHARL_CHAIN_ARGS at most. */
int charl__chain_args(const charl__chain *c, int n_in, int n_out);

/** A kernel while it is generated: parameters, each followed by a comma, and their arguments, which
 *  precede all others; statements that run once; statements for every vector; defines. */
typedef struct charl__chain_text {
    const charl__enqueue *e;
    const charl__chain *c;
    charl__text operands, before, body;
    charl__launch *l;
    int n_numbers, n_draws;
    int64_t period; /* > 0: vectors of a work-item are multiples of it apart */
} charl__chain_text;

/** Add statements that compute the result tK of every step K from inputs v0, v1, ... of type
 *  charl_real, with parameters and arguments for the steps' numbers. */
charl_status charl__chain_write_steps(charl__chain_text *w) CHARL_MUST_CHECK;
void charl__chain_text_fini(charl__chain_text *w);

/** out[0] = x elementwise over the operands of e. One launch. Async. Errors: ERR_NOMEM, ERR_KERNEL,
 *  ERR_DEVICE. */
charl_status charl__chain_run(const charl__enqueue *e, const charl__expr *x) CHARL_MUST_CHECK;

#endif
