/* Rows that are image files, of paths and folders however deep. */
#include "base/alloc.h"
#include "io/image/image_files.h"
#include "io/rows/rows_private.h"

typedef struct image_rows {
    int64_t next;   /* file */
    int64_t *index; /* [capacity] files of the rows that next returned last */
    int64_t capacity;
} image_rows;

static charl_status open_images(charl__rows *r)
{
    image_rows *d = NULL;
    const charl_shape *x = &r->s->x_shape;
    const int64_t channels = x->ndim == 3 ? x->dim[0] : 1;

    CHARL_REQUIRE(r->s->x_dtype == CHARL_U8 && (x->ndim == 2 || x->ndim == 3) && (channels == 1 || channels == 3),
                  CHARL_ERR_DATA, "%s takes samples of %s, and images make u8 [1 or 3, height, width]", r->o.model,
                  charl__rows_sample_text(r->s));
    for (int64_t i = 0; i < r->o.n_paths; i++) {
        CHARL_TRY(charl__image_files_add_tree(&r->files, r->o.paths[i]));
    }
    CHARL_TRY(charl__alloc(sizeof *d, &d));
    r->self = d;
    r->subject = "images";
    return CHARL_OK;
}

/* The next image that can be read, into x; its number is *index, and that of files where there is none. Others are named in a warning. */
static charl_status next_image(charl__rows *r, int64_t *index, unsigned char *x)
{
    const charl_shape *shape = &r->s->x_shape;
    const charl_image_fit fit = charl_image_fit_of(r->s->fit);
    const charl_image_format format = {.channels = shape->ndim == 3 ? shape->dim[0] : 1,
                                       .height = shape->dim[shape->ndim - 2],
                                       .width = shape->dim[shape->ndim - 1],
                                       .fit = fit < CHARL_FIT_COUNT ? fit : CHARL_FIT_CROP};

    for (; *index < r->files.count; ++*index) {
        const charl_status st = charl_image_read(r->files.paths[*index], &format, x);

        if (st != CHARL_ERR_DATA) {
            return st;
        }
        CHARL_TRY(charl__rows_skip(r));
    }
    return CHARL_OK;
}

static charl_status next_images(charl__rows *r, int64_t most, void *x, void *y, int64_t *n)
{
    const int64_t bytes = charl_shape_count(&r->s->x_shape);
    image_rows *d = r->self;

    (void)y;
    if (most > d->capacity) {
        charl_free(d->index);
        d->index = NULL;
        CHARL_TRY(charl__alloc_array(most, sizeof *d->index, &d->index));
        d->capacity = most;
    }
    for (; *n < most; ++*n, d->next++) {
        CHARL_TRY(next_image(r, &d->next, (unsigned char *)x + *n * bytes));
        if (d->next == r->files.count) {
            break;
        }
        d->index[*n] = d->next;
    }
    return CHARL_OK;
}

/* Those that can be read: each is decoded for it. */
static charl_status count_images(charl__rows *r, int64_t *n)
{
    charl_status st = CHARL_OK;
    unsigned char *x = NULL;
    int64_t index = 0;

    *n = 0;
    CHARL_TRY_CLEANUP(charl__alloc((size_t)charl_shape_count(&r->s->x_shape), &x));
    for (;; ++*n, index++) {
        CHARL_TRY_CLEANUP(next_image(r, &index, x));
        if (index == r->files.count) {
            break;
        }
    }
    r->skipped = 0; /* they are told when the rows are delivered */
    charl__text_clear(&r->warnings);
cleanup:
    charl_free(x);
    return st;
}

static const char *name_image(const charl__rows *r, int64_t i)
{
    return r->files.paths[((const image_rows *)r->self)->index[i]];
}

static void close_images(charl__rows *r)
{
    if (r->self) {
        charl_free(((image_rows *)r->self)->index);
    }
}

const charl__rows_kind charl__rows_images = {
    .open = open_images, .next = next_images, .count = count_images, .name = name_image, .close = close_images};
