/* Rows that are image files, from paths and folders of any depth. All processors decode. */
#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "base/parallel.h"
#include "data/image/image_files.h"
#include "data/rows/rows_private.h"

typedef struct image_rows {
    charl_image_format format;
    int64_t next;   /* file */
    int64_t *index; /* [capacity] files of the rows of the last call of next */
    bool *good;     /* [capacity] whether each of the files from `next` on, which are being decoded, can be read */
    int64_t capacity;
} image_rows;

static charl_status open_images(charl__rows *r)
{
    image_rows *d = NULL;
    const charl_shape *x = &r->s->x_shape;
    const int64_t channels = x->ndim == 3 ? x->dim[0] : 1;
    const charl_image_fit fit = charl_image_fit_of(r->s->fit);

    CHARL_REQUIRE(r->s->x_dtype == CHARL_U8 && (x->ndim == 2 || x->ndim == 3) && (channels == 1 || channels == 3),
                  CHARL_ERR_DATA, "%s takes samples of %s, but images are u8 [1 or 3, height, width]", r->o.model,
                  charl__rows_sample_text(r->s));
    for (int64_t i = 0; i < r->o.n_paths; i++) {
        CHARL_TRY(r->o.imports ? charl__files_append(&r->files, "", r->o.paths[i])
                               : charl__image_files_add_tree(&r->files, r->o.paths[i]));
    }
    CHARL_TRY(charl__alloc(sizeof *d, &d));
    r->self = d;
    d->format = (charl_image_format){.channels = channels,
                                     .height = x->dim[x->ndim - 2],
                                     .width = x->dim[x->ndim - 1],
                                     .fit = fit < CHARL_FIT_COUNT ? fit : CHARL_FIT_CROP};
    r->subject = "images";
    return CHARL_OK;
}

typedef struct decoding {
    const charl__rows *r;
    unsigned char *x; /* of file d->next */
} decoding;

static charl_status decode(void *ctx, int64_t i)
{
    const decoding *c = ctx;
    const image_rows *d = c->r->self;
    const charl_status st =
        charl_image_read(c->r->files.paths[d->next + i], &d->format, c->x + i * charl_shape_count(&c->r->s->x_shape));

    d->good[i] = st == CHARL_OK;
    if (st == CHARL_ERR_DATA) {
        charl_error_clear();
    }
    return st == CHARL_ERR_DATA ? CHARL_OK : st;
}

/* Decode files [d->next, d->next + n): those that can be read to x, and their numbers to `index`. Others are named in a warning. */
static charl_status read_images(charl__rows *r, int64_t n, unsigned char *x, int64_t *index, int64_t *got)
{
    const size_t bytes = (size_t)charl_shape_count(&r->s->x_shape);
    image_rows *d = r->self;

    *got = 0;
    CHARL_TRY(charl__parallel_try(INT_MAX, n, decode, &(decoding){r, x}));
    for (int64_t i = 0; i < n; i++) {
        unsigned char *to = x + (size_t)*got * bytes;

        if (d->good[i]) {
            memmove(to, x + (size_t)i * bytes, bytes);
        } else { /* again, for its message */
            const charl_status st = charl_image_read(r->files.paths[d->next + i], &d->format, to);

            if (st == CHARL_ERR_DATA) {
                CHARL_TRY(charl__rows_skip(r));
                continue;
            }
            CHARL_TRY(st);
        }
        index[(*got)++] = d->next + i;
    }
    d->next += n;
    return CHARL_OK;
}

static charl_status next_images(charl__rows *r, int64_t most, void *x, void *y, int64_t *n)
{
    image_rows *d = r->self;

    (void)y;
    if (most > d->capacity) {
        charl_free(d->index);
        charl_free(d->good);
        d->index = NULL;
        d->good = NULL;
        d->capacity = 0;
        CHARL_TRY(charl__alloc_array(most, sizeof *d->index, &d->index));
        CHARL_TRY(charl__alloc_array(most, sizeof *d->good, &d->good));
        d->capacity = most;
    }
    while (*n < most && d->next < r->files.count) {
        const int64_t left = r->files.count - d->next, room = most - *n;
        int64_t got;

        CHARL_TRY(read_images(r, left < room ? left : room, (unsigned char *)x + *n * charl_shape_count(&r->s->x_shape),
                              d->index + *n, &got));
        *n += got;
    }
    return CHARL_OK;
}

/* Count those that can be read: decodes each. */
static charl_status count_images(charl__rows *r, int64_t *n)
{
    enum { BLOCK = 64 };
    image_rows *d = r->self;
    CHARL_SCOPED_FREE unsigned char *x = NULL;
    int64_t got;

    *n = 0;
    CHARL_TRY(charl__alloc_array(BLOCK, (size_t)charl_shape_count(&r->s->x_shape), &x));
    do {
        got = 0;
        CHARL_TRY(next_images(r, BLOCK, x, NULL, &got));
        *n += got;
    } while (got > 0);
    d->next = r->skipped = 0; /* reported when the rows are delivered */
    charl__text_clear(&r->first_skipped);
    charl__text_clear(&r->warnings);
    return CHARL_OK;
}

static const char *name_image(const charl__rows *r, int64_t i)
{
    return r->files.paths[((const image_rows *)r->self)->index[i]];
}

static int64_t file_of_image(const charl__rows *r, int64_t i)
{
    return ((const image_rows *)r->self)->index[i];
}

static void close_images(charl__rows *r)
{
    if (r->self) {
        charl_free(((image_rows *)r->self)->index);
        charl_free(((image_rows *)r->self)->good);
    }
}

const charl__rows_kind charl__rows_images = {.open = open_images,
                                             .next = next_images,
                                             .count = count_images,
                                             .name = name_image,
                                             .file = file_of_image,
                                             .close = close_images};
