#ifndef CHARL_AUTOGRAD_OP_LINEAR_FP8_H
#define CHARL_AUTOGRAD_OP_LINEAR_FP8_H
/** Linear layers whose products have operands of 8 bits. fp8.c defines what that means. */
#include "charl/graph.h"

typedef enum charl__fp8 {
    CHARL__E4M3, /* 4 bits of exponent, 3 of fraction: up to 448 */
    CHARL__E5M2  /* up to 57344 */
} charl__fp8;

/** x, f32 or bf16, with its last two extents in blocks that are rounded to `format`; of rows of the batch, each alone. NULL x: NULL. */
charl_var *charl__round_fp8(charl_graph *g, charl_var *x, charl__fp8 format);

/** charl_linear with x and w rounded to E4M3, and the gradient of its output to E5M2 for the products of both gradients. The bias and its
 *  gradient are not rounded. */
charl_var *charl__linear_fp8(charl_graph *g, charl_var *x, charl_var *w, charl_var *bias);

#endif
