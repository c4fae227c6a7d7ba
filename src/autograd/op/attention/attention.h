#ifndef CHARL_AUTOGRAD_OP_ATTENTION_ATTENTION_H
#define CHARL_AUTOGRAD_OP_ATTENTION_ATTENTION_H
/** Shared declarations of the attention operators. */
#include "attention/attention_args.h"
#include "autograd/op.h"

/** Attribute of all of them. */
typedef struct charl__attention_attr {
    int heads, kv_heads;
    float scale;
    float softcap; /* > 0: limit of the scores */
    float p;       /* of dropout */
    bool causal;
    bool batched; /* the first extent is the batch */
    uint64_t key; /* hash of the layer's name */
    bool begins;  /* attention_cached: the rows are positions 0, 1, ... of one sequence */
    bool starts;  /* the last operand, i32 [B, T], is the first key that each query sees; causal only */
    bool lengths; /* the last operand, i32 [B], is the number of keys of each row; not causal */
    bool cross;   /* cross_attention: qkv holds queries only, and the next operand keys and values; not causal */
    int window;   /* > 0: a query sees so many keys at most, itself the last one; causal only */
} charl__attention_attr;

/** Rows, positions of queries and of keys, and elements of a head. */
typedef struct charl__attention_extents {
    int64_t b, t, d, t_keys;
} charl__attention_extents;

charl__attention_extents charl__attention_extents_get(const charl_shape *qkv, const charl__attention_attr *a);

/** Check operand `qkv`, [B, T, (heads + 2 kv_heads) * D], of any float type; with a->cross [B, T, heads * D],
 *  and the operand after it, [B, keys, 2 kv_heads * D], of the same type.
 *  Errors: ERR_SHAPE, ERR_DTYPE. */
charl_status charl__attention_check(const charl__infer *inf, int qkv) CHARL_MUST_CHECK;

/** Enqueue attention of qkv, and with a->cross of operand 1, to out and lse (a tensor, or a part of the workspace). Async. Errors:
 *  ERR_KERNEL, ERR_DEVICE. */
charl_status charl__attention_forward(const charl__enqueue *e, const charl_tensor *qkv, const charl_tensor *out,
                                      charl__arg lse) CHARL_MUST_CHECK;

/** The factor of the scores that kernels take, and that of products before tanh; 0 without a softcap. */
static inline float charl__attention_scale(const charl__attention_attr *a)
{
    return a->softcap > 0.0F ? a->softcap : a->scale;
}

static inline float charl__attention_inner(const charl__attention_attr *a)
{
    return a->softcap > 0.0F ? a->scale / a->softcap : 0.0F;
}

/** Append the arguments at the end of every kernel's list, and set their numbers in *args, which is borrowed until l is enqueued. */
void charl__attention_arguments(const charl__enqueue *e, charl__attention_extents x, charl__attention_args *args,
                                charl__launch *l);

/** Whether attention on dev is computed by work-groups of CHARL__ATTENTION_GROUP, in local memory. */
enum { CHARL__ATTENTION_GROUP = 256 };
bool charl__attention_in_groups(const charl_device *dev);

/** The same on NVIDIA's tensor cores (nvidia/attention_tensor_core.c), for every half type and heads of a
 *  multiple of 8, at most 128 elements, if facts.nvidia.wgmma or mma, without lengths, softcap and another source:
 *  kernels/nvidia/attention/attention_tensor_core.cl describes the differences.
 */
bool charl__attention_on_tensor_cores(const charl_device *dev, const charl__attention_attr *a, charl_dtype dtype,
                                      int64_t d);
charl_status charl__attention_tensor_core(const charl__enqueue *e, const charl_tensor *qkv, const charl_tensor *out,
                                          charl__arg lse) CHARL_MUST_CHECK;
/** attention_grad. */
charl_status charl__attention_tensor_core_grad(const charl__enqueue *e) CHARL_MUST_CHECK;

/** attention in a graph that begins or continues sequences (autograd/kv_cache.h): the keys and values of its rows are stored in `cache`
 *  [S, N, 2 kv_heads * D]. With a->begins, qkv [1, T, (heads + 2 kv_heads) * D] are positions 0, 1, ... of sequence at[0], `at` i32 of one
 *  element; else row s of qkv [S, 1, ...] is position at[s] of sequence s, `at` i32 of S elements. Results beyond the cache's room are NaN. */
charl_var *charl__attention_cached(charl_graph *g, charl_var *qkv, charl_var *cache, charl_var *at,
                                   const charl__attention_attr *a);

#endif
