/* swiglu: rows of 2 * size elements, a gate and a value for each output.
 *
 *   charl_swiglu    out[r, j] = silu(x[r, j]) * x[r, size + j],  silu(a) = a * s(a),  s(a) = 1 / (1 + exp(-a))
 *   charl_gradient  out[r, j] = g * b * s(a) * (1 + a * (1 - s(a))), out[r, size + j] = g * silu(a), where a and b are the gate and the value
 *
 * Specialised by   ACT        type of x, g and out
 *                  CHARL_VEC  see math.clh
 * Launch           column_chunks.clh.
 */
#include "shared/column_chunks.clh"

kernel void charl_swiglu(global const ACT *x, ulong x_at, global ACT *out, ulong out_at, ulong rows, ulong size, ulong span)
{
    CHARL_EACH_CHUNK(u, rows, size, span)
    {
        const ulong r = CHARL_CHUNK_ROW(u, size), c = CHARL_CHUNK_COLUMN(u, size);
        const long left = (long)(size - c);
        global const ACT *gate = x + x_at + 2 * r * size + c;
        const charl_real a = charl_load(gate, left), b = charl_load(gate + size, left);

        charl_store(a * charl_sigmoid_for(a, sizeof(ACT)) * b, out + out_at + r * size + c, left);
    }
}

kernel void charl_gradient(global const ACT *g, ulong g_at, global const ACT *x, ulong x_at, global ACT *out, ulong out_at,
                           ulong rows, ulong size, ulong span)
{
    CHARL_EACH_CHUNK(u, rows, size, span)
    {
        const ulong r = CHARL_CHUNK_ROW(u, size), c = CHARL_CHUNK_COLUMN(u, size);
        const long left = (long)(size - c);
        global const ACT *gate = x + x_at + 2 * r * size + c;
        global ACT *to = out + out_at + 2 * r * size + c;
        const charl_real a = charl_load(gate, left), b = charl_load(gate + size, left);
        const charl_real s = charl_sigmoid_for(a, sizeof(ACT)), gi = charl_load(g + g_at + r * size + c, left);

        charl_store(gi * b * (s * (1.0f + a * (1.0f - s))), to, left);
        charl_store(gi * (a * s), to + size, left);
    }
}
