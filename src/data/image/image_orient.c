/* Orientation: cameras store pixels in sensor order, and a number from 1 to 8 (Exif 2.3,
 * tag 0x0112) that says how to rotate and mirror them. */
#include <string.h>

#include "base/alloc.h"
#include "data/image/image_pixels.h"

enum { HEADER = 6, IFD_ENTRY = 12, TAG_ORIENTATION = 0x0112, TYPE_SHORT = 3 };

static uint32_t get(const unsigned char *p, int bytes, bool big)
{
    uint32_t v = 0;

    for (int i = 0; i < bytes; i++) {
        v = v << 8 | p[big ? i : bytes - 1 - i];
    }
    return v;
}

int charl__exif_orientation(const unsigned char *data, size_t bytes)
{
    const unsigned char *tiff = data + HEADER;
    size_t n, at, entries;
    uint32_t value;
    bool big;

    if (bytes < HEADER + 8 || memcmp(data, "Exif\0", HEADER) != 0) {
        return 1;
    }
    n = bytes - HEADER;
    big = tiff[0] == 'M';
    at = get(tiff + 4, 4, big);
    if (at > n - 2) {
        return 1;
    }
    entries = get(tiff + at, 2, big);
    for (at += 2; entries > 0 && at + IFD_ENTRY <= n; at += IFD_ENTRY, entries--) {
        if (get(tiff + at, 2, big) == TAG_ORIENTATION && get(tiff + at + 2, 2, big) == TYPE_SHORT) {
            value = get(tiff + at + 8, 2, big);
            return value >= 1 && value <= 8 ? (int)value : 1;
        }
    }
    return 1;
}

charl_status charl__pixels_orient(charl__pixels *p, int orientation)
{
    const bool turns = orientation >= 5; /* rows become columns */
    const bool flip_rows = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    const bool flip_columns = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    charl__pixels out = {.height = turns ? p->width : p->height, .width = turns ? p->height : p->width};

    if (orientation == 1) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__alloc_array(out.height * out.width, 3, &out.rgb));
    for (int64_t y = 0; y < out.height; y++) {
        for (int64_t x = 0; x < out.width; x++) {
            const int64_t r = turns ? x : y, c = turns ? y : x;
            const int64_t row = flip_rows ? p->height - 1 - r : r;
            const int64_t column = flip_columns ? p->width - 1 - c : c;

            memcpy(out.rgb + 3 * (y * out.width + x), p->rgb + 3 * (row * p->width + column), 3);
        }
    }
    charl_free(p->rgb);
    *p = out;
    return CHARL_OK;
}
