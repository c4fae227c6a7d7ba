#ifndef CHARL_AUTOGRAD_PRODUCT_H
#define CHARL_AUTOGRAD_PRODUCT_H
/** A matrix product and the elementwise operator that follows it, as one node: what fusion
 * (fuse_product.c) makes of them. The bits are those of both one after the other (tensor/gemm.h).
 */
#include "autograd/op.h"
#include "tensor/gemm.h"

/** Attribute of such a node. Its inputs are the product's, then the other operands of the
 * expression; its outputs the result and, where others read it, the product. */
typedef struct charl_product {
    const charl_op *op; /* with an epilogue */
    const void *attr;   /* its; borrowed from the graph */
    int n_in;
    charl_type type; /* of the product */
    charl_expr x;
    int n_operands;
    char operand[1 + CHARL_GEMM_EPILOGUE_IN]; /* of the expression: 'a' the product, 'b' and 'c' the
                                                 inputs after its */
} charl_product;

extern const charl_op charl__op_product;

#endif
