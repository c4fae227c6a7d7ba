#ifndef CHARL_TENSOR_CONV_NVIDIA_CONV_TENSOR_CORE_H
#define CHARL_TENSOR_CONV_NVIDIA_CONV_TENSOR_CORE_H
/** Convolutions of bf16 or f16 on NVIDIA's tensor cores (facts.nvidia: wgmma, kernels/nvidia/conv/conv_wgmma.cl, or mma, conv_mma.cl):
 *  operands are channels-last, [batch, h, w, padded channels], and start at multiples of 16 bytes.
 *
 *  A sum is a chain in ascending (kh, kw, channel) of the products' pixels or, for a weight's
 *  gradient, in ascending pixel; its bits are the same for every tile and batch. They differ from the bits
 *  of the portable kernels and between the two instructions.
 */
#include "nvidia/conv/conv_args.h"
#include "tensor/conv/conv.h"

enum { CHARL_CONV_CHUNK = 8 }; /* channels of a pixel are a multiple of this */

/** Number of channels of a pixel in memory: the padding is zeros. */
static inline int64_t charl__conv_padded(int64_t channels)
{
    return (channels + CHARL_CONV_CHUNK - 1) / CHARL_CONV_CHUNK * CHARL_CONV_CHUNK;
}

/** One product. Element types are those of a and out. */
typedef struct charl__conv_product {
    charl_tensor a, b, out;   /* buffer, dtype and offset are used */
    const charl_tensor *bias; /* f32, one per column, or NULL */
    bool is_gradient;         /* of the weight */
    int64_t m, n, k;          /* k: pixels of a part, for a weight's gradient */
    int64_t parts;            /* of a weight's gradient */
    int64_t ld;               /* elements of a row of the operand that is not an image */
    int chunks;               /* of an image's pixel */
    int image[2], taps[2], grid[2], step[2], shift[2], tap[2]; /* H, W */
    int w_first, w_step[2];                                    /* taps of the weight */
    int out_extent[2], out_step[2], out_place[2];
    const char *label;
} charl__conv_product;

/** out [batch, oh, ow, o]: a = x, b = weight [o, kh, kw, padded c]. */
charl__conv_product charl__conv_product_forward(const charl__conv *c);
/** The pixels of d x [batch, h, w, c] whose coordinates modulo the stride are `at`: a = d out, b =
 *  weight [c, kh, kw, padded o]. With all phases, all of it. */
charl__conv_product charl__conv_product_input_gradient(const charl__conv *c, const int at[2]);
/** d weight [parts, o, kh, kw, padded c] in f32, of as many equal parts of the pixels of d out: a = d out, b = x. */
charl__conv_product charl__conv_product_weight_gradient(const charl__conv *c, int64_t parts);

/** The numbers of the kernel that computes it, except the offsets of operands. */
charl__conv_args charl__conv_product_args(const charl__conv_product *p, int64_t tiles);
/** Enqueue. Async. Errors: ERR_SHAPE when an extent does not fit the kernel; ERR_KERNEL,
 *  ERR_DEVICE. */
charl_status charl__conv_product_enqueue(charl_device *dev, const charl__conv_product *p) CHARL_MUST_CHECK;

/** A matrix per `batch`: from [rows, from_ld] to its transpose [cols, to_ld], zeros beyond the
 *  rows. 16-bit elements. */
typedef struct charl__conv_swap {
    charl_tensor from, to;
    int64_t batch, rows, cols, from_ld, to_ld;
    const char *label;
} charl__conv_swap;

/** Enqueue: NCHW to channels-last is a swap per sample of [c, pixels], and so on. Async. Errors:
 *  ERR_KERNEL, ERR_DEVICE. */
charl_status charl__conv_swap_enqueue(charl_device *dev, const charl__conv_swap *s) CHARL_MUST_CHECK;

#endif
