/* dropout: out = keep ? x / (1 - p) : 0. The gradient is the same operator with the same random
 * numbers.
 *
 * Element j of row i of the global batch has its own random number, keyed by (seed, step, i * elements of a
 * row + j, name of the layer), independent of the rank, the slice and the launch.
 */
#include "autograd/launch/map.h"

#include "base/numeric/hash.h"
#include "base/numeric/rng.h"
#include "charl/ops.h"

typedef struct dropout_attr {
    float p;
    bool batched; /* rows are rows of the batch */
    uint64_t key; /* hash of the layer's name */
} dropout_attr;

static uint32_t threshold_of(float p)
{
    return (uint32_t)(p * 16777216.0F); /* random draws have 24 bits */
}

static void express(const void *attr, int n_in, charl__expr *x)
{
    const dropout_attr *d = attr;

    (void)n_in;
    *x = (charl__expr){.text = "select(CHARL_SPLAT(0.0f), a * p, draw >= q)",
                       .numbers = 2,
                       .p = 1.0F / (1.0F - d->p),
                       .q = (float)threshold_of(d->p),
                       .uses_rng = true,
                       .batched = d->batched,
                       .key = d->key};
}

static void backward(const charl__backward *b)
{
    b->gin[0] = charl__apply1(b->g, &charl_op_dropout, b->attr, b->gout[0]);
}

static void reference(const charl__reference *r)
{
    const dropout_attr *attr = r->attr;
    const charl_shape *s = &r->in_type[0].shape;
    const charl__step_params *step = r->step;
    const charl__rng rng = charl__rng_key((uint64_t)step->seed_hi << 32 | step->seed_lo,
                                          (uint64_t)step->step_hi << 32 | step->step_lo, attr->key);
    const int64_t n = charl_shape_count(s);
    const int64_t base = attr->batched && s->dim[0] > 0 ? n / s->dim[0] * r->row0 : 0;

    for (int64_t i = 0; i < n; i++) {
        const bool keep = charl__rng_u32(&rng, (uint64_t)(base + i)) >> 8 >= threshold_of(attr->p);

        r->out[0][i] = keep ? r->in[0][i] * (1.0 / (1.0 - (double)attr->p)) : 0.0;
    }
}

static const dropout_attr half = {0.5F, false, 7}, tenth = {0.1F, true, 0x123456789abcdef0}, most = {0.9F, false, 9};
static const charl__op_sample samples[] = {
    {.in = {CHARL_R(F32, 3, 5)}, .attr = &half},    {.in = {CHARL_R(F32, 7, 613)}, .attr = &half},
    {.in = {CHARL_R(F32, 3, 2003)}, .attr = &most}, {.in = {CHARL_SCALAR(F32)}, .attr = &half},
    {.in = {CHARL_R(F32, 0, 4)}, .attr = &half},    {.in = {CHARL_B(F32, 16, 37)}, .attr = &tenth},
    {.in = {CHARL_B(F32, 8, 3)}, .attr = &tenth},
};

const charl__op charl_op_dropout = {
    .name = "dropout",
    .formula = "out = keep ? x / (1 - p) : 0",
    .n_in = 1,
    .attr_size = sizeof(dropout_attr),
    .in_place = true,
    .half = CHARL_HALF_ALL,
    .infer = charl__infer_same,
    .express = express,
    .backward = backward,
    .reference = reference,
    CHARL_SAMPLES(samples),
};

charl_var *charl_dropout(charl_graph *g, charl_var *x, float p)
{
    dropout_attr attr = {.p = p};
    char name[256];

    if (!charl__graph_check_range(g, "dropout", "p", (double)p, "[0,1)")) {
        return NULL;
    }
    if (!x || !charl_graph_is_training(g) || p == 0.0F) {
        return x;
    }
    attr.batched = charl_var_get_type(x).batch == CHARL_BATCHED;
    attr.key = charl__fnv1a64_string(charl__graph_next_name(g, "dropout", name, sizeof name));
    return charl__apply1(g, &charl_op_dropout, &attr, x);
}
