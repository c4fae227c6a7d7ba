/* attention_local: attention on devices with work-groups; see attention.clh and attention_tiles.clh.
 *
 * Specialised by   ACT, D, CAUSAL, DROP, STARTS, LENGTHS: see attention.clh
 * Launch           one group of 256 per 64 queries of one head; by tile, head, row of the batch. Four work-items share a query's
 *                  maximum and normaliser, each with the keys k mod 4.
 * Numerics         see attention.clh: the bits of attention_vector.cl.
 */
#include "attention/attention.clh"
#include "attention/attention_tiles.clh"

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void attention_local(global const ACT *qkv, ulong qkv_at,
                                                                               global ACT *out, ulong out_at,
                                                                               global float *lse, ulong lse_at,
                                                                               MASK_OPERAND ATTENTION_ARGS)
{
    local float stage[STAGE], weight[TILE * PITCH], part[LANES], down[TILE];
    const int lane = (int)get_local_id(0), ty = lane / 16, mine = lane / 4, fourth = lane % 4;
    const int tiles = (t_all + TILE - 1) / TILE, columns = heads + 2 * kv_heads;
    const ulong item = get_group_id(0);
    const int q0 = (int)(item % (ulong)tiles) * TILE, h = (int)(item / (ulong)tiles % (ulong)heads);
    const int b = (int)(item / (ulong)tiles / (ulong)heads), hk = heads + h / (heads / kv_heads);
    const int n_q = min(TILE, t_all - q0), n_k = CAUSAL ? q0 + n_q : KEYS_OF(b);
    const long pitch = (long)columns * D;
    float4 s[4], acc[DC];
    float m = -INFINITY, sum = 0.0f; /* of query `mine` */
    int first = 0, k_begin = 0;      /* key that it sees; tile that one of the group sees */

#if STARTS
    start += start_at;
    first = mine < n_q ? first_key(start, b, t_all, q0 + mine) : q0;
    k_begin = first_key_of(start, b, t_all, q0, n_q) / TILE * TILE;
#endif
#if DROP
    global const charl_step_params *step = charl_step_at(record, record_at);
    const ulong key = ((ulong)step->seed_hi << 32 | step->seed_lo) ^ name_hash;
    const ulong number = (ulong)step->step_hi << 32 | step->step_lo;
#else
    (void)record, (void)record_at, (void)first_row, (void)name_hash, (void)threshold, (void)keep_scale;
#endif
    qkv += qkv_at;
    clear_tile(acc);
    for (int k0 = k_begin; k0 < n_k; k0 += TILE) {
        const int n = min(TILE, n_k - k0);
        const int seen =
            CAUSAL ? min(n, q0 + mine - k0 + 1) : n; /* keys of this tile that query `mine` sees: at least one */
        const int unseen = STARTS ? first - k0 : 0;  /* keys before this one it does not see */
        float own, shift, before;

        dot_tiles(s, qkv + element(b, t_all, q0, columns, h), pitch, n_q, qkv + element(b, t_all, k0, columns, hk),
                  pitch, n, stage);
        keep_tile(s, weight);
        barrier(CLK_LOCAL_MEM_FENCE);
        before = m;
        for (int k = fourth; k < seen; k += 4) {
            m = k >= unseen ? charl_max1(m, weight[k * PITCH + mine]) : m;
        }
        part[lane] = m;
        barrier(CLK_LOCAL_MEM_FENCE);
        m = charl_max1(charl_max1(part[4 * mine], part[4 * mine + 1]),
                       charl_max1(part[4 * mine + 2], part[4 * mine + 3]));
        shift = (STARTS ? m == -INFINITY : 0) ? 0.0f : m * scale; /* it has not seen a key yet */
        own = 0.0f;
        for (int k = fourth; k < n; k += 4) {
            float p = k >= unseen && k < seen ? charl_exp(fma(weight[k * PITCH + mine], scale, -shift)) : 0.0f;

            own = own + p;
#if DROP
            p = p * draw_weight(first_row + (ulong)b, h, q0 + mine, k0 + k, heads, t_all, key, number, threshold,
                                keep_scale);
#endif
            weight[k * PITCH + mine] = p;
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* the maxima in part have been read */
        part[lane] = own;
        before = charl_exp(fma(before, scale, -shift));
        down[mine] = before;
        barrier(CLK_LOCAL_MEM_FENCE);
        sum = sum * before + ((part[4 * mine] + part[4 * mine + 1]) + (part[4 * mine + 2] + part[4 * mine + 3]));
#pragma unroll
        for (int c = 0; c < DC; c++) {
            acc[c] = k0 > k_begin ? acc[c] * vload4(ty, down) : acc[c];
        }
        add_tile(acc, weight, qkv + element(b, t_all, k0, columns, hk + kv_heads), pitch, n, CAUSAL && k0 == q0, true,
                 stage);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    down[mine] = 1.0f / sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    put_tile(acc, down, out + out_at + element(b, t_all, q0, heads, h), (long)heads * D, n_q);
    if (fourth == 0 && mine < n_q) {
        lse[lse_at + (ulong)(((long)b * heads + h) * t_all + q0 + mine)] = m * scale + charl_log(sum);
    }
}
