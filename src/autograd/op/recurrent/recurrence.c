/* The weight gradient is one product over all steps: the series without its first step times the
 * outputs without their last. */
#include "autograd/op/recurrent/recurrence.h"

#include <math.h>

#include "autograd/launch/column_chunks.h"
#include "base/alloc.h"
#include "charl/ops.h"
#include "tensor/gemm/gemm.h"

charl_status charl__recurrence_check(const charl__infer *inf, int series, int parts, int w, int gates)
{
    const charl_shape *s = &inf->in[series].shape, *m = &inf->in[w].shape;
    char a[CHARL_SHAPE_TEXT], b[CHARL_SHAPE_TEXT];

    CHARL_TRY(charl__infer_floats(inf, 0, inf->n_in));
    CHARL_REQUIRE(s->ndim == 3 && s->dim[1] > 0 && m->ndim == 2 && m->dim[1] > 0 && m->dim[0] == gates * m->dim[1] &&
                      s->dim[2] == parts * m->dim[1] && inf->in[w].batch != CHARL_BATCHED,
                  CHARL_ERR_SHAPE, "%s and w_hh %s are not [B, T, %d * H] and [%d * H, H]", charl_shape_format(s, a),
                  charl_shape_format(m, b), parts, gates);
    return CHARL_OK;
}

charl_type charl__recurrence_series(const charl_type *series, const charl_type *w, int parts)
{
    charl_type t = *series;

    t.shape.dim[2] = parts * w->shape.dim[1];
    return t;
}

int64_t charl__recurrence_workspace(int64_t batch, const charl_type *w)
{
    const int64_t sums = w->shape.dim[0], hidden = w->shape.dim[1];
    const int64_t weights = w->dtype != CHARL_F32 ? sums * hidden : 0;

    const int64_t by_steps = batch * (2 * hidden + sums) + weights, at_once = 2 * batch * sums;

    return (by_steps > at_once ? by_steps : at_once) * (int64_t)sizeof(float);
}

static charl_tensor part_of(const charl_tensor *workspace, int64_t at, int64_t rows, int64_t columns)
{
    charl_tensor t = *workspace;

    t.offset += at;
    t.shape = (charl_shape){2, {rows, columns}};
    return t;
}

charl__recurrence charl__recurrence_of(const charl__enqueue *e, const charl_shape *series, const charl_tensor *w)
{
    const int64_t batch = series->dim[0], hidden = w->shape.dim[1], gates = w->shape.dim[0] / hidden;

    return (charl__recurrence){
        .act = w->dtype,
        .batch = batch,
        .steps = series->dim[1],
        .hidden = hidden,
        .gates = (int)gates,
        .state = part_of(e->workspace, 0, batch, hidden),
        .carry = part_of(e->workspace, batch * hidden, batch, hidden),
        .inner = part_of(e->workspace, 2 * batch * hidden, batch, gates * hidden),
        .exchange = part_of(e->workspace, 0, 2 * batch, gates * hidden),
        .w = w->dtype == CHARL_F32 ? *w : part_of(e->workspace, (2 + gates) * batch * hidden, gates * hidden, hidden)};
}

charl_status charl__recurrence_run(const charl__enqueue *e, const charl__recurrence *r, bool back,
                                   const charl_tensor *w, charl__recurrent_args *args, charl__launch *cell, int n_args)
{
    const charl__gemm product = {.a = {back ? &r->inner : &r->state},
                                 .b = {&r->w, back ? CHARL_GEMM_PLAIN : CHARL_GEMM_TRANSPOSED},
                                 .out = {back ? &r->state : &r->inner},
                                 .m = r->batch,
                                 .n = back ? r->hidden : r->gates * r->hidden,
                                 .k = back ? r->gates * r->hidden : r->hidden,
                                 .label = e->label};

    if (w->dtype != CHARL_F32) {
        charl_tensor f32 = r->w;

        CHARL_TRY(charl__tensor_convert(w, &f32));
    }
    args->steps = (uint64_t)r->steps;
    cell->args[n_args] = charl__struct(args, sizeof *args);
    for (int64_t i = 0; i < r->steps; i++) {
        if (i > 0) {
            CHARL_TRY(charl__gemm_enqueue(e->dev, &product));
        }
        args->t = (uint64_t)(back ? r->steps - 1 - i : i);
        CHARL_TRY(charl__column_chunks_launch(e, cell, n_args + 1, r->batch, r->hidden, r->act));
    }
    return CHARL_OK;
}

double charl__recurrence_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

void charl__recurrence_reference(const charl__reference *r, int64_t batch, int64_t hidden,
                                 void (*row)(const charl__reference *r, int64_t b, double *carry))
{
    double *carry = NULL;

    for (int64_t b = 0; b < batch; b++) {
        if (charl__alloc_array(hidden, sizeof *carry, &carry) != CHARL_OK) {
            return; /* the outputs stay 0, which no check accepts */
        }
        row(r, b, carry);
        charl_free(carry);
    }
}

charl_var *charl__recurrence_wgrad(charl_graph *g, charl_var *grad, charl_var *h)
{
    const int64_t steps = h ? charl_var_get_type(h).shape.dim[1] : 1;

    return charl__apply2(g, &charl_op_linear_wgrad, NULL, charl_slice(g, grad, 1, 1, steps - 1),
                         charl_slice(g, h, 1, 0, steps - 1));
}
