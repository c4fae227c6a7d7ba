/* probe_ptx: do the inline instructions work that common.clh, math.clh and rows.clh use where CHARL_PTX is defined?
 *
 * out[i] = the bits of two numbers as bf16 in one word, from the work-item whose number differs in the bit 16, for
 * 32 work-items in one group: 2^(i / 8) below, as 1 / sqrt(1 / 4^(i / 8)), i above.
 */
kernel void charl_probe_ptx(global uint *out, ulong out_at)
{
    const int i = (int)get_local_id(0);

    const float power = charl_rsqrt_fast(charl_inverse_fast(charl_exp2_fast((float)(i / 8 * 2))));

    charl_prefetch(out + out_at);
    out[out_at + i] = charl_from_lane(charl_bf16_pair(power, (float)i), 16);
}
