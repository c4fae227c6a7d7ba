/* batch_norm: normalisation per channel over the whole global batch.
 *
 * charl_batch_norm composes operators: the sum of x, the mean, the sum of squared deviations (two
 * passes, so that a large mean loses no digits), the inverse standard deviation, the normalization.
 * The sums are PARTIAL and completed over ranks. The gradient is one rule of batch_norm_apply,
 * which in training includes the dependence of the statistics on x; no gradient flows through the statistics
 * separately.
 */
#include "norm/norm_args.h"
#include "autograd/op/norm/channels.h"
#include "autograd/launch/map.h"
#include "autograd/onnx/onnx.h"
#include "autograd/op/norm/batch_norm_common.h"
#include "charl/ops.h"

/* batch_norm_grad(gout, x, mean, invstd, sums[, weight]): the gradient of x, the statistics being
 * x's own. */
static charl_status infer_grad(charl__infer *inf)
{
    const charl_shape *x = &inf->in[1].shape;

    CHARL_TRY(charl__norm_check(inf, 1, 2, 4));
    CHARL_TRY(charl__norm_check(inf, 1, 5, inf->n_in));
    CHARL_REQUIRE(charl_shape_equal(&inf->in[0].shape, x) && charl_shape_count(&inf->in[4].shape) == 2 * x->dim[1] &&
                      inf->in[4].batch != CHARL_BATCHED,
                  CHARL_ERR_SHAPE, "gout, x and sums do not fit");
    inf->out[0] = inf->in[1];
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

static charl_status enqueue_grad(const charl__enqueue *e)
{
    const charl__norm *t = e->attr;
    const charl__norm_shape s = charl__norm_shape_get(&e->in[1]->shape);
    charl__launch l = {.file = "norm/batch_norm",
                       .entry = "charl_gradient",
                       .params = {{"WEIGHT", e->n_in > 5}, {"ACT", .text = charl__kernel_type(e->in[1]->dtype)}},
                       .args = {charl__in(e->in[1]), charl__in(e->in[0]), charl__in(e->in[2]), charl__in(e->in[3]),
                                charl__in(e->n_in > 5 ? e->in[5] : NULL), charl__in(e->in[4]), charl__out(e->out[0])},
                       .label = e->label};
    charl__norm_args args;
    int64_t per_item;

    if (charl__tensor_count(e->out[0]) == 0) {
        return CHARL_OK;
    }
    if (e->in[1]->channels_last) {
        CHARL_TRY(charl__channels_gradient(e, t->count));
        return CHARL_OK;
    }
    CHARL_TRY(charl__norm_plan(e, s.rows, s, &l, &per_item));
    args = (charl__norm_args){.rows = (uint64_t)s.rows,
                              .channels = (uint64_t)s.channels,
                              .n = (uint64_t)s.inner,
                              .per_item = (uint64_t)per_item,
                              .scale = (float)(1.0 / t->count)};
    charl__launch_add(&l, charl__struct(&args, sizeof args));
    CHARL_TRY(charl__launch_enqueue(e->dev, &l));
    return CHARL_OK;
}

static void reference_grad(const charl__reference *r)
{
    const charl__norm *t = r->attr;
    const charl__norm_shape s = charl__norm_shape_get(&r->in_type[1].shape);

    for (int64_t i = 0; i < s.rows * s.channels * s.inner; i++) {
        const int64_t c = i / s.inner % s.channels;
        const double invstd = r->in[3][c], hat = (r->in[1][i] - r->in[2][c]) * invstd;
        const double w = r->n_in > 5 ? r->in[5][c] : 1;

        r->out[0][i] = w * invstd * (r->in[0][i] - r->in[4][c] / t->count - hat * r->in[4][s.channels + c] / t->count);
    }
}

static const charl__norm ten = {10, 1e-5F, true};

/* gout and x, then for each of C channels mean, invstd, two sums and weight. */
#define GRAD(x, C)                                                                                                     \
    {                                                                                                                  \
        x, x, CHARL_R(F32, C), CHARL_R(F32, C), CHARL_R(F32, 2, C), CHARL_R(F32, C)                                    \
    }

static const charl__op_sample samples_grad[] = {
    {.in = GRAD(CHARL_B(F32, 16, 5, 3, 7), 5), .attr = &ten, CHARL_WITHIN(1, 4)},
    {.in = GRAD(CHARL_B(F32, 24, 37), 37), .n_in = 5, .attr = &ten, CHARL_WITHIN(1, 4)},
    {.in = GRAD(CHARL_R(F32, 3, 4, 600), 4), .attr = &ten, CHARL_WITHIN(1, 4)},
    {.in = GRAD(CHARL_R(F32, 1, 1), 1), .attr = &ten, CHARL_WITHIN(1, 4)},
};

const charl__op charl_op_batch_norm_grad = {
    .name = "batch_norm_grad",
    .formula = "out = weight * invstd * (gout - sums[0] / count - (x - mean) * invstd * sums[1] / count)",
    .n_in = 6,
    .n_optional = 1,
    .attr_size = sizeof(charl__norm),
    .prologue = true,
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .layout = CHARL_LAYOUT_CHANNELS,
    CHARL_RULES(_grad),
};

/* batch_norm_apply(x, mean, invstd[, weight[, bias]]), all but x [C, 1, ...]. */
static void express_apply(const void *attr, int n_in, charl__expr *x)
{
    static const char *const text[] = {"(a - b) * c", "(a - b) * c * d", "(a - b) * c * d + e"};

    (void)attr;
    *x = (charl__expr){.text = text[n_in - 3]};
}

static charl_var *row_of(charl_graph *g, charl_var *sums, int64_t row, const charl_var *like)
{
    return charl_reshape(g, charl_slice(g, sums, 0, row, 1), charl_var_get_type(like).shape);
}

static void backward_apply(const charl__backward *b)
{
    const charl__norm *t = b->attr;
    charl_var *out[CHARL_OP_MAX_OUT], *sums = NULL;
    /* with a bias alone the weight is the scalar 1 */
    const bool weight = b->n_in > 3 && charl_var_get_type(b->in[3]).shape.ndim > 0;
    const bool affine = (b->n_in > 3 && b->needed[3]) || (b->n_in > 4 && b->needed[4]);

    if (affine || (t->training && b->needed[0])) {
        charl__apply(b->g, &charl_op_batch_norm_sums, NULL, (charl_var *[]){b->gout[0], b->in[0], b->in[1], b->in[2]},
                     4, out);
        sums = out[0];
    }
    if (b->n_in > 3 && b->needed[3]) {
        b->gin[3] = row_of(b->g, sums, 1, b->in[3]);
    }
    if (b->n_in > 4 && b->needed[4]) {
        b->gin[4] = row_of(b->g, sums, 0, b->in[4]);
    }
    if (b->needed[0] && t->training) {
        charl__apply(b->g, &charl_op_batch_norm_grad, t,
                     (charl_var *[]){b->gout[0], b->in[0], b->in[1], b->in[2], charl_batch_sum(b->g, sums),
                                     weight ? b->in[3] : NULL},
                     6, out);
        b->gin[0] = out[0];
    } else if (b->needed[0]) {
        b->gin[0] = charl_mul(b->g, b->gout[0], b->in[2]);
        b->gin[0] = b->n_in > 3 ? charl_mul(b->g, b->gin[0], b->in[3]) : b->gin[0];
    }
}

static void reference_apply(const charl__reference *r)
{
    const charl__norm_shape s = charl__norm_shape_get(&r->in_type[0].shape);

    for (int64_t i = 0; i < s.rows * s.channels * s.inner; i++) {
        const int64_t c = i / s.inner % s.channels;
        const double hat = (r->in[0][i] - r->in[1][c]) * r->in[2][c];

        r->out[0][i] = hat * (r->n_in > 3 ? r->in[3][c] : 1) + (r->n_in > 4 ? r->in[4][c] : 0);
    }
}

/* The gradient is the total one, with mean and invstd as functions of x, so it cannot be compared with
 * the operator alone; tests/autograd/test_batch_norm.c checks it. */
static const charl__op_sample samples_apply[] = {
    {.in = {CHARL_B(F32, 16, 5, 3, 7), CHARL_R(F32, 5, 1, 1), CHARL_R(F32, 5, 1, 1), CHARL_R(F32, 5, 1, 1),
            CHARL_R(F32, 5, 1, 1)},
     .attr = &ten,
     CHARL_WITHIN(1, 2),
     .skip_gradient = true},
    {.in = {CHARL_B(F32, 24, 37), CHARL_R(F32, 37), CHARL_R(F32, 37)},
     .n_in = 3,
     .attr = &ten,
     CHARL_WITHIN(1, 2),
     .skip_gradient = true},
    {.in = {CHARL_R(F32, 3, 4, 600), CHARL_R(F32, 4, 1), CHARL_R(F32, 4, 1), CHARL_R(F32, 4, 1)},
     .n_in = 4,
     .attr = &ten,
     CHARL_WITHIN(1, 2),
     .skip_gradient = true},
};

static void onnx_apply(const charl__onnx_node *n)
{
    static const char *const type[] = {"", "Sub", "Mul", "Mul", "Add"};
    const char *v = n->in[0];

    for (int i = 1; i < n->n_in; i++) {
        v = charl__onnx_op(n, type[i], v, n->in[i], i == n->n_in - 1 ? n->out : NULL);
    }
}

const charl__op charl_op_batch_norm_apply = {
    .name = "batch_norm_apply",
    .formula = "out = (x - mean) * invstd * weight + bias",
    .n_in = 5,
    .n_optional = 2,
    .attr_size = sizeof(charl__norm),
    .in_place = true,
    .half = CHARL_HALF(0),
    .layout = CHARL_LAYOUT_ALIKE,
    .infer = charl__infer_broadcast,
    .express = express_apply,
    .backward = backward_apply,
    .reference = reference_apply,
    .onnx = onnx_apply,
    CHARL_SAMPLES(samples_apply),
};

/* Mean and inverse standard deviation of x, [C, 1, ...], and the update of the running statistics. */
static void statistics(charl_graph *g, charl_var *x, const charl_batch_norm_args *a, charl__norm *t,
                       const charl_shape *per_channel, charl_var **stats)
{
    charl_var *out[CHARL_OP_MAX_OUT], *squares;
    const charl__norm_update u = {t->count, a->momentum};

    stats[0] = charl_batch_sum(g, charl_sum_to(g, x, 1));
    stats[0] = charl_scale(g, stats[0], (float)(1.0 / t->count), 0.0F);
    squares = charl_batch_sum(g, charl__apply2(g, &charl_op_batch_norm_squares, NULL, x, stats[0]));
    charl__apply(g, &charl_op_batch_norm_update, &u,
                 (charl_var *[]){a->running_mean, a->running_var, stats[0], squares}, 4, out);
    stats[1] = charl__apply1(g, &charl_op_batch_norm_invstd, t, squares);
    for (int i = 0; i < 2; i++) {
        stats[i] = charl_reshape(g, stats[i], *per_channel);
    }
}

charl_var *charl_batch_norm(charl_graph *g, charl_var *x, const charl_batch_norm_args *args)
{
    if (!g || !args) {
        return charl__graph_fail(g, CHARL_ERR_INVALID, "batch_norm: args is NULL");
    }
    charl__norm t = {.count = 1, .eps = args->eps, .training = charl_graph_is_training(g)};
    charl_var *stats[2], *weight = NULL, *bias = NULL;
    const charl_slices *slices = charl__graph_slices(g);
    charl_shape per_channel = {0};
    charl_type type;

    if (!charl__graph_check_range(g, "batch_norm", "eps", (double)args->eps, "[0,1)") ||
        !charl__graph_check_range(g, "batch_norm", "momentum", (double)args->momentum, "[0,1]")) {
        return NULL;
    }
    if (!x || !args->running_mean || !args->running_var) {
        return charl__apply1(g, &charl_op_batch_norm_apply, &t, NULL);
    }
    type = charl_var_get_type(x);
    if (type.shape.ndim < 2) {
        return charl__graph_fail(g, CHARL_ERR_SHAPE, "batch_norm: x has %d extents, not [B, C, ...]", type.shape.ndim);
    }
    per_channel.ndim = type.shape.ndim - 1;
    for (int i = 0; i < per_channel.ndim; i++) {
        per_channel.dim[i] = i == 0 ? type.shape.dim[1] : 1;
    }
    if (args->weight || args->bias) {
        weight = charl_reshape(g, args->weight ? args->weight : charl_constant(g, 1.0F),
                               args->weight ? per_channel : (charl_shape){0});
        bias = args->bias ? charl_reshape(g, args->bias, per_channel) : NULL;
    }
    if (t.training) {
        t.count = (double)charl_shape_count(&type.shape) / (double)(type.shape.dim[1] > 0 ? type.shape.dim[1] : 1);
        t.count *= type.batch == CHARL_BATCHED ? (double)slices->total / slices->count : 1;
        if (t.count <= 1 && charl__graph_has_device(g)) {
            return charl__graph_fail(g, CHARL_ERR_SHAPE,
                                     "batch_norm: a training step has one value per channel (%lld channels), which "
                                     "becomes 0 whatever it is, so nothing is learned; HINT a larger batch "
                                     "(train.batch_size = 2 or more), or layer_norm or group_norm instead",
                                     (long long)type.shape.dim[1]);
        }
        statistics(g, x, args, &t, &per_channel, stats);
    } else {
        stats[0] = charl_reshape(g, args->running_mean, per_channel);
        stats[1] = charl_reshape(g, charl__apply1(g, &charl_op_batch_norm_invstd, &t, args->running_var), per_channel);
    }
    return charl__apply_n(g, &charl_op_batch_norm_apply, &t, (charl_var *[]){x, stats[0], stats[1], weight, bias}, 5);
}
