#ifndef CHARL_TENSOR_CONV_H
#define CHARL_TENSOR_CONV_H
/** 2-D convolution and its two gradients as matrix products that read the image in place.
 *
 *  x [batch, c, h, w]  weight [o, c/groups, kh, kw]  out [batch, o, oh, ow]. An output pixel is one
 * chain of fma over (channel, kh, kw); a pixel of the input's gradient one over (output channel,
 * kh, kw); an element of a weight's gradient one over (sample, pixel) of a slice.
 */
#include "tensor/gemm.h"

typedef struct charl_conv {
    int64_t batch, c, h, w, o, oh, ow;
    int groups;
    int kernel[2], stride[2], padding[2], dilation[2]; /* H, W */
} charl_conv;

/** Extent of the output along an axis of extent n (0: H, 1: W); not positive when the kernel does
 * not fit. */
int64_t charl__conv_extent(const charl_conv *c, int axis, int64_t n);

/** The product that gives out = conv(x, weight) + bias; operands are the caller's to fill in: a =
 * weight, b = x, bias [o], out. */
charl_gemm charl__conv_forward(const charl_conv *c, bool bias);
/** d x: a = weight, b = d out, out = d x. */
charl_gemm charl__conv_input_gradient(const charl_conv *c);
/** d weight as one product per slice of `rows` samples: a = d out, b = x, out [batch / rows, o,
 * c/groups, kh, kw]. */
charl_gemm charl__conv_weight_gradient(const charl_conv *c, int64_t rows);

#endif
