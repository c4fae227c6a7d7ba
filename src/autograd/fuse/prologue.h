#ifndef CHARL_AUTOGRAD_FUSE_PROLOGUE_H
#define CHARL_AUTOGRAD_FUSE_PROLOGUE_H
/** An operator fused with the elementwise operators that compute its operand 0 (fuse_prologue.c): the values are computed as they are
 *  read. The bits equal those of the separate operators.
 */
#include "autograd/fuse/chain.h"

/** Attribute of such a node. Its inputs are operands 1, 2, ... of the operator, then the other inputs of the chain; it has the outputs of
 *  the operator. */
typedef struct charl__prologue {
    const charl__op *op; /* with a prologue */
    const void *attr;    /* of op; stored after this struct */
    int n_in;            /* operands of op, operand 0 included */
    charl__chain chain;  /* over the node's inputs; the result of its last step is operand 0 */
} charl__prologue;

extern const charl__op charl__op_prologue;

/** Code of a prologue, which a launch borrows. */
typedef struct charl__prologue_text {
    charl__chain_text chain;
    charl__text channels, fetch,
        result; /* once for several channels; for each of their elements; the result of the chain */
} charl__prologue_text;

/** Append to a launch of e the code that computes operand 0: arguments, which precede all others, and parameters (the statements of `chain`, see
 *  kernels/norm/prologue.clh). Images are channels-last. known[i] is the kernel's own name for operand i of the operator, if it has read it.
 *  Appends nothing if operand 0 is in memory. *text must be zero; the caller finalizes it. */
charl_status charl__prologue_write(const charl__enqueue *e, const char *const known[CHARL_OP_MAX_IN],
                                   charl__prologue_text *text, charl__launch *l) CHARL_MUST_CHECK;
void charl__prologue_text_fini(charl__prologue_text *text);

#endif
