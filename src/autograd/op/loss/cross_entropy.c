/* cross_entropy: of rows of logits, each against a class, with weights, label smoothing and z-loss.
 *
 *  out[b] = w[b] * (z lse[b]^2 - sum over c of q[b, c] log_softmax(x)[b, c])
 *  d/dx   = w[b] * ((1 + 2 z lse[b]) softmax(x) - q),  d/dw = out / w
 *
 * with q = 1 - s at the label, plus s / C everywhere.
 *
 * Output 1, the logarithm of the sum of exp(x) of each row, is kept for the gradient, which is one
 * pass over the logits and may overwrite them: the softmax is never stored separately.
 */
#include "loss/cross_entropy_args.h"
#include "autograd/op/loss/cross_entropy.h"
#include "autograd/launch/map.h"

#include <math.h>
#include <stdio.h>

#include "charl/ops.h"

enum { CHUNK = CHARL__CROSS_ENTROPY_CHUNK, ROW_GROUP = 256 }; /* as in kernels/prelude/rows.clh */

/* `first` is the operand that holds the logits; the label follows. `weight` is the operand that holds
 * the weights, if there are any. */
static charl_status check_operands(const charl__infer *inf, int first, int weight)
{
    const charl_type *x = &inf->in[first], *label = &inf->in[first + 1];
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(charl__is_float(x->dtype) && label->dtype == CHARL_I32, CHARL_ERR_DTYPE,
                  "logits are floats and labels i32, not %s and %s", charl_dtype_name(x->dtype),
                  charl_dtype_name(label->dtype));
    CHARL_REQUIRE(charl__is_rows_of(&label->shape, &x->shape), CHARL_ERR_SHAPE,
                  "logits %s and labels %s are not [..., C] and [...]", charl_shape_format(&x->shape, a),
                  charl_shape_format(&label->shape, b));
    CHARL_REQUIRE(x->shape.dim[x->shape.ndim - 1] > 0, CHARL_ERR_SHAPE, "logits %s have no classes",
                  charl_shape_format(&x->shape, a));
    CHARL_REQUIRE(inf->n_in <= weight ||
                      (inf->in[weight].dtype == CHARL_F32 && charl_shape_equal(&inf->in[weight].shape, &label->shape)),
                  CHARL_ERR_SHAPE, "the weight is not f32 %s", charl_shape_format(&label->shape, a));
    CHARL_TRY(charl__infer_same_rows(inf, first, first + 1));
    if (inf->n_in > weight) {
        CHARL_TRY(charl__infer_same_rows(inf, first, weight));
    }
    return CHARL_OK;
}

static charl_status infer(charl__infer *inf)
{
    CHARL_TRY(check_operands(inf, 0, 2));
    inf->out[0] = inf->in[0];
    inf->out[0].dtype = CHARL_F32;
    inf->out[0].shape.ndim--;
    inf->out[1] = inf->out[0];
    inf->n_out = 2;
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

charl_status charl__cross_entropy_rows(const charl__enqueue *e, const charl_tensor *logits, bool weight,
                                       charl__launch *l, int64_t *per_item)
{
    const charl_cross_entropy_args *args = e->attr;
    const bool one_item = charl__rows_have_one_item(e->dev);
    int64_t rows, n, inner, chunk, width;

    charl__split_axis(&logits->shape, logits->shape.ndim - 1, &rows, &n, &inner);
    chunk = n < CHUNK ? n : CHUNK;
    width = charl__rows_width(chunk);
    charl__launch_set(l, "WEIGHT", weight);
    charl__launch_set(l, "SMOOTHING", args->label_smoothing != 0.0F);
    charl__launch_set(l, "Z_LOSS", args->z_loss != 0.0F);
    charl__launch_set(l, "CHUNKS", n > CHUNK);
    charl__launch_set(l, "KEEP", (chunk + width - 1) / width);
    charl__launch_set_text(l, "ACT", charl__kernel_type(logits->dtype));
    CHARL_TRY(charl__rows_launch(e->dev, rows, n, l, per_item));
    if (n > CHUNK && !one_item) {
        l->global[0] = (size_t)rows * l->local[0];
    }
    return CHARL_OK;
}

static charl_status enqueue(const charl__enqueue *e)
{
    const charl_tensor *logits = e->in[0];
    const charl_cross_entropy_args *args = e->attr;
    charl__launch l = {.file = "loss/cross_entropy", .entry = "charl_loss", .label = e->label};
    int64_t rows, n, inner, per_item;
    int a = 0;

    charl__split_axis(&logits->shape, logits->shape.ndim - 1, &rows, &n, &inner);
    if (rows == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__cross_entropy_rows(e, logits, e->n_in > 2, &l, &per_item));
    for (int i = 0; i < e->n_in; i++) {
        l.args[a++] = charl__in(e->in[i]);
    }
    l.args[a++] = charl__out(e->out[0]);
    l.args[a++] = charl__out(e->out[1]);
    l.args[a++] = charl__i64(rows);
    l.args[a++] = charl__i64(per_item);
    l.args[a++] = charl__i64(n);
    l.args[a++] = charl__f32(args->label_smoothing);
    l.args[a++] = charl__f32(args->z_loss);
    CHARL_TRY(charl__launch_enqueue(e->dev, &l));
    return CHARL_OK;
}

/* The gradient of lse with respect to the logits is the softmax. */
static charl_var *through_lse(const charl__backward *b)
{
    charl_shape s = charl_var_get_type(b->gout[1]).shape;

    s.dim[s.ndim++] = 1;
    return charl_mul(b->g, charl_softmax(b->g, b->in[0]), charl_reshape(b->g, b->gout[1], s));
}

static void backward(const charl__backward *b)
{
    if (b->needed[0] && b->gout[0]) {
        b->gin[0] = charl__apply_n(
            b->g, &charl_op_cross_entropy_grad, b->attr,
            (charl_var *[]){b->gout[0], b->in[0], b->in[1], b->out[1], b->n_in > 2 ? b->in[2] : NULL}, 5);
    }
    if (b->needed[0] && b->gout[1]) {
        b->gin[0] = b->gin[0] ? charl_add(b->g, b->gin[0], through_lse(b)) : through_lse(b);
    }
    if (b->n_in > 2 && b->needed[2] && b->gout[0]) {
        b->gin[2] = charl_mul(b->g, b->gout[0], charl_cross_entropy(b->g, b->in[0], b->in[1], NULL, b->attr));
    }
}

/* log of the sum of exp over row x */
static double log_sum_exp(const double *x, int64_t n)
{
    double m = x[0], s = 0.0;

    for (int64_t c = 1; c < n; c++) {
        m = x[c] > m ? x[c] : m;
    }
    for (int64_t c = 0; c < n; c++) {
        s += exp(x[c] - m);
    }
    return m + log(s);
}

static double target(double label, int64_t c, int64_t n, double smoothing)
{
    return label < 0 || label >= (double)n ? (double)NAN
                                           : smoothing / (double)n + (label == (double)c ? 1.0 - smoothing : 0.0);
}

static void reference(const charl__reference *r)
{
    const charl_cross_entropy_args *args = r->attr;
    const double z = (double)args->z_loss;
    const charl_shape *x = &r->in_type[0].shape;
    int64_t rows, n, inner;

    charl__split_axis(x, x->ndim - 1, &rows, &n, &inner);
    for (int64_t i = 0; i < rows; i++) {
        const double *row = r->in[0] + i * n, lse = log_sum_exp(row, n);
        double sum = z * lse * lse;

        for (int64_t c = 0; c < n; c++) {
            sum -= target(r->in[1][i], c, n, (double)args->label_smoothing) * (row[c] - lse);
        }
        r->out[1][i] = lse;
        r->out[0][i] = sum * (r->n_in > 2 ? r->in[2][i] : 1.0);
    }
}

static charl_status infer_grad(charl__infer *inf)
{
    CHARL_TRY(check_operands(inf, 1, 4));
    inf->out[0] = inf->in[1];
    for (int i = 0; i < 4; i += 3) {
        CHARL_REQUIRE(inf->in[i].dtype == CHARL_F32 && charl_shape_equal(&inf->in[i].shape, &inf->in[2].shape),
                      CHARL_ERR_SHAPE, "operand %d, gout or lse, is not one f32 per row", i);
        CHARL_TRY(charl__infer_same_rows(inf, 1, i));
    }
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

/* If rows are divided among work-items, a work-group processes a range of one row. */
static charl_status shape_gradient(const charl__enqueue *e, int64_t rows, int64_t n, charl__launch *l,
                                   int64_t *per_item, int64_t *stretches)
{
    const charl_cross_entropy_args *args = e->attr;
    const int64_t one = ROW_GROUP * CHARL_GPU_VEC;
    const int vectors = n > 2 * one ? 4 : n > one ? 2 : 1;

    charl__launch_set(l, "WEIGHT", e->n_in > 4);
    charl__launch_set(l, "SMOOTHING", args->label_smoothing != 0.0F);
    charl__launch_set(l, "Z_LOSS", args->z_loss != 0.0F);
    charl__launch_set(l, "VECTORS", vectors);
    charl__launch_set_text(l, "ACT", charl__kernel_type(e->in[1]->dtype));
    CHARL_TRY(charl__rows_launch(e->dev, rows, n, l, per_item));
    *stretches = (n + CHARL_GPU_VEC - 2) / (vectors * one) + 1; /* a row may begin inside a vector */
    if (!charl__rows_have_one_item(e->dev)) {
        l->global[0] = (size_t)(rows * *stretches) * l->local[0];
    }
    return CHARL_OK;
}

static charl_status enqueue_grad(const charl__enqueue *e)
{
    const charl_cross_entropy_args *args = e->attr;
    const charl_tensor *x = e->in[1];
    charl__launch l = {.file = "loss/cross_entropy_grad", .entry = "charl_gradient", .label = e->label};
    charl__cross_entropy_numbers numbers;
    int64_t rows, n, inner, per_item, stretches;
    int a = 0;

    charl__split_axis(&x->shape, x->shape.ndim - 1, &rows, &n, &inner);
    if (rows == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(shape_gradient(e, rows, n, &l, &per_item, &stretches));
    for (int i = 0; i < e->n_in; i++) {
        l.args[a++] = charl__in(e->in[i]);
    }
    l.args[a++] = charl__out(e->out[0]);
    numbers = (charl__cross_entropy_numbers){.rows = (uint64_t)rows,
                                             .per_item = (uint64_t)per_item,
                                             .stretches = (uint64_t)stretches,
                                             .n = (uint64_t)n,
                                             .smooth = args->label_smoothing,
                                             .z = args->z_loss};
    l.args[a] = charl__struct(&numbers, sizeof numbers);
    CHARL_TRY(charl__launch_enqueue(e->dev, &l));
    return CHARL_OK;
}

static void reference_grad(const charl__reference *r)
{
    const charl_cross_entropy_args *args = r->attr;
    const double z = (double)args->z_loss;
    const charl_shape *x = &r->in_type[1].shape;
    int64_t rows, n, inner;

    charl__split_axis(x, x->ndim - 1, &rows, &n, &inner);
    for (int64_t i = 0; i < rows; i++) {
        const double g = r->in[0][i] * (r->n_in > 4 ? r->in[4][i] : 1.0), lse = r->in[3][i];

        for (int64_t c = 0; c < n; c++) {
            r->out[0][i * n + c] = g * ((1.0 + 2.0 * z * lse) * exp(r->in[1][i * n + c] - lse) -
                                        target(r->in[2][i], c, n, (double)args->label_smoothing));
        }
    }
}

static const charl_cross_entropy_args plain = {0}, smooth = {.label_smoothing = 0.1F}, z_loss = {.z_loss = 0.01F},
                                      both = {.label_smoothing = 0.1F, .z_loss = 0.5F};

/* gout; logits, label and lse; weight */
static const charl__op_sample samples_grad[] = {
    {.in = {CHARL_R(F32, 3), LOGITS(R, 5, 3)}, .n_in = 4, CLASSES(plain, 5, 5)},
    {.in = {CHARL_R(F32, 3), LOGITS(R, 5, 3)}, .n_in = 4, CLASSES(plain, 20, 5)},
    {.in = {CHARL_R(F32, 7), LOGITS(R, 100, 7), CHARL_R(F32, 7)}, CLASSES(smooth, 100, 100)},
    {.in = {CHARL_R(F32, 2), LOGITS(R, 1003, 2)}, .n_in = 4, CLASSES(smooth, 1003, 1003)},
    {.in = {CHARL_B(F32, 8, 5), LOGITS(B, 37, 8, 5)}, .n_in = 4, CLASSES(z_loss, 37, 37)},
    {.in = {CHARL_B(F32, 16), LOGITS(B, 10, 16)}, .n_in = 4, CLASSES(plain, 10, 10)},
};

const charl__op charl_op_cross_entropy_grad = {
    .name = "cross_entropy_grad",
    .formula = "out = g * w * ((1 + 2 z lse) exp(x - lse) - q)",
    .n_in = 5,
    .n_optional = 1,
    .attr_size = sizeof(charl_cross_entropy_args),
    .in_place = true,
    .half = CHARL_HALF(1),
    CHARL_RULES(_grad),
};

static const charl__op_sample samples[] = {
    {.in = {LOGITS(R, 5, 3)}, .n_in = 2, CLASSES(plain, 5, 5)},
    {.in = {LOGITS(R, 1, 1)}, .n_in = 2, CLASSES(plain, 1, 2)},
    {.in = {LOGITS(R, 4, 0)}, .n_in = 2, CLASSES(plain, 4, 0)},
    {.in = {LOGITS(R, 5, 40)}, .n_in = 2, CLASSES(plain, 20, 5), .skip_gradient = true},
    {.in = {LOGITS(R, 100, 7)}, CLASSES(smooth, 100, 100)},
    {.in = {LOGITS(R, 9, 3)}, CLASSES(plain, 9, 9)},
    {.in = {LOGITS(R, 1003, 2)}, .n_in = 2, CLASSES(smooth, 1003, 1003)},
    /* several chunks */
    {.in = {LOGITS(R, 5003, 3)}, .n_in = 2, CLASSES(smooth, 5003, 5003), .lo = -30, .hi = 30, .skip_gradient = true},
    /* more than are summed at once */
    {.in = {LOGITS(R, 264321, 1)}, .n_in = 2, CLASSES(smooth, 264321, 264321), .skip_gradient = true},
    {.in = {LOGITS(R, 9, 3)}, .n_in = 2, CLASSES(plain, 9, 9), .lo = -1e4, .hi = 1e4, .skip_gradient = true},
    {.in = {LOGITS(B, 37, 8, 5)}, CLASSES(both, 37, 37)},
    {.in = {LOGITS(B, 1303, 8)}, .n_in = 2, CLASSES(z_loss, 1303, 1303)}, /* several chunks */
    /* rows begin anywhere; 2051 is out of range */
    {.in = {LOGITS(B, 2051, 8, 2)}, .n_in = 2, CLASSES(smooth, 2052, 2051), .lo = -30, .hi = 30, .skip_gradient = true},
    {.in = {LOGITS(B, 10, 16)}, CLASSES(smooth, 10, 10)},
};

const charl__op charl_op_cross_entropy = {
    .name = "cross_entropy",
    .formula = "out1 = lse = log sum exp(x), out0[...] = w[...] * (z lse[...]^2 - sum over c of q[..., c] "
               "log_softmax(x)[..., c])",
    .n_in = 3,
    .n_optional = 1,
    .attr_size = sizeof(charl_cross_entropy_args),
    .half = CHARL_HALF(0),
    CHARL_RULES(),
    .backward = backward,
};

charl_var *charl_cross_entropy(charl_graph *g, charl_var *logits, charl_var *label, charl_var *weight,
                               const charl_cross_entropy_args *args)
{
    args = args ? args : &plain;
    if (!charl__graph_check_range(g, "cross_entropy", "label_smoothing", (double)args->label_smoothing, "[0,1]") ||
        !charl__graph_check_range(g, "cross_entropy", "z_loss", (double)args->z_loss, "[0,inf)")) {
        return NULL;
    }
    return charl__apply_n(g, &charl_op_cross_entropy, args, (charl_var *[]){logits, label, weight}, 3);
}
