/* dropout: out[i] = x[i] * scale where a random number keeps element i, else 0.
 *
 * Element i of this launch is element base + i of the global batch. It is kept when scalar draw base + i (common.clh), as 24 bits,
 * is not below `threshold`; the key is the seed of the step record combined with name_hash.
 *
 * Specialised by   ACT; CHARL_VEC  random blocks of 4 elements at a time (default 1)
 * Launch           1-D; each work-item handles `blocks` random blocks, a multiple of CHARL_VEC, whose positions are multiples
 *                  of 4 of the global index: (base % 4 + n + 3) / 4 blocks in all. out may be x.
 * Numerics         one multiplication.
 */
#if CHARL_VEC == 1
typedef uint words;
typedef ulong wide;
#define NARROW(x) convert_uint(x)
#define WIDEN(x)  convert_ulong(x)
#else
typedef CHARL_GLUE(uint, CHARL_VEC) words;
typedef CHARL_GLUE(ulong, CHARL_VEC) wide;
#define NARROW(x) CHARL_GLUE(convert_uint, CHARL_VEC)(x)
#define WIDEN(x)  CHARL_GLUE(convert_ulong, CHARL_VEC)(x)
#endif

/* charl_rng_u32x4 of common.clh at CHARL_VEC positions from `position` on; word w of position l to out[4 * l + w]. */
static inline void draw(ulong key, ulong step, ulong position, uint *out)
{
    ulong lane[CHARL_VEC];
    uint word[4 * CHARL_VEC];
    wide at;
    words c0, c1, c2 = (words)((uint)step), c3 = (words)((uint)(step >> 32));
    uint k0 = (uint)key, k1 = (uint)(key >> 32);

    for (int l = 0; l < CHARL_VEC; l++) {
        lane[l] = position + (ulong)l;
    }
    at = CHARL_VLOAD(lane);
    c0 = NARROW(at);
    c1 = NARROW(at >> 32);
    for (int round = 0; round < 10; round++) {
        const wide p0 = WIDEN(c0) * 0xD2511F53UL, p1 = WIDEN(c2) * 0xCD9E8D57UL;

        c0 = NARROW(p1 >> 32) ^ c1 ^ k0;
        c1 = NARROW(p1);
        c2 = NARROW(p0 >> 32) ^ c3 ^ k1;
        c3 = NARROW(p0);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    CHARL_VSTORE(c0, word);
    CHARL_VSTORE(c1, word + CHARL_VEC);
    CHARL_VSTORE(c2, word + 2 * CHARL_VEC);
    CHARL_VSTORE(c3, word + 3 * CHARL_VEC);
    for (int l = 0; l < CHARL_VEC; l++) {
        for (int w = 0; w < 4; w++) {
            out[4 * l + w] = word[w * CHARL_VEC + l];
        }
    }
}

kernel void charl_dropout(global const ACT *x, ulong x_at, global ACT *out, ulong out_at, global const uint *record,
                          ulong record_at, ulong n, ulong base, ulong blocks, ulong name_hash, uint threshold, float scale)
{
    const ulong all = (base % 4 + n + 3) / 4, first = get_global_id(0) * blocks, end = min(first + blocks, all);
    global const charl_step *step = charl_step_at(record, record_at);
    const ulong key = ((ulong)step->seed_hi << 32 | step->seed_lo) ^ name_hash;
    const ulong number = (ulong)step->step_hi << 32 | step->step_lo;

    x += x_at;
    out += out_at;
    for (ulong b = first; b < end; b += CHARL_VEC) {
        const long i = (long)(b * 4) - (long)(base % 4);
        uint word[4 * CHARL_VEC];

        draw(key, number, base / 4 + b, word);
        if (i >= 0 && i + 4 * CHARL_VEC <= (long)n) {
            for (int j = 0; j < 4 * CHARL_VEC; j++) {
                charl_put(word[j] >> 8 >= threshold ? charl_get(x + i + j) * scale : 0.0f, out + i + j);
            }
        } else {
            for (int j = 0; j < 4 * CHARL_VEC; j++) {
                if (i + j >= 0 && i + j < (long)n) {
                    charl_put(word[j] >> 8 >= threshold ? charl_get(x + i + j) * scale : 0.0f, out + i + j);
                }
            }
        }
    }
}
