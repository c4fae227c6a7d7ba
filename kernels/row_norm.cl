/* row_norm: rows of n elements, h = (x - mean) * invstd. layer_norm: with the row's mean, invstd = 1 / sqrt(variance + eps);
 * rms_norm: mean is 0 and invstd = 1 / sqrt(mean of x^2 + eps).
 *
 *   charl_normalize  out = h * w + b; with ADD, x being x + y, and sum = x + y
 *   charl_gradient   out = invstd * (u - mean(u) - h * mean(u * h)), u = g * w, without mean(u) for rms_norm; with EXTRA, plus extra
 *   charl_stats      out[r] = (mean, invstd)
 *   charl_sums       out[s][b][0][c] = sum over the rows of block b of slice s of g * h, and for layer_norm out[s][b][1][c] = sum of g;
 *                    blocks of 64 rows, whose sums the host adds up with reduce.cl
 *
 * Specialised by   ACT      type of x, y, g, extra, sum and out; w, b and all sums over rows are float
 *                  CENTRED  1 layer_norm, 0 rms_norm (default 1)
 *                  AFFINE   0 neither w nor b, 1 w, 2 both (default 0)
 *                  ADD      1: charl_normalize has y and sum (default 0)
 *                  EXTRA    1: charl_gradient has extra (default 0)
 *                  CHARL_VEC, CHARL_ROW_ITEMS, CHARL_ROW_ACCS: see rows.clh
 * Launch           src/autograd/rows.c; charl_sums: one work-item per block and CHARL_VEC columns.
 * Numerics         fixed order (rows.clh), two passes for the variance; charl_sums: row r of a block goes to accumulator r mod 4, then
 *                  (0 + 2) + (1 + 3). A sum x + y is normalised before it is rounded to ACT.
 */
#ifndef CENTRED
#define CENTRED 1
#endif
#ifndef ADD
#define ADD 0
#endif
#ifndef EXTRA
#define EXTRA 0
#endif
#ifndef AFFINE
#define AFFINE 0
#endif
#define BLOCK 64 /* rows that charl_sums adds up at once: part of the result */

#if CHARL_ROW_ITEMS == 1
#define ROWS(r)                                                                                                                  \
    const ulong first = get_global_id(0) * per_item;                                                                             \
    int t = 0;                                                                                                                   \
    local float *scratch = 0;                                                                                                    \
    for (ulong r = first; r < min(first + per_item, rows); r++)
#else
#define ROWS(r)                                                                                                                  \
    local float memory[CHARL_ROW_GROUP];                                                                                         \
    local float *scratch = memory;                                                                                               \
    const int t = (int)get_local_id(0) % CHARL_ROW_ITEMS;                                                                        \
    const ulong first = get_group_id(0) * (CHARL_ROW_GROUP / CHARL_ROW_ITEMS) + get_local_id(0) / CHARL_ROW_ITEMS;               \
    (void)per_item;                                                                                                              \
    for (ulong r = first; r == first; r++) /* all work-items of a group come, for the barriers */
#endif

/* Elements of a row that this work-item visits, acc[k] being theirs. */
#define EACH(j, k)                                                                                                               \
    for (int block = 0; block < n; block += CHARL_ROW_WIDTH)                                                                     \
        for (int k = 0, j = charl_row_at(block, 0, t); k < CHARL_ROW_ACCS; k++, j = charl_row_at(block, k, t))                   \
            if (j < n)

static inline void clear(charl_real *acc)
{
    for (int k = 0; k < CHARL_ROW_ACCS; k++) {
        acc[k] = CHARL_SPLAT(0.0f);
    }
}

/* Elements j .. of a row: x, or x + y. */
static inline charl_real value(global const ACT *x, global const ACT *y, int j, int n)
{
#if ADD
    return charl_load(x + j, n - j) + charl_load(y + j, n - j);
#else
    (void)y;
    return charl_load(x + j, n - j);
#endif
}

/* Mean and inverse standard deviation of a row; n is 0 for a row that does not exist. */
static inline float2 stats(global const ACT *x, global const ACT *y, int n, float eps, int t, local float *scratch)
{
    charl_real acc[CHARL_ROW_ACCS];
    float mean = 0.0f, var;

#if CENTRED
    clear(acc);
    EACH(j, k)
    {
        acc[k] = acc[k] + value(x, y, j, n);
    }
    mean = charl_row_sum(acc, scratch) / (float)n;
#endif
    clear(acc);
    EACH(j, k)
    {
        const charl_real d = value(x, y, j, n) - mean;

        acc[k] = acc[k] + charl_keep(d * d, n - j, 0.0f);
    }
    var = charl_row_sum(acc, scratch) / (float)n;
    return (float2)(mean, 1.0f / sqrt(var + eps));
}

#if ADD
#define AND_Y     global const ACT *y, ulong y_at,
#define AND_SUM   global ACT *sum, ulong sum_at,
#define ROW_OF_Y(r) (y + y_at + (r) * size)
#else
#define AND_Y
#define AND_SUM
#define ROW_OF_Y(r) (x + x_at + (r) * size)
#endif
#if EXTRA
#define AND_EXTRA global const ACT *extra, ulong extra_at,
#else
#define AND_EXTRA
#endif

kernel void charl_normalize(global const ACT *x, ulong x_at, AND_Y global const float *w, ulong w_at, global const float *b, ulong b_at,
                            AND_SUM global ACT *out, ulong out_at, ulong rows, ulong per_item, ulong size, float eps)
{
    (void)w, (void)w_at, (void)b, (void)b_at; /* AFFINE decides */
    ROWS(r)
    {
        const int n = r < rows ? (int)size : 0;
        global const ACT *xr = x + x_at + r * size, *yr = ROW_OF_Y(r);
        const float2 s = stats(xr, yr, n, eps, t, scratch);

        for (int j = t * CHARL_VEC; j < n; j += CHARL_ROW_ITEMS * CHARL_VEC) {
            const charl_real v = value(xr, yr, j, n);
            charl_real h = (v - s.x) * s.y;

#if AFFINE > 0
            h = h * charl_load(w + w_at + j, n - j);
#endif
#if AFFINE > 1
            h = h + charl_load(b + b_at + j, n - j);
#endif
            charl_store(h, out + out_at + r * size + j, n - j);
#if ADD
            charl_store(v, sum + sum_at + r * size + j, n - j); /* last: sum may be an operand's memory */
#endif
        }
    }
}

kernel void charl_gradient(global const ACT *g, ulong g_at, global const ACT *x, ulong x_at, global const float *w, ulong w_at,
                           AND_EXTRA global ACT *out, ulong out_at, ulong rows, ulong per_item, ulong size, float eps)
{
    (void)w, (void)w_at;
    ROWS(r)
    {
        const int n = r < rows ? (int)size : 0;
        global const ACT *gr = g + g_at + r * size, *xr = x + x_at + r * size;
        const float2 s = stats(xr, xr, n, eps, t, scratch);
        charl_real a[CHARL_ROW_ACCS], b[CHARL_ROW_ACCS];
        float s0 = 0.0f, s1;

#if AFFINE > 0
#define U(j) (charl_load(gr + (j), n - (j)) * charl_load(w + w_at + (j), n - (j))) /* absent elements are 0 */
#else
#define U(j) charl_load(gr + (j), n - (j))
#endif
#define H(j) ((charl_load(xr + (j), n - (j)) - s.x) * s.y)
        clear(a);
        clear(b);
        EACH(j, k)
        {
#if CENTRED
            a[k] = a[k] + U(j);
#endif
            b[k] = b[k] + charl_keep(U(j) * H(j), n - j, 0.0f);
        }
#if CENTRED
        s0 = charl_row_sum(a, scratch) / (float)n;
#endif
        s1 = charl_row_sum(b, scratch) / (float)n;
        for (int j = t * CHARL_VEC; j < n; j += CHARL_ROW_ITEMS * CHARL_VEC) {
            charl_real v = s.y * (U(j) - s0 - H(j) * s1);

#if EXTRA
            v = v + charl_load(extra + extra_at + r * size + j, n - j);
#endif
            charl_store(v, out + out_at + r * size + j, n - j);
        }
    }
}

kernel void charl_stats(global const ACT *x, ulong x_at, global float *out, ulong out_at, ulong rows, ulong per_item, ulong size,
                        float eps)
{
    ROWS(r)
    {
        const int n = r < rows ? (int)size : 0;
        const float2 s = stats(x + x_at + r * size, x, n, eps, t, scratch);

        if (r < rows && t == 0) {
            out[out_at + 2 * r] = s.x;
            out[out_at + 2 * r + 1] = s.y;
        }
    }
}

kernel void charl_sums(global const ACT *g, ulong g_at, global const ACT *x, ulong x_at, global const float *stat, ulong stat_at,
                       global float *out, ulong out_at, ulong slices, ulong rows, ulong size)
{
    const ulong groups = (size + CHARL_VEC - 1) / CHARL_VEC, unit = get_global_id(0) / groups; /* (slice, block) */
    const ulong c = get_global_id(0) % groups * CHARL_VEC, end = slices * rows * size;
    const ulong blocks = max((rows + BLOCK - 1) / BLOCK, (ulong)1), first = unit % blocks * BLOCK;
    const int count = (int)min(rows - first, (ulong)BLOCK);
    const long left = (long)(size - c);
    charl_real a[4], b[4];

    if (unit >= slices * blocks) {
        return;
    }
    for (int k = 0; k < 4; k++) {
        a[k] = b[k] = CHARL_SPLAT(0.0f);
    }
    for (int r = 0; r < count; r += 4) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            if (r + k < count) { /* lanes beyond the row hold the next one, and are not written */
                const ulong row = unit / blocks * rows + first + (ulong)(r + k), i = row * size + c;
                const charl_real gi = charl_load(g + g_at + i, (long)(end - i));
                const charl_real d = charl_load(x + x_at + i, (long)(end - i)) - stat[stat_at + 2 * row];

                a[k] = a[k] + gi * (d * stat[stat_at + 2 * row + 1]);
                b[k] = b[k] + gi;
            }
        }
    }
    out += out_at + unit * (CENTRED ? 2 : 1) * size + c;
    charl_store((a[0] + a[2]) + (a[1] + a[3]), out, left);
#if CENTRED
    charl_store((b[0] + b[2]) + (b[1] + b[3]), out + size, left);
#endif
}
