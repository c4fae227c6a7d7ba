/* fold: out[i] = sum over s < M of part[s * n + i], in the fixed binary tree of src/base/tree.h.
 *
 * Specialised by   M      number of leaves: slices of a lane times parts of a slice, up to 64 * 64 (default 2)
 *                  ROUND  nodes of so many levels and more are rounded to bf16: see tree.clh
 * Launch           one work-item per element, rounded up to the work-group.
 * Numerics         M - 1 additions; the order depends on M only. With ROUND every node of whole slices is rounded to bf16.
 */
#include "tree.clh"

kernel void charl_fold(global const float *part, ulong part_at, global float *out, ulong out_at, long n)
{
    const size_t i = get_global_id(0);
    charl_real level[CHARL_TREE_LEVELS];

    if (i >= (ulong)n) {
        return;
    }
    part += part_at + i;
    for (int s = 0; s < M; s++) {
        charl_tree_add(level, s, part[(ulong)s * (ulong)n]);
    }
    out[out_at + i] = charl_tree_sum(level);
}
