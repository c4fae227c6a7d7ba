/* cross_entropy_grad: gradient of cross_entropy.cl's loss.
 *
 *   out[r, c] = g * w * (exp(x[c] - lse[r]) - q[c]),  q[c] = (1 - smooth if c is the label) + smooth / n,  w = weight[r] or 1
 *
 * A label outside 0 .. n - 1 gives NaN; so does a NaN logit.
 *
 * Specialised by   WEIGHT     1: there is a weight operand (default 0)
 *                  ACT        type of the logits and of their gradient; everything else is float
 *                  VECTORS    vectors of a work-item (default 1)
 *                  CHARL_VEC  CHARL_ROW_ITEMS  see rows.clh
 * Launch           src/autograd/rows.c; where work-items share rows, a work-group for each of `stretches` equal parts of a row, whose
 *                  work-items take vectors in turn. out may be x.
 * Numerics         each element by itself; exp: charl_exp_for.
 */
#ifndef WEIGHT
#define WEIGHT 0
#endif
#ifndef VECTORS
#define VECTORS 1
#endif

#if WEIGHT
#define WEIGHT_OPERAND global const float *weight, ulong weight_at,
#define WEIGHT_OF(r)   weight[weight_at + (r)]
#else
#define WEIGHT_OPERAND
#define WEIGHT_OF(r) 1.0f
#endif

typedef struct {
    float lse, q, scale, smooth;
    int label, size;
} row;

static inline void put_gradient(bool whole, charl_real x, global ACT *out, int c, const row r)
{
    const charl_real y = charl_exp_for(x - r.lse, sizeof(ACT));
    const int mine = r.label - c;

    charl_write(whole, (y - r.q) * r.scale, out + c, r.size - c);
    if (mine >= 0 && mine < CHARL_VEC && r.label < r.size) {
        float v[CHARL_VEC];

        CHARL_VSTORE(y, v);
        for (int j = 0; j < CHARL_VEC; j++) {
            if (j == mine) {
                charl_put((v[j] - (r.q + (1.0f - r.smooth))) * r.scale, out + c + j);
            }
        }
    }
}

#if CHARL_ROW_ITEMS > 1
/* Vectors first, first + step, ... of a row. */
static inline void differentiate(bool whole, global const ACT *x, global ACT *out, int first, int step, const row r)
{
    charl_real v[VECTORS];

    _Pragma("unroll") for (int k = 0, c = first; k < VECTORS; k++, c += step)
    {
        v[k] = charl_read(whole, x + (whole ? min(c, r.size - CHARL_VEC) : min(c, r.size)), r.size - c);
    }
    _Pragma("unroll") for (int k = 0, c = first; k < VECTORS; k++, c += step)
    {
        if (c < r.size) {
            put_gradient(whole, v[k], out, c, r);
        }
    }
}
#endif

kernel void charl_gradient(global const float *g, ulong g_at, global const ACT *x, ulong x_at, global const int *label,
                           ulong label_at, global const float *lse, ulong lse_at, WEIGHT_OPERAND global ACT *out, ulong out_at,
                           float smooth, ulong rows, ulong per_item, ulong stretches, ulong size)
{
#if CHARL_ROW_ITEMS == 1
    const ulong begin = get_global_id(0) * per_item, end = min(begin + per_item, rows);
#else
    const ulong begin = get_group_id(0) / stretches, end = begin + 1;
    const int step = CHARL_ROW_GROUP * CHARL_VEC;
    const int first = (int)(get_group_id(0) % stretches) * VECTORS * step + (int)get_local_id(0) * CHARL_VEC;
#endif

    x += x_at;
    out += out_at;
    for (ulong i = begin; i < end; i++) {
        const int cls = label[label_at + i];
        const row r = {.lse = lse[lse_at + i], .q = smooth / (float)size, .smooth = smooth, .label = cls, .size = (int)size,
                       .scale = cls >= 0 && cls < (int)size ? g[g_at + i] * WEIGHT_OF(i) : NAN};

#if CHARL_ROW_ITEMS == 1
        for (int c = 0; c < r.size; c += CHARL_VEC) {
            put_gradient(false, charl_load(x + i * size + c, r.size - c), out + i * size, c, r);
        }
#else
        if (size % 8 == 0 && CHARL_IS_ALIGNED(x) && CHARL_IS_ALIGNED(out)) {
            differentiate(true, x + i * size, out + i * size, first, step, r);
        } else {
            differentiate(false, x + i * size, out + i * size, first, step, r);
        }
#endif
    }
    (void)per_item, (void)stretches, (void)rows;
}
