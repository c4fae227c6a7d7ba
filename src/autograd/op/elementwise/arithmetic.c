/* Arithmetic with broadcasting: add, sub, mul, div and lerp; and scale. The gradient of an operand
 * is summed over the elements that broadcasting repeated. */
#include "autograd/launch/map.h"
#include "autograd/onnx/onnx.h"
#include "charl/ops.h"

#define BINARY(word)                                                                                                   \
    .name = (word), .n_in = 2, .in_place = true, .half = CHARL_HALF_ALL, .mixed = true, .infer = charl__infer_broadcast

/* gin[i] = v as operand i broadcast. */
static void give(const charl__backward *b, int i, charl_var *v)
{
    const charl_type t = charl_var_get_type(b->in[i]);

    b->gin[i] = charl__sum_like(b->g, v, &t);
}

/* gin[i] = -v as operand i broadcast. */
static void give_minus(const charl__backward *b, int i, charl_var *v)
{
    give(b, i, v);
    b->gin[i] = charl_scale(b->g, b->gin[i], -1.0F, 0.0F);
}

/* add */

CHARL_ELEMENT(add, x[0] + x[1])

static void backward_add(const charl__backward *b)
{
    for (int i = 0; i < 2; i++) {
        if (b->needed[i]) {
            give(b, i, b->gout[0]);
        }
    }
}

static const charl__op_sample samples_add[] = {
    CHARL_MAP_SAMPLES2(),
    CHARL_MAP_SAMPLES_BROADCAST(),
    {.in = {CHARL_R(F32, 5), CHARL_R(F32, 4, 5)}, .terms = 4, .lo = -3e37, .hi = 3e37, .skip_gradient = true},
};

const charl__op charl_op_add = {
    BINARY("add"),  .formula = "out = a + b", .layout = CHARL_LAYOUT_ALIKE, .expr = "a + b",
    .element = add, .backward = backward_add, .onnx_type = "Add",           CHARL_SAMPLES(samples_add),
};

CHARL_BUILDER2(add)

/* sub, mul */

static const charl__op_sample samples[] = {
    CHARL_MAP_SAMPLES2(),
    CHARL_MAP_SAMPLES_BROADCAST(),
    {.in = {CHARL_R(F32, 5), CHARL_R(F32, 4, 5)}, .terms = 4},
};

CHARL_ELEMENT(sub, x[0] - x[1])

static void backward_sub(const charl__backward *b)
{
    if (b->needed[0]) {
        give(b, 0, b->gout[0]);
    }
    if (b->needed[1]) {
        give_minus(b, 1, b->gout[0]);
    }
}

const charl__op charl_op_sub = {
    BINARY("sub"),      .formula = "out = a - b", .expr = "a - b", .element = sub, .backward = backward_sub,
    .onnx_type = "Sub", CHARL_SAMPLES(samples),
};

CHARL_BUILDER2(sub)

CHARL_ELEMENT(mul, x[0] * x[1])

static void backward_mul(const charl__backward *b)
{
    for (int i = 0; i < 2; i++) {
        if (b->needed[i]) {
            give(b, i, charl_mul(b->g, b->gout[0], b->in[1 - i]));
        }
    }
}

const charl__op charl_op_mul = {
    BINARY("mul"),      .formula = "out = a * b", .expr = "a * b", .element = mul, .backward = backward_mul,
    .onnx_type = "Mul", CHARL_SAMPLES(samples),
};

CHARL_BUILDER2(mul)

/* div: d/da = 1 / b, d/db = -out / b */

CHARL_ELEMENT(divide, x[0] / x[1])

static void backward_div(const charl__backward *b)
{
    charl_var *ga = charl_div(b->g, b->gout[0], b->in[1]);

    if (b->needed[0]) {
        give(b, 0, ga);
    }
    if (b->needed[1]) {
        give_minus(b, 1, charl_mul(b->g, ga, b->out[0]));
    }
}

static const charl__op_sample samples_div[] = {
    CHARL_MAP_SAMPLES2(.away = 0.3),
    CHARL_MAP_SAMPLES_BROADCAST(.away = 0.3),
    {.in = {CHARL_R(F32, 5), CHARL_R(F32, 4, 5)}, .terms = 4, .lo = 0.5, .hi = 3},
};

const charl__op charl_op_div = {
    BINARY("div"),      .formula = "out = a / b",   .expr = "a / b", .element = divide, .backward = backward_div,
    .onnx_type = "Div", CHARL_SAMPLES(samples_div),
};

CHARL_BUILDER2(div)

/* scale: factor * x + offset, in one rounding */

typedef struct scale_attr {
    float factor, offset;
} scale_attr;

static void express_scale(const void *attr, int n_in, charl__expr *x)
{
    const scale_attr *s = attr;

    (void)n_in;
    *x = (charl__expr){.text = "fma(a, CHARL_SPLAT(p), CHARL_SPLAT(q))", .numbers = 2, .p = s->factor, .q = s->offset};
    if (s->offset == 0.0F) {
        *x = (charl__expr){.text = "a * p", .numbers = 1, .p = s->factor};
    }
}

static double scale(const void *attr, const double *x)
{
    const scale_attr *s = attr;

    return (double)s->factor * x[0] + (double)s->offset;
}

static void backward_scale(const charl__backward *b)
{
    b->gin[0] = charl_scale(b->g, b->gout[0], ((const scale_attr *)b->attr)->factor, 0.0F);
}

static const scale_attr affine = {-1.7F, 0.3F}, linear = {0.1F, 0.0F};
static const charl__op_sample samples_scale[] = {
    CHARL_MAP_SAMPLES1(.attr = &affine),
    CHARL_MAP_SAMPLES1(.attr = &linear),
};

static void onnx_scale(const charl__onnx_node *n)
{
    const scale_attr *s = n->attr;
    const char *product = charl__onnx_op(n, "Mul", n->in[0], charl__onnx_float(n, (double)s->factor), NULL);

    charl__onnx_op(n, "Add", product, charl__onnx_float(n, (double)s->offset), n->out);
}

const charl__op charl_op_scale = {
    .name = "scale",
    .formula = "out = factor * x + offset",
    .n_in = 1,
    .attr_size = sizeof(scale_attr),
    .in_place = true,
    .half = CHARL_HALF_ALL,
    .infer = charl__infer_same,
    .express = express_scale,
    .element = scale,
    .backward = backward_scale,
    .onnx = onnx_scale,
    CHARL_SAMPLES(samples_scale),
};

charl_var *charl_scale(charl_graph *g, charl_var *x, float factor, float offset)
{
    if (!charl__graph_check_range(g, "scale", "factor", (double)factor, NULL) ||
        !charl__graph_check_range(g, "scale", "offset", (double)offset, NULL)) {
        return NULL;
    }
    return charl__scale(g, x, factor, offset);
}

charl_var *charl__scale(charl_graph *g, charl_var *x, float factor, float offset)
{
    return charl__apply1(g, &charl_op_scale, &(scale_attr){factor, offset}, x);
}

/* lerp: a at w = 0 and b at w = 1, exactly. The gradients are gout (1 - w), gout w and gout (b -
 * a). */

CHARL_ELEMENT(lerp, (1.0 - x[2]) * x[0] + x[2] * x[1])

static void backward_lerp(const charl__backward *b)
{
    charl_var *const factor[3] = {b->needed[0] ? charl_scale(b->g, b->in[2], -1.0F, 1.0F) : NULL, b->in[2],
                                  b->needed[2] ? charl_sub(b->g, b->in[1], b->in[0]) : NULL};

    for (int i = 0; i < 3; i++) {
        if (b->needed[i]) {
            give(b, i, charl_mul(b->g, b->gout[0], factor[i]));
        }
    }
}

static const charl__op_sample samples_lerp[] = {
    {.in = {CHARL_R(F32, 3, 5), CHARL_R(F32, 3, 5), CHARL_R(F32, 3, 5)}, CHARL_WITHIN(2, 2)},
    {.in = {CHARL_R(F32, 1), CHARL_R(F32, 1), CHARL_R(F32, 1)}, CHARL_WITHIN(2, 2)},
    {.in = {CHARL_R(F32, 0, 4), CHARL_R(F32, 0, 4), CHARL_R(F32, 0, 4)}, .lo = -2, .hi = 2},
    {.in = {CHARL_R(F32, 7, 613), CHARL_R(F32, 7, 613), CHARL_SCALAR(F32)}, CHARL_WITHIN(2, 4291)},
    {.in = {CHARL_R(F32, 2, 3, 7), CHARL_R(F32, 3, 7), CHARL_R(F32, 3, 1)}, CHARL_WITHIN(2, 14)},
    {.in = {CHARL_B(F32, 16, 3, 5, 5), CHARL_B(F32, 16, 3, 5, 5), CHARL_B(F32, 16, 1, 1, 1)}, CHARL_WITHIN(2, 75)},
    {.in = {CHARL_B(F32, 8), CHARL_B(F32, 8), CHARL_B(F32, 8)}, .lo = 0, .hi = 1, .terms = 2},
};

const charl__op charl_op_lerp = {
    .name = "lerp",
    .formula = "out = (1 - w) * a + w * b",
    .n_in = 3,
    .in_place = true,
    .infer = charl__infer_broadcast,
    .expr = "fma(c, b, (1.0f - c) * a)",
    .element = lerp,
    .backward = backward_lerp,
    CHARL_SAMPLES(samples_lerp),
};

charl_var *charl_lerp(charl_graph *g, charl_var *a, charl_var *b, charl_var *w)
{
    return charl__apply_n(g, &charl_op_lerp, NULL, (charl_var *[]){a, b, w}, 3);
}
