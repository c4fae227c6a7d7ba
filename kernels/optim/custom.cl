/* custom: an optimizer that a program has registered. Its texts are put where the macros stand.
 *
 * charl_custom          CHARL_UPDATE, which changes p and states; or with CHARL_DIRECTS the text CHARL_DIRECTION, which assigns d, kept in an arena
 *                       of its own
 * charl_custom_fold     CHARL_FOLD, which changes the state s of a row, column or matrix by the mean of CHARL_MEASURE over it
 *
 * Specialised by   CHARL_STATES 0..6; CHARL_SETTINGS, declarations of the settings; CHARL_WHOLE 1: a launch covers one parameter, whose states may
 *                  be those of rows, columns and matrices
 * Launch           one work-item per CHARL_VEC elements: see optim.clh; one without CHARL_WHOLE 0. A fold: one work-group of 64 per line.
 * Numerics         a fold adds by 64 lanes and a tree, in an order that depends on the length of the line only.
 */
#include "optim/update_args.h"
#include "optim/custom_args.h"
#include "optim/optim.clh"
#define CHARL_STATES 0
#define CHARL_WHOLE 0
#define CHARL_DIRECTS 0
#define CHARL_DIRECTED 0 /* 1: there is a direction */
#define CHARL_SETTINGS
#define CHARL_DIRECTION(d, p, g, lr, weight_decay, scalar0, scalar1, grad_norm, s0, s1, s2, s3, s4, s5) d = g;
#define CHARL_UPDATE(d, p, g, lr, weight_decay, scalar0, scalar1, grad_norm, s0, s1, s2, s3, s4, s5) p -= lr * g;
#define CHARL_MEASURE(p, g) 0.0f
#define CHARL_FOLD(s, mean, scalar0, scalar1)
#define GROUP 64

/* Where state k of element i stands. */
static inline ulong charl_custom_place(const charl__custom_args *own, const charl__update_args *all, int k, ulong i)
{
    if (CHARL_WHOLE) {
        const ulong rows = (ulong)all->rows, cols = (ulong)all->cols, row = i / cols;
        const ulong place[] = {i, row, row / rows * cols + i % cols, row / rows};

        return own->state[k] + place[own->shape[k]];
    }
    return own->state[k] + all->kept + i;
}

static inline charl_real charl_custom_get(const charl__custom_args *own, const charl__update_args *all, int k, global const float *state, ulong i)
{
    return k < CHARL_STATES ? charl_aligned(state + charl_custom_place(own, all, k, i)) : CHARL_SPLAT(0.0f);
}

/* States of more than an element are folded, not updated. */
static inline void charl_custom_put(const charl__custom_args *own, const charl__update_args *all, int k, charl_real s, global float *state, ulong i)
{
    const bool is_of_elements = CHARL_WHOLE ? own->shape[k] == 0 : true;

    if (k < CHARL_STATES && is_of_elements) {
        charl_put_aligned(s, state + charl_custom_place(own, all, k, i));
    }
}

kernel void charl_custom(CHARL_UPDATE_PARAMS(arena), global float *state0, global float *state1, global float *state2, global float *state3,
                         global float *state4, global float *state5, global float *direction, global const float *square,
                         const charl__custom_args own)
{
    const charl_updates all = CHARL_UPDATES(arena);
    const size_t at = charl_update_first();

    if (CHARL_DIRECTS) {
        if (at < all.extent && at >= (ulong)arena_args.n) {
            direction[own.direction + at] = 0.0f; /* blocks are padded */
        }
    }
    if (at >= (CHARL_WHOLE ? (ulong)arena_args.n : all.extent) || !charl_update_is_due(all.step, all.norm)) {
        return;
    }
    {
        const charl_update u = charl_update_at(&all, at);
        const charl_real g = u.g;
        const float lr = u.lr, weight_decay = u.decay, grad_norm = all.norm->norm;
        const float scalar0 = charl_update_scalar(all.norm, 0), scalar1 = charl_update_scalar(all.norm, 1);
        const float param_norm = CHARL_DIRECTED ? sqrt(square[own.square + own.tensor]) : 0.0f;
        const float direction_norm = CHARL_DIRECTED ? sqrt(square[own.square + own.count + own.tensor]) : 0.0f;
        const float size = (float)arena_args.n;
        const int dims = own.dims;
        charl_real p = u.p, d = CHARL_DIRECTED ? charl_aligned(direction + own.direction + at) : CHARL_SPLAT(0.0f);
        charl_real s0 = charl_custom_get(&own, &arena_args, 0, state0, at), s1 = charl_custom_get(&own, &arena_args, 1, state1, at);
        charl_real s2 = charl_custom_get(&own, &arena_args, 2, state2, at), s3 = charl_custom_get(&own, &arena_args, 3, state3, at);
        charl_real s4 = charl_custom_get(&own, &arena_args, 4, state4, at), s5 = charl_custom_get(&own, &arena_args, 5, state5, at);

        CHARL_SETTINGS
        (void)g, (void)lr, (void)weight_decay, (void)scalar0, (void)scalar1, (void)grad_norm, (void)param_norm, (void)direction_norm,
            (void)size, (void)dims;
        if (CHARL_DIRECTS) {
            CHARL_DIRECTION(d, p, g, lr, weight_decay, scalar0, scalar1, grad_norm, s0, s1, s2, s3, s4, s5)
            charl_put_aligned(d, direction + own.direction + at);
        } else {
            CHARL_UPDATE(d, p, g, lr, weight_decay, scalar0, scalar1, grad_norm, s0, s1, s2, s3, s4, s5)
            charl_update_put(&all, p, at);
        }
        charl_custom_put(&own, &arena_args, 0, s0, state0, at);
        charl_custom_put(&own, &arena_args, 1, s1, state1, at);
        charl_custom_put(&own, &arena_args, 2, s2, state2, at);
        charl_custom_put(&own, &arena_args, 3, s3, state3, at);
        charl_custom_put(&own, &arena_args, 4, s4, state4, at);
        charl_custom_put(&own, &arena_args, 5, s5, state5, at);
    }
}

kernel void charl_custom_fold(CHARL_UPDATE_PARAMS(arena), global float *state, const charl__custom_args own)
{
    const charl_updates all = CHARL_UPDATES(arena);
    const ulong line = get_group_id(0), first = line / own.inner * own.outer + line % own.inner;
    const int lane = (int)get_local_id(0);
    const float scalar0 = charl_update_scalar(all.norm, 0), scalar1 = charl_update_scalar(all.norm, 1);
    local float part[GROUP];
    float acc = 0.0f;
    CHARL_SETTINGS

    for (ulong j = (ulong)lane; j < own.n; j += GROUP) {
        const ulong i = first + j * own.stride;
        const float p = all.param[i], g = all.grad[i] * all.norm->factor;

        (void)p, (void)g;
        acc += CHARL_MEASURE(p, g);
    }
    part[lane] = acc;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int width = GROUP / 2; width > 0; width /= 2) {
        if (lane < width) {
            part[lane] += part[lane + width];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (lane == 0 && charl_update_is_due(all.step, all.norm)) {
        const float mean = part[0] / (float)own.n;
        float s = state[own.state[0] + line];

        (void)scalar0, (void)scalar1, (void)mean;
        CHARL_FOLD(s, mean, scalar0, scalar1)
        state[own.state[0] + line] = s;
    }
}
