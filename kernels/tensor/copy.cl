/* copy: dst[i] = src[i]; fill: dst[i] = the low bits of `bits`.
 *
 * Specialised by   BITS  unsigned integer as wide as an element: elements travel as bits (default uint); copies also by uint4
 * Launch           one work-item per BITS, rounded up to the work-group.
 * Numerics         exact.
 */
#define BITS uint

kernel void charl_copy(global const BITS *src, ulong src_at, global BITS *dst, ulong dst_at, long n)
{
    const size_t i = get_global_id(0);

    if (i < (ulong)n) {
        dst[dst_at + i] = src[src_at + i];
    }
}

kernel void charl_fill(long bits, global BITS *dst, ulong dst_at, long n)
{
    const size_t i = get_global_id(0);

    if (i < (ulong)n) {
        dst[dst_at + i] = (BITS)bits;
    }
}
