/* accumulate: sum[i] += x[i].
 *
 * Launch           one work-item per element, a multiple of the work-group (64).
 * Numerics         one rounding.
 */
kernel void charl_accumulate(global float *sum, ulong sum_at, global const float *x, ulong x_at)
{
    const size_t i = get_global_id(0);

    sum[sum_at + i] += x[x_at + i];
}
