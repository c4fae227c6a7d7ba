/* conv2d and its gradients on NVIDIA's tensor cores (tensor/conv/nvidia/conv_tensor_core.h), from and to the operators' own layouts: images that
 * are not channels-last are converted in the workspace, and weights to [rows, kh, kw, padded channels], by one launch each. */
#include "autograd/op/conv/conv_backend.h"
#include "tensor/conv/nvidia/conv_tensor_core.h"

#include "autograd/launch/gemm_slices.h"
#include "autograd/launch/rows.h"

enum { ALIGN = 16, HALF_BYTES = 2, TILE = 128, ENOUGH_TILES = 64, MOST_PARTS = 64, THIN = 64, SHORTEST_PART = 1024 };

static int64_t count_taps(const charl__conv *c)
{
    return (int64_t)c->kernel[0] * c->kernel[1];
}

/* A product of matrices in their stored layout: every pixel is a row of channels. */
static bool is_matrix(const charl__conv *c)
{
    for (int d = 0; d < 2; d++) {
        if (c->kernel[d] != 1 || c->stride[d] != 1 || c->padding[d] != 0) {
            return false;
        }
    }
    return charl__conv_padded(c->c) == c->c && charl__conv_padded(c->o) == c->o;
}

/* Products with few columns are faster in the convolution's thin tile. */
static bool is_product(const charl__conv *c, bool of_x)
{
    return is_matrix(c) && (of_x ? c->c : c->o) > THIN;
}

static bool supports(const charl_device *dev, charl_dtype type, const charl__conv *c)
{
    return dev && (type == CHARL_BF16 || type == CHARL_F16) && charl__device_has_nvidia_cores(dev, type) &&
           c->groups == 1;
}

static bool input_is_product(const charl__infer *inf, const charl__conv *c)
{
    return inf->channels_last && is_product(c, true);
}

/* The gradient of the weight in that case: outer products of pixels, for each slice. */
static charl__gemm matrix_gradient(const charl__conv *c, int64_t slices)
{
    const int64_t pixels = c->batch / slices * c->oh * c->ow;

    return (charl__gemm){.a = {.kind = CHARL_GEMM_TRANSPOSED, .outer = pixels * c->o},
                         .b = {.outer = pixels * c->c},
                         .out = {.outer = c->o * c->c},
                         .m = c->o,
                         .n = c->c,
                         .k = pixels,
                         .count = slices};
}

/* Bytes of n 16-bit elements in the workspace. */
static int64_t half_bytes(int64_t n)
{
    return (n * HALF_BYTES + ALIGN - 1) / ALIGN * ALIGN;
}

static int64_t image_bytes(const charl__conv *c)
{
    return half_bytes(c->batch * c->h * c->w * charl__conv_padded(c->c));
}

static int64_t output_bytes(const charl__conv *c)
{
    return half_bytes(c->batch * c->oh * c->ow * charl__conv_padded(c->o));
}

static int64_t workspace(const charl__conv *c)
{
    return ALIGN + image_bytes(c) + output_bytes(c) + half_bytes(c->o * count_taps(c) * charl__conv_padded(c->c));
}

static int64_t input_workspace(const charl__conv *c)
{
    return ALIGN + image_bytes(c) + output_bytes(c) + half_bytes(c->c * count_taps(c) * charl__conv_padded(c->o));
}

/* Whether the sum over so many samples may be divided into that many equal parts: of whole samples, or of SHORTEST_PART pixels at least. */
static bool can_cut(const charl__conv *c, int64_t rows, int parts)
{
    const int64_t pixels = rows * c->oh * c->ow;

    return rows > 0 && (rows % parts == 0 || (pixels % parts == 0 && pixels / parts >= SHORTEST_PART));
}

/* Enough parts to occupy a device. A power of two, so that the tree over parts and slices consists of the tree
 * over slices, of trees over parts. */
static int parts_of(const charl__conv *c, int64_t rows)
{
    const int64_t columns = count_taps(c) * charl__conv_padded(c->c);
    const int64_t tiles = ((c->o + TILE - 1) / TILE) * ((columns + TILE - 1) / TILE);
    int parts = 1;

    while (parts < MOST_PARTS && tiles * parts < ENOUGH_TILES && can_cut(c, rows, 2 * parts)) {
        parts *= 2;
    }
    return parts;
}

/* Bytes of a leaf [o, taps, padded c] of the gradient of the weight. */
static int64_t leaf_bytes(const charl__conv *c)
{
    return c->o * count_taps(c) * charl__conv_padded(c->c) * (int64_t)sizeof(float);
}

static int64_t weight_workspace(const charl__conv *c, charl_dtype type, int slices)
{
    const int64_t rows = slices > 0 ? c->batch / slices : 0;
    int64_t leaves = 0;

    if (is_matrix(c) && slices > 0) {
        const charl__gemm p = matrix_gradient(c, slices);

        leaves = charl__gemm_slices_workspace(&p, type, slices);
    } else if (!is_matrix(c)) {
        leaves = (slices > 0 ? slices * parts_of(c, rows) : 1) * leaf_bytes(c);
    }
    return ALIGN + image_bytes(c) + output_bytes(c) + leaves;
}

/* The workspace, and how much of it is used. */
typedef struct carver {
    const charl__enqueue *e;
    int64_t used; /* bytes from the start of its buffer, a multiple of ALIGN */
} carver;

static carver start_at(const charl__enqueue *e, int64_t bytes)
{
    const int64_t at = e->workspace->offset * (int64_t)sizeof(float) + bytes;

    return (carver){e, (at + ALIGN - 1) / ALIGN * ALIGN};
}

static charl_tensor carve(carver *w, charl_dtype dtype, int64_t bytes)
{
    charl_tensor t = *w->e->workspace;

    t.dtype = dtype;
    t.offset = w->used / (int64_t)charl_dtype_size(dtype);
    t.shape = (charl_shape){1, {bytes / (int64_t)charl_dtype_size(dtype)}};
    w->used += bytes;
    return t;
}

/* An image [batch, channels, pixels] as channels-last. */
static charl_status channels_last_of(carver *w, const charl_tensor *t, int64_t channels, int64_t pixels,
                                     charl_tensor *out)
{
    const int64_t padded = charl__conv_padded(channels);

    if (t->channels_last) {
        *out = *t;
        return CHARL_OK;
    }
    *out = carve(w, t->dtype, half_bytes(t->shape.dim[0] * pixels * padded));
    return charl__conv_swap_enqueue(w->e->dev, &(charl__conv_swap){.from = *t,
                                                                   .to = *out,
                                                                   .batch = t->shape.dim[0],
                                                                   .rows = channels,
                                                                   .cols = pixels,
                                                                   .from_ld = pixels,
                                                                   .to_ld = padded,
                                                                   .label = w->e->label});
}

/* Where a result [batch, pixels, channels] is computed. */
static charl_tensor begin_image(carver *w, const charl_tensor *t)
{
    return t->channels_last ? *t : carve(w, t->dtype, half_bytes(charl__tensor_count(t)));
}

/* Copy the result to t, transposed unless t is channels-last too. */
static charl_status give_image(carver *w, const charl_tensor *result, charl_tensor *t, int64_t channels, int64_t pixels)
{
    if (t->channels_last) {
        return CHARL_OK;
    }
    return charl__conv_swap_enqueue(w->e->dev, &(charl__conv_swap){.from = *result,
                                                                   .to = *t,
                                                                   .batch = t->shape.dim[0],
                                                                   .rows = pixels,
                                                                   .cols = channels,
                                                                   .from_ld = channels,
                                                                   .to_ld = pixels,
                                                                   .label = w->e->label});
}

/* The weight [batch, rows, cols] as [batch, cols, padded rows]: often without a copy. */
static charl_status padded_weight_of(carver *w, const charl_tensor *t, int64_t batch, int64_t rows, int64_t cols,
                                     charl_tensor *out)
{
    const int64_t padded = charl__conv_padded(rows);

    if (cols == 1 && padded == rows && t->offset % CHARL_CONV_CHUNK == 0) {
        *out = *t;
        return CHARL_OK;
    }
    *out = carve(w, t->dtype, half_bytes(batch * cols * padded));
    return charl__conv_swap_enqueue(w->e->dev, &(charl__conv_swap){.from = *t,
                                                                   .to = *out,
                                                                   .batch = batch,
                                                                   .rows = rows,
                                                                   .cols = cols,
                                                                   .from_ld = cols,
                                                                   .to_ld = padded,
                                                                   .label = w->e->label});
}

static charl_status enqueue(const charl__enqueue *e, const charl__conv *c)
{
    charl__conv_product p = charl__conv_product_forward(c);
    carver w = start_at(e, 0);

    CHARL_TRY(channels_last_of(&w, e->in[0], c->c, c->h * c->w, &p.a));
    CHARL_TRY(padded_weight_of(&w, e->in[1], c->o, c->c, count_taps(c), &p.b));
    p.out = begin_image(&w, e->out[0]);
    p.bias = e->n_in > 2 ? e->in[2] : NULL;
    p.label = e->label;
    if (is_product(c, false)) {
        CHARL_TRY(charl__gemm_enqueue(e->dev,
                                      &(charl__gemm){.a = {&p.a},
                                                     .b = {&p.b, CHARL_GEMM_TRANSPOSED},
                                                     .bias = p.bias,
                                                     .out = {&p.out},
                                                     .m = p.m,
                                                     .n = c->o,
                                                     .k = c->c,
                                                     .bias_kind = p.bias ? CHARL_GEMM_BIAS_COLUMNS : CHARL_GEMM_NO_BIAS,
                                                     .label = e->label}));
    } else {
        CHARL_TRY(charl__conv_product_enqueue(e->dev, &p));
    }
    CHARL_TRY(give_image(&w, &p.out, e->out[0], c->o, c->oh * c->ow));
    return CHARL_OK;
}

static charl_status enqueue_input(const charl__enqueue *e, const charl__conv *c)
{
    charl_tensor a, b, out;
    carver w = start_at(e, 0);

    CHARL_TRY(channels_last_of(&w, e->in[0], c->o, c->oh * c->ow, &a));
    out = begin_image(&w, e->out[0]);
    if (is_product(c, true)) {
        CHARL_TRY(charl__gemm_enqueue(e->dev, &(charl__gemm){.a = {&a},
                                                             .b = {e->in[1]},
                                                             .out = {&out},
                                                             .m = c->batch * c->h * c->w,
                                                             .n = c->c,
                                                             .k = c->o,
                                                             .epilogue = e->epilogue,
                                                             .label = e->label}));
        CHARL_TRY(give_image(&w, &out, e->out[0], c->c, c->h * c->w));
        return CHARL_OK;
    }
    CHARL_TRY(padded_weight_of(&w, e->in[1], 1, c->o, c->c * count_taps(c), &b));
    for (int y = 0; y < c->stride[0] && y < c->h; y++) {
        for (int x = 0; x < c->stride[1] && x < c->w; x++) {
            charl__conv_product p = charl__conv_product_input_gradient(c, (int[]){y, x});

            p.a = a;
            p.b = b;
            p.out = out;
            p.label = e->label;
            CHARL_TRY(charl__conv_product_enqueue(e->dev, &p));
        }
    }
    CHARL_TRY(give_image(&w, &out, e->out[0], c->c, c->h * c->w));
    return CHARL_OK;
}

/* The gradient of the weight by outer products of pixels in their stored layout. */
static charl_status multiply_pixels(const charl__enqueue *e, const charl__conv *c, int64_t slices)
{
    charl__gemm p = matrix_gradient(c, slices);
    const int64_t bytes =
        charl__is_partial(e, 0) ? charl__gemm_slices_workspace(&p, e->in[0]->dtype, e->slices->count) : 0;
    carver w = start_at(e, bytes);
    charl_tensor a, b, leaves = *e->workspace; /* its part of the workspace: images may follow */
    charl__enqueue own = *e;

    CHARL_TRY(channels_last_of(&w, e->in[0], c->o, c->oh * c->ow, &a));
    CHARL_TRY(channels_last_of(&w, e->in[1], c->c, c->h * c->w, &b));
    leaves.shape = (charl_shape){1, {bytes / (int64_t)sizeof(float)}};
    own.workspace = &leaves;
    p.a.tensor = &a;
    p.b.tensor = &b;
    p.label = e->label;
    CHARL_TRY(charl__gemm_slices(&own, &p, 0));
    return CHARL_OK;
}

/* A slice's sum is divided into 2, 4, 8 ... parts of equally many pixels, a number that depends on the extents; they are leaves of the tree. */
static charl_status enqueue_weight(const charl__enqueue *e, const charl__conv *c)
{
    static const charl_slices one = {.total = 1, .count = 1, .n_lanes = 1, .lane_hi = {1}};
    const bool has_slices = charl__is_partial(e, 0);
    const int64_t rows = has_slices ? c->batch / e->slices->count : c->batch;
    const int parts = has_slices ? parts_of(c, rows) : 1;
    const charl_slices slices = has_slices ? charl__cut_slices(e->slices, parts) : one;
    const charl__fold_move move = {c->c, count_taps(c), charl__conv_padded(c->c)};
    charl__conv_product p = charl__conv_product_weight_gradient(c, slices.count);
    charl__enqueue leaves = *e;
    carver w;

    if (is_matrix(c)) {
        return multiply_pixels(e, c, has_slices ? e->slices->count : 1);
    }
    leaves.slices = &slices;
    leaves.parts = parts;
    p.out = *e->workspace;
    p.label = e->label;
    w = start_at(e, slices.count * leaf_bytes(c));
    CHARL_TRY(channels_last_of(&w, e->in[0], c->o, c->oh * c->ow, &p.a));
    CHARL_TRY(channels_last_of(&w, e->in[1], c->c, c->h * c->w, &p.b));
    CHARL_TRY(charl__conv_product_enqueue(e->dev, &p));
    CHARL_TRY(charl__fold_inputs(&leaves,
                                 &(charl__fold_input){charl__scratch_arg(CHARL_ARG_IN, e->workspace, 0),
                                                      charl__tensor_count(e->out[0]), 0, &move},
                                 1));
    return CHARL_OK;
}

const charl__conv_backend charl__conv_tensor_cores = {.name = "tensor_core",
                                                      .supports = supports,
                                                      .layout = CHARL_LAYOUT_ANY,
                                                      .workspace = workspace,
                                                      .input_workspace = input_workspace,
                                                      .weight_workspace = weight_workspace,
                                                      .input_is_product = input_is_product,
                                                      .enqueue = enqueue,
                                                      .enqueue_input = enqueue_input,
                                                      .enqueue_weight = enqueue_weight};
