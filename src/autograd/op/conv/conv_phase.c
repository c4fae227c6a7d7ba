/* Phases: one product each, over taps selected from the weight, then merged into the image. */
#include "autograd/op/conv/conv_phase.h"
#include "autograd/op/conv/conv_backend.h"

#include <stdio.h>

#include "autograd/launch/map.h"
#include "autograd/launch/rows.h"

/* Number of phases along an axis of that extent, and of pixels in the largest one. */
static int64_t phase_count(const charl__conv *c, int d)
{
    const int64_t n = d == 0 ? c->h : c->w;

    return n < c->stride[d] ? n : c->stride[d];
}

static int64_t phase_pixels(const charl__conv *c)
{
    return charl__ceil_div(c->h, c->stride[0]) * charl__ceil_div(c->w, c->stride[1]);
}

static int64_t phase_elements(const charl__conv *c)
{
    return phase_count(c, 0) * phase_count(c, 1) * c->batch * c->c * phase_pixels(c);
}

int64_t charl__conv_phases_workspace(const charl__conv *c)
{
    const int64_t weights = c->o * (c->c / c->groups) * c->kernel[0] * c->kernel[1];

    return c->stride[0] == 1 && c->stride[1] == 1 ? 0 : (phase_elements(c) + weights) * (int64_t)sizeof(float);
}

/* The taps of a phase, one after another, as its weight. */
static charl_status pick(const charl__enqueue *e, const charl__conv *c, const charl__conv_phase *p,
                         const charl_tensor *taps)
{
    const int64_t count = c->o * (c->c / c->groups) * p->count[0] * p->count[1];
    const int64_t span = charl__span(e->dev, count, 1);
    charl__launch l = {.file = "conv/conv_phase",
                       .entry = "charl_pick",
                       .params = {{"T", .text = charl__word_type(e->in[1]->dtype)}},
                       .args = {charl__in(e->in[1]), charl__tensor_arg(CHARL_ARG_OUT, taps), charl__i64(count),
                                charl__i64(span), charl__i32(p->first[0]), charl__i32(p->first[1]),
                                charl__i32(p->step[0]), charl__i32(p->step[1]), charl__i32(p->count[0]),
                                charl__i32(p->count[1])},
                       .label = e->label};

    charl__conv_set_window(c, &l);
    charl__span_launch(e->dev, count, span, &l);
    return charl__launch_enqueue(e->dev, &l);
}

static charl_status multiply(const charl__enqueue *e, const charl__conv *c, const int at[2], const charl_tensor *phase)
{
    const charl__conv_phase p = charl__conv_phase_at(c, at);
    charl__gemm product = charl__conv_phase_gradient(c, &p, at);
    charl_tensor taps = *e->workspace;

    if (product.k == 0) {
        return CHARL_OK;
    }
    taps.dtype = e->in[1]->dtype;
    taps.shape = (charl_shape){1, {c->o * (c->c / c->groups) * p.count[0] * p.count[1]}};
    taps.offset =
        (e->workspace->offset + phase_elements(c)) * (int64_t)sizeof(float) / (int64_t)charl_dtype_size(taps.dtype);
    CHARL_TRY(pick(e, c, &p, &taps));
    product.a.tensor = &taps;
    product.b.tensor = e->in[0];
    product.out.tensor = phase;
    product.label = e->label;
    CHARL_TRY(charl__gemm_enqueue(e->dev, &product));
    return CHARL_OK;
}

static charl_status merge(const charl__enqueue *e, const charl__conv *c)
{
    const int64_t planes = c->batch * c->c, rows = planes * c->h;
    const int64_t elements = charl__span(e->dev, rows * c->w, 1);
    /* Neighbours share a row where a work-item has less than one: they read and write next to each other. */
    const int64_t chunk = charl__ceil_div(elements < c->w ? elements : c->w, c->stride[1]) * c->stride[1];
    const int64_t across = charl__ceil_div(c->w, chunk);
    const int64_t span = across > 1 ? 1 : charl__ceil_div(elements, c->w);
    charl__launch l = {.file = "conv/conv_phase",
                       .entry = "charl_merge",
                       .params = {{"ACT", .text = charl__kernel_type(e->out[0]->dtype)}},
                       .args = {charl__scratch_arg(CHARL_ARG_IN, e->workspace, 0), charl__out(e->out[0]),
                                charl__i64(planes), charl__i64(span), charl__i32((int32_t)across),
                                charl__i32((int32_t)chunk), charl__i32((int32_t)c->h), charl__i32((int32_t)c->w)},
                       .label = e->label};

    charl__conv_set_window(c, &l);
    charl__span_launch(e->dev, charl__ceil_div(rows, span) * across, 1, &l);
    return charl__launch_enqueue(e->dev, &l);
}

charl_status charl__conv_phases(const charl__enqueue *e, const charl__conv *c)
{
    const int64_t size = c->batch * c->c * phase_pixels(c);
    charl_tensor phase = *e->workspace;

    phase.dtype = CHARL_F32;
    phase.shape = (charl_shape){1, {size}};
    for (int a = 0; a < phase_count(c, 0); a++) {
        for (int b = 0; b < phase_count(c, 1); b++) {
            CHARL_TRY(multiply(e, c, (int[]){a, b}, &phase));
            phase.offset += size;
        }
    }
    CHARL_TRY(merge(e, c));
    return CHARL_OK;
}
