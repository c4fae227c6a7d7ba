#ifndef CHARL_OPS_H
#define CHARL_OPS_H
/** The operators: each function appends one to a graph and returns its output, borrowed from the
 * graph.
 *
 *  NULL in gives NULL out; the first error is kept by the graph and returned by
 * charl_graph_compile, with the layer's name. Shapes are PyTorch's. All are Local, Async when the
 * graph runs, and deterministic: bits do not depend on ranks, compute units, work-group size or
 * position. f32 unless said otherwise. Differentiable unless said otherwise.
 */
#include "charl/graph.h"

CHARL_BEGIN_DECLS

/* Elementwise. One operand has the full shape [...]; the other has the same, is a scalar, or
 * broadcasts over leading or trailing extents as in PyTorch ([C] or [1,C,1,1] or [B,1] against
 * [B,C,H,W] or [B,C]). Cost: one read per operand, one write. */
charl_var *charl_add(charl_graph *g, charl_var *a, charl_var *b);                 /**< out = a + b */
charl_var *charl_sub(charl_graph *g, charl_var *a, charl_var *b);                 /**< out = a - b */
charl_var *charl_mul(charl_graph *g, charl_var *a, charl_var *b);                 /**< out = a * b */
charl_var *charl_div(charl_graph *g, charl_var *a, charl_var *b);                 /**< out = a / b */
charl_var *charl_scale(charl_graph *g, charl_var *x, float factor, float offset); /**< out = factor * x + offset */

/** out = (1 - w) * a + w * b; broadcasts like the others. a at w = 0 and b at w = 1, exactly. */
charl_var *charl_lerp(charl_graph *g, charl_var *a, charl_var *b, charl_var *w);

/* Activations and functions of one operand, any shape. NaN in gives NaN out. */
charl_var *charl_relu(charl_graph *g, charl_var *x);                    /**< out = x > 0 ? x : 0 */
charl_var *charl_leaky_relu(charl_graph *g, charl_var *x, float slope); /**< out = x > 0 ? x : slope * x */
charl_var *charl_elu(charl_graph *g, charl_var *x, float alpha);        /**< out = x > 0 ? x : alpha * (exp(x) - 1) */
charl_var *charl_sigmoid(charl_graph *g, charl_var *x);                 /**< out = 1 / (1 + exp(-x)) */
charl_var *charl_tanh(charl_graph *g, charl_var *x);                    /**< out = tanh(x) */
charl_var *charl_gelu(charl_graph *g, charl_var *x, bool tanh_approximation); /**< out = x * Phi(x) */
charl_var *charl_silu(charl_graph *g, charl_var *x);                          /**< out = x * sigmoid(x) */
charl_var *charl_softplus(charl_graph *g, charl_var *x);                      /**< out = log(1 + exp(x)) */
charl_var *charl_exp(charl_graph *g, charl_var *x);                           /**< out = exp(x) */
charl_var *charl_log(charl_graph *g, charl_var *x);                           /**< out = log(x) */
charl_var *charl_sqrt(charl_graph *g, charl_var *x);                          /**< out = sqrt(x) */

/** out = op(a) @ op(b), batched over equal leading extents (or b without them); op transposes the
 * last two if asked. a [..., M, K]  b [..., K, N] or [K, N]  out [..., M, N]. Both 2-D and BATCHED
 * with ta: the product sums over the batch and out is PARTIAL. Each element is one chain of fma
 * over ascending k. Errors: ERR_SHAPE, ERR_DTYPE. Cost: 2*M*N*K flop per matrix. */
charl_var *charl_matmul(charl_graph *g, charl_var *a, charl_var *b, bool ta, bool tb);
/** out = x @ w^T + bias.  x [..., in]  w [out, in]  bias [out] or NULL  out [..., out]. One chain
 * of fma over ascending k, then the bias. Errors: ERR_SHAPE, ERR_DTYPE. Cost: 2*rows*in*out flop.
 */
charl_var *charl_linear(charl_graph *g, charl_var *x, charl_var *w, charl_var *bias);

/* Reductions over one axis (negative counts from the end); keep leaves an extent of 1. Over axis 0
 * of a BATCHED operand sum gives a PARTIAL. */
charl_var *charl_sum(charl_graph *g, charl_var *x, int axis, bool keep);
/** Over the rows of the batch: the mean of the global batch, REPLICATED, and Collective when the
 * graph runs. Local. */
charl_var *charl_mean(charl_graph *g, charl_var *x, int axis, bool keep);
charl_var *charl_max(charl_graph *g, charl_var *x, int axis,
                     bool keep); /**< ties: the gradient goes to the first; not over the rows of the
                                    batch; NaN wins */
/** Sum over all but one axis: x [outer..., C, inner...] -> [C]; the gradient of a broadcast.
 * BATCHED gives a PARTIAL. */
charl_var *charl_sum_to(charl_graph *g, charl_var *x, int axis);
/** Complete a PARTIAL over all ranks: out is REPLICATED. A REPLICATED operand is returned as it is.
 * Collective when the graph runs. */
charl_var *charl_batch_sum(charl_graph *g, charl_var *x);
/** Mean over the global batch: x [B] or [B, 1] BATCHED -> scalar, REPLICATED. Collective when the
 * graph runs. */
charl_var *charl_batch_mean(charl_graph *g, charl_var *x);

charl_var *charl_softmax(charl_graph *g, charl_var *x);     /**< over the last axis, shifted by its maximum */
charl_var *charl_log_softmax(charl_graph *g, charl_var *x); /**< over the last axis */

/* Losses: one value per row; reduce with charl_batch_mean or charl_sum. */
/** out[...] = weight[...] * -sum_c q[...,c] log_softmax(logits)[...,c], q = (1 - smoothing) at the
 * label + smoothing / C everywhere. logits [..., C] with at least one extent before C  label [...]
 * i32 in [0, C) (outside gives NaN)  weight [...] or NULL  out [...] */
charl_var *charl_cross_entropy(charl_graph *g, charl_var *logits, charl_var *label, charl_var *weight, float smoothing);
charl_var *charl_mse(charl_graph *g, charl_var *x,
                     charl_var *target); /**< out[b] = mean over the rest of (x - target)^2 */
charl_var *charl_bce_with_logits(charl_graph *g, charl_var *x,
                                 charl_var *target); /**< out[b] = mean of softplus(x) - x * target */
charl_var *charl_huber(charl_graph *g, charl_var *x, charl_var *target,
                       float delta); /**< out[b] = mean of Huber's loss (PyTorch's huber_loss) */
charl_var *charl_l1(charl_graph *g, charl_var *x,
                    charl_var *target); /**< out[b] = mean over the rest of |x - target| */
/** out[...] = 1 if the label is among the k largest logits of its row (ties count against it), else
 * 0. Operands as for charl_cross_entropy. Not differentiable. */
charl_var *charl_top_k_correct(charl_graph *g, charl_var *logits, charl_var *label, int k);
/** out[b] = part of a row where logit > 0 (a probability above 1/2) says what target > 1/2 says:
 * the accuracy of several yes-or-no labels. Not differentiable. */
charl_var *charl_binary_accuracy(charl_graph *g, charl_var *logits, charl_var *target);

/* Shape, any element type. The leading extent of a BATCHED operand stays the batch: it is not cut,
 * joined or moved. Cost: one read and one write, except for views. */
charl_var *charl_reshape(charl_graph *g, charl_var *x, charl_shape shape);     /**< one extent may be -1. No launch */
charl_var *charl_flatten(charl_graph *g, charl_var *x);                        /**< [B, ...] -> [B, rest]. No launch */
charl_var *charl_transpose(charl_graph *g, charl_var *x, const int *perm);     /**< out extent i is x extent perm[i] */
charl_var *charl_concat(charl_graph *g, charl_var *const *x, int n, int axis); /**< 1 to 8 operands */
charl_var *charl_slice(charl_graph *g, charl_var *x, int axis, int64_t start, int64_t length);
charl_var *charl_cast(charl_graph *g, charl_var *x,
                      charl_dtype dtype); /**< f32, bf16, f16, i32, u8; to nearest even, saturating for
                                  integers, NaN there 0; differentiable between floats */

/** Rows of a data set: out[r, ...] = (source[row[r], ...] - shift[c]) * scale[c], c the second
 * extent (or one value for all). source [N, ...] f32, u8, u16, u32 or i32, REPLICATED  row [B] i32
 * shift, scale [C] or [1] f32, or both NULL: the plain value out [B, ...] f32, or i32 for i32. A
 * row outside [0, N) gives NaN, or -1. Not differentiable. */
charl_var *charl_gather_rows(charl_graph *g, charl_var *source, charl_var *row, charl_var *shift, charl_var *scale);
/** Windows of a sequence of tokens: out[r, j] = tokens[start[r] + offset + j]. tokens [N] u8, u16,
 * u32 or i32, REPLICATED  start [B] i32  out [B, length] i32. Outside [0, N) gives -1. Not
 * differentiable. Errors: ERR_SHAPE, ERR_DTYPE; ERR_INVALID for a length below 1 or an offset below
 * 0. */
charl_var *charl_gather_windows(charl_graph *g, charl_var *tokens, charl_var *start, int64_t length, int64_t offset);

/** Geometry of a window over H and W. */
typedef struct charl_window {
    int kernel[2], stride[2], padding[2], dilation[2]; /* H, W */
} charl_window;

/** Cross-correlation as in PyTorch.  x [B, C, H, W]  w [O, C/groups, KH, KW]  bias [O] or NULL  out
 * [B, O, OH, OW], OH = (H + 2 padding - dilation (KH - 1) - 1) / stride + 1. Padding is multiplied
 * as zeros. Errors: ERR_SHAPE, ERR_DTYPE; ERR_INVALID for a window that makes no sense. Cost:
 * 2*B*O*OH*OW*C/groups*KH*KW flop, as much for each of the two gradients; with a stride that of x
 * needs memory for x once more. */
charl_var *charl_conv2d(charl_graph *g, charl_var *x, charl_var *w, charl_var *bias, const charl_window *win,
                        int groups);
/** Transposed convolution as in PyTorch: what the gradient of its input is to conv2d. */
typedef struct charl_conv_transpose2d_args {
    charl_window win;
    int output_padding[2]; /* H, W: added at the end of the output; less than the stride */
    int groups;
} charl_conv_transpose2d_args;
/** x [B, C, H, W]  w [C, O/groups, KH, KW]  bias [O] or NULL  out [B, O, OH, OW], OH = (H - 1)
 * stride
 * - 2 padding + dilation (KH - 1) + output_padding + 1. Errors: ERR_SHAPE, ERR_DTYPE; ERR_INVALID
 * for a window that makes no sense. Cost: 2*B*O*OH*OW*C/groups*KH*KW flop; the gradients as
 * conv2d's of out. */
charl_var *charl_conv_transpose2d(charl_graph *g, charl_var *x, charl_var *w, charl_var *bias,
                                  const charl_conv_transpose2d_args *args);
/** out = the largest element under the window; NaN wins, of equals the first in row-major order,
 * which also takes the gradient. padding at most half of the window, and never chosen. Errors:
 * ERR_SHAPE, ERR_DTYPE, ERR_INVALID. */
charl_var *charl_max_pool2d(charl_graph *g, charl_var *x, const charl_window *win);
/** out = sum under the window / (KH * KW): padding counts as zeros, as PyTorch's default.
 * Errors: ERR_SHAPE, ERR_DTYPE, ERR_INVALID. */
charl_var *charl_avg_pool2d(charl_graph *g, charl_var *x, const charl_window *win);
charl_var *charl_global_avg_pool(charl_graph *g, charl_var *x); /**< [B, C, H, W] -> [B, C] */

/** Batch normalisation over the statistics of the whole global batch (training) or the running ones
 * (inference). x [B, C, ...]  weight, bias [C] or NULL  running mean and variance [C] (updated once
 * per step in training: momentum as PyTorch's, unbiased variance) Collective when a training graph
 * runs: two small sums forward, one backward. */
typedef struct charl_batch_norm_args {
    charl_var *weight, *bias, *running_mean, *running_var;
    float eps, momentum;
} charl_batch_norm_args;
charl_var *charl_batch_norm(charl_graph *g, charl_var *x, const charl_batch_norm_args *args);
/** out = (x - mean) / sqrt(variance + eps) * weight + bias over the last axis, with the biased
 * variance in two passes.  x [..., C]  weight, bias [C] or NULL. Errors: ERR_SHAPE, ERR_DTYPE. */
charl_var *charl_layer_norm(charl_graph *g, charl_var *x, charl_var *weight, charl_var *bias, float eps);
/** out = (x - mean) / sqrt(variance + eps) * weight + bias, with the statistics of each sample over
 * a group of C / groups channels and all that follows.  x [B, C, ...]  weight, bias [C] or NULL.
 * Errors: ERR_SHAPE when groups do not divide C, ERR_DTYPE. */
charl_var *charl_group_norm(charl_graph *g, charl_var *x, charl_var *weight, charl_var *bias, int groups, float eps);
/** out = x / sqrt(mean of x^2 + eps) * weight over the last axis.  x [..., C]  weight [C] or NULL.
 * Local. Errors: ERR_SHAPE, ERR_DTYPE. */
charl_var *charl_rms_norm(charl_graph *g, charl_var *x, charl_var *weight, float eps);

typedef struct charl_layer_norm_args {
    charl_var *weight, *bias; /* [C]; bias may be NULL */
    float eps;
} charl_layer_norm_args;
/** The residual connection and the norm after it in one pass, and in one pass back: *sum = a + b,
 * out = layer_norm(*sum).  a, b, *sum, out [..., C]; *sum is borrowed from the graph. Local.
 * Errors: ERR_SHAPE, ERR_DTYPE. */
charl_var *charl_add_layer_norm(charl_graph *g, charl_var *a, charl_var *b, const charl_layer_norm_args *args,
                                charl_var **sum);
/** The same with rms_norm. Local. */
charl_var *charl_add_rms_norm(charl_graph *g, charl_var *a, charl_var *b, charl_var *weight, float eps,
                              charl_var **sum);

/** Rows of a table: out[..., c] = weight[x[...], c].  x [...] i32, each in [0, V)  weight [V, C]
 * out [..., C]. A token outside gives NaN and reads nothing. Local. Errors: ERR_SHAPE, ERR_DTYPE.
 * Cost of the gradient: one read of it, one write of [V, C], a counting sort of the tokens. */
charl_var *charl_embedding(charl_graph *g, charl_var *x, charl_var *weight);

/** out[..., j] = silu(x[..., j]) * x[..., F + j].  x [..., 2F]: gates, then values  out [..., F].
 * Local. Errors: ERR_SHAPE, ERR_DTYPE. */
charl_var *charl_swiglu(charl_graph *g, charl_var *x);

/** Which heads rotary turns, and how fast. */
typedef struct charl_rotary_args {
    int64_t head_dim; /* D, even, at most 512 */
    int64_t heads;    /* the first `heads` heads of a row are turned: queries and keys; the rest,
                         the values, stays */
    double theta;     /* base of the angles, > 1: 10000 */
} charl_rotary_args;
/** Rotary position embedding, by halves (GPT-NeoX, Llama in Hugging Face's layout): within a head
 * at position t, elements i and i + D/2 are turned by t * theta^(-2i/D).  x [..., T, N * D]  out
 * the same. Angles are exact to 2^-32 of a turn at any position. Local. Errors: ERR_SHAPE,
 * ERR_DTYPE, ERR_INVALID. */
charl_var *charl_rotary(charl_graph *g, charl_var *x, const charl_rotary_args *args);

/** Scaled dot-product attention of many heads: out[q] = sum over k of softmax over k of
 * (scale * Q[q] . K[k]) times V[k]. */
typedef struct charl_attention_args {
    int heads;
    int kv_heads;  /* 0 = heads; must divide heads: query head h uses key head h / (heads / kv_heads)
                   */
    bool causal;   /* query q sees keys k <= q */
    float scale;   /* 0 = 1 / sqrt(D) */
    float dropout; /* of the weights, in [0, 1); training only, drawn as charl_dropout draws */
} charl_attention_args;
/** qkv [B, T, (heads + 2 kv_heads) * D]: the queries of all heads, the keys, the values; D <= 256.
 * out [B, T, heads * D]. The T x T weights never exist in memory. Errors: ERR_SHAPE, ERR_DTYPE,
 * ERR_INVALID for settings that make no sense. Cost: 4*B*heads*T*T*D flop (half of it when causal),
 * 2.5 times that for the gradient; memory for out and one number per query and head. */
charl_var *charl_attention(charl_graph *g, charl_var *qkv, const charl_attention_args *args);

/** A layer of PyTorch's LSTM from a state of zeros: h[t] of every step.  pre [B, T, 4H] the input's
 * part of the gates' sums with both biases, x @ w_ih^T + b_ih + b_hh, in the order i, f, g, o  w_hh
 * [4H, H]  out [B, T, H]. Local. Errors: ERR_SHAPE, ERR_DTYPE. Cost: 8*B*T*H*H flop and two
 * launches a step, as much for each gradient. */
charl_var *charl_lstm(charl_graph *g, charl_var *pre, charl_var *w_hh);
/** A layer of PyTorch's GRU from a state of zeros.  pre [B, T, 3H] = x @ w_ih^T + b_ih in the order
 * r, z, n  w_hh [3H, H]  b_hh [3H] or NULL  out [B, T, H]. Local. Errors: ERR_SHAPE, ERR_DTYPE.
 * Cost: 6*B*T*H*H flop and two launches a step, as much for each gradient. */
charl_var *charl_gru(charl_graph *g, charl_var *pre, charl_var *w_hh, charl_var *b_hh);

/** p in [0, 1). Training: out = keep ? x / (1 - p) : 0, keep drawn per element from (seed, step,
 * global row and element, layer name). Inference: x itself. */
charl_var *charl_dropout(charl_graph *g, charl_var *x, float p);

/** Random changes of training images, one set per sample, in this order. */
typedef struct charl_augment2d_args {
    float rotate;          /* degrees in [0, 180]: turned about the centre by an angle in [-rotate, rotate],
                     interpolated bilinearly */
    int crop;              /* shifted by -crop .. crop rows and columns: a crop of the padded image */
    bool flip;             /* mirrored left to right, every other one */
    int cutout;            /* side of a square, its centre anywhere, that becomes 0 (after normalisation: the
                     mean) */
    int64_t reversed_rows; /* 0; or rows of the global batch, when row r holds the sample of row
                              reversed_rows - 1 - r and must be changed as that one is */
    const char *name;      /* draws are keyed by (seed, step, row of the global batch, name) */
} charl_augment2d_args;
/** Training: x [B, C, H, W] changed as args say; inference: x itself. What comes in from outside an
 * image is a value of 0 before normalisation, (0 - shift[c]) * scale[c], as charl_gather_rows
 * normalises (shift, scale [C] or [1], or both NULL: 0). Without rotate values are moved exactly.
 * Not differentiable. Errors: ERR_SHAPE; ERR_INVALID for args outside their ranges. Cost: one read,
 * one write; with rotate four reads. */
charl_var *charl_augment2d(charl_graph *g, charl_var *x, charl_var *shift, charl_var *scale,
                           const charl_augment2d_args *args);

CHARL_END_DECLS

#endif
