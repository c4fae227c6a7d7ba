/* JPEG through libjpeg. It reports failures by longjmp, so everything that must then be released is in a
 * struct of the caller. It reports damage only as a warning and makes up the rest, so warnings of
 * damage are failures here. With arithmetic coding it does not even warn: a file of 577 bytes becomes 31 million
 * pixels, and takes as long to decode. Such files are rejected. */
#include "base/alloc.h"
#include "data/image/image_pixels.h"

#ifdef CHARL_HAVE_JPEG
#include <setjmp.h>
#include <stdio.h>

#include <jerror.h>
#include <jpeglib.h>

enum { EXIF_MARKER = JPEG_APP0 + 1 };
enum { MAX_SCANS = 100 }; /* scans of a progressive file; ten are usual, and each costs a pass */

typedef struct decoder {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    char message[JMSG_LENGTH_MAX];
    const char *path;
    charl__pixels *out;
    unsigned char *cmyk; /* a row of a CMYK image, owned; else NULL */
    int orientation;
    charl_status st;
} decoder;

static void give_up(j_common_ptr jpeg)
{
    decoder *d = jpeg->client_data;

    if (!d->message[0]) {
        jpeg->err->format_message(jpeg, d->message);
    }
    longjmp(d->escape, 1);
}

static void on_message(j_common_ptr jpeg, int level)
{
    const int code = jpeg->err->msg_code;

    /* Bytes between markers and unusual colour tags are common and harmless. */
    if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM && code != JWRN_JFIF_MAJOR) {
        give_up(jpeg);
    }
}

static void on_progress(j_common_ptr jpeg)
{
    decoder *d = jpeg->client_data;

    if (d->jpeg.input_scan_number > MAX_SCANS) {
        snprintf(d->message, sizeof d->message, "more than %d scans", MAX_SCANS);
        give_up(jpeg);
    }
}

static int find_orientation(const decoder *d)
{
    int found = 1;

    for (jpeg_saved_marker_ptr m = d->jpeg.marker_list; m && found == 1; m = m->next) {
        if (m->marker == EXIF_MARKER) {
            found = charl__exif_orientation(m->data, m->data_length);
        }
    }
    return found;
}

static charl_status begin(decoder *d)
{
    const bool prints = d->jpeg.jpeg_color_space == JCS_CMYK || d->jpeg.jpeg_color_space == JCS_YCCK;

    CHARL_REQUIRE(!d->jpeg.arith_code, CHARL_ERR_DATA,
                  "%s: JPEG files with arithmetic coding are not read, since damage to them goes unnoticed; HINT "
                  "convert it with jpegtran",
                  d->path);
    CHARL_TRY(charl__pixels_create(d->path, d->jpeg.image_height, d->jpeg.image_width, d->out));
    d->orientation = find_orientation(d);
    if (prints) {
        CHARL_TRY(charl__alloc_array(d->jpeg.image_width, 4, &d->cmyk));
    }
    d->jpeg.out_color_space = prints ? JCS_CMYK : JCS_RGB;
    d->jpeg.dct_method = JDCT_ISLOW; /* exact integer arithmetic */
    return CHARL_OK;
}

/* a * b / 255, rounded. */
static int product(int a, int b)
{
    const int v = a * b + 128;

    return (v + (v >> 8)) >> 8;
}

/* CMYK to RGB without a colour profile, as Pillow does. Files contain 255 - ink, by Adobe's convention. */
static void cmyk_to_rgb(const unsigned char *cmyk, int64_t n, unsigned char *rgb)
{
    for (int64_t i = 0; i < n; i++) {
        const int white = cmyk[4 * i + 3];

        for (int c = 0; c < 3; c++) {
            rgb[3 * i + c] = (unsigned char)(white - product(255 - cmyk[4 * i + c], white));
        }
    }
}

/* False after a longjmp. */
static bool run(decoder *d, const unsigned char *data, size_t bytes)
{
    if (setjmp(d->escape)) {
        return false;
    }
    jpeg_create_decompress(&d->jpeg);
    d->jpeg.progress = &d->progress;
    jpeg_mem_src(&d->jpeg, data, bytes);
    jpeg_save_markers(&d->jpeg, EXIF_MARKER, 0xffff);
    jpeg_read_header(&d->jpeg, TRUE);
    d->st = begin(d);
    if (d->st != CHARL_OK) {
        return true;
    }
    jpeg_start_decompress(&d->jpeg);
    while (d->jpeg.output_scanline < d->jpeg.output_height) {
        unsigned char *row = d->out->rgb + (size_t)d->jpeg.output_scanline * (size_t)d->out->width * 3;

        jpeg_read_scanlines(&d->jpeg, d->cmyk ? &d->cmyk : &row, 1);
        if (d->cmyk) {
            cmyk_to_rgb(d->cmyk, d->out->width, row);
        }
    }
    jpeg_finish_decompress(&d->jpeg);
    return true;
}

charl_status charl__jpeg_decode(const char *path, const unsigned char *data, size_t bytes, charl__pixels *out)
{
    charl_status st = CHARL_OK;
    decoder d = {.path = path, .out = out};
    bool good;

    d.jpeg.err = jpeg_std_error(&d.errors);
    d.jpeg.client_data = &d;
    d.errors.error_exit = give_up;
    d.errors.emit_message = on_message;
    d.progress.progress_monitor = on_progress;
    good = run(&d, data, bytes);
    jpeg_destroy_decompress(&d.jpeg);
    charl_free(d.cmyk);
    CHARL_REQUIRE(good, CHARL_ERR_DATA, "%s: damaged or truncated JPEG file: %s", path, d.message);
    CHARL_TRY(d.st);
    CHARL_TRY(charl__pixels_orient(out, d.orientation));
    return st;
}
#else
charl_status charl__jpeg_decode(const char *path, const unsigned char *data, size_t bytes, charl__pixels *out)
{
    (void)data;
    (void)bytes;
    (void)out;
    CHARL_FAIL(CHARL_ERR_DATA,
               "%s: this charl was built without JPEG; HINT install libjpeg-dev and build "
               "it again",
               path);
    return CHARL_OK;
}
#endif
