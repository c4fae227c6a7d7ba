/* accumulate: sum[i] += x[i] for i < n.
 *
 * Specialised by   ROUND  1: operands and sum are rounded to bf16, as nodes of the tree over slices (default 0)
 * Launch           a work-group of LOCAL for every EACH * LOCAL elements: with one element per work-item, a GPU spends its time on starting
 *                  work-groups.
 * Numerics         one rounding.
 */
#define ROUND 0
#define LOCAL 256
#define EACH 4
#define NODE(v) (ROUND ? bf16_load(bf16_round(v)) : (v))

__attribute__((reqd_work_group_size(LOCAL, 1, 1))) kernel void charl_accumulate(
    global float *sum, ulong sum_at, global const float *x, ulong x_at, long n)
{
    const long first = (long)get_group_id(0) * (EACH * LOCAL) + (long)get_local_id(0);
    float v[EACH];

    sum += sum_at;
    x += x_at;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const long i = min(first + e * LOCAL, n - 1);

        v[e] = NODE(NODE(sum[i]) + NODE(x[i]));
    }
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        if (first + e * LOCAL < n) {
            sum[first + e * LOCAL] = v[e];
        }
    }
}
