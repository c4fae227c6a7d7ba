/* fold: out[i] = sum over s < M of part[s * n + i], in the fixed binary tree of src/base/numeric/tree.h.
 *
 * Specialised by   M          number of leaves: slices of a lane times parts of a slice, up to 64 * 64 (default 2)
 *                  ROUND      nodes of so many levels and more are rounded to bf16: see tree.clh
 *                  CHARL_VEC  4: n is a multiple of 4, and all begin at multiples of 16 bytes (default 1)
 *                  TWO        1: further results from as many leaves (default 0)
 *                  MOVED      1: element (i, c, t) of out [rows, channels, taps] is (i, t, c) of a leaf [rows, taps, padded]; CHARL_VEC is 1
 *                             (default 0)
 * Launch           one work-item per CHARL_VEC elements, rounded up to the work-group; then as many as the further results need.
 * Numerics         M - 1 additions; the order depends on M only. With ROUND every node of whole slices is rounded to bf16.
 */
#include "shared/tree.clh"

#define TWO 0
#define MOVED 0
#if MOVED
#define EXTENTS(channels, taps, padded) {channels, taps, padded}
#else
#define EXTENTS(channels, taps, padded) {0, 0, 0}
#endif

/* Of MOVED. */
typedef struct {
    uint channels, taps, padded;
} extents;

/* The elements from `at` on. */
static inline void fold(global const float *part, global float *out, ulong at, ulong n, const extents e)
{
    charl_real level[CHARL_TREE_LEVELS];
#if MOVED
    const uint to = (uint)at;
    const ulong from = (to / (e.channels * e.taps) * e.taps + to % e.taps) * e.padded + to / e.taps % e.channels;
    const ulong leaf = n / e.channels * e.padded;
#else
    const ulong from = at, leaf = n;

    (void)e;
#endif

    if (at >= n) {
        return;
    }
    for (int s = 0; s < M; s++) {
        charl_tree_add(level, s, *(global const charl_real *)(part + (ulong)s * leaf + from));
    }
    *(global charl_real *)(out + at) = charl_tree_sum(level);
}

kernel void charl_fold(global const float *part, ulong part_at, global float *out, ulong out_at, long n
#if TWO
                       , global const float *part2, ulong part2_at, global float *out2, ulong out2_at, long n2
#endif
#if MOVED
                       , uint channels, uint taps, uint padded
#endif
                       )
{
    const extents e = EXTENTS(channels, taps, padded);
    const ulong at = (ulong)get_global_id(0) * CHARL_VEC;

#if TWO
    const ulong group = get_local_size(0) * CHARL_VEC, first = ((ulong)n + group - 1) / group * group;

    if (at >= first) {
        fold(part2 + part2_at, out2 + out2_at, at - first, (ulong)n2, e);
        return;
    }
#endif
    fold(part + part_at, out + out_at, at, (ulong)n, e);
}
