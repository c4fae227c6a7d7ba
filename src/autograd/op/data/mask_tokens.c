/* mask_tokens: the input of a masked language model from windows of tokens, and which of them to predict (Devlin et al. 2018). Not
 * differentiable: data have no gradient.
 *
 * Every row has the same number of masked positions, so that the mean over all of them is the mean of the rows' means, for any number of ranks,
 * slices and accumulation steps. A row's draws depend on its tokens only, not on its place.
 */
#include <stdlib.h>

#include "autograd/op.h"
#include "autograd/ops_data.h"
#include "base/alloc.h"
#include "base/numeric/hash.h"
#include "base/numeric/rng.h"
#include "charl/ops.h"

enum { GROUP = 64 };

typedef struct mask_attr {
    int32_t count, vocab, mask;
    bool varies;
    uint64_t key;
} mask_attr;

static charl_status infer(charl__infer *inf)
{
    const mask_attr *a = inf->attr;
    const charl_type *x = &inf->in[0];
    char text[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(x->dtype == CHARL_I32 && x->shape.ndim == 2 && x->shape.dim[1] < INT32_MAX / 2, CHARL_ERR_SHAPE,
                  "tokens %s %s are not i32 [B, T]", charl_dtype_name(x->dtype), charl_shape_format(&x->shape, text));
    CHARL_REQUIRE(a->count <= x->shape.dim[1], CHARL_ERR_SHAPE, "%d of %lld positions cannot be masked", a->count,
                  (long long)x->shape.dim[1]);
    inf->n_out = 2;
    inf->out[0] = inf->out[1] = *x;
    inf->out[1].dtype = CHARL_F32;
    return CHARL_OK;
}

static charl_status enqueue(const charl__enqueue *e)
{
    const mask_attr *a = e->attr;
    const charl_shape *s = &e->in[0]->shape;
    charl__launch l = {.file = "data/mask_tokens",
                       .entry = "charl_mask_tokens",
                       .params = {{"VARIES", a->varies}},
                       .args = {charl__in(e->in[0]), charl__out(e->out[0]), charl__out(e->out[1]), charl__in(e->step),
                                charl__i32((int32_t)s->dim[1]), charl__i32(a->count), charl__i32(a->vocab),
                                charl__i32(a->mask), charl__i64((int64_t)a->key)},
                       .global = {(size_t)s->dim[0] * GROUP},
                       .local = {GROUP},
                       .label = e->label};

    return charl__launch_enqueue(e->dev, &l);
}

static uint64_t token_hash(int64_t v, int64_t t)
{
    uint64_t z = ((uint64_t)t << 32 | (uint32_t)v) + 0x9E3779B97F4A7C15U;

    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9U;
    z = (z ^ z >> 27) * 0x94D049BB133111EBU;
    return z ^ z >> 31;
}

static void reference_row(const mask_attr *a, const charl__rng *rng, const double *x, int64_t n, double *out,
                          double *masked)
{
    uint64_t hash = 0;

    for (int64_t t = 0; t < n; t++) {
        hash += token_hash((int64_t)x[t], t);
    }
    for (int64_t t = 0; t < n; t++) {
        uint32_t own[4], other[4];
        int64_t before = 0;

        charl__rng_u32x4(rng, hash + (uint64_t)t, own);
        for (int64_t i = 0; i < n; i++) {
            charl__rng_u32x4(rng, hash + (uint64_t)i, other);
            before += other[0] < own[0] || (other[0] == own[0] && i < t);
        }
        masked[t] = before < a->count ? 1.0 : 0.0;
        out[t] = before >= a->count     ? x[t]
                 : own[1] < 3435973837U ? (double)a->mask
                 : own[1] < 3865470566U ? (double)(own[2] % (uint32_t)a->vocab)
                                        : x[t];
    }
}

static void reference(const charl__reference *r)
{
    const mask_attr *a = r->attr;
    const charl__step_params *step = r->step;
    const int64_t n = r->in_type[0].shape.dim[1];
    const charl__rng rng = a->varies ? charl__rng_key((uint64_t)step->seed_hi << 32 | step->seed_lo,
                                                      (uint64_t)step->step_hi << 32 | step->step_lo, a->key)
                                     : charl__rng_key(0, 0, a->key);

    for (int64_t b = 0; b < r->in_type[0].shape.dim[0]; b++) {
        reference_row(a, &rng, r->in[0] + b * n, n, r->out[0] + b * n, r->out[1] + b * n);
    }
}

static const mask_attr few = {.count = 1, .vocab = 9, .mask = 9, .varies = true, .key = 7};
static const mask_attr many = {.count = 100, .vocab = 300, .mask = 300, .key = 0x123456789abcdef0};
static const mask_attr all = {.count = 5, .vocab = 3, .mask = 2, .varies = true, .key = 1};
static const charl__op_sample samples[] = {
    {.in = {CHARL_B(I32, 16, 7)}, .attr = &few, .int_end = 9},
    {.in = {CHARL_R(I32, 3, 130)}, .attr = &many, .int_end = 300},
    {.in = {CHARL_R(I32, 2, 5)}, .attr = &all, .int_end = 3},
    {.in = {CHARL_R(I32, 0, 5)}, .attr = &all, .int_end = 3},
};

const charl__op charl_op_mask_tokens = {
    .name = "mask_tokens",
    .formula = "masked = 1 at `count` random positions of a row; out = x, there the mask, another token or x",
    .n_in = 1,
    .attr_size = sizeof(mask_attr),
    CHARL_RULES(),
};

charl_var *charl__mask_tokens(charl_graph *g, charl_var *x, const charl__mask_tokens_args *args, charl_var **masked)
{
    if (!args || !masked) {
        return charl__graph_fail(g, CHARL_ERR_INVALID, "mask_tokens: args or masked is NULL");
    }
    mask_attr attr = {.count = (int32_t)args->count,
                      .vocab = (int32_t)args->vocab,
                      .mask = (int32_t)args->mask,
                      .varies = charl_graph_is_training(g)};
    charl_var *out[CHARL_OP_MAX_OUT] = {NULL};
    char name[256];

    *masked = NULL;
    if (args->count < 1 || args->count > INT32_MAX || args->vocab < 1 || args->vocab > INT32_MAX || args->mask < 0 ||
        args->mask > INT32_MAX) {
        return charl__graph_fail(g, CHARL_ERR_INVALID, "mask_tokens: %lld positions, vocabulary of %lld, mask %lld",
                                 (long long)args->count, (long long)args->vocab, (long long)args->mask);
    }
    attr.key = charl__fnv1a64_string(charl__graph_next_name(g, "mask_tokens", name, sizeof name));
    charl__apply(g, &charl_op_mask_tokens, &attr, (charl_var *[]){x}, 1, out);
    *masked = out[1];
    return out[0];
}
