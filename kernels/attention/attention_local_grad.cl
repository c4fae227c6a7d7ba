/* attention_local_grad: the gradient of attention_local.cl; see attention_vector_grad.cl, attention.clh and attention_tiles.clh.
 *
 *   a work-group: dq of 64 queries of one head, or dk and dv of 64 keys of one key head
 *
 * Specialised by   ACT, D, CAUSAL, DROP, STARTS, DOCUMENTS, WINDOW, LENGTHS, CROSS, SOFTCAP: see attention.clh; GLSE: see attention_vector_grad.cl; ROWS, BY_4: see attention_local.cl
 *                  QUERIES, KEYS  1: groups of queries, of keys, or first the ones and then the others (default 0)
 * Launch           one group of 1024 / ROWS per tile; by tile, head (of keys: key head), row of the batch. Scores are computed in both.
 * Numerics         see attention.clh: the bits of attention_vector_grad.cl.
 */
#define GLSE 0
#define QUERIES 0
#define KEYS 0
#include "attention/attention_args.h"
#include "attention/attention.clh"
#include "shared/small_vectors.clh"
#include "attention/attention_tiles.clh"

/* What both kernels read. */
typedef struct {
    global const ACT *gout, *qkv, *kv;
    global const float *lse, *dots, *glse;
    global const int *mask; /* with STARTS or LENGTHS */
    int t_all, t_keys, n_keys, heads, kv_heads;
    float scale, inner;
    ulong row; /* of the global batch */
    random numbers;
    float keep_scale;
} inputs;

/* Scores s of query q and keys k .. k + 3, and dp = gout . v, become the weights, as v's gradient takes them, and the scores' gradients. 0
 * outside. k is a multiple of 4. */
CHARL_IN_KERNEL void differentiate(const inputs *x, int b, int h, int q, int k, float s[4], float dp[4])
{
    const int here = min(q, x->t_all - 1);
    const long row = ((long)b * x->heads + h) * x->t_all + here;
    const float lse = x->lse[row];
    float delta = x->dots[((long)b * x->t_all + here) * x->heads + h];
    const int end = q >= x->t_all ? 0 : CAUSAL ? q + 1 : x->n_keys;
#if STARTS
    const int begin = first_key(x->mask, b, x->t_all, here);
#else
    const int begin = 0;
#endif
    float factor[4] = {1.0f, 1.0f, 1.0f, 1.0f};

#if GLSE
    delta -= x->glse[row];
#endif
#if DROP
    vstore4(draw_weights(x->row, h, q, k, x->heads, x->t_all, x->t_keys, x->numbers.key, x->numbers.step, x->numbers.threshold, x->keep_scale), 0, factor);
#endif
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const bool good = k + i >= begin && k + i < end;
        const float y = limited(s[i], x->inner), w = charl_exp(fma(y, x->scale, -lse));

        s[i] = good ? w * factor[i] : 0.0f;
        dp[i] = good ? times_slope(w * (factor[i] * dp[i] - delta) * x->scale, y, x->inner) : 0.0f;
    }
}

/* The same for this work-item's part of a tile whose rows are queries. */
CHARL_IN_KERNEL void differentiate_rows(const inputs *x, int b, int h, int q0, int k0, const float4 s[4][BLOCKS], float4 dp[4][BLOCKS])
{
#pragma unroll
    for (int j = 0; j < BLOCKS; j++) {
        float u[4][4], v[4][4]; /* by column */

#pragma unroll
        for (int c = 0; c < 4; c++) {
            vstore4(s[c][j], 0, u[c]);
            vstore4(dp[c][j], 0, v[c]);
        }
#pragma unroll
        for (int r = 0; r < 4; r++) {
            float keys[4] = {u[0][r], u[1][r], u[2][r], u[3][r]}, grads[4] = {v[0][r], v[1][r], v[2][r], v[3][r]};

            differentiate(x, b, h, q0 + tile_row(j) + r, k0 + tile_column(0), keys, grads);
#pragma unroll
            for (int c = 0; c < 4; c++) {
                v[c][r] = grads[c];
            }
        }
#pragma unroll
        for (int c = 0; c < 4; c++) {
            dp[c][j] = vload4(0, v[c]);
        }
    }
}

/* The same where its rows are keys. */
CHARL_IN_KERNEL void differentiate_columns(const inputs *x, int b, int h, int q0, int k0, float4 s[4][BLOCKS], float4 dp[4][BLOCKS])
{
#pragma unroll
    for (int c = 0; c < 4; c++) {
#pragma unroll
        for (int j = 0; j < BLOCKS; j++) {
            float u[4], v[4];

            vstore4(s[c][j], 0, u);
            vstore4(dp[c][j], 0, v);
            differentiate(x, b, h, q0 + tile_column(c), k0 + tile_row(j), u, v);
            s[c][j] = vload4(0, u);
            dp[c][j] = vload4(0, v);
        }
    }
}

/* What the kernels are given. */
typedef struct {
    global const ACT *gout, *qkv, *kv;
    global const float *lse, *dots, *glse;
    global ACT *dqkv, *dkv;
    global const int *mask;
    global const uint *record;
} operands;

/* Of row b. */
CHARL_IN_KERNEL inputs inputs_of(const operands *o, int b, const charl__attention_args *args)
{
    global const ACT *qkv = o->qkv + args->qkv;
    const inputs x = {o->gout + args->gout, qkv, CROSS ? o->kv + args->kv : qkv, o->lse + args->lse, o->dots + args->dots, o->glse + args->glse, o->mask + args->mask,
                      args->t_all, args->t_keys, keys_of(o->mask + args->mask, b, args->t_keys), args->heads, args->kv_heads, args->scale, args->inner,
                      args->first_row + (ulong)b, random_of(o->record, args), args->keep_scale};

    return x;
}

CHARL_IN_KERNEL void queries(const operands *o, const charl__attention_args *args, ulong item, local float4 stage[static STAGE],
                             local float4 tile[static TILE * PITCH])
{
    const int t_all = args->t_all, heads = args->heads, kv_heads = args->kv_heads;
    const int tiles = (t_all + TILE - 1) / TILE, columns = query_columns(args), kv_columns = key_columns(args);
    const int q0 = (int)(item % (ulong)tiles) * TILE, h = (int)(item / (ulong)tiles % (ulong)heads);
    const int b = (int)(item / (ulong)tiles / (ulong)heads), hk = heads_before_keys(args) + h / (heads / kv_heads);
    const int n_q = min(TILE, t_all - q0), n_k = CAUSAL ? q0 + n_q : keys_of(o->mask + args->mask, b, args->t_keys);
    const long pitch = (long)columns * D, kv_pitch = (long)kv_columns * D;
    const inputs x = inputs_of(o, b, args);
    float4 s[4][BLOCKS], dp[4][BLOCKS], dq[DC][BLOCKS];

    clear_tile(dq);
    for (int k0 = WINDOW ? max(q0 + 1 - WINDOW, 0) / TILE * TILE : 0; k0 < n_k; k0 += TILE) {
        const int n = min(TILE, n_k - k0);
        const bool diagonal = CAUSAL && k0 == q0;
        global const ACT *keys = x.kv + element(b, args->t_keys, k0, kv_columns, hk);

        dot_tiles(s, x.qkv + element(b, t_all, q0, columns, h), pitch, n_q, keys, kv_pitch, n, diagonal, true, stage);
        dot_tiles(dp, x.gout + element(b, t_all, q0, heads, h), (long)heads * D, n_q, keys + (long)kv_heads * D,
                  kv_pitch, n, diagonal, true, stage);
        differentiate_rows(&x, b, h, q0, k0, s, dp);
        keep_tile(dp, tile);
        add_tile(dq, tile, keys, kv_pitch, n, diagonal, true, stage);
    }
    put_tile(dq, 0, o->dqkv + args->dqkv + element(b, t_all, q0, columns, h), pitch, n_q);
}

CHARL_IN_KERNEL void keys(const operands *o, const charl__attention_args *args, ulong item, local float4 stage[static STAGE],
                          local float4 tile[static TILE * PITCH])
{
    const int t_all = args->t_all, t_keys = args->t_keys, heads = args->heads, kv_heads = args->kv_heads;
    const int tiles = (t_keys + TILE - 1) / TILE, columns = query_columns(args), kv_columns = key_columns(args), group = heads / kv_heads;
    const int k0 = (int)(item % (ulong)tiles) * TILE, kv = (int)(item / (ulong)tiles % (ulong)kv_heads);
    const int b = (int)(item / (ulong)tiles / (ulong)kv_heads), n_k = min(TILE, t_keys - k0);
    const long pitch = (long)columns * D, kv_pitch = (long)kv_columns * D,
               k_at = element(b, t_keys, k0, kv_columns, heads_before_keys(args) + kv),
               v_at = k_at + (long)kv_heads * D;
    const inputs x = inputs_of(o, b, args);
    global ACT *dkv = CROSS ? o->dkv + args->dkv : o->dqkv + args->dqkv;
    float4 s[4][BLOCKS], dp[4][BLOCKS], dk[DC][BLOCKS], dv[DC][BLOCKS];

    clear_tile(dk);
    clear_tile(dv);
    for (int h = kv * group; h < (kv + 1) * group; h++) {
        for (int q0 = CAUSAL ? k0 : 0; q0 < queries_of(k0 + n_k - 1, t_all) && k0 < x.n_keys; q0 += TILE) {
            const int n = min(TILE, t_all - q0);
            const bool diagonal = CAUSAL && q0 == k0;
            global const ACT *queries = x.qkv + element(b, t_all, q0, columns, h);
            global const ACT *gouts = x.gout + element(b, t_all, q0, heads, h);

            dot_tiles(s, x.kv + k_at, kv_pitch, n_k, queries, pitch, n, diagonal, false, stage);
            dot_tiles(dp, x.kv + v_at, kv_pitch, n_k, gouts, (long)heads * D, n, diagonal, false, stage);
            differentiate_columns(&x, b, h, q0, k0, s, dp);
            keep_tile(s, tile);
            add_tile(dv, tile, gouts, (long)heads * D, n, diagonal, false, stage);
            keep_tile(dp, tile);
            add_tile(dk, tile, queries, pitch, n, diagonal, false, stage);
        }
    }
#if LENGTHS
    clear_rows(dk, x.n_keys - k0);
    clear_rows(dv, x.n_keys - k0);
#endif
    put_tile(dk, 0, dkv + k_at, kv_pitch, n_k);
    put_tile(dv, 0, dkv + v_at, kv_pitch, n_k);
}

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void attention_local_grad(global const ACT *gout, global const ACT *qkv, global const ACT *kv, global const float *lse, global const float *dots, global const float *glse,
        global float *sums, global ACT *dqkv, global ACT *dkv, global const int *mask, global const uint *record, const charl__attention_args args)
{
    local float4 stage[STAGE], tile[TILE * PITCH];
    const operands o = {gout, qkv, kv, lse, dots, glse, dqkv, dkv, mask, record};
    const ulong group = get_group_id(0), q_tiles = (ulong)((args.t_all + TILE - 1) / TILE), k_tiles = (ulong)((args.t_keys + TILE - 1) / TILE);
    const ulong of_queries = get_num_groups(0) / ((ulong)args.heads * q_tiles + (ulong)args.kv_heads * k_tiles) * (ulong)args.heads * q_tiles;

    (void)sums; /* only attention_vector_grad.cl uses them */
    if (KEYS == 0 ? QUERIES : QUERIES != 0 && group < of_queries) {
        queries(&o, &args, group, stage, tile);
    } else if (KEYS) {
        keys(&o, &args, QUERIES ? group - of_queries : group, stage, tile);
    }
}
