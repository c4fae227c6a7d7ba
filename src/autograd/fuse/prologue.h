#ifndef CHARL_AUTOGRAD_FUSE_PROLOGUE_H
#define CHARL_AUTOGRAD_FUSE_PROLOGUE_H
/** An operator that forms its operand 0 as it reads, as one node: what fusion (fuse_prologue.c)
 * makes of elementwise operators and those that read what they give. The bits are those of one
 * after the other.
 */
#include "autograd/fuse/chain.h"

/** Attribute of such a node. Its inputs are operands 1, 2, ... of the operator, then what else the
 * chain reads; its outputs the operator's. */
typedef struct charl_prologue {
    const charl_op *op; /* with a prologue */
    const void *attr;   /* its; in the same memory, behind this */
    int n_in;           /* its operands, with operand 0 */
    charl_chain chain;  /* over the node's inputs; the result of its last step is operand 0 */
} charl_prologue;

extern const charl_op charl__op_prologue;

/** What a launch is told of e's operand 0: arguments that stand in front of all others and defines
 * (`chain`'s statements, see kernels/norm/prologue.clh). Images lie channels-last; known[i] is what
 * the kernel calls operand i of the operator, for those that it has at hand. Nothing where operand
 * 0 lies in memory. */
charl_status charl__prologue_write(const charl_enqueue *e, const char *const known[CHARL_OP_MAX_IN],
                                   charl__text *defines, charl_launch *l) CHARL_MUST_CHECK;

#endif
