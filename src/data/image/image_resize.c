/* Resizing with a separable triangle filter: an output pixel is the weighted mean of the source
 * pixels within one output pixel (shrinking) or one source pixel (growing) of its centre. Rows
 * are combined first, one output row at a time, so that memory is one row of the source.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "data/image/image_pixels.h"

/* One axis: `length` elements of the output show [begin, begin + extent) of `source` elements. */
typedef struct axis {
    double begin, extent;
    int64_t source, length;
} axis;

/* The source elements that contribute to one element of the output. */
typedef struct taps {
    int64_t first;
    int64_t count;
    double *weight; /* [count], borrowed */
} taps;

static void find_taps(const axis *a, double reach, int64_t at, taps *t)
{
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

/* For every element of the output. One allocation, which the caller frees. */
static charl_status make_taps(const axis *a, taps **out)
{
    const double scale = a->extent / (double)a->length, reach = scale > 1.0 ? scale : 1.0;
    const int64_t most = 2 * (int64_t)ceil(reach) + 2;

    CHARL_TRY(charl__alloc_array(a->length, sizeof **out + (size_t)most * sizeof(double), out));
    for (int64_t i = 0; i < a->length; i++) {
        (*out)[i].weight = (double *)(void *)(*out + a->length) + i * most;
        find_taps(a, reach, i, &(*out)[i]);
    }
    return CHARL_OK;
}

/* The visible part of the source and the part of the output that shows it. */
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

/* A row of the output, as wide as the source: the elements [begin, end) of its rows of 3 colours. */
static void mix_rows(const charl__pixels *in, const taps *t, int64_t begin, int64_t end, double *row)
{
    const unsigned char *from = in->rgb + t->first * 3 * in->width;

    for (int64_t i = begin; i < end; i++) {
        row[i] = t->weight[0] * from[i];
    }
    for (int64_t k = 1; k < t->count; k++) {
        const double weight = t->weight[k];

        from += 3 * in->width;
        for (int64_t i = begin; i < end; i++) {
            row[i] += weight * from[i];
        }
    }
}

static unsigned char to_byte(double v)
{
    return (unsigned char)(v < 0.0 ? 0.5 : v > 255.0 ? 255.5 : v + 0.5);
}

static void mix_columns(const double *row, const taps *t, int64_t channels, int64_t plane, unsigned char *out)
{
    const double *from = row + 3 * t->first;
    double r = 0.0, g = 0.0, b = 0.0;

    for (int64_t k = 0; k < t->count; k++) {
        r += t->weight[k] * from[3 * k];
        g += t->weight[k] * from[3 * k + 1];
        b += t->weight[k] * from[3 * k + 2];
    }
    if (channels == 1) {
        out[0] = to_byte(0.299 * r + 0.587 * g + 0.114 * b);
        return;
    }
    out[0] = to_byte(r);
    out[plane] = to_byte(g);
    out[2 * plane] = to_byte(b);
}

charl_status charl__pixels_resize(const charl__pixels *in, const charl_image_format *format, unsigned char *out)
{
    const placement p = place(in, format);
    const int64_t plane = format->height * format->width;
    CHARL_SCOPED_FREE double *row = NULL;
    CHARL_SCOPED_FREE taps *ty = NULL, *tx = NULL;
    int64_t begin, end;

    CHARL_TRY(charl__alloc_array(3 * in->width, sizeof *row, &row));
    CHARL_TRY(make_taps(&p.y, &ty));
    CHARL_TRY(make_taps(&p.x, &tx));
    begin = 3 * tx[0].first;
    end = 3 * (tx[p.x.length - 1].first + tx[p.x.length - 1].count);
    memset(out, 0, (size_t)(format->channels * plane));
    for (int64_t y = 0; y < p.y.length; y++) {
        mix_rows(in, &ty[y], begin, end, row);
        for (int64_t x = 0; x < p.x.length; x++) {
            mix_columns(row, &tx[x], format->channels, plane, out + (p.top + y) * format->width + p.left + x);
        }
    }
    return CHARL_OK;
}
