/* softmax: over the last axis. d/dx: out * (g - sum(out * g)) with g the gradient of out. */
#include "autograd/onnx/onnx.h"
#include "autograd/launch/rows.h"

#include <math.h>

#include "charl/ops.h"

static void split_rows(const charl_shape *s, int64_t *rows, int64_t *n)
{
    *n = s->dim[s->ndim - 1];
    *rows = *n ? charl_shape_count(s) / *n : 0;
}

charl_status charl__softmax_infer(charl_infer *inf)
{
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    CHARL_TRY(charl__infer_same(inf));
    CHARL_REQUIRE(inf->in[0].shape.ndim > (inf->in[0].batch == CHARL_BATCHED), CHARL_ERR_SHAPE,
                  "%s has no axis to normalise", charl_shape_format(&inf->in[0].shape, a));
    for (int i = 1; i < inf->n_in; i++) {
        CHARL_REQUIRE(charl_shape_equal(&inf->in[0].shape, &inf->in[i].shape) &&
                          inf->in[i].dtype == inf->in[0].dtype,
                      CHARL_ERR_SHAPE, "operands %s and %s differ",
                      charl_shape_format(&inf->in[0].shape, a),
                      charl_shape_format(&inf->in[i].shape, b));
    }
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

charl_status charl__softmax_enqueue(const charl_enqueue *e, const char *entry, const char *defines)
{
    charl_rows plan;
    charl_launch l = {
        .file = "softmax/softmax", .entry = entry, .defines = plan.defines, .label = e->label};
    int64_t rows, n;
    int a = 0;

    split_rows(&e->in[0]->shape, &rows, &n);
    if (rows == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__rows_plan(e->dev, rows, n, defines, &plan));
    charl__rows_store(&plan, e->out[0]->dtype);
    for (int i = 0; i < e->n_in; i++) {
        l.args[a++] = charl__in(e->in[i]);
    }
    l.args[a++] = charl__out(e->out[0]);
    l.args[a++] = charl__i64(rows);
    l.args[a++] = charl__i64(plan.per_item);
    l.args[a++] = charl__i64(n);
    l.global[0] = plan.global;
    l.local[0] = plan.local;
    CHARL_TRY(charl__launch(e->dev, &l));
    return CHARL_OK;
}

static charl_status enqueue(const charl_enqueue *e)
{
    return charl__softmax_enqueue(e, "charl_softmax", NULL);
}

static void backward(const charl_backward *b)
{
    b->gin[0] = charl__apply2(b->g, &charl_op_softmax_grad, NULL, b->out[0], b->gout[0]);
}

static void reference(const charl_reference *r)
{
    int64_t rows, n;

    split_rows(&r->in_type[0].shape, &rows, &n);
    for (int64_t i = 0; i < rows; i++) {
        const double *x = r->in[0] + i * n;
        double m = x[0], s = 0.0;

        for (int64_t j = 1; j < n; j++) {
            m = x[j] > m ? x[j] : m;
        }
        for (int64_t j = 0; j < n; j++) {
            s += exp(x[j] - m);
        }
        for (int64_t j = 0; j < n; j++) {
            r->out[0][i * n + j] = exp(x[j] - m) / s;
        }
    }
}

static charl_status enqueue_grad(const charl_enqueue *e)
{
    return charl__softmax_enqueue(e, "charl_gradient", NULL);
}

static void reference_grad(const charl_reference *r)
{
    int64_t rows, n;

    split_rows(&r->in_type[0].shape, &rows, &n);
    for (int64_t i = 0; i < rows; i++) {
        const double *y = r->in[0] + i * n, *g = r->in[1] + i * n;
        double s = 0.0;

        for (int64_t j = 0; j < n; j++) {
            s += y[j] * g[j];
        }
        for (int64_t j = 0; j < n; j++) {
            r->out[0][i * n + j] = y[j] * (g[j] - s);
        }
    }
}

/* Rows of every width that the row pattern treats in another way. */
static const charl_op_sample samples_grad[] = {
    {.in = {CHARL_R(F32, 3, 5), CHARL_R(F32, 3, 5)}, .terms = 5, .lo = -1, .hi = 1},
    {.in = {CHARL_R(F32, 37), CHARL_R(F32, 37)}, .terms = 37, .lo = -1, .hi = 1},
    {.in = {CHARL_R(F32, 5, 1000), CHARL_R(F32, 5, 1000)}, .terms = 1000, .lo = -1, .hi = 1},
    {.in = {CHARL_B(F32, 16, 10), CHARL_B(F32, 16, 10)}, .terms = 10, .lo = -1, .hi = 1},
};

const charl_op charl_op_softmax_grad = {
    .name = "softmax_grad",
    .formula = "out = y * (g - sum(y * g)) over the last axis",
    .n_in = 2,
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .infer = charl__softmax_infer,
    .enqueue = enqueue_grad,
    .reference = reference_grad,
    CHARL_SAMPLES(samples_grad),
};

static const charl_op_sample samples[] = {
    {.in = {CHARL_R(F32, 3, 5)}, .terms = 5, .lo = -3, .hi = 3},
    {.in = {CHARL_R(F32, 1)}, .lo = -3, .hi = 3},
    {.in = {CHARL_R(F32, 0, 4)}, .lo = -3, .hi = 3},
    {.in = {CHARL_R(F32, 2, 3, 37)}, .terms = 37, .lo = -3, .hi = 3},
    {.in = {CHARL_R(F32, 700, 10)}, .terms = 10, .lo = -3, .hi = 3},
    {.in = {CHARL_R(F32, 7, 100)}, .terms = 100, .lo = -30, .hi = 30},
    {.in = {CHARL_R(F32, 3, 256)}, .terms = 256, .lo = -3, .hi = 3},
    {.in = {CHARL_R(F32, 2, 5003)}, .terms = 5003, .lo = -3, .hi = 3},
    {.in = {CHARL_R(F32, 3, 9)}, .terms = 9, .lo = -1e4, .hi = 1e4},
    {.in = {CHARL_B(F32, 16, 10)}, .terms = 10, .lo = -3, .hi = 3},
};

static void onnx(const charl_onnx_node *n)
{
    charl__onnx_call(
        n, &(charl_onnx_call){
               .type = "Softmax", .in = {n->in[0]}, .out = n->out, .attr = {{"axis", .i = -1}}});
}

const charl_op charl_op_softmax = {
    .name = "softmax",
    .formula = "out = exp(x - m) / sum(exp(x - m)), m = max(x), over the last axis",
    .n_in = 1,
    .half = CHARL_HALF(0),
    .infer = charl__softmax_infer,
    .enqueue = enqueue,
    .backward = backward,
    .reference = reference,
    .onnx = onnx,
    CHARL_SAMPLES(samples),
};

charl_var *charl_softmax(charl_graph *g, charl_var *x)
{
    return charl__apply1(g, &charl_op_softmax, NULL, x);
}
