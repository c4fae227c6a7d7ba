/* Rows of texts, for models of padded sequences: tokens from the model's tokenizer, classes by name. */
#include <string.h>

#include "base/alloc.h"
#include "data/import/labelled_text.h"
#include "data/rows/rows_private.h"

typedef struct text_rows {
    charl__labelled_text t; /* of file `file` */
    int64_t file;
    charl__encoder *encoder;
    char *text_field, *label_field;
    int64_t cut, empty, unknown;
} text_rows;

/* The first name of a list, or `usual`. */
static charl_status first_name(const char *names, const char *usual, char **out)
{
    CHARL_SCOPED(charl__text_fini) charl__text name = {0};

    CHARL_TRY(names[0] ? charl__text_append(&name, names, strcspn(names, "\n"))
                       : charl__text_append(&name, usual, strlen(usual)));
    *out = charl__text_steal(&name);
    return CHARL_OK;
}

static charl_status open_file(const charl__rows *r, const text_rows *d, charl__labelled_text *t, int64_t file)
{
    return charl__labelled_text_open(t, r->o.paths[file], d->text_field, d->label_field, r->o.separator);
}

/* The next text of all files; *more is false at the end. */
static charl_status next_text(const charl__rows *r, const text_rows *d, charl__labelled_text *t, int64_t *file,
                              bool *more)
{
    CHARL_TRY(charl__labelled_text_next(t, more));
    while (!*more && *file + 1 < r->o.n_paths) {
        charl__labelled_text_close(t);
        CHARL_TRY(open_file(r, d, t, ++*file));
        CHARL_TRY(charl__labelled_text_next(t, more));
    }
    return CHARL_OK;
}

static charl_status open_texts(charl__rows *r)
{
    text_rows *d = NULL;

    CHARL_REQUIRE(r->s->tokenizer, CHARL_ERR_DATA,
                  "%s does not hold its tokenizer; HINT import the texts, and give it "
                  "the data set",
                  r->o.model);
    CHARL_TRY(charl__alloc(sizeof *d, &d));
    r->self = d;
    CHARL_TRY(first_name(r->s->columns, "text", &d->text_field));
    CHARL_TRY(first_name(r->s->targets, "label", &d->label_field));
    CHARL_TRY(charl__encoder_create(r->s->tokenizer, strcmp(r->s->recipe, CHARL__RECIPE_SPECIAL) == 0, &d->encoder));
    CHARL_TRY(open_file(r, d, &d->t, 0));
    r->subject = r->o.n_paths > 1 ? "texts" : r->subject;
    r->has_targets = (d->t.is_json || d->t.label_column >= 0) && r->s->y_dtype == CHARL_I32 && r->s->y_shape.ndim == 0;
    return CHARL_OK;
}

static charl_status end_texts(charl__rows *r, const text_rows *d)
{
    const long long n = (long long)r->done;

    if (d->cut > 0) {
        CHARL_TRY(charl__rows_note(r, "%lld of %lld texts %s longer than %lld tokens and cut off at the end",
                                   (long long)d->cut, n, d->cut == 1 ? "is" : "are", (long long)r->s->x_shape.dim[0]));
    }
    if (d->empty > 0) {
        CHARL_TRY(
            charl__rows_note(r, "%lld of %lld texts %s empty", (long long)d->empty, n, d->empty == 1 ? "is" : "are"));
    }
    if (d->unknown > 0) {
        CHARL_TRY(charl__rows_warn(r, "%s: %lld label%s of %s", r->path, (long long)d->unknown,
                                   d->unknown == 1 ? " is no class" : "s are no classes", r->o.model));
    }
    return CHARL_OK;
}

static charl_status next_texts(charl__rows *r, int64_t most, void *x, void *y, int64_t *n)
{
    text_rows *d = r->self;
    const size_t row = (size_t)r->s->x_shape.dim[0] * charl_dtype_size(r->s->x_dtype);
    int64_t tokens;
    bool more;

    for (*n = 0; *n < most; ++*n) {
        CHARL_TRY(next_text(r, d, &d->t, &d->file, &more));
        if (!more) {
            break;
        }
        CHARL_TRY(charl__labelled_text_encode(&d->t, d->encoder, r->s->x_dtype, r->s->x_shape.dim[0],
                                              (unsigned char *)x + (size_t)*n * row, &tokens));
        d->cut += tokens > r->s->x_shape.dim[0];
        d->empty += tokens == 0;
        if (r->has_targets) {
            ((int32_t *)y)[*n] = d->t.label ? charl__rows_class(r, d->t.label) : -1;
            d->unknown += d->t.label && ((int32_t *)y)[*n] < 0;
        }
    }
    return *n == 0 ? end_texts(r, d) : CHARL_OK;
}

static charl_status count_texts(charl__rows *r, int64_t *n)
{
    const text_rows *d = r->self;
    CHARL_SCOPED(charl__labelled_text_close) charl__labelled_text t = {0};
    int64_t file = 0;
    bool more = true;

    CHARL_TRY(open_file(r, d, &t, 0));
    for (*n = -1; more; ++*n) {
        CHARL_TRY(next_text(r, d, &t, &file, &more));
    }
    return CHARL_OK;
}

static void close_texts(charl__rows *r)
{
    text_rows *d = r->self;

    if (d) {
        charl__labelled_text_close(&d->t);
        charl__encoder_destroy(d->encoder);
        charl_free(d->text_field);
        charl_free(d->label_field);
    }
}

const charl__rows_kind charl__rows_texts = {
    .open = open_texts, .next = next_texts, .count = count_texts, .close = close_texts};
