/* document_starts and document_positions: the places of documents in windows of a sequence of tokens. Not
 * differentiable: data have no gradient.
 */
#include "autograd/graph_private.h"
#include "autograd/op.h"
#include "autograd/ops_data.h"
#include "charl/ops.h"

enum { GROUP = 64 };

static charl_status infer_starts(charl__infer *inf)
{
    const charl_type *document = &inf->in[0], *row = &inf->in[1];
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(document->dtype == CHARL_I32 && row->dtype == CHARL_I32, CHARL_ERR_DTYPE,
                  "documents of %s in windows at %s", charl_dtype_name(document->dtype), charl_dtype_name(row->dtype));
    CHARL_REQUIRE(document->shape.ndim == 1 && document->shape.dim[0] > 0 && document->batch == CHARL_REPLICATED &&
                      row->shape.ndim == 1,
                  CHARL_ERR_SHAPE, "documents %s in windows at %s", charl_shape_format(&document->shape, a),
                  charl_shape_format(&row->shape, b));
    inf->out[0] = (charl_type){CHARL_I32, {2, {row->shape.dim[0], *(const int64_t *)inf->attr}}, row->batch};
    return CHARL_OK;
}

static charl_status enqueue_windows(const charl__enqueue *e, const char *entry, charl__launch *l)
{
    const charl_shape *s = &e->out[0]->shape;

    l->file = "data/document_starts";
    l->entry = entry;
    l->global[0] = s->dim[0] > 0 ? ((size_t)s->dim[1] + GROUP - 1) / GROUP * GROUP : 0;
    l->global[1] = (size_t)s->dim[0];
    l->local[0] = GROUP;
    l->local[1] = 1;
    l->label = e->label;
    return charl__launch_enqueue(e->dev, l);
}

static charl_status enqueue_starts(const charl__enqueue *e)
{
    charl__launch l = {.args = {charl__in(e->in[0]), charl__in(e->in[1]), charl__out(e->out[0]),
                                charl__i64(e->out[0]->shape.dim[1]), charl__i64(e->in[0]->shape.dim[0])}};

    return enqueue_windows(e, "charl_document_starts", &l);
}

/* Binary search, as in the kernel: samples are not sorted, and another kind of search would find another document. */
static void reference_starts(const charl__reference *r)
{
    const int64_t n = r->in_type[0].shape.dim[0], length = *(const int64_t *)r->attr;

    for (int64_t i = 0; i < r->out_type[0].shape.dim[0] * length; i++) {
        const double first = r->in[1][i / length], token = first + (double)(i % length);
        int64_t low = 0, high = n; /* document `low` begins at or before the token, document `high` after it */

        while (high - low > 1) {
            const int64_t middle = (low + high) / 2;

            if (r->in[0][middle] <= token) {
                low = middle;
            } else {
                high = middle;
            }
        }
        r->out[0][i] = r->in[0][low] > first ? r->in[0][low] - first : 0.0;
    }
}

static const int64_t seven = 7, window = 65, one = 1;
static const charl__op_sample samples_starts[] = {
    {.in = {CHARL_R(I32, 5), CHARL_B(I32, 16)}, .attr = &seven, .int_end = 40},
    {.in = {CHARL_R(I32, 100), CHARL_B(I32, 8)}, .attr = &window, .int_end = 300},
    {.in = {CHARL_R(I32, 1), CHARL_R(I32, 3)}, .attr = &one, .int_end = 9},
    {.in = {CHARL_R(I32, 2), CHARL_R(I32, 0)}, .attr = &seven, .int_end = 5},
};

const charl__op charl_op_document_starts = {
    .name = "document_starts",
    .formula = "out[r, t] = max(0, d - row[r]), d = the last document that begins at or before token row[r] + t",
    .n_in = 2,
    .attr_size = sizeof(int64_t),
    CHARL_RULES(_starts),
};

charl_var *charl__document_starts(charl_graph *g, charl_var *document, charl_var *row, int64_t length)
{
    if (length < 1) {
        return charl__graph_fail(g, CHARL_ERR_INVALID, "document_starts: the length %lld is not at least 1",
                                 (long long)length);
    }
    return charl__apply2(g, &charl_op_document_starts, &length, document, row);
}

static charl_status infer_positions(charl__infer *inf)
{
    const charl_type *start = &inf->in[0];
    char text[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(start->dtype == CHARL_I32 && start->shape.ndim == 2, CHARL_ERR_SHAPE,
                  "starts %s %s are not i32 [B, T]", charl_dtype_name(start->dtype),
                  charl_shape_format(&start->shape, text));
    inf->out[0] = *start;
    return CHARL_OK;
}

static charl_status enqueue_positions(const charl__enqueue *e)
{
    charl__launch l = {.args = {charl__in(e->in[0]), charl__out(e->out[0]), charl__i64(e->out[0]->shape.dim[1])}};

    return enqueue_windows(e, "charl_document_positions", &l);
}

static void reference_positions(const charl__reference *r)
{
    const charl_shape *s = &r->out_type[0].shape;

    for (int64_t i = 0; i < s->dim[0] * s->dim[1]; i++) {
        const double t = (double)(i % s->dim[1]);

        r->out[0][i] = r->in[0][i] < t ? t - r->in[0][i] : 0.0;
    }
}

static const charl__op_sample samples_positions[] = {
    {.in = {CHARL_B(I32, 16, 7)}, .int_end = 7},
    {.in = {CHARL_R(I32, 3, 130)}, .int_end = 130},
    {.in = {CHARL_R(I32, 1, 1)}, .int_end = 1},
    {.in = {CHARL_R(I32, 0, 4)}, .int_end = 4},
};

const charl__op charl_op_document_positions = {
    .name = "document_positions",
    .formula = "out[r, t] = max(0, t - start[r, t])",
    .n_in = 1,
    CHARL_RULES(_positions),
};

charl_var *charl__document_positions(charl_graph *g, charl_var *start)
{
    return charl__apply1(g, &charl_op_document_positions, NULL, start);
}

void charl__graph_set_starts(charl_graph *g, charl_var *starts)
{
    g->starts = starts;
}

charl_var *charl__graph_starts(const charl_graph *g)
{
    return g->starts;
}

charl_var *charl__graph_document_positions(charl_graph *g)
{
    if (g->starts && !g->positions) {
        g->positions = charl__document_positions(g, g->starts);
    }
    return g->positions;
}
