/* max: largest element along one extent of [outer, n, inner], and where it is; and the gradient.
 *
 *   charl_max       value[o, i] = x[o, k, i], index[o, i] = k: the first of the largest, or the first NaN
 *   charl_gradient  out[o, j, i] = g[o, i] if j is index[o, i], else 0
 *
 * Specialised by   ACT
 * Launch           1-D: one work-item per element of the output.
 * Numerics         exact.
 */
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
