/* document_starts and document_positions: see src/autograd/op/data/document_starts.c.
 *
 *   charl_document_starts     out[r, t] = max(0, d - row[r]), d = the last of n documents, ascending, that begins at or before row[r] + t
 *   charl_document_positions  out[r, t] = max(0, t - start[r, t])
 *
 * Launch    {length rounded up to 64, rows}, work-group {64, 1}.
 * Numerics  exact.
 */
kernel void charl_document_starts(global const int *document, ulong document_at, global const int *row, ulong row_at,
                                  global int *out, ulong out_at, long length, long n)
{
    const long t = (long)get_global_id(0);
    const size_t r = get_global_id(1);
    const long first = row[row_at + r];
    long low = 0, high = n; /* document `low` begins at or before the token, document `high` behind it */

    while (high - low > 1) {
        const long middle = (low + high) / 2;

        if (document[document_at + (ulong)middle] <= first + t) {
            low = middle;
        } else {
            high = middle;
        }
    }
    if (t < length) {
        out[out_at + r * (ulong)length + (ulong)t] = max(0, document[document_at + (ulong)low] - (int)first);
    }
}

kernel void charl_document_positions(global const int *start, ulong start_at, global int *out, ulong out_at,
                                     long length)
{
    const long t = (long)get_global_id(0);
    const ulong at = get_global_id(1) * (ulong)length + (ulong)t;

    if (t < length) {
        out[out_at + at] = max(0, (int)t - start[start_at + at]);
    }
}
