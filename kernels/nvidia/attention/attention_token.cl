/* attention_token: charl_continue of attention_cached.cl for half types on devices of compute capability 9.0; see there. It also takes the row's keys and
 * values into the cache.
 *
 *   charl_token        attention of one position over a part of PART keys; with PARTS = 1 its result, else what charl_token_merge needs of it:
 *                      part[row, head, part] = largest score, sum of weights, and for each column the sum of weighted values
 *   charl_token_merge  the result from the parts
 *
 * Specialised by   ACT    half type of qkv, cache and out
 *                  D      elements of a head: a multiple of 8, at most 256
 *                  PARTS  parts that the cache has
 * Launch           charl_token: a group of LANES = 256 per query head of a row and part; by head, part, row. charl_token_merge: a group per query head of
 *                  a row. Rows begin at multiples of 16 bytes. No launch that may still run writes positions or the rows before the newest: they
 *                  are read before earlier launches have ended.
 * Algorithm        a key is the matter of as many lanes as it has pieces of 16 bytes (a power of two); every PER_PASS-th key of a part belongs to the same
 *                  ones, which keep a maximum, a sum and the sums of their columns. These are merged in the end.
 * Numerics         f32; the bits depend on the position, not on the extent of the cache.
 */
#ifndef D
#define D 64
#endif
#define PARTS 1
#include "nvidia/ptx/warp.clh"

#define PART     1024
#define LANES    256
#define WARPS    (LANES / 32)
#define PER_LANE 8 /* elements */
#define ROW_LANES (D > 128 ? 32 : D > 64 ? 16 : D > 32 ? 8 : D > 16 ? 4 : D > 8 ? 2 : 1)
#define PER_PASS (LANES / ROW_LANES)
#define AHEAD    8 /* keys whose elements a lane has in registers */
#define LOG2E    1.44269504f
#define RECORD   (D + 2) /* floats of a part */

/* What has been summed: scores are in units of ln 2. */
typedef struct {
    float largest, sum, column[PER_LANE];
} state;

CHARL_INLINE void numbers(uint4 x, float v[PER_LANE])
{
    global const ACT *const type = 0;
    const float2 a = unpack(x.x, type), b = unpack(x.y, type), c = unpack(x.z, type), d = unpack(x.w, type);

    v[0] = a.x, v[1] = a.y, v[2] = b.x, v[3] = b.y, v[4] = c.x, v[5] = c.y, v[6] = d.x, v[7] = d.y;
}

CHARL_INLINE uint4 piece_at(global const ACT *p, bool exists)
{
    return exists ? *(global const uint4 *)p : (uint4)(0);
}

/* May forget a NaN: the weight of such a score is NaN whatever the maximum. */
CHARL_INLINE float larger(float a, float b)
{
    return a > b ? a : b;
}

/* The factor of what was summed with a maximum of `before`: nothing, where that is -INFINITY. */
CHARL_INLINE float scale_down(float before, float largest)
{
    return before == -INFINITY ? 0.0f : exp2_near(before - largest);
}

/* The score of a key, or -INFINITY. The whole warp calls it. */
CHARL_INLINE float score_of(const float *query, uint4 key, bool exists)
{
    float k[PER_LANE], sum = 0.0f;

    numbers(key, k);
#pragma unroll
    for (int e = 0; e < PER_LANE; e++) {
        sum = fma(query[e], k[e], sum);
    }
#pragma unroll
    for (uint mask = 1; mask < ROW_LANES; mask *= 2) {
        sum = sum + float_of_lane(sum, mask);
    }
    return exists ? sum : -INFINITY;
}

CHARL_INLINE void add_value(state *s, float score, uint4 value)
{
    const float weight = scale_down(score, s->largest);
    float v[PER_LANE];

    numbers(value, v);
    s->sum += weight;
#pragma unroll
    for (int e = 0; e < PER_LANE; e++) {
        s->column[e] = fma(weight, v[e], s->column[e]);
    }
}

CHARL_INLINE void raise(state *s, float largest)
{
    const float factor = scale_down(s->largest, largest);

    s->largest = largest;
    s->sum *= factor;
#pragma unroll
    for (int e = 0; e < PER_LANE; e++) {
        s->column[e] *= factor;
    }
}

/* s and that of another lane. The whole warp calls it. */
CHARL_INLINE void merge(state *s, uint mask)
{
    const float other = float_of_lane(s->largest, mask);

    raise(s, larger(s->largest, other));
    s->sum += float_of_lane(s->sum, mask);
#pragma unroll
    for (int e = 0; e < PER_LANE; e++) {
        s->column[e] += float_of_lane(s->column[e], mask);
    }
}

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void
charl_token(global const ACT *qkv, ulong qkv_at, global ACT *cache, ulong cache_at, global const int *at, ulong at_at, global ACT *out,
            ulong out_at, global float *part, ulong part_at, int n_all, int heads, int kv_heads, float scale)
{
    local float records[WARPS * RECORD];
    const int item = (int)get_local_id(0), c = item % ROW_LANES * PER_LANE, own = item / ROW_LANES;
    const int group = (int)get_group_id(0), h = group % heads, p = group / heads % PARTS, r = group / heads / PARTS;
    const int position = at[at_at + (ulong)r], first = p * PART, end = min(position, first + PART), kv = h / (heads / kv_heads);
    const bool fits = position >= 0 && position < n_all, has = fits && c < D, has_newest = position - first < PART;
    const long pitch = 2 * (long)kv_heads * D;
    global ACT *const held = cache + cache_at + (long)r * n_all * pitch + (long)kv * D + c; /* keys; values are kv_heads * D further on */
    global const ACT *const query_at = qkv + qkv_at + (long)r * (heads + 2 * kv_heads) * D + (long)h * D + c;
    global const ACT *const newest_at = query_at + (long)(heads + kv - h) * D;
    uint4 key[AHEAD], value[AHEAD], newest_key, newest_value;
    state s = {-INFINITY, 0.0f, {0.0f}};
    float query[PER_LANE];

    charl_begin_next();
#pragma unroll
    for (int u = 0; u < AHEAD; u++) {
        const int k = first + u * PER_PASS + own;

        key[u] = piece_at(held + k * pitch, has && k < end);
        value[u] = piece_at(held + k * pitch + kv_heads * D, has && k < end);
    }
    charl_await_earlier();
    if (fits && first > position) { /* the cache is not that full */
        return;
    }
    numbers(piece_at(query_at, has), query);
    newest_key = piece_at(newest_at, has && has_newest);
    newest_value = piece_at(newest_at + kv_heads * D, has && has_newest);
    if (has && has_newest && own == 0 && h % (heads / kv_heads) == 0) { /* the first of those that share the keys */
        *(global uint4 *)(held + position * pitch) = newest_key;
        *(global uint4 *)(held + position * pitch + kv_heads * D) = newest_value;
    }
#pragma unroll
    for (int e = 0; e < PER_LANE; e++) {
        query[e] *= scale * LOG2E;
    }
#pragma nounroll
    for (int k0 = first + own; k0 - own < end; k0 += AHEAD * PER_PASS) {
        float score[AHEAD], largest = s.largest;

#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            score[u] = score_of(query, key[u], k0 + u * PER_PASS < end);
            largest = larger(largest, score[u]);
        }
        raise(&s, largest);
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            const int k = k0 + (u + AHEAD) * PER_PASS;

            add_value(&s, score[u], value[u]);
            key[u] = piece_at(held + k * pitch, has && k < end);
            value[u] = piece_at(held + k * pitch + kv_heads * D, has && k < end);
        }
    }
    const float score = score_of(query, newest_key, own == 0 && has_newest);

    raise(&s, larger(s.largest, score));
    add_value(&s, score, newest_value);
#pragma unroll
    for (uint mask = ROW_LANES; mask < 32; mask *= 2) {
        merge(&s, mask);
    }
    if (item % 32 < ROW_LANES && c < D) {
        local float *record = records + item / 32 * RECORD;

        record[0] = s.largest;
        record[1] = s.sum;
#pragma unroll
        for (int e = 0; e < PER_LANE; e++) {
            record[2 + c + e] = s.column[e];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < D) {
        float largest = -INFINITY, sum = fits ? 0.0f : NAN, column = 0.0f;

        for (int w = 0; w < WARPS; w++) {
            largest = larger(largest, records[w * RECORD]);
        }
        for (int w = 0; w < WARPS; w++) {
            const float factor = scale_down(records[w * RECORD], largest);

            sum = fma(factor, records[w * RECORD + 1], sum);
            column = fma(factor, records[w * RECORD + 2 + item], column);
        }
        if (PARTS == 1) {
            charl_put(column * (1.0f / sum), out + out_at + ((long)r * heads + h) * D + item);
        } else {
            global float *record = part + part_at + (((long)r * heads + h) * PARTS + p) * RECORD;

            record[0] = largest;
            record[1] = sum;
            record[2 + item] = column;
        }
    }
}

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void charl_token_merge(global const float *part, ulong part_at,
                                                                                 global const int *at, ulong at_at, global ACT *out,
                                                                                 ulong out_at, int n_all, int heads)
{
    const int item = (int)get_local_id(0), position = at[at_at + get_group_id(0) / (ulong)heads];
    const bool fits = position >= 0 && position < n_all;
    const int parts = fits ? position / PART + 1 : 1;
    global const float *const record = part + part_at + (long)get_group_id(0) * PARTS * RECORD;
    float largest = -INFINITY, sum = 0.0f, column = 0.0f;

    charl_begin_next();
    charl_await_earlier();
    if (item >= D) {
        return;
    }
    for (int p = 0; p < parts; p++) {
        largest = larger(largest, record[p * RECORD]);
    }
    for (int p = 0; p < parts; p++) {
        const float factor = scale_down(record[p * RECORD], largest);

        sum = fma(factor, record[p * RECORD + 1], sum);
        column = fma(factor, record[p * RECORD + 2 + item], column);
    }
    charl_put(fits ? column * (1.0f / sum) : NAN, out + out_at + (long)get_group_id(0) * D + item);
}
