/* chain: several elementwise operators in one pass over memory, with broadcasting and random numbers.
 *
 * Specialised by   OPERANDS    parameters of the kernel, each followed by a comma: what is read and written, numbers, keys
 *                  BODY        statements that read elements i .. i + CHARL_VEC - 1, compute, and write those of the `left` that
 *                              exist (src/autograd/chain.c writes them)
 *                  DRAWS       how many operators draw random numbers (default 1)
 *                  CHARL_VEC   elements at a time (default 1)
 *                  INDEX       see broadcast.clh
 * Launch           1-D; each work-item computes `span` elements, a multiple of CHARL_VEC. An output may be an operand of full shape
 *                  and the same element size: all are read before one is written.
 * Numerics         what the operators give one by one: the result of each is rounded to the type that it would have in memory.
 */
#include "broadcast.clh"
#include "philox.clh"

#ifndef OPERANDS
#define OPERANDS global float *y0, ulong y0_at, global const uint *record, ulong record_at,
#endif
#ifndef BODY
#define BODY                                                                                                           \
    DRAW(0, 0, 0);                                                                                                     \
    charl_store(draw, y0 + y0_at + i, left);
#endif
#ifndef DRAWS
#define DRAWS 1
#endif

/* Random numbers for DRAWN elements from `at` on, as whole numbers of 24 bits. Where vectors are long, as many blocks as a vector
 * has lanes cost little more than one. */
#if CHARL_VEC > 8
#define DRAWN (4 * CHARL_VEC)
static inline void draw_words(ulong key, ulong step, ulong block, uint word[])
{
    ulong position[CHARL_VEC];
    words w[4];

    for (int l = 0; l < CHARL_VEC; l++) {
        position[l] = block + (ulong)l;
    }
    draw_blocks(key, step, CHARL_VLOAD(position), w);
    in_order(w, word);
}
#else
#define DRAWN CHARL_VEC
static inline void draw_words(ulong key, ulong step, ulong block, uint word[])
{
    for (int l = 0; 4 * l < DRAWN; l++) {
        charl_rng_u32x4(key, step, block + (ulong)l, word + 4 * l);
    }
}
#endif

static inline void draw_numbers(ulong key, ulong step, ulong at, float *drawn)
{
    if (at % 4 == 0) {
        uint word[(DRAWN + 3) / 4 * 4];

        draw_words(key, step, at / 4, word);
        for (int j = 0; j < DRAWN; j++) {
            drawn[j] = (float)(word[j] >> 8);
        }
    } else { /* seldom: rows of odd length */
        for (int j = 0; j < DRAWN; j++) {
            drawn[j] = (float)(charl_rng_u32(key, step, at + (ulong)j) >> 8);
        }
    }
}

/* Those of element i of the launch, element base + i of the global batch, for operator k; `done` elements are behind. */
#if DRAWN > CHARL_VEC
#define DRAW(k, name_hash, base)                                                                                       \
    if (done % DRAWN == 0) {                                                                                           \
        draw_numbers(seed ^ name_hash, number, base + i, drawn[k]);                                                    \
    }                                                                                                                  \
    const charl_real draw = CHARL_VLOAD(drawn[k] + done % DRAWN)
#else
#define DRAW(k, name_hash, base)                                                                                       \
    draw_numbers(seed ^ name_hash, number, base + i, drawn[k]);                                                        \
    const charl_real draw = CHARL_VLOAD(drawn[k])
#endif

kernel void charl_chain(OPERANDS ulong n, ulong span)
{
    const ulong first = get_global_id(0) * span;
    const ulong end = min(first + span, n);
#if DRAWS > 0
    global const charl_step *step = charl_step_at(record, record_at);
    const ulong seed = (ulong)step->seed_hi << 32 | step->seed_lo;
    const ulong number = (ulong)step->step_hi << 32 | step->step_lo;
    float drawn[DRAWS][DRAWN];
#endif

    for (ulong i = first; i < end; i += CHARL_VEC) {
        const long left = (long)(n - i);
#if DRAWS > 0
        const uint done = (uint)(i - first);

        (void)done;
#endif

        BODY
    }
}
