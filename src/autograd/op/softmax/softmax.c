/* softmax and log_softmax over the last axis, and their gradients, whose operands are the result y and its gradient g.
 *
 *      softmax        y = exp(x - m) / sum(exp(x - m)), m = max(x)    gradient y * (g - sum(y * g))
 *      log_softmax    y = x - m - log(sum(exp(x - m)))                gradient g - exp(y) * sum(g)
 */
#include <math.h>

#include "autograd/launch/rows.h"
#include "autograd/onnx/onnx.h"
#include "charl/ops.h"

/* The differences of these operators. */
typedef struct softmax {
    bool log;
    const charl__op *grad; /* NULL: it is a gradient itself */
    const char *onnx;
} softmax;

static void split_rows(const charl_shape *s, int64_t *rows, int64_t *n)
{
    *n = s->dim[s->ndim - 1];
    *rows = *n ? charl_shape_count(s) / *n : 0;
}

static charl_status infer(charl__infer *inf)
{
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    CHARL_TRY(charl__infer_same(inf));
    CHARL_REQUIRE(inf->in[0].shape.ndim > (inf->in[0].batch == CHARL_BATCHED), CHARL_ERR_SHAPE,
                  "%s has no axis to normalise", charl_shape_format(&inf->in[0].shape, a));
    for (int i = 1; i < inf->n_in; i++) {
        const charl_type *s = &inf->in[0], *t = &inf->in[i];

        CHARL_REQUIRE(charl_shape_equal(&s->shape, &t->shape) && t->dtype == s->dtype && t->batch == s->batch,
                      CHARL_ERR_SHAPE, "operand %d is %s %s %s, but operand 0 is %s %s %s", i,
                      charl__batch_name(t->batch), charl_dtype_name(t->dtype), charl_shape_format(&t->shape, b),
                      charl__batch_name(s->batch), charl_dtype_name(s->dtype), charl_shape_format(&s->shape, a));
    }
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

static charl_status enqueue(const charl__enqueue *e)
{
    const softmax *t = e->op->row;
    charl__launch l = {.file = "softmax/softmax",
                       .entry = t->grad ? "charl_softmax" : "charl_gradient",
                       .params = {{"LOG", t->log}, {"ACT", .text = charl__kernel_type(e->out[0]->dtype)}},
                       .label = e->label};
    int64_t rows, n, per_item;
    int a = 0;

    split_rows(&e->in[0]->shape, &rows, &n);
    if (rows == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__rows_launch(e->dev, rows, n, &l, &per_item));
    charl__rows_spread(e->dev, &l);
    for (int i = 0; i < e->n_in; i++) {
        l.args[a++] = charl__in(e->in[i]);
    }
    l.args[a++] = charl__out(e->out[0]);
    l.args[a++] = charl__i64(rows);
    l.args[a++] = charl__i64(per_item);
    l.args[a++] = charl__i64(n);
    CHARL_TRY(charl__launch_enqueue(e->dev, &l));
    return CHARL_OK;
}

static void backward(const charl__backward *b)
{
    const softmax *t = b->op->row;

    b->gin[0] = charl__apply2(b->g, t->grad, NULL, b->out[0], b->gout[0]);
}

static void reference(const charl__reference *r)
{
    const softmax *t = r->op->row;
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
            r->out[0][i * n + j] = t->log ? x[j] - m - log(s) : exp(x[j] - m) / s;
        }
    }
}

static void reference_grad(const charl__reference *r)
{
    const softmax *t = r->op->row;
    int64_t rows, n;

    split_rows(&r->in_type[0].shape, &rows, &n);
    for (int64_t i = 0; i < rows; i++) {
        const double *y = r->in[0] + i * n, *g = r->in[1] + i * n;
        double s = 0.0;

        for (int64_t j = 0; j < n; j++) {
            s += t->log ? g[j] : y[j] * g[j];
        }
        for (int64_t j = 0; j < n; j++) {
            r->out[0][i * n + j] = t->log ? g[j] - exp(y[j]) * s : y[j] * (g[j] - s);
        }
    }
}

static void onnx(const charl__onnx_node *n)
{
    charl__onnx_write_call(n, &(charl__onnx_call){.type = ((const softmax *)n->op->row)->onnx,
                                                  .in = {n->in[0]},
                                                  .out = n->out,
                                                  .attr = {{"axis", .i = -1}}});
}

#define SOFTMAX(word)                                                                                                  \
    .name = (word), .n_in = 1, .half = CHARL_HALF(0), .infer = infer, .enqueue = enqueue, .backward = backward,        \
    .reference = reference, .onnx = onnx

#define GRADIENT(word)                                                                                                 \
    .name = (word), .n_in = 2, .half = CHARL_HALF(0) | CHARL_HALF(1), .infer = infer, .enqueue = enqueue,              \
    .reference = reference_grad

/* One row length for every case of the row pattern. */
static const charl__op_sample samples[] = {
    {.in = {CHARL_R(F32, 3, 5)}, .terms = 5},
    {.in = {CHARL_R(F32, 1)}, .terms = 2},
    {.in = {CHARL_R(F32, 0, 4)}},
    {.in = {CHARL_R(F32, 2, 3, 37)}, .terms = 37},
    {.in = {CHARL_R(F32, 700, 10)}, .terms = 10},
    {.in = {CHARL_R(F32, 7, 100)}, .terms = 100, .lo = -30, .hi = 30},
    {.in = {CHARL_R(F32, 3, 256)}, .terms = 256},
    {.in = {CHARL_R(F32, 2, 5003)}, .terms = 5003},
    {.in = {CHARL_R(F32, 3, 9)}, .terms = 9, .lo = -1e4, .hi = 1e4},
    {.in = {CHARL_B(F32, 16, 10)}, .terms = 10},
};

static const charl__op_sample softmax_grad_samples[] = {
    {.in = {CHARL_R(F32, 3, 5), CHARL_R(F32, 3, 5)}, .terms = 5, .lo = -1, .hi = 1},
    {.in = {CHARL_R(F32, 37), CHARL_R(F32, 37)}, .terms = 37, .lo = -1, .hi = 1},
    {.in = {CHARL_R(F32, 5, 1000), CHARL_R(F32, 5, 1000)}, .terms = 1000, .lo = -1, .hi = 1},
    {.in = {CHARL_B(F32, 16, 10), CHARL_B(F32, 16, 10)}, .terms = 10, .lo = -1, .hi = 1},
};

static const charl__op_sample log_softmax_grad_samples[] = {
    {.in = {CHARL_R(F32, 3, 5), CHARL_R(F32, 3, 5)}, .terms = 5, .lo = -3, .hi = 0.5},
    {.in = {CHARL_R(F32, 37), CHARL_R(F32, 37)}, .terms = 37, .lo = -1, .hi = 1},
    {.in = {CHARL_R(F32, 5, 1000), CHARL_R(F32, 5, 1000)}, .terms = 1000, .lo = -1, .hi = 1},
    {.in = {CHARL_B(F32, 16, 10), CHARL_B(F32, 16, 10)}, .terms = 10, .lo = -1, .hi = 1},
};

const charl__op charl_op_softmax = {
    SOFTMAX("softmax"),
    .formula = "out = exp(x - m) / sum(exp(x - m)), m = max(x), over the last axis",
    .row = &(const softmax){false, &charl_op_softmax_grad, "Softmax"},
    CHARL_SAMPLES(samples),
};

const charl__op charl_op_softmax_grad = {
    GRADIENT("softmax_grad"),
    .formula = "out = y * (g - sum(y * g)) over the last axis",
    .row = &(const softmax){false, NULL, NULL},
    CHARL_SAMPLES(softmax_grad_samples),
};

const charl__op charl_op_log_softmax = {
    SOFTMAX("log_softmax"),
    .formula = "out = x - m - log(sum(exp(x - m))), m = max(x), over the last axis",
    .row = &(const softmax){true, &charl_op_log_softmax_grad, "LogSoftmax"},
    CHARL_SAMPLES(samples),
};

const charl__op charl_op_log_softmax_grad = {
    GRADIENT("log_softmax_grad"),
    .formula = "out = g - exp(y) * sum(g) over the last axis",
    .row = &(const softmax){true, NULL, NULL},
    CHARL_SAMPLES(log_softmax_grad_samples),
};

CHARL_BUILDER1(softmax)

CHARL_BUILDER1(log_softmax)
