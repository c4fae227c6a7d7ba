/* PNG through libpng's simplified interface, which handles palettes, depths, interlacing and
 * transparency. */
#include "base/error.h"
#include "data/image/image_pixels.h"

#ifdef CHARL_HAVE_PNG
#include <png.h>
#include <string.h>

charl_status charl__png_decode(const char *path, const unsigned char *data, size_t bytes, charl__pixels *out)
{
    charl_status st = CHARL_OK;
    const png_color white = {255, 255, 255};
    png_image image;

    memset(&image, 0, sizeof image);
    image.version = PNG_IMAGE_VERSION;
    CHARL_REQUIRE_CLEANUP(png_image_begin_read_from_memory(&image, data, bytes), CHARL_ERR_DATA,
                          "%s: damaged or truncated PNG file: %s", path, image.message);
    CHARL_TRY_CLEANUP(charl__pixels_create(path, image.height, image.width, out));
    image.format = PNG_FORMAT_RGB;
    image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB; /* otherwise 16 bits are treated as linear light */
    CHARL_REQUIRE_CLEANUP(png_image_finish_read(&image, &white, out->rgb, 0, NULL), CHARL_ERR_DATA,
                          "%s: damaged or truncated PNG file: %s", path, image.message);
cleanup:
    png_image_free(&image);
    return st;
}
#else
charl_status charl__png_decode(const char *path, const unsigned char *data, size_t bytes, charl__pixels *out)
{
    (void)data;
    (void)bytes;
    (void)out;
    CHARL_FAIL(CHARL_ERR_DATA, "%s: this charl was built without PNG; HINT install libpng-dev and build it again",
               path);
    return CHARL_OK;
}
#endif
