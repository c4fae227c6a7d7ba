/* reduce: sums of EXPR(a, b) over one extent of [outer, n, inner].
 *
 * The extent is cut into chunks, each summed in a fixed pattern; the host runs the kernel again over the chunk sums until one is left.
 *
 *   charl_reduce_rows     inner = 1: chunks of 4096, the row pattern of rows.clh. out [outer, chunks]
 *   charl_reduce_columns  chunks of 256 rows: row r of a chunk goes to accumulator r mod 4, in ascending order; then
 *                         (0 + 2) + (1 + 3). out [outer, chunks, inner]
 *
 * Specialised by   as reduce.clh
 * Launch           rows: src/autograd/launch/rows.c. columns: 1-D, each work-item sums `span` columns of a chunk.
 * Numerics         the order depends on n, and on whether inner is 1, only. out = sum * scale.
 */
#include "reduce/reduce.clh"

kernel void charl_reduce_rows(OPERANDS(a, b), global float *out, ulong out_at, ulong rows, ulong per_item, ulong n, ulong chunks,
                              float scale, float p, float q)
{
    global const A_T *a = a_ptr + a_at;
    global const B_T *b = B_PTR(b);

#if CHARL_ROW_ITEMS == 1
    const ulong first = get_global_id(0) * per_item;

    for (ulong u = first; u < min(first + per_item, rows); u++) {
        const ulong begin = u % chunks * ROW_CHUNK, at = u / chunks * n + begin;
        const int count = (int)min(n - begin, (ulong)ROW_CHUNK);

        out[out_at + u] = sum_chunk(a + at, b + at, count, 0, 0, p, q) * scale;
    }
#else
    (void)per_item;
    local charl_row_scratch scratch;
    const int t = (int)get_local_id(0) % CHARL_ROW_ITEMS;
    const ulong u = get_group_id(0) * (CHARL_ROW_GROUP / CHARL_ROW_ITEMS) + get_local_id(0) / CHARL_ROW_ITEMS;
    const ulong begin = u % chunks * ROW_CHUNK, at = u / chunks * n + begin;
    const int count = u < rows ? (int)min(n - begin, (ulong)ROW_CHUNK) : 0;
    const float sum = sum_chunk(a + at, b + at, count, t, &scratch, p, q);

    if (u < rows && t == 0) {
        out[out_at + u] = sum * scale;
    }
#endif
}

kernel void charl_reduce_columns(OPERANDS(a, b), global float *out, ulong out_at, ulong outer, ulong n, ulong inner, ulong chunks,
                                 ulong span, float scale, float p, float q)
{
    global const A_T *a = a_ptr + a_at;
    global const B_T *b = B_PTR(b);
    const ulong spans = (inner + span - 1) / span, unit = get_global_id(0) / spans; /* (outer, chunk) */
    const ulong first = get_global_id(0) % spans * span, begin = unit % chunks * COLUMN_CHUNK;
    const int rows = (int)min(n - begin, (ulong)COLUMN_CHUNK);

    if (unit >= outer * chunks) {
        return;
    }
    for (ulong col = first; col < min(first + span, inner); col += CHARL_VEC) {
        const ulong at = (unit / chunks * n + begin) * inner + col, end = outer * n * inner;
        const charl_real sum = sum_columns(a, b, at, end, rows, inner, p, q) * scale;

        charl_store(sum, out + out_at + unit * inner + col, (long)(inner - col));
    }
}
