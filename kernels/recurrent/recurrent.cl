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
#ifndef BIAS
#define BIAS 0
#endif
#ifndef SAVED_GRADIENT
#define SAVED_GRADIENT 0
#endif
#include "shared/column_chunks.clh"
#include "recurrent/cell.clh"

#define LOAD(p)     charl_load(p, left)
#define STORE(x, p) charl_store(x, p, left)

/* Row r, columns c .., of [B, T, parts * H] at step t; and of [B, parts * H]. */
#define SERIES(x, parts) (x + x##_at + (r * steps + t) * (parts) * size + c)
#define STEP(x, parts)   (x + x##_at + r * (parts) * size + c)

kernel void charl_lstm(global const ACT *pre, ulong pre_at, global const float *inner, ulong inner_at, global ACT *h, ulong h_at,
                       global float *saved, ulong saved_at, global float *step, ulong step_at, ulong steps, ulong t, ulong rows,
                       ulong size, ulong span)
{
    CHARL_EACH_CHUNK(u)
    {
        const ulong r = CHARL_CHUNK_ROW(u), c = CHARL_CHUNK_COLUMN(u);
        const long left = (long)(size - c);
        global const ACT *p = SERIES(pre, 4);
        global const float *q = STEP(inner, 4);
        global float *s = SERIES(saved, 5);
        charl_real i = LOAD(p), f = LOAD(p + size), g = LOAD(p + 2 * size), o = LOAD(p + 3 * size), y;
        lstm_gates now;

        if (t > 0) {
            i = i + LOAD(q);
            f = f + LOAD(q + size);
            g = g + LOAD(q + 2 * size);
            o = o + LOAD(q + 3 * size);
        }
        /* c of the step before is the last part of what it saved */
        now = lstm_gates_of(i, f, g, o, t == 0, t > 0 ? LOAD(s - size) : CHARL_SPLAT(0.0f));
        y = lstm_output(now);
        STORE(now.i, s);
        STORE(now.f, s + size);
        STORE(now.g, s + 2 * size);
        STORE(now.o, s + 3 * size);
        STORE(now.c, s + 4 * size);
        STORE(y, SERIES(h, 1));
        STORE(y, STEP(step, 1));
    }
}

kernel void charl_lstm_gradient(global const ACT *gh, ulong gh_at, global const float *saved, ulong saved_at,
#if SAVED_GRADIENT
                                global const float *gsaved, ulong gsaved_at,
#endif
                                global const float *step, ulong step_at, global float *carry, ulong carry_at, global float *inner,
                                ulong inner_at, global ACT *out, ulong out_at, ulong steps, ulong t, ulong rows, ulong size,
                                ulong span)
{
    CHARL_EACH_CHUNK(u)
    {
        const ulong r = CHARL_CHUNK_ROW(u), c = CHARL_CHUNK_COLUMN(u);
        const long left = (long)(size - c);
        global const float *s = SERIES(saved, 5);
        global ACT *to = SERIES(out, 4);
        global float *q = STEP(inner, 4);
        const lstm_gates now = {LOAD(s), LOAD(s + size), LOAD(s + 2 * size), LOAD(s + 3 * size), LOAD(s + 4 * size)};
        const charl_real before = t > 0 ? LOAD(s - size) : CHARL_SPLAT(0.0f);
        const bool last = t + 1 == steps;
        charl_real dh = LOAD(SERIES(gh, 1));
        lstm_gates given = now, d;

        if (!last) {
            dh = dh + LOAD(STEP(step, 1));
        }
#if SAVED_GRADIENT
        global const float *gs = SERIES(gsaved, 5);

        given = (lstm_gates){LOAD(gs), LOAD(gs + size), LOAD(gs + 2 * size), LOAD(gs + 3 * size), LOAD(gs + 4 * size)};
#endif
        d = lstm_slopes_of(now, before, dh, last, last ? CHARL_SPLAT(0.0f) : LOAD(STEP(carry, 1)), SAVED_GRADIENT, given);
        STORE(d.c, STEP(carry, 1));
        STORE(d.i, to);
        STORE(d.f, to + size);
        STORE(d.g, to + 2 * size);
        STORE(d.o, to + 3 * size);
        STORE(d.i, q);
        STORE(d.f, q + size);
        STORE(d.g, q + 2 * size);
        STORE(d.o, q + 3 * size);
    }
}

kernel void charl_gru(global const ACT *pre, ulong pre_at, global const float *inner, ulong inner_at,
#if BIAS
                      global const float *bias, ulong bias_at,
#endif
                      global ACT *h, ulong h_at, global float *saved, ulong saved_at, global float *step, ulong step_at, ulong steps,
                      ulong t, ulong rows, ulong size, ulong span)
{
    CHARL_EACH_CHUNK(u)
    {
        const ulong r = CHARL_CHUNK_ROW(u), c = CHARL_CHUNK_COLUMN(u);
        const long left = (long)(size - c);
        global const ACT *p = SERIES(pre, 3);
        global float *s = SERIES(saved, 4);
        const charl_real before = t > 0 ? LOAD(STEP(step, 1)) : CHARL_SPLAT(0.0f);
        charl_real q[3], y;
        gru_gates now;

        for (int k = 0; k < 3; k++) {
            q[k] = t > 0 ? LOAD(STEP(inner, 3) + k * (long)size) : CHARL_SPLAT(0.0f);
#if BIAS
            q[k] = q[k] + LOAD(bias + bias_at + c + k * (long)size);
#endif
        }
        now = gru_gates_of(LOAD(p), LOAD(p + size), LOAD(p + 2 * size), q[0], q[1], q[2]);
        y = gru_output(now, before);
        STORE(now.r, s);
        STORE(now.z, s + size);
        STORE(now.n, s + 2 * size);
        STORE(now.q, s + 3 * size);
        STORE(y, SERIES(h, 1));
        STORE(y, STEP(step, 1));
    }
}

kernel void charl_gru_gradient(global const ACT *gh, ulong gh_at, global const ACT *h, ulong h_at, global const float *saved,
                               ulong saved_at,
#if SAVED_GRADIENT
                               global const float *gsaved, ulong gsaved_at,
#endif
                               global const float *step, ulong step_at, global float *carry, ulong carry_at, global float *inner,
                               ulong inner_at, global ACT *out, ulong out_at, global ACT *out_inner, ulong out_inner_at,
                               ulong steps, ulong t, ulong rows, ulong size, ulong span)
{
    CHARL_EACH_CHUNK(u)
    {
        const ulong r = CHARL_CHUNK_ROW(u), c = CHARL_CHUNK_COLUMN(u);
        const long left = (long)(size - c);
        global const float *s = SERIES(saved, 4);
        const gru_gates now = {LOAD(s), LOAD(s + size), LOAD(s + 2 * size), LOAD(s + 3 * size)};
        const charl_real before = t > 0 ? LOAD(SERIES(h, 1) - size) : CHARL_SPLAT(0.0f);
        charl_real dh = LOAD(SERIES(gh, 1));
        gru_gates given = now, d;

        if (t + 1 < steps) {
            dh = dh + (LOAD(STEP(step, 1)) + LOAD(STEP(carry, 1)));
        }
#if SAVED_GRADIENT
        global const float *gs = SERIES(gsaved, 4);

        given = (gru_gates){LOAD(gs), LOAD(gs + size), LOAD(gs + 2 * size), LOAD(gs + 3 * size)};
#endif
        d = gru_slopes_of(now, before, dh, SAVED_GRADIENT, given);
        STORE(dh * now.z, STEP(carry, 1));
        STORE(d.r, SERIES(out, 3));
        STORE(d.z, SERIES(out, 3) + size);
        STORE(d.n, SERIES(out, 3) + 2 * size);
        STORE(d.r, SERIES(out_inner, 3));
        STORE(d.z, SERIES(out_inner, 3) + size);
        STORE(d.q, SERIES(out_inner, 3) + 2 * size);
        STORE(d.r, STEP(inner, 3));
        STORE(d.z, STEP(inner, 3) + size);
        STORE(d.q, STEP(inner, 3) + 2 * size);
    }
}
