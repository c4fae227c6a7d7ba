/* persistent_gradient: the gradients of all steps of a recurrent network in one launch, on NVIDIA devices; the bits of
 * recurrent/recurrent.cl with a product for each step.
 *
 *   charl_persistent_gradient  out, the gradient of pre, and for gru that of q, from gh, that of h, and from what the forward pass saved
 *
 * From the last step to the first. gh and h are [batch, steps, H], saved [batch, steps, SAVED * H], out and out_inner
 * [batch, steps, GATES * H], w [GATES * H, H]. `state` has the gradients of q of two steps, [2][batch][GATES * H]: as in persistent.cl.
 *
 * Specialised by   as persistent.cl, without BIAS
 * Launch           as persistent.cl
 */
#define GATES       4
#define H           32
#define ROWS        16
#define UNITS       16
#define CHUNK       32
#define BUFFERS     2
#define LOCAL_BYTES 16384
#include "recurrent/recurrent_args.h"
#include "nvidia/ptx/warp.clh"
#include "nvidia/ptx/copy.clh"
#include "nvidia/ptx/local.clh"
#include "nvidia/ptx/mma.clh"
#include "nvidia/ptx/grid.clh"
#include "recurrent/cell.clh"

#define DEPTH (GATES * H)
#define SUMS  1
#include "nvidia/recurrent/persistent_tile.clh"

#define SAVED (GATES == 4 ? 5 : 4)

/* Column u is column unit0 + u of w_hh, [GATES * H, H]. */
static inline void weights_load(const tile *t, global const ACT *w)
{
#pragma unroll 8
    for (int e = (int)get_local_id(0); e < UNITS * DEPTH; e += LANES) {
        const int column = e % UNITS, k = e / UNITS, unit = t->unit0 + column;

        t->w[column * W_PITCH + k] = unit < H ? charl_get(w + (long)k * H + unit) : 0.0f;
    }
}

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void charl_persistent_gradient(
    global const ACT *gh, ulong gh_at,
#if GATES == 3
    global const ACT *h, ulong h_at,
#endif
    global const float *saved, ulong saved_at, global const ACT *w, ulong w_at, global ACT *out, ulong out_at,
#if GATES == 3
    global ACT *out_inner, ulong out_inner_at,
#endif
    global float *state, global uint *words, const charl__recurrent_args args)
{
    const int batch = args.batch, steps = (int)args.steps;
    local float4 memory[LOCAL_BYTES / 16] __attribute__((aligned(128)));
    const tile t = tile_of(memory, words, batch);
    const int unit = unit_of(&t);
    bool has[CELLS];
    float carry[CELLS] = {0.0f, 0.0f}; /* what goes to the step before by itself */

    for (int r = 0; r < CELLS; r++) {
        has[r] = has_element(&t, r);
        carry[r] = 0.0f;
    }
    weights_load(&t, w + w_at);
    for (int turn = 0; turn < steps; turn++) {
        const int step = steps - 1 - turn;
        global float *const now = state + args.state + (long)(turn % 2) * batch * DEPTH;
        global const float *const then = state + args.state + (long)((turn + 1) % 2) * batch * DEPTH;
        float dh[CELLS], before[CELLS], sum[CELLS][SUMS] = {{0.0f}};
#if GATES == 4
        lstm_gates s[CELLS], d[CELLS];
#else
        gru_gates s[CELLS], d[CELLS];
#endif

#pragma unroll
        for (int r = 0; r < CELLS; r++) {
            const long at = (long)row_of(&t, r) * steps + step;
            global const float *const kept = saved + saved_at + at * SAVED * H + unit;

            dh[r] = before[r] = 0.0f;
#if GATES == 4
            s[r] = (lstm_gates){0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
            if (has[r]) {
                s[r] = (lstm_gates){kept[0], kept[H], kept[2 * H], kept[3 * H], kept[4 * H]};
                before[r] = step > 0 ? kept[-H] : 0.0f; /* c of the step before */
            }
#else
            s[r] = (gru_gates){0.0f, 0.0f, 0.0f, 0.0f};
            if (has[r]) {
                s[r] = (gru_gates){kept[0], kept[H], kept[2 * H], kept[3 * H]};
                before[r] = step > 0 ? charl_get(h + h_at + (at - 1) * H + unit) : 0.0f;
            }
#endif
            if (has[r]) {
                dh[r] = charl_get(gh + gh_at + at * H + unit);
            }
        }
        if (turn > 0) {
            tile_sums(&t, then, (uint)turn * BLOCKS, sum);
        }
#pragma unroll
        for (int r = 0; r < CELLS; r++) {
            global float *const give = now + (long)row_of(&t, r) * DEPTH + unit;

#if GATES == 4
            if (turn > 0) {
                dh[r] = dh[r] + sum[r][0];
            }
            d[r] = lstm_slopes_of(s[r], before[r], dh[r], turn == 0, carry[r], false, s[r]);
            carry[r] = d[r].c;
            if (has[r]) {
                give[0] = d[r].i;
                give[H] = d[r].f;
                give[2 * H] = d[r].g;
                give[3 * H] = d[r].o;
            }
#else
            if (turn > 0) {
                dh[r] = dh[r] + (sum[r][0] + carry[r]);
            }
            d[r] = gru_slopes_of(s[r], before[r], dh[r], false, s[r]);
            carry[r] = dh[r] * s[r].z;
            if (has[r]) {
                give[0] = d[r].r;
                give[H] = d[r].z;
                give[2 * H] = d[r].q;
            }
#endif
        }
        if (turn + 1 < steps) {
            tile_arrive(&t);
        }
        /* What only the results need, while others may go on. */
#pragma unroll
        for (int r = 0; r < CELLS; r++) {
            const long at = ((long)row_of(&t, r) * steps + step) * DEPTH + unit;

            if (has[r]) {
#if GATES == 4
                charl_put(d[r].i, out + out_at + at);
                charl_put(d[r].f, out + out_at + at + H);
                charl_put(d[r].g, out + out_at + at + 2 * H);
                charl_put(d[r].o, out + out_at + at + 3 * H);
#else
                charl_put(d[r].r, out + out_at + at);
                charl_put(d[r].z, out + out_at + at + H);
                charl_put(d[r].n, out + out_at + at + 2 * H);
                charl_put(d[r].r, out_inner + out_inner_at + at);
                charl_put(d[r].z, out_inner + out_inner_at + at + H);
                charl_put(d[r].q, out_inner + out_inner_at + at + 2 * H);
#endif
            }
        }
    }
    tile_leave(&t, (uint)steps * BLOCKS);
}
