/* batch_place, batch_take and batch_index: between the rows of this process and those of the whole batch.
 *
 * batch_place writes the rows of each lane to their places in the batch, between -0: a PARTIAL value whose sum over all lanes of all ranks, batch_sum, is
 * the whole batch, exactly. So a gather needs no communication but that of sums. batch_take is its inverse, and each is the other's gradient.
 */
#include "autograd/graph_private.h"
#include "autograd/launch/map.h"
#include "autograd/op.h"
#include "charl/ops.h"

static int64_t row_elements(const charl_shape *s)
{
    int64_t n = 1;

    for (int i = 1; i < s->ndim; i++) {
        n *= s->dim[i];
    }
    return n;
}

static charl_status infer_place(charl__infer *inf)
{
    const charl_type *x = &inf->in[0];
    char text[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(x->dtype == CHARL_F32 && x->shape.ndim >= 1 && x->batch == CHARL_BATCHED, CHARL_ERR_SHAPE,
                  "x %s %s is not f32 [B, ...] with the rows of a batch", charl_dtype_name(x->dtype),
                  charl_shape_format(&x->shape, text));
    inf->out[0] = *x;
    inf->out[0].shape.dim[0] = *(const int64_t *)inf->attr;
    inf->out[0].batch = CHARL_PARTIAL;
    return CHARL_OK;
}

static charl_status enqueue_place(const charl__enqueue *e)
{
    const charl_slices *s = e->slices;
    const int64_t n = charl__tensor_count(e->out[0]), span = charl__span(e->dev, n, 4);
    const int64_t per_slice = charl__tensor_count(e->in[0]) / s->count;

    for (int j = 0; j < s->n_lanes && n > 0; j++) {
        charl__launch l = {.file = "data/batch_rows",
                           .entry = "charl_batch_place",
                           .args = {charl__in(e->in[0]), charl__lane_out(e, 0, j),
                                    charl__position(s->lane_lo[j] * per_slice, per_slice),
                                    charl__position(s->lane_hi[j] * per_slice, per_slice),
                                    charl__i64((s->lane_lo[j] - s->first) * per_slice), charl__i64(n),
                                    charl__i64(span)},
                           .label = e->label};

        charl__span_launch(e->dev, n, span, &l);
        CHARL_TRY(charl__launch_enqueue(e->dev, &l));
    }
    return CHARL_OK;
}

static void reference_place(const charl__reference *r)
{
    const int64_t row = row_elements(&r->in_type[0].shape), n = r->in_type[0].shape.dim[0] * row;

    charl__reference_clear(r, 0);
    for (int64_t i = 0; i < n; i++) {
        r->out[0][r->row0 * row + i] = r->in[0][i];
    }
}

static void backward_place(const charl__backward *b)
{
    b->gin[0] = charl__apply2(b->g, &charl_op_batch_take, NULL, b->gout[0], b->in[0]);
}

static const int64_t sixteen = 16, eight = 8, twenty_four = 24;
static const charl__op_sample samples_place[] = {
    {.in = {CHARL_B(F32, 16, 5)}, .attr = &sixteen},
    {.in = {CHARL_B(F32, 24, 3, 7)}, .attr = &twenty_four},
    {.in = {CHARL_B(F32, 8)}, .attr = &eight},
};

const charl__op charl_op_batch_place = {
    .name = "batch_place",
    .formula = "out[row of the batch] = x[row]",
    .n_in = 1,
    .attr_size = sizeof(int64_t),
    .backward = backward_place,
    CHARL_RULES(_place),
};

/* batch_take(x, like) */
static charl_status infer_take(charl__infer *inf)
{
    const charl_type *x = &inf->in[0], *like = &inf->in[1];
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(x->dtype == CHARL_F32 && x->shape.ndim >= 1 && x->batch == CHARL_REPLICATED &&
                      like->batch == CHARL_BATCHED && like->shape.ndim >= 1 && like->shape.dim[0] <= x->shape.dim[0],
                  CHARL_ERR_SHAPE, "x %s is not f32 [rows of the batch, ...] of which rows %s are part",
                  charl_shape_format(&x->shape, a), charl_shape_format(&like->shape, b));
    inf->out[0] = *x;
    inf->out[0].shape.dim[0] = like->shape.dim[0];
    inf->out[0].batch = CHARL_BATCHED;
    return CHARL_OK;
}

static charl_status enqueue_take(const charl__enqueue *e)
{
    const int64_t n = charl__tensor_count(e->out[0]), span = charl__span(e->dev, n, 4);
    charl__launch l = {.file = "data/batch_rows",
                       .entry = "charl_batch_take",
                       .args = {charl__in(e->in[0]), charl__out(e->out[0]), charl__batch_position(e, true, n),
                                charl__i64(n), charl__i64(span)},
                       .label = e->label};

    charl__span_launch(e->dev, n, span, &l);
    return n > 0 ? charl__launch_enqueue(e->dev, &l) : CHARL_OK;
}

static void reference_take(const charl__reference *r)
{
    const int64_t row = row_elements(&r->out_type[0].shape);

    for (int64_t i = 0; i < r->out_type[0].shape.dim[0] * row; i++) {
        r->out[0][i] = r->in[0][r->row0 * row + i];
    }
}

static void backward_take(const charl__backward *b)
{
    const int64_t rows = charl_var_get_type(b->in[0]).shape.dim[0];

    b->gin[0] = b->needed[0] ? charl__apply1(b->g, &charl_op_batch_place, &rows, b->gout[0]) : NULL;
}

static const charl__op_sample samples_take[] = {
    {.in = {CHARL_R(F32, 16, 5), CHARL_B(F32, 16, 2)}},
    {.in = {CHARL_R(F32, 24, 3, 7), CHARL_B(F32, 24)}},
    {.in = {CHARL_R(F32, 8), CHARL_B(F32, 8, 3)}},
};

const charl__op charl_op_batch_take = {
    .name = "batch_take",
    .formula = "out[row] = x[row of the batch], for the rows of operand 1",
    .n_in = 2,
    .backward = backward_take,
    CHARL_RULES(_take),
};

/* batch_index(like) */
static charl_status infer_index(charl__infer *inf)
{
    const charl_type *like = &inf->in[0];

    CHARL_REQUIRE(like->batch == CHARL_BATCHED && like->shape.ndim >= 1, CHARL_ERR_SHAPE,
                  "the operand has no rows of the batch");
    inf->out[0] = (charl_type){CHARL_I32, {1, {like->shape.dim[0]}}, CHARL_BATCHED};
    return CHARL_OK;
}

static charl_status enqueue_index(const charl__enqueue *e)
{
    const int64_t n = charl__tensor_count(e->out[0]), span = charl__span(e->dev, n, 4);
    charl__launch l = {
        .file = "data/batch_rows",
        .entry = "charl_batch_index",
        .args = {charl__out(e->out[0]), charl__batch_position(e, true, n), charl__i64(n), charl__i64(span)},
        .label = e->label};

    charl__span_launch(e->dev, n, span, &l);
    return n > 0 ? charl__launch_enqueue(e->dev, &l) : CHARL_OK;
}

static void reference_index(const charl__reference *r)
{
    for (int64_t i = 0; i < r->out_type[0].shape.dim[0]; i++) {
        r->out[0][i] = (double)(r->row0 + i);
    }
}

static const charl__op_sample samples_index[] = {
    {.in = {CHARL_B(F32, 16, 5)}},
    {.in = {CHARL_B(F32, 8)}},
};

const charl__op charl_op_batch_index = {
    .name = "batch_index",
    .formula = "out[row] = row of the batch",
    .n_in = 1,
    .half = CHARL_HALF_ALL,
    CHARL_RULES(_index),
};

charl_var *charl_batch_gather(charl_graph *g, charl_var *x)
{
    int64_t rows;

    if (!x || x->type.batch == CHARL_REPLICATED) {
        return x;
    }
    rows = x->type.shape.ndim > 0 ? x->type.shape.dim[0] / g->slices.count * g->slices.total : 0;
    return charl_batch_sum(g, charl__apply1(g, &charl_op_batch_place, &rows, charl__as_dtype(g, x, CHARL_F32)));
}

charl_var *charl_batch_index(charl_graph *g, charl_var *like)
{
    return charl__apply1(g, &charl_op_batch_index, NULL, like);
}
