#ifndef CHARL_KERNELS_ATTENTION_ATTENTION_ARGS_H
#define CHARL_KERNELS_ATTENTION_ATTENTION_ARGS_H
#include "shared/numbers.h"

/* The numbers of attention and its gradient: see attention.clh. */
typedef struct charl__attention_args {
    uint64_t qkv, kv, out, lse, mask, record; /* where the operands begin, */
    uint64_t gout, dots, glse, sums, dqkv,
        dkv; /* and those of the gradient; dots: gout . out, with the tensor cores' minus glse */
    uint64_t first_row,
        name_hash;      /* of dropout: row of the global batch of b = 0, key of the layer's random numbers, */
    uint32_t threshold; /* the value below which a draw drops, */
    float keep_scale;   /* and the factor of what is kept */
    float scale, inner; /* with a softcap: the limit, and the factor of products before tanh */
    int32_t t_all, t_keys, heads, kv_heads; /* positions of queries, and of keys */
} charl__attention_args;

#endif
