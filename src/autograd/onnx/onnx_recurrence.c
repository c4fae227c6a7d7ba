/* lstm and gru as ONNX's LSTM and GRU.
 *
 * ONNX's operators multiply the input by a matrix W; the operators here take the product. So
 * W is the unit matrix, with its rows, like the rows of w_hh, in ONNX's order of gates.
 */
#include "autograd/onnx/onnx.h"
#include "autograd/op/recurrent/recurrence.h"

/* Reorder blocks of `rows` rows of m. */
static const char *reorder(const charl__onnx_node *n, const char *m, int64_t rows, const int *order, int gates)
{
    charl__onnx_call c = {.type = "Concat", .attr = {{"axis", .i = 0}}};

    for (int i = 0; i < gates; i++) {
        c.in[i] = charl__onnx_slice(n, m, 0, order[i] * rows, (order[i] + 1) * rows, NULL);
    }
    return charl__onnx_write_call(n, &c);
}

/* `m` as the only direction, of `rows` rows. */
static const char *direction(const charl__onnx_node *n, const char *m, int64_t rows, int64_t columns)
{
    const charl_type type = {CHARL_F32, {columns ? 3 : 2, {1, rows, columns}}, CHARL_REPLICATED};

    return charl__onnx_reshape(n, m, &type, NULL);
}

static const char *unit_matrix(const charl__onnx_node *n, int64_t rows)
{
    const char *zeros = charl__onnx_op(n, "Expand", charl__onnx_float(n, 0.0),
                                       charl__onnx_ints(n, (const int64_t[]){rows, rows}, 2), NULL);

    return charl__onnx_op(n, "EyeLike", zeros, NULL, NULL);
}

void charl__recurrence_onnx(const charl__onnx_node *n, const char *type, const int *order, int gates)
{
    static const int64_t steps_first[] = {1, 0, 2}, back[] = {2, 0, 1, 3};
    const int64_t hidden = n->in_type[1].shape.dim[1], rows = gates * hidden;
    const char *unit = reorder(n, unit_matrix(n, rows), hidden, order, gates), *y;
    charl__onnx_call c = {.type = type,
                          .in = {charl__onnx_transpose(n, n->in[0], steps_first, 3, NULL),
                                 direction(n, unit, rows, rows),
                                 direction(n, reorder(n, n->in[1], hidden, order, gates), rows, hidden)},
                          .attr = {{"hidden_size", .i = hidden}, {gates == 3 ? "linear_before_reset" : NULL, .i = 1}}};

    if (n->n_in > 2) { /* the bias of the input is part of the input's product */
        const char *bias =
            charl__onnx_concat(n, charl__onnx_fill(n, 0.0F, rows), reorder(n, n->in[2], hidden, order, gates), NULL);

        c.in[3] = direction(n, bias, 2 * rows, 0);
    }
    y = charl__onnx_transpose(n, charl__onnx_write_call(n, &c), back, 4, NULL);
    charl__onnx_reshape(n, y, n->out_type, n->out);
}
