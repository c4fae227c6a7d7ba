/* chain: several elementwise operators in one pass over memory, with broadcasting and random numbers.
 *
 * Specialised by   OPERANDS(record)  parameters of the kernel, each followed by a comma: what is read and written, numbers, keys, and, where
 *                                    random numbers are drawn, the step parameters by that name (default: only those)
 *                  BODY(first, i, left, drawn, done, seed, number)   statements that read elements i .. i + CHARL_VEC - 1, compute, and
 *                                    write those of the `left` that exist (src/autograd/fuse/chain.c writes them; default: draw)
 *                  BEFORE(first)     statements that read what all elements of a work-item share, once (default none)
 *                  STRIDED           1: a work-item's vectors are `span` elements apart, else side by side (default 0)
 *                  USES_RNG          how many operators draw random numbers (default 1)
 *                  CHARL_VEC         elements at a time (default 1)
 *                  INDEX             see broadcast.clh
 * Launch           1-D; each work-item computes `span` elements, a multiple of CHARL_VEC, or, with STRIDED, every vector that is
 *                  `span`, the launch's work-items times CHARL_VEC, from the one before. An output may be an operand of full shape
 *                  and the same element size: all are read before one is written.
 * Numerics         what the operators give one by one: the result of each is rounded to the type that it would have in memory.
 */
#include "elementwise/broadcast.clh"
#include "shared/philox.clh"
#define DRAWN (CHARL_VEC > 8 ? 4 * CHARL_VEC : CHARL_VEC)
#include "shared/rng.clh"

#define OPERANDS(record) global const uint *record, ulong record##_at,
#define BODY(first, i, left, drawn, done, seed, number) (void)drawn_at(drawn[0], done, seed, number, i);
#define USES_RNG 1

#define BEFORE(first)
#define STRIDED 0

/* Those of element `at` of the global batch, and what follows, for an operator that keeps DRAWN of them; `done` elements of the work-item are
 * behind. */
static inline charl_real drawn_at(float *drawn, uint done, ulong key, ulong number, ulong at)
{
    const uint i = DRAWN > CHARL_VEC ? done % DRAWN : 0;

    if (i == 0) {
        draw_numbers(key, number, at, drawn);
    }
    return CHARL_VLOAD(drawn + i);
}

kernel void charl_chain(OPERANDS(record) ulong n, ulong span)
{
    const ulong first = get_global_id(0) * (STRIDED ? CHARL_VEC : span), next = STRIDED ? span : CHARL_VEC;
    const ulong end = STRIDED ? n : min(first + span, n);
#if USES_RNG > 0
    global const charl_step_params *step = charl_step_at(record, record_at);
    const ulong seed = (ulong)step->seed_hi << 32 | step->seed_lo;
    const ulong number = (ulong)step->step_hi << 32 | step->step_lo;
    float drawn[USES_RNG][DRAWN];
#endif

    if (first >= end) {
        return;
    }
    BEFORE(first)
    for (ulong i = first; i < end; i += next) {
        const long left = (long)(n - i);
        const uint done = (uint)(i - first);

        (void)done, (void)left;
        BODY(first, i, left, drawn, done, seed, number)
    }
}
