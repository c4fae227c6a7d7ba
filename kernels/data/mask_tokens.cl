/* mask_tokens: a masked language model's view of windows of tokens; see src/autograd/op/data/mask_tokens.c.
 *
 * Position t of a row draws the random block at position hash + t, hash being a number of all tokens of the row; the key is the seed of the
 * step record combined with name_hash. The `count` positions with the smallest words 0, or of equal ones the first, are chosen:
 *
 *   masked[b, t] = 1 where chosen, else 0
 *   out[b, t]    = x[b, t], where chosen by word 1: `mask` (80 %), word 2 modulo vocab (10 %), x[b, t] (10 %)
 *
 * Specialised by   VARIES  1: by seed and step; 0: the same in every run, for evaluations (default 1)
 * Launch           a work-group of 64 per row.
 * Numerics         exact.
 */
#define VARIES 1
#define GROUP 64

/* A number of token v at position t that shares nothing with that of another. */
static inline ulong token_hash(int v, int t)
{
    ulong z = ((ulong)(uint)t << 32 | (uint)v) + 0x9E3779B97F4A7C15UL;

    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9UL;
    z = (z ^ z >> 27) * 0x94D049BB133111EBUL;
    return z ^ z >> 31;
}

kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
charl_mask_tokens(global const int *x, ulong x_at, global int *out, ulong out_at, global float *masked, ulong masked_at,
                  global const uint *record, ulong record_at, int positions, int count, int vocab, int mask,
                  ulong name_hash)
{
    local ulong sums[GROUP];
    const int lane = (int)get_local_id(0);
    const ulong row = get_group_id(0);
    ulong hash = 0, key = name_hash, step = 0;

#if VARIES
    global const charl_step_params *now = charl_step_at(record, record_at);

    key ^= (ulong)now->seed_hi << 32 | now->seed_lo;
    step = (ulong)now->step_hi << 32 | now->step_lo;
#else
    (void)record, (void)record_at;
#endif
    x += x_at + row * (ulong)positions;
    out += out_at + row * (ulong)positions;
    masked += masked_at + row * (ulong)positions;
    for (int t = lane; t < positions; t += GROUP) {
        hash += token_hash(x[t], t);
    }
    sums[lane] = hash;
    barrier(CLK_LOCAL_MEM_FENCE);
    hash = 0;
    for (int i = 0; i < GROUP; i++) {
        hash += sums[i];
    }
    for (int t = lane; t < positions; t += GROUP) {
        uint word[4];

        charl_rng_u32x4(key, step, hash + (ulong)t, word);
        out[t] = (int)word[0]; /* until all have been compared */
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (int t = lane; t < positions; t += GROUP) {
        const uint own = (uint)out[t];
        int before = 0;

        for (int i = 0; i < positions; i++) {
            before += (uint)out[i] < own || ((uint)out[i] == own && i < t);
        }
        masked[t] = before < count ? 1.0f : 0.0f;
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (int t = lane; t < positions; t += GROUP) {
        int v = x[t];

        if (masked[t] > 0.0f) { /* they are few: drawing them again takes less than keeping all */
            uint word[4];

            charl_rng_u32x4(key, step, hash + (ulong)t, word);
            v = word[1] < 3435973837u ? mask : word[1] < 3865470566u ? (int)(word[2] % (uint)vocab) : v;
        }
        out[t] = v;
    }
}
