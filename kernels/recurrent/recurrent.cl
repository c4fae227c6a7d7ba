/* recurrent: one step of a recurrent network, forward and backward; `size` is H. The equations are those of PyTorch's LSTM and GRU:
 * cell.clh.
 *
 *   charl_lstm           i, f, g, o = pre[b, t] + inner[b], through sigmoid, sigmoid, tanh, sigmoid;  c = f c' + i g;  h = o tanh(c)
 *   charl_lstm_gradient  the gradient of those four sums, from that of h and from the next step's, and of c'
 *   charl_gru            r, z = sigmoid(pre[b, t] + q), n = tanh(pre[b, t] + r q), q = inner[b] + bias;  h = (1 - z) n + z h'
 *   charl_gru_gradient   the gradients of pre and of q
 *
 * where ' marks the step before (0 before the first), and inner is w_hh h', which at the first step is 0 and not read.
 * pre and h have the steps of a row one after another, [B, T, ..]; so has saved, with what the gradient needs: i, f, g, o, c or
 * r, z, n, q's third part. Arguments named `step`, `inner` and `carry` are of the current step, [B, ..]: see
 * src/autograd/op/recurrent/recurrence.h.
 *
 * Specialised by   ACT             type of pre, h and their gradients, the series that are operands and results; all else is float
 *                  BIAS            1: q has a bias (default 0)
 *                  SAVED_GRADIENT  1: saved has a gradient of its own (default 0)
 *                  CHARL_VEC       see math.clh
 * Launch           column_chunks.clh, over [B, H].
 */
#define BIAS 0
#define SAVED_GRADIENT 0
#include "recurrent/recurrent_args.h"
#include "shared/column_chunks.clh"
#include "recurrent/cell.clh"

/* Where a row of [.., parts * size] begins. Row r of [B, T, ..] at step t is r * steps + t. */
static inline ulong begin_of(ulong row, int parts, ulong size)
{
    return row * parts * size;
}

kernel void charl_lstm(global const ACT *pre, global const float *inner, global ACT *h, global float *saved, global float *step,
                       const charl__recurrent_args args, ulong rows, ulong size, ulong span)
{
    const ulong steps = args.steps, t = args.t;

    CHARL_EACH_CHUNK(u, rows, size, span)
    {
        const ulong r = CHARL_CHUNK_ROW(u, size), c = CHARL_CHUNK_COLUMN(u, size);
        const long left = (long)(size - c);
        global const ACT *p = pre + args.pre + begin_of(r * steps + t, 4, size) + c;
        global const float *q = inner + args.inner + begin_of(r, 4, size) + c;
        global float *s = saved + args.saved + begin_of(r * steps + t, 5, size) + c;
        charl_real i = charl_load(p, left), f = charl_load(p + size, left), g = charl_load(p + 2 * size, left), o = charl_load(p + 3 * size, left), y;
        lstm_gates now;

        if (t > 0) {
            i = i + charl_load(q, left);
            f = f + charl_load(q + size, left);
            g = g + charl_load(q + 2 * size, left);
            o = o + charl_load(q + 3 * size, left);
        }
        /* c of the step before is the last part of what it saved */
        now = lstm_gates_of(i, f, g, o, t == 0, t > 0 ? charl_load(s - size, left) : CHARL_SPLAT(0.0f));
        y = lstm_output(now);
        charl_store(now.i, s, left);
        charl_store(now.f, s + size, left);
        charl_store(now.g, s + 2 * size, left);
        charl_store(now.o, s + 3 * size, left);
        charl_store(now.c, s + 4 * size, left);
        charl_store(y, h + args.h + begin_of(r * steps + t, 1, size) + c, left);
        charl_store(y, step + args.step + begin_of(r, 1, size) + c, left);
    }
}

kernel void charl_lstm_gradient(global const ACT *gh, global const float *saved, global const float *gsaved, global const float *step,
                                global float *carry, global float *inner, global ACT *out, const charl__recurrent_args args, ulong rows, ulong size, ulong span)
{
    const ulong steps = args.steps, t = args.t;

    CHARL_EACH_CHUNK(u, rows, size, span)
    {
        const ulong r = CHARL_CHUNK_ROW(u, size), c = CHARL_CHUNK_COLUMN(u, size);
        const long left = (long)(size - c);
        global const float *s = saved + args.saved + begin_of(r * steps + t, 5, size) + c;
        global ACT *to = out + args.out + begin_of(r * steps + t, 4, size) + c;
        global float *q = inner + args.inner + begin_of(r, 4, size) + c;
        const lstm_gates now = {charl_load(s, left), charl_load(s + size, left), charl_load(s + 2 * size, left), charl_load(s + 3 * size, left), charl_load(s + 4 * size, left)};
        const charl_real before = t > 0 ? charl_load(s - size, left) : CHARL_SPLAT(0.0f);
        const bool last = t + 1 == steps;
        charl_real dh = charl_load(gh + args.gh + begin_of(r * steps + t, 1, size) + c, left);
        lstm_gates given = now, d;

        if (!last) {
            dh = dh + charl_load(step + args.step + begin_of(r, 1, size) + c, left);
        }
        if (SAVED_GRADIENT) {
            global const float *gs = gsaved + args.gsaved + begin_of(r * steps + t, 5, size) + c;

            given = (lstm_gates){charl_load(gs, left), charl_load(gs + size, left), charl_load(gs + 2 * size, left), charl_load(gs + 3 * size, left), charl_load(gs + 4 * size, left)};
        }
        d = lstm_slopes_of(now, before, dh, last, last ? CHARL_SPLAT(0.0f) : charl_load(carry + args.carry + begin_of(r, 1, size) + c, left), SAVED_GRADIENT, given);
        charl_store(d.c, carry + args.carry + begin_of(r, 1, size) + c, left);
        charl_store(d.i, to, left);
        charl_store(d.f, to + size, left);
        charl_store(d.g, to + 2 * size, left);
        charl_store(d.o, to + 3 * size, left);
        charl_store(d.i, q, left);
        charl_store(d.f, q + size, left);
        charl_store(d.g, q + 2 * size, left);
        charl_store(d.o, q + 3 * size, left);
    }
}

kernel void charl_gru(global const ACT *pre, global const float *inner, global const float *bias, global ACT *h, global float *saved,
                      global float *step, const charl__recurrent_args args, ulong rows, ulong size, ulong span)
{
    const ulong steps = args.steps, t = args.t;

    CHARL_EACH_CHUNK(u, rows, size, span)
    {
        const ulong r = CHARL_CHUNK_ROW(u, size), c = CHARL_CHUNK_COLUMN(u, size);
        const long left = (long)(size - c);
        global const ACT *p = pre + args.pre + begin_of(r * steps + t, 3, size) + c;
        global float *s = saved + args.saved + begin_of(r * steps + t, 4, size) + c;
        const charl_real before = t > 0 ? charl_load(step + args.step + begin_of(r, 1, size) + c, left) : CHARL_SPLAT(0.0f);
        charl_real q[3], y;
        gru_gates now;

        for (int k = 0; k < 3; k++) {
            q[k] = t > 0 ? charl_load(inner + args.inner + begin_of(r, 3, size) + c + k * (long)size, left) : CHARL_SPLAT(0.0f);
            if (BIAS) {
                q[k] = q[k] + charl_load(bias + args.bias + c + k * (long)size, left);
            }
        }
        now = gru_gates_of(charl_load(p, left), charl_load(p + size, left), charl_load(p + 2 * size, left), q[0], q[1], q[2]);
        y = gru_output(now, before);
        charl_store(now.r, s, left);
        charl_store(now.z, s + size, left);
        charl_store(now.n, s + 2 * size, left);
        charl_store(now.q, s + 3 * size, left);
        charl_store(y, h + args.h + begin_of(r * steps + t, 1, size) + c, left);
        charl_store(y, step + args.step + begin_of(r, 1, size) + c, left);
    }
}

kernel void charl_gru_gradient(global const ACT *gh, global const ACT *h, global const float *saved, global const float *gsaved,
                               global const float *step, global float *carry, global float *inner, global ACT *out, global ACT *out_inner,
                               const charl__recurrent_args args, ulong rows, ulong size, ulong span)
{
    const ulong steps = args.steps, t = args.t;

    CHARL_EACH_CHUNK(u, rows, size, span)
    {
        const ulong r = CHARL_CHUNK_ROW(u, size), c = CHARL_CHUNK_COLUMN(u, size);
        const long left = (long)(size - c);
        global const float *s = saved + args.saved + begin_of(r * steps + t, 4, size) + c;
        const gru_gates now = {charl_load(s, left), charl_load(s + size, left), charl_load(s + 2 * size, left), charl_load(s + 3 * size, left)};
        const charl_real before = t > 0 ? charl_load(h + args.h + begin_of(r * steps + t, 1, size) + c - size, left) : CHARL_SPLAT(0.0f);
        charl_real dh = charl_load(gh + args.gh + begin_of(r * steps + t, 1, size) + c, left);
        gru_gates given = now, d;

        if (t + 1 < steps) {
            dh = dh + (charl_load(step + args.step + begin_of(r, 1, size) + c, left) + charl_load(carry + args.carry + begin_of(r, 1, size) + c, left));
        }
        if (SAVED_GRADIENT) {
            global const float *gs = gsaved + args.gsaved + begin_of(r * steps + t, 4, size) + c;

            given = (gru_gates){charl_load(gs, left), charl_load(gs + size, left), charl_load(gs + 2 * size, left), charl_load(gs + 3 * size, left)};
        }
        d = gru_slopes_of(now, before, dh, SAVED_GRADIENT, given);
        charl_store(dh * now.z, carry + args.carry + begin_of(r, 1, size) + c, left);
        charl_store(d.r, out + args.out + begin_of(r * steps + t, 3, size) + c, left);
        charl_store(d.z, out + args.out + begin_of(r * steps + t, 3, size) + c + size, left);
        charl_store(d.n, out + args.out + begin_of(r * steps + t, 3, size) + c + 2 * size, left);
        charl_store(d.r, out_inner + args.out_inner + begin_of(r * steps + t, 3, size) + c, left);
        charl_store(d.z, out_inner + args.out_inner + begin_of(r * steps + t, 3, size) + c + size, left);
        charl_store(d.q, out_inner + args.out_inner + begin_of(r * steps + t, 3, size) + c + 2 * size, left);
        charl_store(d.r, inner + args.inner + begin_of(r, 3, size) + c, left);
        charl_store(d.z, inner + args.inner + begin_of(r, 3, size) + c + size, left);
        charl_store(d.q, inner + args.inner + begin_of(r, 3, size) + c + 2 * size, left);
    }
}
