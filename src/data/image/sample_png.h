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

/** Channels of a picture of samples of this shape: 1 or 3; 0: none shows them. */
int charl__sheet_channels(const charl_shape *shape);

/** Samples in a line of a sheet of n. */
int64_t charl__sheet_columns(int64_t n);

/** Draw n samples x [n, shape] side by side, in about as many lines as columns, and write the picture to `file`, which is replaced if it
 *  exists. Values up to `black` are black and from `white` on white; if these are equal, the smallest of all is black and the largest white.
 *  Blocks. Local. Errors: ERR_CONFIG  no picture shows them; this build has no PNG library; ERR_DISK, ERR_NOMEM. */
charl_status charl__sheet_write(const char *file, const charl_shape *shape, const float *x, int64_t n, double black,
                                double white) CHARL_MUST_CHECK;

#endif
