/* attention_cached_local: charl_continue of attention_cached.cl on devices with work-groups; see there and attention.clh. It also takes the row's keys
 * and values into the cache.
 *
 * Specialised by   ACT (also of the cache), D, WINDOW, SOFTCAP: see attention.clh
 *                  BY_16    1: rows of a head begin at multiples of 16 bytes, in the cache and in qkv, and are copied by 16
 * Launch           one group of LANES = 256 per query head of a row; by head, row. Keys go by CHUNK = 256, four tiles, through local
 *                  memory, KEYS of them at a time: a work-item forms the score of a key; then it sums values in columns of its own. The rows
 *                  that are needed next are on their way, in registers, while those before them are used.
 * Numerics         see attention.clh: the bits of attention over the whole sequence.
 */
#include "attention/attention_args.h"
#include "attention/attention.clh"

#define BY_16 0
#define LANES 256
#define CHUNK 256
#define TILES (CHUNK / TILE)

#define SIZE ((int)sizeof(ACT))
#if BY_16
typedef uint4 piece;
#define PIECE         (16 / SIZE) /* elements */
#define PIECE_AT(p)   (*(global const uint4 *)(p))
#define PUT_AT(p, x)  (*(global uint4 *)(p) = (x))
#else
typedef float piece; /* not ACT: without cl_khr_fp16 there are no variables of type half */
#define PIECE         1
#define PIECE_AT(p)   charl_get(p)
#define PUT_AT(p, x)  charl_put(x, p)
#endif
#define PER_ROW  (D / PIECE)
#define PITCH    (D + 4 / SIZE)              /* of a row in local memory: an odd number of words, where rows are whole words */
#define ROOM     38000                       /* bytes of local memory for rows */
#define FITTING  (ROOM / (PITCH * SIZE))
#define KEYS     (FITTING >= 256 ? 256 : FITTING >= 128 ? 128 : FITTING >= 64 ? 64 : FITTING >= 32 ? 32 : 16)
#define PIECES   ((KEYS * PER_ROW + LANES - 1) / LANES) /* of a work-item */
#define COLUMNS  ((D + LANES - 1) / LANES)              /* of a work-item */

/* An element in local memory. */
CHARL_OVERLOAD float value_at(local const float *p)
{
    return *p;
}

CHARL_OVERLOAD float value_at(local const half *p)
{
    return vload_half(0, p);
}

CHARL_OVERLOAD float value_at(local const ushort *p)
{
    return bf16_load(*p);
}

#if !BY_16
/* x, which is a value of the type of *p. */
CHARL_OVERLOAD void put_value(float x, local float *p)
{
    *p = x;
}

CHARL_OVERLOAD void put_value(float x, local half *p)
{
    vstore_half_rte(x, 0, p);
}

CHARL_OVERLOAD void put_value(float x, local ushort *p)
{
    *p = (ushort)(as_uint(x) >> 16);
}
#endif

/* Keys or values of a head: those of the cache, pitch apart, and the newest one, which is not read from there. */
typedef struct {
    global const ACT *held, *newest;
    long pitch;
    int position; /* of the newest */
} history;

/* The n rows from `first` on, at most KEYS. */
CHARL_IN_KERNEL void fetch(piece x[PIECES], history of, int first, int n)
{
    const int lane = (int)get_local_id(0);

#pragma unroll
    for (int i = 0; i < PIECES; i++) {
        const int u = lane + i * LANES, row = u / PER_ROW;

        if (row < n) {
            x[i] = PIECE_AT((first + row == of.position ? of.newest : of.held + (first + row) * of.pitch) + u % PER_ROW * PIECE);
        }
    }
}

/* The newest row into the cache. */
CHARL_IN_KERNEL void take_in(global ACT *cache, history of)
{
    for (int u = (int)get_local_id(0); u < PER_ROW; u += LANES) {
        PUT_AT(cache + of.position * of.pitch + u * PIECE, PIECE_AT(of.newest + u * PIECE));
    }
}

/* What was fetched into local memory, for all work-items to read. */
CHARL_IN_KERNEL void lay_down(const piece x[PIECES], local ACT *rows, int n)
{
    const int lane = (int)get_local_id(0);

    barrier(CLK_LOCAL_MEM_FENCE); /* what lay there has been read */
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
        const int u = lane + i * LANES, row = u / PER_ROW;
        local ACT *to = rows + row * PITCH + u % PER_ROW * PIECE;

        if (row < n) {
#if BY_16
            local uint *words = (local uint *)to;

            words[0] = x[i].x;
            words[1] = x[i].y;
            words[2] = x[i].z;
            words[3] = x[i].w;
#else
            put_value(x[i], to);
#endif
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void charl_continue_local(global const ACT *qkv, ulong qkv_at,
                                                                                    global ACT *cache, ulong cache_at,
                                                                                    global const int *at, ulong at_at,
                                                                                    global ACT *out, ulong out_at, int n_all,
                                                                                    int heads, int kv_heads, float scale,
                                                                                    float inner)
{
    local uint memory[(KEYS * PITCH * SIZE + 3) / 4];
    local float query[D], weight[CHUNK], largest[4 * TILES], part[4 * TILES];
    local ACT *rows = (local ACT *)memory;
    const int lane = (int)get_local_id(0), tile = lane / TILE;
    const int h = (int)(get_group_id(0) % (ulong)heads), r = (int)(get_group_id(0) / (ulong)heads);
    const int position = at[at_at + (ulong)r], kv = h / (heads / kv_heads);
    const bool fits = position >= 0 && position < n_all;
    const int n_k = fits ? position + 1 : 0, k_first = WINDOW ? max(n_k - WINDOW, 0) : 0, k_begin = k_first / TILE * TILE;
    const long pitch = 2 * (long)kv_heads * D;
    global ACT *held = cache + cache_at + element(r, n_all, 0, 2 * kv_heads, kv);
    global const ACT *newest = qkv + qkv_at + element(r, 1, 0, heads + 2 * kv_heads, heads + kv);
    const history keys = {held, newest, pitch, position}, values = {held + kv_heads * D, newest + kv_heads * D, pitch, position};
    float acc[COLUMNS], m = -INFINITY, sum = fits ? 0.0f : NAN;
    piece x[PIECES];

    for (int c = lane; c < D; c += LANES) {
        query[c] = charl_get(qkv + qkv_at + element(r, 1, 0, heads + 2 * kv_heads, h) + c);
    }
    for (int i = 0; i < COLUMNS; i++) {
        acc[i] = 0.0f;
    }
    fetch(x, keys, k_begin, min(KEYS, n_k - k_begin));
    if (fits && h % (heads / kv_heads) == 0) { /* the first of those that share the keys */
        take_in(held, keys);
        take_in(held + kv_heads * D, values);
    }
    for (int k0 = k_begin; k0 < n_k; k0 += CHUNK) {
        const int n = min(CHUNK, n_k - k0), unseen = k_first - k0; /* keys before this one are not seen */
        float down[TILES], shift[TILES];

        for (int s = 0; s < n; s += KEYS) {
            const int k = lane - s; /* of the rows at hand */

            lay_down(x, rows, min(KEYS, n - s));
            if (s + KEYS < n) {
                fetch(x, keys, k0 + s + KEYS, min(KEYS, n - s - KEYS));
            } else {
                fetch(x, values, k0, min(KEYS, n));
            }
            if (k >= 0 && k < KEYS && lane < n) {
                float score = 0.0f;

#pragma unroll 8
                for (int d = 0; d < D; d++) {
                    score = fma(query[d], value_at(rows + k * PITCH + d), score);
                }
                weight[lane] = limited(score, inner);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < 4 * TILES) { /* a quarter of a tile */
            float most = -INFINITY;

            for (int k = lane / 4 * TILE + lane % 4; k < min(n, lane / 4 * TILE + TILE); k += 4) {
                most = k >= unseen ? charl_max1(most, weight[k]) : most;
            }
            largest[lane] = most;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int t = 0; t < TILES; t++) {
            const float before = m;

            m = charl_max1(charl_max1(m, charl_max1(largest[4 * t], largest[4 * t + 1])),
                           charl_max1(largest[4 * t + 2], largest[4 * t + 3]));
            shift[t] = m * scale;
            down[t] = charl_exp(fma(before, scale, -shift[t]));
        }
        weight[lane] = lane >= unseen && lane < n ? charl_exp(fma(weight[lane], scale, -shift[tile])) : 0.0f;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < 4 * TILES) {
            float own = 0.0f;

            for (int k = lane / 4 * TILE + lane % 4; k < lane / 4 * TILE + TILE; k += 4) {
                own = own + weight[k];
            }
            part[lane] = own;
        }
        for (int s = 0; s < n; s += KEYS) {
            lay_down(x, rows, min(KEYS, n - s));
            if (s + KEYS < n) {
                fetch(x, values, k0 + s + KEYS, min(KEYS, n - s - KEYS));
            } else {
                fetch(x, keys, k0 + CHUNK, min(KEYS, n_k - k0 - CHUNK));
            }
            for (int i = 0; i < COLUMNS; i++) {
                const int c = lane + i * LANES;

                if (c < D) {
                    for (int k = 0; k < min(KEYS, n - s); k++) {
                        acc[i] = (s + k) % TILE == 0 && k0 + s + k > k_begin ? acc[i] * down[(s + k) / TILE] : acc[i];
                        acc[i] = fma(value_at(rows + k * PITCH + c), weight[s + k], acc[i]);
                    }
                }
            }
        }
        for (int t = 0; t < TILES && t * TILE < n; t++) {
            sum = sum * down[t] + ((part[4 * t] + part[4 * t + 1]) + (part[4 * t + 2] + part[4 * t + 3]));
        }
    }
    for (int i = 0; i < COLUMNS; i++) {
        const int c = lane + i * LANES;

        if (c < D) {
            charl_put(acc[i] * (1.0f / sum), out + out_at + element(r, 1, 0, heads, h) + c);
        }
    }
}
