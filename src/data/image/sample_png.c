#include "data/image/sample_png.h"

#include "base/alloc.h"
#include "io/commit.h"

#ifdef CHARL_HAVE_PNG
#include <math.h>
#include <png.h>
#include <string.h>

enum { MOST_PIXELS = 128 };

static double value_at(const void *x, charl_dtype dtype, int64_t i)
{
    switch (dtype) {
    case CHARL_U8:
        return ((const uint8_t *)x)[i];
    case CHARL_U16:
        return ((const uint16_t *)x)[i];
    case CHARL_U32:
        return ((const uint32_t *)x)[i];
    default:
        return (double)((const float *)x)[i];
    }
}

/* How a sample [channels, height, width] is drawn. */
typedef struct drawing {
    int64_t height, width; /* of the sample */
    int64_t step;          /* a pixel is the mean of step x step values */
    int channels;          /* 1 or 3 */
    double black, white;
} drawing;

/* A range that is given stays. */
static void find_range(const void *x, charl_dtype dtype, drawing *d)
{
    if (d->black < d->white) {
        return;
    }
    d->black = dtype == CHARL_U8 ? 0.0 : (double)INFINITY;
    d->white = dtype == CHARL_U8 ? 255.0 : (double)-INFINITY;
    for (int64_t i = 0; dtype != CHARL_U8 && i < d->channels * d->height * d->width; i++) {
        d->black = fmin(d->black, value_at(x, dtype, i));
        d->white = fmax(d->white, value_at(x, dtype, i));
    }
    d->white = d->white > d->black ? d->white : d->black + 1.0;
}

static unsigned char pixel(const void *x, charl_dtype dtype, const drawing *d, int channel, int64_t top, int64_t left)
{
    double sum = 0.0;

    for (int64_t k = 0; k < d->step * d->step; k++) {
        const int64_t y = top * d->step + k / d->step, at = left * d->step + k % d->step;

        sum += value_at(x, dtype, (channel * d->height + y) * d->width + at);
    }
    sum = 255.0 * (sum / (double)(d->step * d->step) - d->black) / (d->white - d->black);
    return sum > 0.0 ? (unsigned char)(fmin(sum, 255.0) + 0.5) : 0; /* NaN is black */
}

static charl_status encode(const unsigned char *pixels, int channels, charl__sample_picture *out)
{
    charl_status st = CHARL_OK;
    png_image image;
    png_alloc_size_t bytes;

    memset(&image, 0, sizeof image);
    image.version = PNG_IMAGE_VERSION;
    image.height = (png_uint_32)out->height;
    image.width = (png_uint_32)out->width;
    image.format = channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
    CHARL_TRY_CLEANUP(charl__alloc(bytes, &out->png));
    CHARL_REQUIRE_CLEANUP(png_image_write_to_memory(&image, out->png, &bytes, 0, pixels, 0, NULL), CHARL_ERR_NOMEM,
                          "cannot draw a sample: %s", image.message);
    out->png_bytes = bytes;
cleanup:
    png_image_free(&image);
    return st;
}

static charl_status draw(const void *x, charl_dtype dtype, drawing *d, charl__sample_picture *out)
{
    charl_status st = CHARL_OK;
    unsigned char *pixels = NULL, *to;

    find_range(x, dtype, d);
    out->height = d->height / d->step;
    out->width = d->width / d->step;
    CHARL_TRY(charl__alloc((size_t)(out->height * out->width * d->channels), &pixels));
    to = pixels;
    for (int64_t i = 0; i < out->height * out->width; i++) {
        for (int c = 0; c < d->channels; c++) {
            *to++ = pixel(x, dtype, d, c, i / out->width, i % out->width);
        }
    }
    st = encode(pixels, d->channels, out);
    charl_free(pixels);
    return st;
}

charl_status charl__sample_png(charl_dataset *ds, charl_split split, int64_t row, charl__sample_picture *out)
{
    charl_status st;
    charl_dataset_info info;
    const charl_shape *s = &info.x_shape;
    drawing d;
    int64_t longer;
    void *x = NULL;

    *out = (charl__sample_picture){0};
    charl_dataset_get_info(ds, &info);
    if (info.kind != CHARL_DATASET_IMAGES || s->ndim < 2 || s->ndim > 3) {
        return CHARL_OK;
    }
    d = (drawing){.height = s->dim[s->ndim - 2],
                  .width = s->dim[s->ndim - 1],
                  .channels = s->ndim == 3 && s->dim[0] == 3 ? 3 : 1};
    longer = d.height > d.width ? d.height : d.width;
    d.step = (longer + MOST_PIXELS - 1) / MOST_PIXELS;
    if (d.height < d.step || d.width < d.step) { /* a strip */
        return CHARL_OK;
    }
    CHARL_TRY(charl__alloc_array(charl_shape_count(s), charl_dtype_size(info.x_dtype), &x));
    st = charl_dataset_read(ds, split, &row, 1, x, NULL);
    st = st == CHARL_OK ? draw(x, info.x_dtype, &d, out) : st;
    charl_free(x);
    return st;
}

static charl_status draw_sheet(const float *x, const drawing *sheet, charl__sample_picture *out)
{
    drawing d = *sheet;

    return draw(x, CHARL_F32, &d, out);
}
#else
typedef struct drawing {
    int64_t height, width, step;
    int channels;
    double black, white;
} drawing;

static charl_status draw_sheet(const float *x, const drawing *sheet, charl__sample_picture *out)
{
    (void)x;
    (void)sheet;
    (void)out;
    return CHARL_OK;
}

charl_status charl__sample_png(charl_dataset *ds, charl_split split, int64_t row, charl__sample_picture *out)
{
    (void)ds;
    (void)split;
    (void)row;
    *out = (charl__sample_picture){0};
    return CHARL_OK;
}
#endif

int charl__sheet_channels(const charl_shape *s)
{
    return s->ndim == 2 ? 1 : s->ndim == 3 && (s->dim[0] == 1 || s->dim[0] == 3) ? (int)s->dim[0] : 0;
}

int64_t charl__sheet_columns(int64_t n)
{
    int64_t columns = 1;

    while (columns * columns < n) {
        columns++;
    }
    return columns;
}

charl_status charl__sheet_write(const char *file, const charl_shape *shape, const float *x, int64_t n, double black,
                                double white)
{
    const int channels = charl__sheet_channels(shape);
    const int64_t columns = charl__sheet_columns(n), lines = (n + columns - 1) / columns;
    char text[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(channels > 0, CHARL_ERR_CONFIG, "%s: samples are %s, which no picture shows", file,
                  charl_shape_format(shape, text));
    const int64_t h = shape->dim[shape->ndim - 2], w = shape->dim[shape->ndim - 1];
    const drawing d = {.height = lines * h, .width = columns * w, .step = 1, .channels = channels, black, white};
    CHARL_SCOPED_FREE float *sheet = NULL;
    CHARL_SCOPED_FREE unsigned char *png = NULL;
    charl__sample_picture picture = {0};
    float least = black < white ? (float)black : x[0];

    for (int64_t i = 0; !(black < white) && i < n * channels * h * w; i++) {
        least = x[i] < least ? x[i] : least;
    }
    CHARL_TRY(charl__alloc_array(channels * d.height * d.width, sizeof *sheet, &sheet));
    for (int64_t i = 0; i < channels * d.height * d.width; i++) {
        const int64_t c = i / (d.height * d.width), row = i / d.width % d.height, column = i % d.width;
        const int64_t k = row / h * columns + column / w;

        sheet[i] = k < n ? x[((k * channels + c) * h + row % h) * w + column % w] : least;
    }
    CHARL_TRY(draw_sheet(sheet, &d, &picture));
    png = picture.png;
    CHARL_REQUIRE(png, CHARL_ERR_CONFIG, "%s: this build of charl has no PNG library, so it draws no pictures", file);
    return charl__commit_bytes(file, png, picture.png_bytes);
}
