/* cross_entropy_grad: gradient of cross_entropy.cl's loss.
 *
 *   out[r, c] = g * w * (exp(x[c] - lse[r]) - q[c]),  q[c] = (1 - smooth if c is the label) + smooth / n,  w = weight[r] or 1
 *
 * A label outside 0 .. n - 1 gives NaN; so does a NaN logit.
 *
 * Specialised by   WEIGHT     1: there is a weight operand (default 0)
 *                  ACT        type of the logits and of their gradient; everything else is float
 *                  CHARL_VEC  see math.clh
 * Launch           pieces.clh. out may be x.
 * Numerics         each element by itself; exp: charl_exp_for.
 */
#ifndef WEIGHT
#define WEIGHT 0
#endif
#include "pieces.clh"

#if WEIGHT
#define WEIGHT_OPERAND global const float *weight, ulong weight_at,
#define WEIGHT_OF(r)   weight[weight_at + (r)]
#else
#define WEIGHT_OPERAND
#define WEIGHT_OF(r) 1.0f
#endif

kernel void charl_gradient(global const float *g, ulong g_at, global const ACT *x, ulong x_at, global const int *label,
                           ulong label_at, global const float *lse, ulong lse_at, WEIGHT_OPERAND global ACT *out, ulong out_at,
                           float smooth, ulong rows, ulong size, ulong span)
{
    const float q = smooth / (float)size;

    CHARL_EACH_PIECE(u)
    {
        const ulong r = CHARL_PIECE_ROW(u), c = CHARL_PIECE_COLUMN(u), at = r * size + c;
        const int cls = label[label_at + r], mine = cls - (int)c;
        const float scale = cls >= 0 && cls < (int)size ? g[g_at + r] * WEIGHT_OF(r) : NAN;
        const charl_real y = charl_exp_for(charl_load(x + x_at + at, (long)(size - c)) - lse[lse_at + r], sizeof(ACT));

        charl_store((y - q) * scale, out + out_at + at, (long)(size - c));
        if (cls < (int)size) {
            float v[CHARL_VEC];

            CHARL_VSTORE(y, v);
            for (int j = 0; j < CHARL_VEC; j++) {
                if (j == mine) {
                    charl_put((v[j] - (q + (1.0f - smooth))) * scale, out + out_at + at + j);
                }
            }
        }
    }
}
