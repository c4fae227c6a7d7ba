/* layer_norm: over the last axis; layer_norm_grad is the gradient of x, layer_norm_wgrad those of
 * weight and bias. Both compute a row's mean and deviation again: that costs a read of x, and saves
 * two outputs that would live until the backward pass.
 */
#include <math.h>
#include <stdio.h>

#include "autograd/map.h"
#include "autograd/onnx.h"
#include "autograd/rows.h"
#include "charl/ops.h"

typedef struct layer_attr {
    float eps;
} layer_attr;

static int64_t row_length(const charl_shape *s)
{
    return s->dim[s->ndim - 1];
}

static int64_t row_count(const charl_shape *s)
{
    const int64_t n = row_length(s);

    return n > 0 ? charl_shape_count(s) / n : 0;
}

/* Operand x has rows; operands from `first` on are f32 [C]. */
static charl_status check(const charl_infer *inf, int x, int first)
{
    charl_status st = CHARL_OK;
    const charl_type *t = &inf->in[x];
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    for (int i = 0; i < inf->n_in; i++) {
        CHARL_REQUIRE(charl__is_float(inf->in[i].dtype), CHARL_ERR_DTYPE,
                      "operand %d is %s, not a float", i, charl_dtype_name(inf->in[i].dtype));
    }
    CHARL_REQUIRE(t->shape.ndim >= (t->batch == CHARL_BATCHED ? 2 : 1) && row_length(&t->shape) > 0,
                  CHARL_ERR_SHAPE, "x %s has no last axis to normalise over",
                  charl_shape_format(&t->shape, a));
    for (int i = first; i < inf->n_in; i++) {
        CHARL_REQUIRE(inf->in[i].shape.ndim == 1 &&
                          inf->in[i].shape.dim[0] == row_length(&t->shape) &&
                          inf->in[i].batch != CHARL_BATCHED,
                      CHARL_ERR_SHAPE, "operand %d %s does not fit the last axis of x %s", i,
                      charl_shape_format(&inf->in[i].shape, a), charl_shape_format(&t->shape, b));
    }
cleanup:
    return st;
}

/* Launch entry over the rows of x with operands args[0..n_args), then geometry and eps. */
static charl_status launch_rows(const charl_enqueue *e, const char *entry, const charl_tensor *x,
                                int affine, const charl_arg *args, int n_args)
{
    charl_status st = CHARL_OK;
    charl_rows plan;
    charl_launch l = {
        .file = "layer_norm", .entry = entry, .defines = plan.defines, .label = e->label};
    const int64_t rows = row_count(&x->shape), n = row_length(&x->shape);
    char extra[32];

    snprintf(extra, sizeof extra, "#define AFFINE %d\n", affine);
    CHARL_TRY(charl__rows_plan(e->dev, rows, n, extra, &plan));
    charl__rows_store(&plan, x->dtype);
    for (int i = 0; i < n_args; i++) {
        l.args[i] = args[i];
    }
    l.args[n_args] = charl__i64(rows);
    l.args[n_args + 1] = charl__i64(plan.per_item);
    l.args[n_args + 2] = charl__i64(n);
    l.args[n_args + 3] = charl__f32(((const layer_attr *)e->attr)->eps);
    l.global[0] = plan.global;
    l.local[0] = plan.local;
    CHARL_TRY(charl__launch(e->dev, &l));
cleanup:
    return st;
}

static charl_status infer(charl_infer *inf)
{
    charl_status st = CHARL_OK;

    CHARL_TRY(check(inf, 0, 1));
    inf->out[0] = inf->in[0];
    CHARL_TRY(charl__infer_rows(inf));
cleanup:
    return st;
}

static charl_status enqueue(const charl_enqueue *e)
{
    const charl_arg args[] = {charl__in(e->in[0]), charl__in(e->n_in > 1 ? e->in[1] : NULL),
                              charl__in(e->n_in > 2 ? e->in[2] : NULL), charl__out(e->out[0])};

    return launch_rows(e, "charl_normalize", e->in[0], e->n_in - 1, args, 4);
}

static void backward(const charl_backward *b)
{
    charl_var *out[CHARL_OP_MAX_OUT];

    if (b->needed[0]) {
        charl__apply(b->g, &charl_op_layer_norm_grad, b->attr,
                     (charl_var *[]){b->gout[0], b->in[0], b->n_in > 1 ? b->in[1] : NULL}, 3, out);
        b->gin[0] = out[0];
    }
    if (b->n_in > 1 && (b->needed[1] || (b->n_in > 2 && b->needed[2]))) {
        charl_var *sums =
            charl__apply2(b->g, &charl_op_layer_norm_wgrad, b->attr, b->gout[0], b->in[0]);

        for (int i = 1; i < b->n_in; i++) {
            if (b->needed[i]) {
                b->gin[i] = charl_reshape(b->g, charl_slice(b->g, sums, 0, i - 1, 1),
                                          charl_var_get_type(b->in[i]).shape);
            }
        }
    }
}

/* Mean and 1 / deviation of a row. */
static void statistics(const double *x, int64_t n, float eps, double *mean, double *invstd)
{
    double sum = 0, squares = 0;

    for (int64_t j = 0; j < n; j++) {
        sum += x[j];
    }
    *mean = sum / (double)n;
    for (int64_t j = 0; j < n; j++) {
        squares += (x[j] - *mean) * (x[j] - *mean);
    }
    *invstd = 1 / sqrt(squares / (double)n + (double)eps);
}

static void reference(const charl_reference *r)
{
    const layer_attr *t = r->attr;
    const int64_t n = row_length(&r->in_type[0].shape), rows = row_count(&r->in_type[0].shape);

    for (int64_t i = 0; i < rows; i++) {
        double mean, invstd;

        statistics(r->in[0] + i * n, n, t->eps, &mean, &invstd);
        for (int64_t j = 0; j < n; j++) {
            r->out[0][i * n + j] =
                (r->in[0][i * n + j] - mean) * invstd * (r->n_in > 1 ? r->in[1][j] : 1) +
                (r->n_in > 2 ? r->in[2][j] : 0);
        }
    }
}

static const layer_attr usual = {1e-5F}, large = {0.1F};

static const charl_op_sample samples[] = {
    {.in = {CHARL_B(F32, 16, 5), CHARL_R(F32, 5), CHARL_R(F32, 5)},
     .attr = &large,
     .lo = -1,
     .hi = 1,
     .terms = 16},
    {.in = {CHARL_B(F32, 8, 3, 37), CHARL_R(F32, 37)},
     .n_in = 2,
     .attr = &usual,
     .lo = -1,
     .hi = 1,
     .terms = 37},
    {.in = {CHARL_R(F32, 5, 300)}, .n_in = 1, .attr = &usual, .lo = -1, .hi = 1, .terms = 300},
    {.in = {CHARL_R(F32, 3, 1), CHARL_R(F32, 1), CHARL_R(F32, 1)},
     .attr = &usual,
     .lo = -1,
     .hi = 1,
     .terms = 2},
    {.in = {CHARL_R(F32, 768), CHARL_R(F32, 768), CHARL_R(F32, 768)},
     .attr = &usual,
     .lo = -1,
     .hi = 1,
     .terms = 768},
};

static void onnx(const charl_onnx_node *n)
{
    const charl_shape *s = &n->in_type[0].shape;
    const float eps = ((const layer_attr *)n->attr)->eps;
    const char *one = n->n_in > 1 ? n->in[1] : charl__onnx_fill(n, 1.0F, s->dim[s->ndim - 1]);

    charl__onnx_call(n, &(charl_onnx_call){
                            .type = "LayerNormalization",
                            .in = {n->in[0], one, n->n_in > 2 ? n->in[2] : NULL},
                            .out = n->out,
                            .attr = {{"axis", .i = -1}, {"epsilon", .is_float = true, .f = eps}}});
}

const charl_op charl_op_layer_norm = {
    .name = "layer_norm",
    .formula = "out = (x - mean) / sqrt(var + eps) * weight + bias, over the last axis",
    .n_in = 3,
    .n_optional = 2,
    .attr_size = sizeof(layer_attr),
    .half = CHARL_HALF(0),
    .infer = infer,
    .enqueue = enqueue,
    .backward = backward,
    .reference = reference,
    .onnx = onnx,
    CHARL_SAMPLES(samples),
};

charl_var *charl_layer_norm(charl_graph *g, charl_var *x, charl_var *weight, charl_var *bias,
                            float eps)
{
    const layer_attr t = {eps};
    charl_var *out[CHARL_OP_MAX_OUT];

    charl__apply(g, &charl_op_layer_norm, &t, (charl_var *[]){x, weight, weight ? bias : NULL}, 3,
                 out);
    return bias && !weight ? charl_add(g, out[0], bias) : out[0];
}

/* layer_norm_grad(gout, x[, weight]) */
static charl_status infer_grad(charl_infer *inf)
{
    charl_status st = CHARL_OK;

    CHARL_TRY(check(inf, 1, 2));
    CHARL_REQUIRE(charl_shape_equal(&inf->in[0].shape, &inf->in[1].shape), CHARL_ERR_SHAPE,
                  "gout and x differ");
    inf->out[0] = inf->in[1];
    CHARL_TRY(charl__infer_rows(inf));
cleanup:
    return st;
}

static charl_status enqueue_grad(const charl_enqueue *e)
{
    const charl_arg args[] = {charl__in(e->in[0]), charl__in(e->in[1]),
                              charl__in(e->n_in > 2 ? e->in[2] : NULL), charl__out(e->out[0])};

    return launch_rows(e, "charl_gradient", e->in[1], e->n_in - 2, args, 4);
}

static void reference_grad(const charl_reference *r)
{
    const layer_attr *t = r->attr;
    const int64_t n = row_length(&r->in_type[1].shape), rows = row_count(&r->in_type[1].shape);

    for (int64_t i = 0; i < rows; i++) {
        const double *g = r->in[0] + i * n, *x = r->in[1] + i * n;
        double mean, invstd, s0 = 0, s1 = 0;

        statistics(x, n, t->eps, &mean, &invstd);
        for (int64_t j = 0; j < n; j++) {
            const double u = g[j] * (r->n_in > 2 ? r->in[2][j] : 1);

            s0 += u / (double)n;
            s1 += u * (x[j] - mean) * invstd / (double)n;
        }
        for (int64_t j = 0; j < n; j++) {
            const double u = g[j] * (r->n_in > 2 ? r->in[2][j] : 1);

            r->out[0][i * n + j] = invstd * (u - s0 - (x[j] - mean) * invstd * s1);
        }
    }
}

static const charl_op_sample samples_grad[] = {
    {.in = {CHARL_B(F32, 16, 5), CHARL_B(F32, 16, 5), CHARL_R(F32, 5)},
     .attr = &large,
     .lo = -1,
     .hi = 1,
     .terms = 16},
    {.in = {CHARL_B(F32, 8, 3, 37), CHARL_B(F32, 8, 3, 37)},
     .n_in = 2,
     .attr = &usual,
     .lo = -1,
     .hi = 1,
     .terms = 37},
    {.in = {CHARL_R(F32, 5, 300), CHARL_R(F32, 5, 300), CHARL_R(F32, 300)},
     .attr = &usual,
     .lo = -1,
     .hi = 1,
     .terms = 300},
    {.in = {CHARL_R(F32, 3, 1), CHARL_R(F32, 3, 1), CHARL_R(F32, 1)},
     .attr = &large,
     .lo = -1,
     .hi = 1,
     .terms = 2},
};

const charl_op charl_op_layer_norm_grad = {
    .name = "layer_norm_grad",
    .formula = "out = invstd * (u - mean(u) - h * mean(u * h)), u = gout * weight, h = (x - mean) "
               "* invstd",
    .n_in = 3,
    .n_optional = 1,
    .attr_size = sizeof(layer_attr),
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .infer = infer_grad,
    .enqueue = enqueue_grad,
    .reference = reference_grad,
    CHARL_SAMPLES(samples_grad),
};

/* layer_norm_wgrad(gout, x) -> [2, C]; workspace: [rows][2] statistics, then [slices][2][C] partial
 * sums */
static charl_status infer_wgrad(charl_infer *inf)
{
    charl_status st = CHARL_OK;
    const charl_type *x = &inf->in[1];
    const int64_t n = x->shape.ndim > 0 ? row_length(&x->shape) : 0;

    CHARL_TRY(check(inf, 1, 2));
    CHARL_REQUIRE(charl_shape_equal(&inf->in[0].shape, &x->shape) && inf->in[0].batch == x->batch,
                  CHARL_ERR_SHAPE, "gout and x differ");
    inf->out[0] = (charl_type){
        CHARL_F32, {2, {2, n}}, x->batch == CHARL_BATCHED ? CHARL_PARTIAL : CHARL_REPLICATED};
    inf->workspace = (2 * row_count(&x->shape) + inf->n_slices * 2 * n) * (int64_t)sizeof(float);
cleanup:
    return st;
}

static charl_status enqueue_wgrad(const charl_enqueue *e)
{
    charl_status st = CHARL_OK;
    const charl_shape *x = &e->in[1]->shape;
    const int64_t rows = row_count(x), n = row_length(x),
                  slices = charl__is_partial(e, 0) ? e->slices->count : 1;
    const int vec = charl__is_ungrouped(e->dev) ? 16 : 1;
    const charl_arg args[] = {charl__in(e->in[1]),
                              charl__scratch_arg(CHARL_ARG_OUT, e->workspace, 0)};
    charl_tensor part = *e->workspace;
    char defines[64];
    charl_launch l = {
        .file = "layer_norm", .entry = "charl_sums", .defines = defines, .label = e->label};

    part.offset += 2 * rows;
    part.shape = (charl_shape){1, {slices * 2 * n}};
    CHARL_TRY(launch_rows(e, "charl_stats", e->in[1], 0, args, 2));
    snprintf(defines, sizeof defines, "#define CHARL_VEC %d\n%s", vec,
             charl__act_define(e->in[1]->dtype));
    l.args[0] = charl__in(e->in[0]);
    l.args[1] = charl__in(e->in[1]);
    l.args[2] = charl__scratch_arg(CHARL_ARG_IN, e->workspace, 0);
    l.args[3] = slices > 1 ? charl__out(&part) : charl__out(e->out[0]);
    l.args[4] = charl__i64(slices);
    l.args[5] = charl__i64(rows / slices);
    l.args[6] = charl__i64(n);
    charl__span_launch(e->dev, slices * ((n + vec - 1) / vec), 1, &l);
    CHARL_TRY(charl__launch(e->dev, &l));
    if (slices > 1) {
        CHARL_TRY(charl__fold(e, &part, 2 * n, 0));
    }
cleanup:
    return st;
}

static void reference_wgrad(const charl_reference *r)
{
    const layer_attr *t = r->attr;
    const int64_t n = row_length(&r->in_type[1].shape), rows = row_count(&r->in_type[1].shape);

    for (int64_t j = 0; j < 2 * n; j++) {
        r->out[0][j] = 0;
    }
    for (int64_t i = 0; i < rows; i++) {
        double mean, invstd;

        statistics(r->in[1] + i * n, n, t->eps, &mean, &invstd);
        for (int64_t j = 0; j < n; j++) {
            r->out[0][j] += r->in[0][i * n + j] * (r->in[1][i * n + j] - mean) * invstd;
            r->out[0][n + j] += r->in[0][i * n + j];
        }
    }
}

static const charl_op_sample samples_wgrad[] = {
    {.in = {CHARL_B(F32, 16, 5), CHARL_B(F32, 16, 5)},
     .attr = &large,
     .lo = -1,
     .hi = 1,
     .terms = 16},
    {.in = {CHARL_B(F32, 8, 3, 37), CHARL_B(F32, 8, 3, 37)},
     .attr = &usual,
     .lo = -1,
     .hi = 1,
     .terms = 37},
    {.in = {CHARL_R(F32, 5, 300), CHARL_R(F32, 5, 300)},
     .attr = &usual,
     .lo = -1,
     .hi = 1,
     .terms = 300},
    {.in = {CHARL_R(F32, 1, 1), CHARL_R(F32, 1, 1)}, .attr = &usual, .lo = -1, .hi = 1, .terms = 2},
};

const charl_op charl_op_layer_norm_wgrad = {
    .name = "layer_norm_wgrad",
    .formula = "out[0] = sum over rows of gout * h, out[1] = sum of gout, h = (x - mean) * invstd",
    .n_in = 2,
    .attr_size = sizeof(layer_attr),
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .infer = infer_wgrad,
    .enqueue = enqueue_wgrad,
    .reference = reference_wgrad,
    CHARL_SAMPLES(samples_wgrad),
};
