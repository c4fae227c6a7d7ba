/* cast: the same numbers in another element type. Between floats the gradient is cast back. */
#include "autograd/launch/map.h"

#include <math.h>
#include <stdio.h>

#include "autograd/onnx/onnx.h"
#include "charl/ops.h"

/* The kernel's number of a type, or -1. */
static int code_of(charl_dtype d)
{
    switch (d) {
    case CHARL_F32:
        return 0;
    case CHARL_F16:
        return 1;
    case CHARL_BF16:
        return 2;
    case CHARL_U8:
        return 3;
    case CHARL_I32:
        return 4;
    default:
        return -1;
    }
}

static charl_status infer(charl__infer *inf)
{
    const charl_dtype to = *(const charl_dtype *)inf->attr, from = inf->in[0].dtype;

    CHARL_REQUIRE(code_of(from) >= 0 && code_of(to) >= 0, CHARL_ERR_DTYPE, "cannot cast %s to %s",
                  charl_dtype_name(from), charl_dtype_name(to));
    inf->out[0] = inf->in[0];
    inf->out[0].dtype = to;
    return CHARL_OK;
}

static charl_status enqueue(const charl__enqueue *e)
{
    const charl_dtype from = e->in[0]->dtype, to = e->out[0]->dtype;
    const int64_t total = charl__tensor_count(e->out[0]), span = charl__span(e->dev, total, 4);
    charl__launch l = {.file = "elementwise/cast",
                       .entry = "charl_cast",
                       .params = {{"FROM", code_of(from)}, {"TO", code_of(to)}},
                       .label = e->label};

    if (charl__is_float(from) && charl__is_float(to)) {
        return charl__map_expr(e, &(charl__expr){.text = "a"});
    }
    l.args[0] = charl__in(e->in[0]);
    l.args[1] = charl__out(e->out[0]);
    l.args[2] = charl__i64(total);
    l.args[3] = charl__i64(span);
    charl__span_launch(e->dev, total, span, &l);
    return total > 0 ? charl__launch_enqueue(e->dev, &l) : CHARL_OK;
}

static void backward(const charl__backward *b)
{
    const charl_type x = charl_var_get_type(b->in[0]);

    b->gin[0] = charl__as_dtype(b->g, b->gout[0], charl__gradient_dtype(&x));
}

static void reference(const charl__reference *r)
{
    const charl_dtype to = r->out_type[0].dtype;
    const double lo = to == CHARL_U8 ? 0.0 : (double)INT32_MIN, hi = to == CHARL_U8 ? 255.0 : (double)INT32_MAX;

    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        double x = r->in[0][i];

        if (to == CHARL_U8 || to == CHARL_I32) {
            x = rint(x);
            x = isnan(x) ? 0.0 : x < lo ? lo : x > hi ? hi : x;
        }
        r->out[0][i] = x;
    }
}

static const charl_dtype f32 = CHARL_F32, f16 = CHARL_F16, bf16 = CHARL_BF16, u8 = CHARL_U8, i32 = CHARL_I32;
static const charl__op_sample samples[] = {
    {.in = {CHARL_R(F32, 3, 5)}, .attr = &f32},
    {.in = {CHARL_R(F32, 7, 613)}, .attr = &f16, .lo = -300, .hi = 300, .skip_gradient = true},
    {.in = {CHARL_R(F32, 7, 613)}, .attr = &bf16, .lo = -3e38, .hi = 3e38, .skip_gradient = true},
    {.in = {CHARL_R(F32, 7, 613)}, .attr = &u8, .lo = -50, .hi = 300, .skip_gradient = true},
    {.in = {CHARL_R(F32, 7, 613)}, .attr = &i32, .lo = -4e9, .hi = 4e9, .skip_gradient = true},
    {.in = {CHARL_R(F32, 7, 613)}, .attr = &i32, .lo = 1.4999996, .hi = 1.5000004, .skip_gradient = true},
    {.in = {CHARL_R(F16, 5, 100)}, .attr = &f32, .lo = -300, .hi = 300},
    {.in = {CHARL_R(BF16, 5, 100)}, .attr = &f32, .lo = -300, .hi = 300},
    {.in = {CHARL_R(BF16, 5, 100)}, .attr = &f16, .lo = -300, .hi = 300, .ulp = 1},
    {.in = {CHARL_R(U8, 5, 100)}, .attr = &f32, .int_end = 256},
    {.in = {CHARL_R(I32, 5, 100)}, .attr = &u8, .int_end = 1000},
    {.in = {CHARL_R(I32, 5, 100)}, .attr = &f32, .int_end = 100000},
    {.in = {CHARL_R(F32, 0)}, .attr = &u8, .lo = 0, .hi = 1, .skip_gradient = true},
    {.in = {CHARL_SCALAR(U8)}, .attr = &i32, .int_end = 256},
    {.in = {CHARL_B(U8, 16, 37)}, .attr = &f32, .int_end = 256},
};

/* ONNX rounds towards zero, this operator to even. */
static void onnx(const charl__onnx_node *n)
{
    const charl_dtype to = n->out_type->dtype;
    const char *v = n->in[0];
    bool rounds;

    if (to != CHARL_F32 && to != CHARL_I32) {
        charl__onnx_fail(n, "only casts to f32 and i32 can be exported");
        return;
    }
    rounds = to == CHARL_I32 && charl__is_float(n->in_type[0].dtype);
    v = charl__onnx_write_call(n, &(charl__onnx_call){.type = "Cast",
                                                      .in = {rounds ? charl__onnx_op(n, "Round", v, NULL, NULL) : v},
                                                      .out = rounds ? NULL : n->out,
                                                      .attr = {{"to", .i = charl__onnx_dtype(to)}}});
    if (rounds) { /* what is beyond 32 bits becomes the nearest that is not */
        v = charl__onnx_op(n, "Max", v, charl__onnx_int(n, INT32_MIN), NULL);
        charl__onnx_op(n, "Min", v, charl__onnx_int(n, INT32_MAX), n->out);
    }
}

const charl__op charl_op_cast = {
    .name = "cast",
    .formula = "out = x in another element type",
    .n_in = 1,
    .attr_size = sizeof(charl_dtype),
    .half = CHARL_HALF_ALL,
    CHARL_RULES(),
    .expr = "a",
    .backward = backward,
    .onnx = onnx,
};

charl_var *charl_cast(charl_graph *g, charl_var *x, charl_dtype dtype)
{
    return charl__apply1(g, &charl_op_cast, &dtype, x);
}
