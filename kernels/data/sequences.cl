/* padded_sequences and sequence_mask: see src/autograd/op/data/sequences.c.
 *
 *   charl_padded_sequences  tokens[b, t] = max(x[b, t], 0)   length[b] = before + max(1, numbers before the first negative one)
 *   charl_sequence_mask     out[b, t] = t < length[b] ? 1 : 0, or, with `last`, t == length[b] - 1 ? 1 : 0
 *
 * Launch    charl_padded_sequences: a work-group of 64 per row. charl_sequence_mask: {positions rounded up to 64, rows}, work-group {64, 1}.
 * Numerics  exact.
 */
#define GROUP 64

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
charl_padded_sequences(global const int *x, ulong x_at, global int *tokens, ulong tokens_at, global int *length,
                       ulong length_at, int positions, int before)
{
    local int ends[GROUP];
    const int lane = (int)get_local_id(0);
    const ulong row = get_group_id(0);
    int end = positions;

    x += x_at + row * (ulong)positions;
    tokens += tokens_at + row * (ulong)positions;
    for (int t = lane; t < positions; t += GROUP) {
        tokens[t] = max(x[t], 0);
        end = x[t] < 0 ? min(end, t) : end;
    }
    ends[lane] = end;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane == 0) {
        for (int i = 0; i < GROUP; i++) {
            end = min(end, ends[i]);
        }
        length[length_at + row] = before + max(end, 1);
    }
}

kernel void charl_sequence_mask(global const int *length, ulong length_at, global float *out, ulong out_at,
                                int positions, int last)
{
    const int t = (int)get_global_id(0);
    const ulong row = get_global_id(1);

    if (t < positions) {
        const int end = length[length_at + row];

        out[out_at + row * (ulong)positions + (ulong)t] = t < end && (!last || t == end - 1) ? 1.0f : 0.0f;
    }
}
