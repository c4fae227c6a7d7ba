/* Rows that are image files, of paths and folders however deep. */

#include "io/image/image_files.h"
#include "io/rows/rows_private.h"

static charl_status open_images(charl__rows *r)
{
    const charl_shape *x = &r->s->x_shape;
    const int64_t channels = x->ndim == 3 ? x->dim[0] : 1;

    CHARL_REQUIRE(r->s->x_dtype == CHARL_U8 && (x->ndim == 2 || x->ndim == 3) && (channels == 1 || channels == 3),
                  CHARL_ERR_DATA, "%s takes samples of %s, and images make u8 [1 or 3, height, width]", r->o.model,
                  charl__rows_sample_text(r->s));
    for (int64_t i = 0; i < r->o.n_paths; i++) {
        CHARL_TRY(charl__image_files_add_tree(&r->files, r->o.paths[i]));
    }
    r->rows = r->files.count;
    r->subject = "images";
    return CHARL_OK;
}

static charl_status next_images(charl__rows *r, int64_t most, void *x, void *y, int64_t *n)
{
    const charl_shape *shape = &r->s->x_shape;
    const charl_image_fit fit = charl_image_fit_of(r->s->fit);
    const charl_image_format format = {.channels = shape->ndim == 3 ? shape->dim[0] : 1,
                                       .height = shape->dim[shape->ndim - 2],
                                       .width = shape->dim[shape->ndim - 1],
                                       .fit = fit < CHARL_FIT_COUNT ? fit : CHARL_FIT_CROP};
    const int64_t bytes = charl_shape_count(shape);

    (void)y;
    for (; *n < most && r->done + *n < r->files.count; (*n)++) {
        CHARL_TRY(charl_image_read(r->files.paths[r->done + *n], &format, (unsigned char *)x + *n * bytes));
    }
    return CHARL_OK;
}

static const char *name_image(const charl__rows *r, int64_t i)
{
    return r->files.paths[r->begin + i];
}

static void close_images(charl__rows *r)
{
    (void)r;
}

const charl__rows_kind charl__rows_images = {
    .open = open_images, .next = next_images, .name = name_image, .close = close_images};
