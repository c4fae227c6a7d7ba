/* gather_rows: out[r, j] = (source[row[r], j] - shift[c]) * scale[c], c = j / inner % channels.
 *
 * Specialised by   SRC   element type of the source (default float)
 *                  DST   element type of out: float or int (default float)
 *                  NORM  0|1: shift and scale (default 0: the value converted)
 *                  PADDED 1, with int from unsigned numbers: the largest one is padding and becomes -1
 *                  INDEX type that holds the number of an element in its row (default ulong)
 *                  PAIR  1: charl_gather_rows_pair, which gathers words of 32 bits from a second source in the same launch, BAD_2 where
 *                        there is no such row; the first `groups` work-groups are those of the first source
 *                  STRETCH  elements of a row that a work-group has, a multiple of 64 (default 64); of the second source 64
 * Launch           groups of 64 work-items, one per stretch of a row; stretches go by row.
 * Numerics         one rounding per operation. A row number outside the source gives NaN, or -1 for int.
 */
#include "data/gather_args.h"

#define SRC float
#ifndef DST
#define DST float
#define DST_IS_FLOAT 1
#endif
#ifndef DST_IS_FLOAT
#define DST_IS_FLOAT 0
#endif
#define NORM 0
#define PADDED 0
#define INDEX ulong
#define PAIR 0
#define BAD_2 0
#define STRETCH 64
#define GROUP 64

/* Element j of row r. */
typedef struct {
    ulong r, j;
} place;

static inline place place_of(uint group, long n, const uint stretch)
{
    const uint stretches = (uint)((n + stretch - 1) / stretch);
    const place p = {group / stretches, (ulong)(group % stretches) * stretch + get_local_id(0)};

    return p;
}

static inline void gather(uint group, global const SRC *source, global const int *row, global const float *shift, global const float *scale,
                          global DST *out, const charl__gather_args *args)
{
    const ulong n = (ulong)args->n;
    const place p = place_of(group, args->n, STRETCH);
    const int from = row[args->row + p.r];
    const bool is_there = from >= 0 && from < args->source_rows;

    out += args->out + p.r * n;
    source += args->source + (is_there ? (ulong)from * n : 0);
#pragma unroll
    for (int i = 0; i < STRETCH / GROUP; i++) {
        const ulong j = p.j + (ulong)(GROUP * i);

        if (j >= n) {
            return;
        }
        if (!is_there) {
            out[j] = DST_IS_FLOAT ? (DST)NAN : (DST)-1;
        } else if (NORM) {
            const INDEX c = args->channels == 1 ? 0 : (INDEX)j / (INDEX)args->inner % (INDEX)args->channels;

            out[j] = ((float)source[j] - shift[args->shift + c]) * scale[args->scale + c];
        } else {
            out[j] = PADDED && source[j] == (SRC)-1 ? (DST)-1 : (DST)source[j];
        }
    }
}

#if !PAIR
kernel void charl_gather_rows(global const SRC *source, global const int *row, global const float *shift, global const float *scale, global DST *out,
                              const charl__gather_args args)
{
    gather((uint)get_group_id(0), source, row, shift, scale, out, &args);
}
#else
static inline void gather_words(uint group, global const uint *source, global const int *row, global uint *out, const charl__gather_args *args)
{
    const place p = place_of(group, args->n, GROUP);

    if (p.j < (ulong)args->n) {
        const int from = row[args->row + p.r];

        out[args->out + p.r * (ulong)args->n + p.j] =
            from < 0 || from >= args->source_rows ? (uint)BAD_2 : source[args->source + (ulong)from * (ulong)args->n + p.j];
    }
}

kernel void charl_gather_rows_pair(global const SRC *source, global const int *row, global const float *shift, global const float *scale,
                                   global DST *out, const charl__gather_args args, global const uint *source_2, global const int *row_2,
                                   global const float *shift_2, global const float *scale_2, global uint *out_2, const charl__gather_args args_2,
                                   int groups)
{
    const uint group = (uint)get_group_id(0);

    (void)shift_2, (void)scale_2;
    if (group < (uint)groups) {
        gather(group, source, row, shift, scale, out, &args);
    } else {
        gather_words(group - (uint)groups, source_2, row_2, out_2, &args_2);
    }
}
#endif
