#ifndef CHARL_DATA_IMAGE_IMAGE_PIXELS_H
#define CHARL_DATA_IMAGE_IMAGE_PIXELS_H
/** A decoded picture, and the steps from a file to a sample. */
#include "charl/image.h"

enum { CHARL__IMAGE_MAX_PIXELS = 1 << 26 };

typedef struct charl__pixels {
    int64_t height, width;
    unsigned char *rgb; /* [height, width, 3], owned */
} charl__pixels;

/** Memory for a picture of these extents, after a look at them: a file of a few bytes may claim
 *  billions. Errors: ERR_DATA naming the file, ERR_NOMEM. */
charl_status charl__pixels_create(const char *path, int64_t height, int64_t width, charl__pixels *out) CHARL_MUST_CHECK;
void charl__pixels_fini(charl__pixels *p);

/** The picture in `bytes` bytes of a file. `out` starts as {0} and is to be given back even after a
 *  failure. Errors: ERR_DATA naming the file, ERR_NOMEM. */
charl_status charl__png_decode(const char *path, const unsigned char *data, size_t bytes,
                               charl__pixels *out) CHARL_MUST_CHECK;
charl_status charl__jpeg_decode(const char *path, const unsigned char *data, size_t bytes,
                                charl__pixels *out) CHARL_MUST_CHECK;

/** The orientation, 1 to 8, in an APP1 segment of a JPEG file; 1, as it is, where it holds none. */
int charl__exif_orientation(const unsigned char *data, size_t bytes);
/** Turn and mirror a picture as the orientation asks. Errors: ERR_NOMEM. */
charl_status charl__pixels_orient(charl__pixels *p, int orientation) CHARL_MUST_CHECK;

/** The picture as a sample, u8 [channels, height, width]. Errors: ERR_NOMEM. */
charl_status charl__pixels_resize(const charl__pixels *in, const charl_image_format *format,
                                  unsigned char *out) CHARL_MUST_CHECK;

#endif
