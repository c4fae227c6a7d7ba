/* attention_cached: causal attention over the keys and values of earlier positions, which are in a cache
 * on the device, and of the current rows, which it adds to the cache. Its launches never change:
 * sequence and positions are data. Inference only.
 *
 *   begins      qkv [1, T, ...] are positions 0, 1, ... of sequence at[0] of the cache
 *   otherwise   qkv [S, 1, ...]: row s is position at[s] of sequence s
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "autograd/op/attention/attention.h"
#include "autograd/launch/map.h"
#include "autograd/launch/column_chunks.h"
#include "autograd/launch/rows.h"
#include "base/alloc.h"

enum { QUERIES = 8 };
/* The same values as in kernels/nvidia/attention/attention_token.cl. */
enum { PART = 1024, TOKEN_GROUP = 256, PIECE = 8, MOST_OF_TOKEN = 256 };

typedef charl__attention_attr attention_attr;
typedef charl__attention_extents extents;

static charl_status infer(charl__infer *inf)
{
    const attention_attr *a = inf->attr;
    const charl_shape *cache = &inf->in[1].shape;
    const charl_type *at = &inf->in[2];
    char text[CHARL_SHAPE_TEXT];
    extents x;

    CHARL_TRY(charl__attention_check(inf, 0));
    x = charl__attention_extents_get(&inf->in[0].shape, a);
    CHARL_REQUIRE((a->begins ? x.b : x.t) == 1 && (!a->begins || inf->in[0].batch == CHARL_REPLICATED), CHARL_ERR_SHAPE,
                  "%s is neither a sequence that begins, [1, T, features], nor one position of each, [S, 1, features]",
                  charl_shape_format(&inf->in[0].shape, text));
    CHARL_REQUIRE(inf->in[1].dtype == inf->in[0].dtype, CHARL_ERR_DTYPE, "the cache is %s, not %s as qkv",
                  charl_dtype_name(inf->in[1].dtype), charl_dtype_name(inf->in[0].dtype));
    CHARL_REQUIRE(cache->ndim == 3 && cache->dim[2] == 2 * a->kv_heads * x.d &&
                      (a->begins ? cache->dim[1] >= x.t : cache->dim[0] == x.b) && inf->in[1].batch == inf->in[0].batch,
                  CHARL_ERR_SHAPE, "the cache %s is not [%s, %lld] for %lld %s", charl_shape_format(cache, text),
                  a->begins ? "S, N" : "sequences, N", (long long)(2 * a->kv_heads * x.d),
                  (long long)(a->begins ? x.t : x.b), a->begins ? "positions" : "sequences");
    CHARL_REQUIRE(at->dtype == CHARL_I32 && charl_shape_count(&at->shape) == x.b && at->batch == inf->in[0].batch,
                  CHARL_ERR_SHAPE, "%s is not %s", charl_shape_format(&at->shape, text),
                  a->begins ? "one sequence, i32" : "an i32 position for each sequence");
    inf->out[0] = inf->in[0];
    inf->out[0].shape.dim[2] = a->heads * x.d;
    inf->workspace = (a->begins              ? x.t * a->heads
                      : cache->dim[1] > PART ? x.b * a->heads * charl__ceil_div(cache->dim[1], PART) * (x.d + 2)
                                             : 0) *
                     (int64_t)sizeof(float);
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

/* Write the keys and values of the current rows to the cache. */
static charl_status keep(const charl__enqueue *e, const extents *x)
{
    const attention_attr *a = e->attr;
    const charl_shape *cache = &e->in[1]->shape;
    charl__launch l = {
        .file = "attention/attention_cached",
        .entry = "charl_take_in",
        .params = {{"D", x->d}, {"BEGINS", a->begins}},
        .args = {charl__in(e->in[0]), charl__inout(e->in[1]), charl__in(e->in[2]), charl__i32((int32_t)cache->dim[0]),
                 charl__i32((int32_t)cache->dim[1]), charl__i32((int32_t)(a->heads * x->d))},
    };

    return charl__column_chunks_launch(e, &l, 6, x->b * x->t, 2 * a->kv_heads * x->d, e->in[0]->dtype);
}

static bool begins_by_16(const charl_tensor *t)
{
    return (size_t)t->offset * charl_dtype_size(t->dtype) % 16 == 0;
}

/* Whether one of NVIDIA's kernels for half types continues sequences: depends on types, the attribute and the extent of a head, but for the place of
 * operands in memory, which are aligned. It has no window and no softcap. */
static bool has_token_kernel(const charl__enqueue *e, int64_t d)
{
    const attention_attr *a = e->attr;

    return a->window == 0 && a->softcap == 0.0F && e->in[0]->dtype != CHARL_F32 &&
           charl__device_has_nvidia_cores(e->dev, e->in[0]->dtype) && charl__device_facts_get(e->dev)->nvidia.wgmma &&
           d % PIECE == 0 && d <= MOST_OF_TOKEN && begins_by_16(e->in[0]) && begins_by_16(e->in[1]);
}

static charl_status continue_token(const charl__enqueue *e, const extents *x)
{
    const attention_attr *a = e->attr;
    const int64_t positions = e->in[1]->shape.dim[1], parts = charl__ceil_div(positions, PART);
    const charl__arg part = parts > 1 ? charl__scratch_arg(CHARL_ARG_OUT, e->workspace, 0) : charl__out(NULL);
    charl__launch l = {
        .file = "nvidia/attention/attention_token",
        .entry = "charl_token",
        .params = {{"ACT", .text = charl__kernel_type(e->in[0]->dtype)}, {"D", x->d}, {"PARTS", parts}},
        .global = {(size_t)(x->b * a->heads * parts * TOKEN_GROUP)},
        .local = {TOKEN_GROUP},
        .args = {charl__in(e->in[0]), charl__inout(e->in[1]), charl__in(e->in[2]),
                 charl__out(parts > 1 ? NULL : e->out[0]), part, charl__i32((int32_t)positions), charl__i32(a->heads),
                 charl__i32(a->kv_heads), charl__f32(a->scale)},
        .label = e->label,
    };
    charl__launch merge = {
        .file = l.file,
        .entry = "charl_token_merge",
        .global = {(size_t)(x->b * a->heads * TOKEN_GROUP)},
        .local = {TOKEN_GROUP},
        .args = {part, charl__in(e->in[2]), charl__out(e->out[0]), charl__i32((int32_t)positions),
                 charl__i32(a->heads)},
        .label = e->label,
    };

    CHARL_TRY(charl__launch_enqueue(e->dev, &l));
    memcpy(merge.params, l.params, sizeof merge.params);
    merge.args[0].kind = CHARL_ARG_IN;
    return parts > 1 ? charl__launch_enqueue(e->dev, &merge) : CHARL_OK;
}

static charl_status continue_rows(const charl__enqueue *e, const extents *x, bool local)
{
    const attention_attr *a = e->attr;
    const int sharing = a->heads / a->kv_heads;
    const size_t head = (size_t)x->d * charl_dtype_size(e->in[1]->dtype);
    const int64_t groups = x->b * (local ? a->heads : (int64_t)a->kv_heads * ((sharing + QUERIES - 1) / QUERIES));
    charl__launch l = {
        .file = local ? "attention/attention_cached_local" : "attention/attention_cached",
        .entry = local ? "charl_continue_local" : "charl_continue",
        .params = {{"ACT", .text = charl__kernel_type(e->in[0]->dtype)},
                   {"D", x->d},
                   {"WINDOW", a->window},
                   {"SOFTCAP", a->softcap > 0.0F},
                   {"CHARL_VEC", local ? 1 : 16}},
        .local = {local ? CHARL__ATTENTION_GROUP : 1},
        .args = {charl__in(e->in[0]), charl__inout(e->in[1]), charl__in(e->in[2]), charl__out(e->out[0]),
                 charl__i32((int32_t)e->in[1]->shape.dim[1]), charl__i32(a->heads), charl__i32(a->kv_heads),
                 charl__f32(charl__attention_scale(a)), charl__f32(charl__attention_inner(a))},
        .label = e->label,
    };

    l.global[0] = (size_t)groups * l.local[0];
    if (local) {
        charl__launch_set(&l, "BY_16", head % 16 == 0 && begins_by_16(e->in[0]) && begins_by_16(e->in[1]));
    }
    return charl__launch_enqueue(e->dev, &l);
}

static charl_status enqueue(const charl__enqueue *e)
{
    const attention_attr *a = e->attr;
    const extents x = charl__attention_extents_get(&e->in[0]->shape, a);
    const bool local = charl__attention_in_groups(e->dev);

    if (x.b * x.t == 0) {
        return CHARL_OK;
    }
    if (!a->begins && has_token_kernel(e, x.d)) {
        return continue_token(e, &x);
    }
    CHARL_TRY(a->begins || !local ? keep(e, &x) : CHARL_OK); /* otherwise the kernel in local memory does */
    return a->begins
               ? charl__attention_forward(e, e->in[0], e->out[0], charl__scratch_arg(CHARL_ARG_OUT, e->workspace, 0))
               : continue_rows(e, &x, local);
}

/* Row r of qkv is position `position` of `sequence`, whose cache is filled up to `held`. */
typedef struct place {
    int64_t sequence, position, held;
} place;

static place place_of(const charl__reference *r, int64_t row)
{
    const attention_attr *a = r->attr;
    const int64_t at = (int64_t)r->in[2][a->begins ? 0 : row];

    return a->begins ? (place){at, row, 0} : (place){row, at, at};
}

/* Key (or with `value` its value) k of head h for a row: from the cache, or from the current rows. */
static const double *key_of(const charl__reference *r, int64_t k, int64_t row, int64_t h, bool value)
{
    const attention_attr *a = r->attr;
    const extents x = charl__attention_extents_get(&r->in_type[0].shape, a);
    const place p = place_of(r, row);
    const int64_t kv = h / (a->heads / a->kv_heads) + (value ? a->kv_heads : 0);

    return k < p.held ? r->in[1] + ((p.sequence * r->in_type[1].shape.dim[1] + k) * 2 * a->kv_heads + kv) * x.d
                      : r->in[0] + ((a->begins ? k : row) * (a->heads + 2 * a->kv_heads) + a->heads + kv) * x.d;
}

static double score(const charl__reference *r, const double *q, const double *k, int64_t d)
{
    const attention_attr *a = r->attr;
    const double cap = (double)a->softcap;
    double sum = 0.0;

    for (int64_t i = 0; i < d; i++) {
        sum += q[i] * k[i];
    }
    sum *= (double)a->scale;
    return cap > 0.0 ? cap * tanh(sum / cap) : sum;
}

/* Weights of n keys for one query, normalized; 0 for those before its window. */
static void weigh(const charl__reference *r, const double *q, int64_t row, int64_t h, int64_t n, double *weight)
{
    const int64_t d = charl__attention_extents_get(&r->in_type[0].shape, r->attr).d;
    const int window = ((const attention_attr *)r->attr)->window;
    const int64_t first = window > 0 && window < n ? n - window : 0;
    double m = -(double)INFINITY, sum = 0.0;

    for (int64_t k = 0; k < first; k++) {
        weight[k] = 0.0;
    }
    for (int64_t k = first; k < n; k++) {
        weight[k] = score(r, q, key_of(r, k, row, h, false), d);
        m = weight[k] > m || isnan(weight[k]) ? weight[k] : m;
    }
    for (int64_t k = first; k < n; k++) {
        weight[k] = exp(weight[k] - m);
        sum += weight[k];
    }
    for (int64_t k = 0; k < n; k++) {
        weight[k] /= sum;
    }
}

static void reference(const charl__reference *r)
{
    const attention_attr *a = r->attr;
    const extents x = charl__attention_extents_get(&r->in_type[0].shape, a);
    const int64_t positions = r->in_type[1].shape.dim[1];
    double *weight;

    if (charl__alloc_array(positions, sizeof *weight, &weight) != CHARL_OK) {
        return;
    }
    for (int64_t i = 0; i < x.b * x.t * a->heads; i++) {
        const int64_t row = i / a->heads, h = i % a->heads, n = place_of(r, row).position + 1;
        const bool fits = n >= 1 && n <= positions;

        for (int64_t d = 0; d < x.d; d++) {
            r->out[0][i * x.d + d] = fits ? 0.0 : (double)NAN;
        }
        if (fits) {
            weigh(r, r->in[0] + (row * (a->heads + 2 * a->kv_heads) + h) * x.d, row, h, n, weight);
        }
        for (int64_t k = 0; fits && k < n; k++) {
            for (int64_t d = 0; d < x.d; d++) {
                r->out[0][i * x.d + d] += weight[k] * key_of(r, k, row, h, true)[d];
            }
        }
    }
    charl_free(weight);
}

static const attention_attr
    grouped = {.heads = 4, .kv_heads = 2, .scale = 0.35F, .causal = true},
    many = {.heads = 18, .kv_heads = 2, .scale = 0.3F, .causal = true},
    one = {.heads = 1, .kv_heads = 1, .scale = 0.25F, .causal = true},
    begins = {.heads = 2, .kv_heads = 2, .scale = 0.3F, .causal = true, .begins = true},
    windowed = {.heads = 4, .kv_heads = 2, .scale = 0.35F, .causal = true, .window = 9},
    windowed_long = {.heads = 1, .kv_heads = 1, .scale = 0.25F, .causal = true, .window = 270},
    capped = {.heads = 4, .kv_heads = 2, .scale = 0.9F, .softcap = 1.5F, .causal = true, .begins = true, .window = 7},
    capped_next = {.heads = 18, .kv_heads = 2, .scale = 0.9F, .softcap = 1.5F, .causal = true, .window = 65};

/* Positions within a tile, beyond the first one and beyond 256 keys; in the fifth sample possibly out of range. */
static const charl__op_sample samples[] = {
    {.in = {CHARL_B(F32, 8, 1, 160), CHARL_B(F32, 8, 40, 80), CHARL_B(I32, 8)},
     .attr = &grouped,
     .int_end = 40,
     CHARL_WITHIN(2, 40)},
    {.in = {CHARL_R(F32, 5, 1, 176), CHARL_R(F32, 5, 130, 32), CHARL_R(I32, 5)},
     .attr = &many,
     .int_end = 130,
     CHARL_WITHIN(2, 130)},
    {.in = {CHARL_R(F32, 4, 1, 60), CHARL_R(F32, 4, 603, 40), CHARL_R(I32, 4)},
     .attr = &one,
     .int_end = 603,
     .terms = 603},
    {.in = {CHARL_R(F32, 2, 1, 768), CHARL_R(F32, 2, 90, 512), CHARL_R(I32, 2)},
     .attr = &one,
     .int_end = 90,
     CHARL_WITHIN(0.5, 256)},
    {.in = {CHARL_R(F32, 3, 1, 63), CHARL_R(F32, 3, 2, 42), CHARL_R(I32, 3)}, .attr = &one, .int_end = 4, .terms = 21},
    {.in = {CHARL_R(F32, 1, 33, 120), CHARL_R(F32, 3, 40, 80), CHARL_R(I32, 1)},
     .attr = &begins,
     .int_end = 4,
     CHARL_WITHIN(2, 33)},
    {.in = {CHARL_B(F32, 8, 1, 160), CHARL_B(F32, 8, 40, 80), CHARL_B(I32, 8)},
     .attr = &windowed,
     .int_end = 40,
     CHARL_WITHIN(2, 40)},
    {.in = {CHARL_R(F32, 4, 1, 60), CHARL_R(F32, 4, 603, 40), CHARL_R(I32, 4)},
     .attr = &windowed_long,
     .int_end = 603,
     .terms = 603},
    {.in = {CHARL_R(F32, 1, 33, 160), CHARL_R(F32, 3, 40, 80), CHARL_R(I32, 1)},
     .attr = &capped,
     .int_end = 4,
     CHARL_WITHIN(2, 33)},
    {.in = {CHARL_R(F32, 5, 1, 176), CHARL_R(F32, 5, 130, 32), CHARL_R(I32, 5)},
     .attr = &capped_next,
     .int_end = 130,
     CHARL_WITHIN(2, 130)},
    {.in = {CHARL_R(F32, 0, 1, 60), CHARL_R(F32, 0, 2, 40), CHARL_R(I32, 0)}, .attr = &one},
};

const charl__op charl_op_attention_cached = {
    .name = "attention_cached",
    .formula = "cache[at] = keys and values of qkv; out = causal attention over the cache",
    .n_in = 3,
    .attr_size = sizeof(attention_attr),
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .effect = true,
    CHARL_RULES(),
};

charl_var *charl__attention_cached(charl_graph *g, charl_var *qkv, charl_var *cache, charl_var *at,
                                   const charl__attention_attr *a)
{
    return charl__apply_n(g, &charl_op_attention_cached, a, (charl_var *[]){qkv, cache, at}, 3);
}
