/* The statistics of batch_norm: sums over the batch, values derived from them, and the running statistics.
 */
#include <math.h>

#include "norm/norm_args.h"
#include "autograd/op/norm/channels.h"
#include "autograd/launch/map.h"
#include "autograd/onnx/onnx.h"
#include "autograd/op/norm/batch_norm_common.h"
#include "charl/ops.h"

/* out[0] = a sum over x of `quantities` numbers per channel. */
static void set_sums(charl__infer *inf, const charl_type *x, int quantities)
{
    inf->out[0] =
        (charl_type){CHARL_F32, {1, {x->shape.dim[1]}}, x->batch == CHARL_BATCHED ? CHARL_PARTIAL : CHARL_REPLICATED};
    if (quantities > 1) {
        inf->out[0].shape = (charl_shape){2, {quantities, x->shape.dim[1]}};
    }
    if (inf->channels_last) {
        inf->workspace = charl__channels_workspace(&x->shape, inf->n_slices, quantities);
    } else if (inf->out[0].batch == CHARL_PARTIAL && inf->n_slices > 1) {
        inf->workspace = inf->n_slices * quantities * x->shape.dim[1] * (int64_t)sizeof(float);
    }
}

/* Sums per slice, folded into output 0. invstd: NULL for the sum of squares. g:
 * NULL for it too, and if it is computed during the read. */
static charl_status enqueue_channel_sums(const charl__enqueue *e, const charl_tensor *x, const charl_tensor *g,
                                         const charl_tensor *mean, const charl_tensor *invstd)
{
    const charl__norm_shape s = charl__norm_shape_get(&x->shape);
    const bool partial = charl__is_partial(e, 0);
    const int64_t slices = partial ? e->slices->count : 1;
    charl_tensor *part = partial ? charl__fold_target(e, 0) : e->out[0];
    charl__launch l = {.file = "norm/batch_norm",
                       .entry = "charl_sums",
                       .params = {{"WHAT", g != NULL}, {"ACT", .text = charl__kernel_type(x->dtype)}},
                       .args = {charl__in(x), charl__in(g), charl__in(mean), charl__in(invstd), charl__out(part),
                                charl__i64(slices), charl__i64(s.rows / slices), charl__i64(s.channels),
                                charl__i64(s.inner)},
                       .label = e->label};
    int64_t per_item;

    if (x->channels_last) {
        CHARL_TRY(charl__channels_sums(e, &(charl__channels){.x = x, .g = g, .mean = mean, .invstd = invstd}));
        return CHARL_OK;
    }
    CHARL_TRY(charl__norm_plan(e, slices, s, &l, &per_item));
    charl__launch_add(&l, charl__i64(per_item));
    if (s.channels > 0) {
        CHARL_TRY(charl__launch_enqueue(e->dev, &l));
    }
    if (partial) {
        CHARL_TRY(charl__fold(e, part, charl__tensor_count(e->out[0]), 0));
    }
    return CHARL_OK;
}

/* batch_norm_squares(x, mean) */
static charl_status infer_squares(charl__infer *inf)
{
    CHARL_TRY(charl__norm_check(inf, 0, 1, 2));
    set_sums(inf, &inf->in[0], 1);
    return CHARL_OK;
}

static charl_status enqueue_squares(const charl__enqueue *e)
{
    return enqueue_channel_sums(e, e->in[0], NULL, e->in[1], NULL);
}

static void reference_squares(const charl__reference *r)
{
    const charl__norm_shape s = charl__norm_shape_get(&r->in_type[0].shape);

    for (int64_t c = 0; c < s.channels; c++) {
        r->out[0][c] = 0;
        for (int64_t k = 0; k < s.rows * s.inner; k++) {
            const double d = r->in[0][(k / s.inner * s.channels + c) * s.inner + k % s.inner] - r->in[1][c];

            r->out[0][c] += d * d;
        }
    }
}

static const charl__op_sample samples_squares[] = {
    {.in = {CHARL_B(F32, 16, 5, 3, 7), CHARL_R(F32, 5)}, CHARL_WITHIN(1, 336)},
    {.in = {CHARL_B(F32, 24, 37), CHARL_R(F32, 37)}, CHARL_WITHIN(1, 24)},
    {.in = {CHARL_B(F32, 8, 2, 18, 17), CHARL_R(F32, 2, 1, 1)}, CHARL_WITHIN(1, 2448)},
    {.in = {CHARL_R(F32, 3, 4, 600), CHARL_R(F32, 4)}, CHARL_WITHIN(1, 1800)},
    {.in = {CHARL_R(F32, 1, 1), CHARL_R(F32, 1)}, .lo = -1, .hi = 1},
};

const charl__op charl_op_batch_norm_squares = {
    .name = "batch_norm_squares",
    .formula = "out[c] = sum of (x[:,c] - mean[c])^2",
    .n_in = 2,
    .half = CHARL_HALF(0),
    .layout = CHARL_LAYOUT_CHANNELS,
    CHARL_RULES(_squares),
};

/* batch_norm_sums(gout, x, mean, invstd): gradients of bias and weight, from which the gradient of x
 * is computed. */
static charl_status infer_sums(charl__infer *inf)
{
    CHARL_TRY(charl__norm_check(inf, 1, 2, 4));
    CHARL_REQUIRE(charl_shape_equal(&inf->in[0].shape, &inf->in[1].shape) && inf->in[0].batch == inf->in[1].batch,
                  CHARL_ERR_SHAPE, "gout and x differ");
    set_sums(inf, &inf->in[1], 2);
    return CHARL_OK;
}

static charl_status enqueue_sums(const charl__enqueue *e)
{
    return enqueue_channel_sums(e, e->in[1], e->in[0], e->in[2], e->in[3]);
}

static void reference_sums(const charl__reference *r)
{
    const charl__norm_shape s = charl__norm_shape_get(&r->in_type[1].shape);

    for (int64_t c = 0; c < s.channels; c++) {
        double *g = &r->out[0][c], *gx = &r->out[0][s.channels + c];

        *g = *gx = 0;
        for (int64_t k = 0; k < s.rows * s.inner; k++) {
            const int64_t i = (k / s.inner * s.channels + c) * s.inner + k % s.inner;

            *g += r->in[0][i];
            *gx += r->in[0][i] * (r->in[1][i] - r->in[2][c]) * r->in[3][c];
        }
    }
}

/* gout and x, then mean and invstd of each of C channels. */
#define SUMS(x, C)                                                                                                     \
    {                                                                                                                  \
        x, x, CHARL_R(F32, C), CHARL_R(F32, C)                                                                         \
    }

static const charl__op_sample samples_sums[] = {
    {.in = SUMS(CHARL_B(F32, 16, 5, 3, 7), 5), CHARL_WITHIN(1, 336)},
    {.in = SUMS(CHARL_B(F32, 24, 37), 37), CHARL_WITHIN(1, 24)},
    {.in = SUMS(CHARL_R(F32, 3, 4, 600), 4), CHARL_WITHIN(1, 1800)},
    {.in = SUMS(CHARL_R(F32, 1, 1), 1), .lo = -1, .hi = 1},
};

const charl__op charl_op_batch_norm_sums = {
    .name = "batch_norm_sums",
    .formula = "out[0][c] = sum of gout[:,c], out[1][c] = sum of gout[:,c] * (x[:,c] - mean[c]) * "
               "invstd[c]",
    .n_in = 4,
    .prologue = true,
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .layout = CHARL_LAYOUT_CHANNELS,
    CHARL_RULES(_sums),
};

/* batch_norm_invstd(squares) */
static charl_status enqueue_invstd(const charl__enqueue *e)
{
    const charl__norm *t = e->attr;

    return charl__map_run(e, &(charl__map){.expr = "1.0f / sqrt(a * p + q)",
                                           .in = e->in,
                                           .n_in = 1,
                                           .out = e->out[0],
                                           .p = (float)(1.0 / t->count),
                                           .q = t->eps});
}

static void reference_invstd(const charl__reference *r)
{
    const charl__norm *t = r->attr;

    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        r->out[0][i] = 1 / sqrt(r->in[0][i] / t->count + (double)t->eps);
    }
}

static const charl__norm ten = {10, 1e-5F, true};

static const charl__op_sample samples_invstd[] = {
    {.in = {CHARL_R(F32, 7)}, .attr = &ten, .lo = 0.1, .hi = 50, .ulp = 8},
    {.in = {CHARL_B(F32, 16)}, .attr = &ten, .lo = 0.1, .hi = 50, .ulp = 8},
};

static void onnx_invstd(const charl__onnx_node *n)
{
    const charl__norm *t = n->attr;
    const char *var = charl__onnx_op(n, "Mul", n->in[0], charl__onnx_float(n, 1.0 / t->count), NULL);
    const char *sum = charl__onnx_op(n, "Add", var, charl__onnx_float(n, (double)t->eps), NULL);

    charl__onnx_op(n, "Reciprocal", charl__onnx_op(n, "Sqrt", sum, NULL, NULL), NULL, n->out);
}

const charl__op charl_op_batch_norm_invstd = {
    .name = "batch_norm_invstd",
    .formula = "out = 1 / sqrt(squares / count + eps)",
    .n_in = 1,
    .attr_size = sizeof(charl__norm),
    .infer = charl__infer_same,
    .enqueue = enqueue_invstd,
    .reference = reference_invstd,
    .onnx = onnx_invstd,
    CHARL_SAMPLES(samples_invstd),
};

/* batch_norm_update(running mean, running var, mean, squares) */
static double unbiased(const charl__norm_update *t)
{
    return t->count > 1 ? 1 / (t->count - 1) : 0;
}

static charl_status infer_update(charl__infer *inf)
{
    for (int i = 0; i < 4; i++) {
        CHARL_REQUIRE(inf->in[i].dtype == CHARL_F32 && charl_shape_equal(&inf->in[i].shape, &inf->in[0].shape) &&
                          inf->in[i].batch == inf->in[0].batch,
                      CHARL_ERR_SHAPE, "running statistics and statistics must be f32 of one shape and batch state");
    }
    inf->n_out = 2;
    inf->out[0] = inf->out[1] = inf->in[0];
    return CHARL_OK;
}

static charl_status enqueue_update(const charl__enqueue *e)
{
    const charl__norm_update *t = e->attr;
    const int64_t n = charl__tensor_count(e->in[0]);
    const charl__norm_args args = {.n = (uint64_t)n, .momentum = t->momentum, .scale = (float)unbiased(t)};
    charl__launch l = {
        .file = "norm/batch_norm",
        .entry = "charl_update",
        .args = {charl__inout(e->in[0]), charl__inout(e->in[1]), charl__in(e->in[2]), charl__in(e->in[3]),
                 charl__out(e->out[0]), charl__out(e->out[1]), charl__in(e->step), charl__struct(&args, sizeof args)},
        .label = e->label,
    };

    charl__span_launch(e->dev, n, 1, &l);
    return charl__launch_enqueue(e->dev, &l);
}

static void reference_update(const charl__reference *r)
{
    const charl__norm_update *t = r->attr;
    const double m = r->step->commit ? (double)t->momentum : 0;

    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        r->out[0][i] = (1 - m) * r->in[0][i] + m * r->in[2][i];
        r->out[1][i] = (1 - m) * r->in[1][i] + m * r->in[3][i] * unbiased(t);
    }
}

static const charl__norm_update slow = {10, 0.1F}, at_once = {1, 1.0F};

static const charl__op_sample samples_update[] = {
    {.in = {CHARL_R(F32, 7), CHARL_R(F32, 7), CHARL_R(F32, 7), CHARL_R(F32, 7)}, .attr = &slow, .lo = 0.5, .hi = 2},
    {.in = {CHARL_B(F32, 80), CHARL_B(F32, 80), CHARL_B(F32, 80), CHARL_B(F32, 80)}, .attr = &slow, .lo = 0.5, .hi = 2},
    {.in = {CHARL_R(F32, 2), CHARL_R(F32, 2), CHARL_R(F32, 2), CHARL_R(F32, 2)}, .attr = &at_once, .lo = 0.5, .hi = 2},
};

const charl__op charl_op_batch_norm_update = {
    .name = "batch_norm_update",
    .formula = "running = (1 - momentum) running + momentum * (mean, squares / (count - 1)); out = "
               "running afterwards",
    .n_in = 4,
    .attr_size = sizeof(charl__norm_update),
    .effect = true,
    CHARL_RULES(_update),
};
