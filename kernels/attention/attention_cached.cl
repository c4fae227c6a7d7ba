/* attention_cached: attention that continues a sequence; see attention.clh.
 *
 *   charl_take_in   keys and values of positions first .. first + T - 1, from qkv into cache [B, N, 2 kv_heads * D]
 *   charl_continue  out of those positions' queries over all keys of the cache up to their own
 *
 * first = position[0], or 0 with BEGINS. What does not fit into the cache is not written, and its out is NaN.
 *
 * Specialised by   ACT (also of the cache), D: see attention.clh; CHARL_VEC; BEGINS
 * Launch           charl_take_in: column_chunks.clh over the B * T rows of 2 kv_heads * D columns. charl_continue: one work-item per 8 queries
 *                  of one head, groups of 1; by eight, head, row of the batch. The keys are lanes, LANES at a time.
 * Numerics         see attention.clh: the bits of attention over the whole sequence.
 */
#ifndef BEGINS
#define BEGINS 0
#endif
#include "attention/attention.clh"
#include "shared/column_chunks.clh"
#if CHARL_VEC == 16
#include "shared/transpose16.clh"
#endif
#include "attention/attention_lanes.clh"

#define QUERIES 8

static inline bool fits(int first, int t_all, int n_all)
{
    return first >= 0 && first <= n_all - t_all;
}

kernel void charl_take_in(global const ACT *qkv, ulong qkv_at, global ACT *cache, ulong cache_at, global const int *position,
                       ulong position_at, int t_all, int n_all, int skip, ulong rows, ulong size, ulong span)
{
#if BEGINS
    const int first = 0;

    (void)position, (void)position_at;
#else
    const int first = position[position_at];
#endif
    CHARL_EACH_CHUNK(u, rows, size, span)
    {
        const ulong r = CHARL_CHUNK_ROW(u, size), c = CHARL_CHUNK_COLUMN(u, size);
        const ulong to = r / (ulong)t_all * (ulong)n_all + (ulong)(first + (int)(r % (ulong)t_all));

        if (fits(first, t_all, n_all)) {
            charl_store(charl_load(qkv + qkv_at + r * (size + (ulong)skip) + (ulong)skip + c, (long)(size - c)),
                        cache + cache_at + to * size + c, (long)(size - c));
        }
    }
}

/* One query's scores weight[0 .. n) of a tile become weights; m, sum as in attention_vector.cl. Returns what earlier sums are worth now. */
static inline float weigh(float *weight, int n, float scale, float *m, float *sum)
{
    float4 part = (float4)(0.0f);
    float largest = *m, shift, scale_down;

    for (int k = 0; k < n; k++) {
        largest = charl_max1(largest, weight[k]);
    }
    shift = largest * scale;
    for (int k = 0; k < n; k += CHARL_VEC) { /* beyond n: finite or not, not used */
        CHARL_VSTORE(charl_exp(fma(CHARL_VLOAD(weight + k), CHARL_SPLAT(scale), CHARL_SPLAT(-shift))), weight + k);
    }
    for (int k = n; k % 4 != 0; k++) {
        weight[k] = 0.0f;
    }
    for (int k = 0; k < n; k += 4) {
        part = part + vload4(0, weight + k);
    }
    scale_down = charl_lane0(charl_exp(CHARL_SPLAT(fma(*m, scale, -shift))));
    *sum = *sum * scale_down + ((part.x + part.y) + (part.z + part.w));
    *m = largest;
    return scale_down;
}

/* sums[c] = sums[c] * scale_down, then += weight[k] * value row k, for k < n */
static inline void add_values(float *sums, const float *weight, global const ACT *values, long pitch, int n, float scale_down,
                              bool first)
{
    for (int c = 0; c < D; c += CHARL_VEC) {
        charl_real x = CHARL_VLOAD(sums + c);

        x = first ? x : x * scale_down;
        for (int k = 0; k < n; k++) {
            x = fma(charl_load(values + k * pitch + c, D - c), CHARL_SPLAT(weight[k]), x);
        }
        CHARL_VSTORE(x, sums + c);
    }
}

kernel void charl_continue(global const ACT *qkv, ulong qkv_at, global const ACT *cache, ulong cache_at, global const int *position,
                           ulong position_at, global ACT *out, ulong out_at, int t_all, int n_all, int heads, int kv_heads,
                           float scale)
{
    float queries[QUERIES * DP], panel[DP * LANES], block[QUERIES * LANES], weight[QUERIES * TILE], sums[QUERIES * DP];
    float m[QUERIES], sum[QUERIES];
    const int eights = (t_all + QUERIES - 1) / QUERIES, columns = heads + 2 * kv_heads;
    const ulong item = get_global_id(0);
    const int q0 = (int)(item % (ulong)eights) * QUERIES, h = (int)(item / (ulong)eights % (ulong)heads);
    const int b = (int)(item / (ulong)eights / (ulong)heads), kv = h / (heads / kv_heads);
    const int n_q = min(QUERIES, t_all - q0), first = position[position_at];
    const bool good = fits(first, t_all, n_all);
    const int n_k = good ? first + q0 + n_q : 0; /* keys that the last query sees */
    const long pitch = 2 * (long)kv_heads * D;

    pack_rows(queries, qkv + qkv_at + element(b, t_all, q0, columns, h), (long)columns * D, n_q);
    for (int i = 0; i < QUERIES * DP; i += CHARL_VEC) {
        CHARL_VSTORE(CHARL_SPLAT(0.0f), sums + i);
    }
    for (int r = 0; r < QUERIES; r++) {
        m[r] = -INFINITY;
        sum[r] = good ? 0.0f : NAN;
    }
    for (int k0 = 0; k0 < n_k; k0 += TILE) {
        global const ACT *keys = cache + cache_at + element(b, n_all, k0, 2 * kv_heads, kv);
        const int n = min(TILE, n_k - k0);

        for (int i = 0; i < n; i += LANES) {
            pack_panel(panel, keys + i * pitch, pitch, min(LANES, n - i));
            dot_rows(queries, panel, block, QUERIES);
            for (int r = 0; r < QUERIES; r++) {
                for (int l = 0; l < LANES; l += CHARL_VEC) {
                    CHARL_VSTORE(CHARL_VLOAD(block + r * LANES + l), weight + r * TILE + i + l);
                }
            }
        }
        for (int r = 0; r < n_q; r++) {
            const int seen = min(TILE, first + q0 + r + 1 - k0);

            if (seen > 0) {
                const float scale_down = weigh(weight + r * TILE, seen, scale, &m[r], &sum[r]);

                add_values(sums + r * DP, weight + r * TILE, keys + kv_heads * D, pitch, seen, scale_down, k0 == 0);
            }
        }
    }
    for (int r = 0; r < n_q; r++) {
        for (int c = 0; c < D; c += CHARL_VEC) {
            charl_store(CHARL_VLOAD(sums + r * DP + c) * (1.0f / sum[r]),
                        out + out_at + element(b, t_all, q0 + r, heads, h) + c, D - c);
        }
    }
}
