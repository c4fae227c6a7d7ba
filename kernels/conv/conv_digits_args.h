#ifndef CHARL_KERNELS_CONV_CONV_DIGITS_ARGS_H
#define CHARL_KERNELS_CONV_CONV_DIGITS_ARGS_H
#include "shared/numbers.h"

/* The numbers of conv_split.cl: planes of an image or a weight, and where their digits go. */
typedef struct charl__conv_split_args {
    uint64_t x, to, largest; /* where the elements, their digits and the largest magnitudes begin */
    int64_t head;            /* bytes from `to` to the first digit, */
    int64_t digit;           /* and from a digit to the next */
    int64_t row_step, k_step; /* of a weight: elements from a row, and from k, to the next */
    int32_t samples, channels, area, width; /* of the image; area: pixels of a plane */
    int32_t rows, k, pitch, taps;           /* of a weight: rows, and elements of a tap; pitch: bytes of k of a pixel or a tap */
    int32_t slice;                          /* of an image by pixels: samples of a slice, */
    int32_t slice_bytes, row_bytes, pixel_bytes; /* and bytes of a slice, a multiple of 64, of a row of pixels and of a pixel, a multiple of 16 */
} charl__conv_split_args;

/* The numbers of conv_digits.cl and nvidia/conv/conv_digits_wgmma.cl; the first says what they mean. */
typedef struct charl__conv_digits_args {
    uint64_t a, b, bias, out;
    int64_t a_head, b_head, a_digit, b_digit;
    int32_t m, n, k, leaves, parts;
    int32_t taps_h, taps_w, shift_h, shift_w, step_h, step_w;
    int32_t image_h, image_w, grid_h, grid_w;
    int32_t slice_bytes, row_bytes, pixel_bytes;
    int32_t tiles, box_w, box_h, box_n; /* extents of a tile of pixels, logarithms to base 2 */
} charl__conv_digits_args;

#endif
