#ifndef CHARL_AUTOGRAD_FUSE_PRODUCT_H
#define CHARL_AUTOGRAD_FUSE_PRODUCT_H
/** A matrix product and the elementwise operators that follow it, as one node: what fusion
 * (fuse_product.c) makes of them. The bits are those of one after the other (tensor/gemm/gemm.h).
 */
#include "autograd/op.h"
#include "tensor/gemm/gemm.h"

enum { CHARL_PRODUCT_STEPS = 2 };

/** What the first step reads as 'a' is the product; for the second, what the first one gives. 'b'
 * and 'c' are the inputs after the product's. */
typedef struct charl_product_step {
    charl_expr x;
    int n_operands;
    char operand[1 + CHARL_GEMM_EPILOGUE_IN];
} charl_product_step;

/** Attribute of such a node. Its inputs are the product's, then the other operands of the steps;
 * its outputs the result and, where others read it, the 'a' of one step. */
typedef struct charl_product {
    const charl_op *op; /* with an epilogue */
    const void *attr;   /* its; borrowed from the graph */
    int n_in;
    charl_type type; /* of the product */
    int n_steps;
    charl_product_step step[CHARL_PRODUCT_STEPS];
    int kept; /* step whose 'a' is output 1; -1: none */
} charl_product;

extern const charl_op charl__op_product;

#endif
