/* reshape, permute, slice, mean, max and upsample: layers without parameters that change the shape. Axes
 * are counted as in PyTorch: 0 is the batch, which they do not change. */
#include <stdio.h>

#include "autograd/graph.h"
#include "autograd/ops_data.h"
#include "nn/layer.h"

int charl__layer_axis(const charl_layer_build *b, const charl_var *x, int64_t axis)
{
    const int ndim = charl_var_get_type(x).shape.ndim;
    const int64_t at = axis < 0 ? axis + ndim : axis;
    char text[128];

    if (at < 1 || at >= ndim) {
        snprintf(text, sizeof text, "axis = %lld: axis 0 is the batch, and there are axes up to %d", (long long)axis,
                 ndim - 1);
        charl__graph_refuse(b->g, text);
        return -1;
    }
    return (int)at;
}

static charl_var *build_reshape(const charl_layer_build *b, charl_var *x)
{
    const charl_reshape_config *c = b->settings;
    const charl_shape in = charl_var_get_type(x).shape;
    charl_shape s = {.ndim = c->shape.count + 1, .dim = {in.ndim > 0 ? in.dim[0] : 0}};

    if (c->shape.count >= CHARL_MAX_DIMS || in.ndim == 0) {
        return charl__graph_refuse(b->g, "reshape: a row has at most 5 extents");
    }
    for (int i = 0; i < c->shape.count; i++) {
        s.dim[i + 1] = c->shape.values[i];
    }
    return charl_reshape(b->g, x, s);
}

static charl_var *build_permute(const charl_layer_build *b, charl_var *x)
{
    const charl_permute_config *c = b->settings;
    const int ndim = charl_var_get_type(x).shape.ndim;
    int perm[CHARL_MAX_DIMS] = {0};
    unsigned seen = 0;
    char text[128];

    for (int i = 0; i < c->order.count && c->order.count == ndim - 1; i++) {
        perm[i + 1] = (int)c->order.values[i];
        seen |= 1U << (c->order.values[i] & 31);
    }
    if (c->order.count != ndim - 1 || seen != (1U << ndim) - 2U) {
        snprintf(text, sizeof text, "permute: order needs each of the axes 1 to %d once", ndim - 1);
        return charl__graph_refuse(b->g, text);
    }
    return charl_transpose(b->g, x, perm);
}

/* Selecting positions of padded sequences requires that the ends of the sequences are known. */
static charl_var *slice_of_padded(const charl_layer_build *b, charl_var *x, const charl_slice_config *c, int64_t start,
                                  int64_t length)
{
    const int axis = charl__var_positions(x);
    const int64_t extent = charl_var_get_type(x).shape.dim[axis];
    charl_var *y;

    if (c->start == -1) {
        return charl__layer_last_position(b, x, true);
    }
    if ((start == 0 && length == 1) || (start == 1 && length == extent - 1 && charl__var_is_shifted(x))) {
        y = charl_slice(b->g, x, axis, start, length);
        charl__var_set_positions(y, start == 0 ? 0 : axis);
        return y;
    }
    return charl__graph_refuse(b->g, "slice: padded sequences have a first position (length = 1) and a last one "
                                     "(start = -1); what else is cut out may be padding");
}

static charl_var *build_slice(const charl_layer_build *b, charl_var *x)
{
    const charl_slice_config *c = b->settings;
    const int axis = charl__layer_axis(b, x, c->axis);
    const int64_t extent = axis > 0 ? charl_var_get_type(x).shape.dim[axis] : 0;
    const int64_t start = c->start < 0 ? c->start + extent : c->start;
    const int64_t length = c->length ? c->length : extent - start;
    char text[160];

    if (axis < 0) {
        return NULL;
    }
    if (start < 0 || length < 1 || length > extent - start) {
        snprintf(text, sizeof text, "slice: start = %lld, length = %lld leave axis %d, which has %lld elements",
                 (long long)c->start, (long long)c->length, axis, (long long)extent);
        return charl__graph_refuse(b->g, text);
    }
    if (axis == charl__var_positions(x) && length < extent) {
        return slice_of_padded(b, x, c, start, length);
    }
    return charl_slice(b->g, x, axis, start, length);
}

/* A sum is f32. */
static charl_var *in_type(const charl_layer_build *b, charl_var *y, charl_dtype dtype)
{
    return y && charl_var_get_type(y).dtype != dtype ? charl_cast(b->g, y, dtype) : y;
}

/* x without its positions: the sum of those that the mask marks; with `keep` with an extent of 1 there. */
static charl_var *sum_of_positions(const charl_layer_build *b, charl_var *x, charl_var *mask, bool keep)
{
    const int axis = charl__var_positions(x);
    charl_shape s = charl_var_get_type(x).shape, kept = s;
    int perm[CHARL_MAX_DIMS] = {0, axis};

    kept.dim[axis] = 1;
    for (int i = 2; i < s.ndim; i++) {
        perm[i] = i - (i <= axis);
    }
    if (axis != 1) { /* a mask is multiplied along the extent after the batch */
        x = charl_transpose(b->g, x, perm);
    }
    s.dim[1] = s.dim[axis];
    for (int i = 2; i < s.ndim; i++) {
        s.dim[i] = 1;
    }
    mask = in_type(b, charl_reshape(b->g, mask, s), x ? charl_var_get_type(x).dtype : CHARL_F32);
    x = charl_sum(b->g, charl_mul(b->g, x, mask), 1, keep && axis == 1);
    return keep && axis != 1 ? charl_reshape(b->g, x, kept) : x;
}

static charl_var *mean_of_positions(const charl_layer_build *b, charl_var *x, bool keep)
{
    charl_var *length = charl__graph_lengths(x);
    const charl_shape s = charl_var_get_type(x).shape;
    charl_var *mask = charl__sequence_mask(b->g, length, s.dim[charl__var_positions(x)], false);
    charl_var *count = charl_sum(b->g, mask, 1, true);
    charl_shape each = {s.ndim - !keep, {s.dim[0]}};

    for (int i = 1; i < each.ndim; i++) {
        each.dim[i] = 1;
    }
    return charl_div(b->g, sum_of_positions(b, x, mask, keep), charl_reshape(b->g, count, each));
}

charl_var *charl__layer_last_position(const charl_layer_build *b, charl_var *x, bool keep)
{
    const charl_type t = charl_var_get_type(x);
    charl_var *mask = charl__sequence_mask(b->g, charl__graph_lengths(x), t.shape.dim[charl__var_positions(x)], true);
    charl_var *y = in_type(b, sum_of_positions(b, x, mask, keep), t.dtype);

    charl__var_set_positions(y, 0);
    return y;
}

/* Position of x's extent of positions in y, which lost `axis`. */
static void keep_positions(const charl_var *x, int axis, bool keep, charl_var *y)
{
    const int at = charl__var_positions(x);

    charl__var_set_positions(y, at == axis ? 0 : at - (axis < at && !keep));
}

static charl_var *build_mean(const charl_layer_build *b, charl_var *x)
{
    const charl_axis_config *c = b->settings;
    const charl_dtype dtype = charl_var_get_type(x).dtype;
    const int axis = charl__layer_axis(b, x, c->axis);
    charl_var *y = NULL;

    if (axis > 0) {
        y = axis == charl__var_positions(x) ? mean_of_positions(b, x, c->keep) : charl_mean(b->g, x, axis, c->keep);
        y = in_type(b, y, dtype);
        keep_positions(x, axis, c->keep, y);
    }
    return y;
}

static charl_var *build_max(const charl_layer_build *b, charl_var *x)
{
    const charl_axis_config *c = b->settings;
    const int axis = charl__layer_axis(b, x, c->axis);
    charl_var *y;

    if (axis > 0 && axis == charl__var_positions(x)) {
        return charl__graph_refuse(b->g, "max over the positions of padded sequences would see the padding; mean does "
                                         "not");
    }
    y = axis > 0 ? charl_max(b->g, x, axis, c->keep) : NULL;
    if (axis > 0) {
        keep_positions(x, axis, c->keep, y);
    }
    return y;
}

static charl_var *build_upsample(const charl_layer_build *b, charl_var *x)
{
    const charl_upsample_config *c = b->settings;
    const bool volume = charl_var_get_type(x).shape.ndim == 5;
    const int h = (int)c->factor[0], w = (int)c->factor[1], d = c->depth > 0 ? (int)c->depth : h;
    const charl_upsample_args args = {.factor = {volume ? d : h, volume ? h : w, volume ? w : 1},
                                      .linear = c->mode != CHARL_UPSAMPLE_NEAREST};

    if (volume ? c->mode == CHARL_UPSAMPLE_BILINEAR : c->mode == CHARL_UPSAMPLE_TRILINEAR || c->depth > 0) {
        return charl__graph_refuse(b->g,
                                   volume ? "upsample: bilinear is for images; use trilinear for volumes"
                                          : "upsample: trilinear and depth are for volumes; use bilinear for images");
    }
    return (volume ? charl_upsample3d : charl_upsample2d)(b->g, x, &args);
}

static const charl_reshape_config reshape_defaults = {.shape = {0, {0}}};
static const charl_key reshape_keys[] = {
    CHARL__KEY(charl_reshape_config, shape, INTS, "[-1,1e9]", true,
               "extents of a row, without the batch, as in 64, -1; -1 takes the remaining elements"),
};
static const charl_permute_config permute_defaults = {.order = {0, {0}}};
static const charl_key permute_keys[] = {
    CHARL__KEY(charl_permute_config, order, INTS, "[1,5]", true,
               "axes of the input in their new order, without the batch: 2, 1 exchanges channels and positions"),
};
static const charl_slice_config slice_defaults = {.axis = 1};
static const charl_key slice_keys[] = {
    CHARL__KEY(charl_slice_config, axis, INT, "[-6,5]", false, "the extent that is cut; 0 is the batch"),
    CHARL__KEY(charl_slice_config, start, INT, "[-1e9,1e9]", false,
               "first element; below 0: counted from the end; -1: the last, before any padding"),
    CHARL__KEY(charl_slice_config, length, INT, "[0,1e9]", false, "elements; 0: to the end"),
};
static const charl_axis_config axis_defaults = {.axis = 1};
static const charl_key axis_keys[] = {
    CHARL__KEY(charl_axis_config, axis, INT, "[-6,5]", false,
               "the extent that goes away: 1 for channels or positions (padding not counted), -1 for the last; 0 is "
               "the batch"),
    CHARL__KEY(charl_axis_config, keep, BOOL, NULL, false, "leave an extent of 1"),
};
static const charl_upsample_config upsample_defaults = {.factor = {2, 2}};
static const charl_key upsample_keys[] = {
    CHARL__KEY(charl_upsample_config, factor, PAIR, "[1,1024]", false, "how many times higher and wider"),
    CHARL__KEY(charl_upsample_config, depth, INT, "[0,1024]", false,
               "how many times deeper, for volumes; 0: as for the height"),
    CHARL__KEY(charl_upsample_config, mode, CHOICE, NULL, false,
               "repeat pixels, or interpolate between their centres as PyTorch does with align_corners = False: "
               "bilinear for images, trilinear for volumes",
               "nearest|bilinear|trilinear"),
};

const charl_layer_type charl__layer_reshape =
    CHARL__LAYER("reshape", "the same elements in another shape", build_reshape, CHARL__SETTINGS(reshape));

const charl_layer_type charl__layer_permute =
    CHARL__LAYER("permute", "axes in another order", build_permute, CHARL__SETTINGS(permute));

const charl_layer_type charl__layer_slice =
    CHARL__LAYER("slice", "a range of an axis", build_slice, CHARL__SETTINGS(slice));

const charl_layer_type charl__layer_mean = CHARL__LAYER("mean", "mean over an axis", build_mean, CHARL__SETTINGS(axis));

const charl_layer_type charl__layer_max =
    CHARL__LAYER("max", "largest element over an axis", build_max, CHARL__SETTINGS(axis));

const charl_layer_type charl__layer_upsample =
    CHARL__LAYER("upsample", "images or volumes enlarged by whole factors", build_upsample, CHARL__SETTINGS(upsample));
