/* layer_norm, rms_norm (Zhang and Sennrich 2019) and their variants that add a residual first. One row
 * is normalized by one work-item or by part of a group. */
#include "autograd/op/norm/row_norm.h"

#include <math.h>
#include <stdio.h>

#include "autograd/launch/map.h"
#include "autograd/launch/rows.h"
#include "charl/ops.h"

const charl__row_norm charl__row_norm_layer = {true, &charl_op_layer_norm_grad, &charl_op_layer_norm_wgrad,
                                               &charl_op_layer_norm_grads};
const charl__row_norm charl__row_norm_rms = {false, &charl_op_rms_norm_grad, &charl_op_rms_norm_wgrad,
                                             &charl_op_rms_norm_grads};

enum { MAX_IN_REGISTERS = 8 };
/* Rows of up to SHORT elements of a half type have HALF_WIDTH accumulators if work-items
 * exchange registers: a warp then processes two rows. */
enum { HALF_WIDTH = 128, SHORT = 512 };
/* With so few rows, the latency of loading weights and biases is not hidden. */
enum { FEW_ROWS = 64 };

int64_t charl__row_norm_length(const charl_shape *s)
{
    return s->dim[s->ndim - 1];
}

int64_t charl__row_norm_count(const charl_shape *s)
{
    const int64_t n = charl__row_norm_length(s);

    return n > 0 ? charl_shape_count(s) / n : 0;
}

charl_status charl__row_norm_check(const charl__infer *inf, int x, int first, int last)
{
    const charl_type *t = &inf->in[x];
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(t->shape.ndim >= (t->batch == CHARL_BATCHED ? 2 : 1) && charl__row_norm_length(&t->shape) > 0,
                  CHARL_ERR_SHAPE, "x %s has no last axis to normalise over", charl_shape_format(&t->shape, a));
    CHARL_TRY(charl__infer_floats(inf, 0, inf->n_in));
    for (int i = 0; i < inf->n_in; i++) {
        const charl_type *o = &inf->in[i];

        if (i >= first && i < last) {
            CHARL_REQUIRE(o->shape.ndim == 1 && o->shape.dim[0] == charl__row_norm_length(&t->shape) &&
                              o->batch != CHARL_BATCHED,
                          CHARL_ERR_SHAPE, "operand %d %s does not fit the last axis of x %s", i,
                          charl_shape_format(&o->shape, a), charl_shape_format(&t->shape, b));
        } else {
            CHARL_REQUIRE(charl_shape_equal(&o->shape, &t->shape) && o->batch == t->batch && o->dtype == t->dtype,
                          CHARL_ERR_SHAPE, "operand %d is %s %s %s, but x is %s %s %s", i, charl__batch_name(o->batch),
                          charl_dtype_name(o->dtype), charl_shape_format(&o->shape, a), charl__batch_name(t->batch),
                          charl_dtype_name(t->dtype), charl_shape_format(&t->shape, b));
        }
    }
    return CHARL_OK;
}

int charl__row_norm_width(const charl_device *dev, int64_t n, charl_dtype dtype)
{
    const bool two = charl__device_has_fast_half(dev) && charl_dtype_size(dtype) == 2 && n <= SHORT;

    return charl__rows_width(two && n > HALF_WIDTH ? HALF_WIDTH : n);
}

int charl__row_norm_register_blocks(const charl_device *dev, int64_t n, charl_dtype dtype)
{
    const int64_t width = charl__row_norm_width(dev, n, dtype), blocks = (n + width - 1) / width;

    return charl__rows_have_one_item(dev) || blocks > MAX_IN_REGISTERS ? 0 : (int)blocks;
}

charl_status charl__row_norm_rows(const charl__enqueue *e, const charl_tensor *x, charl__launch *l, int64_t *per_item)
{
    const int64_t n = charl__row_norm_length(&x->shape), rows = charl__row_norm_count(&x->shape);
    const int width = charl__row_norm_width(e->dev, n, x->dtype);

    charl__launch_set(l, "CENTRED", charl__row_norm_of(e->op)->centred);
    charl__launch_set(l, "KEEP", charl__row_norm_register_blocks(e->dev, n, x->dtype));
    charl__launch_set_text(l, "ACT", charl__kernel_type(x->dtype));
    CHARL_TRY(charl__rows_launch(e->dev, rows, width < charl__rows_width(n) ? width : n, l, per_item));
    return CHARL_OK;
}

charl_status charl__row_norm_launch(const charl__enqueue *e, const char *entry, const charl_tensor *x, charl__launch *l)
{
    int64_t per_item;

    CHARL_TRY(charl__row_norm_rows(e, x, l, &per_item));
    charl__rows_spread(e->dev, l);
    l->entry = entry;
    l->label = e->label;
    charl__launch_add(l, charl__i64(charl__row_norm_count(&x->shape)));
    charl__launch_add(l, charl__i64(per_item));
    charl__launch_add(l, charl__i64(charl__row_norm_length(&x->shape)));
    charl__launch_add(l, charl__f32(*(const float *)e->attr));
    CHARL_TRY(charl__launch_enqueue(e->dev, l));
    return CHARL_OK;
}

static charl_status infer(charl__infer *inf)
{
    CHARL_TRY(charl__row_norm_check(inf, 0, 1, inf->n_in));
    inf->out[0] = inf->in[0];
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

/* Operands from `first` on are weight and bias. */
static charl_status launch_normalize(const charl__enqueue *e, int first, charl__launch *l)
{
    const charl__nvidia_facts *facts = &charl__device_facts_get(e->dev)->nvidia;
    const unsigned affine = (1U << e->n_in) - (1U << first);
    const bool is_early = facts->wgmma && affine && (e->constant & affine) == affine;

    if (facts->ptx && charl__row_norm_count(&e->in[0]->shape) <= FEW_ROWS) {
        charl__launch_set(l, "FETCH_AHEAD", is_early ? 2 : 1);
    }
    return charl__row_norm_launch(e, "charl_normalize", e->in[0], l);
}

static charl_status enqueue(const charl__enqueue *e)
{
    charl__launch l = {.file = "norm/row_norm",
                       .params = {{"AFFINE", e->n_in - 1}},
                       .args = {charl__in(e->in[0]), charl__in(e->n_in > 1 ? e->in[1] : NULL),
                                charl__in(e->n_in > 2 ? e->in[2] : NULL), charl__out(e->out[0])}};

    return launch_normalize(e, 1, &l);
}

static charl_status infer_add(charl__infer *inf)
{
    CHARL_TRY(charl__row_norm_check(inf, 0, 2, inf->n_in));
    inf->n_out = 2;
    inf->out[0] = inf->out[1] = inf->in[0];
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

static charl_status enqueue_add(const charl__enqueue *e)
{
    charl__launch l = {.file = "norm/row_norm",
                       .params = {{"ADD", 1}, {"AFFINE", e->n_in - 2}},
                       .args = {charl__in(e->in[0]), charl__in(e->in[1]), charl__in(e->in[2]),
                                charl__in(e->n_in > 3 ? e->in[3] : NULL), charl__out(e->out[0]),
                                charl__out(e->out[1])}};

    return launch_normalize(e, 2, &l);
}

void charl__row_norm_statistics(const charl__reference *r, const double *x, int64_t n, double *mean, double *invstd)
{
    double sum = 0, squares = 0;

    for (int64_t j = 0; j < n && charl__row_norm_of(r->op)->centred; j++) {
        sum += x[j];
    }
    *mean = sum / (double)n;
    for (int64_t j = 0; j < n; j++) {
        squares += (x[j] - *mean) * (x[j] - *mean);
    }
    *invstd = 1 / sqrt(squares / (double)n + (double)*(const float *)r->attr);
}

/* Operands `affine` and after are weight and bias. */
static void normalize(const charl__reference *r, const double *x, int affine, double *out)
{
    const int64_t n = charl__row_norm_length(&r->in_type[0].shape), rows = charl__row_norm_count(&r->in_type[0].shape);

    for (int64_t i = 0; i < rows; i++) {
        double mean, invstd;

        charl__row_norm_statistics(r, x + i * n, n, &mean, &invstd);
        for (int64_t j = 0; j < n; j++) {
            out[i * n + j] = (x[i * n + j] - mean) * invstd * (r->n_in > affine ? r->in[affine][j] : 1) +
                             (r->n_in > affine + 1 ? r->in[affine + 1][j] : 0);
        }
    }
}

static void reference(const charl__reference *r)
{
    normalize(r, r->in[0], 1, r->out[0]);
}

static void reference_add(const charl__reference *r)
{
    for (int64_t i = 0; i < charl_shape_count(&r->in_type[0].shape); i++) {
        r->out[0][i] = r->in[0][i] + r->in[1][i];
    }
    normalize(r, r->out[0], 2, r->out[1]);
}

static const float usual = 1e-5F, large = 0.1F;

/* weight and bias of rows of n elements */
#define AFFINE(n) CHARL_R(F32, n), CHARL_R(F32, n)

/* For operands x, weight and bias; an operator without the last uses the first ones. */
static const charl__op_sample samples[] = {
    {.in = {CHARL_B(F32, 16, 5), AFFINE(5)}, .attr = &large, CHARL_WITHIN(1, 16)},
    {.in = {CHARL_B(F32, 8, 3, 37), CHARL_R(F32, 37)}, .n_in = 2, .attr = &usual, CHARL_WITHIN(1, 37)},
    {.in = {CHARL_R(F32, 5, 300)}, .n_in = 1, .attr = &usual, CHARL_WITHIN(1, 300)},
    {.in = {CHARL_R(F32, 3, 1), AFFINE(1)}, .attr = &large, CHARL_WITHIN(1, 2)},
    {.in = {CHARL_R(F32, 768), AFFINE(768)}, .attr = &usual, CHARL_WITHIN(1, 768)},
};

static const charl__op_sample samples_add[] = {
    {.in = {CHARL_B(F32, 16, 5), CHARL_B(F32, 16, 5), AFFINE(5)}, .attr = &large, CHARL_WITHIN(1, 16)},
    {.in = {CHARL_B(F32, 8, 3, 37), CHARL_B(F32, 8, 3, 37), AFFINE(37)},
     .n_in = 3,
     .attr = &large,
     CHARL_WITHIN(1, 37)},
    {.in = {CHARL_R(F32, 5, 300), CHARL_R(F32, 5, 300), AFFINE(300)}, .attr = &usual, CHARL_WITHIN(1, 300)},
    {.in = {CHARL_R(F32, 3, 1), CHARL_R(F32, 3, 1), AFFINE(1)}, .attr = &large, CHARL_WITHIN(1, 2)},
};

#define NORM(word)                                                                                                     \
    .name = (word), .attr_size = sizeof(float), .cheap = true, .half = CHARL_HALF(0), .infer = infer,                  \
    .enqueue = enqueue, .backward = charl__row_norm_backward, .reference = reference, .onnx = charl__row_norm_onnx,    \
    CHARL_SAMPLES(samples)

#define ADD_NORM(word)                                                                                                 \
    .name = (word), .attr_size = sizeof(float), .in_place = true, .half = CHARL_HALF(0) | CHARL_HALF(1),               \
    .infer = infer_add, .enqueue = enqueue_add, .backward = charl__row_norm_add_backward, .reference = reference_add,  \
    .onnx = charl__row_norm_add_onnx, CHARL_SAMPLES(samples_add)

const charl__op charl_op_layer_norm = {
    NORM("layer_norm"),
    .formula = "out = (x - mean) / sqrt(var + eps) * weight + bias, over the last axis",
    .row = &charl__row_norm_layer,
    .n_in = 3,
    .n_optional = 2,
};

const charl__op charl_op_rms_norm = {
    NORM("rms_norm"),
    .formula = "out = x / sqrt(mean(x^2) + eps) * weight, over the last axis",
    .row = &charl__row_norm_rms,
    .n_in = 2,
    .n_optional = 1,
};

const charl__op charl_op_add_layer_norm = {
    ADD_NORM("add_layer_norm"),
    .formula = "out0 = a + b, out1 = layer_norm(out0)",
    .row = &charl__row_norm_layer,
    .recompute_op = &charl_op_layer_norm,
    .n_in = 4,
    .n_optional = 1,
};

const charl__op charl_op_add_rms_norm = {
    ADD_NORM("add_rms_norm"),
    .formula = "out0 = a + b, out1 = rms_norm(out0)",
    .row = &charl__row_norm_rms,
    .recompute_op = &charl_op_rms_norm,
    .n_in = 3,
};

/* An eps of 0 is allowed, as in PyTorch. */
static bool takes_eps(charl_graph *g, const charl__op *op, float eps)
{
    return charl__graph_check_range(g, op->name, "eps", (double)eps, "[0,1)");
}

charl_var *charl_layer_norm(charl_graph *g, charl_var *x, charl_var *weight, charl_var *bias, float eps)
{
    charl_var *out[CHARL_OP_MAX_OUT];

    if (!takes_eps(g, &charl_op_layer_norm, eps)) {
        return NULL;
    }
    charl__apply(g, &charl_op_layer_norm, &eps, (charl_var *[]){x, weight, weight ? bias : NULL}, 3, out);
    return bias && !weight ? charl_add(g, out[0], bias) : out[0];
}

charl_var *charl_rms_norm(charl_graph *g, charl_var *x, charl_var *weight, float eps)
{
    if (!takes_eps(g, &charl_op_rms_norm, eps)) {
        return NULL;
    }
    return charl__apply_n(g, &charl_op_rms_norm, &eps, (charl_var *[]){x, weight}, 2);
}

charl_var *charl_add_layer_norm(charl_graph *g, charl_var *a, charl_var *b, const charl_layer_norm_args *args,
                                charl_var **sum)
{
    CHARL_BUILDER_GIVEN(g, "add_layer_norm", args);
    charl_var *out[CHARL_OP_MAX_OUT] = {NULL};

    if (takes_eps(g, &charl_op_add_layer_norm, args->eps)) {
        charl__apply(g, &charl_op_add_layer_norm, &args->eps, (charl_var *[]){a, b, args->weight, args->bias}, 4, out);
    }
    if (sum) {
        *sum = out[0];
    }
    return out[1];
}

charl_var *charl_add_rms_norm(charl_graph *g, charl_var *a, charl_var *b, charl_var *weight, float eps, charl_var **sum)
{
    charl_var *out[CHARL_OP_MAX_OUT] = {NULL};

    if (takes_eps(g, &charl_op_add_rms_norm, eps)) {
        charl__apply(g, &charl_op_add_rms_norm, &eps, (charl_var *[]){a, b, weight}, 3, out);
    }
    if (sum) {
        *sum = out[0];
    }
    return out[1];
}
