/* unpack: decodes numbers stored in blocks of 8 or 4 bits. Not differentiable: packed parameters are not trained. */
#include "autograd/op/elementwise/unpack.h"

/* BATCHED operands have whole blocks in every row. */
static charl_status infer(charl__infer *inf)
{
    const charl__unpack_attr *attr = inf->attr;
    const charl_type *codes = &inf->in[0], *scales = &inf->in[1];
    charl_shape shape = attr->shape;
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];
    int64_t n;

    if (codes->batch == CHARL_BATCHED) {
        shape.dim[0] = codes->shape.dim[0];
    }
    n = charl_shape_count(&shape);
    CHARL_REQUIRE(codes->dtype == CHARL_U8 && scales->dtype == CHARL_F32 && charl__is_float(attr->dtype),
                  CHARL_ERR_DTYPE, "codes of %s, scales of %s, for %s", charl_dtype_name(codes->dtype),
                  charl_dtype_name(scales->dtype), charl_dtype_name(attr->dtype));
    CHARL_REQUIRE(codes->batch == scales->batch &&
                      charl_shape_count(&codes->shape) == charl__packed_bytes(attr->format, n) &&
                      charl_shape_count(&scales->shape) == charl__packed_scales(attr->format, n) &&
                      (codes->batch != CHARL_BATCHED || n % (shape.dim[0] * CHARL_PACK_BLOCK) == 0),
                  CHARL_ERR_SHAPE, "codes %s and scales %s do not fit %lld numbers",
                  charl_shape_format(&codes->shape, a), charl_shape_format(&scales->shape, b), (long long)n);
    inf->out[0] = (charl_type){attr->dtype, shape, codes->batch};
    return CHARL_OK;
}

static charl_status enqueue(const charl__enqueue *e)
{
    const charl__unpack_attr *attr = e->attr;
    const int64_t n = charl__tensor_count(e->out[0]);

    return n > 0 ? charl__unpack_enqueue(e->dev, attr->format, attr->dtype,
                                         (charl__arg[]){charl__in(e->in[0]), charl__in(e->in[1])},
                                         charl__out(e->out[0]), n, e->label)
                 : CHARL_OK;
}

static void reference(const charl__reference *r)
{
    const charl__unpack_attr *attr = r->attr;

    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        const int half = (int)(i % 2);
        unsigned code;

        if (attr->format == CHARL__FORMAT_NF4) {
            code = (unsigned)r->in[0][i / 2] >> 4 * half & 15U;
        } else {
            code = (unsigned)r->in[0][i];
        }
        r->out[0][i] = r->in[1][i / CHARL_PACK_BLOCK] * (double)charl__packed_value(attr->format, code);
    }
}

static const charl__unpack_attr int8 = {CHARL__FORMAT_INT8, CHARL_F32, {2, {5, 39}}},
                                int8_bf16 = {CHARL__FORMAT_INT8, CHARL_BF16, {2, {16, 40}}},
                                nf4 = {CHARL__FORMAT_NF4, CHARL_F32, {2, {7, 33}}},
                                nf4_bf16 = {CHARL__FORMAT_NF4, CHARL_BF16, {2, {12, 64}}},
                                nf4_f16 = {CHARL__FORMAT_NF4, CHARL_F16, {3, {2, 3, 67}}},
                                rows = {CHARL__FORMAT_NF4, CHARL_F32, {2, {16, 128}}},
                                one = {CHARL__FORMAT_INT8, CHARL_F32, {1, {1}}};
static const charl__op_sample samples[] = {
    {.in = {CHARL_R(U8, 195), CHARL_R(F32, 4)}, .attr = &int8, .int_end = 256, .ulp = 2},
    {.in = {CHARL_R(U8, 640), CHARL_R(F32, 10)}, .attr = &int8_bf16, .int_end = 256, .lo = 0, .hi = 3, .ulp = 1},
    {.in = {CHARL_R(U8, 116), CHARL_R(F32, 4)}, .attr = &nf4, .int_end = 256, .ulp = 2},
    {.in = {CHARL_R(U8, 384), CHARL_R(F32, 12)}, .attr = &nf4_bf16, .int_end = 256, .lo = 0, .hi = 3, .ulp = 1},
    {.in = {CHARL_R(U8, 201), CHARL_R(F32, 7)}, .attr = &nf4_f16, .int_end = 256, .lo = 0, .hi = 3, .ulp = 1},
    {.in = {CHARL_B(U8, 16, 64), CHARL_B(F32, 16, 2)}, .attr = &rows, .int_end = 256, .ulp = 2},
    {.in = {CHARL_R(U8, 1), CHARL_R(F32, 1)}, .attr = &one, .int_end = 256, .lo = 1, .hi = 2, .ulp = 2},
};

const charl__op charl_op_unpack = {
    .name = "unpack",
    .formula = "out[i] = scale[i / 64] * value of code i",
    .n_in = 2,
    .attr_size = sizeof(charl__unpack_attr),
    CHARL_RULES(),
};
