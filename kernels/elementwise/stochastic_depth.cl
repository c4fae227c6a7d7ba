/* stochastic_depth: out = keep[r] ? x * scale : 0 for all elements of row r.
 *
 * keep[r]: word 0 of random block first + r, of 24 bits, is at least `threshold`; the key is the seed of the step record combined with
 * name_hash. Rows are counted in the global batch, so a draw depends on neither ranks nor launch.
 *
 * Specialised by   ACT, of x and out
 * Launch           span elements for each work-item, a multiple of CHARL_VEC; `each` elements in a row
 * Numerics         one rounding.
 */
kernel void charl_stochastic_depth(global const ACT *x, ulong x_at, global ACT *out, ulong out_at, global const uint *record,
                                   ulong record_at, ulong first, ulong each, ulong n, ulong span, ulong name_hash,
                                   uint threshold, float scale)
{
    const ulong begin = get_global_id(0) * span, end = min(begin + span, n);
    global const charl_step_params *now = charl_step_at(record, record_at);
    const ulong key = name_hash ^ ((ulong)now->seed_hi << 32 | now->seed_lo);
    const ulong step = (ulong)now->step_hi << 32 | now->step_lo;

    for (ulong i = begin; i < end;) {
        const ulong stop = min(end, (i / each + 1) * each);
        uint word[4];

        charl_rng_u32x4(key, step, first + i / each, word);
        for (; i < stop; i += CHARL_VEC) {
            const long left = (long)(stop - i);

            charl_store(word[0] >> 8 >= threshold ? charl_load(x + x_at + i, left) * scale : CHARL_SPLAT(0.0f),
                        out + out_at + i, left);
        }
        i = stop;
    }
}
