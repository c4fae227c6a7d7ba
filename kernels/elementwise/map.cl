/* map: out[i] = EXPR of operands a, b, ... at i, elementwise with broadcasting.
 *
 * Specialised by   N_IN         number of operands, 1..6 (default 1)
 *                  EXPR         OpenCL C expression of a, b, c, d, e, f and the numbers p, q (default a). The operands are
 *                               charl_real: floats or vectors of them. Use select() and charl_exp() ...; comparisons give charl_int
 *                  MODE_A ..    0: the operand has the full shape; 1: it broadcasts, element (i / inner) % count is read (default 0)
 *                  A_T .. OUT_T element types of the operands and of out (default float); see common.clh
 *                  CHARL_VEC    elements at a time (default 1)
 * Launch           1-D; each work-item computes `span` elements, a multiple of CHARL_VEC. out may be an operand of full shape.
 * Numerics         what EXPR says, alike for every element: the ragged end runs the same vector code.
 */
#ifndef N_IN
#define N_IN 1
#endif
#ifndef EXPR
#define EXPR(a, b, c, d, e, f, p, q) a
#endif
#ifndef MODE_A
#define MODE_A 0
#endif
#ifndef A_T
#define A_T float
#endif
#ifndef B_T
#define B_T float
#endif
#ifndef C_T
#define C_T float
#endif
#ifndef D_T
#define D_T float
#endif
#ifndef E_T
#define E_T float
#endif
#ifndef F_T
#define F_T float
#endif
#ifndef OUT_T
#define OUT_T float
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

#include "elementwise/broadcast.clh"

#define OPERAND(x, T) global const T *x##_ptr, ulong x##_at, ulong x##_inner, ulong x##_count,
/* Elements i .. of operand x, of which `left` exist. */
#define AT(x) x##_ptr + x##_at
#define FETCHED(x, mode, i, left) (mode == 0 ? charl_read(WHOLE > 0, AT(x) + i, left) : broadcast(AT(x), i, x##_inner, x##_count))

kernel void charl_map(OPERAND(a, A_T)
#if N_IN > 1
                      OPERAND(b, B_T)
#endif
#if N_IN > 2
                      OPERAND(c, C_T)
#endif
#if N_IN > 3
                      OPERAND(d, D_T)
#endif
#if N_IN > 4
                      OPERAND(e, E_T)
#endif
#if N_IN > 5
                      OPERAND(f, F_T)
#endif
                      global OUT_T *out, ulong out_at, ulong n, ulong span, float p, float q)
{
    const ulong first = get_global_id(0) * span;
    const ulong end = min(first + span, n);

    (void)p; /* where EXPR does not use them */
    (void)q;
    for (ulong i = first; i < end; i += CHARL_VEC) {
        const long left = (long)(n - i);
        const charl_real a = FETCHED(a, MODE_A, i, left);
#if N_IN > 1
        const charl_real b = FETCHED(b, MODE_B, i, left);
#endif
#if N_IN > 2
        const charl_real c = FETCHED(c, MODE_C, i, left);
#endif
#if N_IN > 3
        const charl_real d = FETCHED(d, MODE_D, i, left);
#endif
#if N_IN > 4
        const charl_real e = FETCHED(e, MODE_E, i, left);
#endif
#if N_IN > 5
        const charl_real f = FETCHED(f, MODE_F, i, left);
#endif
        charl_write(WHOLE > 0, CHARL_SPLAT(EXPR(a, b, c, d, e, f, p, q)), out + out_at + i, left);
    }
}
