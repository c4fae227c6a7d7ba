/* One row is normalised by one work-item or one part of a group. */
#include "autograd/op/norm/row_norm.h"

#include <math.h>
#include <stdio.h>

#include "autograd/launch/map.h"
#include "autograd/launch/rows.h"
#include "charl/ops.h"

enum { MAX_KEPT = 8 };
/* Rows of up to SHORT elements of a half type have HALF_WIDTH accumulators where work-items
 * exchange registers: a warp then has two of them. */
enum { HALF_WIDTH = 128, SHORT = 512 };

int64_t charl__row_norm_length(const charl_shape *s)
{
    return s->dim[s->ndim - 1];
}

int64_t charl__row_norm_count(const charl_shape *s)
{
    const int64_t n = charl__row_norm_length(s);

    return n > 0 ? charl_shape_count(s) / n : 0;
}

charl_status charl__row_norm_check(const charl_infer *inf, int x, int first, int last)
{
    const charl_type *t = &inf->in[x];
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(t->shape.ndim >= (t->batch == CHARL_BATCHED ? 2 : 1) &&
                      charl__row_norm_length(&t->shape) > 0,
                  CHARL_ERR_SHAPE, "x %s has no last axis to normalise over",
                  charl_shape_format(&t->shape, a));
    for (int i = 0; i < inf->n_in; i++) {
        const charl_type *o = &inf->in[i];

        CHARL_REQUIRE(charl__is_float(o->dtype), CHARL_ERR_DTYPE, "operand %d is %s, not a float",
                      i, charl_dtype_name(o->dtype));
        if (i >= first && i < last) {
            CHARL_REQUIRE(o->shape.ndim == 1 &&
                              o->shape.dim[0] == charl__row_norm_length(&t->shape) &&
                              o->batch != CHARL_BATCHED,
                          CHARL_ERR_SHAPE, "operand %d %s does not fit the last axis of x %s", i,
                          charl_shape_format(&o->shape, a), charl_shape_format(&t->shape, b));
        } else {
            CHARL_REQUIRE(charl_shape_equal(&o->shape, &t->shape) && o->batch == t->batch &&
                              o->dtype == t->dtype,
                          CHARL_ERR_SHAPE, "operand %d %s differs from x %s", i,
                          charl_shape_format(&o->shape, a), charl_shape_format(&t->shape, b));
        }
    }
    return CHARL_OK;
}

int charl__row_norm_width(const charl_device *dev, int64_t n, charl_dtype dtype)
{
    const bool two = charl__device_facts(dev)->ptx && charl_dtype_size(dtype) == 2 && n <= SHORT;

    return charl__rows_width(two && n > HALF_WIDTH ? HALF_WIDTH : n);
}

int charl__row_norm_kept(const charl_device *dev, int64_t n, charl_dtype dtype)
{
    const int64_t width = charl__row_norm_width(dev, n, dtype), blocks = (n + width - 1) / width;

    return charl__rows_have_one_item(dev) || blocks > MAX_KEPT ? 0 : (int)blocks;
}

charl_status charl__row_norm_plan(const charl_enqueue *e, const charl_tensor *x,
                                  const char *defines, charl_rows *out)
{
    const charl_row_norm *t = e->attr;
    const int64_t n = charl__row_norm_length(&x->shape), rows = charl__row_norm_count(&x->shape);
    const int width = charl__row_norm_width(e->dev, n, x->dtype);
    char extra[192];

    snprintf(extra, sizeof extra, "#define CENTRED %d\n#define KEEP %d\n%s", t->centred,
             charl__row_norm_kept(e->dev, n, x->dtype), defines);
    CHARL_TRY(charl__rows_plan(e->dev, rows, width < charl__rows_width(n) ? width : n, extra, out));
    charl__rows_store(out, x->dtype);
    return CHARL_OK;
}

charl_status charl__row_norm_launch(const charl_enqueue *e, const char *entry,
                                    const charl_tensor *x, const char *defines, charl_launch *l)
{
    const charl_row_norm *t = e->attr;
    charl_rows plan;

    CHARL_TRY(charl__row_norm_plan(e, x, defines, &plan));
    l->entry = entry;
    l->defines = plan.defines;
    l->label = e->label;
    charl__launch_add(l, charl__i64(charl__row_norm_count(&x->shape)));
    charl__launch_add(l, charl__i64(plan.per_item));
    charl__launch_add(l, charl__i64(charl__row_norm_length(&x->shape)));
    charl__launch_add(l, charl__f32(t->eps));
    l->global[0] = plan.global;
    l->local[0] = plan.local;
    CHARL_TRY(charl__launch(e->dev, l));
    return CHARL_OK;
}

charl_status charl__row_norm_infer(charl_infer *inf)
{
    CHARL_TRY(charl__row_norm_check(inf, 0, 1, inf->n_in));
    inf->out[0] = inf->in[0];
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

charl_status charl__row_norm_enqueue(const charl_enqueue *e)
{
    charl_launch l = {.file = "norm/row_norm",
                      .args = {charl__in(e->in[0]), charl__in(e->n_in > 1 ? e->in[1] : NULL),
                               charl__in(e->n_in > 2 ? e->in[2] : NULL), charl__out(e->out[0])}};
    char defines[32];

    snprintf(defines, sizeof defines, "#define AFFINE %d\n", e->n_in - 1);
    return charl__row_norm_launch(e, "charl_normalize", e->in[0], defines, &l);
}

charl_status charl__row_norm_add_infer(charl_infer *inf)
{
    CHARL_TRY(charl__row_norm_check(inf, 0, 2, inf->n_in));
    inf->n_out = 2;
    inf->out[0] = inf->out[1] = inf->in[0];
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

charl_status charl__row_norm_add_enqueue(const charl_enqueue *e)
{
    charl_launch l = {.file = "norm/row_norm",
                      .args = {charl__in(e->in[0]), charl__in(e->in[1]), charl__in(e->in[2]),
                               charl__in(e->n_in > 3 ? e->in[3] : NULL), charl__out(e->out[0]),
                               charl__out(e->out[1])}};
    char defines[64];

    snprintf(defines, sizeof defines, "#define ADD 1\n#define AFFINE %d\n", e->n_in - 2);
    return charl__row_norm_launch(e, "charl_normalize", e->in[0], defines, &l);
}

/* Mean and 1 / deviation of a row. */
void charl__row_norm_statistics(const charl_row_norm *t, const double *x, int64_t n, double *mean,
                                double *invstd)
{
    double sum = 0, squares = 0;

    for (int64_t j = 0; j < n && t->centred; j++) {
        sum += x[j];
    }
    *mean = sum / (double)n;
    for (int64_t j = 0; j < n; j++) {
        squares += (x[j] - *mean) * (x[j] - *mean);
    }
    *invstd = 1 / sqrt(squares / (double)n + (double)t->eps);
}

/* Operands `affine` and after are weight and bias. */
static void normalize(const charl_reference *r, const double *x, int affine, double *out)
{
    const int64_t n = charl__row_norm_length(&r->in_type[0].shape),
                  rows = charl__row_norm_count(&r->in_type[0].shape);

    for (int64_t i = 0; i < rows; i++) {
        double mean, invstd;

        charl__row_norm_statistics(r->attr, x + i * n, n, &mean, &invstd);
        for (int64_t j = 0; j < n; j++) {
            out[i * n + j] =
                (x[i * n + j] - mean) * invstd * (r->n_in > affine ? r->in[affine][j] : 1) +
                (r->n_in > affine + 1 ? r->in[affine + 1][j] : 0);
        }
    }
}

void charl__row_norm_reference(const charl_reference *r)
{
    normalize(r, r->in[0], 1, r->out[0]);
}

void charl__row_norm_add_reference(const charl_reference *r)
{
    for (int64_t i = 0; i < charl_shape_count(&r->in_type[0].shape); i++) {
        r->out[0][i] = r->in[0][i] + r->in[1][i];
    }
    normalize(r, r->out[0], 2, r->out[1]);
}
