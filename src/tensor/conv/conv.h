#ifndef CHARL_TENSOR_CONV_CONV_H
#define CHARL_TENSOR_CONV_CONV_H
/** 2-D convolution and its two gradients as matrix products that read the image in place.
 *
 *    x       [batch, c, h, w]
 *    weight  [o, c/groups, kh, kw]
 *    out     [batch, o, oh, ow]
 *
 *  An output pixel is one chain of fma over (channel, kh, kw); a pixel of the input's gradient one over (output channel,
 *  kh, kw); an element of a weight's gradient one over (sample, pixel) of a slice.
 */
#include "tensor/gemm/gemm.h"

typedef struct charl__conv {
    int64_t batch, c, h, w, o, oh, ow;
    int groups;
    int kernel[2], stride[2], padding[2], dilation[2]; /* H, W */
    bool is_integer; /* by products of integers, where autograd/op/conv/conv_digits.c supports them */
} charl__conv;

/** Extent of the output along an axis of extent n (0: H, 1: W); not positive when the kernel does
 *  not fit. */
int64_t charl__conv_extent(const charl__conv *c, int axis, int64_t n);

/** The product that gives out = conv(x, weight) + bias; the caller fills in the operands: a =
 *  weight, b = x, bias [o], out. */
charl__gemm charl__conv_forward(const charl__conv *c, bool bias);
/** d x in one product: a = weight, b = d out, out = d x. With a stride most factors are 0. */
charl__gemm charl__conv_input_gradient(const charl__conv *c);

/** Taps of the pixels of x whose coordinates modulo the stride are `at`: first, first + step, ...,
 *  count of them (0: none). */
typedef struct charl__conv_phase {
    int first[2], step[2], count[2]; /* H, W */
} charl__conv_phase;

charl__conv_phase charl__conv_phase_at(const charl__conv *c, const int at[2]);
/** d x at these pixels, with any stride: a = the weight at these taps [o, c/groups, count], b = d
 *  out, out [batch, c, ceil(h / stride), ceil(w / stride)]. */
charl__gemm charl__conv_phase_gradient(const charl__conv *c, const charl__conv_phase *p, const int at[2]);
/** d weight by one product for each of `slices` equal parts of the batch: a = d out, b = x, out [slices, o,
 *  c/groups, kh, kw]. */
charl__gemm charl__conv_weight_gradient(const charl__conv *c, int64_t slices);

#endif
