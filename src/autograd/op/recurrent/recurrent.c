/* lstm and gru: a layer over time, as PyTorch defines it, from the input's part of the gate sums, and their gradients.
 *
 * Output 1 holds what the gradient needs, for each row and step:
 *
 *      lstm    i, f, g, o, c
 *      gru     r, z, n and q, the recurrent part of n's sum
 *
 * A gradient iterates backwards through time and returns the gradient of the sums, from which the weight gradients are single products over all
 * steps. gru_grad returns two, of the input's part of the sums and of the recurrent part, which differ in n.
 *
 *      lstm (pre, w_hh)                -> h, saved        lstm_grad (gh, saved, w_hh[, gsaved])      -> d pre
 *      gru  (pre, w_hh[, b_hh])        -> h, saved        gru_grad  (gh, h, saved, w_hh[, gsaved])   -> d pre, d q
 */
#include <math.h>

#include "autograd/onnx/onnx.h"
#include "autograd/op/recurrent/nvidia/persistent.h"
#include "autograd/op/recurrent/recurrence.h"
#include "charl/ops.h"

enum { LSTM_GATES = 4, LSTM_SAVED = 5, GRU_GATES = 3, GRU_SAVED = 4 };

/* The differences of lstm and gru, and of their gradients. */
typedef struct cell {
    int gates, saved;
    const char *entry, *gradient;
    int h; /* operands of the gradient between gh and saved: gru's h */
    const charl__op *grad;
    const char *onnx;
    int order[LSTM_GATES]; /* its gates, among these */
} cell;

static const cell lstm = {.gates = LSTM_GATES,
                          .saved = LSTM_SAVED,
                          .entry = "charl_lstm",
                          .gradient = "charl_lstm_gradient",
                          .grad = &charl_op_lstm_grad,
                          .onnx = "LSTM",
                          .order = {0, 3, 1, 2}}; /* i, o, f, g */
static const cell gru = {.gates = GRU_GATES,
                         .saved = GRU_SAVED,
                         .entry = "charl_gru",
                         .gradient = "charl_gru_gradient",
                         .h = 1,
                         .grad = &charl_op_gru_grad,
                         .onnx = "GRU",
                         .order = {1, 0, 2}}; /* z, r, n */

static charl_status infer(charl__infer *inf)
{
    const cell *c = inf->op->row;
    const charl_type *pre = &inf->in[0], *w = &inf->in[1];

    CHARL_TRY(charl__recurrence_check(inf, 0, c->gates, 1, c->gates));
    CHARL_REQUIRE(inf->n_in < 3 || (inf->in[2].shape.ndim == 1 && inf->in[2].shape.dim[0] == w->shape.dim[0] &&
                                    inf->in[2].batch != CHARL_BATCHED),
                  CHARL_ERR_SHAPE, "b_hh does not fit w_hh");
    inf->n_out = 2;
    inf->out[0] = charl__recurrence_series(pre, w, 1);
    inf->out[1] = charl__recurrence_series(pre, w, c->saved);
    inf->out[1].dtype = CHARL_F32;
    inf->workspace = charl__recurrence_workspace(pre->shape.dim[0], w);
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

static charl_status enqueue_persistent(const charl__enqueue *e, const charl__recurrence *r,
                                       const charl__persistent_plan *plan)
{
    charl__launch l = {.params = {{"BIAS", e->n_in > 2}}};

    for (int i = 0; i < e->n_in; i++) {
        charl__launch_add(&l, charl__in(e->in[i]));
    }
    charl__launch_add(&l, charl__out(e->out[0]));
    charl__launch_add(&l, charl__out(e->out[1]));
    CHARL_TRY(charl__persistent_launch(e, r, false, plan, &l));
    return CHARL_OK;
}

static charl_status enqueue(const charl__enqueue *e)
{
    const cell *c = e->op->row;
    charl__recurrence r;
    charl__launch l = {.file = "recurrent/recurrent", .entry = c->entry};
    charl__recurrent_args args = {0};
    charl__persistent_plan plan;
    int a = 0;

    if (charl__tensor_count(e->out[0]) == 0) {
        return CHARL_OK; /* no rows: there is no workspace */
    }
    r = charl__recurrence_of(e, &e->in[0]->shape, e->in[1]);
    if (charl__persistent_plan_of(e->dev, &r, false, &plan)) {
        return enqueue_persistent(e, &r, &plan);
    }
    l.args[a++] = charl__placed(charl__in(e->in[0]), &args.pre);
    l.args[a++] = charl__placed(charl__in(&r.inner), &args.inner);
    if (c->h) {
        charl__launch_set(&l, "BIAS", e->n_in > 2);
        l.args[a++] = charl__placed(charl__in(e->n_in > 2 ? e->in[2] : NULL), &args.bias);
    }
    l.args[a++] = charl__placed(charl__out(e->out[0]), &args.h);
    /* a step reads the previous h, which is the state; lstm c, which is saved */
    l.args[a++] = charl__placed(c->h ? charl__out(e->out[1]) : charl__inout(e->out[1]), &args.saved);
    l.args[a++] = charl__placed(c->h ? charl__inout(&r.state) : charl__out(&r.state), &args.step);
    return charl__recurrence_run(e, &r, false, e->in[1], &args, &l, a);
}

static void backward(const charl__backward *b)
{
    const cell *c = b->op->row;
    charl_var *in[5] = {b->gout[0], b->out[0]}, *out[CHARL_OP_MAX_OUT], *sums;

    in[1 + c->h] = b->out[1];
    in[2 + c->h] = b->in[1];
    in[3 + c->h] = b->gout[1];
    charl__apply(b->g, c->grad, NULL, in, 4 + c->h, out);
    sums = out[c->h];
    b->gin[0] = out[0];
    if (b->needed[1]) {
        b->gin[1] = charl__recurrence_wgrad(b->g, sums, b->out[0]);
    }
    if (b->n_in > 2 && b->needed[2]) {
        b->gin[2] = charl_sum_to(b->g, sums, 2);
    }
}

static charl_status infer_grad(charl__infer *inf)
{
    const cell *c = inf->op->row;
    const int saved = 1 + c->h, w = 2 + c->h, gsaved = 3 + c->h;
    const charl_type *gh = &inf->in[0];

    CHARL_TRY(charl__recurrence_check(inf, 0, 1, w, c->gates));
    CHARL_TRY(charl__recurrence_check(inf, saved, c->saved, w, c->gates));
    CHARL_REQUIRE(gh->shape.dim[0] == inf->in[saved].shape.dim[0] && gh->shape.dim[1] == inf->in[saved].shape.dim[1] &&
                      (!c->h || charl_shape_equal(&gh->shape, &inf->in[c->h].shape)) &&
                      (inf->n_in <= gsaved || charl_shape_equal(&inf->in[gsaved].shape, &inf->in[saved].shape)),
                  CHARL_ERR_SHAPE, "gradients and saved values have other rows or steps");
    inf->n_out = 1 + c->h;
    inf->out[0] = inf->out[c->h] = charl__recurrence_series(gh, &inf->in[w], c->gates);
    inf->workspace = charl__recurrence_workspace(gh->shape.dim[0], &inf->in[w]);
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

static charl_status enqueue_grad_persistent(const charl__enqueue *e, const charl__recurrence *r,
                                            const charl__persistent_plan *plan)
{
    charl__launch l = {0};

    for (int i = 0; i < e->n_in; i++) {
        charl__launch_add(&l, charl__in(e->in[i]));
    }
    for (int k = 0; k < e->n_out; k++) {
        charl__launch_add(&l, charl__out(e->out[k]));
    }
    CHARL_TRY(charl__persistent_launch(e, r, true, plan, &l));
    return CHARL_OK;
}

static charl_status enqueue_grad(const charl__enqueue *e)
{
    const cell *c = e->op->row;
    const charl_tensor *w = e->in[2 + c->h];
    charl__recurrence r;
    charl__launch l = {.file = "recurrent/recurrent", .entry = c->gradient};
    charl__recurrent_args args = {0};
    charl__persistent_plan plan;
    int a = 0;

    if (charl__tensor_count(e->out[0]) == 0) {
        return CHARL_OK;
    }
    r = charl__recurrence_of(e, &e->in[0]->shape, w);
    if (e->n_in == 3 + c->h && charl__persistent_plan_of(e->dev, &r, true, &plan)) {
        return enqueue_grad_persistent(e, &r, &plan);
    }
    charl__launch_set(&l, "SAVED_GRADIENT", e->n_in > 3 + c->h);
    l.args[a++] = charl__placed(charl__in(e->in[0]), &args.gh);
    if (c->h) {
        l.args[a++] = charl__placed(charl__in(e->in[c->h]), &args.h);
    }
    l.args[a++] = charl__placed(charl__in(e->in[1 + c->h]), &args.saved);
    l.args[a++] = charl__placed(charl__in(e->n_in > 3 + c->h ? e->in[3 + c->h] : NULL), &args.gsaved);
    l.args[a++] = charl__placed(charl__in(&r.state), &args.step);
    l.args[a++] = charl__placed(charl__inout(&r.carry), &args.carry);
    l.args[a++] = charl__placed(charl__out(&r.inner), &args.inner);
    l.args[a++] = charl__placed(charl__out(e->out[0]), &args.out);
    if (c->h) {
        l.args[a++] = charl__placed(charl__out(e->out[1]), &args.out_inner);
    }
    return charl__recurrence_run(e, &r, true, w, &args, &l, a);
}

static void onnx(const charl__onnx_node *n)
{
    const cell *c = n->op->row;

    charl__recurrence_onnx(n, c->onnx, c->order, c->gates);
}

static double flop(const charl__infer *inf)
{
    return charl__flop_weights(&inf->out[0].shape, &inf->in[1].shape, 1);
}

static double flop_grad(const charl__infer *inf)
{
    return charl__flop_weights(&inf->in[0].shape, &inf->in[2 + ((const cell *)inf->op->row)->h].shape, 1);
}

#define RECURRENT(word)                                                                                                \
    .name = (word), .half = CHARL_HALF(0) | CHARL_HALF(1), .infer = infer, .enqueue = enqueue, .backward = backward,   \
    .onnx = onnx, .flop = flop

#define GRADIENT(word) .name = (word), .n_optional = 1, .infer = infer_grad, .enqueue = enqueue_grad, .flop = flop_grad

/* lstm */

static void lstm_reference(const charl__reference *r)
{
    const int64_t steps = r->in_type[0].shape.dim[1], n = r->in_type[1].shape.dim[1];

    for (int64_t k = 0; k < r->in_type[0].shape.dim[0] * steps * n; k++) {
        /* element j of row b at step t, in the order of time */
        const int64_t b = k / (steps * n), t = k / n % steps, j = k % n, at = b * steps + t;
        const double *h = r->out[0] + (at - 1) * n;
        double *s = r->out[1] + at * LSTM_SAVED * n + j, sum[LSTM_GATES];

        for (int q = 0; q < LSTM_GATES; q++) {
            sum[q] = r->in[0][(at * LSTM_GATES + q) * n + j];
            for (int64_t l = 0; t > 0 && l < n; l++) {
                sum[q] += r->in[1][(q * n + j) * n + l] * h[l];
            }
            s[q * n] = q == 2 ? tanh(sum[q]) : charl__recurrence_sigmoid(sum[q]);
        }
        s[4 * n] = s[0] * s[2 * n] + (t > 0 ? s[n] * s[-n] : 0);
        r->out[0][at * n + j] = s[3 * n] * tanh(s[4 * n]);
    }
}

static const charl__op_sample lstm_samples[] = {
    {.in = {CHARL_B(F32, 16, 5, 12), CHARL_R(F32, 12, 3)}, CHARL_WITHIN(1, 16)},
    {.in = {CHARL_B(F32, 8, 3, 148), CHARL_R(F32, 148, 37)}, CHARL_WITHIN(0.5, 200)},
    {.in = {CHARL_R(F32, 2, 40, 20), CHARL_R(F32, 20, 5)}, CHARL_WITHIN(2, 200)},
    {.in = {CHARL_R(F32, 1, 1, 4), CHARL_R(F32, 4, 1)}, CHARL_WITHIN(2, 2)},
    {.in = {CHARL_B(F32, 16, 4, 80), CHARL_R(F32, 80, 20)}, CHARL_WITHIN(0.5, 100)},
};

const charl__op charl_op_lstm = {
    RECURRENT("lstm"),
    .formula = "i, f, g, o = pre[t] + w_hh h[t-1]; c = s(f) c[t-1] + s(i) tanh(g); h = s(o) tanh(c)",
    .row = &lstm,
    .n_in = 2,
    .reference = lstm_reference,
    CHARL_SAMPLES(lstm_samples),
};

charl_var *charl_lstm(charl_graph *g, charl_var *pre, charl_var *w_hh)
{
    return charl__apply_n(g, &charl_op_lstm, NULL, (charl_var *[]){pre, w_hh}, 2);
}

/* One row: dh[t] = gh[t] + w_hh^T d[t + 1], dc[t] = .. + dc[t + 1] f[t + 1]. */
static void lstm_grad_row(const charl__reference *r, int64_t b, double *dc)
{
    const int64_t steps = r->in_type[0].shape.dim[1], n = r->in_type[2].shape.dim[1];

    for (int64_t t = steps - 1; t >= 0; t--) {
        const int64_t at = b * steps + t;

        for (int64_t j = 0; j < n; j++) {
            const double *s = r->in[1] + at * LSTM_SAVED * n + j;
            const double *gs = r->n_in > 3 ? r->in[3] + at * LSTM_SAVED * n + j : NULL;
            const double i = s[0], f = s[n], g = s[2 * n], o = s[3 * n], y = tanh(s[4 * n]);
            double *d = r->out[0] + at * LSTM_GATES * n + j, dh = r->in[0][at * n + j];

            for (int64_t l = 0; t + 1 < steps && l < LSTM_GATES * n; l++) {
                dh += r->in[2][l * n + j] * r->out[0][(at + 1) * LSTM_GATES * n + l];
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

static void lstm_grad_reference(const charl__reference *r)
{
    charl__recurrence_reference(r, r->in_type[0].shape.dim[0], r->in_type[2].shape.dim[1], lstm_grad_row);
}

/* gh, saved, w_hh and gsaved of B rows, T steps and N features. */
#define LSTM(KIND, B, T, N)                                                                                            \
    {                                                                                                                  \
        CHARL_##KIND(F32, B, T, N), CHARL_##KIND(F32, B, T, 5 * (N)), CHARL_R(F32, 4 * (N), N),                        \
            CHARL_##KIND(F32, B, T, 5 * (N))                                                                           \
    }

static const charl__op_sample lstm_grad_samples[] = {
    {.in = LSTM(B, 16, 5, 3), .n_in = 3, CHARL_WITHIN(1, 60)},
    {.in = LSTM(B, 8, 3, 37), CHARL_WITHIN(0.5, 600)},
    {.in = LSTM(R, 2, 30, 5), .n_in = 3, CHARL_WITHIN(0.5, 600)},
    {.in = LSTM(R, 1, 1, 1), .n_in = 3, CHARL_WITHIN(1, 4)},
    {.in = LSTM(B, 16, 4, 20), .n_in = 3, CHARL_WITHIN(0.5, 400)},
};

const charl__op charl_op_lstm_grad = {
    GRADIENT("lstm_grad"),
    .formula = "the gradient of lstm's sums, from the last step to the first",
    .row = &lstm,
    .n_in = 4,
    .half = CHARL_HALF(0) | CHARL_HALF(2),
    .reference = lstm_grad_reference,
    CHARL_SAMPLES(lstm_grad_samples),
};

/* gru */

static void gru_reference(const charl__reference *r)
{
    const int64_t steps = r->in_type[0].shape.dim[1], n = r->in_type[1].shape.dim[1];

    for (int64_t k = 0; k < r->in_type[0].shape.dim[0] * steps * n; k++) {
        /* element j of row b at step t, in the order of time */
        const int64_t b = k / (steps * n), t = k / n % steps, j = k % n, at = b * steps + t;
        const double *pre = r->in[0] + at * GRU_GATES * n + j, *h = r->out[0] + (at - 1) * n;
        double *s = r->out[1] + at * GRU_SAVED * n + j, sum[GRU_GATES];

        for (int q = 0; q < GRU_GATES; q++) {
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

static const charl__op_sample gru_samples[] = {
    {.in = {CHARL_B(F32, 16, 5, 9), CHARL_R(F32, 9, 3), CHARL_R(F32, 9)}, CHARL_WITHIN(1, 16)},
    {.in = {CHARL_B(F32, 8, 3, 111), CHARL_R(F32, 111, 37)}, .n_in = 2, CHARL_WITHIN(0.5, 200)},
    {.in = {CHARL_R(F32, 2, 40, 15), CHARL_R(F32, 15, 5), CHARL_R(F32, 15)}, CHARL_WITHIN(1, 200)},
    {.in = {CHARL_R(F32, 1, 1, 3), CHARL_R(F32, 3, 1), CHARL_R(F32, 3)}, CHARL_WITHIN(2, 2)},
    {.in = {CHARL_B(F32, 16, 4, 60), CHARL_R(F32, 60, 20), CHARL_R(F32, 60)}, CHARL_WITHIN(0.5, 100)},
};

const charl__op charl_op_gru = {
    RECURRENT("gru"),
    .formula = "q = w_hh h[t-1] + b_hh; r = s(pre_r + q_r); z = s(pre_z + q_z); n = tanh(pre_n + r "
               "q_n); h = (1 - z) n + z h[t-1]",
    .row = &gru,
    .n_in = 3,
    .n_optional = 1,
    .reference = gru_reference,
    CHARL_SAMPLES(gru_samples),
};

charl_var *charl_gru(charl_graph *g, charl_var *pre, charl_var *w_hh, charl_var *b_hh)
{
    return charl__apply_n(g, &charl_op_gru, NULL, (charl_var *[]){pre, w_hh, b_hh}, 3);
}

/* One row: dh[t] = gh[t] + w_hh^T dq[t + 1] + dh[t + 1] z[t + 1], the last part in carry. */
static void gru_grad_row(const charl__reference *r, int64_t b, double *carry)
{
    const int64_t steps = r->in_type[0].shape.dim[1], n = r->in_type[3].shape.dim[1];

    for (int64_t t = steps - 1; t >= 0; t--) {
        const int64_t at = b * steps + t;

        for (int64_t j = 0; j < n; j++) {
            const double *s = r->in[2] + at * GRU_SAVED * n + j;
            const double *gs = r->n_in > 4 ? r->in[4] + at * GRU_SAVED * n + j : NULL;
            const double before = t > 0 ? r->in[1][(at - 1) * n + j] : 0;
            double *d = r->out[0] + at * GRU_GATES * n + j, *dq = r->out[1] + at * GRU_GATES * n + j;
            double dh = r->in[0][at * n + j] + carry[j];

            for (int64_t l = 0; t + 1 < steps && l < GRU_GATES * n; l++) {
                dh += r->in[3][l * n + j] * r->out[1][(at + 1) * GRU_GATES * n + l];
            }
            d[2 * n] = (dh * (1 - s[n]) + (gs ? gs[2 * n] : 0)) * (1 - s[2 * n] * s[2 * n]);
            d[0] = dq[0] = (d[2 * n] * s[3 * n] + (gs ? gs[0] : 0)) * s[0] * (1 - s[0]);
            d[n] = dq[n] = (dh * (before - s[2 * n]) + (gs ? gs[n] : 0)) * s[n] * (1 - s[n]);
            dq[2 * n] = d[2 * n] * s[0] + (gs ? gs[3 * n] : 0);
            carry[j] = dh * s[n];
        }
    }
}

static void gru_grad_reference(const charl__reference *r)
{
    charl__recurrence_reference(r, r->in_type[0].shape.dim[0], r->in_type[3].shape.dim[1], gru_grad_row);
}

/* gh, h, saved, w_hh and gsaved. */
#define GRU(KIND, B, T, N)                                                                                             \
    {                                                                                                                  \
        CHARL_##KIND(F32, B, T, N), CHARL_##KIND(F32, B, T, N), CHARL_##KIND(F32, B, T, 4 * (N)),                      \
            CHARL_R(F32, 3 * (N), N), CHARL_##KIND(F32, B, T, 4 * (N))                                                 \
    }

static const charl__op_sample gru_grad_samples[] = {
    {.in = GRU(B, 16, 5, 3), .n_in = 4, CHARL_WITHIN(1, 60)},
    {.in = GRU(B, 8, 3, 37), CHARL_WITHIN(0.5, 600)},
    {.in = GRU(R, 2, 30, 5), .n_in = 4, CHARL_WITHIN(0.4, 600)},
    {.in = GRU(R, 1, 1, 1), .n_in = 4, CHARL_WITHIN(1, 4)},
    {.in = GRU(B, 16, 4, 20), .n_in = 4, CHARL_WITHIN(0.4, 400)},
};

const charl__op charl_op_gru_grad = {
    GRADIENT("gru_grad"),
    .formula = "the gradients of both parts of gru's sums, from the last step to the first",
    .row = &gru,
    .n_in = 5,
    .half = CHARL_HALF(0) | CHARL_HALF(1) | CHARL_HALF(3),
    .reference = gru_grad_reference,
    CHARL_SAMPLES(gru_grad_samples),
};
