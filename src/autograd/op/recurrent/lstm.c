/* lstm: a layer of long short-term memory over time, as PyTorch defines it, from the input's part
 * of the gates' sums. Output 1 holds what the gradient needs, for each row and step i, f, g, o, c;
 * lstm_grad walks back through time and returns the gradient of the sums, from which those of the
 * weights are single products over all steps.
 */
#include <math.h>

#include "autograd/op/recurrent/recurrence.h"
#include "autograd/onnx/onnx.h"
#include "charl/ops.h"

enum { GATES = 4, SAVED = 5 };

static charl_status infer(charl_infer *inf)
{
    CHARL_TRY(charl__recurrence_check(inf, 0, GATES, 1, GATES));
    inf->n_out = 2;
    inf->out[0] = charl__recurrence_series(&inf->in[0], &inf->in[1], 1);
    inf->out[1] = charl__recurrence_series(&inf->in[0], &inf->in[1], SAVED);
    inf->out[1].dtype = CHARL_F32;
    inf->workspace = charl__recurrence_workspace(inf->in[0].shape.dim[0], &inf->in[1]);
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

static charl_status enqueue(const charl_enqueue *e)
{
    const charl_recurrence r = charl__recurrence_of(e, &e->in[0]->shape, e->in[1]);
    charl_launch cell = {.file = "recurrent/recurrent",
                         .entry = "charl_lstm",
                         .args = {charl__in(e->in[0]), charl__in(&r.inner), charl__out(e->out[0]),
                                  charl__inout(e->out[1]), charl__out(&r.state)}};

    return charl__recurrence_run(e, &r, false, e->in[1], &cell, 5);
}

static void backward(const charl_backward *b)
{
    charl_var *out[CHARL_OP_MAX_OUT];

    charl__apply(b->g, &charl_op_lstm_grad, NULL,
                 (charl_var *[]){b->gout[0], b->out[1], b->in[1], b->gout[1]}, 4, out);
    b->gin[0] = out[0];
    if (b->needed[1]) {
        b->gin[1] = charl__recurrence_wgrad(b->g, out[0], b->out[0]);
    }
}

static void reference(const charl_reference *r)
{
    const int64_t steps = r->in_type[0].shape.dim[1], n = r->in_type[1].shape.dim[1];

    for (int64_t k = 0; k < r->in_type[0].shape.dim[0] * steps * n; k++) {
        /* element j of row b at step t, in the order of time */
        const int64_t b = k / (steps * n), t = k / n % steps, j = k % n, at = b * steps + t;
        const double *h = r->out[0] + (at - 1) * n;
        double *s = r->out[1] + at * SAVED * n + j, sum[GATES];

        for (int q = 0; q < GATES; q++) {
            sum[q] = r->in[0][(at * GATES + q) * n + j];
            for (int64_t l = 0; t > 0 && l < n; l++) {
                sum[q] += r->in[1][(q * n + j) * n + l] * h[l];
            }
            s[q * n] = q == 2 ? tanh(sum[q]) : charl__recurrence_sigmoid(sum[q]);
        }
        s[4 * n] = s[0] * s[2 * n] + (t > 0 ? s[n] * s[-n] : 0);
        r->out[0][at * n + j] = s[3 * n] * tanh(s[4 * n]);
    }
}

static const charl_op_sample samples[] = {
    {.in = {CHARL_B(F32, 16, 5, 12), CHARL_R(F32, 12, 3)}, .lo = -1, .hi = 1, .terms = 16},
    {.in = {CHARL_B(F32, 8, 3, 148), CHARL_R(F32, 148, 37)}, .lo = -0.5, .hi = 0.5, .terms = 200},
    {.in = {CHARL_R(F32, 2, 40, 20), CHARL_R(F32, 20, 5)}, .lo = -2, .hi = 2, .terms = 200},
    {.in = {CHARL_R(F32, 1, 1, 4), CHARL_R(F32, 4, 1)}, .lo = -2, .hi = 2, .terms = 2},
};

static void onnx(const charl_onnx_node *n)
{
    static const int order[] = {0, 3, 1, 2}; /* i, o, f, g */

    charl__recurrence_onnx(n, "LSTM", order, GATES);
}

static double flop(const charl_infer *inf)
{
    return charl__flop_weights(&inf->out[0].shape, &inf->in[1].shape, 1);
}

const charl_op charl_op_lstm = {
    .name = "lstm",
    .flop = flop,
    .formula =
        "i, f, g, o = pre[t] + w_hh h[t-1]; c = s(f) c[t-1] + s(i) tanh(g); h = s(o) tanh(c)",
    .n_in = 2,
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .infer = infer,
    .enqueue = enqueue,
    .backward = backward,
    .reference = reference,
    .onnx = onnx,
    CHARL_SAMPLES(samples),
};

charl_var *charl_lstm(charl_graph *g, charl_var *pre, charl_var *w_hh)
{
    charl_var *out[CHARL_OP_MAX_OUT];

    charl__apply(g, &charl_op_lstm, NULL, (charl_var *[]){pre, w_hh}, 2, out);
    return out[0];
}

/* lstm_grad(gh, saved, w_hh[, gsaved]) */
static charl_status infer_grad(charl_infer *inf)
{
    CHARL_TRY(charl__recurrence_check(inf, 0, 1, 2, GATES));
    CHARL_TRY(charl__recurrence_check(inf, 1, SAVED, 2, GATES));
    CHARL_REQUIRE(inf->in[0].shape.dim[0] == inf->in[1].shape.dim[0] &&
                      inf->in[0].shape.dim[1] == inf->in[1].shape.dim[1] &&
                      (inf->n_in < 4 || charl_shape_equal(&inf->in[3].shape, &inf->in[1].shape)),
                  CHARL_ERR_SHAPE, "gradients and saved values have other rows or steps");
    inf->out[0] = charl__recurrence_series(&inf->in[0], &inf->in[2], GATES);
    inf->workspace = charl__recurrence_workspace(inf->in[0].shape.dim[0], &inf->in[2]);
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

static charl_status enqueue_grad(const charl_enqueue *e)
{
    const charl_recurrence r = charl__recurrence_of(e, &e->in[0]->shape, e->in[2]);
    charl_launch cell = {.file = "recurrent/recurrent",
                         .entry = "charl_lstm_gradient",
                         .args = {charl__in(e->in[0]), charl__in(e->in[1])}};
    int a = 2;

    if (e->n_in > 3) {
        cell.defines = "#define SAVED_GRADIENT 1\n";
        cell.args[a++] = charl__in(e->in[3]);
    }
    cell.args[a++] = charl__in(&r.state);
    cell.args[a++] = charl__inout(&r.carry);
    cell.args[a++] = charl__out(&r.inner);
    cell.args[a++] = charl__out(e->out[0]);
    return charl__recurrence_run(e, &r, true, e->in[2], &cell, a);
}

/* One row: dh[t] = gh[t] + w_hh^T d[t + 1], dc[t] = .. + dc[t + 1] f[t + 1]. */
static void reference_row(const charl_reference *r, int64_t b, double *dc)
{
    const int64_t steps = r->in_type[0].shape.dim[1], n = r->in_type[2].shape.dim[1];

    for (int64_t t = steps - 1; t >= 0; t--) {
        const int64_t at = b * steps + t;

        for (int64_t j = 0; j < n; j++) {
            const double *s = r->in[1] + at * SAVED * n + j;
            const double *gs = r->n_in > 3 ? r->in[3] + at * SAVED * n + j : NULL;
            const double i = s[0], f = s[n], g = s[2 * n], o = s[3 * n], y = tanh(s[4 * n]);
            double *d = r->out[0] + at * GATES * n + j, dh = r->in[0][at * n + j];

            for (int64_t l = 0; t + 1 < steps && l < GATES * n; l++) {
                dh += r->in[2][l * n + j] * r->out[0][(at + 1) * GATES * n + l];
            }
            dc[j] += dh * o * (1 - y * y) + (gs ? gs[4 * n] : 0);
            d[0] = (dc[j] * g + (gs ? gs[0] : 0)) * i * (1 - i);
            d[n] = (dc[j] * (t > 0 ? s[-n] : 0) + (gs ? gs[n] : 0)) * f * (1 - f);
            d[2 * n] = (dc[j] * i + (gs ? gs[2 * n] : 0)) * (1 - g * g);
            d[3 * n] = (dh * y + (gs ? gs[3 * n] : 0)) * o * (1 - o);
            dc[j] *= f;
        }
    }
}

static void reference_grad(const charl_reference *r)
{
    charl__recurrence_reference(r, r->in_type[0].shape.dim[0], r->in_type[2].shape.dim[1],
                                reference_row);
}

static const charl_op_sample samples_grad[] = {
    {.in = {CHARL_B(F32, 16, 5, 3), CHARL_B(F32, 16, 5, 15), CHARL_R(F32, 12, 3)},
     .n_in = 3,
     .lo = -1,
     .hi = 1,
     .terms = 60},
    {.in = {CHARL_B(F32, 8, 3, 37), CHARL_B(F32, 8, 3, 185), CHARL_R(F32, 148, 37),
            CHARL_B(F32, 8, 3, 185)},
     .lo = -0.5,
     .hi = 0.5,
     .terms = 600},
    {.in = {CHARL_R(F32, 2, 30, 5), CHARL_R(F32, 2, 30, 25), CHARL_R(F32, 20, 5)},
     .n_in = 3,
     .lo = -0.5,
     .hi = 0.5,
     .terms = 600},
    {.in = {CHARL_R(F32, 1, 1, 1), CHARL_R(F32, 1, 1, 5), CHARL_R(F32, 4, 1)},
     .n_in = 3,
     .lo = -1,
     .hi = 1,
     .terms = 4},
};

static double flop_grad(const charl_infer *inf)
{
    return charl__flop_weights(&inf->in[0].shape, &inf->in[2].shape, 1);
}

const charl_op charl_op_lstm_grad = {
    .name = "lstm_grad",
    .flop = flop_grad,
    .formula = "the gradient of lstm's sums, from the last step to the first",
    .n_in = 4,
    .n_optional = 1,
    .half = CHARL_HALF(0) | CHARL_HALF(2),
    .infer = infer_grad,
    .enqueue = enqueue_grad,
    .reference = reference_grad,
    CHARL_SAMPLES(samples_grad),
};
