/* attention: scaled dot-product attention of many heads on packed operands, and attention_grad, its
 * gradient. cross_attention and cross_attention_grad: the same with keys and values in an operand of their own, of other
 * positions than the queries.
 *
 * Scores are computed tile by tile and never stored, after Dao et al., FlashAttention (2022) and Milakov and
 * Gimelshein, Online normalizer calculation for softmax (2018). The gradient recomputes the weights
 * from the logarithm of each row's normalizer.
 */
#include <math.h>
#include <stdio.h>

#include "autograd/op/attention/attention.h"
#include "autograd/onnx/onnx.h"
#include "autograd/graph.h"
#include "autograd/kv_cache.h"
#include "autograd/launch/map.h"
#include "autograd/launch/rows.h"
#include "base/alloc.h"
#include "base/numeric/hash.h"
#include "base/numeric/rng.h"
#include "charl/ops.h"

enum { MAX_D = 256, LANES = 32 };
enum { TILE = 64, GROUP = CHARL__ATTENTION_GROUP, LOCAL_BYTES = 40960 }; /* of the form with work-groups */
enum { WIDE_D = 128 }; /* heads up to this size leave registers for 8 rows of a tile per work-item */

typedef charl__attention_attr attention_attr;
typedef charl__attention_extents extents;

/* Heads of a position of qkv. */
static int query_columns(const attention_attr *a)
{
    return a->cross ? a->heads : a->heads + 2 * a->kv_heads;
}

/* kv: NULL without a->cross. */
static extents extents_of(const charl_shape *qkv, const charl_shape *kv, const attention_attr *a)
{
    return (extents){qkv->dim[0], qkv->dim[1], qkv->dim[2] / query_columns(a), kv ? kv->dim[1] : qkv->dim[1]};
}

/* Of the operands from qkv on. */
static extents extents_in(const charl_type *in, const attention_attr *a)
{
    return extents_of(&in[0].shape, a->cross ? &in[1].shape : NULL, a);
}

charl__attention_extents charl__attention_extents_get(const charl_shape *qkv, const charl__attention_attr *a)
{
    return extents_of(qkv, NULL, a);
}

static uint32_t threshold_of(float p)
{
    return (uint32_t)(p * 16777216.0F); /* random draws have 24 bits */
}

charl_status charl__attention_check(const charl__infer *inf, int operand)
{
    const charl__attention_attr *a = inf->attr;
    const charl_type *qkv = &inf->in[operand];
    const int columns = query_columns(a);
    char text[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(charl__is_float(qkv->dtype), CHARL_ERR_DTYPE, "qkv is %s, not a float", charl_dtype_name(qkv->dtype));
    CHARL_REQUIRE(qkv->shape.ndim == 3 && qkv->shape.dim[2] > 0 && qkv->shape.dim[2] % columns == 0, CHARL_ERR_SHAPE,
                  a->cross ? "queries %s are not [B, T, %d * D]" : "qkv %s is not [B, T, (%d + 2 * %d) * D]",
                  charl_shape_format(&qkv->shape, text), a->heads, a->kv_heads);
    CHARL_REQUIRE(qkv->shape.dim[2] / columns <= MAX_D, CHARL_ERR_SHAPE, "a head of %lld elements is larger than %d",
                  (long long)(qkv->shape.dim[2] / columns), MAX_D);
    CHARL_REQUIRE(qkv->shape.dim[1] < INT32_MAX / 2, CHARL_ERR_SHAPE, "%lld positions are too many",
                  (long long)qkv->shape.dim[1]);
    return CHARL_OK;
}

/* Check keys and values, the operand after the queries `at`. */
static charl_status check_source(const charl__infer *inf, int at)
{
    const attention_attr *a = inf->attr;
    const charl_type *q = &inf->in[at], *kv = &inf->in[at + 1];
    const int64_t width = q->shape.dim[2] / a->heads * 2 * a->kv_heads;
    char text[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(kv->dtype == q->dtype, CHARL_ERR_DTYPE, "keys and values are %s, queries %s",
                  charl_dtype_name(kv->dtype), charl_dtype_name(q->dtype));
    CHARL_REQUIRE(kv->shape.ndim == 3 && kv->shape.dim[0] == q->shape.dim[0] && kv->shape.dim[2] == width,
                  CHARL_ERR_SHAPE, "keys and values %s are not [%lld, keys, %lld], 2 * %d heads of %lld elements",
                  charl_shape_format(&kv->shape, text), (long long)q->shape.dim[0], (long long)width, a->kv_heads,
                  (long long)(q->shape.dim[2] / a->heads));
    CHARL_REQUIRE(q->shape.dim[1] > 0 && kv->shape.dim[1] > 0 && kv->shape.dim[1] < INT32_MAX / 2, CHARL_ERR_SHAPE,
                  "%lld queries of %lld keys", (long long)q->shape.dim[1], (long long)kv->shape.dim[1]);
    return charl__infer_same_rows(inf, at, at + 1);
}

/* Whether the last operand limits what queries see. */
static bool has_mask(const attention_attr *a)
{
    return a->starts || a->lengths;
}

static charl_status check_mask(const charl__infer *inf, const extents *x)
{
    const attention_attr *a = inf->attr;
    const charl_type *start = &inf->in[inf->n_in - 1];
    char text[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(!a->starts || (start->dtype == CHARL_I32 && start->shape.ndim == 2 && start->shape.dim[0] == x->b &&
                                 start->shape.dim[1] == x->t),
                  CHARL_ERR_SHAPE, "start, %s %s, is not i32 [%lld, %lld]", charl_dtype_name(start->dtype),
                  charl_shape_format(&start->shape, text), (long long)x->b, (long long)x->t);
    CHARL_REQUIRE(!a->lengths || (start->dtype == CHARL_I32 && start->shape.ndim == 1 && start->shape.dim[0] == x->b),
                  CHARL_ERR_SHAPE, "length, %s %s, is not i32 [%lld]", charl_dtype_name(start->dtype),
                  charl_shape_format(&start->shape, text), (long long)x->b);
    return CHARL_OK;
}

static charl_status infer(charl__infer *inf)
{
    const attention_attr *a = inf->attr;
    extents x;

    CHARL_TRY(charl__attention_check(inf, 0));
    CHARL_TRY(a->cross ? check_source(inf, 0) : CHARL_OK);
    x = extents_in(inf->in, a);
    CHARL_TRY(check_mask(inf, &x));
    inf->n_out = 2;
    inf->out[0] = inf->out[1] = inf->in[0];
    inf->out[0].shape = (charl_shape){3, {x.b, x.t, a->heads * x.d}};
    inf->out[1].shape = (charl_shape){3, {x.b, a->heads, x.t}};
    inf->out[1].dtype = CHARL_F32;
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

/* Both variants give the same bits. */
bool charl__attention_in_groups(const charl_device *dev)
{
    const charl_device_info *info = charl_device_get_info(dev);

    return !charl__is_ungrouped(dev) && info->max_group >= GROUP && info->local_bytes >= LOCAL_BYTES;
}

void charl__attention_arguments(const charl__enqueue *e, extents x, charl__attention_args *args, charl__launch *l)
{
    const attention_attr *a = e->attr;
    const charl__arg first_row = charl__batch_position(e, a->batched, x.b);

    args->first_row = (uint64_t)first_row.v.i64;
    args->name_hash = a->key;
    args->threshold = threshold_of(a->p);
    args->keep_scale = 1.0F / (1.0F - a->p);
    args->scale = charl__attention_scale(a);
    args->inner = charl__attention_inner(a);
    args->t_all = (int32_t)x.t;
    args->t_keys = (int32_t)x.t_keys;
    args->heads = a->heads;
    args->kv_heads = a->kv_heads;
    charl__launch_add(l, charl__placed(charl__in(has_mask(a) ? e->in[e->n_in - 1] : NULL), &args->mask));
    charl__launch_add(l, charl__placed(charl__in(e->step), &args->record));
    charl__launch_add(l, charl__struct_at(args, sizeof *args, offsetof(charl__attention_args, first_row), first_row));
}

/* Whether so many heads of t positions have no more tiles than there are compute units. */
static bool are_few(const charl__enqueue *e, extents x, int heads)
{
    return x.b * heads * charl__ceil_div(x.t > x.t_keys ? x.t : x.t_keys, TILE) <=
           charl_device_get_info(e->dev)->compute_units;
}

/* Rows of a tile per work-item. If there are few groups, they have more work-items. */
static int rows_held(const charl__enqueue *e, extents x)
{
    return x.d <= WIDE_D && !are_few(e, x, ((const attention_attr *)e->attr)->heads) ? 8 : 4;
}

/* Whether the heads of t begin at multiples of 4 elements. */
static bool is_by_4(const charl_tensor *t, extents x)
{
    return x.d % 4 == 0 && t->offset % 4 == 0;
}

/* The parameters of every kernel, and the arguments at the end of every list. by_4: for all operands with heads. */
static void specialise(const charl__enqueue *e, extents x, bool by_4, charl__attention_args *args, charl__launch *l)
{
    const attention_attr *a = e->attr;
    const bool groups = charl__attention_in_groups(e->dev);
    const charl__kernel_param params[] = {{"STARTS", a->starts || a->window > 0},
                                          {"DOCUMENTS", a->starts},
                                          {"WINDOW", a->window},
                                          {"SOFTCAP", a->softcap > 0.0F},
                                          {"LENGTHS", a->lengths},
                                          {"CROSS", a->cross},
                                          {"ACT", .text = charl__kernel_type(e->out[0]->dtype)},
                                          {"D", x.d},
                                          {"CAUSAL", a->causal},
                                          {"DROP", a->p > 0.0F},
                                          {"CHARL_VEC", groups ? 1 : 16},
                                          {NULL}};

    charl__launch_set_all(l, params);
    if (groups) {
        charl__launch_set(l, "ROWS", rows_held(e, x));
        charl__launch_set(l, "BY_4", by_4);
    }
    l->label = e->label;
    charl__attention_arguments(e, x, args, l);
}

/* A work-item per `cpu` of t positions of each of `heads` heads, or a group per tile of them. */
static void share_out(const charl__enqueue *e, extents x, int64_t t, int heads, int64_t cpu, charl__launch *l)
{
    const bool groups = charl__attention_in_groups(e->dev);
    const int64_t rows = groups ? TILE : cpu;

    l->local[0] = groups ? (size_t)(16 * TILE / rows_held(e, x)) : 1;
    l->global[0] = (size_t)(x.b * heads * ((t + rows - 1) / rows)) * l->local[0];
}

charl_status charl__attention_forward(const charl__enqueue *e, const charl_tensor *qkv, const charl_tensor *out,
                                      charl__arg lse)
{
    const attention_attr *a = e->attr;
    const charl_tensor *kv = a->cross ? e->in[1] : NULL;
    const extents x = extents_of(&qkv->shape, kv ? &kv->shape : NULL, a);
    const bool local = charl__attention_in_groups(e->dev);
    charl__attention_args args;
    charl__launch l = {.file = local ? "attention/attention_local" : "attention/attention_vector",
                       .entry = local ? "attention_local" : "attention_vector",
                       .args = {charl__placed(charl__in(qkv), &args.qkv), charl__placed(charl__in(kv), &args.kv),
                                charl__placed(charl__out(out), &args.out), charl__placed(lse, &args.lse)}};

    if (charl__attention_on_tensor_cores(e->dev, a, qkv->dtype, x.d)) {
        return charl__attention_tensor_core(e, qkv, out, lse);
    }
    share_out(e, x, x.t, a->heads, LANES, &l);
    specialise(e, x, is_by_4(qkv, x) && (!kv || is_by_4(kv, x)), &args, &l);
    if (local && x.d > WIDE_D / 2 && rows_held(e, x) == 8 && charl__device_facts_get(e->dev)->nvidia.wgmma) {
        l.sm90a.min_blocks = 3; /* else the compiler uses registers for two */
    }
    return charl__launch_enqueue(e->dev, &l);
}

static charl_status enqueue(const charl__enqueue *e)
{
    return charl__attention_forward(e, e->in[0], e->out[0], charl__out(e->out[1]));
}

static void backward(const charl__backward *b)
{
    const attention_attr *a = b->attr;
    charl_var *in[7] = {b->gout[0] ? b->gout[0] : charl_scale(b->g, b->out[0], 0.0F, 0.0F), b->in[0]};
    charl_var *out[CHARL_OP_MAX_OUT] = {NULL};
    int n = 2;

    if (a->cross) {
        in[n++] = b->in[1];
    }
    in[n++] = b->out[0];
    in[n++] = b->out[1];
    if (b->gout[1]) {
        in[n++] = b->gout[1];
    }
    if (has_mask(a)) {
        in[n++] = b->in[b->n_in - 1];
    }
    charl__apply(b->g, a->cross ? &charl_op_cross_attention_grad : &charl_op_attention_grad, a, in, n, out);
    b->gin[0] = out[0];
    b->gin[a->cross] = out[a->cross];
}

/* Reference: the weights of all keys for one query of one head. */
typedef struct query_case {
    const attention_attr *a;
    extents x;
    const double *q, *k, *v; /* k, v: of key 0; keys are `pitch` elements apart */
    const double *mask;      /* start [B, T] or length [B], or NULL */
    int64_t pitch, n_keys;
    double *weight, *factor; /* [keys] scores, then weights; factors of dropout */
} query_case;

/* The score of a product of a query and a key. */
static double score_of(const attention_attr *a, double product)
{
    const double cap = (double)a->softcap, score = (double)a->scale * product;

    return cap > 0.0 ? cap * tanh(score / cap) : score;
}

/* in: the queries, and with a->cross keys and values after them. */
static void set_query(query_case *c, const double *const *in, int64_t b, int64_t h, int64_t q)
{
    const attention_attr *a = c->a;
    const int64_t columns = a->cross ? 2 * a->kv_heads : a->heads + 2 * a->kv_heads, d = c->x.d;
    const int64_t kv = (a->cross ? 0 : a->heads) + h / (a->heads / a->kv_heads);

    c->pitch = columns * d;
    c->q = in[0] + ((b * c->x.t + q) * query_columns(a) + h) * d;
    c->k = in[a->cross] + (b * c->x.t_keys * columns + kv) * d;
    c->v = c->k + a->kv_heads * d;
    c->n_keys = a->causal ? q + 1 : c->x.t_keys;
    if (a->lengths && c->mask[b] < (double)c->x.t_keys) {
        c->n_keys = c->mask[b] > 1.0 ? (int64_t)c->mask[b] : 1;
    }
    for (int64_t k = 0; k < c->n_keys; k++) {
        c->weight[k] = 0.0;
        for (int64_t i = 0; i < d; i++) {
            c->weight[k] += c->q[i] * c->k[k * c->pitch + i];
        }
        c->weight[k] = score_of(a, c->weight[k]);
        if ((a->starts && k < q && (double)k < c->mask[b * c->x.t + q]) || (a->window > 0 && k + a->window <= q)) {
            c->weight[k] = -(double)INFINITY;
        }
    }
}

static void set_factors(const query_case *c, const charl__reference *r, int64_t b, int64_t h, int64_t q)
{
    const attention_attr *a = c->a;
    const charl__step_params *step = r->step;
    const charl__rng rng = charl__rng_key((uint64_t)step->seed_hi << 32 | step->seed_lo,
                                          (uint64_t)step->step_hi << 32 | step->step_lo, a->key);
    const int64_t row = (a->batched ? r->row0 : 0) + b, t4 = (c->x.t_keys + 3) / 4 * 4;
    const int64_t first = ((row * a->heads + h) * c->x.t + q) * t4;

    for (int64_t k = 0; k < c->n_keys; k++) {
        const bool keep = a->p == 0.0F || charl__rng_u32(&rng, (uint64_t)(first + k)) >> 8 >= threshold_of(a->p);

        c->factor[k] = keep ? 1.0 / (1.0 - (double)a->p) : 0.0;
    }
}

/* Weights from scores; returns the logarithm of the normalizer. */
static double normalise(const query_case *c)
{
    double m = c->weight[0], sum = 0.0;

    for (int64_t k = 1; k < c->n_keys; k++) {
        m = c->weight[k] > m ? c->weight[k] : m;
    }
    for (int64_t k = 0; k < c->n_keys; k++) {
        sum += exp(c->weight[k] - m);
    }
    for (int64_t k = 0; k < c->n_keys; k++) {
        c->weight[k] = exp(c->weight[k] - m) / sum;
    }
    return m + log(sum);
}

static void reference(const charl__reference *r)
{
    const attention_attr *a = r->attr;
    query_case c = {.a = a, .x = extents_in(r->in_type, a), .mask = has_mask(a) ? r->in[r->n_in - 1] : NULL};

    if (charl__alloc_array(2 * c.x.t_keys, sizeof(double), &c.weight) != CHARL_OK) {
        return;
    }
    c.factor = c.weight + c.x.t_keys;
    for (int64_t i = 0; i < c.x.b * a->heads * c.x.t; i++) {
        const int64_t b = i / c.x.t / a->heads, h = i / c.x.t % a->heads, q = i % c.x.t;
        double *out = r->out[0] + ((b * c.x.t + q) * a->heads + h) * c.x.d;

        set_query(&c, r->in, b, h, q);
        set_factors(&c, r, b, h, q);
        r->out[1][i] = normalise(&c);
        for (int64_t d = 0; d < c.x.d; d++) {
            out[d] = 0.0;
            for (int64_t k = 0; k < c.n_keys; k++) {
                out[d] += c.weight[k] * c.factor[k] * c.v[k * c.pitch + d];
            }
        }
    }
    charl_free(c.weight);
}

static const attention_attr plain = {.heads = 2, .kv_heads = 2, .scale = 0.5F, .batched = true};
static const attention_attr causal = {.heads = 3, .kv_heads = 3, .scale = 0.3F, .causal = true, .batched = true};
static const attention_attr grouped = {.heads = 4, .kv_heads = 2, .scale = 0.35F, .causal = true, .batched = true};
static const attention_attr one_head = {.heads = 1, .kv_heads = 1, .scale = 0.25F, .causal = true};
static const attention_attr one_open = {.heads = 1, .kv_heads = 1, .scale = 0.25F};
static const attention_attr dropped = {
    .heads = 2, .kv_heads = 1, .scale = 0.5F, .p = 0.3F, .causal = true, .batched = true, .key = 7};
static const attention_attr starts = {
    .heads = 4, .kv_heads = 2, .scale = 0.35F, .causal = true, .batched = true, .starts = true};
static const attention_attr starts_dropped = {
    .heads = 2, .kv_heads = 1, .scale = 0.5F, .p = 0.3F, .causal = true, .batched = true, .key = 7, .starts = true};
static const attention_attr lengths = {.heads = 4, .kv_heads = 2, .scale = 0.35F, .batched = true, .lengths = true};
static const attention_attr lengths_dropped = {
    .heads = 2, .kv_heads = 1, .scale = 0.5F, .p = 0.3F, .batched = true, .key = 7, .lengths = true};
static const attention_attr lengths_long = {.heads = 1, .kv_heads = 1, .scale = 0.25F, .lengths = true};
static const attention_attr starts_long = {.heads = 1, .kv_heads = 1, .scale = 0.25F, .causal = true, .starts = true};
static const attention_attr windowed = {
    .heads = 4, .kv_heads = 2, .scale = 0.35F, .causal = true, .batched = true, .window = 5};
static const attention_attr windowed_starts = {.heads = 2,
                                               .kv_heads = 1,
                                               .scale = 0.5F,
                                               .p = 0.3F,
                                               .causal = true,
                                               .batched = true,
                                               .key = 7,
                                               .starts = true,
                                               .window = 4};
static const attention_attr windowed_long = {.heads = 1, .kv_heads = 1, .scale = 0.25F, .causal = true, .window = 70};
static const attention_attr capped = {
    .heads = 2, .kv_heads = 1, .scale = 0.9F, .softcap = 1.5F, .causal = true, .batched = true, .window = 7};
static const attention_attr capped_long = {.heads = 1, .kv_heads = 1, .scale = 0.25F, .softcap = 2};
static const attention_attr dropped_one = {
    .heads = 1, .kv_heads = 1, .scale = 0.5F, .p = 0.5F, .causal = true, .key = 0x123456789abcdef0};

/* T below, at and above the blocks of 32 queries and tiles of 64 keys; D near multiples of 16, up
 * to WIDE_D and above. */
static const charl__op_sample samples[] = {
    {.n_in = 1, .in = {CHARL_B(F32, 8, 5, 120)}, .attr = &plain, CHARL_WITHIN(2, 20)},
    {.n_in = 1, .in = {CHARL_B(F32, 8, 1, 180)}, .attr = &causal, CHARL_WITHIN(2, 20)},
    {.n_in = 1, .in = {CHARL_B(F32, 8, 33, 180)}, .attr = &causal, CHARL_WITHIN(2, 33)},
    {.n_in = 1, .in = {CHARL_B(F32, 8, 12, 160)}, .attr = &grouped, CHARL_WITHIN(2, 20)},
    {.n_in = 1, .in = {CHARL_B(F32, 8, 9, 80)}, .attr = &dropped, CHARL_WITHIN(2, 20)},
    {.n_in = 1, .in = {CHARL_R(F32, 1, 203, 60)}, .attr = &one_head, CHARL_WITHIN(4, 203)},
    {.n_in = 1, .in = {CHARL_R(F32, 1, 64, 60)}, .attr = &one_head, CHARL_WITHIN(4, 64)},
    {.n_in = 1, .in = {CHARL_R(F32, 2, 131, 60)}, .attr = &one_open, .terms = 131},
    {.n_in = 1, .in = {CHARL_R(F32, 1, 70, 60)}, .attr = &dropped_one, CHARL_WITHIN(2, 70)},
    {.n_in = 1, .in = {CHARL_R(F32, 1, 1, 60)}, .attr = &one_open, CHARL_WITHIN(2, 20)},
    {.n_in = 1, .in = {CHARL_R(F32, 1, 131, 192)}, .attr = &one_head, CHARL_WITHIN(1, 131)},
    {.n_in = 1, .in = {CHARL_R(F32, 1, 66, 408)}, .attr = &one_open, CHARL_WITHIN(1, 136)},
    {.in = {CHARL_B(F32, 8, 12, 160), CHARL_B(I32, 8, 12)}, .attr = &starts, .int_end = 12, CHARL_WITHIN(2, 20)},
    {.in = {CHARL_B(F32, 8, 9, 80), CHARL_B(I32, 8, 9)}, .attr = &starts_dropped, .int_end = 9, CHARL_WITHIN(2, 20)},
    {.in = {CHARL_R(F32, 1, 203, 60), CHARL_R(I32, 1, 203)},
     .attr = &starts_long,
     .int_end = 203,
     CHARL_WITHIN(4, 203)},
    {.in = {CHARL_B(F32, 16, 12, 160), CHARL_B(I32, 16)},
     .attr = &lengths,
     .int_end = 14,
     /* 0 is taken as 1, 13 as 12 */ CHARL_WITHIN(2, 20)},
    {.in = {CHARL_B(F32, 8, 9, 80), CHARL_B(I32, 8)}, .attr = &lengths_dropped, .int_end = 10, CHARL_WITHIN(2, 20)},
    {.in = {CHARL_R(F32, 3, 203, 60), CHARL_R(I32, 3)}, .attr = &lengths_long, .int_end = 204, CHARL_WITHIN(4, 203)},
    {.n_in = 1, .in = {CHARL_B(F32, 8, 12, 160)}, .attr = &windowed, CHARL_WITHIN(2, 20)},
    {.in = {CHARL_B(F32, 8, 9, 80), CHARL_B(I32, 8, 9)}, .attr = &windowed_starts, .int_end = 9, CHARL_WITHIN(2, 20)},
    {.n_in = 1, .in = {CHARL_R(F32, 1, 203, 60)}, .attr = &windowed_long, CHARL_WITHIN(4, 203)},
    {.n_in = 1, .in = {CHARL_B(F32, 8, 12, 80)}, .attr = &capped, CHARL_WITHIN(2, 20)},
    {.n_in = 1, .in = {CHARL_R(F32, 1, 131, 60)}, .attr = &capped_long, CHARL_WITHIN(2, 131)},
    {.n_in = 1, .in = {CHARL_R(F32, 2, 0, 60)}, .attr = &one_open, .lo = -2, .hi = 2},
};

static const attention_attr cross = {.heads = 2, .kv_heads = 2, .scale = 0.5F, .batched = true, .cross = true};
static const attention_attr cross_grouped = {
    .heads = 4, .kv_heads = 2, .scale = 0.35F, .softcap = 1.5F, .p = 0.3F, .batched = true, .key = 7, .cross = true};
static const attention_attr cross_lengths = {
    .heads = 2, .kv_heads = 1, .scale = 0.5F, .batched = true, .lengths = true, .cross = true};
static const attention_attr cross_one = {.heads = 1, .kv_heads = 1, .scale = 0.25F, .cross = true};
static const attention_attr cross_dropped = {
    .heads = 1, .kv_heads = 1, .scale = 0.5F, .p = 0.5F, .key = 9, .lengths = true, .cross = true};

/* More queries than keys, and more keys than queries: below and above a block and a tile of each. */
static const charl__op_sample samples_cross[] = {
    {.in = {CHARL_B(F32, 8, 5, 40), CHARL_B(F32, 8, 9, 80)}, .n_in = 2, .attr = &cross, CHARL_WITHIN(2, 20)},
    {.in = {CHARL_B(F32, 8, 12, 80), CHARL_B(F32, 8, 3, 80)}, .n_in = 2, .attr = &cross_grouped, CHARL_WITHIN(2, 20)},
    {.in = {CHARL_B(F32, 16, 6, 40), CHARL_B(F32, 16, 11, 40), CHARL_B(I32, 16)},
     .attr = &cross_lengths,
     .int_end = 13, /* 0 is taken as 1, 12 as 11 */
     CHARL_WITHIN(2, 20)},
    {.in = {CHARL_R(F32, 2, 70, 20), CHARL_R(F32, 2, 203, 40)}, .n_in = 2, .attr = &cross_one, CHARL_WITHIN(4, 203)},
    {.in = {CHARL_R(F32, 2, 131, 66), CHARL_R(F32, 2, 3, 132)}, .n_in = 2, .attr = &cross_one, CHARL_WITHIN(2, 66)},
    {.in = {CHARL_R(F32, 3, 35, 20), CHARL_R(F32, 3, 130, 40), CHARL_R(I32, 3)},
     .attr = &cross_dropped,
     .int_end = 131,
     CHARL_WITHIN(2, 130)},
    {.in = {CHARL_R(F32, 1, 1, 20), CHARL_R(F32, 1, 1, 40)}, .n_in = 2, .attr = &cross_one, CHARL_WITHIN(2, 20)},
};

/* Part of an operand as [B, kv_heads, group, T, D]: `heads` heads from column `first` on; `transposed`:
 * D before T. */
static const char *onnx_heads(const charl__onnx_node *n, int operand, int first, int heads, bool transposed)
{
    static const int64_t rows[] = {0, 2, 3, 1, 4}, columns[] = {0, 2, 3, 4, 1};
    const attention_attr *a = n->attr;
    const int64_t d = n->in_type[0].shape.dim[2] / query_columns(a);
    charl_type type = n->in_type[operand];
    const char *part = charl__onnx_slice(n, n->in[operand], -1, first * d, (first + heads) * d, NULL);

    type.shape = (charl_shape){5, {type.shape.dim[0], type.shape.dim[1], a->kv_heads, heads / a->kv_heads, d}};
    part = charl__onnx_reshape(n, part, &type, NULL);
    return charl__onnx_transpose(n, part, transposed ? columns : rows, 5, NULL);
}

/* Minus infinity where k >= q + beyond (later), or k <= q + beyond, 0 elsewhere: [T, T]. */
static const char *onnx_mask(const charl__onnx_node *n, int64_t t, bool later, int64_t beyond)
{
    const char *hidden = charl__onnx_op(n, "Expand", charl__onnx_float(n, -(double)INFINITY),
                                        charl__onnx_ints(n, (const int64_t[]){t, t}, 2), NULL);

    return charl__onnx_write_call(n, &(charl__onnx_call){.type = "Trilu",
                                                         .in = {hidden, charl__onnx_int(n, beyond)},
                                                         .attr = {{"upper", .i = later}}});
}

/* Scores [B, kv_heads, group, T, keys] with minus infinity for keys after the end of a row. */
static const char *onnx_keys(const charl__onnx_node *n, const char *scores, int64_t t)
{
    const char *length = charl__onnx_op(n, "Max", n->in[n->n_in - 1], charl__onnx_int(n, 1), NULL);

    length = charl__onnx_op(n, "Unsqueeze", length, charl__onnx_ints(n, (const int64_t[]){1, 2, 3, 4}, 4), NULL);
    return charl__onnx_write_call(
        n, &(charl__onnx_call){.type = "Where",
                               .in = {charl__onnx_op(n, "Less", charl__onnx_range(n, t), length, NULL), scores,
                                      charl__onnx_float(n, -(double)INFINITY)}});
}

/* The T x T weights are materialized here: runtimes recognize and fuse this pattern. */
static void onnx(const charl__onnx_node *n)
{
    static const int64_t back[] = {0, 3, 1, 2, 4};
    const attention_attr *a = n->attr;
    const int64_t t = n->in_type[a->cross].shape.dim[1];
    const int source = a->cross, keys = a->cross ? 0 : a->heads;
    const char *s;

    if (a->p > 0.0F || a->starts) {
        charl__onnx_fail(n, a->starts ? "attention within documents is for training"
                                      : "attention with dropout is for training");
        return;
    }
    s = charl__onnx_op(n, "MatMul", onnx_heads(n, 0, 0, a->heads, false),
                       onnx_heads(n, source, keys, a->kv_heads, true), NULL);
    s = charl__onnx_op(n, "Mul", s, charl__onnx_float(n, (double)a->scale), NULL);
    if (a->softcap > 0.0F) {
        const char *cap = charl__onnx_float(n, (double)a->softcap);

        s = charl__onnx_op(n, "Tanh", charl__onnx_op(n, "Div", s, cap, NULL), NULL, NULL);
        s = charl__onnx_op(n, "Mul", s, cap, NULL);
    }
    s = a->causal ? charl__onnx_op(n, "Add", s, onnx_mask(n, t, true, 1), NULL) : s;
    s = a->window > 0 ? charl__onnx_op(n, "Add", s, onnx_mask(n, t, false, -a->window), NULL) : s;
    s = a->lengths ? onnx_keys(n, s, t) : s;
    s = charl__onnx_write_call(n, &(charl__onnx_call){.type = "Softmax", .in = {s}, .attr = {{"axis", .i = -1}}});
    s = charl__onnx_op(n, "MatMul", s, onnx_heads(n, source, keys + a->kv_heads, a->kv_heads, false), NULL);
    s = charl__onnx_transpose(n, s, back, 5, NULL);
    charl__onnx_reshape(n, s, n->out_type, n->out);
}

/* Q K^T and P V over the pairs of positions, half of them where causal, and those within the window. */
static double count_flop(const attention_attr *a, const charl_type *in)
{
    const extents x = extents_in(in, a);
    const double t = (double)x.t, w = a->window > 0 && a->window < x.t ? (double)a->window : t;

    return (a->causal ? 2.0 * w * (2.0 * t - w) : 4.0 * t * (double)x.t_keys) * (double)(x.b * a->heads * x.d);
}

static double flop(const charl__infer *inf)
{
    return count_flop(inf->attr, inf->in);
}

const charl__op charl_op_attention = {
    .name = "attention",
    .flop = flop,
    .formula = "out[q] = sum over keys start[q] <= k < length of softmax(scale * Q[q] . K[k]) * V[k], per head",
    .n_in = 2,
    .n_optional = 1,
    .attr_size = sizeof(attention_attr),
    .half = CHARL_HALF(0),
    .narrows = true,
    CHARL_RULES(),
    .backward = backward,
    .onnx = onnx,
};

const charl__op charl_op_cross_attention = {
    .name = "cross_attention",
    .flop = flop,
    .formula =
        "out[q] = sum over keys k < length of softmax(scale * Q[q] . K[k]) * V[k], per head; K, V of another source",
    .n_in = 3,
    .n_optional = 1,
    .attr_size = sizeof(attention_attr),
    .half = CHARL_HALF(0) | CHARL_HALF(1),
    .narrows = true,
    .infer = infer,
    .enqueue = enqueue,
    .reference = reference,
    CHARL_SAMPLES(samples_cross),
    .backward = backward,
    .onnx = onnx,
};

/* attention_grad(gout, qkv, out, lse[, glse][, start or length]), cross_attention_grad(gout, q, kv, out, lse[, glse][, length]): where the
 * operands after qkv, or kv, are. */
static int out_at(const attention_attr *a)
{
    return 2 + a->cross;
}

static bool has_glse(const attention_attr *a, int n_in)
{
    return n_in - has_mask(a) > out_at(a) + 2;
}

static int64_t row_count(const extents *x, const attention_attr *a)
{
    return x->b * x->t * a->heads;
}

static charl_status infer_grad(charl__infer *inf)
{
    const attention_attr *a = inf->attr;
    const int out = out_at(a), lse = out + 1;
    extents x;

    CHARL_TRY(charl__attention_check(inf, 1));
    CHARL_TRY(a->cross ? check_source(inf, 1) : CHARL_OK);
    CHARL_TRY(charl__infer_floats(inf, 0, inf->n_in - has_mask(a)));
    x = extents_in(inf->in + 1, a);
    CHARL_REQUIRE(charl_shape_equal(&inf->in[0].shape, &inf->in[out].shape) &&
                      charl_shape_count(&inf->in[0].shape) == row_count(&x, a) * x.d &&
                      charl_shape_count(&inf->in[lse].shape) == row_count(&x, a) &&
                      charl_shape_equal(&inf->in[lse].shape, &inf->in[lse + has_glse(a, inf->n_in)].shape),
                  CHARL_ERR_SHAPE, "gout, qkv, out and lse do not fit");
    CHARL_TRY(check_mask(inf, &x));
    inf->n_out = 1 + a->cross;
    inf->out[0] = inf->in[1];
    inf->out[1] = inf->in[2];
    inf->workspace = row_count(&x, a) * (int64_t)sizeof(float);
    if (inf->in[1].dtype != CHARL_F32) { /* dq, before rounding */
        inf->workspace *= 1 + x.d;
    }
    CHARL_TRY(charl__infer_rows(inf));
    return CHARL_OK;
}

/* The dot product of each row of gout with the same row of out, into the workspace [B, T, heads]. */
static charl_status dot_rows(const charl__enqueue *e, const extents *x)
{
    const charl_tensor *out = e->in[out_at(e->attr)];

    return charl__reduce_sum(e, &(charl_reduce){.expr = "a * b",
                                                .a = charl__in(e->in[0]),
                                                .b = charl__in(out),
                                                .a_type = e->in[0]->dtype,
                                                .b_type = out->dtype,
                                                .n_in = 2,
                                                .outer = row_count(x, e->attr),
                                                .n = x->d,
                                                .inner = 1,
                                                .out = charl__scratch_arg(CHARL_ARG_OUT, e->workspace, 0),
                                                .scale = 1.0F});
}

static charl_status launch_grad(const charl__enqueue *e, const extents *x, charl__launch l)
{
    const attention_attr *a = e->attr;
    const bool glse = has_glse(a, e->n_in);
    const int lse = out_at(a) + 1;
    charl_tensor *const kv = a->cross ? e->in[2] : NULL;
    charl__attention_args args;

    charl__launch_set(&l, "GLSE", glse);
    l.args[0] = charl__placed(charl__in(e->in[0]), &args.gout);
    l.args[1] = charl__placed(charl__in(e->in[1]), &args.qkv);
    l.args[2] = charl__placed(charl__in(kv), &args.kv);
    l.args[3] = charl__placed(charl__in(e->in[lse]), &args.lse);
    l.args[4] = charl__placed(charl__scratch_arg(CHARL_ARG_IN, e->workspace, 0), &args.dots);
    l.args[5] = charl__placed(charl__in(glse ? e->in[lse + 1] : NULL), &args.glse);
    l.args[6] = charl__placed(charl__scratch_arg(CHARL_ARG_INOUT, e->workspace, row_count(x, a)), &args.sums);
    l.args[7] = charl__placed(charl__out(e->out[0]), &args.dqkv);
    l.args[8] = charl__placed(charl__out(kv ? e->out[1] : NULL), &args.dkv);
    specialise(e, *x, is_by_4(e->in[0], *x) && is_by_4(e->in[1], *x) && (!kv || is_by_4(kv, *x)), &args, &l);
    return charl__launch_enqueue(e->dev, &l);
}

static charl_status enqueue_grad(const charl__enqueue *e)
{
    const attention_attr *a = e->attr;
    const extents x = extents_of(&e->in[1]->shape, a->cross ? &e->in[2]->shape : NULL, a);
    charl__launch all = {.file = "attention/attention_vector_grad", .entry = "attention_vector_grad"},
                  queries = {.file = "attention/attention_local_grad",
                             .entry = "attention_local_grad",
                             .params = {{"QUERIES", 1}}},
                  keys = {.file = "attention/attention_local_grad",
                          .entry = "attention_local_grad",
                          .params = {{"KEYS", 1}}};

    if (row_count(&x, a) == 0) {
        return CHARL_OK;
    }
    if (charl__attention_on_tensor_cores(e->dev, a, e->in[1]->dtype, x.d)) {
        return charl__attention_tensor_core_grad(e);
    }
    CHARL_TRY(dot_rows(e, &x));
    share_out(e, x, x.t, a->heads, x.t, &queries);
    share_out(e, x, x.t_keys, a->kv_heads, x.t_keys, &keys);
    all.global[0] = keys.global[0]; /* without groups a work-item processes all rows of a key head */
    all.local[0] = keys.local[0];
    if (!charl__attention_in_groups(e->dev)) {
        CHARL_TRY(launch_grad(e, &x, all));
    } else if (are_few(e, x, a->heads + a->kv_heads) && charl__device_facts_get(e->dev)->nvidia.ptx) {
        /* side by side: work-groups take one of two branches with barriers, which not every compiler does right */
        queries.global[0] += keys.global[0];
        charl__launch_set(&queries, "KEYS", 1);
        CHARL_TRY(launch_grad(e, &x, queries));
    } else {
        CHARL_TRY(launch_grad(e, &x, queries));
        CHARL_TRY(launch_grad(e, &x, keys));
    }
    return CHARL_OK;
}

/* What query i of the reference adds to dq, dk and dv. */
static void add_query(const query_case *c, const charl__reference *r, int64_t i)
{
    const attention_attr *a = c->a;
    const int64_t b = i / c->x.t / a->heads, h = i / c->x.t % a->heads, q = i % c->x.t;
    const int64_t row = ((b * c->x.t + q) * a->heads + h) * c->x.d;
    const double *const *in = r->in + out_at(a); /* out, lse, glse */
    const double *gout = r->in[0] + row, *out = in[0] + row, *source = r->in[1 + a->cross];
    double *dq = r->out[0] + (c->q - r->in[1]), *dk = r->out[a->cross] + (c->k - source);
    double *dv = r->out[a->cross] + (c->v - source);
    double delta = has_glse(a, r->n_in) ? -in[2][i] : 0.0;

    for (int64_t d = 0; d < c->x.d; d++) {
        delta += gout[d] * out[d];
    }
    for (int64_t k = 0; k < c->n_keys; k++) {
        const double p = exp(c->weight[k] - in[1][i]);
        double dp = 0.0, ds;

        for (int64_t d = 0; d < c->x.d; d++) {
            dp += gout[d] * c->v[k * c->pitch + d];
        }
        ds = p * (c->factor[k] * dp - delta) * (double)a->scale;
        if (a->softcap > 0.0F && p > 0.0) {
            ds *= 1.0 - pow(c->weight[k] / (double)a->softcap, 2.0);
        }
        for (int64_t d = 0; d < c->x.d; d++) {
            dq[d] += ds * c->k[k * c->pitch + d];
            dk[k * c->pitch + d] += ds * c->q[d];
            dv[k * c->pitch + d] += p * c->factor[k] * gout[d];
        }
    }
}

static void reference_grad(const charl__reference *r)
{
    const attention_attr *a = r->attr;
    query_case c = {.a = a, .x = extents_in(r->in_type + 1, a), .mask = has_mask(a) ? r->in[r->n_in - 1] : NULL};

    if (charl__alloc_array(2 * c.x.t_keys, sizeof(double), &c.weight) != CHARL_OK) {
        return;
    }
    c.factor = c.weight + c.x.t_keys;
    for (int k = 0; k < r->n_out; k++) {
        charl__reference_clear(r, k);
    }
    for (int64_t i = 0; i < row_count(&c.x, a); i++) {
        const int64_t b = i / c.x.t / a->heads, h = i / c.x.t % a->heads, q = i % c.x.t;

        set_query(&c, r->in + 1, b, h, q);
        set_factors(&c, r, b, h, q);
        add_query(&c, r, i);
    }
    charl_free(c.weight);
}

/* gout, qkv, out, lse of B rows of T positions; H heads, C heads and key heads, D elements. */
#define GRAD(KIND, B, T, H, C, D)                                                                                      \
    {                                                                                                                  \
        CHARL_##KIND(F32, B, T, (H) * (D)), CHARL_##KIND(F32, B, T, (C) * (D)), CHARL_##KIND(F32, B, T, (H) * (D)),    \
            CHARL_##KIND(F32, B, H, T), CHARL_##KIND(F32, B, H, T)                                                     \
    }

#define GRAD_STARTS(KIND, B, T, H, C, D)                                                                               \
    {                                                                                                                  \
        CHARL_##KIND(F32, B, T, (H) * (D)), CHARL_##KIND(F32, B, T, (C) * (D)), CHARL_##KIND(F32, B, T, (H) * (D)),    \
            CHARL_##KIND(F32, B, H, T), CHARL_##KIND(F32, B, H, T), CHARL_##KIND(I32, B, T)                            \
    }

#define GRAD_LENGTHS(KIND, B, T, H, C, D)                                                                              \
    {                                                                                                                  \
        CHARL_##KIND(F32, B, T, (H) * (D)), CHARL_##KIND(F32, B, T, (C) * (D)), CHARL_##KIND(F32, B, T, (H) * (D)),    \
            CHARL_##KIND(F32, B, H, T), CHARL_##KIND(F32, B, H, T), CHARL_##KIND(I32, B)                               \
    }

static const charl__op_sample samples_grad[] = {
    {.n_in = 5, .in = GRAD(B, 8, 7, 2, 6, 20), .attr = &plain, CHARL_WITHIN(1, 20)},
    {.n_in = 5, .in = GRAD(B, 8, 1, 3, 9, 20), .attr = &causal, CHARL_WITHIN(1, 20)},
    {.n_in = 5, .in = GRAD(B, 8, 33, 3, 9, 20), .attr = &causal, CHARL_WITHIN(1, 99)},
    {.n_in = 5, .in = GRAD(B, 8, 12, 4, 8, 20), .attr = &grouped, CHARL_WITHIN(1, 48)},
    {.n_in = 5, .in = GRAD(B, 8, 9, 2, 4, 20), .attr = &dropped, CHARL_WITHIN(1, 36)},
    {.n_in = 5, .in = GRAD(R, 1, 203, 1, 3, 20), .attr = &one_head, CHARL_WITHIN(1, 812)},
    {.n_in = 5, .in = GRAD(R, 2, 131, 1, 3, 20), .attr = &one_open, CHARL_WITHIN(1, 512)},
    {.n_in = 5, .in = GRAD(R, 1, 70, 1, 3, 20), .attr = &dropped_one, CHARL_WITHIN(1, 280)},
    {.n_in = 5, .in = GRAD(R, 1, 1, 1, 3, 20), .attr = &one_open, CHARL_WITHIN(1, 20)},
    {.n_in = 5, .in = GRAD(R, 1, 131, 1, 3, 64), .attr = &one_head, CHARL_WITHIN(1, 524)},
    {.n_in = 5, .in = GRAD(R, 1, 66, 1, 3, 136), .attr = &one_open, CHARL_WITHIN(1, 544)},
    {.in = GRAD_STARTS(B, 8, 12, 4, 8, 20), .attr = &starts, .int_end = 12, CHARL_WITHIN(1, 48)},
    {.in = GRAD_STARTS(B, 8, 9, 2, 4, 20), .attr = &starts_dropped, .int_end = 9, CHARL_WITHIN(1, 36)},
    {.in = GRAD_STARTS(R, 1, 203, 1, 3, 20), .attr = &starts_long, .int_end = 203, CHARL_WITHIN(1, 812)},
    {.in = GRAD_LENGTHS(B, 16, 12, 4, 8, 20), .attr = &lengths, .int_end = 14, CHARL_WITHIN(1, 48)},
    {.in = GRAD_LENGTHS(B, 8, 9, 2, 4, 20), .attr = &lengths_dropped, .int_end = 10, CHARL_WITHIN(1, 36)},
    {.in = GRAD_LENGTHS(R, 3, 203, 1, 3, 20), .attr = &lengths_long, .int_end = 204, CHARL_WITHIN(1, 812)},
    {.n_in = 5, .in = GRAD(B, 8, 12, 4, 8, 20), .attr = &windowed, CHARL_WITHIN(1, 48)},
    {.in = GRAD_STARTS(B, 8, 9, 2, 4, 20), .attr = &windowed_starts, .int_end = 9, CHARL_WITHIN(1, 36)},
    {.n_in = 5, .in = GRAD(R, 1, 203, 1, 3, 20), .attr = &windowed_long, CHARL_WITHIN(1, 812)},
    {.n_in = 5, .in = GRAD(B, 8, 12, 2, 4, 20), .attr = &capped, CHARL_WITHIN(1, 48)},
    {.n_in = 5, .in = GRAD(R, 1, 131, 1, 3, 20), .attr = &capped_long, CHARL_WITHIN(1, 524)},
    {.n_in = 5, .in = GRAD(R, 2, 0, 1, 3, 20), .attr = &one_open, .lo = -1, .hi = 1},
};

/* gout, q, kv, out, lse: T queries, K keys. */
#define GRAD_CROSS(KIND, B, T, K, H, C, D)                                                                             \
    CHARL_##KIND(F32, B, T, (H) * (D)), CHARL_##KIND(F32, B, T, (H) * (D)), CHARL_##KIND(F32, B, K, 2 * (C) * (D)),    \
        CHARL_##KIND(F32, B, T, (H) * (D)), CHARL_##KIND(F32, B, H, T)

static const charl__op_sample samples_cross_grad[] = {
    {.n_in = 5, .in = {GRAD_CROSS(B, 8, 5, 9, 2, 2, 20)}, .attr = &cross, CHARL_WITHIN(1, 36)},
    {.in = {GRAD_CROSS(B, 8, 12, 3, 4, 2, 20), CHARL_B(F32, 8, 4, 12)},
     .n_in = 6,
     .attr = &cross_grouped,
     CHARL_WITHIN(1, 48)},
    {.in = {GRAD_CROSS(B, 16, 6, 11, 2, 1, 20), CHARL_B(I32, 16)},
     .n_in = 6,
     .attr = &cross_lengths,
     .int_end = 13,
     CHARL_WITHIN(1, 44)},
    {.n_in = 5, .in = {GRAD_CROSS(R, 2, 70, 203, 1, 1, 20)}, .attr = &cross_one, CHARL_WITHIN(1, 812)},
    {.n_in = 5, .in = {GRAD_CROSS(R, 2, 131, 3, 1, 1, 66)}, .attr = &cross_one, CHARL_WITHIN(1, 512)},
    {.in = {GRAD_CROSS(R, 3, 35, 130, 1, 1, 20), CHARL_R(F32, 3, 1, 35), CHARL_R(I32, 3)},
     .attr = &cross_dropped,
     .int_end = 131,
     CHARL_WITHIN(1, 520)},
    {.n_in = 5, .in = {GRAD_CROSS(R, 1, 1, 1, 1, 1, 20)}, .attr = &cross_one, CHARL_WITHIN(1, 20)},
};

/* Five products; the forward pass has two. */
static double flop_grad(const charl__infer *inf)
{
    return 2.5 * count_flop(inf->attr, inf->in + 1);
}

const charl__op charl_op_attention_grad = {
    .name = "attention_grad",
    .flop = flop_grad,
    .formula = "dv = (f p)^T gout, dk = ds^T q, dq = ds k, ds = scale p (f gout . v - gout . out)",
    .n_in = 6,
    .n_optional = 2,
    .attr_size = sizeof(attention_attr),
    .half = CHARL_HALF(0) | CHARL_HALF(1) | CHARL_HALF(2),
    .narrows = true,
    CHARL_RULES(_grad),
};

const charl__op charl_op_cross_attention_grad = {
    .name = "cross_attention_grad",
    .flop = flop_grad,
    .formula = "dq = ds k, dk = ds^T q, dv = (f p)^T gout, ds = scale p (f gout . v - gout . out)",
    .n_in = 7,
    .n_optional = 2,
    .attr_size = sizeof(attention_attr),
    .half = CHARL_HALF(0) | CHARL_HALF(1) | CHARL_HALF(2) | CHARL_HALF(3),
    .narrows = true,
    .infer = infer_grad,
    .enqueue = enqueue_grad,
    .reference = reference_grad,
    CHARL_SAMPLES(samples_cross_grad),
};

/* Inference with a cache: the rows of qkv are positions of one sequence, or the next ones of several. */
static charl_var *continue_sequences(charl_graph *g, charl_var *qkv, attention_attr *a)
{
    const charl_shape s = charl_var_get_type(qkv).shape;
    const int64_t columns = a->heads + 2 * a->kv_heads;

    if (!a->causal) {
        return charl__graph_fail(g, CHARL_ERR_INVALID,
                                 "attention: a sequence can only be continued where attention is "
                                 "causal");
    }
    a->p = 0.0F;
    a->begins = !charl__graph_position(g);
    return charl__attention_cached(g, qkv,
                                   charl__graph_next_cache(g, s.ndim == 3 ? s.dim[2] / columns * 2 * a->kv_heads : 1),
                                   charl__graph_cache_at(g), a);
}

/* Whether the settings fit together; otherwise records an error. */
static bool check_settings(charl_graph *g, const charl_attention_args *args, const attention_attr *a)
{
    if (a->heads < 1 || a->heads % a->kv_heads != 0 || args->kv_heads < 0) {
        charl__graph_fail(g, CHARL_ERR_INVALID, "attention: %d heads are not a multiple of %d key heads", args->heads,
                          args->kv_heads);
        return false;
    }
    if (!charl__graph_check_range(g, "attention", "dropout", (double)a->p, "[0,1)") ||
        !charl__graph_check_range(g, "attention", "scale", (double)a->scale, "[0,1e30]") ||
        !charl__graph_check_range(g, "attention", "softcap", (double)a->softcap, "[0,1e30]")) {
        return false;
    }
    if (args->window < 0 || (args->window > 0 && !a->causal)) {
        charl__graph_fail(g, CHARL_ERR_INVALID,
                          "attention: window = %lld must be 0 or more, and needs causal attention",
                          (long long)args->window);
        return false;
    }
    if (a->cross && (a->causal || a->starts)) {
        charl__graph_fail(g, CHARL_ERR_INVALID,
                          a->causal
                              ? "attention: queries of another source than the keys have no order with them: causal "
                                "must be false"
                              : "attention to another source has no documents (data.documents = separate)");
        return false;
    }
    if (a->cross && charl__graph_has_cache(g)) {
        charl__graph_fail(g, CHARL_ERR_INVALID,
                          "attention to another source cannot continue a sequence: charl generate needs a model that "
                          "reads its text only");
        return false;
    }
    if (a->starts && (!a->causal || charl__graph_has_cache(g))) {
        charl__graph_fail(g, CHARL_ERR_INVALID,
                          "attention within documents (data.documents = separate) must be causal, and cannot "
                          "continue a sequence");
        return false;
    }
    if (a->causal && args->length) {
        charl__graph_fail(
            g, CHARL_ERR_INVALID,
            "attention: length must be NULL for causal attention, which never reads padding after a query");
        return false;
    }
    return true;
}

/* The number of keys that are not padding, given or known of `keys`, their operand. */
static charl_var *lengths_of(charl_graph *g, charl_var *keys, charl_var *given)
{
    charl_var *length = given || charl__var_positions(keys) != 1 ? given : charl__graph_lengths(keys);

    if (!length && charl__var_has_padding(keys)) {
        charl__graph_fail(g, CHARL_ERR_SHAPE,
                          "attention cannot tell where the padded sequences end: its %lld positions are "
                          "not the positions of the data",
                          (long long)charl_var_get_type(keys).shape.dim[1]);
    }
    return length;
}

charl_var *charl_attention(charl_graph *g, charl_var *qkv, const charl_attention_args *args)
{
    if (!g || !args) {
        return charl__graph_fail(g, CHARL_ERR_INVALID, "attention: args is NULL");
    }
    charl_var *mask = args->start ? args->start : charl__graph_starts(g);
    attention_attr a = {.heads = args->heads,
                        .kv_heads = args->kv_heads > 0 ? args->kv_heads : args->heads,
                        .scale = args->scale,
                        .softcap = args->softcap,
                        .p = args->dropout,
                        .causal = args->causal,
                        .starts = mask != NULL,
                        .cross = args->kv != NULL};
    const charl__op *op = a.cross ? &charl_op_cross_attention : &charl_op_attention;
    char name[256];

    if (!check_settings(g, args, &a) || !qkv) {
        return NULL;
    }
    const charl_type type = charl_var_get_type(qkv);

    a.window = args->window < INT32_MAX / 2 ? (int)args->window : 0; /* infer has the same limit of positions */
    if (a.scale == 0.0F && type.shape.ndim == 3) {
        a.scale = (float)(1.0 / sqrt((double)(type.shape.dim[2] / query_columns(&a))));
    }
    if (charl__graph_has_cache(g)) {
        return continue_sequences(g, qkv, &a);
    }
    if (!a.causal) {
        mask = lengths_of(g, a.cross ? args->kv : qkv, args->length);
        a.lengths = mask != NULL;
    }
    if (type.shape.ndim == 3 && a.window >= type.shape.dim[1]) {
        a.window = 0;
    }
    a.p = charl_graph_is_training(g) ? a.p : 0.0F;
    a.batched = type.batch == CHARL_BATCHED;
    a.key = charl__fnv1a64_string(charl__graph_next_name(g, op->name, name, sizeof name));
    return a.cross ? charl__apply_n(g, op, &a, (charl_var *[]){qkv, args->kv, mask}, 3)
                   : charl__apply_n(g, op, &a, (charl_var *[]){qkv, mask}, 2);
}
