/* map: out[i] = EXPR of operands a, b, ... at i, elementwise with broadcasting.
 *
 * Specialised by   N_IN         number of operands, 1..6 (default 1)
 *                  EXPR         OpenCL C expression of a, b, c, d, e, f and the numbers p, q (default a). The operands are
 *                               charl_real: floats or vectors of them. Use select() and charl_exp() ...; comparisons give charl_int
 *                  MODE_A ..    0: the operand has the full shape; 1: it broadcasts, element (i / inner) % count is read (default 0)
 *                  CHARL_VEC    elements at a time (default 1)
 * Launch           1-D; each work-item computes `span` elements, a multiple of CHARL_VEC. out may be an operand of full shape.
 * Numerics         what EXPR says, alike for every element: the ragged end runs the same vector code.
 */
#ifndef N_IN
#define N_IN 1
#endif
#ifndef EXPR
#define EXPR a
#endif
#ifndef MODE_A
#define MODE_A 0
#endif
#ifndef MODE_B
#define MODE_B 0
#endif
#ifndef MODE_C
#define MODE_C 0
#endif
#ifndef MODE_D
#define MODE_D 0
#endif
#ifndef MODE_E
#define MODE_E 0
#endif
#ifndef MODE_F
#define MODE_F 0
#endif

/* 32-bit division is several times quicker; the host says when it is enough. */
#ifndef INDEX
#define INDEX ulong
#endif

static inline charl_real fetch(int mode, global const float *x, ulong i, long left, ulong inner, ulong count)
{
    if (mode == 0) {
        return charl_load(x + i, left);
    }

    const INDEX outer = (INDEX)i / (INDEX)inner;
    INDEX r = (INDEX)i - outer * (INDEX)inner;
    INDEX k = outer % (INDEX)count;
    float v[CHARL_VEC];

    if (inner - r >= CHARL_VEC) {
        return CHARL_SPLAT(x[k]);
    }
    if (inner == 1 && count - k >= CHARL_VEC) {
        return CHARL_VLOAD(x + k);
    }
    for (int j = 0; j < CHARL_VEC; j++) {
        v[j] = x[k];
        if (++r == (INDEX)inner) {
            r = 0;
            k = k + 1 == (INDEX)count ? 0 : k + 1;
        }
    }
    return CHARL_VLOAD(v);
}

#define OPERAND(x)     global const float *x##_ptr, ulong x##_at, ulong x##_inner, ulong x##_count,
#define FETCH(x, mode) const charl_real x = fetch(mode, x##_ptr + x##_at, i, left, x##_inner, x##_count)

kernel void charl_map(OPERAND(a)
#if N_IN > 1
                      OPERAND(b)
#endif
#if N_IN > 2
                      OPERAND(c)
#endif
#if N_IN > 3
                      OPERAND(d)
#endif
#if N_IN > 4
                      OPERAND(e)
#endif
#if N_IN > 5
                      OPERAND(f)
#endif
                      global float *out, ulong out_at, ulong n, ulong span, float p, float q)
{
    const ulong first = get_global_id(0) * span;
    const ulong end = min(first + span, n);

    (void)p; /* where EXPR does not use them */
    (void)q;
    for (ulong i = first; i < end; i += CHARL_VEC) {
        const long left = (long)(n - i);
        FETCH(a, MODE_A);
#if N_IN > 1
        FETCH(b, MODE_B);
#endif
#if N_IN > 2
        FETCH(c, MODE_C);
#endif
#if N_IN > 3
        FETCH(d, MODE_D);
#endif
#if N_IN > 4
        FETCH(e, MODE_E);
#endif
#if N_IN > 5
        FETCH(f, MODE_F);
#endif
        charl_store(CHARL_SPLAT(EXPR), out + out_at + i, left);
    }
}
