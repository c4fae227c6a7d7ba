/* Launches of kernels/norm/channels.cl. */
#include "norm/norm_args.h"
#include "autograd/op/norm/channels.h"

#include "autograd/fuse/prologue.h"
#include "autograd/launch/map.h"
#include "autograd/launch/rows.h"

/* LANES and GROUP as in the kernel. MOST_BLOCKS are added in one launch. */
enum { LANES = 8, GROUP = 256, LINE_ROWS = 8, MOST_BLOCKS = 64, GRADIENT_ROWS = 8 };

/* How rows of groups of eight channels are distributed over work-groups: see the kernel. */
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
    c.across = charl__ceil_div(eights, c.width);
    while (2 * c.lines * c.width <= GROUP) {
        c.lines *= 2;
    }
    longest = charl__ceil_div(c.rows, MOST_BLOCKS);
    c.block = (longest > LINE_ROWS * c.lines ? longest : LINE_ROWS * c.lines);
    c.blocks = c.rows > 0 ? charl__ceil_div(c.rows, c.block) : 1;
    return c;
}

int64_t charl__channels_workspace(const charl_shape *x, int n_slices, int quantities)
{
    const int64_t slices = n_slices > 1 ? n_slices : 1, n = quantities * x->dim[1];
    const cut c = cut_slice(x, slices);

    return (slices * n * (1 + c.blocks) + charl__reduce_scratch(slices, c.blocks, n)) * (int64_t)sizeof(float);
}

/* With the parameters that compute g, if it is computed during the read, first: of x, the statistics and, in the
 * gradient, the weight, by the names in the kernels. */
static charl_status launch(const charl__enqueue *e, charl__launch *l, const charl__arg *args, int n)
{
    CHARL_SCOPED(charl__prologue_text_fini) charl__prologue_text text = {.chain.e = NULL};
    static const char *const known[CHARL_OP_MAX_IN] = {NULL, "(X)", "m", "v", NULL, "weight"};

    CHARL_TRY(charl__prologue_write(e, known, &text, l));
    charl__launch_set(l, "CHARL_VEC", LANES);
    for (int i = 0; i < n; i++) {
        charl__launch_add(l, args[i]);
    }
    CHARL_TRY(charl__launch_enqueue(e->dev, l));
    return CHARL_OK;
}

int64_t charl__channels_blocks(const charl_shape *x, int n_slices)
{
    return n_slices * cut_slice(x, n_slices).blocks;
}

/* Sums of blocks in the workspace, after the sums of slices. */
typedef struct block_sums {
    bool partial;
    int64_t slices, n; /* n: sums of a block */
    cut cut;
    charl__arg parts;
} block_sums;

static block_sums begin_sums(const charl__enqueue *e, const charl_shape *x)
{
    const bool partial = charl__is_partial(e, 0);
    const int64_t slices = partial ? e->slices->count : 1, n = charl__tensor_count(e->out[0]);

    return (block_sums){partial, slices, n, cut_slice(x, slices),
                        charl__scratch_arg(CHARL_ARG_OUT, e->workspace, slices * n)};
}

/* Add them up into output 0. */
static charl_status end_sums(const charl__enqueue *e, const block_sums *s)
{
    charl_reduce r = {.a = s->parts,
                      .n_in = 1,
                      .outer = s->slices,
                      .n = s->cut.blocks,
                      .inner = s->n,
                      .out = charl__out(e->out[0]),
                      .scratch = s->slices * s->n * (1 + s->cut.blocks),
                      .scale = 1.0F};

    r.a.kind = CHARL_ARG_IN;
    return s->partial ? charl__reduce_slices(e, &r, 0) : charl__reduce_sum(e, &r);
}

/* Values of WHAT in the kernel. */
static int what_is_summed(const charl__channels *c)
{
    if (c->invstd) {
        return 1;
    }
    return c->mean ? 0 : c->moments ? 3 : 2;
}

charl_status charl__channels_sums(const charl__enqueue *e, const charl__channels *c)
{
    const block_sums s = begin_sums(e, &c->x->shape);
    const cut k = s.cut;
    const charl__norm_args numbers = {.rows = (uint64_t)k.rows,
                                      .channels = (uint64_t)c->x->shape.dim[1],
                                      .blocks = (uint64_t)k.blocks,
                                      .block = (uint64_t)k.block,
                                      .width = k.width,
                                      .lines = k.lines};
    const charl__arg args[] = {charl__in(c->x),
                               charl__in(c->g),
                               charl__in(c->mean),
                               charl__in(c->invstd),
                               s.parts,
                               charl__out(c->moments),
                               charl__struct(&numbers, sizeof numbers)};
    charl__launch l = {.file = "norm/channels",
                       .entry = "charl_channel_sums",
                       .params = {{"ACT", .text = charl__kernel_type(c->x->dtype)}, {"WHAT", what_is_summed(c)}},
                       .global = {(size_t)(s.slices * k.blocks * k.across * GROUP)},
                       .local = {GROUP},
                       .label = e->label};

    CHARL_TRY(launch(e, &l, args, (int)(sizeof args / sizeof args[0])));
    CHARL_TRY(end_sums(e, &s));
    return CHARL_OK;
}

charl_status charl__channels_squares(const charl__enqueue *e, const charl_shape *x, const charl_tensor *moments,
                                     const charl_tensor *mean)
{
    const block_sums s = begin_sums(e, x);
    const int64_t units = s.slices * s.cut.blocks;
    charl__launch l = {.file = "norm/channels",
                       .entry = "charl_channel_squares",
                       .args = {charl__in(moments), charl__in(mean), s.parts, charl__i64(units), charl__i64(s.cut.rows),
                                charl__i64(s.n), charl__i64(s.cut.blocks), charl__i64(s.cut.block)},
                       .label = e->label};

    charl__span_launch(e->dev, units * s.n / LANES, 1, &l);
    CHARL_TRY(charl__launch_enqueue(e->dev, &l));
    CHARL_TRY(end_sums(e, &s));
    return CHARL_OK;
}

charl_status charl__channels_gradient(const charl__enqueue *e, double count)
{
    const charl_shape *x = &e->in[1]->shape;
    const int64_t rows = x->dim[0] * x->dim[2] * x->dim[3], channels = x->dim[1];
    const bool weight = e->n_in > 5;
    const charl__norm_args numbers = {
        .rows = (uint64_t)rows, .channels = (uint64_t)channels, .block = GRADIENT_ROWS, .scale = (float)(1.0 / count)};
    const charl__arg args[] = {charl__in(e->in[1]),
                               charl__in(e->in[0]),
                               charl__in(e->in[2]),
                               charl__in(e->in[3]),
                               charl__in(weight ? e->in[5] : NULL),
                               charl__in(e->in[4]),
                               charl__out(e->out[0]),
                               charl__struct(&numbers, sizeof numbers)};
    charl__launch l = {.file = "norm/channels",
                       .entry = "charl_channel_gradient",
                       .params = {{"ACT", .text = charl__kernel_type(e->in[1]->dtype)}, {"WEIGHT", weight}},
                       .label = e->label};

    charl__span_launch(e->dev, charl__ceil_div(rows, GRADIENT_ROWS) * channels / LANES, 1, &l);
    return launch(e, &l, args, (int)(sizeof args / sizeof args[0]));
}
