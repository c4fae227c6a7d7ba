/* draw: words[4i..4i+3] = the block at first + i; unit[i] = scalar draw first + i. */
kernel void draw(global uint *words, ulong words_at, global float *unit, ulong unit_at, long key, long step, long first)
{
    const ulong i = get_global_id(0);
    uint block[4];

    charl_rng_u32x4((ulong)key, (ulong)step, (ulong)first + i, block);
    vstore4((uint4)(block[0], block[1], block[2], block[3]), i, words + words_at);
    unit[unit_at + i] = charl_rng_uniform((ulong)key, (ulong)step, (ulong)first + i);
}
