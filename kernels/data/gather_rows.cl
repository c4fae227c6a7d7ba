/* gather_rows: out[r, j] = (source[row[r], j] - shift[c]) * scale[c], c = j / inner % channels.
 *
 * Specialised by   SRC   element type of the source (default float)
 *                  DST   element type of out: float or int (default float)
 *                  NORM  0|1: shift and scale (default 0: the value converted)
 *                  PADDED 1, with int from unsigned numbers: the largest one is padding and becomes -1
 *                  INDEX type that holds the number of an element in its row (default ulong)
 *                  PAIR  1: charl_gather_rows_pair, which gathers words of 32 bits from a second source in the same launch, BAD_2 where
 *                        there is no such row; the first `groups` work-groups are those of the first source
 * Launch           64 work-items per stretch of 64 elements of a row, in groups of 64; stretches go by row.
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
#ifndef PADDED
#define PADDED 0
#endif
#ifndef INDEX
#define INDEX ulong
#endif
#ifndef PAIR
#define PAIR 0
#endif
#ifndef BAD_2
#define BAD_2 0
#endif
#define STRETCH 64

/* Element j of row r. */
typedef struct {
    ulong r, j;
} place;

static inline place place_of(uint group, long n)
{
    const uint stretches = (uint)((n + STRETCH - 1) / STRETCH);
    const place p = {group / stretches, (ulong)(group % stretches) * STRETCH + get_local_id(0)};

    return p;
}

/* How elements are normalised. */
typedef struct {
    global const float *shift, *scale;
    long inner, channels;
} normalization;

/* It as arguments of a kernel, and made of those. */
#if NORM
#define NORM_ARGS(shift, scale, inner, channels) CHARL_ARGS(const float, shift), CHARL_ARGS(const float, scale), long inner, long channels,
#define NORM_OF(shift, scale, inner, channels) {shift + shift##_at, scale + scale##_at, inner, channels}
#else
#define NORM_ARGS(shift, scale, inner, channels)
#define NORM_OF(shift, scale, inner, channels) {0, 0, 1, 1}
#endif

static inline void gather(uint group, global const SRC *source, global const int *row, const normalization *by, global DST *out,
                          long n, long source_rows)
{
    const place p = place_of(group, n);
    int from;

    if (p.j >= (ulong)n) {
        return;
    }
    (void)by;
    from = row[p.r];
    out += p.r * (ulong)n + p.j;
    if (from < 0 || from >= source_rows) {
#if DST_IS_FLOAT
        *out = NAN;
#else
        *out = -1;
#endif
        return;
    }
    source += (ulong)from * (ulong)n + p.j;
#if NORM
    {
        const INDEX c = by->channels == 1 ? 0 : (INDEX)p.j / (INDEX)by->inner % (INDEX)by->channels;

        *out = ((float)*source - by->shift[c]) * by->scale[c];
    }
#elif PADDED
    *out = *source == (SRC)-1 ? -1 : (DST)*source;
#else
    *out = (DST)*source;
#endif
}

#if !PAIR
kernel void charl_gather_rows(global const SRC *source, ulong source_at, global const int *row, ulong row_at,
                              NORM_ARGS(shift, scale, inner, channels) global DST *out, ulong out_at, long n,
                              long source_rows)
{
    const normalization by = NORM_OF(shift, scale, inner, channels);

    gather((uint)get_group_id(0), source + source_at, row + row_at, &by, out + out_at, n, source_rows);
}
#else
static inline void gather_words(uint group, global const uint *source, global const int *row, global uint *out, long n,
                                long source_rows)
{
    const place p = place_of(group, n);

    if (p.j < (ulong)n) {
        const int from = row[p.r];

        out[p.r * (ulong)n + p.j] = from < 0 || from >= source_rows ? (uint)BAD_2 : source[(ulong)from * (ulong)n + p.j];
    }
}

kernel void charl_gather_rows_pair(global const SRC *source, ulong source_at, global const int *row, ulong row_at,
                                   NORM_ARGS(shift, scale, inner, channels) global DST *out, ulong out_at, long n,
                                   long source_rows, global const uint *source_2, ulong source_at_2,
                                   global const int *row_2, ulong row_at_2, global uint *out_2, ulong out_at_2, long n_2,
                                   long source_rows_2, int groups)
{
    const normalization by = NORM_OF(shift, scale, inner, channels);
    const uint group = (uint)get_group_id(0);

    if (group < (uint)groups) {
        gather(group, source + source_at, row + row_at, &by, out + out_at, n, source_rows);
    } else {
        gather_words(group - (uint)groups, source_2 + source_at_2, row_2 + row_at_2, out_2 + out_at_2, n_2, source_rows_2);
    }
}
#endif
