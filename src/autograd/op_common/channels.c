/* Launches of kernels/channels.cl. */
#include "autograd/op_common/channels.h"

#include <stdio.h>

#include "autograd/op_common/map.h"
#include "autograd/op_common/rows.h"

/* LANES and GROUP as in the kernel. MOST_BLOCKS are added in one launch. */
enum { LANES = 8, GROUP = 256, LINE_ROWS = 8, MOST_BLOCKS = 64, GRADIENT_ROWS = 8 };

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* How rows of eights of channels are given to groups: see the kernel. */
typedef struct cut {
    int64_t rows, block, blocks, across;
    int width, lines;
} cut;

static cut cut_slice(const charl_shape *x, int64_t slices)
{
    const int64_t eights = x->dim[1] / LANES;
    cut c = {.rows = x->dim[0] / slices * x->dim[2] * x->dim[3], .lines = 1};
    int64_t longest;

    c.width = (int)(eights < GROUP ? eights : GROUP);
    c.across = ceil_div(eights, c.width);
    while (2 * c.lines * c.width <= GROUP) {
        c.lines *= 2;
    }
    longest = ceil_div(c.rows, MOST_BLOCKS);
    c.block = (longest > LINE_ROWS * c.lines ? longest : LINE_ROWS * c.lines);
    c.blocks = c.rows > 0 ? ceil_div(c.rows, c.block) : 1;
    return c;
}

int64_t charl__channels_workspace(const charl_shape *x, int n_slices, int quantities)
{
    const int64_t slices = n_slices > 1 ? n_slices : 1, n = quantities * x->dim[1];
    const cut c = cut_slice(x, slices);

    return (slices * n * (1 + c.blocks) + charl__reduce_scratch(slices, c.blocks, n)) *
           (int64_t)sizeof(float);
}

charl_status charl__channels_sums(const charl_enqueue *e, const charl_channels *c)
{
    charl_status st = CHARL_OK;
    const bool partial = charl__is_partial(e, 0);
    const int64_t slices = partial ? e->slices->count : 1, channels = c->x->shape.dim[1];
    const int64_t n = charl__tensor_count(e->out[0]); /* sums of a slice */
    const cut k = cut_slice(&c->x->shape, slices);
    const charl_arg parts = charl__scratch_arg(CHARL_ARG_OUT, e->workspace, slices * n);
    charl_reduce r = {.a = parts,
                      .n_in = 1,
                      .outer = slices,
                      .n = k.blocks,
                      .inner = n,
                      .out = charl__out(e->out[0]),
                      .scratch = slices * n * (1 + k.blocks),
                      .scale = 1.0F};
    char defines[64];
    charl_launch l = {.file = "channels",
                      .entry = "charl_channel_sums",
                      .defines = defines,
                      .global = {(size_t)(slices * k.blocks * k.across * GROUP)},
                      .local = {GROUP},
                      .args = {charl__in(c->x), charl__in(c->g), charl__in(c->mean),
                               charl__in(c->invstd), parts, charl__i64(k.rows),
                               charl__i64(channels), charl__i64(k.blocks), charl__i64(k.block),
                               charl__i32(k.width), charl__i32(k.lines)},
                      .label = e->label};

    snprintf(defines, sizeof defines, "%s#define WHAT %d\n", charl__act_define(c->x->dtype),
             c->g      ? 1
             : c->mean ? 0
                       : 2);
    CHARL_TRY(charl__launch(e->dev, &l));
    r.a.kind = CHARL_ARG_IN;
    CHARL_TRY(partial ? charl__reduce_slices(e, &r, 0) : charl__reduce_sum(e, &r));
cleanup:
    return st;
}

charl_status charl__channels_gradient(const charl_enqueue *e, double count)
{
    const charl_shape *x = &e->in[1]->shape;
    const int64_t rows = x->dim[0] * x->dim[2] * x->dim[3], channels = x->dim[1];
    const bool weight = e->n_in > 5;
    char defines[64];
    charl_launch l = {.file = "channels",
                      .entry = "charl_channel_gradient",
                      .defines = defines,
                      .args = {charl__in(e->in[1]), charl__in(e->in[0]), charl__in(e->in[2]),
                               charl__in(e->in[3]), charl__in(weight ? e->in[5] : NULL),
                               charl__in(e->in[4]), charl__out(e->out[0]), charl__i64(rows),
                               charl__i64(channels), charl__i64(GRADIENT_ROWS),
                               charl__f32((float)(1.0 / count))},
                      .label = e->label};

    snprintf(defines, sizeof defines, "%s#define WEIGHT %d\n", charl__act_define(e->in[1]->dtype),
             weight);
    charl__span_launch(e->dev, ceil_div(rows, GRADIENT_ROWS) * channels / LANES, 1, &l);
    return charl__launch(e->dev, &l);
}
