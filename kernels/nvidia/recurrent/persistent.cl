/* persistent: all steps of a recurrent network in one launch, on NVIDIA devices; the bits of recurrent/recurrent.cl with a product for
 * each step.
 *
 *   charl_persistent  h and saved from pre, and from w_hh and its bias: the equations are those of recurrent/cell.clh
 *
 * pre is [batch, steps, GATES * H], h [batch, steps, H], saved [batch, steps, SAVED * H], w [GATES * H, H]. `state` has the h of two
 * steps, [2][batch][H]: step t writes part t % 2 and reads the other. No work-group still reads what it writes there: all have arrived
 * after step t - 1, for which they read that part. `words` are 0 before and after.
 *
 * Specialised by   GATES      4: lstm, 3: gru
 *                  H          hidden size, a multiple of 4
 *                  ROWS, UNITS, CHUNK, BUFFERS, LOCAL_BYTES: see persistent_tile.clh; src/autograd/op/recurrent/persistent.c chooses
 *                  ACT        type of pre, w and h; all else is float
 *                  BIAS       1: gru has a bias (default 0)
 * Launch           a work-group of ROWS / 2 * UNITS per tile, no more than the device runs at a time
 */
#define GATES       4
#define H           32
#define ROWS        16
#define UNITS       16
#define CHUNK       32
#define BUFFERS     2
#define LOCAL_BYTES 16384
#define BIAS 0
#include "recurrent/recurrent_args.h"
#include "nvidia/ptx/warp.clh"
#include "nvidia/ptx/copy.clh"
#include "nvidia/ptx/local.clh"
#include "nvidia/ptx/mma.clh"
#include "nvidia/ptx/grid.clh"
#include "recurrent/cell.clh"

#define DEPTH H
#define SUMS  GATES
#include "nvidia/recurrent/persistent_tile.clh"

#define SAVED (GATES == 4 ? 5 : 4)

/* Column c * UNITS + u is row c * H + unit0 + u of w_hh, [GATES * H, H]. */
static inline void weights_load(const tile *t, global const ACT *w)
{
#pragma unroll 8
    for (int e = (int)get_local_id(0); e < UNITS * GATES * H; e += LANES) {
        const int column = e / H, k = e % H, unit = t->unit0 + column % UNITS;

        t->w[column * W_PITCH + k] = unit < H ? charl_get(w + (long)(column / UNITS * H + unit) * H + k) : 0.0f;
    }
}

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void charl_persistent(
    global const ACT *pre, ulong pre_at, global const ACT *w, ulong w_at,
#if BIAS
    global const float *bias, ulong bias_at,
#endif
    global ACT *h, ulong h_at, global float *saved, ulong saved_at, global float *state, global uint *words, const charl__recurrent_args args)
{
    const int batch = args.batch, steps = (int)args.steps;
    local float4 memory[LOCAL_BYTES / 16] __attribute__((aligned(128)));
    const tile t = tile_of(memory, words, batch);
    const int unit = unit_of(&t);
    bool has[CELLS];
    float before[CELLS], q[GATES] = {0.0f}; /* before: c of lstm, h of gru */

#if BIAS
    for (int c = 0; c < GATES && unit < H; c++) {
        q[c] = bias[bias_at + c * H + unit];
    }
#endif
    for (int r = 0; r < CELLS; r++) {
        has[r] = has_element(&t, r);
        before[r] = 0.0f;
    }
    weights_load(&t, w + w_at);
    for (int step = 0; step < steps; step++) {
        global float *const now = state + args.state + (long)(step % 2) * batch * H;
        global const float *const then = state + args.state + (long)((step + 1) % 2) * batch * H;
        float p[CELLS][GATES], sum[CELLS][GATES], y[CELLS];
#if GATES == 4
        lstm_gates s[CELLS];
#else
        gru_gates s[CELLS];
#endif

#pragma unroll
        for (int r = 0; r < CELLS; r++) {
#pragma unroll
            for (int c = 0; c < GATES; c++) {
                p[r][c] = has[r] ? charl_get(pre + pre_at + (((long)row_of(&t, r) * steps + step) * GATES + c) * H + unit) : 0.0f;
                sum[r][c] = 0.0f;
            }
        }
        if (step > 0) {
            tile_sums(&t, then, (uint)step * BLOCKS, sum);
        }
#pragma unroll
        for (int r = 0; r < CELLS; r++) {
#if GATES == 4
            if (step > 0) {
                for (int c = 0; c < GATES; c++) {
                    p[r][c] = p[r][c] + sum[r][c];
                }
            }
            s[r] = lstm_gates_of(p[r][0], p[r][1], p[r][2], p[r][3], step == 0, before[r]);
            y[r] = lstm_output(s[r]);
            before[r] = s[r].c;
#else
            if (BIAS) {
                for (int c = 0; c < GATES; c++) {
                    sum[r][c] = sum[r][c] + q[c];
                }
            }
            s[r] = gru_gates_of(p[r][0], p[r][1], p[r][2], sum[r][0], sum[r][1], sum[r][2]);
            y[r] = before[r] = gru_output(s[r], before[r]);
#endif
            if (has[r]) {
                now[(long)row_of(&t, r) * H + unit] = y[r];
            }
        }
        if (step + 1 < steps) {
            tile_arrive(&t);
        }
        /* What only the results need, while others may go on. */
#pragma unroll
        for (int r = 0; r < CELLS; r++) {
            const long at = (long)row_of(&t, r) * steps + step;
            global float *const keep = saved + saved_at + at * SAVED * H + unit;

            if (has[r]) {
                charl_put(y[r], h + h_at + at * H + unit);
#if GATES == 4
                keep[0] = s[r].i;
                keep[H] = s[r].f;
                keep[2 * H] = s[r].g;
                keep[3 * H] = s[r].o;
                keep[4 * H] = s[r].c;
#else
                keep[0] = s[r].r;
                keep[H] = s[r].z;
                keep[2 * H] = s[r].n;
                keep[3 * H] = s[r].q;
#endif
            }
        }
    }
    (void)q;
    tile_leave(&t, (uint)steps * BLOCKS);
}
