#ifndef CHARL_DATA_IMAGE_IMAGE_PIXELS_H
#define CHARL_DATA_IMAGE_IMAGE_PIXELS_H
/** A decoded image, and the steps from a file to a sample. */
#include "charl/image.h"

enum { CHARL__IMAGE_MAX_PIXELS = 1 << 26 };

typedef struct charl__pixels {
    int64_t height, width;
    unsigned char *rgb; /* [height, width, 3], owned */
} charl__pixels;

/** Memory for an image of these extents, after checking them: a file of a few bytes may claim
 *  billions. Errors: ERR_DATA naming the file, ERR_NOMEM. */
charl_status charl__pixels_create(const char *path, int64_t height, int64_t width, charl__pixels *out) CHARL_MUST_CHECK;
void charl__pixels_fini(charl__pixels *p);

/** Decode the image in `bytes` bytes of a file. `out` starts as {0} and must be released even after a
 *  failure. Errors: ERR_DATA naming the file, ERR_NOMEM. */
charl_status charl__png_decode(const char *path, const unsigned char *data, size_t bytes,
                               charl__pixels *out) CHARL_MUST_CHECK;
charl_status charl__jpeg_decode(const char *path, const unsigned char *data, size_t bytes,
                                charl__pixels *out) CHARL_MUST_CHECK;

/** Read and decode the file `path`. `out` starts as {0} and must be released even after a failure. Errors: as charl_image_read. */
charl_status charl__pixels_read(const char *path, charl__pixels *out) CHARL_MUST_CHECK;

/** The orientation, 1 to 8, in an APP1 segment of a JPEG file; 1, unchanged, if it has none. */
int charl__exif_orientation(const unsigned char *data, size_t bytes);
/** Rotate and mirror an image by its orientation. Errors: ERR_NOMEM. */
charl_status charl__pixels_orient(charl__pixels *p, int orientation) CHARL_MUST_CHECK;

/** The image as a sample, u8 [channels, height, width]. Errors: ERR_NOMEM. */
charl_status charl__pixels_resize(const charl__pixels *in, const charl_image_format *format,
                                  unsigned char *out) CHARL_MUST_CHECK;

#endif
