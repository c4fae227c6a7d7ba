#ifndef CHARL_TESTS_IO_IMAGE_SAMPLE_H
#define CHARL_TESTS_IO_IMAGE_SAMPLE_H
/** Image files for tests, written with the libraries that read them. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h> /* needs stdio.h before it */
#include <png.h>

#include "io/scratch.h"

/* What a PNG file is to be; pixels are whole bytes of the colour type and depth. */
typedef struct png_sample {
    int width, height, depth, color;
    bool interlaced;
    int n_palette;
    png_color palette[4];
} png_sample;

static inline void put_png(const char *path, const png_sample *s, const unsigned char *pixels, size_t row_bytes)
{
    FILE *f = fopen(path, "wb");
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_bytep rows[64];

    assert_non_null(f);
    assert_true(s->height <= 64);
    for (int y = 0; y < s->height; y++) {
        rows[y] = malloc(row_bytes);
        memcpy(rows[y], pixels + (size_t)y * row_bytes, row_bytes);
    }
    png_init_io(png, f);
    png_set_IHDR(png, info, (png_uint_32)s->width, (png_uint_32)s->height, s->depth, s->color,
                 s->interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    if (s->n_palette > 0) {
        png_set_PLTE(png, info, s->palette, s->n_palette);
    }
    png_set_rows(png, info, rows);
    png_write_png(png, info, PNG_TRANSFORM_IDENTITY, NULL);
    png_destroy_write_struct(&png, &info);
    for (int y = 0; y < s->height; y++) {
        free(rows[y]);
    }
    assert_int_equal(fclose(f), 0);
}

static inline void put_rgb_png(const char *path, int width, int height, const unsigned char *rgb)
{
    put_png(path, &(png_sample){width, height, 8, PNG_COLOR_TYPE_RGB, false, 0, {{0, 0, 0}}}, rgb, (size_t)width * 3);
}

/* space: JCS_GRAYSCALE, JCS_RGB or JCS_CMYK, of 1, 3 or 4 bytes per pixel. */
static inline void put_jpeg(const char *path, int width, int height, J_COLOR_SPACE space, bool progressive,
                            const unsigned char *pixels)
{
    const int channels = space == JCS_GRAYSCALE ? 1 : space == JCS_RGB ? 3 : 4;
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    unsigned char row[1024];
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_stdio_dest(&c, f);
    c.image_width = (JDIMENSION)width;
    c.image_height = (JDIMENSION)height;
    c.input_components = channels;
    c.in_color_space = space;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, 95, TRUE);
    if (progressive) {
        jpeg_simple_progression(&c);
    }
    jpeg_start_compress(&c, TRUE);
    while (c.next_scanline < c.image_height) {
        unsigned char *rows[1] = {row};

        memcpy(row, pixels + c.next_scanline * (size_t)(width * channels), (size_t)(width * channels));
        jpeg_write_scanlines(&c, rows, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    assert_int_equal(fclose(f), 0);
}

/* A whole file into data; returns its length. */
static inline size_t get_file(const char *path, unsigned char *data, size_t room)
{
    FILE *f = fopen(path, "rb");
    size_t n;

    assert_non_null(f);
    n = fread(data, 1, room, f);
    assert_true(n < room);
    fclose(f);
    return n;
}

#endif
