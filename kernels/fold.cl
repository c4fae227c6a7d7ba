/* fold: out[i] = sum over s < M of part[s * n + i], in the fixed binary tree of src/base/tree.h.
 *
 * A binary counter: acc[k] holds a complete node of 2^k leaves where bit k of the number of leaves read so far is set, so
 * M leaves need log2(M) + 1 registers.
 *
 * Specialised by   M  number of leaves: slices of a lane times parts of a slice, up to 64 * 64 (default 2)
 * Launch           one work-item per element, rounded up to the work-group.
 * Numerics         M - 1 additions; the order depends on M only.
 */
#ifndef M
#define M 2
#endif
#if M < 1 || M > 4096
#error "fold has 1 to 4096 leaves"
#endif
#define LEVELS                                                                                                                   \
    (1 + (M >= 2) + (M >= 4) + (M >= 8) + (M >= 16) + (M >= 32) + (M >= 64) + (M >= 128) + (M >= 256) + (M >= 512) +             \
     (M >= 1024) + (M >= 2048) + (M >= 4096))

kernel void charl_fold(global const float *part, ulong part_at, global float *out, ulong out_at, long n)
{
    const size_t i = get_global_id(0);
    float acc[LEVELS], sum = 0.0f;
    bool is_first = true;

    if (i >= (ulong)n) {
        return;
    }
    part += part_at + i;
    for (int s = 0; s < M; s++) {
        float node = part[(ulong)s * (ulong)n];
        bool carries = true;

#pragma unroll
        for (int k = 0; k < LEVELS; k++) {
            if (carries && (s >> k & 1) != 0) {
                node = acc[k] + node;
            } else if (carries) {
                acc[k] = node;
                carries = false;
            }
        }
    }
#pragma unroll
    for (int k = 0; k < LEVELS; k++) { /* an absent right child leaves the left one unchanged */
        if ((M >> k & 1) != 0) {
            sum = is_first ? acc[k] : acc[k] + sum;
            is_first = false;
        }
    }
    out[out_at + i] = sum;
}
