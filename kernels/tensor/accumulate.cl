/* accumulate: sum[i] += x[i].
 *
 * Specialised by   ROUND  1: operands and sum are rounded to bf16, as nodes of the tree over slices (default 0)
 * Launch           one work-item per element, a multiple of the work-group (64).
 * Numerics         one rounding.
 */
#ifndef ROUND
#define ROUND 0
#endif
#define NODE(v) (ROUND ? bf16_load(bf16_round(v)) : (v))

kernel void charl_accumulate(global float *sum, ulong sum_at, global const float *x, ulong x_at)
{
    const size_t i = get_global_id(0);

    sum[sum_at + i] = NODE(NODE(sum[sum_at + i]) + NODE(x[x_at + i]));
}
