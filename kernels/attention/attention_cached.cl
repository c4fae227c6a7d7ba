/* attention_cached: attention of new positions over a cache of keys and values, for generating text; see attention.clh.
 *
 *   charl_take_in   keys and values of `rows` rows of qkv [rows, (heads + 2 kv_heads) * D] into cache [S, N, 2 kv_heads * D]. With BEGINS the rows are
 *                   positions 0, 1, ... of sequence at[0], else row r is position at[r] of sequence r
 *                   (attention_cached_local.cl does so itself)
 *   charl_continue  out [rows, heads * D]: row r's queries over the keys of sequence r up to position at[r]
 *
 * What does not fit into the cache is not written, and its out is NaN.
 *
 * Specialised by   ACT (also of the cache), D, WINDOW, SOFTCAP: see attention.clh; CHARL_VEC; BEGINS
 * Launch           charl_take_in: column_chunks.clh over the rows of 2 kv_heads * D columns. charl_continue, for devices without work-groups: one
 *                  work-item per 8 query heads that share a key head, groups of 1; by eight, key head, row. The keys are lanes, LANES
 *                  at a time. Where there are groups: attention_cached_local.cl.
 * Numerics         see attention.clh: the bits of attention over the whole sequence.
 */
#define BEGINS 0
#include "attention/attention_args.h"
#include "attention/attention.clh"
#include "shared/column_chunks.clh"
#if CHARL_VEC == 16
#include "shared/transpose16.clh"
#endif
#include "attention/attention_lanes.clh"

#define QUERIES 8

kernel void charl_take_in(global const ACT *qkv, ulong qkv_at, global ACT *cache, ulong cache_at, global const int *at, ulong at_at,
                       int sequences, int n_all, int skip, ulong rows, ulong size, ulong span)
{
    CHARL_EACH_CHUNK(u, rows, size, span)
    {
        const ulong r = CHARL_CHUNK_ROW(u, size), c = CHARL_CHUNK_COLUMN(u, size);
        const int sequence = BEGINS ? at[at_at] : (int)r, position = BEGINS ? (int)r : at[at_at + r];

        if (sequence >= 0 && sequence < sequences && position >= 0 && position < n_all) {
            charl_store(charl_load(qkv + qkv_at + r * (size + (ulong)skip) + (ulong)skip + c, (long)(size - c)),
                        cache + cache_at + ((ulong)sequence * (ulong)n_all + (ulong)position) * size + c, (long)(size - c));
        }
    }
}

/* One query's scores weight[first .. n) of a tile become weights, those before them 0; m, sum as in attention_vector.cl. Returns the factor
 * for earlier sums. */
static inline float weigh(float *weight, int first, int n, float scale, float *m, float *sum)
{
    float4 part = (float4)(0.0f);
    float largest = *m, shift, scale_down;

    for (int k = first; k < n; k++) {
        largest = charl_max1(largest, weight[k]);
    }
    shift = largest * scale;
    for (int k = 0; k < n; k += CHARL_VEC) { /* beyond n: finite or not, not used */
        CHARL_VSTORE(charl_exp(fma(CHARL_VLOAD(weight + k), CHARL_SPLAT(scale), CHARL_SPLAT(-shift))), weight + k);
    }
    for (int k = 0; k < first; k++) {
        weight[k] = 0.0f;
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

kernel void charl_continue(global const ACT *qkv, ulong qkv_at, global const ACT *cache, ulong cache_at, global const int *at,
                           ulong at_at, global ACT *out, ulong out_at, int n_all, int heads, int kv_heads, float scale, float inner)
{
    float queries[QUERIES * DP], panel[DP * LANES], block[QUERIES * LANES], weight[QUERIES * TILE], sums[QUERIES * DP];
    float m[QUERIES], sum[QUERIES];
    const int sharing = heads / kv_heads, eights = (sharing + QUERIES - 1) / QUERIES;
    const ulong item = get_global_id(0);
    const int eight = (int)(item % (ulong)eights) * QUERIES, kv = (int)(item / (ulong)eights % (ulong)kv_heads);
    const int r = (int)(item / (ulong)eights / (ulong)kv_heads), h = kv * sharing + eight;
    const int n_q = min(QUERIES, sharing - eight), position = at[at_at + (ulong)r];
    const bool fits = position >= 0 && position < n_all;
    const int n_k = fits ? position + 1 : 0, k_first = WINDOW ? max(n_k - WINDOW, 0) : 0, k_begin = k_first / TILE * TILE;
    const long pitch = 2 * (long)kv_heads * D;

    pack_rows(queries, qkv + qkv_at + element(r, 1, 0, heads + 2 * kv_heads, h), D, n_q);
    for (int i = 0; i < QUERIES * DP; i += CHARL_VEC) {
        CHARL_VSTORE(CHARL_SPLAT(0.0f), sums + i);
    }
    for (int q = 0; q < QUERIES; q++) {
        m[q] = -INFINITY;
        sum[q] = fits ? 0.0f : NAN;
    }
    for (int k0 = k_begin; k0 < n_k; k0 += TILE) {
        global const ACT *keys = cache + cache_at + element(r, n_all, k0, 2 * kv_heads, kv);
        const int n = min(TILE, n_k - k0);

        for (int i = 0; i < n; i += LANES) {
            pack_panel(panel, keys + i * pitch, pitch, min(LANES, n - i));
            dot_rows(queries, panel, block, n_q);
            for (int q = 0; q < n_q; q++) {
                for (int l = 0; l < LANES; l += CHARL_VEC) {
                    CHARL_VSTORE(limited(CHARL_VLOAD(block + q * LANES + l), inner), weight + q * TILE + i + l);
                }
            }
        }
        for (int q = 0; q < n_q; q++) {
            const float scale_down = weigh(weight + q * TILE, max(k_first - k0, 0), n, scale, &m[q], &sum[q]);

            add_values(sums + q * DP, weight + q * TILE, keys + kv_heads * D, pitch, n, scale_down, k0 == k_begin);
        }
    }
    for (int q = 0; q < n_q; q++) {
        for (int c = 0; c < D; c += CHARL_VEC) {
            charl_store(CHARL_VLOAD(sums + q * DP + c) * (1.0f / sum[q]), out + out_at + element(r, 1, 0, heads, h + q) + c,
                        D - c);
        }
    }
}
