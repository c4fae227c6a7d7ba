/* max: largest element along one extent of [outer, n, inner], and where it is; and the gradient.
 *
 *   charl_max       value[o, i] = x[o, k, i], index[o, i] = k: the first of the largest, or the first NaN
 *   charl_max_row   the same of [outer, n], whose rows are long
 *   charl_gradient  out[o, j, i] = g[o, i] if j is index[o, i], else 0
 *
 * Specialised by   ACT; GROUP of charl_max_row (default 256)
 * Launch           1-D: one work-item per element of the output; charl_max_row: a group of GROUP.
 * Numerics         exact.
 */
#define GROUP 256

/* Whether v at j stands before `best` at `at`. */
static inline bool is_before(float v, int j, float best, int at)
{
    const bool v_nan = v != v, best_nan = best != best;

    return v_nan || best_nan ? v_nan && (!best_nan || j < at) : v > best || (v == best && j < at);
}

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void charl_max_row(global const ACT *x, ulong x_at, global ACT *value,
                                                                             ulong value_at, global int *index,
                                                                             ulong index_at, int n)
{
    local float bests[GROUP];
    local int places[GROUP];
    const ulong u = get_group_id(0);
    const int lane = (int)get_local_id(0);
    float best = -INFINITY;
    int at = INT_MAX;

    x += x_at + u * (ulong)n;
#pragma unroll 8
    for (int j = lane; j < n; j += GROUP) {
        const float v = charl_get(x + j);
        const bool before = is_before(v, j, best, at);

        best = before ? v : best;
        at = before ? j : at;
    }
    bests[lane] = best;
    places[lane] = at;
    for (int s = GROUP / 2; s > 0; s /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < s && is_before(bests[lane + s], places[lane + s], bests[lane], places[lane])) {
            bests[lane] = bests[lane + s];
            places[lane] = places[lane + s];
        }
    }
    if (lane == 0) {
        charl_put(bests[0], value + value_at + u);
        index[index_at + u] = places[0];
    }
}

kernel void charl_max(global const ACT *x, ulong x_at, global ACT *value, ulong value_at, global int *index, ulong index_at,
                      ulong total, ulong n, ulong inner)
{
    const ulong u = get_global_id(0);
    float best;
    int at = 0;

    if (u >= total) {
        return;
    }
    x += x_at + u / inner * n * inner + u % inner;
    best = charl_get(x);
    for (ulong j = 1; j < n; j++) {
        const float v = charl_get(x + j * inner);

        if (v > best || (v != v && best == best)) {
            best = v;
            at = (int)j;
        }
    }
    charl_put(best, value + value_at + u);
    index[index_at + u] = at;
}

kernel void charl_gradient(global const ACT *g, ulong g_at, global const int *index, ulong index_at, global ACT *out,
                           ulong out_at, ulong total, ulong n, ulong inner)
{
    const ulong u = get_global_id(0);
    const ulong j = u / inner % n, from = u / (inner * n) * inner + u % inner;

    if (u < total) {
        charl_put((ulong)index[index_at + from] == j ? charl_get(g + g_at + from) : 0.0f, out + out_at + u);
    }
}
