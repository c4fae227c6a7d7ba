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
#include "philox.clh"

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
        ulong position[CHARL_VEC];
        words block[4];
        uint word[4 * CHARL_VEC];

        for (int l = 0; l < CHARL_VEC; l++) {
            position[l] = base / 4 + b + (ulong)l;
        }
        draw_blocks(key, number, CHARL_VLOAD(position), block);
        in_order(block, word);
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
