/* embedding: out[..., :] = weight[x[...], :], and embedding_wgrad, the sum over positions that is
 * the gradient of the table.
 *
 * The gradient sorts the positions of each slice by token and adds the rows of a token in ascending
 * position, so its order depends on the tokens only; it costs one read of the gradient,
 * one write of the table and a sort of integers. Tokens outside the table are ignored.
 */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "autograd/launch/map.h"
#include "autograd/onnx/onnx.h"
#include "autograd/launch/column_chunks.h"
#include "autograd/launch/rows.h"
#include "charl/ops.h"

/* As in kernels/embedding/embedding_rank.cl and embedding_sum.cl. */
enum {
    MOST_GROUP = 256,
    FEW = 2,
    SMALL_GROUP = 64,     /* for tables with few rows */
    GROUPS_OF_A_UNIT = 8, /* wanted per compute unit */
};

static charl_status infer(charl__infer *inf)
{
    const charl_type *x = &inf->in[0], *w = &inf->in[1];
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(x->dtype == CHARL_I32 && charl__is_float(w->dtype), CHARL_ERR_DTYPE,
                  "tokens are i32 and the table floats, not %s and %s", charl_dtype_name(x->dtype),
                  charl_dtype_name(w->dtype));
    CHARL_REQUIRE(x->shape.ndim >= 1 && x->shape.ndim < CHARL_MAX_DIMS && w->shape.ndim == 2 &&
                      w->batch != CHARL_BATCHED,
                  CHARL_ERR_SHAPE, "tokens %s and a table %s are not [...] and [V, C]",
                  charl_shape_format(&x->shape, a), charl_shape_format(&w->shape, b));
    inf->out[0] = *w;
    inf->out[0].shape = x->shape;
    inf->out[0].shape.dim[inf->out[0].shape.ndim++] = w->shape.dim[1];
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

static charl_status enqueue(const charl__enqueue *e)
{
    const int64_t positions = charl__tensor_count(e->in[0]), columns = e->in[1]->shape.dim[1];
    charl__launch l = {
        .file = "embedding/embedding",
        .entry = "charl_lookup",
        .args = {charl__in(e->in[0]), charl__in(e->in[1]), charl__out(e->out[0]), charl__i64(e->in[1]->shape.dim[0])}};

    return charl__column_chunks_launch(e, &l, 4, positions, columns, e->in[1]->dtype);
}

static void backward(const charl__backward *b)
{
    const int64_t vocab = charl_var_get_type(b->in[1]).shape.dim[0];

    b->gin[1] = charl__apply2(b->g, &charl_op_embedding_wgrad, &vocab, b->gout[0], b->in[0]);
}

static void reference(const charl__reference *r)
{
    const int64_t vocab = r->in_type[1].shape.dim[0], columns = r->in_type[1].shape.dim[1];

    for (int64_t i = 0; i < charl_shape_count(&r->out_type[0].shape); i++) {
        const int64_t v = (int64_t)r->in[0][i / columns];

        r->out[0][i] = v >= 0 && v < vocab ? r->in[1][v * columns + i % columns] : (double)NAN;
    }
}

static const charl__op_sample samples[] = {
    {.in = {CHARL_B(I32, 16, 5), CHARL_R(F32, 7, 12)}, .int_end = 7, CHARL_WITHIN(2, 20)},
    {.in = {CHARL_B(I32, 8), CHARL_R(F32, 40, 37)}, .int_end = 40, CHARL_WITHIN(2, 4)},
    {.in = {CHARL_R(I32, 3, 2, 2), CHARL_R(F32, 3, 5)},
     .lo = -2,
     .hi = 2,
     .int_end = 5, /* 3 and 4 are outside */
     .skip_gradient = true},
    {.in = {CHARL_R(I32, 1), CHARL_R(F32, 1, 1)}, .lo = -2, .hi = 2, .int_end = 1},
    {.in = {CHARL_R(I32, 0), CHARL_R(F32, 3, 4)}, .lo = -2, .hi = 2, .int_end = 3},
};

static void onnx(const charl__onnx_node *n)
{
    charl__onnx_op(n, "Gather", n->in[1], n->in[0], n->out);
}

const charl__op charl_op_embedding = {
    .name = "embedding",
    .formula = "out[..., c] = weight[x[...], c]",
    .n_in = 2,
    .half = CHARL_HALF(1),
    CHARL_RULES(),
    .backward = backward,
    .onnx = onnx,
};

CHARL_BUILDER2(embedding)

/* The workspace of embedding_wgrad in ints: ends and order of kernels/embedding/embedding.cl; keys
 * of embedding_rank.cl, of at most 8 bytes, if blocks of positions may be cut anywhere; the results of
 * embedding_sum.cl for each row of the table. */
typedef struct {
    int64_t keys, found, end;
} places;

static places places_of(int64_t slices, int64_t positions, int64_t vocab)
{
    const int64_t ends = slices * (vocab + 1) + positions;
    places p = {.keys = ends + ends % 2};

    p.found = p.keys + 2 * (positions + slices * MOST_GROUP);
    p.end = p.found + 2 * vocab;
    return p;
}

/* embedding_wgrad(gout, x) -> [V, C] */
static charl_status infer_wgrad(charl__infer *inf)
{
    const charl_type *g = &inf->in[0], *x = &inf->in[1];
    const int64_t vocab = *(const int64_t *)inf->attr, positions = charl_shape_count(&x->shape);
    charl_shape rows = g->shape;

    CHARL_REQUIRE(charl__is_float(g->dtype) && x->dtype == CHARL_I32, CHARL_ERR_DTYPE,
                  "gradient and tokens are floats and i32, not %s and %s", charl_dtype_name(g->dtype),
                  charl_dtype_name(x->dtype));
    rows.ndim = rows.ndim > 0 ? rows.ndim - 1 : 0;
    CHARL_REQUIRE(g->shape.ndim > 0 && charl_shape_equal(&rows, &x->shape) && g->batch == x->batch, CHARL_ERR_SHAPE,
                  "gout does not hold one row for each token");
    CHARL_REQUIRE(positions < INT_MAX / 2 && vocab < INT_MAX / 2, CHARL_ERR_SHAPE,
                  "%lld positions in a table of %lld rows are too many", (long long)positions, (long long)vocab);
    inf->out[0] = (charl_type){
        CHARL_F32, {2, {vocab, g->shape.dim[rows.ndim]}}, x->batch == CHARL_BATCHED ? CHARL_PARTIAL : CHARL_REPLICATED};
    inf->workspace = places_of(inf->n_slices, positions, vocab).end * (int64_t)sizeof(int32_t);
    return CHARL_OK;
}

/* Whether many work-items can share the work: a group of them has at least one for each slice. */
static bool is_shared(const charl__enqueue *e)
{
    return charl__device_facts_get(e->dev)->group >= CHARL_GRAPH_SLICES;
}

static places places_in(const charl__enqueue *e, int64_t slices)
{
    return places_of(slices, charl__tensor_count(e->in[1]), e->out[0]->shape.dim[0]);
}

static charl__arg ints(const charl__enqueue *e, charl__arg_kind kind, int64_t at)
{
    return charl__scratch_arg(kind, e->workspace, at);
}

/* Sort the positions of each slice by token, with one work-group per slice. */
static charl_status sort_alone(const charl__enqueue *e, int64_t slices, int64_t positions, int64_t vocab)
{
    const int group = charl__device_facts_get(e->dev)->group;
    const int items = group > 1 ? group : 1;

    return charl__launch_enqueue(
        e->dev, &(charl__launch){.file = "embedding/embedding",
                                 .entry = "charl_sort",
                                 .params = {{"GROUP", items}},
                                 .label = e->label,
                                 .global = {(size_t)(slices * items)},
                                 .local = {(size_t)items},
                                 .args = {charl__in(e->in[1]), ints(e, CHARL_ARG_OUT, 0), charl__i64(slices),
                                          charl__i32((int32_t)positions), charl__i32((int32_t)vocab)}});
}

/* With many work-groups: blocks of positions are sorted, then merged. */
static charl_status sort_shared(const charl__enqueue *e, int64_t slices, int64_t positions, int64_t vocab)
{
    const int64_t keys = places_in(e, slices).keys;
    const charl__arg n = charl__i32((int32_t)positions), v = charl__i32((int32_t)vocab);
    int group = MOST_GROUP;
    charl__launch l = {.file = "embedding/embedding_rank", .label = e->label};

    while (group > charl__device_facts_get(e->dev)->group) {
        group /= 2;
    }
    charl__launch_set(&l, "GROUP", group);
    charl__launch_set_text(&l, "KEY", (vocab + 2) * positions <= UINT32_MAX ? "uint" : "ulong");
    l.global[0] = (size_t)(slices * ((positions + group - 1) / group) * group);
    l.local[0] = (size_t)group;
    l.entry = "charl_sort_blocks";
    charl__launch_add(&l, charl__in(e->in[1]));
    charl__launch_add(&l, ints(e, CHARL_ARG_OUT, keys));
    charl__launch_add(&l, n);
    charl__launch_add(&l, v);
    CHARL_TRY(charl__launch_enqueue(e->dev, &l));
    l.entry = "charl_rank";
    memset(l.args, 0, sizeof l.args);
    charl__launch_add(&l, ints(e, CHARL_ARG_IN, keys));
    charl__launch_add(&l, ints(e, CHARL_ARG_OUT, 0));
    charl__launch_add(&l, charl__i64(slices));
    charl__launch_add(&l, n);
    charl__launch_add(&l, v);
    CHARL_TRY(charl__launch_enqueue(e->dev, &l));
    return CHARL_OK;
}

static charl_status sort_positions(const charl__enqueue *e, int64_t slices)
{
    const int64_t positions = charl__tensor_count(e->in[1]) / slices;
    const int64_t vocab = e->out[0]->shape.dim[0];

    return is_shared(e) && positions > 0 ? sort_shared(e, slices, positions, vocab)
                                         : sort_alone(e, slices, positions, vocab);
}

/* Lane j of the output from the `leaves` slices that start at `first`. */
typedef struct {
    int64_t slices;
    int j, first, leaves;
} lane;

/* A work-group processes as many rows of the table as leave work for all compute units. Rows of a smaller
 * table are divided among groups, one row at a time. */
static charl_status launch_shared(const charl__enqueue *e, const lane *n)
{
    const int64_t vocab = e->out[0]->shape.dim[0], columns = e->out[0]->shape.dim[1];
    const int64_t enough = GROUPS_OF_A_UNIT * charl_device_get_info(e->dev)->compute_units;
    const bool is_small = vocab <= enough;
    const int group = is_small ? SMALL_GROUP : charl__device_facts_get(e->dev)->group;
    const int64_t most = group / n->leaves, wanted = (vocab + enough - 1) / enough;
    const int64_t rows = wanted < most ? wanted : most;
    const int64_t blocks = (columns - 1) / (most * CHARL_GPU_VEC) + 1;
    const int64_t parts = is_small ? blocks : 1;
    const int64_t found = places_in(e, n->slices).found;
    const int64_t pieces = vocab * ((columns + CHARL_GPU_VEC - 1) / CHARL_GPU_VEC);
    charl__launch l = {.file = "embedding/embedding_sum",
                       .entry = "charl_sum_many",
                       .params = {{"ACT", .text = charl__kernel_type(e->in[0]->dtype)},
                                  {"GROUP", group},
                                  {"ROWS", rows},
                                  {"FEW", is_small ? 0 : FEW},
                                  {"CHARL_VEC", CHARL_GPU_VEC}},
                       .label = e->label,
                       .global = {(size_t)((vocab + rows - 1) / rows * parts * group)},
                       .local = {(size_t)group},
                       .args = {charl__in(e->in[0]), ints(e, CHARL_ARG_IN, 0), ints(e, CHARL_ARG_OUT, found),
                                charl__lane_out(e, 0, n->j), charl__i64(n->first), charl__i64(n->slices),
                                charl__i64(charl__tensor_count(e->in[1]) / n->slices), charl__i64(vocab),
                                charl__i64(columns), charl__i64(parts)}};

    if (vocab * columns == 0) {
        return CHARL_OK;
    }
    charl__fold_params(e, 0, n->leaves, &l);
    CHARL_TRY(charl__launch_enqueue(e->dev, &l));
    if (!is_small) {
        charl__launch few = {.file = "embedding/embedding_sum",
                             .entry = "charl_sum_few",
                             .label = e->label,
                             .global = {(size_t)((pieces - 1) / group + 1) * (size_t)group},
                             .local = {(size_t)group},
                             .args = {charl__in(e->in[0]), ints(e, CHARL_ARG_IN, found), charl__lane_out(e, 0, n->j),
                                      charl__i64(vocab), charl__i64(columns)}};

        charl__launch_set_all(&few, l.params);
        CHARL_TRY(charl__launch_enqueue(e->dev, &few));
    }
    return CHARL_OK;
}

static charl_status sum_lane(const charl__enqueue *e, const lane *n)
{
    const charl_shape *s = &e->out[0]->shape;
    charl__launch l = {.file = "embedding/embedding",
                       .entry = "charl_sum",
                       .args = {charl__in(e->in[0]), ints(e, CHARL_ARG_IN, 0), charl__lane_out(e, 0, n->j),
                                charl__i64(n->first), charl__i64(n->slices),
                                charl__i64(charl__tensor_count(e->in[1]) / n->slices)}};

    charl__fold_params(e, 0, n->leaves, &l);
    return is_shared(e) ? launch_shared(e, n)
                        : charl__column_chunks_launch(e, &l, 6, s->dim[0], s->dim[1], e->in[0]->dtype);
}

static charl_status enqueue_wgrad(const charl__enqueue *e)
{
    const charl_slices *s = e->slices;

    if (!charl__is_partial(e, 0)) {
        CHARL_TRY(sort_positions(e, 1));
        CHARL_TRY(sum_lane(e, &(lane){.slices = 1, .leaves = 1}));
        return CHARL_OK;
    }
    CHARL_TRY(sort_positions(e, s->count));
    for (int j = 0; j < s->n_lanes; j++) {
        CHARL_TRY(sum_lane(e, &(lane){.slices = s->count,
                                      .j = j,
                                      .first = s->lane_lo[j] - s->first,
                                      .leaves = s->lane_hi[j] - s->lane_lo[j]}));
    }
    return CHARL_OK;
}

static void backward_wgrad(const charl__backward *b)
{
    charl_var *table = charl__as_dtype(b->g, b->gout[0], charl_var_get_type(b->in[0]).dtype);

    b->gin[0] = charl_embedding(b->g, b->in[1], table);
}

static void reference_wgrad(const charl__reference *r)
{
    const int64_t vocab = r->out_type[0].shape.dim[0], columns = r->out_type[0].shape.dim[1];

    charl__reference_clear(r, 0);
    for (int64_t i = 0; i < charl_shape_count(&r->in_type[0].shape); i++) {
        const int64_t v = (int64_t)r->in[1][i / columns];

        if (v >= 0 && v < vocab) {
            r->out[0][v * columns + i % columns] += r->in[0][i];
        }
    }
}

static const int64_t one = 1, three = 3, seven = 7, many = 300, very_many = 2500;
static const charl__op_sample samples_wgrad[] = {
    {.in = {CHARL_B(F32, 16, 5, 12), CHARL_B(I32, 16, 5)}, .attr = &seven, .int_end = 7, CHARL_WITHIN(2, 20)},
    {.in = {CHARL_B(F32, 8, 70, 9), CHARL_B(I32, 8, 70)},
     .attr = &three,
     .int_end = 4,
     /* 3 is outside */ CHARL_WITHIN(2, 200),
     .skip_gradient = true},
    {.in = {CHARL_B(F32, 8, 37), CHARL_B(I32, 8)}, .attr = &many, .int_end = 300, CHARL_WITHIN(2, 2)},
    {.in = {CHARL_B(F32, 16, 300, 16), CHARL_B(I32, 16, 300)},
     .attr = &very_many, /* rows of none, one, two and more positions in a large table */
     .int_end = 2600,
     /* 2500 and more are outside */ CHARL_WITHIN(2, 16),
     .skip_gradient = true},
    {.in = {CHARL_R(F32, 600, 2), CHARL_R(I32, 600)}, .attr = &many, .int_end = 300, CHARL_WITHIN(2, 8)},
    {.in = {CHARL_R(F32, 66000, 1), CHARL_R(I32, 66000)}, /* of many blocks */
     .attr = &many,
     .int_end = 300,
     CHARL_WITHIN(2, 300),
     .skip_gradient = true},
    {.in = {CHARL_R(F32, 1, 1), CHARL_R(I32, 1)}, .attr = &one, .lo = -2, .hi = 2, .int_end = 1},
    {.in = {CHARL_R(F32, 0, 4), CHARL_R(I32, 0)}, .attr = &three, .lo = -2, .hi = 2, .int_end = 3},
};

const charl__op charl_op_embedding_wgrad = {
    .name = "embedding_wgrad",
    .formula = "out[v, c] = sum of gout[p, c] over the positions p with x[p] = v",
    .n_in = 2,
    .attr_size = sizeof(int64_t), /* rows of the table */
    .half = CHARL_HALF(0),
    CHARL_RULES(_wgrad),
    .backward = backward_wgrad,
};
