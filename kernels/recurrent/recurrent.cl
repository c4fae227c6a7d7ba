/* recurrent: one step of a recurrent network, forward and backward; `size` is H. The equations are those of PyTorch's LSTM and GRU.
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
        charl_real i = LOAD(p), f = LOAD(p + size), g = LOAD(p + 2 * size), o = LOAD(p + 3 * size), cell, y;

        if (t > 0) {
            i = i + LOAD(q);
            f = f + LOAD(q + size);
            g = g + LOAD(q + 2 * size);
            o = o + LOAD(q + 3 * size);
        }
        i = charl_sigmoid(i);
        f = charl_sigmoid(f);
        g = charl_tanh(g);
        o = charl_sigmoid(o);
        cell = i * g;
        if (t > 0) {
            cell = f * LOAD(s - size) + cell; /* the last part of the step before */
        }
        y = o * charl_tanh(cell);
        STORE(i, s);
        STORE(f, s + size);
        STORE(g, s + 2 * size);
        STORE(o, s + 3 * size);
        STORE(cell, s + 4 * size);
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
        const charl_real i = LOAD(s), f = LOAD(s + size), g = LOAD(s + 2 * size), o = LOAD(s + 3 * size);
        const charl_real y = charl_tanh(LOAD(s + 4 * size));
        const charl_real before = t > 0 ? LOAD(s - size) : CHARL_SPLAT(0.0f);
        charl_real dh = LOAD(SERIES(gh, 1)), dc, di, df, dg, d_o;

        if (t + 1 < steps) {
            dh = dh + LOAD(STEP(step, 1));
        }
        dc = dh * o * (1.0f - y * y);
        if (t + 1 < steps) {
            dc = dc + LOAD(STEP(carry, 1));
        }
        d_o = dh * y;
#if SAVED_GRADIENT
        global const float *gs = SERIES(gsaved, 5);

        dc = dc + LOAD(gs + 4 * size);
        d_o = d_o + LOAD(gs + 3 * size);
#endif
        di = dc * g;
        df = dc * before;
        dg = dc * i;
#if SAVED_GRADIENT
        di = di + LOAD(gs);
        df = df + LOAD(gs + size);
        dg = dg + LOAD(gs + 2 * size);
#endif
        di = di * (i * (1.0f - i));
        df = df * (f * (1.0f - f));
        dg = dg * (1.0f - g * g);
        d_o = d_o * (o * (1.0f - o));
        STORE(dc * f, STEP(carry, 1));
        STORE(di, to);
        STORE(df, to + size);
        STORE(dg, to + 2 * size);
        STORE(d_o, to + 3 * size);
        STORE(di, q);
        STORE(df, q + size);
        STORE(dg, q + 2 * size);
        STORE(d_o, q + 3 * size);
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
        charl_real q[3], reset, update, fresh;

        for (int k = 0; k < 3; k++) {
            q[k] = t > 0 ? LOAD(STEP(inner, 3) + k * (long)size) : CHARL_SPLAT(0.0f);
#if BIAS
            q[k] = q[k] + LOAD(bias + bias_at + c + k * (long)size);
#endif
        }
        reset = charl_sigmoid(LOAD(p) + q[0]);
        update = charl_sigmoid(LOAD(p + size) + q[1]);
        fresh = charl_tanh(LOAD(p + 2 * size) + reset * q[2]);
        STORE(reset, s);
        STORE(update, s + size);
        STORE(fresh, s + 2 * size);
        STORE(q[2], s + 3 * size);
        fresh = (1.0f - update) * fresh + update * before;
        STORE(fresh, SERIES(h, 1));
        STORE(fresh, STEP(step, 1));
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
        const charl_real reset = LOAD(s), update = LOAD(s + size), fresh = LOAD(s + 2 * size);
        const charl_real before = t > 0 ? LOAD(SERIES(h, 1) - size) : CHARL_SPLAT(0.0f);
        charl_real dh = LOAD(SERIES(gh, 1)), dr, dz, dn, dq;

        if (t + 1 < steps) {
            dh = dh + (LOAD(STEP(step, 1)) + LOAD(STEP(carry, 1)));
        }
        dn = dh * (1.0f - update);
        dz = dh * (before - fresh);
#if SAVED_GRADIENT
        global const float *gs = SERIES(gsaved, 4);

        dz = dz + LOAD(gs + size);
        dn = dn + LOAD(gs + 2 * size);
#endif
        dn = dn * (1.0f - fresh * fresh);
        dr = dn * LOAD(s + 3 * size);
        dq = dn * reset;
#if SAVED_GRADIENT
        dr = dr + LOAD(gs);
        dq = dq + LOAD(gs + 3 * size);
#endif
        dr = dr * (reset * (1.0f - reset));
        dz = dz * (update * (1.0f - update));
        STORE(dh * update, STEP(carry, 1));
        STORE(dr, SERIES(out, 3));
        STORE(dz, SERIES(out, 3) + size);
        STORE(dn, SERIES(out, 3) + 2 * size);
        STORE(dr, SERIES(out_inner, 3));
        STORE(dz, SERIES(out_inner, 3) + size);
        STORE(dq, SERIES(out_inner, 3) + 2 * size);
        STORE(dr, STEP(inner, 3));
        STORE(dz, STEP(inner, 3) + size);
        STORE(dq, STEP(inner, 3) + 2 * size);
    }
}
