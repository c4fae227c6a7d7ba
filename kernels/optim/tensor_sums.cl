/* tensor_sums: the sum of squares of every tensor of an arena, each in an order that depends on its size only.
 *
 * A chunk is up to 16 blocks of 64 elements of one tensor: lane l of 16 takes elements l, l + 16, ..., the lanes are added as a
 * binary tree. A tensor: lane l of 64 takes chunks l, l + 64, ..., then the same tree. Padding is zero.
 *
 * Launch           charl_chunk_squares: 16 work-items per chunk, work-group 64. charl_tensor_sum: one work-group of 64 per tensor.
 * Numerics         fma per square.
 */
#define LANES 16
#define GROUP 64

/* chunk[c] = {first block, blocks} */
kernel void charl_chunk_squares(global const float *x, ulong x_at, global const uint *chunk, ulong chunk_at, global float *out,
                                ulong out_at, long n_chunks)
{
    const ulong c = get_global_id(0) / LANES;
    const int item = (int)get_local_id(0), lane = item % LANES;
    local float part[GROUP];
    float acc = 0.0f;

    if (c < (ulong)n_chunks) {
        const ulong first = (ulong)chunk[chunk_at + 2 * c] * 64;
        const uint n = chunk[chunk_at + 2 * c + 1] * 64;

        for (uint k = (uint)lane; k < n; k += LANES) {
            const float v = x[x_at + first + k];

            acc = fma(v, v, acc);
        }
    }
    part[item] = acc;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int width = LANES / 2; width > 0; width /= 2) {
        if (lane < width) {
            part[item] += part[item + width];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (lane == 0 && c < (ulong)n_chunks) {
        out[out_at + c] = part[item];
    }
}

/* tensor[t] = {first chunk, chunks} */
kernel void charl_tensor_sum(global const float *partial, ulong partial_at, global const uint *tensor, ulong tensor_at,
                             global float *out, ulong out_at)
{
    const ulong t = get_group_id(0);
    const int lane = (int)get_local_id(0);
    const uint first = tensor[tensor_at + 2 * t], n = tensor[tensor_at + 2 * t + 1];
    local float part[GROUP];
    float acc = 0.0f;

    for (uint k = (uint)lane; k < n; k += GROUP) {
        acc += partial[partial_at + first + k];
    }
    part[lane] = acc;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int width = GROUP / 2; width > 0; width /= 2) {
        if (lane < width) {
            part[lane] += part[lane + width];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (lane == 0) {
        out[out_at + t] = part[0];
    }
}
