/* gru: a layer of gated recurrent units over time, as PyTorch defines it, from the input's part of
 * the gates' sums. Output 1 holds what the gradient needs, for each row and step r, z, n and the
 * recurrent part of n's sum, q; gru_grad walks back through time and returns the gradients of both
 * parts of the sums, which differ in n.
 */
#include <math.h>

#include "autograd/op/recurrent/recurrence.h"
#include "autograd/onnx/onnx.h"
#include "charl/ops.h"

enum { GATES = 3, SAVED = 4 };

static charl_status infer(charl_infer *inf)
{
    const charl_type *pre = &inf->in[0], *w = &inf->in[1];

    CHARL_TRY(charl__recurrence_check(inf, 0, GATES, 1, GATES));
    CHARL_REQUIRE(inf->n_in < 3 ||
                      (inf->in[2].shape.ndim == 1 && inf->in[2].shape.dim[0] == w->shape.dim[0] &&
                       inf->in[2].batch != CHARL_BATCHED),
                  CHARL_ERR_SHAPE, "b_hh does not fit w_hh");
    inf->n_out = 2;
    inf->out[0] = charl__recurrence_series(pre, w, 1);
    inf->out[1] = charl__recurrence_series(pre, w, SAVED);
    inf->out[1].dtype = CHARL_F32;
    inf->workspace = charl__recurrence_workspace(pre->shape.dim[0], w);
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

static charl_status enqueue(const charl_enqueue *e)
{
    const charl_recurrence r = charl__recurrence_of(e, &e->in[0]->shape, e->in[1]);
    charl_launch cell = {.file = "recurrent/recurrent",
                         .entry = "charl_gru",
                         .args = {charl__in(e->in[0]), charl__in(&r.inner)}};
    int a = 2;

    if (e->n_in > 2) {
        cell.defines = "#define BIAS 1\n";
        cell.args[a++] = charl__in(e->in[2]);
    }
    cell.args[a++] = charl__out(e->out[0]);
    cell.args[a++] = charl__out(e->out[1]);
    cell.args[a++] = charl__inout(&r.state);
    return charl__recurrence_run(e, &r, false, e->in[1], &cell, a);
}

static void backward(const charl_backward *b)
{
    charl_var *out[CHARL_OP_MAX_OUT];

    charl__apply(b->g, &charl_op_gru_grad, NULL,
                 (charl_var *[]){b->gout[0], b->out[0], b->out[1], b->in[1], b->gout[1]}, 5, out);
    b->gin[0] = out[0];
    if (b->needed[1]) {
        b->gin[1] = charl__recurrence_wgrad(b->g, out[1], b->out[0]);
    }
    if (b->n_in > 2 && b->needed[2]) {
        b->gin[2] = charl_sum_to(b->g, out[1], 2);
    }
}

static void reference(const charl_reference *r)
{
    const int64_t steps = r->in_type[0].shape.dim[1], n = r->in_type[1].shape.dim[1];

    for (int64_t k = 0; k < r->in_type[0].shape.dim[0] * steps * n; k++) {
        /* element j of row b at step t, in the order of time */
        const int64_t b = k / (steps * n), t = k / n % steps, j = k % n, at = b * steps + t;
        const double *pre = r->in[0] + at * GATES * n + j, *h = r->out[0] + (at - 1) * n;
        double *s = r->out[1] + at * SAVED * n + j, sum[GATES];

        for (int q = 0; q < GATES; q++) {
            sum[q] = r->n_in > 2 ? r->in[2][q * n + j] : 0;
            for (int64_t l = 0; t > 0 && l < n; l++) {
                sum[q] += r->in[1][(q * n + j) * n + l] * h[l];
            }
        }
        s[0] = charl__recurrence_sigmoid(pre[0] + sum[0]);
        s[n] = charl__recurrence_sigmoid(pre[n] + sum[1]);
        s[2 * n] = tanh(pre[2 * n] + s[0] * sum[2]);
        s[3 * n] = sum[2];
        r->out[0][at * n + j] = (1 - s[n]) * s[2 * n] + (t > 0 ? s[n] * h[j] : 0);
    }
}

static const charl_op_sample samples[] = {
    {.in = {CHARL_B(F32, 16, 5, 9), CHARL_R(F32, 9, 3), CHARL_R(F32, 9)},
     .lo = -1,
     .hi = 1,
     .terms = 16},
    {.in = {CHARL_B(F32, 8, 3, 111), CHARL_R(F32, 111, 37)},
     .n_in = 2,
     .lo = -0.5,
     .hi = 0.5,
     .terms = 200},
    {.in = {CHARL_R(F32, 2, 40, 15), CHARL_R(F32, 15, 5), CHARL_R(F32, 15)},
     .lo = -1,
     .hi = 1,
     .terms = 200},
    {.in = {CHARL_R(F32, 1, 1, 3), CHARL_R(F32, 3, 1), CHARL_R(F32, 3)},
     .lo = -2,
     .hi = 2,
     .terms = 2},
};

static void onnx(const charl_onnx_node *n)
{
    static const int order[] = {1, 0, 2}; /* z, r, n */

    charl__recurrence_onnx(n, "GRU", order, GATES);
}

static double flop(const charl_infer *inf)
{
    return charl__flop_weights(&inf->out[0].shape, &inf->in[1].shape, 1);
}

const charl_op charl_op_gru = {
    .name = "gru",
    .flop = flop,
    .formula = "q = w_hh h[t-1] + b_hh; r = s(pre_r + q_r); z = s(pre_z + q_z); n = tanh(pre_n + r "
               "q_n); h = (1 - z) n + z h[t-1]",
    .n_in = 3,
    .n_optional = 1,
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .infer = infer,
    .enqueue = enqueue,
    .backward = backward,
    .reference = reference,
    .onnx = onnx,
    CHARL_SAMPLES(samples),
};

charl_var *charl_gru(charl_graph *g, charl_var *pre, charl_var *w_hh, charl_var *b_hh)
{
    charl_var *out[CHARL_OP_MAX_OUT];

    charl__apply(g, &charl_op_gru, NULL, (charl_var *[]){pre, w_hh, b_hh}, 3, out);
    return out[0];
}

/* gru_grad(gh, h, saved, w_hh[, gsaved]) -> gradients of pre and of q */
static charl_status infer_grad(charl_infer *inf)
{
    const charl_type *gh = &inf->in[0], *w = &inf->in[3];

    CHARL_TRY(charl__recurrence_check(inf, 0, 1, 3, GATES));
    CHARL_TRY(charl__recurrence_check(inf, 2, SAVED, 3, GATES));
    CHARL_REQUIRE(gh->shape.dim[0] == inf->in[2].shape.dim[0] &&
                      gh->shape.dim[1] == inf->in[2].shape.dim[1] &&
                      charl_shape_equal(&gh->shape, &inf->in[1].shape) &&
                      (inf->n_in < 5 || charl_shape_equal(&inf->in[4].shape, &inf->in[2].shape)),
                  CHARL_ERR_SHAPE, "gradients and saved values have other rows or steps");
    inf->n_out = 2;
    inf->out[0] = inf->out[1] = charl__recurrence_series(gh, w, GATES);
    inf->workspace = charl__recurrence_workspace(gh->shape.dim[0], w);
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

static charl_status enqueue_grad(const charl_enqueue *e)
{
    const charl_recurrence r = charl__recurrence_of(e, &e->in[0]->shape, e->in[3]);
    charl_launch cell = {.file = "recurrent/recurrent",
                         .entry = "charl_gru_gradient",
                         .args = {charl__in(e->in[0]), charl__in(e->in[1]), charl__in(e->in[2])}};
    int a = 3;

    if (e->n_in > 4) {
        cell.defines = "#define SAVED_GRADIENT 1\n";
        cell.args[a++] = charl__in(e->in[4]);
    }
    cell.args[a++] = charl__in(&r.state);
    cell.args[a++] = charl__inout(&r.carry);
    cell.args[a++] = charl__out(&r.inner);
    cell.args[a++] = charl__out(e->out[0]);
    cell.args[a++] = charl__out(e->out[1]);
    return charl__recurrence_run(e, &r, true, e->in[3], &cell, a);
}

/* One row: dh[t] = gh[t] + w_hh^T dq[t + 1] + dh[t + 1] z[t + 1], the last part in carry. */
static void reference_row(const charl_reference *r, int64_t b, double *carry)
{
    const int64_t steps = r->in_type[0].shape.dim[1], n = r->in_type[3].shape.dim[1];

    for (int64_t t = steps - 1; t >= 0; t--) {
        const int64_t at = b * steps + t;

        for (int64_t j = 0; j < n; j++) {
            const double *s = r->in[2] + at * SAVED * n + j;
            const double *gs = r->n_in > 4 ? r->in[4] + at * SAVED * n + j : NULL;
            const double before = t > 0 ? r->in[1][(at - 1) * n + j] : 0;
            double *d = r->out[0] + at * GATES * n + j, *dq = r->out[1] + at * GATES * n + j;
            double dh = r->in[0][at * n + j] + carry[j];

            for (int64_t l = 0; t + 1 < steps && l < GATES * n; l++) {
                dh += r->in[3][l * n + j] * r->out[1][(at + 1) * GATES * n + l];
            }
            d[2 * n] = (dh * (1 - s[n]) + (gs ? gs[2 * n] : 0)) * (1 - s[2 * n] * s[2 * n]);
            d[0] = dq[0] = (d[2 * n] * s[3 * n] + (gs ? gs[0] : 0)) * s[0] * (1 - s[0]);
            d[n] = dq[n] = (dh * (before - s[2 * n]) + (gs ? gs[n] : 0)) * s[n] * (1 - s[n]);
            dq[2 * n] = d[2 * n] * s[0] + (gs ? gs[3 * n] : 0);
            carry[j] = dh * s[n];
        }
    }
}

static void reference_grad(const charl_reference *r)
{
    charl__recurrence_reference(r, r->in_type[0].shape.dim[0], r->in_type[3].shape.dim[1],
                                reference_row);
}

static const charl_op_sample samples_grad[] = {
    {.in = {CHARL_B(F32, 16, 5, 3), CHARL_B(F32, 16, 5, 3), CHARL_B(F32, 16, 5, 12),
            CHARL_R(F32, 9, 3)},
     .n_in = 4,
     .lo = -1,
     .hi = 1,
     .terms = 60},
    {.in = {CHARL_B(F32, 8, 3, 37), CHARL_B(F32, 8, 3, 37), CHARL_B(F32, 8, 3, 148),
            CHARL_R(F32, 111, 37), CHARL_B(F32, 8, 3, 148)},
     .lo = -0.5,
     .hi = 0.5,
     .terms = 600},
    {.in = {CHARL_R(F32, 2, 30, 5), CHARL_R(F32, 2, 30, 5), CHARL_R(F32, 2, 30, 20),
            CHARL_R(F32, 15, 5)},
     .n_in = 4,
     .lo = -0.4,
     .hi = 0.4,
     .terms = 600},
    {.in = {CHARL_R(F32, 1, 1, 1), CHARL_R(F32, 1, 1, 1), CHARL_R(F32, 1, 1, 4),
            CHARL_R(F32, 3, 1)},
     .n_in = 4,
     .lo = -1,
     .hi = 1,
     .terms = 4},
};

static double flop_grad(const charl_infer *inf)
{
    return charl__flop_weights(&inf->in[0].shape, &inf->in[3].shape, 1);
}

const charl_op charl_op_gru_grad = {
    .name = "gru_grad",
    .flop = flop_grad,
    .formula = "the gradients of both parts of gru's sums, from the last step to the first",
    .n_in = 5,
    .n_optional = 1,
    .half = CHARL_HALF(0) | CHARL_HALF(1) | CHARL_HALF(3),
    .infer = infer_grad,
    .enqueue = enqueue_grad,
    .reference = reference_grad,
    CHARL_SAMPLES(samples_grad),
};
