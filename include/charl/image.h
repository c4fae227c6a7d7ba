#ifndef CHARL_IMAGE_H
#define CHARL_IMAGE_H
/** Image files: decoding PNG and JPEG to samples of one size, and importing folders of them.
 *
 *  A format whose library was missing at build time is refused when a file of it is read. Colours are read as sRGB,
 *  CMYK without a profile (R = (255 - C) (255 - K) / 255). Transparent images are composited on white, 16-bit channels
 *  are rounded to 8, and JPEG files are rotated according to their Exif orientation. Nothing here is collective.
 */
#include "charl/import.h"

CHARL_BEGIN_DECLS

/** Decode the PNG or JPEG file `path` into out, u8 [channels, height, width]. The format is detected from the contents,
 *  not from the name. The image is resized with a triangle filter over all source pixels, as Pillow's BILINEAR with a
 *  box (bilinear for enlarging, a weighted mean for reducing); an image of the right size is copied exactly.
 *
 *  Blocks. Local. Thread-safe. Deterministic. Memory: the file and its pixels.
 *  Errors: ERR_DATA   missing, not regular, truncated, damaged, of more than 2^26 pixels, or of a format that this
 *                     build cannot read; the message names the file
 *          ERR_NOMEM */
charl_status charl_image_read(const char *path, const charl_image_format *format, unsigned char *out) CHARL_MUST_CHECK;

/** Paths of image files; release with charl_image_files_fini. */
typedef struct charl_image_files {
    char **paths;
    int64_t count;
} charl_image_files;

/** Append `path`, or if it is a folder the .png, .jpg and .jpeg files in it, sorted by name. Initialize `files` with
 *  {0}. Blocks. Local. Errors: ERR_DATA  a folder without images, or with images of a format that charl does not read
 *  (.gif, .webp, ...); ERR_IO. */
charl_status charl_image_files_add(charl_image_files *files, const char *path) CHARL_MUST_CHECK;
void charl_image_files_fini(charl_image_files *files);

/** Format i = 0, 1, ... of image files that this build reads, such as "png"; NULL after the last. Static storage.
 *  Local. */
const char *charl_image_format_name(int i);

CHARL_END_DECLS

#endif
