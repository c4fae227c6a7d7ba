/* reverse_sequence: sequences from their last position to the first; what follows the end of a sequence stays in place. It is its own
 * inverse, and so its own gradient. */
#include "autograd/launch/map.h"
#include "autograd/launch/rows.h"
#include "autograd/onnx/onnx.h"
#include "base/alloc.h"
#include "charl/ops.h"

static charl_status infer(charl__infer *inf)
{
    const charl_type *x = &inf->in[0], *length = &inf->in[1];
    char text[CHARL_SHAPE_TEXT];

    CHARL_TRY(charl__infer_floats(inf, 0, 1));
    CHARL_REQUIRE(x->shape.ndim >= 2 && x->shape.dim[1] < INT32_MAX / 2, CHARL_ERR_SHAPE, "%s is not [B, T, ...]",
                  charl_shape_format(&x->shape, text));
    if (inf->n_in > 1) {
        CHARL_REQUIRE(length->dtype == CHARL_I32 && length->shape.ndim == 1 && length->shape.dim[0] == x->shape.dim[0],
                      CHARL_ERR_SHAPE, "lengths %s %s are not i32 [%lld]", charl_dtype_name(length->dtype),
                      charl_shape_format(&length->shape, text), (long long)x->shape.dim[0]);
        CHARL_TRY(charl__infer_same_rows(inf, 0, 1));
    }
    inf->out[0] = *x;
    return charl__infer_rows(inf);
}

/* Elements of a position. */
static int64_t inner_of(const charl_shape *s)
{
    int64_t n = 1;

    for (int i = 2; i < s->ndim; i++) {
        n *= s->dim[i];
    }
    return n;
}

static charl_status enqueue(const charl__enqueue *e)
{
    const charl_shape *s = &e->in[0]->shape;
    const int64_t total = charl__tensor_count(e->out[0]), span = charl__span(e->dev, total, 4);
    const charl__arg length = charl__in(e->n_in > 1 ? e->in[1] : NULL);
    charl__launch l = {.file = "shape/strided_copy",
                       .entry = "charl_reverse",
                       .params = {{"T", .text = charl__word_type(e->out[0]->dtype)}, {"LENGTHS", e->n_in > 1}},
                       .args = {charl__in(e->in[0]), length, charl__out(e->out[0]), charl__i64(total),
                                charl__i64(s->dim[1]), charl__i64(inner_of(s)), charl__i64(span)},
                       .label = e->label};

    charl__span_launch(e->dev, total, span, &l);
    return total > 0 ? charl__launch_enqueue(e->dev, &l) : CHARL_OK;
}

static void backward(const charl__backward *b)
{
    b->gin[0] = charl_reverse_sequence(b->g, b->gout[0], b->n_in > 1 ? b->in[1] : NULL);
}

static void reference(const charl__reference *r)
{
    const charl_shape *s = &r->in_type[0].shape;
    const int64_t steps = s->dim[1], inner = inner_of(s);

    for (int64_t i = 0; i < s->dim[0] * steps * inner; i++) {
        const int64_t b = i / inner / steps, t = i / inner % steps;
        int64_t n = r->n_in > 1 ? (int64_t)r->in[1][b] : steps;

        n = n < 1 ? 1 : n > steps ? steps : n;
        r->out[0][i] = r->in[0][(b * steps + (t < n ? n - 1 - t : t)) * inner + i % inner];
    }
}

static const charl__op_sample samples[] = {
    {.in = {CHARL_B(F32, 16, 5, 3), CHARL_B(I32, 16)}, .int_end = 7}, /* 0 is taken as 1, 6 as 5 */
    {.in = {CHARL_B(F32, 8, 6, 37)}, .n_in = 1},
    {.in = {CHARL_R(F32, 3, 130, 4), CHARL_R(I32, 3)}, .int_end = 131},
    {.in = {CHARL_R(F32, 2, 9)}, .n_in = 1},
    {.in = {CHARL_R(F32, 1, 1, 1), CHARL_R(I32, 1)}, .int_end = 2},
    {.in = {CHARL_R(F32, 0, 4, 2)}, .n_in = 1},
};

static void onnx(const charl__onnx_node *n)
{
    const int64_t steps = n->in_type[0].shape.dim[1];
    CHARL_SCOPED_FREE int64_t *last_first = NULL;

    if (n->n_in > 1) {
        const char *length = charl__onnx_op(n, "Max", n->in[1], charl__onnx_int(n, 1), NULL);

        length = charl__onnx_op(n, "Min", length, charl__onnx_int(n, steps), NULL);
        charl__onnx_write_call(n, &(charl__onnx_call){.type = "ReverseSequence",
                                                      .in = {n->in[0], length},
                                                      .out = n->out,
                                                      .attr = {{"batch_axis", .i = 0}, {"time_axis", .i = 1}}});
        return;
    }
    if (charl__alloc_array(steps, sizeof *last_first, &last_first) != CHARL_OK) {
        charl__onnx_fail(n, charl_error_message());
        return;
    }
    for (int64_t t = 0; t < steps; t++) {
        last_first[t] = steps - 1 - t;
    }
    charl__onnx_write_call(n, &(charl__onnx_call){.type = "Gather",
                                                  .in = {n->in[0], charl__onnx_ints(n, last_first, (int)steps)},
                                                  .out = n->out,
                                                  .attr = {{"axis", .i = 1}}});
}

const charl__op charl_op_reverse_sequence = {
    .name = "reverse_sequence",
    .formula = "out[b, t] = x[b, length[b] - 1 - t] for t < length[b], else x[b, t]",
    .n_in = 2,
    .n_optional = 1,
    .half = CHARL_HALF(0),
    CHARL_RULES(),
    .backward = backward,
    .onnx = onnx,
};

charl_var *charl_reverse_sequence(charl_graph *g, charl_var *x, charl_var *length)
{
    return charl__apply_n(g, &charl_op_reverse_sequence, NULL, (charl_var *[]){x, length}, 2);
}
