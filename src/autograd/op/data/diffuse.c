/* diffuse: rows with noise, the time that says how much, and what to learn from them: denoising diffusion (Ho, Jain, Abbeel 2020) in continuous
 * time (Song, Sohl-Dickstein, Kingma, Kumar, Ermon, Poole 2021). Not differentiable: data have no gradient.
 */
#include <math.h>

#include "autograd/launch/map.h"
#include "autograd/op.h"
#include "autograd/ops_data.h"
#include "base/numeric/hash.h"
#include "base/numeric/rng.h"
#include "charl/ops.h"

typedef struct diffuse_attr {
    charl__diffusion form;
    bool varies;
    uint64_t key;
} diffuse_attr;

static charl_status infer(charl__infer *inf)
{
    const charl_type *x = &inf->in[0];
    char text[CHARL_SHAPE_TEXT];

    CHARL_REQUIRE(x->dtype == CHARL_F32 && x->shape.ndim >= 2, CHARL_ERR_SHAPE, "rows %s %s are not f32 [B, ...]",
                  charl_dtype_name(x->dtype), charl_shape_format(&x->shape, text));
    inf->n_out = 3;
    inf->out[0] = inf->out[1] = inf->out[2] = *x;
    inf->out[2].shape = (charl_shape){2, {x->shape.dim[0], 1}};
    return CHARL_OK;
}

static charl_status enqueue(const charl__enqueue *e)
{
    const diffuse_attr *a = e->attr;
    const charl_shape *s = &e->in[0]->shape;
    const int64_t n = charl__tensor_count(e->in[0]), span = charl__span(e->dev, n, 1);
    charl__launch l = {.file = "data/diffuse",
                       .entry = "charl_diffuse",
                       .params = {{"LINEAR", a->form.linear}, {"VELOCITY", a->form.velocity}, {"VARIES", a->varies}},
                       .args = {charl__in(e->in[0]), charl__out(e->out[0]), charl__out(e->out[1]),
                                charl__out(e->out[2]), charl__in(e->step),
                                charl__batch_position(e, e->slices->total > 0, n),
                                charl__i64(s->dim[0] > 0 ? n / s->dim[0] : 1), charl__i64(n), charl__i64(span),
                                charl__i64((int64_t)a->key)},
                       .label = e->label};

    charl__span_launch(e->dev, n, span, &l);
    return n > 0 ? charl__launch_enqueue(e->dev, &l) : CHARL_OK;
}

static double normal(const charl__rng *rng, uint64_t i)
{
    const double two_pi = 6.28318530717958647693;
    uint32_t word[4];
    double radius, angle;

    charl__rng_u32x4(rng, i >> 2, word);
    radius = sqrt(-2.0 * log((double)((word[i & 2] >> 8) + 1) * 0x1p-24));
    angle = two_pi * (double)(word[(i & 2) + 1] >> 8) * 0x1p-24;
    return radius * (i & 1 ? sin(angle) : cos(angle));
}

static void reference(const charl__reference *r)
{
    const diffuse_attr *a = r->attr;
    const charl_shape *s = &r->in_type[0].shape;
    const charl__step_params *step = r->step;
    const uint64_t seed = a->varies ? (uint64_t)step->seed_hi << 32 | step->seed_lo : 0,
                   now = a->varies ? (uint64_t)step->step_hi << 32 | step->step_lo : 0;
    /* the seed is combined with the key by exclusive or, so that ~ of both is that of the other stream */
    const charl__rng noise = charl__rng_key(seed, now, a->key), times = charl__rng_key(seed, now, ~a->key);
    const int64_t size = s->dim[0] > 0 ? charl_shape_count(s) / s->dim[0] : 0;

    for (int64_t b = 0; b < s->dim[0]; b++) {
        const uint64_t row = (uint64_t)(r->row0 + b);
        const double t = (double)fmaf((float)(charl__rng_u32(&times, row) >> 8), 0x1p-24F, 0x1p-25F);
        double alpha, sigma;

        charl__diffusion_mix(&a->form, t, &alpha, &sigma);
        r->out[2][b] = t;
        for (int64_t i = 0; i < size; i++) {
            const double x = r->in[0][b * size + i], e = normal(&noise, row * (uint64_t)size + (uint64_t)i);

            r->out[0][b * size + i] = alpha * x + sigma * e;
            r->out[1][b * size + i] = a->form.velocity ? alpha * e - sigma * x : e;
        }
    }
}

static const diffuse_attr cosine = {.key = 7, .varies = true}, fixed = {{.velocity = true}, .key = 0x123456789abcdef0};
static const diffuse_attr linear = {{.linear = true}, .key = 1, .varies = true}, both = {{true, true}, .key = 3};
static const charl__op_sample samples[] = {
    {.in = {CHARL_B(F32, 16, 3, 7)}, .attr = &cosine, CHARL_WITHIN(4, 4)},
    {.in = {CHARL_B(F32, 8, 65)}, .attr = &linear, CHARL_WITHIN(4, 4)},
    {.in = {CHARL_B(F32, 8, 1, 28, 28)}, .attr = &fixed, CHARL_WITHIN(4, 4)},
    {.in = {CHARL_B(F32, 24, 5)}, .attr = &both, CHARL_WITHIN(4, 4)},
    {.in = {CHARL_R(F32, 0, 5)}, .attr = &cosine, CHARL_WITHIN(4, 4)},
};

const charl__op charl_op_diffuse = {
    .name = "diffuse",
    .formula = "noisy = alpha(t) x + sigma(t) e; target = e, or alpha(t) e - sigma(t) x",
    .n_in = 1,
    .attr_size = sizeof(diffuse_attr),
    CHARL_RULES(),
};

charl_var *charl__diffuse(charl_graph *g, charl_var *x, const charl__diffusion *form, charl_var **target,
                          charl_var **time)
{
    diffuse_attr attr = {.form = *form, .varies = charl_graph_is_training(g)};
    charl_var *out[CHARL_OP_MAX_OUT] = {NULL};
    char name[256];

    attr.key = charl__fnv1a64_string(charl__graph_next_name(g, "diffuse", name, sizeof name));
    charl__apply(g, &charl_op_diffuse, &attr, (charl_var *[]){x}, 1, out);
    *target = out[1];
    *time = out[2];
    return out[0];
}
