/* Synthetic datasets. Sample i of a split is a function of (seed, kind, split, i), so a longer set
 * begins with the shorter one, and the validation set does not depend on the number of training
 * samples. */
#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "base/text/text.h"
#include "charl/dataset.h"
#include "charl/import.h"
#include "charl/key.h"
#include "io/dataset/dataset_write.h"
#include "data/make/make_private.h"

enum { BLOCK = 256, COLUMNS = 8, PIXELS = CHARL__DIGIT_SIZE * CHARL__DIGIT_SIZE };

typedef struct maker {
    charl_row row;          /* without keys */
    const char *streams[2]; /* of training and validation samples */
    charl__writer_spec spec;
    const char *columns;
    void (*sample)(charl__draw *d, void *x, void *y);
} maker;

static void sample_digit(charl__draw *d, void *x, void *y)
{
    *(int32_t *)y = charl__digit_draw(d, x);
}

/* y = 2 x0 x1 + x2^2 - 1.5 x3^3 + 2 / (1 + 4 x4^2) + x5 + x6 x7 + noise / 10, x in [-1,1). */
static void sample_regression(charl__draw *d, void *x, void *y)
{
    float *out = x;
    double v[COLUMNS];
    double sum;

    for (int i = 0; i < COLUMNS; i++) {
        out[i] = (float)charl__draw_uniform(d, -1, 1);
        v[i] = (double)out[i];
    }
    sum = 2 * v[0] * v[1] + v[2] * v[2] - 1.5 * v[3] * v[3] * v[3] + 2 / (1 + 4 * v[4] * v[4]);
    sum += v[5] + v[6] * v[7];
    *(float *)y = (float)(sum + 0.1 * charl__draw_bell(d));
}

static const maker makers[] = {
    {{.name = "digits", .help = "28x28 images of ten classes"},
     {"digits.train", "digits.val"},
     {.kind = CHARL_DATASET_IMAGES,
      .x_dtype = CHARL_U8,
      .x_item = {3, {1, CHARL__DIGIT_SIZE, CHARL__DIGIT_SIZE}},
      .classes = 10},
     NULL,
     sample_digit},
    {{.name = "regression", .help = "a smooth function of eight columns, with noise"},
     {"regression.train", "regression.val"},
     {.kind = CHARL_DATASET_REGRESSION,
      .x_dtype = CHARL_F32,
      .x_item = {1, {COLUMNS}},
      .values = true,
      .y_item = {1, {1}}},
     "x0\nx1\nx2\nx3\nx4\nx5\nx6\nx7",
     sample_regression},
};

enum { MAKERS = sizeof makers / sizeof *makers };

const char *charl_make_kind_name(int i)
{
    return i >= 0 && i < MAKERS ? makers[i].row.name : NULL;
}

const char *charl_make_kind_help(int i)
{
    return i >= 0 && i < MAKERS ? makers[i].row.help : NULL;
}

static charl_status generate(const maker *m, const charl_make_options *opt, charl__writer *w)
{
    const size_t x_bytes = (size_t)charl_shape_count(&m->spec.x_item) * charl_dtype_size(m->spec.x_dtype);
    CHARL_SCOPED_FREE unsigned char *x = NULL;
    CHARL_SCOPED_FREE uint32_t *y = NULL; /* i32 or f32 */

    CHARL_TRY(charl__alloc_array(BLOCK, x_bytes, &x));
    CHARL_TRY(charl__alloc_array(BLOCK, sizeof *y, &y));
    for (int s = 0; s < 2; s++) {
        const int64_t total = s == 0 ? opt->n_train : opt->n_val;

        for (int64_t i = 0; i < total; i += BLOCK) {
            const int64_t n = total - i < BLOCK ? total - i : BLOCK;

            for (int64_t k = 0; k < n; k++) {
                charl__draw d = charl__draw_begin(opt->seed, (uint64_t)(i + k), m->streams[s]);

                m->sample(&d, x + (size_t)k * x_bytes, y + k);
            }
            CHARL_TRY(charl__writer_put(w, x, y, n));
        }
    }
    return CHARL_OK;
}

charl_status charl_dataset_make(const char *path, const charl_make_options *opt)
{
    CHARL_GIVEN(path, opt);
    CHARL__OPTIONS(charl_make_options, opt);
    const charl_import_options import = {sizeof import, .overwrite = opt->overwrite};
    const maker *m = NULL;
    charl__writer_spec spec;
    CHARL_SCOPED(charl__writer_left) charl__writer *w = NULL;
    char names[128];

    for (int i = 0; i < MAKERS; i++) {
        if (opt->kind && strcmp(opt->kind, makers[i].row.name) == 0) {
            m = &makers[i];
        }
    }
    CHARL_REQUIRE(m, CHARL_ERR_CONFIG, "cannot make \"%s\"; the kinds are %s", opt->kind ? opt->kind : "",
                  charl__text_list(opt->kind, charl_make_kind_name, names, sizeof names));
    CHARL_REQUIRE(opt->n_train >= 1 && opt->n_val >= 0, CHARL_ERR_CONFIG, "%lld training and %lld validation samples",
                  (long long)opt->n_train, (long long)opt->n_val);
    spec = m->spec;
    spec.rows = opt->n_train;
    spec.more = opt->n_val;
    CHARL_TRY(charl__writer_create(path, &spec, &import, &w));
    if (m->columns) {
        CHARL_TRY(charl__writer_text(w, "columns", m->columns));
    }
    CHARL_TRY(generate(m, opt, w));
    CHARL_TRY(charl__writer_finish(w));
    return CHARL_OK;
}
