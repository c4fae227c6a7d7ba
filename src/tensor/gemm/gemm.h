#ifndef CHARL_TENSOR_GEMM_GEMM_H
#define CHARL_TENSOR_GEMM_GEMM_H
/** Batched matrix products, for matmul, linear, convolutions, recurrent layers and muon.
 *
 *      out[z][i][j] = bias + sum_k A[z](i, k) * B[z](k, j)
 *
 *  A and B share one float type, out has any, the bias is f32. Operands are converted as they are read, accumulation is f32, and out is
 *  rounded once. An epilogue is applied to the result in registers.
 *
 *  Numerics. Each element is one chain of fma in ascending k, then one addition of the bias: its bits are the same on every device, for
 *  every tile and at every position. There are exceptions. Tensor cores support PLAIN and TRANSPOSED operands with one segment, of bf16 or
 *  f16 (facts.nvidia: wgmma, mma), and f32 if allowed (tf32). kernels/nvidia/gemm/gemm_wgmma.cl and gemm_mma.cl define their sum; its
 *  bits are the same for every tile and at every position on that device. AMX (facts.x86.amx) supports all operands of bf16, with the sum defined in
 *  kernels/x86/gemm/gemm_amx_micro.clh. A product with `n_digits` has bits of its own, which are the same on every device:
 *  src/autograd/op/linear/integer.c defines them.
 *  A product that `generates` may have the sum of kernels/nvidia/gemm/gemm_token.cl.
 */
#include "tensor/tensor.h"

/** Memory layout of an operand. All are contiguous. */
typedef enum charl__gemm_kind {
    CHARL_GEMM_PLAIN,      /* A [m, k]  B [k, n] */
    CHARL_GEMM_TRANSPOSED, /* A [k, m]  B [n, k] */
    CHARL_GEMM_TAPS,       /* A only: [channel, m, tap], k = (channel, tap) */
    CHARL_GEMM_WINDOW,     /* B only: an image; k = (channel, tap), j = pixel */
    CHARL_GEMM_WINDOW_T    /* B only: an image; k = pixel, j = (channel, tap) */
} charl__gemm_kind;

typedef enum charl__gemm_bias {
    CHARL_GEMM_NO_BIAS,
    CHARL_GEMM_BIAS_COLUMNS, /* [n] */
    CHARL_GEMM_BIAS_ROWS     /* [inner, m] */
} charl__gemm_bias;

/** The image element of (pixel, tap): coordinate (pixel * step + shift + tap * tap_step) /
 *  divide, in H and W; 0 if the division leaves a remainder or the coordinate is outside. Taps and
 *  pixels are numbered row by row. */
typedef struct charl__gemm_window {
    int taps[2], step[2], shift[2], tap_step[2], divide[2];
    int image[2]; /* H, W */
    int row;      /* pixels per row */
} charl__gemm_window;

typedef enum charl__gemm_form {
    CHARL_GEMM_AUTO,
    CHARL_GEMM_LOCAL,  /* tiles in local memory */
    CHARL_GEMM_VECTOR, /* one work-item per block, explicit vectors */
    CHARL_GEMM_LOCAL_LARGE,
    CHARL_GEMM_LOCAL_SMALL, /* deep tiles of 16 x 16 or 32 x 32; operands PLAIN or TRANSPOSED */
    CHARL_GEMM_VECTOR_SMALL,
    CHARL_GEMM_VECTOR_NARROW,    /* the micro-tile of vectors shorter than 16 */
    CHARL_GEMM_TENSOR_CORE,      /* tensor cores, if facts and operands allow */
    CHARL_GEMM_TENSOR_CORE_WIDE, /* with facts.nvidia.mma or tf32 there is one tile for all of these */
    /* the wide tile; the last tiles are split into equal parts (stream-K) */
    CHARL_GEMM_TENSOR_CORE_SPLIT,
    CHARL_GEMM_TENSOR_CORE_PADDED /* rows that are not aligned to 16 bytes are copied first */
} charl__gemm_form;

enum { CHARL_GEMM_EPILOGUE_IN = 2 };

/** An elementwise expression applied before the result is stored: out = expr(a, b, c). a is the product with its bias, rounded to `type`
 *  as if it had been stored; b and c are the elements of in[0] and in[1] at the same position. The bits are those of a product in `type`
 *  followed by the expression as an elementwise operator (kernels/elementwise/map.cl). */
typedef struct charl__gemm_epilogue {
    /* OpenCL C of charl_real a, b, c, as in kernels/elementwise/map.cl; numbers are part of the text; CHARL_ROUND_AS(T, x) rounds in
     * between */
    const char *expr;
    charl_dtype type;
    int n_in;
    const charl_tensor *in[CHARL_GEMM_EPILOGUE_IN]; /* laid out like out, of any float type */
    const charl_tensor *product;                    /* NULL; or gets a: in `type`, laid out like out */
    /* A second expression, whose a is what the first one gives, rounded to `type`; NULL: none.
     * keeps_first: `product` gets that a. */
    const char *then;
    bool keeps_first;
    /* If charl__gemm_has_rng: the step record, for expressions that name draw (charl__expr), of
     * the layer `key`; the first element of out is element draw_at of the global batch, an argument.
     * NULL: none does. */
    const charl_tensor *record;
    uint64_t key;
    charl__arg draw_at;
} charl__gemm_epilogue;

/** A product that is a sum over others, `leaves` of them, in the fixed tree. */
typedef struct charl__gemm_fold {
    /* > 1: out is the sum over this many products, `outer` apart; count is then inner. Needs charl__gemm_folds. */
    int leaves;
    /* nodes of the tree over so many leaves (a power of two) and more are rounded to bf16; 0: none */
    int rounded;
    /* NULL; or memory for nodes of the tree, charl__gemm_levels elements of f32 from levels_at on: then each of `count` products is a sum
     * over leaves = 2^charl__gemm_fold_levels products, and inner is 1. a_sums are still written for each leaf. */
    const charl_tensor *levels;
    int64_t levels_at;
} charl__gemm_fold;

/** Location of the matrices of an operand, or of the result. Product z = outer * inner_count + inner starts at element
 *  at + outer * .outer + inner * .inner. */
typedef struct charl__gemm_matrix {
    const charl_tensor *tensor;
    charl__gemm_kind kind; /* PLAIN for the result */
    int64_t at;            /* elements to skip */
    int64_t outer, inner;
    int64_t segment; /* elements from one segment of k to the next */
} charl__gemm_matrix;

/** A product; of an image with `window`, folded with `fold`, and ended by an epilogue, if they are set. */
typedef struct charl__gemm {
    charl__gemm_matrix a, b, out;
    const charl_tensor *bias; /* NULL with CHARL_GEMM_NO_BIAS */
    int64_t m, n, k;
    charl__gemm_bias bias_kind;
    charl__gemm_window window;
    int64_t segments;     /* the sum runs over so many segments of k; 0 means 1 */
    int64_t count, inner; /* products, and how many of them `inner` numbers; 0 means 1 */
    charl__gemm_fold fold;
    /* NULL; or gets, from element a_sums_at on, sum_k A[z](i, k) as f32 [count, m], for which
     * charl__gemm_sums_a must be true. */
    const charl_tensor *a_sums;
    int64_t a_sums_at;
    const charl__gemm_epilogue *epilogue; /* NULL: out is the product itself */
    /* > 0: computed from so many digits of 8 bits, 4 of f32 or 2 of half types, if charl__gemm_digits_bytes is not 0. Then `digits` has as many
     * bytes from element digits_at on, a multiple of 32, and the epilogue no random numbers. */
    int n_digits;
    const charl_tensor *digits;
    int64_t digits_at;
    /* Of text that is generated: no launch that may still run writes B or the bias, and the order of the sum over k is free. */
    bool generates;
    charl__gemm_form form; /* AUTO, except in tests */
    const char *label;
} charl__gemm;

/** Whether sums of k products are short and long enough for digits. */
bool charl__gemm_sums_digits(int64_t k);

/** Work-items of a group of a kernel that cuts operands into digits: `most`, or 1 on CPUs and where groups are smaller. */
size_t charl__digits_group(const charl_device *dev, int most);
/** Bytes for the digits of p, if it is computed from digits; else 0. Depends on the layout and extents only, because these decide the bits; p needs no
 *  tensors. */
int64_t charl__gemm_digits_bytes(const charl__gemm *p);

/** Enqueue. Allocates nothing. Async. Errors: ERR_SHAPE when an extent does not fit the kernels;
 *  ERR_KERNEL, ERR_DEVICE. */
charl_status charl__gemm_enqueue(charl_device *dev, const charl__gemm *p) CHARL_MUST_CHECK;

/** Whether epilogues of products of `type`, but those of integers, may use random numbers, whichever back end computes them. */
bool charl__gemm_has_rng(charl_device *dev, charl_dtype type);

/** True if a_sums is supported for p. Depends only on what determines the bits. */
bool charl__gemm_sums_a(charl_device *dev, const charl__gemm *p);

/** True if a product that folds (charl__gemm_folds) can sum A too: a_sums [m] is then
 *  the sum over leaves, in the tree, of the sum that kernels/reduce/reduce.cl computes of a column. */
bool charl__gemm_folds_sums(charl_device *dev, const charl__gemm *p);

/** The levels of the tree, at most `most`, that p, whose p->count products are leaves, should fold itself through charl__gemm_fold.levels; 0: none.
 *  The others are left to another launch. Changes no bits. */
int charl__gemm_fold_levels(charl_device *dev, const charl__gemm *p, int most);
/** Elements that charl__gemm_fold.levels needs for any product with so many levels. */
int64_t charl__gemm_levels(charl_device *dev, int levels);

/** True if `leaves` is supported and worth it for this product: partial sums are then never written to
 *  memory. */
bool charl__gemm_folds(charl_device *dev, const charl__gemm *p);

#endif
