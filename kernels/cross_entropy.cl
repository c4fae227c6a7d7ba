/* cross_entropy: loss of rows of n logits against a class each.
 *
 *   charl_loss  out[r] = w * (log(s) - (1 - smooth) * (x[label] - m) - smooth / n * sum of (x - m)),  lse[r] = m + log(s)
 *
 * with m = max of the row, s = sum of exp(x - m), w = weight[r] or 1. A label outside 0 .. n - 1 gives NaN; so does a NaN logit.
 *
 * Specialised by   WEIGHT     1: there is a weight operand (default 0)
 *                  SMOOTHING  1: smooth is not 0 (default 0)
 *                  CHUNKS     1: n > CHUNK. A row has a whole work-group where it has several work-items (default 0)
 *                  KEEP       blocks of CHARL_ROW_WIDTH in a chunk, which a work-item then reads once and keeps; 0: it reads twice (default 0)
 *                  ACT        type of the logits; everything else is float
 *                  CHARL_VEC  CHARL_ROW_ITEMS  CHARL_ROW_ACCS  see rows.clh
 * Launch           src/autograd/rows.c; with CHUNKS and several work-items to a row, a work-group for each row.
 * Algorithm        a row is cut into chunks of CHUNK elements, each read once: its maximum m_c and the sum s_c of exp(x - m_c). Then
 *                  m = max of m_c, s = sum of s_c exp(m_c - m) in ascending c; rows of more than PARTS chunks so many at a time.
 *                  (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018, with chunks for single elements.)
 * Numerics         fixed order: rows.clh within a chunk. exp: charl_exp_for, so of half types another one than of float.
 */
#ifndef WEIGHT
#define WEIGHT 0
#endif
#ifndef SMOOTHING
#define SMOOTHING 0
#endif
#ifndef CHUNKS
#define CHUNKS 0
#endif
#ifndef KEEP
#define KEEP 0
#endif
#define CHUNK 1024
#define PARTS 256

/* Elements of a chunk that this work-item visits: number i of what it keeps, acc[k] being theirs. */
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

/* Of a chunk, or of a row as far as it has been read; work-items that share a row share its parts. */
typedef struct {
    float max, sum, rest; /* m, sum of exp(x - m), with SMOOTHING sum of x - m */
} part;

static inline void clear(charl_real *acc, float value)
{
    for (int k = 0; k < CHARL_ROW_ACCS; k++) {
        acc[k] = CHARL_SPLAT(value);
    }
}

/* Where all elements are -infinity, 0: then every exp(x - m) is 0. */
static inline float finite_of(float max)
{
    return max == -INFINITY ? 0.0f : max;
}

/* Of n elements; whole: charl_read's, and then a vector is read again for those that are not there. */
static inline part part_of(bool whole, global const ACT *x, int n, int t, local float *scratch)
{
    charl_real acc[CHARL_ROW_ACCS], kept[KEEP + 1];
    part p = {0.0f, 0.0f, 0.0f};
    float m;

#if KEEP
    _Pragma("unroll") for (int i = 0, j = t * CHARL_VEC; i < KEEP; i++, j += CHARL_ROW_WIDTH) if (whole || j < n)
    {
        kept[i] = charl_read(whole, x + (whole ? min(j, n - CHARL_VEC) : j), n - j);
    }
#endif
    clear(acc, -INFINITY);
    EACH(i, j, k)
    {
        const charl_real v = KEPT(kept, i, charl_load(x + j, n - j));

        acc[k] = charl_maximum(acc[k], whole ? v : charl_keep(v, n - j, -INFINITY));
    }
    p.max = charl_row_max(acc, scratch);
    m = finite_of(p.max);
    clear(acc, 0.0f);
    EACH(i, j, k)
    {
        const charl_real e = charl_exp_for(KEPT(kept, i, charl_load(x + j, n - j)) - m, sizeof(ACT));

        acc[k] = acc[k] + (whole ? e : charl_keep(e, n - j, 0.0f));
    }
    p.sum = charl_row_sum(acc, scratch);
#if SMOOTHING
    clear(acc, 0.0f);
    EACH(i, j, k)
    {
        acc[k] = acc[k] + charl_keep(KEPT(kept, i, charl_load(x + j, n - j)) - m, n - j, 0.0f);
    }
    p.rest = charl_row_sum(acc, scratch);
#endif
    (void)kept;
    return p;
}

#if CHARL_ROW_ITEMS == 1
#define SHARED
#define TEAMS          1
#define ITEM_OF_ROW    0
#define ITEMS_OF_ROW   1
#define ALL_ARE_HERE() (void)0
#else
#define SHARED         local
#define TEAMS          (CHARL_ROW_GROUP / CHARL_ROW_ITEMS)
#define ITEM_OF_ROW    (int)get_local_id(0)
#define ITEMS_OF_ROW   CHARL_ROW_GROUP
#define ALL_ARE_HERE() barrier(CLK_LOCAL_MEM_FENCE)
#endif

#if CHUNKS
/* The row as far as it has been read, and `count` chunks more; of[c].rest is the number of elements times m_c apart. */
static inline part add_parts(part row, SHARED part *of, int count, int last)
{
    const float before = row.max;
    float m;

    for (int c = 0; c < count; c++) {
        row.max = charl_max1(row.max, of[c].max);
    }
    m = finite_of(row.max);
    ALL_ARE_HERE();
    for (int c = ITEM_OF_ROW; c < count; c += ITEMS_OF_ROW) {
        of[c].sum = of[c].sum * charl_lane0(charl_exp(CHARL_SPLAT(of[c].max - m)));
        of[c].rest = of[c].rest + (float)(c == count - 1 ? last : CHUNK) * (finite_of(of[c].max) - m);
    }
    ALL_ARE_HERE();
    row.sum = row.sum * charl_lane0(charl_exp(CHARL_SPLAT(before - m)));
    for (int c = 0; c < count; c++) {
        row.sum = row.sum + of[c].sum;
        row.rest = row.rest + of[c].rest;
    }
    return row;
}
#endif

/* of: memory for PARTS parts where CHUNKS. */
static inline part row_of(bool whole, global const ACT *x, int n, SHARED part *of, int t, local float *scratch)
{
#if CHUNKS
    const int team = ITEM_OF_ROW / CHARL_ROW_ITEMS;
    part row = {-INFINITY, 0.0f, 0.0f};

    for (int first = 0; first < n; first += PARTS * CHUNK) {
        const int count = min((n - first + CHUNK - 1) / CHUNK, PARTS);
        const int last = min(n - first - (count - 1) * CHUNK, CHUNK);
        const float before = finite_of(row.max);

        ALL_ARE_HERE(); /* earlier parts have been read */
        for (int c = team; c - team < count; c += TEAMS) {
            const int at = min(c, count - 1) * CHUNK + first; /* those beyond the last do it once more */
            const part p = part_of(whole, x + at, min(n - at, CHUNK), t, scratch);

            if (t == 0 && c < count) {
                of[c] = p;
            }
        }
        ALL_ARE_HERE();
        row = add_parts(row, of, count, last);
        row.rest = row.rest + (float)first * (before - finite_of(row.max));
    }
    return row;
#else
    (void)of;
    return part_of(whole, x, n, t, scratch);
#endif
}

/* (loss, lse) */
static inline float2 loss_of(global const ACT *x, part row, int label, float smooth, int n)
{
    const float log_sum = charl_lane0(charl_log(CHARL_SPLAT(row.sum)));
    float y = log_sum;

#if SMOOTHING
    y = y - smooth / (float)n * row.rest;
#endif
    y = label >= 0 && label < n ? y - (1.0f - smooth) * (charl_get(x + label) - row.max) : NAN;
    return (float2)(y, row.max + log_sum);
}

#if WEIGHT
#define WEIGHT_OPERAND global const float *weight, ulong weight_at,
#define WEIGHT_OF(r)   weight[weight_at + (r)]
#else
#define WEIGHT_OPERAND
#define WEIGHT_OF(r) 1.0f
#endif

kernel void charl_loss(global const ACT *x, ulong x_at, global const int *label, ulong label_at,
                       WEIGHT_OPERAND global float *out, ulong out_at, global float *lse, ulong lse_at, ulong rows, ulong per_item,
                       ulong n, float smooth)
{
    SHARED part of[CHUNKS ? PARTS : 1];
#if CHARL_ROW_ITEMS == 1
    const ulong first = get_global_id(0) * per_item;

    for (ulong r = first; r < min(first + per_item, rows); r++) {
        global const ACT *xr = x + x_at + r * n;
        const float2 y = loss_of(xr, row_of(false, xr, (int)n, of, 0, 0), label[label_at + r], smooth, (int)n);

        out[out_at + r] = y.x * WEIGHT_OF(r);
        lse[lse_at + r] = y.y;
    }
#else
    local float scratch[CHARL_ROW_SCRATCH];
    const ulong r = CHUNKS ? get_group_id(0) : get_global_id(0) / CHARL_ROW_ITEMS;
    const int t = (int)get_local_id(0) % CHARL_ROW_ITEMS;
    global const ACT *xr = x + x_at + min(r, rows - 1) * n; /* all of a group come: some once more for the last row */
    const bool whole = n % 8 == 0 && CHARL_IS_ALIGNED(x + x_at);
    const part row = whole ? row_of(true, xr, (int)n, of, t, scratch) : row_of(false, xr, (int)n, of, t, scratch);

    (void)per_item;
    if (r < rows && (CHUNKS ? ITEM_OF_ROW : t) == 0) {
        const float2 y = loss_of(xr, row, label[label_at + r], smooth, (int)n);

        out[out_at + r] = y.x * WEIGHT_OF(r);
        lse[lse_at + r] = y.y;
    }
#endif
}
