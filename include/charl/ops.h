#ifndef CHARL_OPS_H
#define CHARL_OPS_H
/** The operators. Each function appends one to a graph and returns its output, borrowed from the graph.
 *
 *      charl_var *hidden = charl_relu(g, charl_linear(g, x, w1, b1)); // w1 [128, 784], b1 [128]
 *      charl_var *logits = charl_linear(g, hidden, w2, b2);           // w2 [10, 128], b2 [10]
 *      charl_var *loss = charl_batch_mean(g, charl_cross_entropy(g, logits, label, NULL, NULL));
 *
 *      charl_graph_keep(g, loss);
 *      charl_graph_backward(g, loss, NULL);
 *      check(charl_graph_compile(g)); // the first error of all calls above
 *
 *  NULL in gives NULL out: the graph keeps the first error, and charl_graph_compile returns it with the layer's name.
 *  Every operator may be refused with ERR_SHAPE or ERR_DTYPE; other errors are named.
 *
 *  All are Local; they run when the graph runs, Async. All are deterministic: bits do not depend on ranks, compute
 *  units, work-group size or position in memory. All take f32, bf16 or f16 and are differentiable, unless said
 *  otherwise. Shapes are PyTorch's; B is the batch.
 */
#include "charl/graph.h"

CHARL_BEGIN_DECLS

/* Elementwise. One operand has the full shape [...]. The other has the same shape, is a scalar, or broadcasts over
 * leading or trailing extents as in PyTorch: [C], [1, C, 1, 1] or [B, 1] against [B, C, H, W] or [B, C].
 * Cost: one read per operand, one write. */

/** out = a + b */
charl_var *charl_add(charl_graph *g, charl_var *a, charl_var *b);
/** out = a - b */
charl_var *charl_sub(charl_graph *g, charl_var *a, charl_var *b);
/** out = a * b */
charl_var *charl_mul(charl_graph *g, charl_var *a, charl_var *b);
/** out = a / b */
charl_var *charl_div(charl_graph *g, charl_var *a, charl_var *b);
/** out = factor * x + offset */
charl_var *charl_scale(charl_graph *g, charl_var *x, float factor, float offset);
/** out = (1 - w) * a + w * b. Exactly a at w = 0 and b at w = 1. */
charl_var *charl_lerp(charl_graph *g, charl_var *a, charl_var *b, charl_var *w);

/* Functions of one operand of any shape. NaN in gives NaN out. */

/** out = x > 0 ? x : 0 */
charl_var *charl_relu(charl_graph *g, charl_var *x);
/** min(max(x, 0), 6); the same of x + 3, divided by 6; and x times that. */
charl_var *charl_relu6(charl_graph *g, charl_var *x);
charl_var *charl_hardsigmoid(charl_graph *g, charl_var *x);
charl_var *charl_hardswish(charl_graph *g, charl_var *x);
/** out = x > 0 ? x : slope * x */
charl_var *charl_leaky_relu(charl_graph *g, charl_var *x, float slope);
/** out = x > 0 ? x : alpha * (exp(x) - 1) */
charl_var *charl_elu(charl_graph *g, charl_var *x, float alpha);
/** out = 1 / (1 + exp(-x)) */
charl_var *charl_sigmoid(charl_graph *g, charl_var *x);
/** out = tanh(x) */
charl_var *charl_tanh(charl_graph *g, charl_var *x);
/** out = x * Phi(x), where Phi is the normal distribution function; or GPT-2's approximation with tanh */
charl_var *charl_gelu(charl_graph *g, charl_var *x, bool tanh_approximation);
/** out = x * sigmoid(x) */
charl_var *charl_silu(charl_graph *g, charl_var *x);
/** out = log(1 + exp(x)) */
charl_var *charl_softplus(charl_graph *g, charl_var *x);
/** out = exp(x) */
charl_var *charl_exp(charl_graph *g, charl_var *x);
/** out = log(x) */
charl_var *charl_log(charl_graph *g, charl_var *x);
/** out = sqrt(x) */
charl_var *charl_sqrt(charl_graph *g, charl_var *x);

/** out = op(a) @ op(b), batched over equal leading extents; op transposes the last two extents if ta or tb is set.
 *
 *    a    [..., M, K]
 *    b    [..., K, N], or [K, N] for all matrices of a
 *    out  [..., M, N]
 *
 *  If both are 2-D and BATCHED and ta is set, the product sums over the batch and out is PARTIAL. Each element is one
 *  chain of fma over ascending k. Cost: 2*M*N*K flop per matrix. */
charl_var *charl_matmul(charl_graph *g, charl_var *a, charl_var *b, bool ta, bool tb);

/** out = x @ w^T + bias
 *
 *    x     [..., in]
 *    w     [out, in]
 *    bias  [out], or NULL
 *    out   [..., out]
 *
 *  Each element is one chain of fma over ascending k, then the bias. Cost: 2*rows*in*out flop. */
charl_var *charl_linear(charl_graph *g, charl_var *x, charl_var *w, charl_var *bias);

/** charl_linear by products of integers of 8 bits, four for each element of f32 and two of a half type, and so
 *  are its gradients, where sums have 256 to 32,768 terms: see docs/integer-products.md. Such products have the same
 *  bits on every device, but not those of charl_linear; others are charl_linear's.
 *  Cost: as many bytes of memory for the operands of a product while it is computed. */
charl_var *charl_linear_integer(charl_graph *g, charl_var *x, charl_var *w, charl_var *bias);

/* Reductions over one axis; a negative one counts from the end. keep leaves an extent of 1. */

/** Sum. Over axis 0 of a BATCHED operand it is PARTIAL. */
charl_var *charl_sum(charl_graph *g, charl_var *x, int axis, bool keep);
/** Mean. Over the rows of the batch it is the mean of the global batch: REPLICATED, and Collective when the graph
 *  runs. */
charl_var *charl_mean(charl_graph *g, charl_var *x, int axis, bool keep);
/** Largest element; NaN if any element is NaN. Of equal elements the first gets the gradient. Not over the rows of the
 *  batch. */
charl_var *charl_max(charl_graph *g, charl_var *x, int axis, bool keep);
/** Sum over all axes but one: x [outer..., C, inner...] -> [C]. The gradient of a broadcast. Of a BATCHED operand it is
 *  PARTIAL. */
charl_var *charl_sum_to(charl_graph *g, charl_var *x, int axis);
/** Sum a PARTIAL value over all ranks: out is REPLICATED. A REPLICATED operand is returned unchanged. Collective when
 *  the graph runs. */
charl_var *charl_batch_sum(charl_graph *g, charl_var *x);
/** Mean over the global batch: x [B] or [B, 1] BATCHED -> scalar, REPLICATED. Collective when the graph runs. */
charl_var *charl_batch_mean(charl_graph *g, charl_var *x);
/** The rows of all ranks: x [B, ...] BATCHED, converted to f32 -> [rows of the global batch, ...], REPLICATED, in the
 *  order of the batch. Its gradient, summed over all ranks, goes back to the rows. For losses that compare the rows of
 *  a batch with each other. Collective when the graph runs. Cost: a charl_batch_sum of the result. */
charl_var *charl_batch_gather(charl_graph *g, charl_var *x);
/** The place of each row of `like` [B, ...], BATCHED, in the global batch: [B] i32. */
charl_var *charl_batch_index(charl_graph *g, charl_var *like);

/** Softmax over the last axis, shifted by its maximum. */
charl_var *charl_softmax(charl_graph *g, charl_var *x);
/** log(softmax(x)) over the last axis. */
charl_var *charl_log_softmax(charl_graph *g, charl_var *x);

/* Losses: one f32 value per row. Reduce them with charl_batch_mean or charl_sum. */

typedef struct charl_cross_entropy_args {
    float label_smoothing; /* s, in [0, 1] */
    float z_loss;          /* z, at least 0 */
} charl_cross_entropy_args;

/** out[...] = weight[...] * (z * lse[...]^2 - sum over c of q[..., c] * log_softmax(logits)[..., c]),
 *  where q is s / C, plus 1 - s at the label, and lse = log(sum over c of exp(logits[..., c])).
 *
 *    logits  [..., C], with at least one extent before C
 *    label   [...] i32, in [0, C); a label out of range gives NaN
 *    weight  [...], or NULL
 *    args    NULL: both 0
 *    out     [...]
 *
 *  Errors: ERR_INVALID for settings out of range. */
charl_var *charl_cross_entropy(charl_graph *g, charl_var *logits, charl_var *label, charl_var *weight,
                               const charl_cross_entropy_args *args);
/** out[b] = mean over all other extents of (x - target)^2 */
charl_var *charl_mse(charl_graph *g, charl_var *x, charl_var *target);
/** out[b] = mean over all other extents of |x - target| */
charl_var *charl_l1(charl_graph *g, charl_var *x, charl_var *target);
/** out[b] = mean over all other extents of the Huber loss of d = |x - target|: d^2 / 2 for d <= delta, else delta * (d
 *  - delta / 2) */
charl_var *charl_huber(charl_graph *g, charl_var *x, charl_var *target, float delta);
/** out[b] = mean over all other extents of the pinball loss (Koenker and Bassett 1978): (target - x) * quantile, or for
 *  a target below x (x - target) * (1 - quantile). The constant x with the least mean is that quantile of the targets;
 *  0 < quantile < 1. */
charl_var *charl_pinball(charl_graph *g, charl_var *x, charl_var *target, float quantile);
/** out[b] = mean over all other extents of softplus(x) - x * target: binary cross-entropy of logits. target has the
 *  shape of x. If it is 1 everywhere, softplus(-x) is the same; if it is 0, softplus(x). */
charl_var *charl_bce_with_logits(charl_graph *g, charl_var *x, charl_var *target);

/* Metrics: not differentiable. */

/** out[...] = 1 if the label is among the k largest logits of its row, else 0. Ties count against it. Operands as for
 *  charl_cross_entropy. */
charl_var *charl_top_k_correct(charl_graph *g, charl_var *logits, charl_var *label, int k);
/** out[b] = fraction of elements of the row where (logit > 0) equals (target > 1/2): the accuracy of binary labels. */
charl_var *charl_binary_accuracy(charl_graph *g, charl_var *logits, charl_var *target);

/* Shape operators, for any element type. The leading extent of a BATCHED operand cannot be split, joined or permuted.
 * Cost: one read and one write; reshape and flatten launch nothing. */

/** The same elements in another shape; one extent may be -1. */
charl_var *charl_reshape(charl_graph *g, charl_var *x, charl_shape shape);
/** [B, ...] -> [B, rest] */
charl_var *charl_flatten(charl_graph *g, charl_var *x);
/** Extent i of out is extent perm[i] of x. */
charl_var *charl_transpose(charl_graph *g, charl_var *x, const int *perm);
/** Concatenate n operands, 1 to 8, along an axis. */
charl_var *charl_concat(charl_graph *g, charl_var *const *x, int n, int axis);
/** x[start : start + length] along an axis. */
charl_var *charl_slice(charl_graph *g, charl_var *x, int axis, int64_t start, int64_t length);
/** Broadcast x to the shape of `like`, whose values are not used, such as a parameter to all rows of the batch. Shapes
 *  as for elementwise operators, where `like` has the full one; out has the type of `like`. Floats only; `like` gets no
 *  gradient. */
charl_var *charl_expand_like(charl_graph *g, charl_var *like, charl_var *x);

typedef struct charl_upsample_args {
    int factor[3]; /* of H and W; of D, H and W for volumes; in [1, 1024] */
    bool linear;   /* bilinear, or trilinear for volumes; else nearest */
} charl_upsample_args;

/** Enlarge images: x [B, C, H, W] -> [B, C, factor[0] H, factor[1] W], floats. As torch.nn.Upsample: nearest repeats
 *  pixels; bilinear interpolates between the centres of pixels (align_corners = False) and repeats the border outside.
 *  Errors: ERR_INVALID  a factor out of range. Cost: nearest one read, bilinear four reads per element; one write. */
charl_var *charl_upsample2d(charl_graph *g, charl_var *x, const charl_upsample_args *args);
/** f32, bf16, f16, i32 or u8. Rounds to nearest even; integers saturate, and NaN becomes 0. Differentiable between
 *  floating-point types. */
charl_var *charl_cast(charl_graph *g, charl_var *x, charl_dtype dtype);

/** A window over H and W of an image, or over D, H and W of a volume. For images, elements [2] are ignored. */
typedef struct charl_window {
    int kernel[3], stride[3], padding[3], dilation[3];
} charl_window;

/** Convolution: cross-correlation, as in PyTorch. Padding is multiplied as zeros.
 *
 *    x     [B, C, H, W]
 *    w     [O, C/groups, KH, KW]
 *    bias  [O], or NULL
 *    out   [B, O, OH, OW], OH = (H + 2 padding - dilation (KH - 1) - 1) / stride + 1
 *
 *  Errors: ERR_INVALID  an invalid window
 *  Cost: 2*B*O*OH*OW*C/groups*KH*KW flop, and as much for each of the two gradients. With a stride above 1, the
 *  gradient of x needs additional memory of the size of x. */
charl_var *charl_conv2d(charl_graph *g, charl_var *x, charl_var *w, charl_var *bias, const charl_window *win,
                        int groups);

typedef struct charl_conv_transpose_args {
    charl_window win;
    int output_padding[3]; /* added at the end of the output, along the extents of the window; less than the stride */
    int groups;
} charl_conv_transpose_args;

/** Transposed convolution, as in PyTorch: the gradient of conv2d with respect to its input.
 *
 *    x     [B, C, H, W]
 *    w     [C, O/groups, KH, KW]
 *    bias  [O], or NULL
 *    out   [B, O, OH, OW], OH = (H - 1) stride - 2 padding + dilation (KH - 1) + output_padding + 1
 *
 *  Errors: ERR_INVALID  an invalid window
 *  Cost: 2*B*O*OH*OW*C/groups*KH*KW flop; gradients as for conv2d. */
charl_var *charl_conv_transpose2d(charl_graph *g, charl_var *x, charl_var *w, charl_var *bias,
                                  const charl_conv_transpose_args *args);

/** out = largest element in the window; NaN if any is NaN. Of equal elements the first in row-major order gets the
 *  gradient. Padding, at most half of the window, is never selected. Errors: ERR_INVALID  an invalid window. */
charl_var *charl_max_pool2d(charl_graph *g, charl_var *x, const charl_window *win);
/** out = sum over the window / (KH * KW). Padding counts as zeros, which is PyTorch's default. Errors: ERR_INVALID. */
charl_var *charl_avg_pool2d(charl_graph *g, charl_var *x, const charl_window *win);
/* Volumes. These are composed of the operators for images, applied to two extents at a time. */

/** Convolution of volumes, as in PyTorch.
 *
 *    x     [B, C, D, H, W]
 *    w     [O, C/groups, KD, KH, KW]
 *    bias  [O], or NULL
 *    out   [B, O, OD, OH, OW], extents as in charl_conv2d
 *
 *  Errors: ERR_INVALID  an invalid window
 *  Cost: 2*B*O*OD*OH*OW*C/groups*KD*KH*KW flop, as much for each of the two gradients; memory for KH / (stride of H)
 *  times x, and with a stride of D for KD / (stride of D) times as much. */
charl_var *charl_conv3d(charl_graph *g, charl_var *x, charl_var *w, charl_var *bias, const charl_window *win,
                        int groups);

/** Transposed convolution of volumes, as in PyTorch: x [B, C, D, H, W], w [C, O/groups, KD, KH, KW], bias [O] or NULL
 *  -> [B, O, OD, OH, OW], extents as in charl_conv_transpose2d. Errors and cost: as charl_conv3d, memory for KH times
 *  the output. */
charl_var *charl_conv_transpose3d(charl_graph *g, charl_var *x, charl_var *w, charl_var *bias,
                                  const charl_conv_transpose_args *args);

/** charl_max_pool2d and charl_avg_pool2d over D, H and W. */
charl_var *charl_max_pool3d(charl_graph *g, charl_var *x, const charl_window *win);
charl_var *charl_avg_pool3d(charl_graph *g, charl_var *x, const charl_window *win);

/** charl_upsample2d over D, H and W: [B, C, D, H, W] -> [B, C, factor[0] D, factor[1] H, factor[2] W]. */
charl_var *charl_upsample3d(charl_graph *g, charl_var *x, const charl_upsample_args *args);

/** Mean over H and W, and over D of a volume: [B, C, (D,) H, W] -> [B, C] */
charl_var *charl_global_avg_pool(charl_graph *g, charl_var *x);

typedef struct charl_batch_norm_args {
    charl_var *weight, *bias;              /* [C], or NULL */
    charl_var *running_mean, *running_var; /* [C] */
    float eps, momentum;
} charl_batch_norm_args;

/** Batch norm of x [B, C, ...]: training uses the statistics of the whole global batch, inference the running
 *  statistics. Each training step updates the running statistics once, by PyTorch's rule, with the unbiased variance.
 *  Collective when a training graph runs: two small sums forward, one backward. Errors: also ERR_SHAPE  a training step
 *  has only one value per channel, which would become 0. */
charl_var *charl_batch_norm(charl_graph *g, charl_var *x, const charl_batch_norm_args *args);

/** out = (x - mean) / sqrt(variance + eps) * weight + bias over the last axis, x [..., C], weight and bias [C] or NULL.
 *  The variance is the biased one, computed in two passes. */
charl_var *charl_layer_norm(charl_graph *g, charl_var *x, charl_var *weight, charl_var *bias, float eps);
/** As charl_layer_norm, with the statistics of each sample over a group of C / groups channels and all trailing extents
 *  of x [B, C, ...]; weight and bias are [C] or NULL. Errors: ERR_SHAPE  groups does not divide C. */
charl_var *charl_group_norm(charl_graph *g, charl_var *x, charl_var *weight, charl_var *bias, int groups, float eps);
/** out = x / sqrt(mean of x^2 + eps) * weight over the last axis, x [..., C], weight [C] or NULL. */
charl_var *charl_rms_norm(charl_graph *g, charl_var *x, charl_var *weight, float eps);

typedef struct charl_layer_norm_args {
    charl_var *weight, *bias; /* [C]; bias may be NULL */
    float eps;
} charl_layer_norm_args;

/** A residual connection followed by a norm, in one pass forward and backward: *sum = a + b, out = layer_norm(*sum).
 *  a, b, *sum and out are [..., C]; *sum is borrowed from the graph. */
charl_var *charl_add_layer_norm(charl_graph *g, charl_var *a, charl_var *b, const charl_layer_norm_args *args,
                                charl_var **sum);
/** As charl_add_layer_norm, with rms_norm. */
charl_var *charl_add_rms_norm(charl_graph *g, charl_var *a, charl_var *b, charl_var *weight, float eps,
                              charl_var **sum);

/** Rows of a table: out[..., c] = weight[x[...], c].
 *
 *    x       [...] i32, in [0, V); a number out of range gives NaN and reads nothing
 *    weight  [V, C]
 *    out     [..., C]
 *
 *  Cost of the gradient: one read of the output's gradient, one write of [V, C], a counting sort of x. */
charl_var *charl_embedding(charl_graph *g, charl_var *x, charl_var *weight);

/** out[..., j] = silu(x[..., j]) * x[..., F + j], where x [..., 2F] contains gates, then values; out is [..., F]. */
charl_var *charl_swiglu(charl_graph *g, charl_var *x);

typedef struct charl_rotary_args {
    int64_t head_dim; /* D, even, at most 512 */
    int64_t heads;    /* rotate the first `heads` heads of a row: queries and keys. The values after them are copied */
    double theta;     /* base of the angles, > 1; usually 10000 */

    /* Llama 3.1's scaling for long windows; factor 0: none. For a pair of elements that turns n times within `original`
     * positions, let s = (n - low) / (high - low), clamped to [0, 1]. Its frequency is multiplied by s + (1 - s) /
     * factor. */
    double factor, low, high;
    int64_t original;
    int64_t pairs; /* P: rotate the first P of the D/2 pairs of a head, as if it had 2P elements; 0: all */
    /* YaRN's scaling: s falls evenly with the number of a pair, from 1 at the last pair that turns `high` times to 0 at
     * the first that turns `low` times. */
    bool by_pair;
    double magnitude; /* factor of the rotated elements; 0: 1 */
} charl_rotary_args;

/** Rotary position embedding in halves, as in GPT-NeoX and Hugging Face's Llama: in a head at position t, elements i
 *  and i + D/2 are rotated by t * theta^(-i/P). x and out are [..., T, N * D]. Angles are exact to 2^-32 of a turn at
 *  any position. Errors: ERR_INVALID. */
charl_var *charl_rotary(charl_graph *g, charl_var *x, const charl_rotary_args *args);

typedef struct charl_attention_args {
    int heads;
    int kv_heads;  /* 0: heads. Must divide heads: query head h uses key head h / (heads / kv_heads) */
    bool causal;   /* query q attends to keys k <= q */
    float scale;   /* 0: 1 / sqrt(D) */
    float dropout; /* of the attention weights, in [0, 1); in training only, with the random numbers of charl_dropout */
    /* i32 [B, T], with causal: query q of row b attends to itself and to keys from start[b, q] on, to separate the
     * documents of a row. NULL: from 0 on */
    charl_var *start;
    /* i32 [B], without causal: number of keys of a row; the others are padding. At least one is used. NULL: all */
    charl_var *length;
    int64_t window; /* N > 0, with causal: query q attends to keys k > q - N only; 0: to all of them */
    float softcap;  /* C > 0: C * tanh(s / C) in place of each score s = scale * Q[q] . K[k]; 0: s itself */
    /* keys and values of another source, without causal: [B, K, 2 kv_heads * D], all keys, then all values. NULL: qkv
     * holds them */
    charl_var *kv;
} charl_attention_args;

/** Scaled dot-product attention: out[q] = sum over k of softmax over k of (scale * Q[q] . K[k]) * V[k], for each head.
 *
 *    qkv  [B, T, (heads + 2 kv_heads) * D]: the queries of all heads, the keys, the values; D <= 256.
 *         With args->kv the queries only, [B, T, heads * D], and length counts the K keys of kv
 *    out  [B, T, heads * D]
 *
 *  The T x T weights are never stored. Errors: ERR_INVALID  invalid settings.
 *  Cost: 4*B*heads*T*T*D flop, with kv T*K for T*T, half of it if causal, less with a window, and 2.5 times that for
 *  the gradient; memory for out and one number per query and head. */
charl_var *charl_attention(charl_graph *g, charl_var *qkv, const charl_attention_args *args);

/** Sequences from their last position to the first: out[b, t] = x[b, n - 1 - t] for t < n = length[b], else x[b, t].
 *  x and out are floats [B, T, ...]; length i32 [B], from 1 to T, NULL: T. For recurrent networks that read from the
 *  end. Cost: a copy. */
charl_var *charl_reverse_sequence(charl_graph *g, charl_var *x, charl_var *length);

/** A layer of PyTorch's LSTM with zeros as initial state; out contains h of every step.
 *
 *    pre   [B, T, 4H] = x @ w_ih^T + b_ih + b_hh, gates in the order i, f, g, o
 *    w_hh  [4H, H]
 *    out   [B, T, H]
 *
 *  Cost: 8*B*T*H*H flop and two launches per step, as much for each gradient. */
charl_var *charl_lstm(charl_graph *g, charl_var *pre, charl_var *w_hh);
/** A layer of PyTorch's GRU with zeros as initial state.
 *
 *    pre   [B, T, 3H] = x @ w_ih^T + b_ih, gates in the order r, z, n
 *    w_hh  [3H, H]
 *    b_hh  [3H], or NULL
 *    out   [B, T, H]
 *
 *  Cost: 6*B*T*H*H flop and two launches per step, as much for each gradient. */
charl_var *charl_gru(charl_graph *g, charl_var *pre, charl_var *w_hh, charl_var *b_hh);

/** In training, out = keep ? x / (1 - p) : 0, with p in [0, 1) and keep a random bit that is a function of seed, step,
 *  global row, element and layer name. In inference, out = x. */
charl_var *charl_dropout(charl_graph *g, charl_var *x, float p);

/** Dropout of whole rows (Huang et al. 2016, "Deep networks with stochastic depth"): in training, out = keep ?
 *  x / (1 - p) : 0, with p in [0, 1) and one random bit for all elements of a row, which is a function of seed, step,
 *  global row and layer name. In inference, out = x. Cost: one read, one write. */
charl_var *charl_stochastic_depth(charl_graph *g, charl_var *x, float p);

/** Numbers as sines and cosines of rising frequency (Mildenhall et al. 2020, "NeRF"), so that a linear layer can tell
 *  near ones apart. Not differentiable.
 *
 *    x    any shape, a float type
 *    out  [..., 2 * octaves]: sin(2^k pi x), k = 0 .. octaves - 1, then cos(2^k pi x)
 *
 *  Angles are reduced exactly. Errors: ERR_INVALID  octaves is not in 1..24. Cost: one read, one write. */
charl_var *charl_fourier(charl_graph *g, charl_var *x, int octaves);

/** Random augmentation of training images, drawn per sample and applied in this order. */
typedef struct charl_augment2d_args {
    float rotate; /* rotate about the centre by an angle in [-rotate, rotate] degrees, bilinear; in [0, 180] */
    int crop;     /* shift by -crop to crop rows and columns, like a random crop of the padded image */
    bool flip;    /* mirror left to right with probability 1/2 */
    int cutout;   /* side of a square at a random position that is set to 0, the mean of normalized images */
    /* 0; or the rows of the global batch, if row r contains the sample of row reversed_rows - 1 - r and must be
     * augmented like that one */
    int64_t reversed_rows;
    const char *name; /* random numbers depend on seed, step, row of the global batch and name */
} charl_augment2d_args;

/** In training, augment x [B, C, H, W]; in inference, out = x. Pixels outside of an image have the value 0 before
 *  normalization, which is (0 - shift[c]) * scale[c] after it; shift and scale are [C] or [1], or both NULL: 0. Without
 *  rotate, pixels are copied exactly. Not differentiable. Errors: ERR_INVALID  args out of range. Cost: one read, one
 *  write; with rotate, four reads. */
charl_var *charl_augment2d(charl_graph *g, charl_var *x, charl_var *shift, charl_var *scale,
                           const charl_augment2d_args *args);

/* Boxes of images, one per sample: f32 [B, 4], top, left, height and width in pixels. Not differentiable. */
/** Crop the boxes from x [B, C, H, W] and resize them to [B, C, h, w] with a triangle filter over all pixels of the
 *  box: a weighted mean for reducing, bilinear for enlarging, as Pillow and torchvision (antialias) without their
 *  rounding. Boxes must lie within the image; a box of size [h, w] is copied exactly. Cost: one write and at most (2
 *  max(1, height / h) + 1)(2 max(1, width / w) + 1) reads per element. */
charl_var *charl_resized_crop2d(charl_graph *g, charl_var *x, charl_var *box, int64_t h, int64_t w);
/** Transforms of images. v is a level, 0 to 255; a0, a1, ... are the amounts. Results are clamped to [0, 255]. */
typedef enum charl_transform {
    CHARL_TRANSFORM_NONE,
    CHARL_TRANSFORM_BRIGHTNESS,   /* floor(a0 v) */
    CHARL_TRANSFORM_CONTRAST,     /* floor(a0 v + (1 - a0) mean of gray) */
    CHARL_TRANSFORM_POSTERIZE,    /* keep the a0 highest of 8 bits */
    CHARL_TRANSFORM_SOLARIZE,     /* v < 255 a0 ? v : 255 - v */
    CHARL_TRANSFORM_AUTOCONTRAST, /* each channel stretched to 0 .. 255 */
    CHARL_TRANSFORM_EQUALIZE,     /* equalize the histogram of each channel */
    CHARL_TRANSFORM_SATURATION,   /* floor(a0 v + (1 - a0) gray) */
    CHARL_TRANSFORM_HUE,          /* rotate the hue by a0 of the circle */
    /* floor(a0 v + (1 - a0) blurred), where blurred is the mean of 3 x 3 pixels with weight 5 for the centre and 1 for
     * the others; border pixels are unchanged */
    CHARL_TRANSFORM_SHARPNESS,
    /* from (a0 dx + a1 dy + a2, a3 dx + a4 dy + a5), bilinear, 0 outside; dx, dy: column, row from the centre */
    CHARL_TRANSFORM_AFFINE,
    CHARL_TRANSFORM_COUNT
} charl_transform;
enum { CHARL_TRANSFORM_AMOUNTS = 6 };

/** Transform images x [B, C, H, W] with 256 levels from 0 to `white`, C 1 or 3: sample r by kind[r, index] and its
 *  amounts, as torchvision does for bytes (kernels/data/transform2d.cl).
 *
 *    kind    i32 [B, n], charl_transform; [B] is n = 1
 *    amount  f32 [B, 6 n]
 *
 *  Not differentiable. Errors: ERR_INVALID  index or white out of range. Cost: one read, one write; twice for kinds
 *  that need the levels of the whole image. */
charl_var *charl_transform2d(charl_graph *g, charl_var *x, charl_var *kind, charl_var *amount, int index, float white);

CHARL_END_DECLS

#endif
