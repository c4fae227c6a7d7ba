/* Resizing with a separable triangle filter: an output pixel is the weighted mean of the source
 * pixels within one output pixel (shrinking) or one source pixel (growing) of its centre. Rows
 * are combined first, one output row at a time, so that memory is one row of the source.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "io/image/image_pixels.h"

/* One axis: `length` elements of the output show [begin, begin + extent) of `source` elements. */
typedef struct axis {
    double begin, extent;
    int64_t source, length;
} axis;

/* The source elements that make one element of the output. */
typedef struct taps {
    int64_t first;
    int64_t count;
    double *weight; /* borrowed, most_taps long */
} taps;

static double reach_of(const axis *a)
{
    const double scale = a->extent / (double)a->length;

    return scale > 1.0 ? scale : 1.0;
}

static int64_t most_taps(const axis *a)
{
    return 2 * (int64_t)ceil(reach_of(a)) + 2;
}

static void find_taps(const axis *a, int64_t at, taps *t)
{
    const double reach = reach_of(a);
    const double centre = a->begin + ((double)at + 0.5) * a->extent / (double)a->length;
    const int64_t first = (int64_t)floor(centre - reach + 0.5);
    const int64_t end = (int64_t)floor(centre + reach + 0.5);
    double sum = 0.0;

    t->first = first > 0 ? first : 0;
    t->count = (end < a->source ? end : a->source) - t->first;
    for (int64_t i = 0; i < t->count; i++) {
        const double far = fabs((double)(t->first + i) + 0.5 - centre) / reach;

        t->weight[i] = far < 1.0 ? 1.0 - far : 0.0;
        sum += t->weight[i];
    }
    for (int64_t i = 0; i < t->count; i++) {
        t->weight[i] /= sum;
    }
}

/* The part of the source that is shown and the part of the output that shows it. */
typedef struct placement {
    axis y, x;
    int64_t top, left;
} placement;

static placement place(const charl__pixels *in, const charl_image_format *f)
{
    const double h = (double)in->height, w = (double)in->width;
    const double sy = h / (double)f->height, sx = w / (double)f->width;
    placement p = {.y = {0.0, h, in->height, f->height}, .x = {0.0, w, in->width, f->width}};

    if (f->fit == CHARL_FIT_CROP) {
        const double scale = sy < sx ? sy : sx;

        p.y.extent = scale * (double)f->height;
        p.x.extent = scale * (double)f->width;
        p.y.begin = 0.5 * (h - p.y.extent);
        p.x.begin = 0.5 * (w - p.x.extent);
    } else if (f->fit == CHARL_FIT_PAD) {
        const double scale = sy > sx ? sy : sx;
        const int64_t rows = (int64_t)floor(h / scale + 0.5);
        const int64_t columns = (int64_t)floor(w / scale + 0.5);

        p.y.length = rows > 0 ? rows : 1;
        p.x.length = columns > 0 ? columns : 1;
        p.top = (f->height - p.y.length) / 2;
        p.left = (f->width - p.x.length) / 2;
    }
    return p;
}

static void mix_rows(const charl__pixels *in, const taps *t, double *row)
{
    const int64_t n = 3 * in->width;

    memset(row, 0, (size_t)n * sizeof *row);
    for (int64_t k = 0; k < t->count; k++) {
        const unsigned char *from = in->rgb + (t->first + k) * n;

        for (int64_t i = 0; i < n; i++) {
            row[i] += t->weight[k] * from[i];
        }
    }
}

static unsigned char to_byte(double v)
{
    return (unsigned char)floor((v < 0.0 ? 0.0 : v > 255.0 ? 255.0 : v) + 0.5);
}

static void mix_columns(const double *row, const taps *t, int64_t channels, int64_t plane, unsigned char *out)
{
    double rgb[3] = {0.0, 0.0, 0.0};

    for (int64_t k = 0; k < t->count; k++) {
        for (int c = 0; c < 3; c++) {
            rgb[c] += t->weight[k] * row[3 * (t->first + k) + c];
        }
    }
    if (channels == 1) {
        out[0] = to_byte(0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2]);
        return;
    }
    for (int c = 0; c < 3; c++) {
        out[c * plane] = to_byte(rgb[c]);
    }
}

charl_status charl__pixels_resize(const charl__pixels *in, const charl_image_format *format, unsigned char *out)
{
    charl_status st = CHARL_OK;
    const placement p = place(in, format);
    const int64_t plane = format->height * format->width;
    double *row = NULL;
    taps ty = {0}, tx = {0};

    CHARL_TRY_CLEANUP(charl__alloc_array(3 * in->width, sizeof *row, &row));
    CHARL_TRY_CLEANUP(charl__alloc_array(most_taps(&p.y), sizeof(double), &ty.weight));
    CHARL_TRY_CLEANUP(charl__alloc_array(most_taps(&p.x), sizeof(double), &tx.weight));
    memset(out, 0, (size_t)(format->channels * plane));
    for (int64_t y = 0; y < p.y.length; y++) {
        find_taps(&p.y, y, &ty);
        mix_rows(in, &ty, row);
        for (int64_t x = 0; x < p.x.length; x++) {
            find_taps(&p.x, x, &tx);
            mix_columns(row, &tx, format->channels, plane, out + (p.top + y) * format->width + p.left + x);
        }
    }
cleanup:
    charl_free(tx.weight);
    charl_free(ty.weight);
    charl_free(row);
    return st;
}
