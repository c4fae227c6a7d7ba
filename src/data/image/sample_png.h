#ifndef CHARL_DATA_IMAGE_SAMPLE_PNG_H
#define CHARL_DATA_IMAGE_SAMPLE_PNG_H
/** Images of samples, for display. */
#include "charl/dataset.h"

typedef struct charl__sample_picture {
    unsigned char *png; /* a file, owned by the caller; NULL: none */
    size_t png_bytes;
    int64_t height, width;
} charl__sample_picture;

/** Draw row `row` of a split, at most 128 pixels on a side. A sample is an image if it is [height, width] or [channels, height,
 *  width]; three channels are red, green and blue; otherwise the first is drawn in gray. Values that are not bytes are scaled: the smallest
 *  is black and the largest white. Without an image, or in a build without PNG, out->png is NULL.
 *
 *  Blocks. Local. Errors: as charl_dataset_read; ERR_NOMEM. */
charl_status charl__sample_png(charl_dataset *ds, charl_split split, int64_t row,
                               charl__sample_picture *out) CHARL_MUST_CHECK;

/** Draw x [channels, height, width], channels 1 or 3, in full size; the smallest value is black and the largest white. Without PNG in the build,
 *  out->png is NULL. Errors: ERR_NOMEM. */
charl_status charl__array_png(const float *x, int channels, int64_t height, int64_t width,
                              charl__sample_picture *out) CHARL_MUST_CHECK;

#endif
