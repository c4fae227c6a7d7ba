/* gather_rows and gather_tokens: the rows of a batch from a data set on the device, normalized during the copy, or as tokens. Not
 * differentiable: data have no gradient.
 */
#include <math.h>
#include <stdio.h>

#include "data/gather_args.h"
#include "autograd/launch/map.h"
#include "autograd/op.h"
#include "autograd/ops_data.h"
#include "charl/ops.h"

enum { GROUP = 64, STRETCH = 512, LONG_ROW = 4096 };

static bool is_integer_target(charl_dtype d)
{
    return d == CHARL_I32;
}

static charl_status infer(charl__infer *inf)
{
    const charl_type *source = &inf->in[0], *row = &inf->in[1];
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(source->shape.ndim >= 1 && source->batch == CHARL_REPLICATED && row->shape.ndim == 1 &&
                      row->dtype == CHARL_I32,
                  CHARL_ERR_SHAPE, "rows %s (%s) of a source %s", charl_shape_format(&row->shape, a),
                  charl_dtype_name(row->dtype), charl_shape_format(&source->shape, b));
    CHARL_REQUIRE(charl__source_type(source->dtype), CHARL_ERR_DTYPE, "rows of %s cannot be gathered",
                  charl_dtype_name(source->dtype));
    CHARL_REQUIRE(inf->n_in != 3, CHARL_ERR_INVALID, "a shift without a scale");
    if (inf->n_in == 4) {
        CHARL_REQUIRE(inf->in[2].dtype == CHARL_F32 && inf->in[3].dtype == CHARL_F32, CHARL_ERR_DTYPE,
                      "shift and scale are f32, not %s and %s", charl_dtype_name(inf->in[2].dtype),
                      charl_dtype_name(inf->in[3].dtype));
        CHARL_REQUIRE(inf->in[2].batch != CHARL_BATCHED && inf->in[3].batch != CHARL_BATCHED, CHARL_ERR_SHAPE,
                      "shift and scale are the same for all rows, not rows of the batch");
        CHARL_REQUIRE(inf->in[2].shape.ndim == 1 && charl_shape_equal(&inf->in[2].shape, &inf->in[3].shape) &&
                          source->shape.ndim >= 2 &&
                          (inf->in[2].shape.dim[0] == 1 || inf->in[2].shape.dim[0] == source->shape.dim[1]) &&
                          !is_integer_target(source->dtype),
                      CHARL_ERR_SHAPE, "shift and scale %s do not fit a source %s",
                      charl_shape_format(&inf->in[2].shape, a), charl_shape_format(&source->shape, b));
    }
    inf->out[0].dtype = is_integer_target(source->dtype) ? CHARL_I32 : CHARL_F32;
    inf->out[0].shape = source->shape;
    inf->out[0].shape.dim[0] = row->shape.dim[0];
    inf->out[0].batch = row->batch;
    return CHARL_OK;
}

/* Elements after the channel extent; 1 channel means one value for all. */
static int64_t inner_of(const charl_shape *source, int64_t channels)
{
    int64_t inner = 1;

    for (int i = channels == 1 ? 1 : 2; i < source->ndim; i++) {
        inner *= source->dim[i];
    }
    return inner > 0 ? inner : 1;
}

/* The word that the kernel writes for a missing row when it gathers elements of this type together with another source; NULL: it gathers
 * only words of 32 bits together with others. */
static const char *bad_word(charl_dtype d)
{
    return d == CHARL_I32 ? "0xffffffffu" : d == CHARL_F32 ? "as_uint(NAN)" : NULL;
}

static charl_status enqueue(const charl__enqueue *e)
{
    const charl_tensor *source = e->in[0], *row = e->in[1];
    const int64_t rows = row->shape.dim[0];
    const int64_t n = rows > 0 ? charl__tensor_count(e->out[0]) / rows : 0;
    const bool norm = e->n_in == 4, padded = e->op == &charl_op_gather_tokens;
    const bool is_int = padded || is_integer_target(source->dtype);
    const bool is_second = !norm && !padded && bad_word(source->dtype);
    const int64_t stretch = is_second || n < (charl__is_ungrouped(e->dev) ? STRETCH : LONG_ROW) ? GROUP : STRETCH;
    charl__launch l = {.file = "data/gather_rows",
                       .entry = "charl_gather_rows",
                       .params = {{"SRC", .text = charl__source_type(source->dtype)},
                                  {"DST", .text = is_int ? "int" : "float"},
                                  {"DST_IS_FLOAT", !is_int},
                                  {"PADDED", padded},
                                  {"NORM", norm},
                                  {"STRETCH", stretch},
                                  {"INDEX", .text = n <= UINT32_MAX ? "uint" : "ulong"}},
                       .global = {(size_t)(rows * charl__ceil_div(n, stretch) * GROUP)},
                       .local = {GROUP},
                       .pair_first = true,
                       .pair_second = is_second,
                       .pair_params = {{"BAD_2", .text = bad_word(source->dtype)}},
                       .label = e->label};
    charl__gather_args args = {.n = n,
                               .source_rows = source->shape.dim[0],
                               .inner = norm ? inner_of(&source->shape, e->in[2]->shape.dim[0]) : 1,
                               .channels = norm ? e->in[2]->shape.dim[0] : 1};

    l.args[0] = charl__placed(charl__in(source), &args.source);
    l.args[1] = charl__placed(charl__in(row), &args.row);
    l.args[2] = charl__placed(charl__in(norm ? e->in[2] : NULL), &args.shift);
    l.args[3] = charl__placed(charl__in(norm ? e->in[3] : NULL), &args.scale);
    l.args[4] = charl__placed(charl__out(e->out[0]), &args.out);
    l.args[5] = charl__struct(&args, sizeof args);
    return charl__launch_enqueue(e->dev, &l);
}

static void reference(const charl__reference *r)
{
    const int64_t rows = r->out_type[0].shape.dim[0], source_rows = r->in_type[0].shape.dim[0];
    const int64_t n = rows > 0 ? charl_shape_count(&r->out_type[0].shape) / rows : 0;
    const int64_t channels = r->n_in == 4 ? r->in_type[2].shape.dim[0] : 1;
    const int64_t inner = inner_of(&r->in_type[0].shape, channels);

    for (int64_t i = 0; i < rows * n; i++) {
        const int64_t from = (int64_t)r->in[1][i / n], j = i % n, c = j / inner % channels;
        const bool inside = from >= 0 && from < source_rows;
        double v = inside ? r->in[0][from * n + j] : r->out_type[0].dtype == CHARL_I32 ? -1.0 : (double)NAN;

        if (r->n_in == 4) {
            v = (v - r->in[2][c]) * r->in[3][c];
        }
        r->out[0][i] = v;
    }
}

static const charl__op_sample samples[] = {
    {.in = {CHARL_R(F32, 5, 7), CHARL_B(I32, 16)}, .n_in = 2, .lo = -2, .hi = 2, .int_end = 5},
    {.in = {CHARL_R(U8, 9, 3, 5, 5), CHARL_B(I32, 8), CHARL_R(F32, 3), CHARL_R(F32, 3)},
     .lo = 0.5,
     .hi = 2,
     .int_end = 9},
    {.in = {CHARL_R(U8, 4, 70), CHARL_B(I32, 8), CHARL_R(F32, 1), CHARL_R(F32, 1)}, .lo = 0.5, .hi = 2, .int_end = 4},
    {.in = {CHARL_R(I32, 6), CHARL_B(I32, 8)}, .n_in = 2, .int_end = 8}, /* rows 6 and 7 do not exist */
    {.in = {CHARL_R(U16, 3, 2), CHARL_R(I32, 1)}, .n_in = 2, .int_end = 3},
    {.in = {CHARL_R(U32, 3, 2), CHARL_R(I32, 2)}, .n_in = 2, .int_end = 3},
};

const charl__op charl_op_gather_rows = {
    .name = "gather_rows",
    .formula = "out[r] = (source[row[r]] - shift) * scale",
    .n_in = 4,
    .n_optional = 2,
    CHARL_RULES(),
};

charl_var *charl__gather_rows(charl_graph *g, charl_var *source, charl_var *row, charl_var *shift, charl_var *scale)
{
    return charl__apply_n(g, &charl_op_gather_rows, NULL, (charl_var *[]){source, row, shift, scale}, 4);
}

static charl_status infer_tokens(charl__infer *inf)
{
    const charl_type *source = &inf->in[0], *row = &inf->in[1];
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(source->shape.ndim == 2 && source->batch == CHARL_REPLICATED && row->shape.ndim == 1 &&
                      row->dtype == CHARL_I32,
                  CHARL_ERR_SHAPE, "rows %s (%s) of sequences %s", charl_shape_format(&row->shape, a),
                  charl_dtype_name(row->dtype), charl_shape_format(&source->shape, b));
    CHARL_REQUIRE(source->dtype == CHARL_U8 || source->dtype == CHARL_U16 || source->dtype == CHARL_U32,
                  CHARL_ERR_DTYPE, "tokens are u8, u16 or u32, not %s", charl_dtype_name(source->dtype));
    inf->out[0] = (charl_type){CHARL_I32, {2, {row->shape.dim[0], source->shape.dim[1]}}, row->batch};
    return CHARL_OK;
}

static void reference_tokens(const charl__reference *r)
{
    const int64_t n = r->out_type[0].shape.dim[1], source_rows = r->in_type[0].shape.dim[0];
    const charl_dtype dtype = r->in_type[0].dtype;
    const double padding = dtype == CHARL_U8 ? UINT8_MAX : dtype == CHARL_U16 ? UINT16_MAX : UINT32_MAX;

    for (int64_t i = 0; i < r->out_type[0].shape.dim[0] * n; i++) {
        const int64_t from = (int64_t)r->in[1][i / n];
        const double v = from < source_rows ? r->in[0][from * n + i % n] : padding;

        r->out[0][i] = v < padding ? v : -1.0;
    }
}

static const charl__op_sample samples_tokens[] = {
    {.in = {CHARL_R(U8, 256, 70), CHARL_B(I32, 16)}, .int_end = 256}, /* some are 255 */
    {.in = {CHARL_R(U16, 9, 5), CHARL_B(I32, 8)}, .int_end = 10},
    {.in = {CHARL_R(U32, 3, 2), CHARL_R(I32, 2)}, .int_end = 3},
};

const charl__op charl_op_gather_tokens = {
    .name = "gather_tokens",
    .formula = "out[r] = source[row[r]], -1 for the largest number of its type",
    .n_in = 2,
    .infer = infer_tokens,
    .enqueue = enqueue,
    .reference = reference_tokens,
    CHARL_SAMPLES(samples_tokens),
};

charl_var *charl__gather_tokens(charl_graph *g, charl_var *source, charl_var *row)
{
    return charl__apply2(g, &charl_op_gather_tokens, NULL, source, row);
}
