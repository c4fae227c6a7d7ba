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
#define N_IN 1
#define EXPR(a, b, c, d, e, f, p, q) a
#define MODE_A 0
#define A_T float
#define B_T float
#define C_T float
#define D_T float
#define E_T float
#define F_T float
#define OUT_T float
#define MODE_B 0
#define MODE_C 0
#define MODE_D 0
#define MODE_E 0
#define MODE_F 0

#include "elementwise/map_args.h"
#include "elementwise/broadcast.clh"

/* Elements i .. of operand k, x, of which `left` exist; 0 where there is no such operand. */
#define ELEMENTS(args, k, x, mode, i, left) (mode == 0 ? charl_read(WHOLE > 0, x + i, left) : broadcast(x, i, args.inner[k], args.count[k]))
#define FETCHED(args, k, x, mode, i, left) (N_IN > k ? ELEMENTS(args, k, (x##_in + args.at[k]), mode, i, left) : CHARL_SPLAT(0.0f))

kernel void charl_map(global const A_T *a_in, global const B_T *b_in, global const C_T *c_in, global const D_T *d_in, global const E_T *e_in,
                      global const F_T *f_in, global OUT_T *out, const charl__map_args args)
{
    const ulong first = get_global_id(0) * args.span, end = min(first + args.span, args.n);
    const float p = args.p, q = args.q;

    out += args.out;
    for (ulong i = first; i < end; i += CHARL_VEC) {
        const long left = (long)(args.n - i);
        const charl_real a = FETCHED(args, 0, a, MODE_A, i, left), b = FETCHED(args, 1, b, MODE_B, i, left), c = FETCHED(args, 2, c, MODE_C, i, left);
        const charl_real d = FETCHED(args, 3, d, MODE_D, i, left), e = FETCHED(args, 4, e, MODE_E, i, left), f = FETCHED(args, 5, f, MODE_F, i, left);

        (void)p, (void)q, (void)b, (void)c, (void)d, (void)e, (void)f; /* where EXPR does not use them */
        charl_write(WHOLE > 0, CHARL_SPLAT(EXPR(a, b, c, d, e, f, p, q)), out + i, left);
    }
}
