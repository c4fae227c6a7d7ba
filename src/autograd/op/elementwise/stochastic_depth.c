/* stochastic_depth: dropout of whole samples (Huang et al. 2016): out = keep[row] ? x / (1 - p) : 0. The gradient is the same
 * operator with the same random numbers.
 *
 * Row i of the global batch has its own random number, keyed by (seed, step, i, name of the layer), independent of the rank, the
 * slice and the launch.
 */
#include "autograd/launch/map.h"

#include "base/numeric/hash.h"
#include "base/numeric/rng.h"
#include "charl/ops.h"

typedef struct depth_attr {
    float p;
    bool batched; /* rows are rows of the batch */
    uint64_t key; /* hash of the layer's name */
} depth_attr;

static uint32_t threshold_of(float p)
{
    return (uint32_t)(p * 16777216.0F); /* random draws have 24 bits */
}

static charl_status infer(charl__infer *inf)
{
    CHARL_TRY(charl__infer_floats(inf, 0, 1));
    CHARL_REQUIRE(inf->in[0].shape.ndim > 0, CHARL_ERR_SHAPE, "a scalar has no rows");
    return charl__infer_same(inf);
}

static charl_status enqueue(const charl__enqueue *e)
{
    const depth_attr *a = e->attr;
    const int64_t n = charl__tensor_count(e->in[0]), rows = e->in[0]->shape.dim[0], span = charl__span(e->dev, n, 16);
    charl__launch l = {.file = "elementwise/stochastic_depth",
                       .entry = "charl_stochastic_depth",
                       .params = {{"ACT", .text = charl__kernel_type(e->out[0]->dtype)}},
                       .args = {charl__in(e->in[0]), charl__out(e->out[0]), charl__in(e->step),
                                charl__batch_position(e, a->batched, rows), charl__i64(rows > 0 ? n / rows : 1),
                                charl__i64(n), charl__i64(span), charl__i64((int64_t)a->key),
                                charl__i32((int32_t)threshold_of(a->p)), charl__f32(1.0F / (1.0F - a->p))},
                       .label = e->label};

    charl__span_launch(e->dev, n, span, &l);
    return n > 0 ? charl__launch_enqueue(e->dev, &l) : CHARL_OK;
}

static void backward(const charl__backward *b)
{
    b->gin[0] = charl__apply1(b->g, &charl_op_stochastic_depth, b->attr, b->gout[0]);
}

static void reference(const charl__reference *r)
{
    const depth_attr *a = r->attr;
    const charl_shape *s = &r->in_type[0].shape;
    const charl__step_params *step = r->step;
    const charl__rng rng = charl__rng_key((uint64_t)step->seed_hi << 32 | step->seed_lo,
                                          (uint64_t)step->step_hi << 32 | step->step_lo, a->key);
    const int64_t n = charl_shape_count(s), each = s->dim[0] > 0 ? n / s->dim[0] : 1;

    for (int64_t i = 0; i < n; i++) {
        uint32_t word[4];

        charl__rng_u32x4(&rng, (uint64_t)((a->batched ? r->row0 : 0) + i / each), word);
        r->out[0][i] = word[0] >> 8 >= threshold_of(a->p) ? r->in[0][i] * (1.0 / (1.0 - (double)a->p)) : 0.0;
    }
}

static const depth_attr half = {0.5F, false, 7}, tenth = {0.1F, true, 0x123456789abcdef0}, most = {0.9F, true, 9};
static const charl__op_sample samples[] = {
    {.in = {CHARL_R(F32, 3, 5)}, .attr = &half},    {.in = {CHARL_R(F32, 64, 3, 7)}, .attr = &half},
    {.in = {CHARL_R(F32, 3, 4099)}, .attr = &half}, {.in = {CHARL_R(F32, 0, 4)}, .attr = &half},
    {.in = {CHARL_B(F32, 16, 37)}, .attr = &tenth}, {.in = {CHARL_B(F32, 8, 3, 4, 8)}, .attr = &most},
    {.in = {CHARL_B(F32, 32)}, .attr = &most},
};

const charl__op charl_op_stochastic_depth = {
    .name = "stochastic_depth",
    .formula = "out = keep[row] ? x / (1 - p) : 0",
    .n_in = 1,
    .attr_size = sizeof(depth_attr),
    .in_place = true,
    .half = CHARL_HALF_ALL,
    .infer = infer,
    .enqueue = enqueue,
    .backward = backward,
    .reference = reference,
    CHARL_SAMPLES(samples),
};

charl_var *charl_stochastic_depth(charl_graph *g, charl_var *x, float p)
{
    depth_attr attr = {.p = p};
    char name[256];

    if (!charl__graph_check_range(g, "stochastic_depth", "p", (double)p, "[0,1)")) {
        return NULL;
    }
    if (!x || !charl_graph_is_training(g) || p == 0.0F) {
        return x;
    }
    attr.batched = charl_var_get_type(x).batch == CHARL_BATCHED;
    attr.key = charl__fnv1a64_string(charl__graph_next_name(g, "stochastic_depth", name, sizeof name));
    return charl__apply1(g, &charl_op_stochastic_depth, &attr, x);
}
