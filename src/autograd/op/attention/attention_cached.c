/* attention_cached: causal attention over the keys and values of earlier positions, which a cache
 * on the device holds, and those of the rows at hand, which it takes in. Its launches never change:
 * the position is data. Inference only.
 */
#include <math.h>
#include <stdio.h>

#include "autograd/op/attention/attention.h"
#include "autograd/launch/map.h"
#include "autograd/launch/column_chunks.h"
#include "autograd/launch/rows.h"
#include "base/alloc.h"

enum { QUERIES = 8 };

typedef charl__attention_attr attention_attr;
typedef charl__attention_extents extents;

static charl_status infer(charl__infer *inf)
{
    const attention_attr *a = inf->attr;
    const charl_shape *cache = &inf->in[1].shape;
    char text[CHARL_SHAPE_TEXT];
    extents x;

    CHARL_TRY(charl__attention_check(inf, 0));
    x = charl__attention_extents_get(&inf->in[0].shape, a);
    CHARL_REQUIRE(charl__is_float(inf->in[1].dtype) && cache->ndim == 3 && cache->dim[0] == x.b &&
                      cache->dim[1] >= x.t && cache->dim[2] == 2 * a->kv_heads * x.d &&
                      inf->in[1].batch == inf->in[0].batch,
                  CHARL_ERR_SHAPE, "the cache %s is not [%lld, N, %lld] with N >= %lld",
                  charl_shape_format(cache, text), (long long)x.b, (long long)(2 * a->kv_heads * x.d), (long long)x.t);
    CHARL_REQUIRE(a->begins ? inf->n_in == 2
                            : inf->n_in == 3 && inf->in[2].dtype == CHARL_I32 &&
                                  charl_shape_count(&inf->in[2].shape) == 1 && inf->in[2].batch == CHARL_REPLICATED,
                  CHARL_ERR_SHAPE, "the position is not one i32");
    inf->out[0] = inf->in[0];
    inf->out[0].shape.dim[2] = a->heads * x.d;
    inf->workspace = a->begins ? x.b * x.t * a->heads * (int64_t)sizeof(float) : 0;
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

static charl__arg position_of(const charl__enqueue *e)
{
    return charl__in(e->n_in > 2 ? e->in[2] : NULL);
}

/* The keys and values of the rows at hand into the cache. */
static charl_status keep(const charl__enqueue *e, const extents *x, int64_t positions)
{
    const attention_attr *a = e->attr;
    charl__launch l = {
        .file = "attention/attention_cached",
        .entry = "charl_take_in",
        .params = {{"D", x->d}, {"BEGINS", a->begins}},
        .args = {charl__in(e->in[0]), charl__inout(e->in[1]), position_of(e), charl__i32((int32_t)x->t),
                 charl__i32((int32_t)positions), charl__i32((int32_t)(a->heads * x->d))},
    };

    return charl__column_chunks_launch(e, &l, 6, x->b * x->t, 2 * a->kv_heads * x->d, e->in[0]->dtype);
}

static charl_status enqueue(const charl__enqueue *e)
{
    const attention_attr *a = e->attr;
    const extents x = charl__attention_extents_get(&e->in[0]->shape, a);
    const int64_t positions = e->in[1]->shape.dim[1];

    if (x.b * x.t == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(keep(e, &x, positions));
    if (a->begins) {
        CHARL_TRY(charl__attention_forward(e, e->in[0], e->out[0], charl__scratch_arg(CHARL_ARG_OUT, e->workspace, 0)));
        return CHARL_OK;
    }
    CHARL_TRY(charl__launch_enqueue(
        e->dev, &(charl__launch){
                    .file = "attention/attention_cached",
                    .entry = "charl_continue",
                    .params = {{"ACT", .text = charl__kernel_type(e->in[0]->dtype)}, {"D", x.d}, {"CHARL_VEC", 16}},
                    .global = {(size_t)(x.b * a->heads * ((x.t + QUERIES - 1) / QUERIES))},
                    .local = {1},
                    .args = {charl__in(e->in[0]), charl__in(e->in[1]), position_of(e), charl__out(e->out[0]),
                             charl__i32((int32_t)x.t), charl__i32((int32_t)positions), charl__i32(a->heads),
                             charl__i32(a->kv_heads), charl__f32(a->scale)},
                    .label = e->label,
                }));
    return CHARL_OK;
}

/* Key (or with `value` its value) k of head h in row b: one of the rows at hand from `first` on. */
static const double *key_of(const charl__reference *r, int64_t k, int64_t b, int64_t h, bool value)
{
    const attention_attr *a = r->attr;
    const extents x = charl__attention_extents_get(&r->in_type[0].shape, a);
    const int64_t first = a->begins ? 0 : (int64_t)r->in[2][0];
    const int64_t kv = h / (a->heads / a->kv_heads) + (value ? a->kv_heads : 0);

    return k < first ? r->in[1] + ((b * r->in_type[1].shape.dim[1] + k) * 2 * a->kv_heads + kv) * x.d
                     : r->in[0] + ((b * x.t + k - first) * (a->heads + 2 * a->kv_heads) + a->heads + kv) * x.d;
}

static double score(const charl__reference *r, const double *q, const double *k, int64_t d)
{
    double sum = 0.0;

    for (int64_t i = 0; i < d; i++) {
        sum += q[i] * k[i];
    }
    return sum * (double)((const attention_attr *)r->attr)->scale;
}

/* Weights of n keys for one query, normalised. */
static void weigh(const charl__reference *r, const double *q, int64_t b, int64_t h, int64_t n, double *weight)
{
    const int64_t d = charl__attention_extents_get(&r->in_type[0].shape, r->attr).d;
    double m = -(double)INFINITY, sum = 0.0;

    for (int64_t k = 0; k < n; k++) {
        weight[k] = score(r, q, key_of(r, k, b, h, false), d);
        m = weight[k] > m || isnan(weight[k]) ? weight[k] : m;
    }
    for (int64_t k = 0; k < n; k++) {
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
    const int64_t first = a->begins ? 0 : (int64_t)r->in[2][0];
    const bool fits = first + x.t <= r->in_type[1].shape.dim[1];
    double *weight;

    if (charl__alloc_array(first + x.t, sizeof *weight, &weight) != CHARL_OK) {
        return;
    }
    for (int64_t i = 0; i < x.b * x.t * a->heads; i++) {
        const int64_t b = i / a->heads / x.t, t = i / a->heads % x.t, h = i % a->heads;
        const double *q = r->in[0] + ((b * x.t + t) * (a->heads + 2 * a->kv_heads) + h) * x.d;

        for (int64_t d = 0; d < x.d; d++) {
            r->out[0][i * x.d + d] = fits ? 0.0 : (double)NAN;
        }
        if (fits) {
            weigh(r, q, b, h, first + t + 1, weight);
        }
        for (int64_t k = 0; fits && k <= first + t; k++) {
            for (int64_t d = 0; d < x.d; d++) {
                r->out[0][i * x.d + d] += weight[k] * key_of(r, k, b, h, true)[d];
            }
        }
    }
    charl_free(weight);
}

static const attention_attr grouped = {.heads = 4, .kv_heads = 2, .scale = 0.35F, .causal = true},
                            one = {.heads = 1, .kv_heads = 1, .scale = 0.25F, .causal = true},
                            begins = {.heads = 2, .kv_heads = 2, .scale = 0.3F, .causal = true, .begins = true};

/* Position 64 + something: beyond the first tile; in the last but one sample perhaps outside. */
static const charl__op_sample samples[] = {
    {.in = {CHARL_B(F32, 8, 1, 160), CHARL_B(F32, 8, 40, 80), CHARL_R(I32, 1)},
     .attr = &grouped,
     .lo = -2,
     .hi = 2,
     .int_end = 40,
     .terms = 40},
    {.in = {CHARL_B(F32, 8, 11, 160), CHARL_B(F32, 8, 130, 80), CHARL_R(I32, 1)},
     .attr = &grouped,
     .lo = -2,
     .hi = 2,
     .int_end = 119,
     .terms = 130},
    {.in = {CHARL_R(F32, 1, 1, 60), CHARL_R(F32, 1, 203, 40), CHARL_R(I32, 1)},
     .attr = &one,
     .lo = -3,
     .hi = 3,
     .int_end = 203,
     .terms = 203},
    {.in = {CHARL_R(F32, 1, 2, 60), CHARL_R(F32, 1, 2, 40), CHARL_R(I32, 1)},
     .attr = &one,
     .lo = -3,
     .hi = 3,
     .int_end = 100,
     .terms = 20},
    {.in = {CHARL_B(F32, 8, 33, 120), CHARL_B(F32, 8, 40, 80)},
     .n_in = 2,
     .attr = &begins,
     .lo = -2,
     .hi = 2,
     .terms = 33},
    {.in = {CHARL_R(F32, 0, 2, 60), CHARL_R(F32, 0, 2, 40), CHARL_R(I32, 1)}, .attr = &one, .lo = -3, .hi = 3},
};

const charl__op charl_op_attention_cached = {
    .name = "attention_cached",
    .formula = "cache[position ..] = keys and values of qkv; out = causal attention over the cache",
    .n_in = 3,
    .n_optional = 1,
    .attr_size = sizeof(attention_attr),
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .effect = true,
    .infer = infer,
    .enqueue = enqueue,
    .reference = reference,
    CHARL_SAMPLES(samples),
};

charl_var *charl__attention_cached(charl_graph *g, charl_var *qkv, charl_var *cache, charl_var *position,
                                   const charl__attention_attr *a)
{
    charl_var *out[CHARL_OP_MAX_OUT];

    charl__apply(g, &charl_op_attention_cached, a, (charl_var *[]){qkv, cache, position}, 3, out);
    return out[0];
}
