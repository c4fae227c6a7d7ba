/* attention_local: attention on devices with work-groups; see attention.clh and attention_tiles.clh.
 *
 * Specialised by   ACT, D, CAUSAL, DROP, STARTS, DOCUMENTS, WINDOW, LENGTHS, CROSS, SOFTCAP: see attention.clh
 *                  ROWS     of a tile that a work-item holds: 4 or 8
 *                  BY_4     1: heads begin at multiples of 4 elements, in qkv and kv (and in the gradient of out), and are read by 4
 * Launch           one group of 1024 / ROWS per 64 queries of one head; by tile, head, row of the batch. SHARERS work-items share a query's
 *                  maximum and normaliser, each with one or two of the four chains over k mod 4.
 * Numerics         see attention.clh: the bits of attention_vector.cl.
 */
#include "attention/attention_args.h"
#include "attention/attention.clh"
#include "shared/small_vectors.clh"
#include "attention/attention_tiles.clh"

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void attention_local(global const ACT *qkv, global const ACT *kv, global ACT *out, global float *lse, global const int *mask, global const uint *record,
        const charl__attention_args args)
{
    const int t_all = args.t_all, t_keys = args.t_keys, heads = args.heads, kv_heads = args.kv_heads;
    local float4 stage[STAGE], tile[TILE * PITCH];
    local float part[4 * TILE], down[TILE];
    local float *const weight = (local float *)tile;
    const int lane = (int)get_local_id(0), mine = lane / SHARERS, share = lane % SHARERS;
    const int tiles = (t_all + TILE - 1) / TILE, columns = query_columns(&args), kv_columns = key_columns(&args);
    const ulong item = get_group_id(0);
    const int q0 = (int)(item % (ulong)tiles) * TILE, h = (int)(item / (ulong)tiles % (ulong)heads);
    const int b = (int)(item / (ulong)tiles / (ulong)heads), hk = heads_before_keys(&args) + h / (heads / kv_heads);
    const int n_q = min(TILE, t_all - q0), n_k = CAUSAL ? q0 + n_q : keys_of(mask + args.mask, b, t_keys);
    const long pitch = (long)columns * D, kv_pitch = (long)kv_columns * D;
    float4 s[4][BLOCKS], acc[DC][BLOCKS];
    float m = -INFINITY, sum = 0.0f; /* of query `mine` */
    int first = 0, k_begin = 0;      /* key that it sees; tile that one of the group sees */

#if STARTS
    global const int *const start = mask + args.mask;

    first = mine < n_q ? first_key(start, b, t_all, q0 + mine) : q0;
    k_begin = first_key_of(start, b, t_all, q0, n_q) / TILE * TILE;
#endif
    const random numbers = random_of(record, &args);

    (void)numbers;
    qkv += args.qkv;
    kv = CROSS ? kv + args.kv : qkv;
    clear_tile(acc);
    for (int k0 = k_begin; k0 < n_k; k0 += TILE) {
        const int n = min(TILE, n_k - k0);
        const int seen =
            CAUSAL ? min(n, q0 + mine - k0 + 1) : n; /* keys of this tile that query `mine` sees: at least one */
        const int unseen = STARTS ? first - k0 : 0;  /* keys before this one it does not see */
        const float before = m;
        float own[4 / SHARERS], shift, scaled;

        dot_tiles(s, qkv + element(b, t_all, q0, columns, h), pitch, n_q, kv + element(b, t_keys, k0, kv_columns, hk),
                  kv_pitch, n, CAUSAL && k0 == q0, true, stage);
        keep_tile(s, tile);
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 8
        for (int k = share; k < TILE; k += SHARERS) {
            const float score = limited(weight[4 * PITCH * k + mine], args.inner);

            if (SOFTCAP) {
                weight[4 * PITCH * k + mine] = score; /* nobody else reads it until the tile is whole */
            }
            m = k >= unseen && k < seen ? charl_max1(m, score) : m;
        }
        part[lane] = m;
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int i = 0; i < SHARERS; i++) {
            m = charl_max1(m, part[SHARERS * mine + i]);
        }
        shift = (STARTS ? m == -INFINITY : 0) ? 0.0f : m * args.scale; /* it has not seen a key yet */
#pragma unroll
        for (int i = 0; i < 4 / SHARERS; i++) {
            own[i] = 0.0f;
        }
#pragma unroll 4
        for (int k = 0; k < n; k += 4) {
#if DROP
            const float4 factor = draw_weights(args.first_row + (ulong)b, h, q0 + mine, k0 + k, heads, t_all, t_keys, numbers.key, numbers.step,
                                               args.threshold, args.keep_scale);
#endif
#pragma unroll
            for (int i = 0; i < 4 / SHARERS; i++) {
                const int c = i * SHARERS + share;
                local float *const w = weight + 4 * PITCH * (k + c) + mine;
                const float p = k + c >= unseen && k + c < seen ? charl_exp(fma(*w, args.scale, -shift)) : 0.0f;

                own[i] = own[i] + p;
#if DROP
                *w = p * (c < 2 ? (c == 0 ? factor.x : factor.y) : (c == 2 ? factor.z : factor.w));
#else
                *w = p;
#endif
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* the maxima in part have been read */
#pragma unroll
        for (int i = 0; i < 4 / SHARERS; i++) {
            part[4 * mine + i * SHARERS + share] = own[i];
        }
        scaled = charl_exp(fma(before, args.scale, -shift));
        down[mine] = scaled;
        barrier(CLK_LOCAL_MEM_FENCE);
        sum = sum * scaled + ((part[4 * mine] + part[4 * mine + 1]) + (part[4 * mine + 2] + part[4 * mine + 3]));
#pragma unroll
        for (int j = 0; j < BLOCKS && k0 > k_begin; j++) {
            const float4 x = vload4(0, down + tile_row(j));

#pragma unroll
            for (int c = 0; c < DC; c++) {
                acc[c][j] = acc[c][j] * x;
            }
        }
        add_tile(acc, tile, kv + element(b, t_keys, k0, kv_columns, hk + kv_heads), kv_pitch, n, CAUSAL && k0 == q0, true,
                 stage);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    down[mine] = 1.0f / sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    put_tile(acc, &down, out + args.out + element(b, t_all, q0, heads, h), (long)heads * D, n_q);
    if (share == 0 && mine < n_q) {
        lse[args.lse + (ulong)(((long)b * heads + h) * t_all + q0 + mine)] = m * args.scale + charl_log(sum);
    }
}
