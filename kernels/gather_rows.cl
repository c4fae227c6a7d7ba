/* gather_rows: out[r, j] = (source[row[r], j] - shift[c]) * scale[c], c = j / inner % channels.
 *
 * Specialised by   SRC   element type of the source (default float)
 *                  DST   element type of out: float or int (default float)
 *                  NORM  0|1: shift and scale (default 0: the value converted)
 *                  INDEX type that holds the number of an element in its row (default ulong)
 * Launch           {elements of a row rounded up to 64, rows}, work-group {64, 1}.
 * Numerics         one rounding per operation. A row number outside the source gives NaN, or -1 for int.
 */
#ifndef SRC
#define SRC float
#endif
#ifndef DST
#define DST float
#define DST_IS_FLOAT 1
#endif
#ifndef DST_IS_FLOAT
#define DST_IS_FLOAT 0
#endif
#ifndef NORM
#define NORM 0
#endif
#ifndef INDEX
#define INDEX ulong
#endif

kernel void charl_gather_rows(global const SRC *source, ulong source_at, global const int *row, ulong row_at,
#if NORM
                              global const float *shift, ulong shift_at, global const float *scale, ulong scale_at,
                              long inner, long channels,
#endif
                              global DST *out, ulong out_at, long n, long source_rows)
{
    const size_t j = get_global_id(0), r = get_global_id(1);
    const int from = row[row_at + r];

    if (j >= (ulong)n) {
        return;
    }
    out += out_at + r * (ulong)n + j;
    if (from < 0 || from >= source_rows) {
#if DST_IS_FLOAT
        *out = NAN;
#else
        *out = -1;
#endif
        return;
    }
#if NORM
    {
        const INDEX c = channels == 1 ? 0 : (INDEX)j / (INDEX)inner % (INDEX)channels;

        *out = ((float)source[source_at + (ulong)from * (ulong)n + j] - shift[shift_at + c]) * scale[scale_at + c];
    }
#else
    *out = (DST)source[source_at + (ulong)from * (ulong)n + j];
#endif
}
