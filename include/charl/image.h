#ifndef CHARL_IMAGE_H
#define CHARL_IMAGE_H
/** Image files: decoding PNG and JPEG to samples of one size, and importing folders of them.
 *
 *  What a library is missing for at build time is refused when it is met. Colours are read as sRGB,
 *  CMYK without a profile (R = (255 - C) (255 - K) / 255); a picture with transparency is put on white;
 *  16-bit channels are rounded to 8. JPEG files are
 *  turned as their Exif orientation asks. Nothing here is collective.
 */
#include "charl/dataset.h"

CHARL_BEGIN_DECLS

/** How a picture of another shape comes into the sample's. */
typedef enum charl_image_fit {
    CHARL_FIT_CROP,    /* the largest part in the middle that has the shape */
    CHARL_FIT_STRETCH, /* all of it, distorted */
    CHARL_FIT_PAD,     /* all of it in the middle, with black around */
    CHARL_FIT_COUNT
} charl_image_fit;

/** "crop" ...; "?" outside the enum. Local. */
const char *charl_image_fit_name(charl_image_fit fit);
/** The fit of that name, or COUNT. Local. */
charl_image_fit charl_image_fit_of(const char *name);

/** What every picture is made into. */
typedef struct charl_image_format {
    int64_t channels; /* 1: gray (0.299 R + 0.587 G + 0.114 B), or 3: RGB */
    int64_t height, width;
    charl_image_fit fit;
} charl_image_format;

/** Decode the PNG or JPEG file `path` into out, u8 [channels, height, width]. Its contents decide
 *  which it is, not its name. Resized with a triangle filter that covers all source pixels, as Pillow's BILINEAR with a
 *  box (bilinear when growing, a weighted mean when shrinking); a picture of the right size is copied exactly.
 *
 *  Blocks. Local. Thread-safe. Deterministic. Memory: the file and its pixels.
 *  Errors: ERR_DATA   missing, not regular, truncated, damaged, of more than 2^26 pixels, or of a format that this
 *                     build cannot read; the message names the file
 *          ERR_NOMEM */
charl_status charl_image_read(const char *path, const charl_image_format *format, unsigned char *out) CHARL_MUST_CHECK;

/** Paths of image files, owned: give back with charl_image_files_fini. */
typedef struct charl_image_files {
    char **paths;
    int64_t count;
} charl_image_files;

/** Append `path` itself, or, where it is a folder, the .png, .jpg and .jpeg files in it, sorted by
 *  name. Start from {0}. Blocks. Local. Errors: ERR_DATA for a folder without images, or with images
 *  of a kind that charl does not read (.gif, .webp, ...); ERR_IO. */
charl_status charl_image_files_add(charl_image_files *files, const char *path) CHARL_MUST_CHECK;
void charl_image_files_fini(charl_image_files *files);

/** Format i = 0, 1, ... of image files that this build reads, such as "png"; NULL after the last. Static storage.
 *  Local. */
const char *charl_image_format_name(int i);

CHARL_END_DECLS

#endif
