#ifndef CHARL_AUTOGRAD_FUSE_PRODUCT_H
#define CHARL_AUTOGRAD_FUSE_PRODUCT_H
/** A matrix product fused with the elementwise operators that follow it (fuse_product.c). The bits are those of the separate operators
 *  (tensor/gemm/gemm.h).
 */
#include "autograd/op.h"
#include "tensor/gemm/gemm.h"

enum { CHARL_PRODUCT_STEPS = 2 };

/** An elementwise operator after the product. Operand 'a' is the product, or the result of the first step; 'b' and 'c' are inputs of the
 *  node that follow those of the product. */
typedef struct charl__product_step {
    charl__expr x;
    int n_operands;
    char operand[1 + CHARL_GEMM_EPILOGUE_IN];
} charl__product_step;

/** Attribute of such a node. Its inputs are the inputs of the product, then the other operands of the steps. Its outputs are the result and, if
 *  other nodes read it, the 'a' of one step. */
typedef struct charl__product {
    const charl__op *op; /* with an epilogue */
    const void *attr;    /* of op; borrowed from the graph */
    int n_in;
    charl_type type; /* of the product */
    int n_steps;
    charl__product_step step[CHARL_PRODUCT_STEPS];
    int saved; /* step whose 'a' is output 1; -1: none */
} charl__product;

extern const charl__op charl__op_product;

#endif
