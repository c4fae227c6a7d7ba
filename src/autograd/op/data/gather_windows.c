/* gather_windows: windows of a sequence of tokens on the device, or of their weights, at any positions.
 * Not differentiable: data have no gradient.
 */
#include <stdio.h>

#include "autograd/op.h"
#include "autograd/ops_data.h"
#include "charl/ops.h"

enum { GROUP = 64 };

typedef struct windows_attr {
    int64_t length, offset;
} windows_attr;

static charl_status infer(charl__infer *inf)
{
    const windows_attr *attr = inf->attr;
    const charl_type *tokens = &inf->in[0], *start = &inf->in[1];
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(charl__source_type(tokens->dtype) && start->dtype == CHARL_I32, CHARL_ERR_DTYPE,
                  "tokens of %s at positions of %s", charl_dtype_name(tokens->dtype), charl_dtype_name(start->dtype));
    CHARL_REQUIRE(tokens->shape.ndim == 1 && tokens->batch == CHARL_REPLICATED && start->shape.ndim == 1,
                  CHARL_ERR_SHAPE, "windows of tokens %s at %s", charl_shape_format(&tokens->shape, a),
                  charl_shape_format(&start->shape, b));
    inf->out[0] = (charl_type){
        tokens->dtype == CHARL_F32 ? CHARL_F32 : CHARL_I32, {2, {start->shape.dim[0], attr->length}}, start->batch};
    return CHARL_OK;
}

static charl_status enqueue(const charl__enqueue *e)
{
    const windows_attr *attr = e->attr;
    const int64_t rows = e->out[0]->shape.dim[0];
    charl__launch l = {.file = "data/gather_windows",
                       .entry = "charl_gather_windows",
                       .params = {{"SRC", .text = charl__source_type(e->in[0]->dtype)},
                                  {"OUT", .text = e->in[0]->dtype == CHARL_F32 ? "float" : "int"}},
                       .global = {rows > 0 ? ((size_t)attr->length + GROUP - 1) / GROUP * GROUP : 0, (size_t)rows},
                       .local = {GROUP, 1},
                       .label = e->label};

    l.args[0] = charl__in(e->in[0]);
    l.args[1] = charl__in(e->in[1]);
    l.args[2] = charl__out(e->out[0]);
    l.args[3] = charl__i64(attr->length);
    l.args[4] = charl__i64(attr->offset);
    l.args[5] = charl__i64(e->in[0]->shape.dim[0]);
    return charl__launch_enqueue(e->dev, &l);
}

static void reference(const charl__reference *r)
{
    const windows_attr *attr = r->attr;
    const int64_t rows = r->out_type[0].shape.dim[0], n = r->in_type[0].shape.dim[0];

    for (int64_t i = 0; i < rows * attr->length; i++) {
        const int64_t at = (int64_t)r->in[1][i / attr->length] + attr->offset + i % attr->length;

        r->out[0][i] = at >= 0 && at < n ? r->in[0][at] : -1.0;
    }
}

static const windows_attr seven = {7, 0}, next = {65, 1}, one = {1, 0};
static const charl__op_sample samples[] = {
    {.in = {CHARL_R(U8, 40), CHARL_B(I32, 16)}, .attr = &seven, .int_end = 33},
    {.in = {CHARL_R(U16, 200), CHARL_B(I32, 8)}, .attr = &next, .int_end = 134},
    {.in = {CHARL_R(U32, 9), CHARL_R(I32, 3)}, .attr = &seven, .int_end = 9}, /* beyond the end */
    {.in = {CHARL_R(I32, 1), CHARL_R(I32, 1)}, .attr = &one, .int_end = 1},
    {.in = {CHARL_R(F32, 40), CHARL_B(I32, 16)}, .attr = &seven, .int_end = 36},
    {.in = {CHARL_R(U8, 5), CHARL_R(I32, 0)}, .attr = &seven, .int_end = 5},
};

const charl__op charl_op_gather_windows = {
    .name = "gather_windows",
    .formula = "out[r, j] = tokens[start[r] + offset + j]",
    .n_in = 2,
    .attr_size = sizeof(windows_attr),
    CHARL_RULES(),
};

charl_var *charl__gather_windows(charl_graph *g, charl_var *tokens, charl_var *start, int64_t length, int64_t offset)
{
    const windows_attr attr = {length, offset};

    if (length < 1 || offset < 0) {
        return charl__graph_fail(g, CHARL_ERR_INVALID,
                                 "gather_windows: length %lld and offset %lld are not at least 1 and 0",
                                 (long long)length, (long long)offset);
    }
    return charl__apply2(g, &charl_op_gather_windows, &attr, tokens, start);
}
