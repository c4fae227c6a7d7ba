/* gather_windows: out[r, j] = tokens[start[r] + offset + j] for j < length.
 *
 * Specialised by   SRC   element type of the tokens (default uchar)
 *                  OUT   int (the default), or float where the tokens are weights
 * Launch           {length rounded up to 64, rows}, work-group {64, 1}.
 * Numerics         exact. A position outside [0, n) gives -1.
 */
#define SRC uchar
#define OUT int

kernel void charl_gather_windows(global const SRC *tokens, ulong tokens_at, global const int *start, ulong start_at,
                                 global OUT *out, ulong out_at, long length, long offset, long n)
{
    const long j = (long)get_global_id(0);
    const size_t r = get_global_id(1);
    const long from = start[start_at + r] + offset + j;

    if (j < length) {
        out[out_at + r * (ulong)length + (ulong)j] =
            from >= 0 && from < n ? (OUT)tokens[tokens_at + (ulong)from] : (OUT)-1;
    }
}
