/* row_norm: rows of n elements, h = (x - mean) * invstd. layer_norm: with the row's mean, invstd = 1 / sqrt(variance + eps);
 * rms_norm: mean is 0 and invstd = 1 / sqrt(mean of x^2 + eps).
 *
 *   charl_normalize  out = h * w + b; with ADD, x being x + y, and sum = x + y
 *   charl_gradient   out = invstd * (u - mean(u) - h * mean(u * h)), u = g * w, without mean(u) for rms_norm; with EXTRA, plus extra
 *   charl_stats      out[r] = (mean, invstd)
 *
 * Specialised by   ACT      type of x, y, g, extra, sum and out; w, b and all sums over rows are float
 *                  CENTRED  1 layer_norm, 0 rms_norm (default 1)
 *                  AFFINE   0 neither w nor b, 1 w, 2 both (default 0)
 *                  ADD      1: charl_normalize has y and sum (default 0)
 *                  EXTRA    1: charl_gradient has extra (default 0)
 *                  KEEP     blocks of CHARL_ROW_WIDTH that cover a row, whose elements a work-item then reads once and keeps; 0: it
 *                           reads them each time (default 0)
 *                  CHARL_VEC, CHARL_ROW_ITEMS, CHARL_ROW_ACCS: see rows.clh
 * Launch           src/autograd/rows.c.
 * Numerics         fixed order (rows.clh), two passes for the variance. A sum x + y is normalised before it is rounded to ACT.
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
#ifndef KEEP
#define KEEP 0
#endif

#if CHARL_ROW_ITEMS == 1
#define ROWS(r)                                                                                                                  \
    const ulong first = get_global_id(0) * per_item;                                                                             \
    int t = 0;                                                                                                                   \
    local float *scratch = 0;                                                                                                    \
    for (ulong r = first; r < min(first + per_item, rows); r++)
#else
#define ROWS(r)                                                                                                                  \
    local float memory[CHARL_ROW_SCRATCH];                                                                                         \
    local float *scratch = memory;                                                                                               \
    const int t = (int)get_local_id(0) % CHARL_ROW_ITEMS;                                                                        \
    const ulong first = get_group_id(0) * (CHARL_ROW_GROUP / CHARL_ROW_ITEMS) + get_local_id(0) / CHARL_ROW_ITEMS;               \
    (void)per_item;                                                                                                              \
    for (ulong r = first; r == first; r++) /* all work-items of a group come, for the barriers */
#endif

/* Elements of a row that this work-item visits, acc[k] being theirs; number i of what it keeps. */
#if KEEP
#define EACH(i, j, k)                                                                                                            \
    _Pragma("unroll") for (int i = 0, k = 0, j = t * CHARL_VEC; i < KEEP; i++, j += CHARL_ROW_WIDTH) if (j < n)
#define KEPT(kept, i, value) kept[i]
#else
#define EACH(i, j, k)                                                                                                            \
    for (int i = 0, block = 0; block < n; i++, block += CHARL_ROW_WIDTH)                                                         \
        for (int k = 0, j = charl_row_at(block, 0, t); k < CHARL_ROW_ACCS; k++, j = charl_row_at(block, k, t))                   \
            if (j < n)
#define KEPT(kept, i, value) (value)
#endif

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

/* Mean and inverse standard deviation of a row; n is 0 for a row that does not exist. kept: its elements, where KEEP. */
static inline float2 stats(const charl_real *kept, global const ACT *x, global const ACT *y, int n, float eps, int t,
                           local float *scratch)
{
    charl_real acc[CHARL_ROW_ACCS];
    float mean = 0.0f, var;

    (void)kept;
#if CENTRED
    clear(acc);
    EACH(i, j, k)
    {
        acc[k] = acc[k] + KEPT(kept, i, value(x, y, j, n));
    }
    mean = charl_row_sum(acc, scratch) / (float)n;
#endif
    clear(acc);
    EACH(i, j, k)
    {
        const charl_real d = KEPT(kept, i, value(x, y, j, n)) - mean;

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
        charl_real kept[KEEP + 1];
        float2 s;

#if KEEP
        EACH(i, j, k)
        {
            kept[i] = value(xr, yr, j, n);
        }
#endif
        s = stats(kept, xr, yr, n, eps, t, scratch);
        EACH(i, j, k)
        {
            const charl_real v = KEPT(kept, i, value(xr, yr, j, n));
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
        charl_real a[CHARL_ROW_ACCS], b[CHARL_ROW_ACCS], kept[KEEP + 1], slope[KEEP + 1];
        float s0 = 0.0f, s1;
        float2 s;

#if AFFINE > 0
#define LOAD_U(j) (charl_load(gr + (j), n - (j)) * charl_load(w + w_at + (j), n - (j))) /* absent elements are 0 */
#else
#define LOAD_U(j) charl_load(gr + (j), n - (j))
#endif
#define U(i, j) KEPT(slope, i, LOAD_U(j))
#define H(i, j) ((KEPT(kept, i, charl_load(xr + (j), n - (j))) - s.x) * s.y)
#if KEEP
        EACH(i, j, k)
        {
            kept[i] = charl_load(xr + j, n - j);
            slope[i] = LOAD_U(j);
        }
#endif
        s = stats(kept, xr, xr, n, eps, t, scratch);
        clear(a);
        clear(b);
        EACH(i, j, k)
        {
#if CENTRED
            a[k] = a[k] + U(i, j);
#endif
            b[k] = b[k] + charl_keep(U(i, j) * H(i, j), n - j, 0.0f);
        }
#if CENTRED
        s0 = charl_row_sum(a, scratch) / (float)n;
#endif
        s1 = charl_row_sum(b, scratch) / (float)n;
        EACH(i, j, k)
        {
            charl_real v = s.y * (U(i, j) - s0 - H(i, j) * s1);

#if EXTRA
            v = v + charl_load(extra + extra_at + r * size + j, n - j);
#endif
            charl_store(v, out + out_at + r * size + j, n - j);
        }
        (void)kept, (void)slope;
    }
}

kernel void charl_stats(global const ACT *x, ulong x_at, global float *out, ulong out_at, ulong rows, ulong per_item, ulong size,
                        float eps)
{
    ROWS(r)
    {
        const int n = r < rows ? (int)size : 0;
        global const ACT *xr = x + x_at + r * size;
        charl_real kept[KEEP + 1];
        float2 s;

#if KEEP
        EACH(i, j, k)
        {
            kept[i] = charl_load(xr + j, n - j);
        }
#endif
        s = stats(kept, xr, xr, n, eps, t, scratch);
        if (r < rows && t == 0) {
            out[out_at + 2 * r] = s.x;
            out[out_at + 2 * r + 1] = s.y;
        }
    }
}
