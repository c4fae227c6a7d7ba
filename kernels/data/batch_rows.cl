/* batch_place, batch_take and batch_index: rows of this process and of the whole batch; see src/autograd/op/data/batch_rows.c.
 *
 *   charl_batch_place  out[i] = x[i - begin + from] for begin <= i < end, else -0: elements of the whole batch, of which a lane has those between
 *   charl_batch_take   out[i] = x[first + i]
 *   charl_batch_index  out[r] = first + r
 *
 * Launch    span elements for each work-item.
 * Numerics  exact. x + -0 is x for every x, so a sum of lanes holds what each placed.
 */
kernel void charl_batch_place(global const float *x, ulong x_at, global float *out, ulong out_at, ulong begin, ulong end,
                              ulong from, ulong n, ulong span)
{
    const ulong first = get_global_id(0) * span, last = min(first + span, n);

    for (ulong i = first; i < last; i++) {
        out[out_at + i] = i >= begin && i < end ? x[x_at + i - begin + from] : -0.0f;
    }
}

kernel void charl_batch_take(global const float *x, ulong x_at, global float *out, ulong out_at, ulong first, ulong n,
                             ulong span)
{
    const ulong begin = get_global_id(0) * span, end = min(begin + span, n);

    for (ulong i = begin; i < end; i++) {
        out[out_at + i] = x[x_at + first + i];
    }
}

kernel void charl_batch_index(global int *out, ulong out_at, ulong first, ulong n, ulong span)
{
    const ulong begin = get_global_id(0) * span, end = min(begin + span, n);

    for (ulong i = begin; i < end; i++) {
        out[out_at + i] = (int)(first + i);
    }
}
