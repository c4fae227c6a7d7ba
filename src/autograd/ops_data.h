#ifndef CHARL_AUTOGRAD_OPS_DATA_H
#define CHARL_AUTOGRAD_OPS_DATA_H
/** Operators that prepare samples and assemble sequences. */
#include <math.h>

#include "charl/ops.h"

/** Position of each token in its document: out[r, t] = max(0, t - start[r, t]), i32 [B, T]. Not differentiable. */
charl_var *charl__document_positions(charl_graph *g, charl_var *start);

/** Start of the document of each token, in windows of a sequence: out[r, t] = max(0, d - row[r]), where d is the last
 *  document that begins at or before token row[r] + t, or the first one. For `start` of charl_attention_args. Not
 *  differentiable.
 *
 *    document  [D] i32, ascending, at least one; REPLICATED
 *    row       [B] i32, the first tokens of the windows
 *    out       [B, length] i32
 *
 *  Errors: ERR_INVALID */
charl_var *charl__document_starts(charl_graph *g, charl_var *document, charl_var *row, int64_t length);

/** Rows of a data set: out[r, ...] = (source[row[r], ...] - shift[c]) * scale[c], c along the second extent, or one
 *  value for all. Not differentiable.
 *
 *    source        [N, ...] f32, u8, u16, u32 or i32, REPLICATED
 *    row           [B] i32; one outside [0, N) gives NaN, or -1
 *    shift, scale  [C] or [1] f32; both NULL: the values as they are
 *    out           [B, ...] f32, or i32 of i32
 *
 *  Errors: ERR_INVALID  one of shift and scale without the other */
charl_var *charl__gather_rows(charl_graph *g, charl_var *source, charl_var *row, charl_var *shift, charl_var *scale);

/** Rows of a data set of padded sequences: out[r, t] = source[row[r], t]. Not differentiable.
 *
 *    source  [N, T] u8, u16 or u32, REPLICATED; the largest number of the type is padding
 *    row     [B] i32
 *    out     [B, T] i32; -1 for padding, and in a row outside [0, N) */
charl_var *charl__gather_tokens(charl_graph *g, charl_var *source, charl_var *row);

/** Windows of a sequence of tokens: out[r, j] = tokens[start[r] + offset + j]. Not differentiable.
 *
 *    tokens  [N] u8, u16, u32 or i32, REPLICATED
 *    start   [B] i32
 *    out     [B, length] i32; -1 for what lies outside [0, N)
 *
 *  Errors: ERR_INVALID  length below 1, offset below 0 */
charl_var *charl__gather_windows(charl_graph *g, charl_var *tokens, charl_var *start, int64_t length, int64_t offset);

typedef struct charl__mask_tokens_args {
    int64_t count; /* positions of each row that are masked: at least 1, at most T */
    int64_t vocab; /* a random replacement is below this */
    int64_t mask;  /* the token that replaces a masked one */
} charl__mask_tokens_args;

/** The input of a masked language model, and which of it to predict: `count` random positions of each row become
 *  the mask (80 %), a random token (10 %) or stay unchanged. Not differentiable.
 *
 *    x        [B, T] i32
 *    out      [B, T] i32
 *    *masked  [B, T] f32: 1 at those positions, else 0
 *
 *  In a training graph the draws depend on seed, step and the tokens of the row, otherwise on the tokens only.
 *  Errors: ERR_INVALID. Cost: T * T comparisons for each row. */
charl_var *charl__mask_tokens(charl_graph *g, charl_var *x, const charl__mask_tokens_args *args, charl_var **masked);

/** How noise is added, and what a model learns. */
typedef struct charl__diffusion {
    bool
        linear; /* alpha(t) = exp(-y / 2), y = t / 10 + 9.95 t^2: the limit of linear steps (Song et al. 2021); false: cos(pi t / 2)
                      (Nichol and Dhariwal 2021 without an offset, as Salimans and Ho 2022) */
    bool velocity; /* alpha e - sigma x (Salimans and Ho 2022); false: the noise e (Ho et al. 2020) */
} charl__diffusion;

/** alpha(t) and sigma(t) = sqrt(1 - alpha^2) at time t of [0, 1]: 1 and 0 at 0. Local. */
static inline void charl__diffusion_mix(const charl__diffusion *form, double t, double *alpha, double *sigma)
{
    const double y = t * (0.1 + 9.95 * t), half_pi = 1.57079632679489661923;

    *alpha = form->linear ? exp(-y / 2.0) : cos(half_pi * t);
    *sigma = form->linear ? sqrt(-expm1(-y)) : sin(half_pi * t);
}

/** Rows with noise: out = alpha(t) x + sigma(t) e with a random time t for each row and a standard normal e for each
 *  element. Not differentiable.
 *
 *    x        [B, ...] f32
 *    out      the same
 *    *target  the same: what the model learns
 *    *time    [B, 1] f32: t, in (0, 1]
 *
 *  In a training graph the draws depend on seed, step and global row, otherwise on the row only. */
charl_var *charl__diffuse(charl_graph *g, charl_var *x, const charl__diffusion *form, charl_var **target,
                          charl_var **time);

/** Sequences of tokens that are padded to one length: tokens = max(x, 0), which an embedding can look up, and the end
 *  of each sequence. Not differentiable.
 *
 *    x        [B, T] i32; -1 after the end of a sequence
 *    tokens   [B, T] i32
 *    *length  [B] i32: `before` + the numbers of the row before its first negative one, of which at least one is
 *             assumed
 *
 *  Errors: ERR_INVALID  before is negative. Cost: one read, one write. */
charl_var *charl__padded_sequences(charl_graph *g, charl_var *x, int before, charl_var **length);

/** out[b, t] = t < length[b] ? 1 : 0, with `last` t == length[b] - 1 ? 1 : 0, f32 [B, positions]. Not differentiable.
 *  Errors: ERR_INVALID  positions below 1 */
charl_var *charl__sequence_mask(charl_graph *g, charl_var *length, int64_t positions, bool last);

/** x [B, C, H, W], with patch of the same type in the boxes, or 0 if patch is NULL. Height 0: no box. */
charl_var *charl__paste2d(charl_graph *g, charl_var *x, charl_var *patch, charl_var *box);
#endif
