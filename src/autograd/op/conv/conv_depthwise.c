/* Depthwise convolutions: every channel has its own window. As products they would have one row each. On devices with
 * work-groups, kernels that read the images directly compute them (kernels/conv/conv_depthwise.cl), with the bits of the products. */
#include <limits.h>

#include "autograd/op/conv/conv_backend.h"

#include "autograd/launch/gemm_slices.h"
#include "autograd/launch/map.h"
#include "autograd/launch/rows.h"

enum {
    MOST_TAPS = 64, /* code that is unrolled for larger windows takes long to compile */
    MOST_REACH = 16,
    MOST_STRIDE = 4,
    MOST_EXTENT = INT_MAX / 64,
    LARGE_WINDOW = 16, /* with more taps than this, taller blocks save reads */
    BLOCK_ROWS = 2,
    TALL_BLOCK_ROWS = 4,
    BLOCK_COLUMNS = 4,
    VECTOR = 4,        /* channels of a work-item, for images that are channels-last, */
    LANES = 8,         /* work-items of a group beside one another, */
    BLOCKS = 16,       /* and blocks of a group */
    WEIGHT_VECTOR = 2, /* channels of a work-item for the gradient of the weight, */
    WEIGHT_LANES = 16, /* work-items of a group beside one another, */
    MOST_COLUMNS = 16, /* columns of d out that one reads at a time, */
    MOST_SPREAD = 40   /* and of the image */
};

static int reach_of(const charl__conv *c, int axis)
{
    return (c->kernel[axis] - 1) * c->dilation[axis] + 1;
}

/* Kernels count pixels of a plane by int, and read images of at least one pixel. */
static bool fits(const charl__conv *c)
{
    return c->h > 0 && c->w > 0 && c->h <= MOST_EXTENT && c->w <= MOST_EXTENT && c->h * c->w <= INT_MAX &&
           c->oh <= MOST_EXTENT && c->ow <= MOST_EXTENT && c->oh * c->ow <= INT_MAX && c->c <= INT_MAX &&
           c->batch <= INT_MAX;
}

static bool supports(const charl_device *dev, charl_dtype type, const charl__conv *c)
{
    (void)type;
    if (!dev || charl__is_ungrouped(dev) || charl_device_get_info(dev)->max_group < WEIGHT_LANES * MOST_REACH) {
        return false;
    }
    if (c->groups == 1 || c->c != c->groups || c->o != c->groups || c->kernel[0] > MOST_TAPS / c->kernel[1] ||
        !fits(c)) {
        return false;
    }
    for (int d = 0; d < 2; d++) {
        if (c->dilation[d] > MOST_REACH || reach_of(c, d) > MOST_REACH || c->stride[d] > MOST_STRIDE) {
            return false;
        }
    }
    return true;
}

static void set_params(const charl__conv *c, charl_dtype type, bool channels_last, charl__launch *l)
{
    charl__conv_set_window(c, l);
    charl__launch_set(l, "LAST", channels_last);
    charl__launch_set_text(l, "ACT", charl__kernel_type(type));
}

/* out [batch, c, h, w] from an image of other extents. */
static charl_status launch(const charl__enqueue *e, const charl__conv *c, bool is_gradient)
{
    const charl_shape *from = &e->in[0]->shape, *to = &e->out[0]->shape;
    const bool channels_last = e->out[0]->channels_last;
    const int rows = c->kernel[0] * c->kernel[1] > LARGE_WINDOW ? TALL_BLOCK_ROWS : BLOCK_ROWS;
    const int ty = (int)charl__ceil_div(rows, c->stride[0]) * c->stride[0],
              tx = (int)charl__ceil_div(BLOCK_COLUMNS, c->stride[1]) * c->stride[1];
    const int64_t blocks =
        c->batch * charl__ceil_div(to->dim[2], ty) * charl__ceil_div(to->dim[3], tx) * (channels_last ? 1 : c->c);
    charl__launch l = {.file = "conv/conv_depthwise", .entry = "charl_depthwise", .label = e->label};

    set_params(c, e->in[0]->dtype, channels_last, &l);
    charl__launch_set(&l, "GRADIENT", is_gradient);
    charl__launch_set(&l, "TY", ty);
    charl__launch_set(&l, "TX", tx);
    charl__launch_set(&l, "V", VECTOR);
    charl__launch_set(&l, "LANES_X", LANES);
    charl__launch_set(&l, "LANES_Y", BLOCKS);
    charl__launch_add(&l, charl__in(e->in[0]));
    charl__launch_add(&l, charl__in(e->in[1]));
    charl__launch_add(&l, e->n_in > 2 ? charl__in(e->in[2]) : charl__raw(CHARL_ARG_IN, NULL));
    charl__launch_add(&l, charl__out(e->out[0]));
    charl__launch_add(&l, charl__i64(blocks));
    charl__launch_add(&l, charl__i32((int32_t)c->c));
    charl__launch_add(&l, charl__i32((int32_t)from->dim[2]));
    charl__launch_add(&l, charl__i32((int32_t)from->dim[3]));
    charl__launch_add(&l, charl__i32((int32_t)to->dim[2]));
    charl__launch_add(&l, charl__i32((int32_t)to->dim[3]));
    if (channels_last) {
        l.local[0] = (size_t)LANES * BLOCKS;
        l.global[0] = (size_t)(charl__ceil_div(c->c, VECTOR * LANES) * charl__ceil_div(blocks, BLOCKS)) * l.local[0];
    } else {
        charl__span_launch(e->dev, blocks, 1, &l);
    }
    return charl__launch_enqueue(e->dev, &l);
}

static charl_status enqueue(const charl__enqueue *e, const charl__conv *c)
{
    return launch(e, c, false);
}

static charl_status enqueue_input(const charl__enqueue *e, const charl__conv *c)
{
    return launch(e, c, true);
}

/* Columns of d out that are read at a time, chosen so that a row divides nearly evenly. */
static int columns_of(const charl__conv *c)
{
    int most = (MOST_SPREAD - reach_of(c, 1)) / c->stride[1] + 1;

    most = most < MOST_COLUMNS ? most : MOST_COLUMNS;
    return (int)charl__ceil_div(c->ow, charl__ceil_div(c->ow, most));
}

/* A leaf of the tree for each part of each slice. */
static charl_status enqueue_weight(const charl__enqueue *e, const charl__conv *c)
{
    const bool has_slices = charl__is_partial(e, 0), channels_last = e->in[0]->channels_last;
    const int64_t rows = has_slices ? c->batch / e->slices->count : c->batch;
    const charl__gemm product = charl__conv_weight_gradient(c, has_slices ? e->slices->count : 1);
    const int parts = has_slices ? charl__gemm_slices_parts(&product, e->in[0]->dtype) : 1;
    const charl_slices slices = charl__cut_slices(e->slices, parts);
    const int64_t elements = charl__tensor_count(e->out[0]), leaves = has_slices ? slices.count : 1;
    const int vector = channels_last ? WEIGHT_VECTOR : 1;
    charl__launch l = {.file = "conv/conv_depthwise", .entry = "charl_depthwise_weight", .label = e->label};
    charl__enqueue each = *e;

    each.slices = &slices;
    each.parts = parts;
    set_params(c, e->in[0]->dtype, channels_last, &l);
    charl__launch_set(&l, "TX", columns_of(c));
    charl__launch_set(&l, "V", vector);
    charl__launch_set(&l, "LANES_X", WEIGHT_LANES);
    charl__launch_set(&l, "LANES_Y", c->kernel[0]);
    charl__launch_add(&l, charl__in(e->in[0]));
    charl__launch_add(&l, charl__in(e->in[1]));
    charl__launch_add(&l, has_slices ? charl__out(charl__fold_target(&each, 0)) : charl__out(e->out[0]));
    charl__launch_add(&l, charl__i32((int32_t)(rows / parts)));
    charl__launch_add(&l, charl__i32((int32_t)c->c));
    charl__launch_add(&l, charl__i32((int32_t)c->h));
    charl__launch_add(&l, charl__i32((int32_t)c->w));
    charl__launch_add(&l, charl__i32((int32_t)c->oh));
    charl__launch_add(&l, charl__i32((int32_t)c->ow));
    l.local[0] = (size_t)WEIGHT_LANES * (size_t)c->kernel[0];
    l.global[0] = (size_t)(charl__ceil_div(c->c, vector * WEIGHT_LANES) * leaves) * l.local[0];
    if (elements == 0) {
        return CHARL_OK;
    }
    CHARL_TRY(charl__launch_enqueue(e->dev, &l));
    if (has_slices && !charl__fold_is_direct(&each)) {
        CHARL_TRY(charl__fold_inputs(
            &each, &(charl__fold_input){charl__scratch_arg(CHARL_ARG_IN, e->workspace, 0), elements, 0, NULL}, 1));
    }
    return CHARL_OK;
}

const charl__conv_backend charl__conv_depthwise = {.name = "depthwise",
                                                   .supports = supports,
                                                   .layout = CHARL_LAYOUT_CHANNELS_LAST,
                                                   .workspace = charl__conv_no_workspace,
                                                   .input_workspace = charl__conv_no_workspace,
                                                   .weight_workspace = charl__conv_slices_workspace,
                                                   .enqueue = enqueue,
                                                   .enqueue_input = enqueue_input,
                                                   .enqueue_weight = enqueue_weight};
